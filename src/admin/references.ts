// References to other records, which people write as an e-mail, a name or an id.

import type { Database } from '../store/migrations.ts';
import type { Fields } from './columns.ts';
import type { BadLine } from './errors.ts';
import { queryRows } from './store.ts';
import { type Column, withoutSchema } from './tables.ts';

/** A column of a file: its name there, and the table's column; undefined for one that is left out. */
export type Header = { readonly title: string; readonly column: Column | undefined };

/** A line: its valid fields, or undefined if it cannot be read, and its problems. */
export type FileLine = { readonly line: number; readonly fields: Fields | undefined; readonly bad: BadLine[] };

/** Creates a function that replaces the ids, e-mails and names of other records by ids; it looks for each text once. */
export function createFinder(
  db: Database,
  tenant: string,
): (lines: readonly FileLine[], headers: readonly Header[]) => Promise<void> {
  const found = new Map<Column, Map<string, string[]>>();

  async function find(column: Column, texts: readonly string[]): Promise<Map<string, string[]>> {
    const ids = found.get(column) ?? new Map<string, string[]>();
    found.set(column, ids);
    const unknown = [...new Set(texts)].filter((text) => !ids.has(text));
    for (const text of unknown) ids.set(text, []);
    const records = await queryRows<{ value: string; id: string }>(
      db,
      'select * from private.find_records($1, $2::text::regclass, $3, $4)',
      [tenant, column.refers_to, column.known_by, JSON.stringify(unknown)],
    );
    for (const { value, id } of records) ids.get(value)?.push(id);
    return ids;
  }

  return async (lines, headers) => {
    for (const { title, column } of headers) {
      if (!column?.refers_to) continue;
      const ids = await find(
        column,
        lines.flatMap(({ fields }) => fields?.[column.name] ?? []),
      );
      for (const { line, fields, bad } of lines) {
        const text = fields?.[column.name];
        if (!fields || text === undefined) continue;
        const [id, another] = ids.get(text) ?? [];
        if (id !== undefined && another === undefined) fields[column.name] = id;
        else bad.push({ line, field: title, message: describeReference(column, another !== undefined) });
      }
    }
  };
}

function describeReference({ refers_to: table, known_by: label }: Column, isOfSeveral: boolean): string {
  const records = withoutSchema(table ?? '');
  if (isOfSeveral) return `is the ${label} of several ${records}: give the id`;
  return `must be the id${label ? ` or the ${label}` : ''} of one of the tenant's ${records}`;
}
