// Runs the server of an embedded store, and creates and migrates its database. The Postgres store makes the calls.

import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { applyMigrations, type Database, readMigrations, runScript, type Script, toWarning } from '../migrations.ts';
import { tryCall } from '../statement.ts';
import type { Call, Result } from '../store.ts';
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
  /** The folder; by default a temporary one, which is removed at the end. */
  readonly dataDir: string | undefined;
  /** The folder of Postgres's programs; by default npm's. */
  readonly programs?: string | undefined;
  /** For tests: false does not wait for the disk. */
  readonly fsync?: boolean;
  /** The largest number of the gateway's connections; 10 by default. */
  readonly connections?: number;
  /** Called before a store is created. */
  readonly onCreate?: () => void;
  /** Receives warnings, each in one line. */
  readonly onWarning?: (text: string) => void;
};

/** The folder of the migrations, and a script with the rows of a new store. */
export type Content = { readonly migrationsDir: string; readonly seed?: Script | undefined };

/** The server of an embedded store. */
export type EmbeddedServer = {
  /** The data folder, which may be temporary. */
  readonly dataDir: string;
  /** Applies the pending migrations of a folder, and returns their files. Throws MigrationError. */
  migrate(migrationsDir: string): Promise<string[]>;
  /** Calls a function as the gateway within `deadlineMs`, and rolls back what it did. */
  attempt(call: Call, deadlineMs: number): Promise<Result>;
  /** Ends the server, and unlocks the folder. */
  close(): Promise<void>;
};

/** The gateway's login, which has only the rights of `gateway`. */
const LOGIN = 'gateway_login';
const CREATE_LOGIN = `
create role ${LOGIN} login noinherit;
grant gateway to ${LOGIN};
grant connect on database ${DATABASE} to ${LOGIN};`;

/** Connections in addition to the gateway's: for administrators, backups, and replacements of stalled connections. */
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
  const { socketFolder } = toPaths(dataDir);
  const host = /^[\w./-]+$/.test(socketFolder) ? socketFolder : `'${socketFolder.replaceAll("'", `'\\''`)}'`;
  return `psql -h ${host} -U ${ADMINISTRATOR} ${DATABASE}`;
}

/**
 * Starts the server of an embedded store. Creates the store if there is none; applies the pending migrations of `content`.
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
  const attempt = (call: Call, deadlineMs: number) =>
    asAdministrator(locked, async (db) => {
      // Never committed: the end of the session rolls back.
      await db.query('begin; set local role gateway');
      await db.query(`set local timezone = 'UTC'; set local statement_timeout = ${deadlineMs}`);
      return tryCall(db, call);
    });
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

/** How to restore a store from a backup. `T` is what is kept of the store that it replaces. */
export type Restore<T> = {
  readonly migrationsDir: string;
  /** Writes the backup to a folder. */
  unpack(folder: string): void;
  /** Reads what is kept of the existing store. */
  read(db: Database): Promise<T>;
  /** Writes to the new store before it replaces the old one. Without an old one `read` is undefined. */
  write(db: Database, read: PromiseSettledResult<T> | undefined): Promise<void>;
};

/** Restores a store from a backup, replacing an existing one. Returns the applied migrations' files; throws as openServer does. */
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
 * Creates a database beside that of the store, runs `work` on it, and replaces the old one once the new one is complete and on the
 * disk. If the process is killed earlier, the store is unchanged.
 */
async function makeDatabase<T>(
  locked: LockedFolder,
  make: (folder: string) => Promise<void>,
  work: (db: pg.Client) => Promise<T>,
): Promise<T> {
  const { complete } = toPaths(locked.dataDir);
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

/** Runs a folder's server while `work` uses it as the administrator. */
async function onServer<T>(locked: LockedFolder, folder: string, work: (db: pg.Client) => Promise<T>): Promise<T> {
  const { database, socketFolder } = toPaths(locked.dataDir);
  const server = await startIn(locked, folder);
  return asAdministrator(locked, work, folder === database ? socketFolder : folder).finally(() => server.stop());
}

/** Starts the server of a folder. An unfinished database has its socket in its own folder, and is written to the disk at the end. */
function startIn(locked: LockedFolder, folder: string): Promise<ServerProcess> {
  const { dataDir, programs, options } = locked;
  const { database, socketFolder } = toPaths(dataDir);
  const { connections = 10, onWarning = () => {} } = options;
  const isInPlace = folder === database;
  return startServer({
    programs,
    folder,
    settings: {
      unix_socket_directories: isInPlace ? socketFolder : folder,
      max_connections: connections + OTHER_CONNECTIONS,
      ...(isInPlace && isDurable(locked) ? {} : { fsync: 'off', full_page_writes: 'off' }),
    },
    temporary: isInPlace && !options.dataDir ? dataDir : undefined,
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

/** Runs `work` on a connection of the administrator. */
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
