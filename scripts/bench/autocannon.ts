// autocannon, where there is no wrk. It measures latencies in whole milliseconds.

import { spawn } from 'node:child_process';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import type autocannon from 'autocannon';
import type { HttpRequest } from './cases.ts';
import type { Generated, Load } from './generator.ts';
import { readOutput } from './output.ts';

/** What is read of autocannon's result; its types know an earlier version. */
export type Result = Pick<autocannon.Result, 'duration' | 'latency' | 'requests' | 'errors'> & {
  readonly statusCodeStats: Readonly<Record<string, { readonly count: number }>>;
};

/** The version of autocannon. */
export function findAutocannon(): string {
  return createRequire(import.meta.url)('autocannon/package.json').version;
}

/** Sends requests to an origin with so many connections for whole seconds. */
export async function runAutocannon(
  origin: string,
  requests: readonly HttpRequest[],
  { connections, seconds, signal, depth }: Load,
): Promise<Generated> {
  const child = spawn(process.execPath, [join(import.meta.dirname, 'autocannon-process.ts')], { signal });
  const output = readOutput(child);
  child.stdin.end(JSON.stringify({ url: origin, connections, duration: seconds, requests, pipelining: depth }));
  return parseAutocannon(JSON.parse(await output));
}

/** What autocannon gives. */
export function parseAutocannon({ duration, latency, requests, errors, statusCodeStats }: Result): Generated {
  const refused = Object.entries(statusCodeStats).filter(([status]) => Number(status) >= 400);
  return {
    requests: requests.total,
    seconds: duration,
    p50: latency.p50,
    p99: latency.p99,
    refused: refused.reduce((sum, [, { count }]) => sum + count, 0),
    failed: errors,
  };
}
