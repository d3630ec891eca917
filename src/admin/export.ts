// Exports a tenant's data to a folder of CSV files that can be imported again.

import { existsSync, readdirSync, statSync } from 'node:fs';
import { type FileHandle, mkdir, open, rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import pg from 'pg';
import { type Database, inTransaction } from '../store/migrations.ts';
import { toPath } from './arguments.ts';
import { toCsv } from './csv.ts';
import { queryRow, queryTexts } from './database.ts';
import { t } from './language.ts';
import { type OfTenant, readTables, toIdentifier } from './tables.ts';
import { CommandError, listCounts, type Output, withPath } from './terminal.ts';

/** A file to write. Its query returns rows as JSON arrays of texts. */
type File = { readonly name: string; readonly titles: readonly string[]; readonly query: string };

/** The file with the usage of keys. It is not imported, because keys are not exported. */
export const USAGE = 'usage';

/** Writes a file for each table to a new or empty folder, from one snapshot. Removes the folder after a failure. */
export async function exportData(db: Database, folder: string, { tenant }: OfTenant): Promise<Output> {
  const path = toPath(folder);
  // The folder has this name until it is complete, so that nobody imports the part that an interrupted export leaves.
  const part = `${path}.part`;
  const isEmpty = statSync(path, { throwIfNoEntry: false })?.isDirectory() && readdirSync(path).length === 0;
  const existing = (isEmpty ? [part] : [path, part]).find(existsSync);
  if (existing) throw new CommandError(t`There is ${existing} already: nothing was exported`);
  const counts: [string, number][] = [];
  await mkdir(dirname(part), { recursive: true });
  // Personal data: only the owner may read it.
  await mkdir(part, { mode: 0o700 });
  try {
    await inTransaction(db, async () => {
      await db.query('set transaction isolation level repeatable read read only');
      // Otherwise times would depend on the server's time zone, and lists of dates on its order of day and month.
      await db.query(`set local timezone = 'UTC'; set local datestyle = 'ISO'`);
      for (const file of await findFiles(db, tenant)) {
        const output = await open(join(part, `${file.name}.csv`), 'wx', 0o600);
        counts.push([file.name, await writeRows(db, file, output).finally(() => output.close())]);
      }
    });
    await rename(part, path);
  } catch (error) {
    await rm(part, { recursive: true, force: true });
    throw withPath(error, part);
  }
  return { json: { exported: Object.fromEntries(counts) }, text: t`Exported to ${folder}: ${listCounts(counts)}.` };
}

async function findFiles(db: Database, tenant: string): Promise<File[]> {
  const files: File[] = [];
  for (const { name, columns } of await readTables(db)) {
    const sql = 'select private.export_query($1, $2::text::regclass) as query';
    const { query } = await queryRow<{ query: string }>(db, sql, [tenant, toIdentifier(name)]);
    files.push({ name, titles: columns.map((column) => column.name), query });
  }
  const titles = ['key_id', 'name', 'day', 'operation', 'class', 'calls'];
  // A cursor takes no parameters.
  const query = `
    select json_build_array(u.key_id, u.name, u.day, u.operation, u.class, u.calls::text)::text as texts
      from private.list_usage(${pg.escapeLiteral(tenant)}, null, '-infinity', 'infinity') u`;
  return [...files, { name: USAGE, titles, query }];
}

async function writeRows(db: Database, { titles, query }: File, output: FileHandle): Promise<number> {
  await output.writeFile(toCsv([titles]));
  let count = 0;
  for await (const rows of queryTexts(db, query)) {
    await output.writeFile(toCsv(rows.map((texts) => JSON.parse(texts))));
    count += rows.length;
  }
  return count;
}
