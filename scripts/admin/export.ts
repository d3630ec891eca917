// The export of a tenant's data: a folder of CSV files (RFC 4180) that can be imported again.

import { mkdir, open, rm } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { type Connection, inTransaction } from '../../src/store/migrations.ts';
import { CommandError } from './errors.ts';
import type { Output } from './output.ts';
import { queryRows } from './store.ts';
import { readTables, type Table } from './tables.ts';

/** Rows that are in memory at once. */
const BATCH = 5_000;

/** Writes a file for each table, with the rows of one moment. It replaces no file; after a failure it leaves none. */
export async function exportData(db: Connection, tenant: string, folder: string): Promise<Output> {
  const path = resolve(process.env.INIT_CWD ?? '.', folder);
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
      for (const table of await readTables(db)) {
        const file = join(path, `${table.name}.csv`);
        counts.push([table.name, await writeTable(db, tenant, table, file, () => written.push(file))]);
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

async function writeTable(
  db: Connection,
  tenant: string,
  { name, columns }: Table,
  path: string,
  onCreated: () => void,
): Promise<number> {
  const [{ query }] = (await queryRows(db, 'select private.export_query($1, $2::text::regclass) as query', [
    tenant,
    `private.${name}`,
  ])) as [{ query: string }];
  const file = await open(path, 'wx', 0o600);
  onCreated();
  try {
    await file.write(toLine(columns.map((column) => column.name)));
    await db.query(`declare exported no scroll cursor for ${query}`);
    let count = 0;
    for (;;) {
      const { rows } = (await db.query(`fetch ${BATCH} from exported`)) as { rows: { texts: string }[] };
      if (rows.length === 0) break;
      await file.write(rows.map(({ texts }) => toLine(JSON.parse(texts))).join(''));
      count += rows.length;
    }
    await db.query('close exported');
    return count;
  } finally {
    await file.close();
  }
}

function toLine(texts: readonly (string | null)[]): string {
  return `${texts.map((text) => toCell(text ?? '')).join(',')}\r\n`;
}

function toCell(text: string): string {
  return /[",;\t\r\n]|^\s|\s$/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
