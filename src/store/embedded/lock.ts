import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { OperatorError } from '../../errors.ts';

/** A folder cannot be used; where another process has it the message says which. */
export class FolderError extends OperatorError {}

/**
 * Takes a folder, which it makes where there is none, for this process alone, and gives the function that lets go
 * of it. Throws FolderError where another process has it, or the system
 * does not allow it.
 *
 * The lock is SQLite's lock of a file: the kernel ends it with the process, however that ends. A file that holds a
 * process id would outlive a killed process, and its id may be another's by then.
 */
export function lockFolder(folder: string): () => void {
  const holder = join(folder, 'lock.json');
  let database: DatabaseSync | undefined;
  try {
    mkdirSync(folder, { recursive: true });
    database = new DatabaseSync(join(folder, 'lock'));
    database.exec('begin exclusive');
    writeFileSync(holder, JSON.stringify({ pid: process.pid, host: hostname(), since: new Date().toISOString() }));
  } catch (error) {
    database?.close();
    const { errcode, message } = error as { errcode?: number; message: string };
    throw new FolderError(
      errcode === SQLITE_BUSY ? `${folder} is in use by ${readHolder(holder)}` : `${folder} cannot be used: ${message}`,
    );
  }
  const { close } = database;
  return () => close.call(database);
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
