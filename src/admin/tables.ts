// The tables with a tenant's data, as the database's catalog has them, and the one way of texts into their rows.

import type { Database } from '../store/migrations.ts';
import { addBlankTexts, createCheck, type Fields, inZone, toValue } from './columns.ts';
import { queryRows } from './database.ts';
import { type BadLine, CommandError } from './errors.ts';

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

export type OfTenant = { readonly tenant: string };

/** A column of a file: its name there, and the table's column; undefined for one that is left out. */
export type Header = { readonly title: string; readonly column: Column | undefined };

/**
 * A line: its texts as they are written, its valid fields (null for one to clear; undefined if it cannot be read), and
 * its problems.
 */
export type Line = {
  readonly line: number;
  readonly texts: readonly string[];
  readonly fields: Record<string, string | null> | undefined;
  readonly bad: BadLine[];
  /** The record that it changes. */
  id?: string;
  isSkipped?: boolean;
};

export type WriterOptions = OfTenant & {
  /** Of times without a zone. */
  readonly timeZone: string;
  /** Whether a line may lack required columns, because it changes a record. */
  readonly isPartial?: boolean;
};

/** Makes rows of the lines of a file, in the order of its functions. */
export type Writer = {
  /** Reads the texts of a line, in the order of the headers, and checks them without the database. */
  read(line: number, texts: readonly string[]): Line;
  /** Replaces the ids, e-mails and names of other records by ids. */
  resolve(lines: readonly Line[]): Promise<void>;
  /** Notes a problem of a line, and its column if there is one. */
  refuse(line: Line, column: string | null, message: string): void;
  /** Writes the good lines, and returns those that the table refuses. */
  send(lines: readonly Line[]): Promise<BadLine[]>;
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

/** Opens a table of a tenant. */
export async function openTable(db: Database, tenant: string, resource: string): Promise<Table> {
  await db.query('select private.require_tenant($1)', [tenant]);
  return findTable(await readTables(db), resource);
}

export function withoutSchema(table: string): string {
  return table.replace(/^private\./, '');
}

/** The ids of the records that each text names: an id, or what people know the records by. */
export async function findIds(
  db: Database,
  tenant: string,
  [table, knownBy]: readonly [table: string, knownBy: string | null | undefined],
  texts: readonly string[],
): Promise<Map<string, string[]>> {
  const found = new Map(texts.map((text) => [text, [] as string[]]));
  const records = await queryRows<{ value: string; id: string }>(
    db,
    'select * from private.find_records($1, $2::text::regclass, $3, $4)',
    [tenant, `private.${table}`, knownBy ?? null, JSON.stringify(texts)],
  );
  for (const { value, id } of records) found.get(value)?.push(id);
  return found;
}

export function createWriter(
  db: Database,
  { name: table, columns }: Table,
  headers: readonly Header[],
  { tenant, timeZone, isPartial = false }: WriterOptions,
): Writer {
  const check = createCheck(columns, { isPartial });
  /** The ids of texts by column: each text is looked for once. */
  const known = new Map<Column, Map<string, string[]>>();

  const toBad = ({ line, texts }: Line, name: string | null, message: string): BadLine => {
    const index = headers.findIndex(({ column }) => column && column.name === name);
    return { line, field: headers[index]?.title ?? name, value: texts[index]?.trim() || null, message };
  };
  const refuse = (line: Line, name: string | null, message: string) => {
    line.bad.push(toBad(line, name, message));
  };

  async function find(column: Column, referred: string, texts: ReadonlySet<string>): Promise<Map<string, string[]>> {
    const ids = known.get(column) ?? new Map<string, string[]>();
    known.set(column, ids);
    const unknown = [...texts].filter((text) => !ids.has(text));
    const found = await findIds(db, tenant, [referred, column.known_by], unknown);
    for (const [text, own] of found) ids.set(text, own);
    return ids;
  }

  return {
    refuse,
    read: (line, texts) => {
      const values = headers.flatMap(({ column }, index) =>
        column ? [{ column, text: toValue(texts[index] ?? '', column) }] : [],
      );
      const fields: Fields = {};
      for (const { column, text } of values) if (text !== '') fields[column.name] = text;
      if (!isPartial) addBlankTexts(fields, columns);
      const read: Line = { line, texts, fields, bad: [] };
      for (const [name, messages] of Object.entries(check(fields))) {
        for (const message of messages) refuse(read, name, message);
        delete fields[name];
      }
      for (const { column, text } of values) {
        if (column.name in fields) fields[column.name] = inZone(text, column, timeZone);
      }
      return read;
    },
    resolve: async (lines) => {
      for (const { column } of headers) {
        if (!column?.refers_to) continue;
        const { name, known_by: label } = column;
        const referred = withoutSchema(column.refers_to);
        const ids = await find(column, referred, new Set(lines.flatMap(({ fields }) => fields?.[name] ?? [])));
        for (const line of lines) {
          const text = line.fields?.[name];
          if (!line.fields || !text) continue;
          const [id, another] = ids.get(text) ?? [];
          if (id !== undefined && another === undefined) line.fields[name] = id;
          else if (id !== undefined) refuse(line, name, `is the ${label} of several ${referred}: give the id`);
          else refuse(line, name, `none of the tenant's ${referred} has this id${label ? ` or ${label}` : ''}`);
        }
      }
    },
    send: async (lines) => {
      const good = new Map(
        lines.filter(({ bad, isSkipped }) => bad.length === 0 && !isSkipped).map((line) => [line.line, line]),
      );
      const refused: BadLine[] = [];
      for (const [isChange, sent] of Map.groupBy(good.values(), ({ id }) => id !== undefined)) {
        const texts = JSON.stringify(sent.map(({ line, fields, id }) => ({ line, fields, id })));
        const sql = 'select * from private.import_rows($1, $2::text::regclass, $3, $4)';
        const bad = await queryRows<BadLine>(db, sql, [tenant, `private.${table}`, texts, isChange]);
        refused.push(...bad.map(({ line, field, message }) => toBad(good.get(line) as Line, field, message)));
      }
      return refused;
    },
  };
}
