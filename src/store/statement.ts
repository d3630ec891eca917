import type { Call } from './store.ts';

/** One SQL statement with its parameters, all in Postgres's text form. */
export type Statement = { readonly text: string; readonly values: readonly (string | null)[] };

/**
 * The statement of a call. It gives one row with one column, `json`: the function's rows as a JSON array, or its
 * single row as an object (null for none). Calls with the same function and argument names have the same text.
 */
export function toStatement(call: Call): Statement {
  const names = Object.keys(call.args);
  const args = names.map((name, index) => `${quote(name)} => $${index + 1}`).join(', ');
  // Through a subquery, or the row of a function with one column would be that column's value.
  const rows = `(select * from public.${quote(call.function)}(${args})) r`;
  return {
    text:
      call.returns === 'row'
        ? `select row_to_json(r)::text as json from ${rows}`
        : // Not json_agg, which puts a line break between the rows.
          `select '[' || coalesce(string_agg(row_to_json(r)::text, ','), '') || ']' as json from ${rows}`,
    values: names.map((name) => toText(call.args[name])),
  };
}

/** Sent as text, a value takes the type of the function's argument: no driver has to guess it. */
function toText(value: Call['args'][string] | undefined): string | null {
  if (value === null || value === undefined) return null;
  return typeof value === 'string' ? value : JSON.stringify(value);
}

function quote(identifier: string): string {
  return `"${identifier.replaceAll('"', '""')}"`;
}
