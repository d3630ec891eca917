// Connects scripts to a database: the folder of an embedded store, or DATABASE_URL.

import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { PGlite } from '@electric-sql/pglite';
import pg from 'pg';
import type { StoreConfig } from '../src/config.ts';
import { OperatorError } from '../src/errors.ts';
import { lockFolder } from '../src/store/embedded/lock.ts';

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

/**
 * Opens an embedded store as its administrator, and creates it first if there is none. Throws AccessError for a store in memory,
 * which only its own process can reach, and FolderError if another process has the store open.
 */
export async function openFolder({
  dataDir,
  demoData,
}: EmbeddedConfig): Promise<{ db: PGlite; close(): Promise<void> }> {
  if (!dataDir) throw new AccessError('DATA_DIR=:memory: keeps no store: set it to the folder of a store');
  const folder = join(dataDir, 'postgres');
  if (!existsSync(folder)) await createStore(dataDir, demoData);
  const unlock = lockFolder(dataDir);
  try {
    const db = await openPGlite(folder);
    return { db, close: () => db.close().finally(unlock) };
  } catch (error) {
    unlock();
    throw error;
  }
}

/** Creates a store as the gateway would. */
async function createStore(dataDir: string, demoData: boolean): Promise<void> {
  if (process.stderr.isTTY) console.error(`Creating a store in ${dataDir}, which takes a few seconds`);
  const { openEmbedded } = await import('../src/store/embedded/store.ts');
  const store = await openEmbedded({
    dataDir,
    migrationsDir: join(SUPABASE, 'migrations'),
    seed: demoData ? { file: 'seed.sql', sql: readFileSync(join(SUPABASE, 'seed.sql'), 'utf8') } : undefined,
    statementLimitMs: CREATE_MS,
  });
  await store.close();
}

/** Loaded only here: loading takes longer than a command on another Postgres. */
async function openPGlite(folder: string): Promise<PGlite> {
  const { PGlite } = await import('@electric-sql/pglite');
  return PGlite.create({ dataDir: folder });
}

/** Connects to a Postgres; `program` is its application_name. Throws AccessError, without the URL, if it fails. */
export async function connect(url: string, program: string): Promise<pg.Client> {
  let client: pg.Client;
  try {
    client = new pg.Client({
      connectionString: url,
      connectionTimeoutMillis: CONNECT_MS,
      application_name: program,
    });
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    const advice = code === 'ENOENT' ? 'check the files in it' : 'percent-encode its password';
    throw new AccessError(`DATABASE_URL cannot be read: ${message}; ${advice}`);
  }
  // Without a listener a lost connection would end the process; the running query fails anyway.
  client.on('error', () => {});
  try {
    await client.connect();
  } catch (error) {
    await client.end().catch(() => {});
    throw toAccessError(client, error);
  }
  return client;
}

/** The message omits the database: an unencoded slash in the password makes the rest of it part of that name. */
function toAccessError({ host, port }: pg.Client, error: unknown): AccessError {
  // A host with several addresses gives an error without a message.
  const { code = '', message } = error as { code?: string; message: string };
  return new AccessError(
    `Cannot connect to ${host}:${port}: ${message || code}; ${ADVICE[code] ?? 'check DATABASE_URL'}`,
  );
}
