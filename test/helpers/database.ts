import { join } from 'node:path';
import { PGlite } from '@electric-sql/pglite';
import { inject } from 'vitest';
import { copyDataDir } from './gateway.ts';

/** What runs single statements: an embedded Postgres, or a client of another one. */
export type Sql = { query<T>(sql: string, values?: unknown[]): Promise<{ rows: T[] }> };

/** Opens an embedded Postgres with its own copy of the demo data, as its administrator. */
export function openDatabase(): Promise<PGlite> {
  return PGlite.create({ dataDir: join(copyDataDir(inject('dataDir')), 'postgres') });
}

/** The rows of a query. */
export async function rows<T = Record<string, unknown>>(db: Sql, sql: string, values: unknown[] = []): Promise<T[]> {
  return (await db.query<T>(sql, values)).rows;
}

/** Does something as another role, in a transaction that is always rolled back. */
export async function as<T>(db: PGlite, role: string, work: () => Promise<T>): Promise<T> {
  await db.query('begin');
  try {
    await db.query(`set local role ${role}`);
    return await work();
  } finally {
    await db.query('rollback');
  }
}
