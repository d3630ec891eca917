// The tables with a tenant's data: what can be imported and exported.

import type { Database } from '../store/migrations.ts';
import { CommandError } from './errors.ts';
import { queryRows } from './store.ts';

/** A column that a file may have. */
export type Column = {
  readonly name: string;
  /** As Postgres writes it. */
  readonly type: string;
  readonly required: boolean;
  /** In characters. */
  readonly max_length: number | null;
  /** The table that it refers to. */
  readonly refers_to: string | null;
  /** The column by which people know the records of that table. */
  readonly known_by: string | null;
};

export type Table = {
  readonly name: string;
  readonly columns: readonly Column[];
  /** The column by which people know its records; undefined if no other table refers to them. */
  readonly knownBy?: string | undefined;
};

/** All tables, each after those that it refers to. */
export async function readTables(db: Database): Promise<Table[]> {
  const columns = '(select json_agg(c) from private.data_columns(t.name) c) as columns';
  const tables = await queryRows<Table>(db, `select t.name, ${columns} from private.data_tables() t`);
  const references = tables.flatMap((table) => table.columns).filter((column) => column.refers_to !== null);
  return tables.map(({ name, columns }) => {
    const knownBy = references.find((column) => column.refers_to === name)?.known_by ?? undefined;
    return { name: withoutSchema(name), columns, knownBy };
  });
}

/** Finds a table by its name. Throws CommandError, with all names. */
export function findTable(tables: readonly Table[], name: string): Table {
  const found = tables.find((table) => table.name === name);
  if (found) return found;
  const names = tables.map((table) => table.name).join(', ');
  throw new CommandError({ error: `There is no resource ${name}`, hint: `The resources are ${names}.` });
}

export function withoutSchema(table: string): string {
  return table.replace(/^private\./, '');
}
