// What can be wrong with a value that a schema cannot say.

import { MAX_DEPTH, messages } from './messages.ts';
import type { Json } from './store/store.ts';

/** Messages by the name of the parameter or field. */
export type Problems = Map<string, string[]>;

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
      if (open.length > MAX_DEPTH + 1) problems.set(field, [messages.isTooDeep.en]);
    } else if (token === '}' || token === ']') {
      open.pop();
    } else if (token === ':') {
      const name: string = JSON.parse(string);
      const names = open.at(-1);
      if (open.length === 1) field = name;
      if (names?.has(name) && !problems.has(field)) problems.set(field, [messages.isRepeated.en]);
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
    return messages.isNoText.en;
  }
  // JSON.parse reads 1e400 as infinity, which JSON cannot write again.
  if (typeof value === 'number' && !Number.isFinite(value)) return messages.isOutOfRange.en;
  if (typeof value !== 'object' || value === null) return undefined;
  const parts = Array.isArray(value) ? value : [...Object.keys(value), ...Object.values(value)];
  for (const part of parts) {
    const problem = findProblem(part);
    if (problem !== undefined) return problem;
  }
  return undefined;
}
