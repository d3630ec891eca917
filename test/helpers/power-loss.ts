// A disk that loses power: from a folder and what was recorded of its changes, builds folders as bad as the system may leave
// them. Of what no fsync has confirmed, any page may be lost, old or half written, and any name missing.

import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

type Change =
  | { readonly op: 'write'; readonly position: number }
  | { readonly op: 'truncate'; readonly size: number }
  | { readonly op: 'rename'; readonly to: string }
  | { readonly op: 'create' | 'unlink' | 'mkdir' | 'rmdir' | 'fsync' };

/** A recorded operation, and where it ends in the record. */
export type Operation = Change & { readonly path: string; readonly data: Buffer; readonly end: number };

const PAGE = 4_096;
/** What a disk writes as a whole. */
const SECTOR = 512;

/** Reads what record-writes.ts has recorded. */
export function readOperations(file: string): Operation[] {
  const bytes = readFileSync(file);
  const operations: Operation[] = [];
  for (let start = 0; start < bytes.length; ) {
    const line = bytes.indexOf('\n', start);
    const { length, ...entry } = JSON.parse(bytes.toString('utf8', start, line));
    start = line + 1 + length;
    operations.push({ ...entry, data: bytes.subarray(line + 1, start), end: start });
  }
  return operations;
}

/** A file's content on the disk, and the changes since its last fsync. */
type File = { bytes: Buffer; pending: Operation[] };
type NameOperation = { readonly operation: Operation; readonly file: File | undefined };

/** Numbers from 0 to 1, the same for the same seed (Mulberry32). */
export function createRandom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

export class Disk {
  readonly #folders: string[] = [];
  /** By path, as processes see them, and as they are on the disk. */
  readonly #seen = new Map<string, File>();
  #names = new Map<string, File>();
  /** Changes of names since the fsync of their folder. */
  #pending: NameOperation[] = [];

  /** A disk on which everything in a folder is safe. */
  constructor(folder: string) {
    for (const entry of readdirSync(folder, { recursive: true, withFileTypes: true })) {
      const path = join(entry.parentPath, entry.name);
      const name = path.slice(folder.length + 1);
      if (entry.isDirectory()) this.#folders.push(name);
      else this.#seen.set(name, { bytes: readFileSync(path), pending: [] });
    }
    this.#names = new Map(this.#seen);
  }

  /** Does a recorded operation. */
  do(operation: Operation): void {
    const { op, path } = operation;
    const file = this.#seen.get(path);
    if (op === 'fsync') this.#fsync(path, file);
    else if (op === 'write' || op === 'truncate') file?.pending.push(operation);
    else if (op === 'mkdir' || op === 'rmdir') this.#folders.push(path);
    else {
      // A file that was there keeps its place, and becomes empty.
      if (op === 'create' && file) return;
      const moved = op === 'create' ? { bytes: Buffer.alloc(0), pending: [] } : file;
      this.#pending.push({ operation, file: moved });
      rename(this.#seen, operation, moved);
    }
  }

  /** Builds a folder that a loss of power may leave now. */
  loseTo(folder: string, random: () => number): void {
    const names = new Map(this.#names);
    // A journal keeps the order and loses the last changes; without one, any may be lost.
    const kept = random();
    const isJournal = random() < 0.5;
    this.#pending.forEach(({ operation, file }, index) => {
      if (isJournal ? index < kept * this.#pending.length : random() < kept) rename(names, operation, file);
    });
    mkdirSync(folder, { mode: 0o700 });
    for (const name of this.#folders) mkdirSync(join(folder, name), { recursive: true, mode: 0o700 });
    for (const [name, file] of names) {
      writeFileSync(join(folder, name), lose(file, random), { mode: 0o600 });
    }
  }

  /** An fsync of a file confirms its content and its name, that of a folder the names in it. */
  #fsync(path: string, file: File | undefined): void {
    if (file) {
      file.bytes = apply(file.bytes, file.pending);
      file.pending = [];
    }
    // The folder itself has an empty path.
    const folder = path || '.';
    const isConfirmed = ({ operation, file: named }: NameOperation) =>
      file
        ? named === file
        : [operation.path, 'to' in operation ? operation.to : ''].some((one) => dirname(one) === folder);
    for (const { operation, file: named } of this.#pending.filter(isConfirmed)) rename(this.#names, operation, named);
    this.#pending = this.#pending.filter((one) => !isConfirmed(one));
  }
}

function rename(names: Map<string, File>, operation: Operation, file: File | undefined): void {
  if (operation.op !== 'create') names.delete(operation.path);
  if (operation.op === 'create' && file) names.set(operation.path, file);
  if (operation.op === 'rename' && file) names.set(operation.to, file);
}

/** A file's content with each pending page lost, written or torn. */
function lose({ bytes, pending }: File, random: () => number): Buffer {
  const kept = [0, 1, random()][Math.floor(random() * 3)] ?? 0;
  const changes = pending.flatMap(toPages).flatMap((change) => {
    if (random() >= kept) return [];
    if (change.op !== 'write' || random() < 0.9) return [change];
    const torn = Math.floor((random() * change.data.length) / SECTOR) * SECTOR;
    return [{ ...change, data: change.data.subarray(0, torn) }];
  });
  return apply(bytes, changes);
}

/** A write as one for each page of the file. */
function toPages(change: Operation): Operation[] {
  if (change.op !== 'write') return [change];
  const pages: Operation[] = [];
  for (let start = 0; start < change.data.length; ) {
    const position = change.position + start;
    const end = Math.min(change.data.length, start + PAGE - (position % PAGE));
    pages.push({ ...change, position, data: change.data.subarray(start, end) });
    start = end;
  }
  return pages;
}

/** A content after writes and truncations. */
function apply(bytes: Buffer, changes: readonly Operation[]): Buffer {
  if (changes.length === 0) return bytes;
  const ends = changes.map((change) => {
    if (change.op === 'write') return change.position + change.data.length;
    return change.op === 'truncate' ? change.size : 0;
  });
  const content = Buffer.alloc(Math.max(bytes.length, ...ends));
  bytes.copy(content);
  let size = bytes.length;
  for (const change of changes) {
    if (change.op === 'write' && change.data.length > 0) {
      change.data.copy(content, change.position);
      size = Math.max(size, change.position + change.data.length);
    } else if (change.op === 'truncate') {
      content.fill(0, Math.min(change.size, size), size);
      size = change.size;
    }
  }
  return content.subarray(0, size);
}
