// What can be wrong with a value that a schema cannot say.

import type { Json } from './store/store.ts';

/** Messages by the name of the parameter or field. */
export type Problems = Map<string, string[]>;

/** JSON nested deeper than this is refused: a database of 7,000 levels' depth answers nothing and then hangs. */
export const MAX_DEPTH = 64;

/** A string, or a sign that opens, closes or names something, of a text that is known to be JSON. */
const TOKEN = /"(?:[^"\\]|\\.)*"|[{}[\]:]/g;

/**
 * The fields of a JSON object's text in which a name stands twice or which are nested too deep. Parsed, the text
 * would not tell: of two equal names JSON.parse takes the last and drops the other with all that is in it.
 */
export function inspectText(text: string): Problems {
  const problems: Problems = new Map();
  /** The names seen in each object that is open; an array has none. */
  const open: (Set<string> | undefined)[] = [];
  let field = '';
  let string = '';
  for (const [token] of text.matchAll(TOKEN)) {
    if (token === '{' || token === '[') {
      open.push(token === '{' ? new Set() : undefined);
      // The object itself is a level that its fields do not have.
      if (open.length > MAX_DEPTH + 1) problems.set(field, [`must not be nested deeper than ${MAX_DEPTH} levels`]);
    } else if (token === '}' || token === ']') {
      open.pop();
    } else if (token === ':') {
      const name: string = JSON.parse(string);
      const names = open.at(-1);
      if (open.length === 1) field = name;
      if (names?.has(name) && !problems.has(field)) problems.set(field, ['must be given once']);
      names?.add(name);
    } else {
      string = token;
    }
  }
  return problems;
}

/** Why Postgres could not hold a value as it is, or undefined where it can. Its depth has to be bounded. */
export function findProblem(value: Json): string | undefined {
  if (typeof value === 'string' && (value.includes('\0') || !value.isWellFormed())) {
    return 'must not contain U+0000 or an unpaired surrogate';
  }
  // JSON.parse reads 1e400 as infinity, which JSON cannot write again.
  if (typeof value === 'number' && !Number.isFinite(value)) return 'must not contain a number out of range';
  if (typeof value !== 'object' || value === null) return undefined;
  const parts = Array.isArray(value) ? value : [...Object.keys(value), ...Object.values(value)];
  for (const part of parts) {
    const problem = findProblem(part);
    if (problem !== undefined) return problem;
  }
  return undefined;
}
