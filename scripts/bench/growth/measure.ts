// The measurements: one client, which sends a request when it has the answer to the one before.

import { Agent, request } from 'node:http';
import { toPercentile, toSpread } from '../statistics.ts';
import type { Case } from './cases.ts';
import type { Stage } from './data.ts';

/** The tenant at one of its sizes, and where a gateway answers for it as it is then. */
export type World = { readonly origin: string; readonly stage: Stage };

/** What one case took at one size. */
export type Measurement = {
  readonly case: string;
  readonly students: number;
  readonly requests: number;
  /** Of the latency, in milliseconds. */
  readonly p50: number;
  readonly p99: number;
  /** The median of each round. */
  readonly medians: readonly number[];
  /** How many rows the answer has. */
  readonly rows: number;
};

/** How often the cases are measured in turn: what slows the machine for a while slows all of them alike. */
const ROUNDS = 10;

/** The longest that one case takes in a round, in milliseconds, and the fewest requests that it makes. */
const MOST_MS = 2_000;
const FEWEST = 2;

/** Measures every case at each size, one size after the other. Throws where an answer is neither a list nor a student. */
export async function measureAll(
  worlds: readonly World[],
  cases: readonly Case[],
  requests: number,
  signal: AbortSignal,
): Promise<Measurement[]> {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  const series = cases.flatMap((case_) =>
    worlds.map((world) => ({ case_, world, rounds: [] as number[][], rows: 0, send: () => ask(agent, case_, world) })),
  );
  try {
    for (let round = 0; round < ROUNDS; round += 1) {
      for (const one of series) {
        signal.throwIfAborted();
        // The first one reads what the others then have in memory.
        one.rows = toRows(one.case_, await one.send());
        one.rounds.push(await repeat(one.send, Math.ceil(requests / ROUNDS)));
      }
    }
  } finally {
    agent.destroy();
  }
  return series.map(({ case_, world, rounds, rows }) => {
    const sorted = rounds.flat().sort((a, b) => a - b);
    const medians = rounds.map((times) => toSpread(times)?.median ?? Number.NaN);
    const [p50, p99] = [toPercentile(sorted, 0.5), toPercentile(sorted, 0.99)];
    return { case: case_.id, students: world.stage.students, requests: sorted.length, p50, p99, medians, rows };
  });
}

type Answer = { readonly status: number; readonly text: string };

async function repeat(send: () => Promise<Answer>, times: number): Promise<number[]> {
  const taken: number[] = [];
  const begin = performance.now();
  while (taken.length < FEWEST || (taken.length < times && performance.now() - begin < MOST_MS)) {
    const before = performance.now();
    await send();
    taken.push(performance.now() - before);
  }
  return taken;
}

function toRows({ title }: Case, { status, text }: Answer): number {
  if (status === 201) return 1;
  if (status === 200) return JSON.parse(text).length;
  throw new Error(`${title}: expected status 200 or 201, got ${status}: ${text}`);
}

function ask(agent: Agent, case_: Case, { origin, stage }: World): Promise<Answer> {
  const { method, path, headers, body } = case_.toRequest(stage);
  return new Promise((resolve, reject) => {
    const sent = request(origin + path, { agent, method, headers }, (res) => {
      const chunks: Buffer[] = [];
      res.on('data', (chunk) => chunks.push(chunk));
      res.on('end', () => resolve({ status: res.statusCode ?? 0, text: Buffer.concat(chunks).toString() }));
      res.on('error', reject);
    });
    sent.on('error', reject);
    sent.end(body);
  });
}
