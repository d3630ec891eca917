// The server of an embedded store: made, brought up to date, and kept in a folder. The Postgres store makes the calls.

import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { applyMigrations, type Database, readMigrations, runScript, type Script, toWarning } from '../migrations.ts';
import type { Row, Statement } from '../statement.ts';
import { lockFolder, putInPlace, toPaths } from './folder.ts';
import { findPrograms, type Programs } from './programs.ts';
import {
  ADMINISTRATOR,
  createCluster,
  DATABASE,
  ServerError,
  type ServerProcess,
  startServer,
  syncCluster,
} from './server.ts';

/** Where an embedded store keeps its data, and how its server runs. */
type EmbeddedOptions = {
  /** The folder; without one the store is in a temporary folder, which goes with it. */
  readonly dataDir: string | undefined;
  /** The folder of the programs of Postgres, if they are not npm's. */
  readonly programs?: string | undefined;
  /** For tests: false answers before the rows are on the disk. */
  readonly fsync?: boolean;
  /** The largest number of the gateway's connections; 10 by default. */
  readonly connections?: number;
  /** Called before a store is made. */
  readonly onCreate?: () => void;
  /** Receives warnings, each in one line. */
  readonly onWarning?: (text: string) => void;
};

/** The migrations that a store has to have, and the rows of a new one. */
export type Content = { readonly migrationsDir: string; readonly seed?: Script | undefined };

/** The server of an embedded store. */
export type EmbeddedServer = {
  /** The folder, also of a store in a temporary one. */
  readonly dataDir: string;
  /** Applies the new migrations of a folder, and gives their files. Throws MigrationError. */
  migrate(migrationsDir: string): Promise<string[]>;
  /**
   * Runs a statement as the gateway, for so many milliseconds at most, takes back what it did, and gives its first row. Throws the
   * error of Postgres.
   */
  attempt(statement: Statement, deadlineMs: number): Promise<Row | undefined>;
  /** Ends the server, and unlocks the folder. */
  close(): Promise<void>;
};

/** The login of the gateway, which is only a member of `gateway`. */
const LOGIN = 'gateway_login';
const CREATE_LOGIN = `
create role ${LOGIN} login noinherit;
grant gateway to ${LOGIN};
grant connect on database ${DATABASE} to ${LOGIN};`;

/** How many connections others than the gateway may have: administrators, backups, and those that replace stalled ones. */
const OTHER_CONNECTIONS = 20;

/** The URL of a store's server, for the gateway's login or for its administrator. */
export function toUrl(dataDir: string, login: typeof LOGIN | typeof ADMINISTRATOR = LOGIN): string {
  return toSocketUrl(toPaths(dataDir).socketFolder, login);
}

function toSocketUrl(folder: string, login: string): string {
  return `postgres://${login}@/${DATABASE}?host=${encodeURIComponent(folder)}`;
}

/** The command that opens psql on a store. */
export function toPsql(dataDir: string): string {
  return `psql -h ${toPaths(dataDir).socketFolder} -U ${ADMINISTRATOR} ${DATABASE}`;
}

/**
 * Starts the server of an embedded store, which is made first if there is none. With `content` it gets the migrations that it lacks.
 * Throws FolderError, MigrationError and ServerError.
 */
export async function openServer(options: EmbeddedOptions, content?: Content): Promise<EmbeddedServer> {
  const locked = await openFolder(options);
  const { dataDir, programs } = locked;
  const { database } = toPaths(dataDir);
  let server: ServerProcess | undefined;
  const close = async () => {
    await server?.stop();
    if (!options.dataDir) rmSync(dataDir, { recursive: true, force: true });
    locked.unlock();
  };
  const migrate = (folder: string) => asAdministrator(locked, (db) => bringUpToDate(db, folder));
  const attempt = (statement: Statement, deadlineMs: number) =>
    asAdministrator(locked, (db) => attemptAsGateway(db, statement, deadlineMs));
  try {
    if (!existsSync(database)) await createDatabase(locked, content);
    checkVersion(database, programs);
    server = await startIn(locked, database);
    if (content) await migrate(content.migrationsDir);
    return { dataDir, migrate, attempt, close };
  } catch (error) {
    await close();
    throw error;
  }
}

/** How a store is made of a backup. `T` is what it takes over from the store that it replaces. */
export type Restore<T> = {
  readonly migrationsDir: string;
  /** Writes the backup to a folder. */
  unpack(folder: string): void;
  /** Reads from the store that is there. */
  read(db: Database): Promise<T>;
  /** Writes to the new store, before it is in its place. There may have been none, or one that could not be read. */
  write(db: Database, read: PromiseSettledResult<T> | undefined): Promise<void>;
};

/**
 * Makes a store of a backup, in place of one that is there, and gives the files of the migrations that it lacked. Throws as
 * openServer does.
 */
export async function restoreStore<T>(
  options: EmbeddedOptions,
  { migrationsDir, unpack, read, write }: Restore<T>,
): Promise<string[]> {
  const locked = await openFolder(options);
  const { database } = toPaths(locked.dataDir);
  const make = async (folder: string) => {
    unpack(folder);
    checkVersion(folder, locked.programs);
  };
  try {
    const [result] = await Promise.allSettled(existsSync(database) ? [onServer(locked, database, read)] : []);
    return await makeDatabase(locked, make, async (db) => {
      const applied = await bringUpToDate(db, migrationsDir);
      await write(db, result);
      return applied;
    });
  } finally {
    locked.unlock();
  }
}

/** A folder that is locked for this process. */
type LockedFolder = {
  readonly dataDir: string;
  readonly programs: Programs;
  readonly options: EmbeddedOptions;
  readonly unlock: () => void;
};

async function openFolder(options: EmbeddedOptions): Promise<LockedFolder> {
  const programs = await findPrograms(options.programs);
  const dataDir = options.dataDir ?? mkdtempSync(join(tmpdir(), 'wellness-'));
  return { dataDir, programs, options, unlock: lockFolder(dataDir) };
}

async function createDatabase(locked: LockedFolder, content: Content | undefined): Promise<void> {
  locked.options.onCreate?.();
  await makeDatabase(
    locked,
    (folder) => createCluster(folder, locked.programs),
    async (db) => {
      if (!content) return;
      await bringUpToDate(db, content.migrationsDir);
      await db.query(CREATE_LOGIN);
      if (content.seed) await runScript(db, content.seed);
    },
  );
}

/**
 * Makes a database beside the place of the store, works on it, and puts it there once it is complete and on the disk: what is killed
 * before leaves the store as it was.
 */
async function makeDatabase<T>(
  locked: LockedFolder,
  make: (folder: string) => Promise<void>,
  work: (db: pg.Client) => Promise<T>,
): Promise<T> {
  const { complete } = toPaths(locked.dataDir);
  rmSync(complete, { recursive: true, force: true });
  try {
    await make(complete);
    const { uid, gid } = statSync(locked.dataDir);
    if (process.getuid?.() === 0) execFileSync('chown', ['-R', `${uid}:${gid}`, complete]);
    const result = await onServer(locked, complete, work);
    if (isDurable(locked)) await syncCluster(complete, locked.programs);
    await putInPlace(locked.dataDir);
    return result;
  } catch (error) {
    rmSync(complete, { recursive: true, force: true });
    throw error;
  }
}

/** Runs the server of a folder while its administrator works. */
async function onServer<T>(locked: LockedFolder, folder: string, work: (db: pg.Client) => Promise<T>): Promise<T> {
  const { database, socketFolder } = toPaths(locked.dataDir);
  const server = await startIn(locked, folder);
  return asAdministrator(locked, work, folder === database ? socketFolder : folder).finally(() => server.stop());
}

/** A database that is being made has its socket in itself, and is written to the disk as a whole, at the end. */
function startIn(locked: LockedFolder, folder: string): Promise<ServerProcess> {
  const { dataDir, programs, options } = locked;
  const { database, socketFolder } = toPaths(dataDir);
  const { connections = 10, onWarning = () => {} } = options;
  const isMade = folder === database;
  return startServer({
    programs,
    folder,
    settings: {
      unix_socket_directories: isMade ? socketFolder : folder,
      max_connections: connections + OTHER_CONNECTIONS,
      ...(isMade && isDurable(locked) ? {} : { fsync: 'off', full_page_writes: 'off' }),
    },
    temporary: isMade && !options.dataDir ? dataDir : undefined,
    onWarning,
  });
}

function isDurable({ options }: LockedFolder): boolean {
  return options.fsync !== false && options.dataDir !== undefined;
}

function checkVersion(folder: string, { version }: Programs): void {
  const made = readFileSync(join(folder, 'PG_VERSION'), 'utf8').trim();
  if (made === String(version)) return;
  throw new ServerError(
    `Postgres ${made} made ${folder}, and the programs have version ${version}: set POSTGRES_BIN to the programs of Postgres ${made}`,
  );
}

/** Does something as the administrator of the server. */
async function asAdministrator<T>(
  { dataDir, options }: LockedFolder,
  work: (db: pg.Client) => Promise<T>,
  socketFolder = toPaths(dataDir).socketFolder,
): Promise<T> {
  const client = new pg.Client(toSocketUrl(socketFolder, ADMINISTRATOR));
  client.on('error', () => {});
  client.on('notice', (notice) => {
    const warning = toWarning(notice);
    if (warning) options.onWarning?.(warning);
  });
  await client.connect();
  return work(client).finally(() => client.end());
}

async function bringUpToDate(db: pg.Client, migrationsDir: string): Promise<string[]> {
  return (await applyMigrations(db, readMigrations(migrationsDir))).map(({ file }) => file);
}

async function attemptAsGateway(
  db: pg.Client,
  { text, values }: Statement,
  deadlineMs: number,
): Promise<Row | undefined> {
  // Also after an error: the end of the session takes back what it did.
  await db.query('begin; set local role gateway');
  await db.query(`set local timezone = 'UTC'; set local statement_timeout = ${deadlineMs}`);
  const types = { getTypeParser: () => (text: string) => text };
  const { rows } = await db.query<(string | null)[]>({ text, values: [...values], rowMode: 'array', types });
  return rows[0];
}
