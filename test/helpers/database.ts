import { PGlite } from '@electric-sql/pglite';
import { applyMigrations, readMigrations, runScript } from '../../src/store/migrations.ts';
import { MIGRATIONS, SEED } from './gateway.ts';

/** A Postgres in memory with the migrations and the demo data, for its administrator. */
export async function openDatabase(): Promise<PGlite> {
  const db = await PGlite.create();
  await applyMigrations(db, readMigrations(MIGRATIONS));
  await runScript(db, SEED);
  return db;
}

/** The rows of a query. */
export async function rows<T = Record<string, unknown>>(db: PGlite, sql: string, values: unknown[] = []): Promise<T[]> {
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
