// Folders of embedded stores, with the data of the benchmark.

import { cpSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startScript, waitForEnd } from './child.ts';
import type { Cleanup } from './cleanup.ts';
import type { Size } from './data.ts';

/** Makes as many folders as are asked for, each with the same data and as DATA_DIR names one. */
export async function makeFolders(cleanup: Cleanup, { tenants, students }: Size, count: number): Promise<string[]> {
  const root = mkdtempSync(join(tmpdir(), 'bench-embedded-'));
  cleanup.add(() => rmSync(root, { recursive: true, force: true }));
  const folders = Array.from({ length: count }, (_, n) => join(root, String(n)));
  const [first, ...others] = folders;
  if (!first) return [];
  mkdirSync(first);
  const script = join(import.meta.dirname, 'embedded-data.ts');
  const args = [script, join(first, 'postgres'), String(tenants), String(students)];
  await waitForEnd(startScript(cleanup, args), 'the loading of the embedded store');
  for (const folder of others) cpSync(first, folder, { recursive: true });
  return folders;
}
