// Connects an administrator to the configured store: the folder of an embedded one, or DATABASE_URL.

import pg from 'pg';
import { type Environment, FILES, type StoreConfig } from '../config.ts';
import { readDatabaseUrl } from '../database-url.ts';
import { messageOf, OperatorError } from '../errors.ts';
import type { Content } from '../store/embedded/store.ts';
import type { Database } from '../store/migrations.ts';
import { type EmbeddedConfig, reachServer, toContent } from '../store/open.ts';
import { connectToPrimary, describeServers } from '../store/postgres/servers.ts';
import { t, translate } from './language.ts';

/** The database cannot be reached; the message says what to do. */
class AccessError extends OperatorError {}

const PROGRAM = 'wellness-admin';
/** Timeout of connecting, in ms. */
const CONNECT_MS = 10_000;

/** What to do about a connection error, by the code of Postgres or of the system. */
const ADVICE: Readonly<Record<string, string>> = {
  '28000': "check the user in DATABASE_URL, and the server's pg_hba.conf",
  '28P01': 'check the user and the password in DATABASE_URL',
  '3D000': 'create the database, or check its name in DATABASE_URL',
  ECONNREFUSED: 'check that the server runs, and the host and port in DATABASE_URL',
  ENOTFOUND: 'check the host in DATABASE_URL',
};

/** An administrator's connection to an embedded store. */
type OpenFolder = {
  readonly client: pg.Client;
  /** Whether a gateway serves the store meanwhile. */
  readonly isServed: boolean;
  close(): Promise<void>;
};

/** Which store a command works on, in the words of the gateway's log; without a password. */
export function describeStore(config: StoreConfig, env: Environment): string {
  if (config.kind === 'supabase') return t`Store: the Data API of ${new URL(config.url).host}`;
  if (config.kind === 'postgres') return t`Store: ${describeServers(readDatabaseUrl(config.url))}`;
  const folder = config.dataDir ?? translate('a temporary folder');
  if (env.DATA_DIR) return t`Store: embedded Postgres, data in ${folder}`;
  return t`Store: embedded Postgres, data in ${folder}, because neither DATABASE_URL nor DATA_DIR is set`;
}

/**
 * Opens the configured store for its administrator. An embedded one is made or migrated first, unless a gateway runs,
 * which did that at its start. `note` tells people. Throws AccessError and FolderError.
 */
export async function openStore(
  config: StoreConfig,
  note: (text: string) => void,
): Promise<Database & Omit<OpenFolder, 'client'>> {
  if (config.kind === 'supabase') {
    throw new AccessError(
      "A Supabase project's Data API cannot do this: set DATABASE_URL to the project's connection string instead of SUPABASE_URL",
    );
  }
  const opened: Pick<OpenFolder, 'client'> & Partial<OpenFolder> =
    config.kind === 'embedded'
      ? await openFolder(config, PROGRAM, toContent(config, FILES), (text) => note(`${translate(text)}\n`))
      : { client: await connect(config.url, PROGRAM) };
  const { client, isServed = false, close = () => client.end() } = opened;
  return { query: (sql, values) => client.query(sql, values).catch(failWith), isServed, close };
}

/** The rows of a query as JSON. */
export async function queryRows<T>(db: Database, sql: string, values: unknown[] = []): Promise<T[]> {
  const { rows } = await db.query(`select coalesce(json_agg(r), '[]') as json from (${sql}) r`, values);
  const [{ json }] = rows as [{ json: T[] }];
  return json;
}

/** The only row of a query. */
export async function queryRow<T>(db: Database, sql: string, values: unknown[]): Promise<T> {
  const [row] = await queryRows<T>(db, sql, values);
  return row as T;
}

/** The texts of a query whose one column is `texts`, a batch at a time, within a transaction. */
export async function* queryTexts(db: Database, sql: string, batch: number | 'all'): AsyncGenerator<string[]> {
  await db.query(`declare texts no scroll cursor for ${sql}`);
  for (;;) {
    const { rows } = (await db.query(`fetch ${batch} from texts`)) as { rows: { texts: string }[] };
    if (rows.length === 0) break;
    yield rows.map(({ texts }) => texts);
  }
  await db.query('close texts');
}

/**
 * Connects to an embedded store as its administrator: to the server that a gateway runs, or to one that it starts, with `content` on
 * a store that is made or migrated first. Throws AccessError for a store in memory, which only its own process can reach, and
 * what the start of a server throws. `program` is the application_name.
 */
export async function openFolder(
  config: EmbeddedConfig,
  program: string,
  content?: Content,
  note: (text: string) => void = console.error,
): Promise<OpenFolder> {
  if (!config.dataDir) throw new AccessError('DATA_DIR=:memory: keeps no store: set it to the folder of a store');
  const { url, isServed, close } = await reachServer(config, content, { info: note, warn: note });
  try {
    const client = await connectToServer(url, program);
    return { client, isServed, close: () => client.end().finally(close) };
  } catch (error) {
    await close();
    throw new AccessError(
      t`The gateway that has ${config.dataDir} refuses the connection: ${messageOf(error as Error)}`,
    );
  }
}

/**
 * Throws the error of a query: Postgres's own, or AccessError if the connection is lost, which anything but an answer of the
 * server, or its last one, means.
 */
export function failWith(error: Error): never {
  if (error instanceof pg.DatabaseError && !/^(57P|08)/.test(error.code ?? '')) throw error;
  throw new AccessError(
    t`The connection to the database was lost: ${error.message}; check whether the command took effect before you run it again`,
  );
}

/**
 * Connects to a Postgres, to its primary where the URL has several hosts; `program` is its application_name. Throws AccessError,
 * without the URL, if it fails.
 */
export async function connect(url: string, program: string): Promise<pg.Client> {
  const { servers, hasRoles } = readDatabaseUrl(url);
  return connectToServer(url, program).catch((error: Error & { code?: string }) => {
    if (hasRoles) throw new AccessError(messageOf(error));
    // Without the database: an unencoded slash in the password makes the rest of it part of that name. A host with several
    // addresses gives an error without a message.
    const { code = '', message } = error;
    const advice = translate(ADVICE[code] ?? 'check DATABASE_URL');
    throw new AccessError(t`Cannot connect to ${servers[0]?.name}: ${message || code}; ${advice}`);
  });
}

function connectToServer(url: string, program: string): Promise<pg.Client> {
  return connectToPrimary(readDatabaseUrl(url), { connectionTimeoutMillis: CONNECT_MS, application_name: program });
}
