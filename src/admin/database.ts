// Connects an administrator to the configured store, and runs queries there.

import pg from 'pg';
import { type Environment, FILES, type StoreConfig } from '../config.ts';
import { readDatabaseUrl } from '../database-url.ts';
import { messageOf, OperatorError } from '../errors.ts';
import type { Database } from '../store/migrations.ts';
import { type Content, type EmbeddedConfig, reachServer, toContent } from '../store/open.ts';
import { describeServers } from '../store/postgres/client.ts';
import { connectToPrimary } from '../store/postgres/servers.ts';
import { t, translate } from './language.ts';

/** The database cannot be reached. */
class AccessError extends OperatorError {}

const PROGRAM = 'wellness-admin';
/** The number of rows in memory at once. */
const BATCH = 5_000;
/** Connect timeout, in ms. */
const CONNECT_MS = 10_000;

/** Advice for connection errors, by the code of Postgres or of the system. */
const ADVICE: Readonly<Record<string, string>> = {
  '28000': "check the user in DATABASE_URL, and the server's pg_hba.conf",
  '28P01': 'check the user and the password in DATABASE_URL',
  '3D000': 'create the database, or check its name in DATABASE_URL',
  ECONNREFUSED: 'check that the server runs, and the host and port in DATABASE_URL',
  ENOTFOUND: 'check the host in DATABASE_URL',
};

/** An administrator's connection to a store. */
type OpenDatabase = Database & {
  /** Whether a running gateway also serves the store; known only of an embedded store. */
  readonly isServed: boolean;
  close(): Promise<void>;
};

/** Describes the configured store as the gateway's log does, without the password. */
export function describeStore(config: StoreConfig, env: Environment): string {
  if (config.kind === 'supabase') return t`Store: the Data API of ${new URL(config.url).host}`;
  if (config.kind === 'postgres') return t`Store: ${translate(describeServers(readDatabaseUrl(config.url)))}`;
  const folder = config.dataDir ?? translate('a temporary folder');
  if (env.DATA_DIR) return t`Store: embedded Postgres, data in ${folder}`;
  return t`Store: embedded Postgres, data in ${folder}, because neither DATABASE_URL nor DATA_DIR is set`;
}

/**
 * Connects an administrator to the configured store. An embedded store that no gateway serves is created or migrated, and started.
 * `note` prints a line for people, and `types` parses the values of an embedded store. Throws AccessError, and the errors of starting
 * a server.
 */
export async function openDatabase(
  config: StoreConfig,
  note: (text: string) => void,
  types?: pg.CustomTypesConfig,
): Promise<OpenDatabase> {
  if (config.kind === 'supabase') {
    throw new AccessError(
      "A Supabase project's Data API cannot do this: set DATABASE_URL to the project's connection string instead of SUPABASE_URL",
    );
  }
  if (config.kind === 'postgres') return toDatabase(await connect(config.url, PROGRAM));
  return openEmbedded(config, note, toContent(config, FILES), types);
}

/** Connects to an embedded store as openDatabase does. Without `content` the store is neither created nor migrated. */
export async function openEmbedded(
  config: EmbeddedConfig,
  note: (text: string) => void,
  content?: Content,
  types?: pg.CustomTypesConfig,
): Promise<OpenDatabase> {
  // Only its own process can reach a store in memory.
  if (!config.dataDir) throw new AccessError('DATA_DIR=:memory: keeps no store: set it to the folder of a store');
  const log = (text: string) => note(`${translate(text)}\n`);
  const { url, isServed, close } = await reachServer(config, content, { info: log, warn: log });
  try {
    return toDatabase(await connectToServer(url, PROGRAM, types), isServed, close);
  } catch (error) {
    await close();
    throw new AccessError(
      t`The gateway that has ${config.dataDir} refuses the connection: ${messageOf(error as Error)}`,
    );
  }
}

function toDatabase(client: pg.Client, isServed = false, close = async () => {}): OpenDatabase {
  return {
    query: (sql, values) => client.query(sql, values).catch(failWith),
    isServed,
    close: () => client.end().finally(close),
  };
}

/** Methods of JSON that TypeScript's types lack. */
type Json = {
  parse(text: string, revive: (key: string, value: unknown, context: { source?: string }) => unknown): unknown;
  /** A value that JSON.stringify writes as this text. */
  rawJSON(text: string): unknown;
};
const { parse, rawJSON } = JSON as unknown as Json;

/** Returns the rows of a query. A number that JavaScript would write with other digits becomes a value of JSON.rawJSON. */
export async function queryRows<T>(db: Database, sql: string, values: unknown[] = []): Promise<T[]> {
  // Without the star, a column named r would stand for the whole row.
  const { rows } = await db.query(`select coalesce(json_agg(r.*), '[]')::text as json from (${sql}) r`, values);
  const [{ json }] = rows as [{ json: string }];
  return parse(json, (_key, value, { source = '' }) =>
    typeof value === 'number' && String(value) !== source ? rawJSON(source) : value,
  ) as T[];
}

/** The only row of a query. */
export async function queryRow<T>(db: Database, sql: string, values: unknown[]): Promise<T> {
  const [row] = await queryRows<T>(db, sql, values);
  return row as T;
}

/** Yields batches of the column `texts` of a query. Must run in a transaction. */
export async function* queryTexts(db: Database, sql: string, batch: number | 'all' = BATCH): AsyncGenerator<string[]> {
  await db.query(`declare texts no scroll cursor for ${sql}`);
  for (;;) {
    const { rows } = (await db.query(`fetch ${batch} from texts`)) as { rows: { texts: string }[] };
    if (rows.length === 0) break;
    yield rows.map(({ texts }) => texts);
  }
  await db.query('close texts');
}

/** Throws the error of a query: one of SQL as it is, and any other as AccessError. */
export function failWith(error: Error): never {
  if (error instanceof pg.DatabaseError && !/^(57P|08)/.test(error.code ?? '')) throw error;
  if ('code' in error && error.code === 'ERR_STRING_TOO_LONG') {
    throw new AccessError('The answer is longer than a text can be: ask for less, such as fewer days');
  }
  throw new AccessError(
    t`The connection to the database was lost: ${error.message}; check whether the command took effect before you run it again`,
  );
}

/** Connects to Postgres, to the primary if the URL has several hosts. Throws AccessError, whose message does not show the URL. */
export async function connect(url: string, program: string): Promise<pg.Client> {
  const { servers, hasRoles } = readDatabaseUrl(url);
  return connectToServer(url, program).catch((error: Error & { code?: string }) => {
    if (hasRoles) throw new AccessError(messageOf(error));
    // A host with several addresses gives an error without a message.
    const { code = '', message } = error;
    const advice = translate(ADVICE[code] ?? 'check DATABASE_URL');
    throw new AccessError(t`Cannot connect to ${servers[0]?.name}: ${message || code}; ${advice}`);
  });
}

function connectToServer(url: string, program: string, types?: pg.CustomTypesConfig): Promise<pg.Client> {
  const options = { connectionTimeoutMillis: CONNECT_MS, application_name: program, ...(types ? { types } : {}) };
  return connectToPrimary(readDatabaseUrl(url), options);
}
