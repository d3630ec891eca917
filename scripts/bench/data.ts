// The data of the benchmark: the migrations, and rows by data.sql.

import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { applyMigrations, type Connection, readMigrations } from '../../src/store/migrations.ts';

/** How much data: every tenant has as many students. */
export type Size = { readonly tenants: number; readonly students: number };

const ROOT = join(import.meta.dirname, '../..');
const SCRIPT = join(import.meta.dirname, 'data.sql');

/** The key of a tenant, counted from 1, as long as one that was issued; there is none of tenant 0 and below. */
export function toKey(tenant: number): string {
  return `wms_live_${createHash('sha256').update(`tenant ${tenant}`).digest('hex').slice(0, 38)}`;
}

/** Applies the migrations to an empty database and fills it, as its superuser; `exec` runs a whole script. */
export async function load(
  db: Connection & { exec(sql: string): Promise<unknown> },
  { tenants, students }: Size,
): Promise<void> {
  await applyMigrations(db, readMigrations(join(ROOT, 'supabase/migrations')));
  await db.query(`select set_config('bench.tenants', $1, false), set_config('bench.students', $2, false)`, [
    String(tenants),
    String(students),
  ]);
  await db.exec(readFileSync(SCRIPT, 'utf8'));
  await db.exec('vacuum analyze');
}
