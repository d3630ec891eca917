// The benchmark's data: the migrations, and rows by data.sql.

import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { cpSync, mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { applyMigrations, type Database, readMigrations } from '../../src/store/migrations.ts';
import { type Cleanup, createFolder, startScript } from './processes.ts';

/** How much data: every tenant has as many students. */
export type Size = { readonly tenants: number; readonly students: number };

const HERE = import.meta.dirname;

/** The key of a tenant, counted from 1, in the form of issued keys; 0 and below give keys of no tenant. */
export function toKey(tenant: number): string {
  return `wms_live_${createHash('sha256').update(`tenant ${tenant}`).digest('hex').slice(0, 38)}`;
}

/** Applies the migrations to an empty database and fills it, as its superuser; `exec` runs a whole script. */
export async function load(
  db: Database & { exec(sql: string): Promise<unknown> },
  { tenants, students }: Size,
): Promise<void> {
  await applyMigrations(db, readMigrations(join(HERE, '../../supabase/migrations')));
  await db.query(`select set_config('bench.tenants', $1, false), set_config('bench.students', $2, false)`, [
    String(tenants),
    String(students),
  ]);
  await db.exec(readFileSync(join(HERE, 'data.sql'), 'utf8'));
  await db.exec('vacuum analyze');
}

/** Creates `count` data folders of embedded stores, each with the same data. */
export async function makeFolders(cleanup: Cleanup, { tenants, students }: Size, count: number): Promise<string[]> {
  const root = createFolder(cleanup, 'embedded');
  const folders = Array.from({ length: count }, (_, n) => join(root, String(n)));
  const [first, ...others] = folders;
  if (!first) return [];
  mkdirSync(first);
  const args = [join(HERE, 'embedded-data.ts'), join(first, 'postgres'), `${tenants}`, `${students}`];
  const [code] = await once(startScript(cleanup, args), 'exit');
  if (code !== 0) throw new Error(`Loading the embedded store ended with ${code}`);
  for (const folder of others) cpSync(first, folder, { recursive: true });
  return folders;
}
