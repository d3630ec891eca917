import type { Operation } from '../openapi/operations.ts';

/** A string with the comma before it and the null behind it, if it is a name, or a bracket. */
const TOKEN = /(,?)("(?:[^"\\]|\\.)*")(\s*:\s*null)?|[[\]{}]/g;

/**
 * Leaves the optional properties that are null out of the records in a JSON text: absent is how a property that is not nullable
 * says it. The rest of the text stays as it is: parsing it would round its numbers, and take longer.
 */
export function leaveOutNulls(json: string, { returns, optional }: Pick<Operation, 'returns' | 'optional'>): string {
  const depth = returns === 'rows' ? 2 : 1;
  const names = optional.map((name) => JSON.stringify(name));
  let level = 0;
  let isFirst = false;
  return json.replace(
    TOKEN,
    (whole, comma: string | undefined, text: string | undefined, isNull: string | undefined) => {
      if (text === undefined) {
        level += whole === '{' || whole === '[' ? 1 : -1;
        if (whole === '{' && level === depth) isFirst = true;
        return whole;
      }
      if (level !== depth) return whole;
      if (isNull !== undefined && names.includes(text)) return '';
      const rest = isFirst && comma ? whole.slice(1) : whole;
      isFirst = false;
      return rest;
    },
  );
}
