import { type Environment, FILES, type StoreConfig } from '../config.ts';
import { readDatabaseUrl } from '../database-url.ts';
import type { Database } from '../store/migrations.ts';
import { type EmbeddedConfig, toContent } from '../store/open.ts';
import { describeServers } from '../store/postgres/servers.ts';
import { AccessError, connect, failWith, openFolder } from './database.ts';

const PROGRAM = 'wellness-admin';

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
  if (config.kind === 'postgres') return openPostgres(config.url);
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

async function openPostgres(url: string): Promise<AdminStore> {
  const client = await connect(url, PROGRAM);
  return {
    query: (sql, values) => client.query(sql, values).catch(failWith),
    isServed: false,
    close: () => client.end(),
  };
}

/** The rows of a query as JSON. */
export async function queryRows<T>(db: Database, sql: string, values: unknown[] = []): Promise<T[]> {
  const { rows } = await db.query(`select coalesce(json_agg(r), '[]') as json from (${sql}) r`, values);
  const [{ json }] = rows as [{ json: T[] }];
  return json;
}
