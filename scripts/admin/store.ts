import { setTimeout as delay } from 'node:timers/promises';
import pg from 'pg';
import { type Environment, FILES, type StoreConfig } from '../../src/config.ts';
import { readDatabaseUrl, type ServerAddress } from '../../src/database-url.ts';
import { messageOf } from '../../src/errors.ts';
import type { Database } from '../../src/store/migrations.ts';
import { type EmbeddedConfig, toContent } from '../../src/store/open.ts';
import { describeServers } from '../../src/store/postgres/roles.ts';
import { AccessError, connect, failWith, openFolder } from '../database.ts';

const PROGRAM = 'wellness-admin';
/** How long a command waits for a standby, and how often it asks, in ms. */
const REPLAY_MS = 10_000;
const POLL_MS = 20;

/** An open store. */
type AdminStore = Database & {
  /** Whether a gateway serves it meanwhile, as far as is known. */
  readonly isServed: boolean;
  close(): Promise<void>;
};

/** Which store a command works on, in the words of the gateway's log; without a password. */
export function describeStore(config: StoreConfig, env: Environment): string {
  if (config.kind === 'supabase') return `Store: the Data API of ${new URL(config.url).host}`;
  if (config.kind === 'postgres') return `Store: ${describeServers(readDatabaseUrl(config.url))}`;
  const reason = env.DATA_DIR ? '' : ', because neither DATABASE_URL nor DATA_DIR is set';
  return `Store: embedded Postgres, data in ${config.dataDir ?? 'memory'}${reason}`;
}

/** Opens the configured store for its administrator. `note` tells people. Throws AccessError and FolderError. */
export function openStore(config: StoreConfig, note: (text: string) => void = () => {}): Promise<AdminStore> {
  if (config.kind === 'embedded') return openEmbedded(config, note);
  if (config.kind === 'postgres') return openPostgres(config.url, note);
  throw new AccessError(
    "A Supabase project's Data API cannot do this: set DATABASE_URL to the project's connection string instead of SUPABASE_URL",
  );
}

/** Makes or migrates the store first, unless a gateway runs, which did that at its start. */
async function openEmbedded(config: EmbeddedConfig, note: (text: string) => void): Promise<AdminStore> {
  const { client, isServed, close } = await openFolder(config, PROGRAM, toContent(config, FILES), (text) =>
    note(`${text}\n`),
  );
  return { query: (sql, values) => client.query(sql, values).catch(failWith), isServed, close };
}

async function openPostgres(url: string, note: (text: string) => void): Promise<AdminStore> {
  const client = await connect(url, PROGRAM);
  const others = readDatabaseUrl(url).servers.filter(({ name }) => name !== `${client.host}:${client.port}`);
  const readPosition = async () => {
    const { rows } = await client.query<{ position: string }>('select pg_current_wal_flush_lsn() as position');
    return rows[0]?.position ?? '';
  };
  const before = others.length > 0 ? await readPosition() : '';
  return {
    query: (sql, values) => client.query(sql, values).catch(failWith),
    isServed: false,
    close: async () => {
      try {
        const position = others.length > 0 ? await readPosition() : '';
        if (position !== before) await Promise.all(others.map((server) => waitForReplay(server, position, note)));
      } catch {
        // The command itself has told that the connection was lost.
      } finally {
        await client.end();
      }
    },
  };
}

/** Waits until a standby has what was written, so that a key that was revoked is refused there too. Notes one that has not. */
async function waitForReplay(
  { name, url }: ServerAddress,
  position: string,
  note: (text: string) => void,
): Promise<void> {
  const client = new pg.Client({
    connectionString: url,
    connectionTimeoutMillis: REPLAY_MS,
    application_name: PROGRAM,
  });
  client.on('error', () => {});
  const sql = 'select not pg_is_in_recovery() or pg_last_wal_replay_lsn() >= $1::pg_lsn as is_there';
  const until = performance.now() + REPLAY_MS;
  try {
    await client.connect();
    while (!(await client.query(sql, [position])).rows[0].is_there) {
      if (performance.now() > until) throw new Error('it is too far behind');
      await delay(POLL_MS);
    }
  } catch (error) {
    note(`The standby ${name} may not show this yet: ${messageOf(error as Error)}\n`);
  } finally {
    await client.end().catch(() => {});
  }
}

/** The rows of a query as JSON. */
export async function queryRows<T>(db: Database, sql: string, values: unknown[] = []): Promise<T[]> {
  const { rows } = await db.query(`select coalesce(json_agg(r), '[]') as json from (${sql}) r`, values);
  const [{ json }] = rows as [{ json: T[] }];
  return json;
}
