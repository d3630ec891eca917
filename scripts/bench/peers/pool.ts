// What the peers that talk to Postgres by `pg` have in common: as many connections as the gateway, with its rights.

import pg from 'pg';
import type { NamedStatement } from '../../../src/store/statement.ts';

/** The longest that connecting, or a statement, may take, in milliseconds: the gateway's DEADLINE_MS by default. */
const DEADLINE_MS = 5_000;

/** How a type of Postgres is read, by its number. */
export type ReadType = (type: number) => (text: string) => unknown;

/** Opens a pool on the database of DATABASE_URL. */
export function openPool(getTypeParser: ReadType): pg.Pool {
  const pool = new pg.Pool({
    connectionString: process.env.DATABASE_URL,
    max: Number(process.env.STORE_CONNECTIONS),
    connectionTimeoutMillis: DEADLINE_MS,
    keepAlive: true,
    types: { getTypeParser },
    onConnect: async (client: pg.ClientBase) => {
      await client.query(`set role gateway; set timezone = 'UTC'; set statement_timeout = ${DEADLINE_MS}`);
    },
  } as pg.PoolConfig);
  // The end of a connection is told to its query, and where it has none to nobody.
  return pool.on('error', () => {});
}

/** Runs a query, after which the connection serves on: `pool.query` would close it where Postgres refuses a call. */
export async function query<T extends pg.QueryResultRow>(pool: pg.Pool, config: pg.QueryConfig): Promise<T[]> {
  const client = await pool.connect();
  let lost: Error | undefined;
  try {
    return (await client.query<T>(config)).rows;
  } catch (error) {
    if (!(error instanceof pg.DatabaseError)) lost = error as Error;
    throw error;
  } finally {
    client.release(lost);
  }
}

/** Runs a statement that gives JSON in one row with one column. */
export async function queryJson(pool: pg.Pool, { name, text, values }: NamedStatement): Promise<string> {
  const config = { name, text, values: [...values], rowMode: 'array' };
  const [row] = await query<string[]>(pool, config);
  return row?.[0] ?? '';
}
