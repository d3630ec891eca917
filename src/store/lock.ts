import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';

/** A folder is in use by another process; the message says by which. */
export class FolderInUseError extends Error {
  override readonly name = 'FolderInUseError';
}

/**
 * Takes a folder, which it makes where there is none, for this process alone, and gives the function that lets go
 * of it. Throws FolderInUseError where another process has it.
 *
 * The lock is SQLite's lock of a file: the kernel ends it with the process, however that ends. A file that holds a
 * process id would outlive a killed process, and its id may be another's by then.
 */
export function lockFolder(folder: string): () => void {
  mkdirSync(folder, { recursive: true });
  const holder = join(folder, 'lock.json');
  const database = new DatabaseSync(join(folder, 'lock'));
  try {
    database.exec('begin exclusive');
  } catch (error) {
    database.close();
    if ((error as { errcode?: number }).errcode !== SQLITE_BUSY) throw error;
    throw new FolderInUseError(`${folder} is in use by ${readHolder(holder)}`);
  }
  writeFileSync(holder, JSON.stringify({ pid: process.pid, host: hostname(), since: new Date().toISOString() }));
  return () => database.close();
}

const SQLITE_BUSY = 5;

function readHolder(file: string): string {
  try {
    const { pid, host, since } = JSON.parse(readFileSync(file, 'utf8'));
    return `process ${pid} on ${host}, since ${since}`;
  } catch {
    // It has the lock and has not come to write its name yet.
    return 'another process';
  }
}
