// How the scripts reach a database: the folder of an embedded store, or what DATABASE_URL names.

import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { PGlite } from '@electric-sql/pglite';
import pg from 'pg';
import { lockFolder } from '../src/store/embedded/lock.ts';

/** There is no database to work on, or none that lets us in; the message says what to do. */
export class AccessError extends Error {
  override readonly name = 'AccessError';
}

/** How long the server may take to accept the connection, in milliseconds. */
const CONNECT_MS = 10_000;

/** What to do about an error of a connection, by the code of Postgres or of the system. */
const ADVICE: Readonly<Record<string, string>> = {
  '28000': 'check the user in DATABASE_URL, and what the server lets in',
  '28P01': 'check the user and the password in DATABASE_URL',
  '3D000': 'create the database, or check its name in DATABASE_URL',
  ECONNREFUSED: 'check that the server runs, and the host and port in DATABASE_URL',
  ENOTFOUND: 'check the host in DATABASE_URL',
};

/**
 * Opens the store in a folder for its administrator; undefined is a store in memory, which nobody else reaches.
 * Throws AccessError where there is no store, and FolderError where another process has it.
 */
export async function openFolder(dataDir: string | undefined): Promise<{ db: PGlite; close(): Promise<void> }> {
  if (!dataDir) throw new AccessError('DATA_DIR=:memory: keeps no store: set it to the folder of one');
  const folder = join(dataDir, 'postgres');
  if (!existsSync(folder)) {
    throw new AccessError(`There is no store in ${dataDir}: npm start makes one, without demo data if DEMO_DATA=off`);
  }
  const unlock = lockFolder(dataDir);
  try {
    const db = await openPGlite(folder);
    return { db, close: () => db.close().finally(unlock) };
  } catch (error) {
    unlock();
    throw error;
  }
}

/** Loaded only here: it takes longer to load than a command on another Postgres takes. */
async function openPGlite(folder: string): Promise<PGlite> {
  const { PGlite } = await import('@electric-sql/pglite');
  return PGlite.create({ dataDir: folder });
}

/** Connects to a Postgres under the name of a program. Throws AccessError, without the URL, where that fails. */
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
    const advice = code === 'ENOENT' ? 'check the files that it names' : 'percent-encode the password in it';
    throw new AccessError(`DATABASE_URL cannot be read: ${message}; ${advice}`);
  }
  // Without a listener the end of the connection would end the process; the query that runs is told of it too.
  client.on('error', () => {});
  try {
    await client.connect();
  } catch (error) {
    await client.end().catch(() => {});
    throw toAccessError(client, error);
  }
  return client;
}

/** Without the database: a password with an unencoded slash would be taken for a part of its name. */
function toAccessError({ host, port }: pg.Client, error: unknown): AccessError {
  // A host with several addresses gives an error without a message.
  const { code = '', message } = error as { code?: string; message: string };
  return new AccessError(
    `Cannot connect to ${host}:${port}: ${message || code}; ${ADVICE[code] ?? 'check DATABASE_URL'}`,
  );
}
