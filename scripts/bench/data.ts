// The benchmark's data: the migrations, and the rows of data.sql.

import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { FILES } from '../../src/config.ts';
import { applyMigrations, type Database, readMigrations } from '../../src/store/migrations.ts';
import { reachServer, toContent } from '../../src/store/open.ts';
import { asAdmin } from '../../test/helpers/servers.ts';

/** The number of tenants, and of students per tenant. */
export type Size = { readonly tenants: number; readonly students: number };

/** The key of a tenant, counted from 1; other numbers give keys of no tenant. */
export function toKey(tenant: number): string {
  return `wms_live_${createHash('sha256').update(`tenant ${tenant}`).digest('hex').slice(0, 38)}`;
}

/** The keys of all tenants, or as many unknown keys. */
export function toKeys(areRefused = false, tenants: number): string[] {
  return Array.from({ length: tenants }, (_, n) => toKey(areRefused ? -n : n + 1));
}

/** Applies the migrations to an empty database and fills it. Needs a superuser. */
export async function load(db: Database, { tenants, students }: Size): Promise<void> {
  await applyMigrations(db, readMigrations(FILES.migrations));
  await db.query(`select set_config('bench.tenants', $1, false), set_config('bench.students', $2, false)`, [
    String(tenants),
    String(students),
  ]);
  await db.query(readFileSync(join(import.meta.dirname, 'data.sql'), 'utf8'));
  await db.query('vacuum analyze');
}

/** Creates an embedded store with the data. */
export async function makeStore(dataDir: string, size: Size): Promise<void> {
  const config = { kind: 'embedded', dataDir, programs: undefined, demoData: false } as const;
  const server = await reachServer(config, toContent(config, FILES));
  await asAdmin(server.url, (db) => load(db, size)).finally(server.close);
}
