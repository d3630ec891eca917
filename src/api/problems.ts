// What can be wrong with a value that a schema cannot say.

import type { Json } from '../store/store.ts';
import { MAX_DEPTH, messages } from './messages.ts';

/** Messages by the name of the parameter or field. */
export type Problems = Map<string, string[]>;

/**
 * The fields of a JSON object's text in which a name stands twice or which are nested too deep. JSON.parse does not tell:
 * of two equal names it takes the last and drops the other with all that is in it. Hand-written, because libraries that
 * report repeated names are recursive, and a body of 100 kB can be nested 50,000 levels deep.
 */
export function inspectText(text: string): Problems {
  const problems: Problems = new Map();
  /** The names seen in each object that is open; an array has none. */
  const open: (Set<string> | undefined)[] = [];
  let field = '';
  let string = '';
  for (let at = 0; at < text.length; at += 1) {
    const sign = text[at];
    if (sign === '"') {
      const end = findStringEnd(text, at);
      string = text.slice(at, end + 1);
      at = end;
    } else if (sign === '{' || sign === '[') {
      open.push(sign === '{' ? new Set() : undefined);
      // The object itself is a level that its fields do not have.
      if (open.length === MAX_DEPTH + 2) problems.set(field, [messages.isTooDeep.en]);
    } else if (sign === '}' || sign === ']') {
      open.pop();
    } else if (sign === ':') {
      const name: string = string.includes('\\') ? JSON.parse(string) : string.slice(1, -1);
      const names = open.at(-1);
      if (open.length === 1) field = name;
      if (names?.has(name) && !problems.has(field)) problems.set(field, [messages.isRepeated.en]);
      names?.add(name);
    }
  }
  return problems;
}

/** The index of the quote that ends the string which begins at an index. The text is known to be JSON. */
function findStringEnd(text: string, begin: number): number {
  let at = begin + 1;
  while (text[at] !== '"') at += text[at] === '\\' ? 2 : 1;
  return at;
}

/** Why Postgres could not hold a value as it is, or undefined where it can. Its depth has to be bounded. */
export function findProblem(value: Json): string | undefined {
  if (typeof value === 'string' && (value.includes('\0') || !value.isWellFormed())) {
    return messages.isNoText.en;
  }
  // JSON.parse reads 1e400 as infinity, which JSON cannot write again.
  if (typeof value === 'number' && !Number.isFinite(value)) return messages.isOutOfRange.en;
  if (typeof value !== 'object' || value === null) return undefined;
  for (const parts of Array.isArray(value) ? [value] : [Object.keys(value), Object.values(value)]) {
    for (const part of parts) {
      const problem = findProblem(part);
      if (problem !== undefined) return problem;
    }
  }
  return undefined;
}
