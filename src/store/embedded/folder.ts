import {
  accessSync,
  chmodSync,
  constants,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { open, readdir, rename, rm } from 'node:fs/promises';
import { hostname } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { OperatorError } from '../../errors.ts';

/** A folder cannot be used; the message says why, and names the process that has it. */
export class FolderError extends OperatorError {}

const SQLITE_BUSY = 5;
/** Everybody but the owner. */
const OTHERS = 0o077;
/** What a store's folder has: the first as long as its first start has not ended. */
const OWN: readonly string[] = ['postgres.new', 'postgres', 'lock'];

/** Throws FolderError if no store can be made in a folder. Changes nothing. */
export function checkNewFolder(folder: string): void {
  try {
    const isThere = existsSync(folder);
    if (isThere) refuseForeign(folder);
    accessSync(isThere ? folder : dirname(resolve(folder)), constants.W_OK);
  } catch (error) {
    throw error instanceof FolderError ? error : toFolderError(folder, '', error);
  }
}

/**
 * Locks the folder of a store for this process, and gives the function that unlocks it. Creates the folder if needed, and
 * makes it and an existing store its owner's alone; `onRepair` receives a line if they were not. Throws FolderError
 * if another process has the folder, if it has files of something else, or if the system does not allow it.
 *
 * The lock is SQLite's lock of a file: the kernel releases it with the process, however that ends. A file with a process id
 * would outlive a killed process, and its id may belong to another by then.
 */
export function lockFolder(folder: string, onRepair: (text: string) => void = () => {}): () => void {
  const [lock, holder] = [join(folder, 'lock'), join(folder, 'lock.json')];
  let database: DatabaseSync | undefined;
  try {
    // Not the folders above it, which a mistyped path would create. In /proc Node would never stop trying.
    if (!existsSync(folder)) mkdirSync(folder, { mode: 0o700 });
    refuseForeign(folder);
    accessSync(folder, constants.W_OK);
    writeFileSync(lock, '', { flag: 'a', mode: 0o600 });
    database = new DatabaseSync(lock);
    database.exec('begin exclusive');
    writeFileSync(holder, JSON.stringify({ pid: process.pid, host: hostname(), since: new Date().toISOString() }));
    const postgres = join(folder, 'postgres');
    if (existsSync(toOld(postgres)) && !existsSync(postgres)) renameSync(toOld(postgres), postgres);
    const opened = [folder, lock, holder, ...findStore(folder)].filter((path) => !makePrivate(path));
    if (opened.length > 0 && existsSync(postgres)) {
      onRepair(`Other users of this machine could read ${folder}: its permissions are now its owner's alone`);
    }
  } catch (error) {
    database?.close();
    throw error instanceof FolderError ? error : toFolderError(folder, holder, error);
  }
  const { close } = database;
  return () => close.call(database);
}

/** How many files are written to the disk at once. */
const WRITERS = 8;

/** Where a database is while another one takes its place. */
const toOld = (folder: string) => `${folder}.old`;

/**
 * Renames a complete database to a folder, in place of one that is there. A loss of power leaves one of them whole; the next
 * lockFolder puts an old one back.
 */
export async function putInPlace(complete: string, folder: string): Promise<void> {
  const names = await readdir(complete, { recursive: true });
  const paths = [complete, ...names.map((name) => join(complete, name))].values();
  const write = async () => {
    for (const path of paths) await fsyncPath(path);
  };
  await Promise.all(Array.from({ length: WRITERS }, write));
  const old = toOld(folder);
  await rm(old, { recursive: true, force: true });
  if (existsSync(folder)) await rename(folder, old);
  await rename(complete, folder);
  await fsyncPath(dirname(folder));
  await rm(old, { recursive: true, force: true });
}

/** Writes a file, or the names in a folder, to the disk. */
export async function fsyncPath(path: string): Promise<void> {
  const handle = await open(path);
  await handle.sync().finally(() => handle.close());
}

/**
 * A mistaken DATA_DIR must not mix a store with other files, and the owner of the folder could replace the store. A new volume
 * may have lost+found and hidden files.
 */
function refuseForeign(folder: string): void {
  const names = readdirSync(folder).filter((name) => name !== 'lost+found' && !name.startsWith('.'));
  if (names.length > 0 && !names.some((name) => OWN.includes(name))) {
    throw new FolderError(
      `${folder} has files of something else, such as ${names[0]}: set DATA_DIR to a new folder, or to that of a store`,
    );
  }
  const { uid } = statSync(folder);
  const user = process.getuid?.();
  if (user !== undefined && uid !== user) {
    throw new FolderError(
      `${folder} belongs to user ${uid}, and this process runs as user ${user}: run it as user ${uid}, or set DATA_DIR to a folder that does not exist yet, such as ${join(folder, 'store')}`,
    );
  }
}

/** The paths of everything in the store. */
function findStore(folder: string): string[] {
  const postgres = join(folder, 'postgres');
  if (!existsSync(postgres)) return [];
  const names = readdirSync(postgres, { recursive: true, encoding: 'utf8' });
  return [postgres, ...names.map((name) => join(postgres, name))];
}

/** Takes a file's or folder's permissions from all but its owner; false if they had any. Throws if that is not possible. */
function makePrivate(path: string): boolean {
  const { mode } = statSync(path);
  if ((mode & OTHERS) === 0) return true;
  chmodSync(path, mode & 0o700);
  // Some file systems have no permissions, and accept any.
  if ((statSync(path).mode & OTHERS) === 0) return false;
  throw new Error(
    'its file system has no permissions, so other users could read it; set DATA_DIR to one on another disk',
  );
}

function toFolderError(folder: string, holder: string, error: unknown): FolderError {
  const { errcode, code, message } = error as { errcode?: number; code?: string; message: string };
  if (errcode === SQLITE_BUSY) return new FolderError(`${folder} is in use by ${readHolder(holder)}`);
  const parent = dirname(resolve(folder));
  const isOrphan = code === 'ENOENT' && !existsSync(parent);
  const advice = isOrphan ? `; create ${parent} first, or set DATA_DIR to another folder` : '';
  return new FolderError(`${folder} cannot be used: ${message}${advice}`);
}

function readHolder(file: string): string {
  try {
    const { pid, host, since } = JSON.parse(readFileSync(file, 'utf8'));
    const advice = host === hostname() ? `; stop it with: kill ${pid}` : '';
    return `process ${pid} on ${host}, since ${since}${advice}`;
  } catch {
    // It has the lock and has not written its name yet.
    return 'another process';
  }
}
