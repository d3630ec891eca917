// Removes what a benchmark starts and creates when it ends, fails or is interrupted.

import { once } from 'node:events';
import { mkdtempSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** What to stop and remove, last started first. */
export type Cleanup = AsyncDisposableStack;

/** Runs a benchmark and cleans up. SIGINT and SIGTERM fail it at once. */
export async function withCleanup<T>(work: (cleanup: Cleanup, signal: AbortSignal) => Promise<T>): Promise<T> {
  await using cleanup = new AsyncDisposableStack();
  const controller = new AbortController();
  const { signal } = controller;
  const abort = () => controller.abort(new Error('Interrupted'));
  process.on('SIGINT', abort).on('SIGTERM', abort);
  const working = work(cleanup, signal);
  // After an interrupt the benchmark fails too, because its servers are stopped.
  working.catch(() => {});
  const interrupted = once(signal, 'abort').then(() => signal.throwIfAborted());
  return (await Promise.race([working, interrupted])) as T;
}

/** Creates a temporary folder. */
export function createFolder(cleanup: Cleanup, name: string): string {
  const folder = mkdtempSync(join(tmpdir(), `bench-${name}-`));
  // After an interrupt Postgres may still delete files here. Unlike rmSync, rm continues if a file has already gone.
  cleanup.defer(() => rm(folder, { recursive: true, force: true, maxRetries: 10 }));
  return folder;
}
