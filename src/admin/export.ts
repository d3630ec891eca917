// The export of a tenant's data: a folder of CSV files (RFC 4180) that can be imported again.

import { mkdir, open, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { type Database, inTransaction } from '../store/migrations.ts';
import { toPath } from './arguments.ts';
import { queryRows, queryTexts } from './database.ts';
import { CommandError } from './errors.ts';
import type { Output } from './output.ts';
import { type OfTenant, readTables } from './tables.ts';

/** The file of the usage of keys, which is not imported. */
export const USAGE = 'usage';
/** Rows that are in memory at once. */
const BATCH = 5_000;

/** Writes a file for each table, with the rows of one moment. It replaces no file; after a failure it leaves none. */
export async function exportData(db: Database, folder: string, { tenant }: OfTenant): Promise<Output> {
  const path = toPath(folder);
  const written: string[] = [];
  try {
    const counts = await inTransaction(db, async () => {
      await db.query('set transaction isolation level repeatable read read only');
      // The same data is the same file, wherever it is exported.
      await db.query(`set local timezone = 'UTC'`);
      await db.query('select private.require_tenant($1)', [tenant]);
      // Personal data: for the owner alone.
      await mkdir(path, { recursive: true, mode: 0o700 });
      const counts: [string, number][] = [];
      for (const { name, titles, query } of [...(await findTables(db, tenant)), await findUsage(db, tenant)]) {
        const file = join(path, `${name}.csv`);
        counts.push([name, await writeRows(db, query, titles, file, () => written.push(file))]);
      }
      return counts;
    });
    const lines = counts.map(([name, count]) => `${name} ${count}`).join(', ');
    return { json: { exported: Object.fromEntries(counts) }, text: `Exported to ${folder}: ${lines}.` };
  } catch (error) {
    for (const file of written) await rm(file);
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    throw new CommandError({
      error: `There is ${(error as NodeJS.ErrnoException).path} already: nothing was exported`,
    });
  }
}

/** A file to write: its name, the titles of its columns, and the query of their texts. */
type File = { readonly name: string; readonly titles: readonly string[]; readonly query: string };

async function findTables(db: Database, tenant: string): Promise<File[]> {
  const files: File[] = [];
  for (const { name, columns } of await readTables(db)) {
    const query = await readQuery(db, 'private.export_query($1, $2::text::regclass)', [tenant, `private.${name}`]);
    files.push({ name, titles: columns.map((column) => column.name), query });
  }
  return files;
}

/** The usage of the keys, which stay where they are. */
async function findUsage(db: Database, tenant: string): Promise<File> {
  const titles = ['key_id', 'name', 'day', 'operation', 'class', 'calls'];
  const query = await readQuery(
    db,
    `format('select json_build_array(u.key_id, u.name, u.day, u.operation, u.class, u.calls::text)::text as texts
               from private.list_usage(%L, null, ''-infinity'', ''infinity'') u', $1::uuid)`,
    [tenant],
  );
  return { name: USAGE, titles, query };
}

async function readQuery(db: Database, expression: string, values: unknown[]): Promise<string> {
  const [{ query }] = (await queryRows(db, `select ${expression} as query`, values)) as [{ query: string }];
  return query;
}

async function writeRows(
  db: Database,
  query: string,
  titles: readonly string[],
  path: string,
  onCreated: () => void,
): Promise<number> {
  const file = await open(path, 'wx', 0o600);
  onCreated();
  try {
    await file.write(toLine(titles));
    let count = 0;
    for await (const rows of queryTexts(db, query, BATCH)) {
      await file.write(rows.map((texts) => toLine(JSON.parse(texts))).join(''));
      count += rows.length;
    }
    return count;
  } finally {
    await file.close();
  }
}

/** A line of CSV (RFC 4180). */
export function toLine(texts: readonly (string | null)[]): string {
  return `${texts.map((text) => toCell(text ?? '')).join(',')}\r\n`;
}

function toCell(text: string): string {
  return /[",;\t\r\n]|^\s|\s$/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
