import { join } from 'node:path';
import pg from 'pg';
import type { Environment, StoreConfig } from '../../src/config.ts';
import { readDatabaseUrl } from '../../src/database-url.ts';
import { applyMigrations, type Connection, readMigrations } from '../../src/store/migrations.ts';
import { AccessError, connect, type EmbeddedConfig, failWith, openFolder } from '../database.ts';

const PROGRAM = 'wellness-admin';
export const MIGRATIONS = join(import.meta.dirname, '../../supabase/migrations');

/** An open store. */
export type AdminStore = Connection & {
  /** Whether a gateway serves it meanwhile, as far as is known. */
  readonly isServed: boolean;
  close(): Promise<void>;
};

/** Which store a command works on, in the words of the gateway's log; without a password. */
export function describeStore(config: StoreConfig, env: Environment): string {
  if (config.kind === 'supabase') return `Store: the Data API of ${new URL(config.url).host}`;
  if (config.kind === 'postgres') {
    const clients = readDatabaseUrl(config.url).servers.map(({ url }) => new pg.Client(url));
    return `Store: Postgres at ${clients.map(({ host, port }) => `${host}:${port}`).join()}/${clients[0]?.database}`;
  }
  const reason = env.DATA_DIR ? '' : ', because neither DATABASE_URL nor DATA_DIR is set';
  return `Store: embedded Postgres, data in ${config.dataDir ?? 'memory'}${reason}`;
}

/** Opens the configured store for its administrator. Throws AccessError and FolderError. */
export function openStore(config: StoreConfig): Promise<AdminStore> {
  if (config.kind === 'embedded') return openEmbedded(config);
  if (config.kind === 'postgres') return openPostgres(config.url);
  throw new AccessError(
    "A Supabase project's Data API cannot do this: set DATABASE_URL to the project's connection string instead of SUPABASE_URL",
  );
}

/** Applies new migrations first, unless a gateway runs, which did that at its start. */
async function openEmbedded(config: EmbeddedConfig): Promise<AdminStore> {
  const store = await openFolder(config, PROGRAM);
  try {
    if (!store.isServed) {
      await applyMigrations(store, readMigrations(MIGRATIONS));
    }
  } catch (error) {
    await store.close();
    throw error;
  }
  return { query: store.query, isServed: store.isServed, close: store.close };
}

async function openPostgres(url: string): Promise<AdminStore> {
  const client = await connect(url, PROGRAM);
  return {
    query: (sql, values) => client.query(sql, values).catch(failWith),
    isServed: false,
    close: () => client.end(),
  };
}

/** The rows of a query as JSON: the same from both drivers, whatever types they parse. */
export async function queryRows<T>(db: Connection, sql: string, values: unknown[] = []): Promise<T[]> {
  const { rows } = await db.query(`select coalesce(json_agg(r), '[]') as json from (${sql}) r`, values);
  const [{ json }] = rows as [{ json: T[] }];
  return json;
}
