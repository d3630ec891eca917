// Connects scripts to a database: the folder of an embedded store, or DATABASE_URL.

import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import pg from 'pg';
import type { StoreConfig } from '../src/config.ts';
import { readDatabaseUrl, type ServerAddress } from '../src/database-url.ts';
import { messageOf, OperatorError } from '../src/errors.ts';
import { FolderError, lockFolder } from '../src/store/embedded/folder.ts';
import { ADMINISTRATOR } from '../src/store/embedded/sessions.ts';
import { DATABASE, PORT, toSocketFolder } from '../src/store/embedded/socket.ts';
import type { Database } from '../src/store/migrations.ts';
import { connectToPrimary } from '../src/store/postgres/roles.ts';

/** The database cannot be reached; the message says what to do. */
export class AccessError extends OperatorError {}

const SUPABASE = join(import.meta.dirname, '../supabase');
/** Timeout of connecting, in ms. */
const CONNECT_MS = 10_000;
/** Timeout of a statement of the gateway, which a new store needs none of, in ms. */
const CREATE_MS = 60_000;

/** What to do about a connection error, by the code of Postgres or of the system. */
const ADVICE: Readonly<Record<string, string>> = {
  '28000': "check the user in DATABASE_URL, and the server's pg_hba.conf",
  '28P01': 'check the user and the password in DATABASE_URL',
  '3D000': 'create the database, or check its name in DATABASE_URL',
  ECONNREFUSED: 'check that the server runs, and the host and port in DATABASE_URL',
  ENOTFOUND: 'check the host in DATABASE_URL',
};

/** The configuration of an embedded store. */
export type EmbeddedConfig = Extract<StoreConfig, { kind: 'embedded' }>;

/** The result of one statement of a script. */
export type StatementResult = { readonly rows: object[]; readonly count: number };

/** An embedded store, open for its administrator. */
export type OpenFolder = Pick<Database, 'query'> & {
  /** Whether a gateway serves the store meanwhile. */
  readonly isServed: boolean;
  exec(sql: string): Promise<StatementResult[]>;
  close(): Promise<void>;
};

/**
 * Opens an embedded store as its administrator: through the gateway that runs on it, or else itself. Creates it first if there
 * is none. Throws AccessError for a store in memory, which only its own process can reach, and FolderError if another process
 * has the store open and serves no socket that this one can reach. `program` is the application_name.
 */
export async function openFolder({ dataDir, fsync, demoData }: EmbeddedConfig, program: string): Promise<OpenFolder> {
  if (!dataDir) throw new AccessError('DATA_DIR=:memory: keeps no store: set it to the folder of a store');
  const folder = join(dataDir, 'postgres');
  if (!existsSync(folder)) await createStore(dataDir, demoData);
  let unlock: () => void;
  try {
    unlock = lockFolder(dataDir, console.error);
  } catch (error) {
    if (error instanceof FolderError && existsSync(toSocketFolder(dataDir))) return openServed(dataDir, program, error);
    throw error;
  }
  try {
    return await openAlone(folder, fsync, unlock);
  } catch (error) {
    unlock();
    throw error;
  }
}

/** Connects to the gateway that has the folder. Throws `inUse` if that does not answer. */
async function openServed(dataDir: string, program: string, inUse: FolderError): Promise<OpenFolder> {
  const client = new pg.Client({
    host: toSocketFolder(dataDir),
    port: PORT,
    user: ADMINISTRATOR,
    database: DATABASE,
    ssl: false,
    application_name: program,
    connectionTimeoutMillis: CONNECT_MS,
  });
  client.on('error', () => {});
  try {
    await client.connect();
  } catch (error) {
    await client.end().catch(() => {});
    if (!(error instanceof pg.DatabaseError)) throw inUse;
    throw new AccessError(`The gateway that has ${dataDir} refuses the connection: ${error.message}`);
  }
  return {
    isServed: true,
    query: (sql, values) => client.query(sql, values).catch(failWith),
    exec: async (text) => {
      const types = await readTypes(client).catch(failWith);
      const results: pg.QueryResult | pg.QueryResult[] = await client.query({ text, types }).catch(failWith);
      return [results].flat().map(({ command, rows, rowCount }) => toStatementResult(command, rows, rowCount));
    },
    close: () => client.end(),
  };
}

/** PGlite's parsers, so that values are the same as without a gateway. */
async function readTypes(client: pg.Client): Promise<pg.CustomTypesConfig> {
  const { types } = await import('@electric-sql/pglite');
  const { rows } = await client.query<{ oid: number; typarray: number }>(
    'select oid, typarray from pg_catalog.pg_type where typarray <> 0',
  );
  const elements = new Map(rows.map(({ oid, typarray }) => [typarray, oid]));
  const parse = (oid: number) => (value: string) => {
    const element = elements.get(oid);
    if (element !== undefined) return types.arrayParser(value, types.parsers[element] ?? String, oid);
    return types.parseType(value, oid);
  };
  return { getTypeParser: parse as pg.CustomTypesConfig['getTypeParser'] };
}

/** The number of rows that a statement has changed, or else given. */
function toStatementResult(command: string | undefined, rows: object[], count: number | null = null): StatementResult {
  const isChange = ['INSERT', 'UPDATE', 'DELETE', 'MERGE', 'COPY'].includes(command ?? '');
  return { rows, count: isChange && count !== null ? count : rows.length };
}

/**
 * Throws the error of a query: Postgres's own, or AccessError if the connection is lost, which anything but an answer of the
 * server, or its last one, means.
 */
export function failWith(error: Error): never {
  if (error instanceof pg.DatabaseError && !/^(57P|08)/.test(error.code ?? '')) throw error;
  throw new AccessError(
    `The connection to the database was lost: ${error.message}; check whether the command took effect before you run it again`,
  );
}

/** Creates a store as the gateway would. */
async function createStore(dataDir: string, demoData: boolean): Promise<void> {
  const { openEmbedded } = await import('../src/store/embedded/store.ts');
  const store = await openEmbedded({
    dataDir,
    migrationsDir: join(SUPABASE, 'migrations'),
    seed: demoData ? { file: 'seed.sql', sql: readFileSync(join(SUPABASE, 'seed.sql'), 'utf8') } : undefined,
    statementLimitMs: CREATE_MS,
    onCreate: () => {
      if (process.stderr.isTTY) console.error(`Creating a store in ${dataDir}, which takes a few seconds`);
    },
  });
  await store.close();
}

/** Loaded only here: loading takes longer than a command on another Postgres. */
async function openAlone(folder: string, fsync: boolean, unlock: () => void): Promise<OpenFolder> {
  const { openPGlite } = await import('../src/store/embedded/pglite.ts');
  const db = await openPGlite(folder, { fsync });
  return {
    isServed: false,
    query: (sql, values) => db.query(sql, values),
    exec: async (sql) => {
      const results = await db.exec(sql);
      return results.map(({ command, rows, rowCount }) => toStatementResult(command, rows as object[], rowCount));
    },
    close: () => db.close().finally(unlock),
  };
}

/**
 * Connects to a Postgres, to its primary where the URL has several hosts; `program` is its application_name. Throws AccessError,
 * without the URL, if it fails.
 */
export async function connect(url: string, program: string): Promise<pg.Client> {
  const address = readDatabaseUrl(url);
  const [first] = address.servers.map(toClient);
  try {
    return await connectToPrimary(address, { connectionTimeoutMillis: CONNECT_MS, application_name: program });
  } catch (error) {
    throw address.hasRoles ? new AccessError(messageOf(error as Error)) : toAccessError(first as pg.Client, error);
  }
}

function toClient({ url }: ServerAddress): pg.Client {
  try {
    return new pg.Client(url);
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    const advice = code === 'ENOENT' ? 'check the files in it' : 'percent-encode its password';
    throw new AccessError(`DATABASE_URL cannot be read: ${message}; ${advice}`);
  }
}

/** The message omits the database: an unencoded slash in the password makes the rest of it part of that name. */
function toAccessError({ host, port }: pg.Client, error: unknown): AccessError {
  // A host with several addresses gives an error without a message.
  const { code = '', message } = error as { code?: string; message: string };
  return new AccessError(
    `Cannot connect to ${host}:${port}: ${message || code}; ${ADVICE[code] ?? 'check DATABASE_URL'}`,
  );
}
