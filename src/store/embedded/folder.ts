// The folder of an embedded store: `database` is Postgres's data folder, `socket` has its socket, `lock` is held by the gateway.

import fs from 'node:fs';
import { open } from 'node:fs/promises';
import { hostname } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { OperatorError } from '../../errors.ts';

/** A folder cannot be used; the message says why. */
export class FolderError extends OperatorError {}

/** Another process has the folder; the message names it. */
export class FolderInUse extends FolderError {}

/** The paths in the folder of a store. */
export function toPaths(folder: string) {
  const at = (name: string) => resolve(folder, name);
  const [database, socketFolder, lock, holder] = [at('database'), at('socket'), at('lock'), at('lock.json')];
  return { database, complete: `${database}.new`, old: `${database}.old`, socketFolder, lock, holder };
}

const SQLITE_BUSY = 5;
/** The permissions of everybody but the owner. */
const OTHERS = 0o077;
/** The user `nobody` owns a store that root creates, because Postgres refuses to run as root. */
export const NOBODY = 65_534;
const SOCKET = '.s.PGSQL.5432';
/** The longest path of a socket, in bytes. */
const SOCKET_BYTES = process.platform === 'linux' ? 107 : 103;
const OWN: readonly string[] = ['database', 'database.new', 'database.old', 'lock'];

/** Whether a folder has a store, also one whose replacement was interrupted. Throws FolderError if this process cannot enter it. */
export function hasStore(folder: string): boolean {
  const { database, old } = toPaths(folder);
  try {
    return [database, old].some((path) => fs.statSync(path, { throwIfNoEntry: false }));
  } catch (error) {
    // It knows more about a folder of another user.
    checkFolder(folder);
    throw toFolderError(folder, error);
  }
}

/** Whether a folder has a store of version 1, whose Postgres ran in WebAssembly. */
export function isVersion1(folder: string): boolean {
  const has = (name: string) => fs.existsSync(join(folder, name));
  return has('postgres') && has('lock.json') && !has('database');
}

/** Throws FolderError if a folder cannot be used for a store. Changes nothing. */
export function checkFolder(folder: string): void {
  try {
    refusePath(folder);
    const isThere = fs.existsSync(folder);
    if (isThere) refuseForeign(folder);
    // The slash refuses a file.
    fs.accessSync(isThere ? folder : `${dirname(resolve(folder))}/`, fs.constants.W_OK);
  } catch (error) {
    throw error instanceof FolderError ? error : toFolderError(folder, error);
  }
}

/**
 * Locks the folder of a store for this process, and returns the function that unlocks it. Creates the folder if needed, and
 * removes other users' access. Throws FolderInUse, or FolderError if the folder belongs to another user, has other files, or
 * cannot be used.
 *
 * The lock is SQLite's file lock, which the kernel releases with the process, however that ends. A file with a process id would
 * outlive a killed process, whose id another process may get.
 */
export function lockFolder(folder: string): () => void {
  const { database, complete, old, socketFolder, lock, holder } = toPaths(folder);
  let sqlite: DatabaseSync | undefined;
  try {
    checkFolder(folder);
    // Not recursive: a mistyped path would create folders, and in /proc Node would try for ever.
    if (!fs.existsSync(folder)) fs.mkdirSync(folder, { mode: 0o700 });
    if (process.getuid?.() === 0 && fs.statSync(folder).uid === 0) fs.chownSync(folder, NOBODY, NOBODY);
    if (fs.statSync(folder).mode & OTHERS) fs.chmodSync(folder, 0o700);
    // Not if it exists: closing the file again would release a lock of this process.
    if (!fs.existsSync(lock)) fs.writeFileSync(lock, '', { mode: 0o600 });
    sqlite = new DatabaseSync(lock);
    sqlite.exec('begin exclusive');
    fs.writeFileSync(holder, JSON.stringify({ pid: process.pid, host: hostname(), since: new Date().toISOString() }));
    fs.mkdirSync(socketFolder, { recursive: true, mode: 0o700 });
    // A killed server has left the lock of its socket, with a process id that another process may have now.
    fs.rmSync(join(socketFolder, `${SOCKET}.lock`), { force: true });
    if (fs.existsSync(old) && !fs.existsSync(database)) fs.renameSync(old, database);
    // What an interrupted restore has left has personal data.
    for (const path of [complete, old]) fs.rmSync(path, { recursive: true, force: true });
    const { uid, gid } = fs.statSync(folder);
    if (process.getuid?.() === 0) for (const path of [lock, holder, socketFolder]) fs.chownSync(path, uid, gid);
  } catch (error) {
    sqlite?.close();
    throw error instanceof FolderError ? error : toFolderError(folder, error);
  }
  const held = sqlite;
  return () => held.close();
}

/**
 * Replaces the store's data folder by a complete one, which is flushed to the disk already. After a power failure one of them is
 * whole: the next lockFolder restores the old one.
 */
export async function putInPlace(folder: string): Promise<void> {
  const { complete, database, old } = toPaths(folder);
  if (fs.existsSync(database)) fs.renameSync(database, old);
  fs.renameSync(complete, database);
  await syncPath(folder);
  fs.rmSync(old, { recursive: true, force: true });
}

/** Flushes a file, or the entries of a folder, to the disk. */
export async function syncPath(path: string): Promise<void> {
  const handle = await open(path);
  await handle.sync().finally(() => handle.close());
}

/**
 * Throws for a folder that must not be used: a mistaken DATA_DIR must not mix a store with other files, and another owner could
 * replace the store. A new volume may have lost+found and hidden files.
 */
function refuseForeign(folder: string): void {
  const { uid } = fs.statSync(folder);
  const user = process.getuid?.() || uid;
  if (uid !== user) {
    throw new FolderError(
      `${folder} belongs to user ${uid}, and this process runs as user ${user}: run it as user ${uid}, or set DATA_DIR to a folder that does not exist yet, such as ${join(folder, 'store')}`,
    );
  }
  const names = fs.readdirSync(folder).filter((name) => name !== 'lost+found' && !name.startsWith('.'));
  if (isVersion1(folder)) {
    throw new FolderError(
      `${folder} has a store of version 1: set DATA_DIR to a new folder, and copy the store there as docs/stores.md says ("From version 1")`,
    );
  }
  if (names.length > 0 && !names.some((name) => OWN.includes(name))) {
    throw new FolderError(
      `${folder} has files of something else, such as ${names[0]}: set DATA_DIR to a new folder, or to that of a store`,
    );
  }
}

/** Throws for a folder whose path no socket can have: Postgres and libpq take a comma for the end of a path. */
function refusePath(folder: string): void {
  const socket = join(toPaths(folder).complete, SOCKET);
  const excess = Buffer.byteLength(socket) - SOCKET_BYTES;
  if (excess > 0) {
    throw new FolderError(
      `The path of ${folder} is ${excess} bytes too long for a socket in it: set DATA_DIR to a shorter one`,
    );
  }
  if (socket.includes(',')) {
    throw new FolderError(`The path of ${folder} has a comma: set DATA_DIR to one without`);
  }
}

function toFolderError(folder: string, error: unknown): FolderError {
  const { errcode, code, message } = error as { errcode?: number; code?: string; message: string };
  if (errcode === SQLITE_BUSY) return new FolderInUse(`${folder} is in use by ${readHolder(toPaths(folder).holder)}`);
  const parent = dirname(resolve(folder));
  const isOrphan = code === 'ENOENT' && !fs.existsSync(parent);
  const advice = isOrphan ? `; create ${parent} first, or set DATA_DIR to another folder` : '';
  return new FolderError(`${folder} cannot be used: ${message}${advice}`);
}

function readHolder(file: string): string {
  try {
    const { pid, host, since } = JSON.parse(fs.readFileSync(file, 'utf8'));
    const advice = host === hostname() ? `; wait until it ends, or stop it with: kill ${pid}` : '';
    return `process ${pid} on ${host}, since ${since}${advice}`;
  } catch {
    // It has the lock, but has not written the file yet.
    return 'another process';
  }
}
