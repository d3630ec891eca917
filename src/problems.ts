// What can be wrong with a value that a schema cannot say.

import type { Json } from './store/store.ts';

/** Messages by the name of the parameter or field. */
export type Problems = Map<string, string[]>;

/** JSON nested deeper than this is refused: a database of 7,000 levels' depth answers nothing and then hangs. */
export const MAX_DEPTH = 64;

/** Why Postgres could not hold a value as it is, or undefined where it can. */
export function findProblem(value: Json): string | undefined {
  let level: readonly Json[] = [value];
  for (let depth = 0; level.length > 0; depth += 1) {
    if (depth === MAX_DEPTH && level.some(isContainer)) return `must not be nested deeper than ${MAX_DEPTH} levels`;
    for (const item of level) {
      const problem = findOwnProblem(item);
      if (problem !== undefined) return problem;
    }
    level = level.flatMap(children);
  }
  return undefined;
}

function findOwnProblem(value: Json): string | undefined {
  if (typeof value === 'string' && (value.includes('\0') || !value.isWellFormed())) {
    return 'must not contain U+0000 or an unpaired surrogate';
  }
  // JSON.parse reads 1e400 as infinity, which JSON cannot write again.
  if (typeof value === 'number' && !Number.isFinite(value)) return 'must not contain a number out of range';
  return undefined;
}

function children(value: Json): readonly Json[] {
  if (!isContainer(value)) return [];
  return Array.isArray(value) ? value : [...Object.keys(value), ...Object.values(value)];
}

function isContainer(value: Json): value is Extract<Json, object> {
  return typeof value === 'object' && value !== null;
}
