import { createReadStream, fstatSync, statSync } from 'node:fs';
import { resolve } from 'node:path';
import { Refusal } from './errors.ts';

/** Where bytes come from, and how many where that is known. */
export type Source = {
  readonly name: string;
  readonly size: number | undefined;
  readonly bytes: AsyncIterable<Uint8Array>;
};

/** Finds a file, by its path from a folder, or standard input for `-`. Throws Refusal where there is no file to read. */
export function openSource(file: string, folder: string): Source {
  if (file === '-') {
    const stat = fstatSync(process.stdin.fd);
    return { name: 'standard input', size: stat.isFile() ? stat.size : undefined, bytes: process.stdin };
  }
  const path = resolve(folder, file);
  const stat = statSync(path, { throwIfNoEntry: false });
  if (!stat) throw new Refusal({ error: `There is no file ${file}` });
  if (stat.isDirectory()) throw new Refusal({ error: `${file} is a folder: expected a CSV file` });
  return { name: file, size: stat.isFile() ? stat.size : undefined, bytes: createReadStream(path) };
}
