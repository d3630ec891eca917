// Connects an administrator to a database: the folder of an embedded store, or DATABASE_URL.

import pg from 'pg';
import { readDatabaseUrl, type ServerAddress } from '../database-url.ts';
import { messageOf, OperatorError } from '../errors.ts';
import type { Content } from '../store/embedded/store.ts';
import { type EmbeddedConfig, reachServer } from '../store/open.ts';
import { connectToPrimary } from '../store/postgres/servers.ts';

/** The database cannot be reached; the message says what to do. */
export class AccessError extends OperatorError {}

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
export type OpenFolder = {
  readonly client: pg.Client;
  /** Whether a gateway serves the store meanwhile. */
  readonly isServed: boolean;
  close(): Promise<void>;
};

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
      `The gateway that has ${config.dataDir} refuses the connection: ${messageOf(error as Error)}`,
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
    `The connection to the database was lost: ${error.message}; check whether the command took effect before you run it again`,
  );
}

/**
 * Connects to a Postgres, to its primary where the URL has several hosts; `program` is its application_name. Throws AccessError,
 * without the URL, if it fails.
 */
export async function connect(url: string, program: string): Promise<pg.Client> {
  const address = readDatabaseUrl(url);
  const [first] = address.servers.map(toClient);
  try {
    return await connectToServer(url, program);
  } catch (error) {
    throw address.hasRoles ? new AccessError(messageOf(error as Error)) : toAccessError(first as pg.Client, error);
  }
}

function connectToServer(url: string, program: string): Promise<pg.Client> {
  return connectToPrimary(readDatabaseUrl(url), { connectionTimeoutMillis: CONNECT_MS, application_name: program });
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
