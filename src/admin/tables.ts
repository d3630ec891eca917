// The tables with tenants' data, as the database's catalog describes them.

import pg from 'pg';
import type { Database } from '../store/migrations.ts';
import { queryRows } from './database.ts';
import { t } from './language.ts';
import { CommandError } from './terminal.ts';

/** A column of a table or a file. */
export type Column = {
  readonly name: string;
  /** Postgres's name of the type. */
  readonly type: string;
  /** Whether it has to be given: it takes no null, and has no default. */
  readonly required: boolean;
  readonly takes_null: boolean;
  /** In characters. */
  readonly max_length: number | null;
  /** The table that it refers to. */
  readonly refers_to: string | null;
  /** The column of that table, an e-mail or a name, that may stand for the id. */
  readonly known_by: string | null;
};

export type Table = {
  /** Without the schema, and without the quotes of SQL. */
  readonly name: string;
  readonly columns: readonly Column[];
  /** The column of this table that may stand for the id; undefined if no table refers to this one. */
  readonly knownBy?: string | undefined;
};

export type OfTenant = { readonly tenant: string };

const TABLES = `
  select t.name, (
           select json_agg(
                    to_jsonb(c.*) || jsonb_build_object('takes_null', not (a.attnotnull or y.typnotnull or c.required))
                    order by a.attnum
                  )
             from private.data_columns(t.name) c
             join pg_attribute a on a.attrelid = t.name and a.attname = c.name
             join pg_type y on y.oid = a.atttypid
         ) as columns
    from private.data_tables() t`;

/** Reads all tables, each after those that it refers to. */
export async function readTables(db: Database): Promise<Table[]> {
  const tables = (await queryRows<Table>(db, TABLES)).map(({ name, columns }) => ({
    name: withoutSchema(name),
    columns: columns.map((column) => ({ ...column, refers_to: column.refers_to && withoutSchema(column.refers_to) })),
  }));
  const references = tables.flatMap(({ columns }) => columns);
  return tables.map((table) => {
    const reference = references.find(({ refers_to }) => refers_to === table.name);
    return { ...table, knownBy: reference?.known_by ?? undefined };
  });
}

/** Finds a table by its name, ignoring case if no table has the exact name. Throws CommandError. */
export function findTable(tables: readonly Table[], name: string): Table {
  const isNamed = (table: Table) => table.name.toLowerCase() === name.toLowerCase();
  const found = tables.find((table) => table.name === name) ?? tables.find(isNamed);
  if (found) return found;
  const names = tables.map((table) => table.name).join(', ');
  throw new CommandError(t`There is no resource ${name}`, t`The resources are ${names}.`);
}

/** Throws CommandError for a table without an `id` of type uuid, by which the SQL finds records. */
export function requireId({ name, columns }: Pick<Table, 'name' | 'columns'>, hint?: string): void {
  if (columns.some((column) => column.name === 'id' && column.type === 'uuid')) return;
  throw new CommandError(t`${name} has no column id of type uuid, by which a record is found`, hint);
}

/** Finds for each text the ids of the records that have it as their id, e-mail or name. */
export async function findIds(
  db: Database,
  tenant: string,
  [table, knownBy]: readonly [table: string, knownBy: string | null | undefined],
  texts: readonly string[],
): Promise<Map<string, string[]>> {
  const found = new Map(texts.map((text) => [text, [] as string[]]));
  const sql = 'select * from private.find_records($1, $2::text::regclass, $3, $4)';
  const values = [tenant, toIdentifier(table), knownBy ?? null, JSON.stringify(texts)];
  for (const { value, id } of await queryRows<{ value: string; id: string }>(db, sql, values))
    found.get(value)?.push(id);
  return found;
}

/** Lists the columns that may name a record: `id or email`. */
export function idAnd(knownBy: string | null | undefined): string {
  return knownBy ? t`id or ${knownBy}` : 'id';
}

/** The name of a table in SQL, with its schema. */
export function toIdentifier(table: string): string {
  return `private.${pg.escapeIdentifier(table)}`;
}

/** Reads the name of a table from its SQL identifier, such as `private."Contratos"`. */
export function withoutSchema(table: string): string {
  return table.replace(/^private\."?(.*?)"?$/, '$1').replaceAll('""', '"');
}
