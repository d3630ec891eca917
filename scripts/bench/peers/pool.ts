// A pool of `pg` for the peers, with the gateway's role and number of connections.

import pg from 'pg';

/** Timeout of connecting and of statements, in ms: the gateway's default. */
const DEADLINE_MS = 5_000;

/** The parser of a type, by its OID. */
type ReadType = (type: number) => (text: string) => unknown;

/** Opens a pool on DATABASE_URL. */
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
  // Without a listener, losing an idle connection would end the process.
  return pool.on('error', () => {});
}

/** Runs a query and keeps the connection after a Postgres error, unlike `pool.query`. */
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
