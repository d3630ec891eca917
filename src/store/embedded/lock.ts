import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { OperatorError } from '../../errors.ts';

/** A folder cannot be used; the message names the process that has it. */
export class FolderError extends OperatorError {}

/**
 * Locks the folder of a store for this process, creates it if needed, and gives the function that unlocks it. Throws
 * FolderError if another process has it, if it has files of something else, or if the system does not allow it.
 *
 * The lock is SQLite's lock of a file: the kernel releases it with the process, however that ends. A file with a process id
 * would outlive a killed process, and its id may belong to another by then.
 */
export function lockFolder(folder: string): () => void {
  const holder = join(folder, 'lock.json');
  let database: DatabaseSync | undefined;
  try {
    mkdirSync(folder, { recursive: true });
    refuseForeign(folder);
    database = new DatabaseSync(join(folder, 'lock'));
    database.exec('begin exclusive');
    writeFileSync(holder, JSON.stringify({ pid: process.pid, host: hostname(), since: new Date().toISOString() }));
  } catch (error) {
    database?.close();
    if (error instanceof FolderError) throw error;
    const { errcode, message } = error as { errcode?: number; message: string };
    throw new FolderError(
      errcode === SQLITE_BUSY ? `${folder} is in use by ${readHolder(holder)}` : `${folder} cannot be used: ${message}`,
    );
  }
  const { close } = database;
  return () => close.call(database);
}

const SQLITE_BUSY = 5;
/** What a store's folder has: the first as long as its first start has not ended. */
const OWN: readonly string[] = ['postgres.new', 'postgres', 'lock'];

/** A mistaken DATA_DIR must not mix a store with other files. A new volume may have lost+found and hidden files. */
function refuseForeign(folder: string): void {
  const names = readdirSync(folder).filter((name) => name !== 'lost+found' && !name.startsWith('.'));
  if (names.length === 0 || names.some((name) => OWN.includes(name))) return;
  throw new FolderError(
    `${folder} has files of something else, such as ${names[0]}: set DATA_DIR to a new folder, or to that of a store`,
  );
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
