// Loaded with --import: appends to the file RECORD_TO everything that this process changes in the folder RECORD_FOLDER, and each
// fsync. power-loss.ts reads it.

import { syncBuiltinESMExports } from 'node:module';
import { relative } from 'node:path';

const fs = process.getBuiltinModule('fs');
const { RECORD_TO = '', RECORD_FOLDER = '' } = process.env;
const { openSync, writeSync, closeSync, ftruncateSync, fdatasyncSync, fsyncSync } = fs;
const { writeFileSync, truncateSync, renameSync, unlinkSync, mkdirSync, rmdirSync } = fs;

const log = openSync(RECORD_TO, 'a');
const paths = new Map<number, string>();

/** The path in the folder; undefined for one outside. */
const toPath = (path: unknown): string | undefined => {
  const inside = relative(RECORD_FOLDER, String(path));
  return inside.startsWith('..') ? undefined : inside;
};

/** Records what was done with a path or an open file. */
function record(path: string | undefined, entry: object, data: Uint8Array = Buffer.alloc(0)): void {
  if (path === undefined) return;
  const head = Buffer.from(`${JSON.stringify({ path, ...entry, length: data.length })}\n`);
  writeSync(log, Buffer.concat([head, data]));
}

fs.openSync = (path, ...others) => {
  const fd = openSync(path, ...others);
  const inside = toPath(path);
  if (inside !== undefined) paths.set(fd, inside);
  return fd;
};
fs.closeSync = (fd) => {
  paths.delete(fd);
  closeSync(fd);
};
// biome-ignore lint/suspicious/noExplicitAny: one of its forms, that of Emscripten
fs.writeSync = ((fd: number, buffer: any, offset: number, length: number, position: number) => {
  const written = writeSync(fd, buffer, offset, length, position);
  const data = Buffer.from(buffer.buffer, buffer.byteOffset + offset, written);
  record(paths.get(fd), { op: 'write', position }, data);
  return written;
}) as typeof fs.writeSync;
fs.writeFileSync = (file, ...others) => {
  writeFileSync(file, ...others);
  if (typeof file !== 'number') record(toPath(file), { op: 'create' });
};
fs.truncateSync = (path, size) => {
  truncateSync(path, size);
  record(toPath(path), { op: 'truncate', size });
};
fs.ftruncateSync = (fd, size) => {
  ftruncateSync(fd, size);
  record(paths.get(fd), { op: 'truncate', size });
};
fs.renameSync = (from, to) => {
  renameSync(from, to);
  record(toPath(from), { op: 'rename', to: toPath(to) });
};
fs.unlinkSync = (path) => {
  unlinkSync(path);
  record(toPath(path), { op: 'unlink' });
};
fs.mkdirSync = ((path, options) => {
  const made = mkdirSync(path, options);
  record(toPath(path), { op: 'mkdir' });
  return made;
}) as typeof fs.mkdirSync;
fs.rmdirSync = (path) => {
  rmdirSync(path);
  record(toPath(path), { op: 'rmdir' });
};
fs.fdatasyncSync = (fd) => {
  fdatasyncSync(fd);
  record(paths.get(fd), { op: 'fsync' });
};
fs.fsyncSync = (fd) => {
  fsyncSync(fd);
  record(paths.get(fd), { op: 'fsync' });
};
syncBuiltinESMExports();
