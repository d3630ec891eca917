// What a run of a benchmark starts and makes: all of it is gone when the run ends, fails or is interrupted.

import { once } from 'node:events';
import { mkdtempSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** What a run has to stop, last started first. */
export type Cleanup = AsyncDisposableStack;

/** Runs a benchmark and stops what it started; SIGINT and SIGTERM fail it at once. */
export async function withCleanup<T>(work: (cleanup: Cleanup, signal: AbortSignal) => Promise<T>): Promise<T> {
  await using cleanup = new AsyncDisposableStack();
  const controller = new AbortController();
  const { signal } = controller;
  const abort = () => controller.abort(new Error('Interrupted'));
  process.on('SIGINT', abort).on('SIGTERM', abort);
  const working = work(cleanup, signal);
  // After an interrupt it fails too, because its servers are gone.
  working.catch(() => {});
  const interrupted = once(signal, 'abort').then(() => signal.throwIfAborted());
  return (await Promise.race([working, interrupted])) as T;
}

/** Creates a temporary folder. */
export function createFolder(cleanup: Cleanup, name: string): string {
  const folder = mkdtempSync(join(tmpdir(), `bench-${name}-`));
  // The Postgres of a gateway that was interrupted works in it for a moment. rmSync leaves the rest when a file goes by itself.
  cleanup.defer(() => rm(folder, { recursive: true, force: true, maxRetries: 10 }));
  return folder;
}
