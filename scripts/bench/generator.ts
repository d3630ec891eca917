// The load generator: the same for all that is measured over HTTP, in a process of its own.

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { findAutocannon, runAutocannon } from './autocannon.ts';
import type { HttpRequest } from './cases.ts';
import type { Cleanup } from './cleanup.ts';
import { findWrk, runWrk } from './wrk.ts';

/** How much load, and for how long; the signal ends it early. */
export type Load = {
  readonly connections: number;
  readonly seconds: number;
  readonly signal: AbortSignal;
  /** How many requests a connection sends before it waits for their answers; 1 unless told. */
  readonly depth?: number;
};

/** What came of it. */
export type Generated = {
  readonly requests: number;
  readonly seconds: number;
  /** Of the latency, in milliseconds. */
  readonly p50: number;
  readonly p99: number;
  /** Answers with a status of 400 or above. */
  readonly refused: number;
  /** Requests without an answer. */
  readonly failed: number;
};

/** A load generator, and its name with its version. */
export type Generator = {
  readonly name: string;
  run(origin: string, requests: readonly HttpRequest[], load: Load): Promise<Generated>;
};

export const GENERATORS = ['wrk', 'autocannon'] as const;

/** The one that is asked for, or else wrk where it is installed. Throws where that is not. */
export function createGenerator(cleanup: Cleanup, wanted?: (typeof GENERATORS)[number]): Generator {
  const version = wanted === 'autocannon' ? undefined : findWrk();
  if (wanted === 'wrk' && !version) throw new Error('wrk is not installed: on Debian it is the package wrk');
  if (!version) return { name: `autocannon ${findAutocannon()}`, run: runAutocannon };
  const folder = mkdtempSync(join(tmpdir(), 'bench-wrk-'));
  cleanup.add(() => rmSync(folder, { recursive: true, force: true }));
  return { name: `wrk ${version}`, run: (...args) => runWrk(folder, ...args) };
}
