// The export of a tenant's data: a folder of CSV files (RFC 4180) that can be imported again.

import { mkdir, open, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { type Database, inTransaction } from '../store/migrations.ts';
import { toPath } from './arguments.ts';
import { toLine } from './csv.ts';
import { queryRow, queryTexts } from './database.ts';
import { t } from './language.ts';
import { type OfTenant, readTables } from './tables.ts';
import { CommandError, listCounts, type Output } from './terminal.ts';

/** A file to write: its name, the titles of its columns, and an expression for the query of their texts, with its parameters. */
type File = {
  readonly name: string;
  readonly titles: readonly string[];
  readonly query: string;
  readonly values: readonly string[];
};

/** The file of the usage of keys, which is not imported: the keys stay where they are. */
export const USAGE = 'usage';
const USAGE_QUERY = `
  format('select json_build_array(u.key_id, u.name, u.day, u.operation, u.class, u.calls::text)::text as texts
            from private.list_usage(%L, null, ''-infinity'', ''infinity'') u', $1::uuid)`;
/** Rows that are in memory at once. */
const BATCH = 5_000;

/** Writes a file for each table, with the rows of one moment. It replaces no file; after a failure it leaves none. */
export async function exportData(db: Database, folder: string, { tenant }: OfTenant): Promise<Output> {
  const path = toPath(folder);
  const written: string[] = [];
  const counts: [string, number][] = [];
  try {
    await inTransaction(db, async () => {
      await db.query('set transaction isolation level repeatable read read only');
      // The same data is the same file, wherever it is exported.
      await db.query(`set local timezone = 'UTC'`);
      // Personal data: for the owner alone.
      await mkdir(path, { recursive: true, mode: 0o700 });
      for (const file of await findFiles(db, tenant)) {
        const name = join(path, `${file.name}.csv`);
        counts.push([file.name, await writeRows(db, file, name, () => written.push(name))]);
      }
    });
  } catch (error) {
    for (const file of written) await rm(file);
    const { code, path } = error as NodeJS.ErrnoException;
    throw code === 'EEXIST' ? new CommandError(t`There is ${path} already: nothing was exported`) : error;
  }
  return { json: { exported: Object.fromEntries(counts) }, text: t`Exported to ${folder}: ${listCounts(counts)}.` };
}

async function findFiles(db: Database, tenant: string): Promise<File[]> {
  const tables = (await readTables(db)).map(({ name, columns }) => ({
    name,
    titles: columns.map((column) => column.name),
    query: 'private.export_query($1, $2::text::regclass)',
    values: [tenant, `private.${name}`],
  }));
  const titles = ['key_id', 'name', 'day', 'operation', 'class', 'calls'];
  return [...tables, { name: USAGE, titles, query: USAGE_QUERY, values: [tenant] }];
}

async function writeRows(db: Database, file: File, path: string, onCreated: () => void): Promise<number> {
  const { query } = await queryRow<{ query: string }>(db, `select ${file.query} as query`, [...file.values]);
  const output = await open(path, 'wx', 0o600);
  onCreated();
  try {
    await output.write(toLine(file.titles));
    let count = 0;
    for await (const rows of queryTexts(db, query, BATCH)) {
      await output.write(rows.map((texts) => toLine(JSON.parse(texts))).join(''));
      count += rows.length;
    }
    return count;
  } finally {
    await output.close();
  }
}
