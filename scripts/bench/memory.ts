// The gateway's memory under long work and under long lists: npm run bench:memory -- --help

import { setTimeout as delay } from 'node:timers/promises';
import { Option } from 'commander';
import { type Case, type CaseId, findCase, type HttpRequest, toApiRequest } from './cases.ts';
import { createCommand, type Output, readInteger, runCommand, saveResults } from './command.ts';
import { toKey } from './data.ts';
import { toKeys } from './measure.ts';
import { type HttpPeer, type PeerId, TITLES } from './peer.ts';
import { openWorld } from './peers.ts';
import { readMemory, readPeakMemory, resetPeakMemory } from './process-figures.ts';
import type { Cleanup } from './processes.ts';
import {
  type Place,
  readPlace,
  toConnections,
  toMarkdown,
  toMegabytes,
  toNumber,
  toPlace,
  toVerdict,
} from './report.ts';
import { readSlowly } from './slow-readers.ts';
import { toSpread } from './statistics.ts';
import { requireWrk } from './wrk.ts';

export type MemoryPlan = {
  readonly tenants: number;
  /** Minimum number of requests in all. */
  readonly requests: number;
  /** Length of each load of long lists. */
  readonly seconds: number;
  /** Number of the largest rows that a tenant of its own gets. */
  readonly largeRows: number;
  /** Pause before the memory is read: V8 frees memory late. */
  readonly quietMs: number;
};

/** Resident memory at rest, in bytes, after a number of requests. */
type Sample = { readonly requests: number; readonly memory: number };

/** Resident memory at rest before a load, at its peak, and at rest after it, in bytes. */
type Burst = { readonly load: string; readonly before: number; readonly peak: number; readonly after: number };

/** One gateway. */
export type MemoryRow = {
  readonly peer: PeerId;
  readonly samples: readonly Sample[];
  readonly bursts: readonly Burst[];
};

export type MemoryResults = Place & {
  readonly requests: number;
  readonly seconds: number;
  readonly rows: readonly MemoryRow[];
};

type Context = { readonly signal: AbortSignal; readonly log: (text: string) => void };

const SAMPLES = 10;
const CONNECTIONS = 32;
const BURST_CONNECTIONS = 200;
/** Requests that a client sends at once without waiting for the answers. */
const PIPELINED = 20;
/** Maximum length of one load, in seconds: the first second says little about the rate. */
const MAX_SECONDS = 30;
/** Readings of the memory; their median counts. */
const READINGS = 5;

/** Maximum growth since the first sample. */
const GROWTH_GOAL = 0.05;
const LARGEST = 'largest rows, read slowly';
/** Maximum peak of the postgres store while clients read the largest rows slowly, in bytes. */
const LARGEST_GOAL = 400e6;
/** Two bytes a character, both in UTF-8 and in V8. */
const LONGEST_NAME = 'ł'.repeat(255);
/** 64 characters before the @, and 254 in all (RFC 5321, section 4.5.3.1). */
const LONGEST_EMAIL = `${'a'.repeat(64)}@${`${'b'.repeat(59)}.`.repeat(3)}b.example`;

/** A tenant's requests in turn, some with headers that clients send. */
const MIX: readonly { readonly id: CaseId; readonly more?: HttpRequest['headers'] }[] = [
  { id: 'rows10' },
  { id: 'rows100' },
  { id: 'rows10' },
  { id: 'create' },
  { id: 'rows10', more: { 'If-None-Match': '*' } },
  { id: 'rows100', more: { 'Accept-Encoding': 'gzip' } },
  { id: 'refused' },
  { id: 'invalid', more: { 'Accept-Language': 'pt-BR' } },
  { id: 'rows100', more: { 'Accept-Encoding': 'br' } },
];

/** Measures one gateway. Throws if it does not answer. */
export async function measureMemory(peer: HttpPeer, plan: MemoryPlan, context: Context): Promise<MemoryRow> {
  const samples = await sample(peer, plan, context);
  const [list, largest] = [1, plan.tenants + 1].map((tenant) => toApiRequest(findCase('rows1000'), toKey(tenant)));
  if (!list || !largest) return { peer: peer.id, samples, bursts: [] };
  await createLargeRows(peer, plan);
  const load = { connections: BURST_CONNECTIONS, seconds: plan.seconds, signal: context.signal };
  const loads = {
    [LARGEST]: () => readSlowly(peer.origin, largest, load),
    'read at once': async () => (await peer.run([list], load)).requests,
    'read slowly': () => readSlowly(peer.origin, list, load),
    [`${PIPELINED} at once, read slowly`]: () => readSlowly(peer.origin, list, { ...load, depth: PIPELINED }),
  };
  const bursts: Burst[] = [];
  for (const [name, run] of Object.entries(loads)) bursts.push(await watch(peer, name, run, plan.quietMs, context));
  return { peer: peer.id, samples, bursts };
}

async function sample(peer: HttpPeer, plan: MemoryPlan, { signal, log }: Context): Promise<Sample[]> {
  const mix = createMix(plan.tenants);
  const samples: Sample[] = [];
  for (let done = 0, rate = 1_000; samples.length < SAMPLES; ) {
    const goal = Math.ceil((plan.requests * (samples.length + 1)) / SAMPLES);
    while (done < goal) {
      const seconds = Math.min(MAX_SECONDS, Math.max(1, Math.round((goal - done) / rate)));
      const { requests, failed } = await peer.run(mix, { connections: CONNECTIONS, seconds, signal });
      // wrk counts late answers as failed too, and a busy machine gives some.
      if (failed >= requests) throw new Error(`${peer.title}: ${failed} of ${requests} requests had no answer`);
      done += requests;
      rate = requests / seconds;
    }
    const memory = await readAtRest(peer.pid, plan.quietMs, signal);
    samples.push({ requests: done, memory });
    log(`${peer.title}, ${done} requests: ${toMegabytes(memory)} MB`);
  }
  return samples;
}

async function watch(
  { pid, title }: HttpPeer,
  load: string,
  run: () => Promise<number>,
  quietMs: number,
  { signal, log }: Context,
): Promise<Burst> {
  const before = await readAtRest(pid, quietMs, signal);
  resetPeakMemory(pid);
  if ((await run()) === 0) throw new Error(`${title}, lists of 1,000 rows, ${load}: there was no answer`);
  const peak = readPeakMemory(pid) ?? Number.NaN;
  log(`${title}, ${load}: ${toMegabytes(peak)} MB`);
  return { load, before, peak, after: await readAtRest(pid, quietMs, signal) };
}

async function readAtRest(pid: number, quietMs: number, signal: AbortSignal): Promise<number> {
  await delay(quietMs, undefined, { signal });
  const readings: number[] = [];
  while (readings.length < READINGS) {
    readings.push(readMemory(pid) ?? Number.NaN);
    await delay(quietMs / 25, undefined, { signal });
  }
  return toSpread(readings)?.median ?? Number.NaN;
}

async function createLargeRows(peer: HttpPeer, { tenants, largeRows }: MemoryPlan): Promise<void> {
  const create: Case = { ...findCase('create'), body: { p_nome: LONGEST_NAME, p_email: LONGEST_EMAIL } };
  for (let row = 0; row < largeRows; row++) {
    const { status } = await peer.ask(create, toKey(tenants + 1));
    if (status !== create.status) throw new Error(`${peer.title}: expected ${create.status}, got ${status}`);
  }
}

function createMix(tenants: number): HttpRequest[] {
  return Array.from({ length: tenants }, (_, tenant) =>
    MIX.map(({ id, more }) => {
      const case_ = findCase(id);
      const { headers, ...request } = toApiRequest(case_, toKeys(case_, tenants)[tenant] ?? '');
      return { ...request, headers: { ...headers, ...more } };
    }),
  ).flat();
}

export function toMemoryReport({ rows, requests, seconds, ...place }: MemoryResults): string {
  const counts = Array.from({ length: SAMPLES }, (_, n) => [
    toNumber((requests * (n + 1)) / SAMPLES),
    ...rows.map(({ samples }) => toMegabytes(samples[n]?.memory)),
  ]);
  const growths = rows.map(({ samples }) => {
    const growth = (samples.at(-1)?.memory ?? 0) / (samples[0]?.memory ?? 0) - 1;
    return `${(growth * 100).toFixed(1)} %, ${toVerdict(growth <= GROWTH_GOAL)}`;
  });
  const bursts = rows.flatMap(({ peer, bursts }) =>
    bursts.map(({ load, before, peak, after }) => [
      `${TITLES[peer]}, ${load}`,
      ...[before, peak, after].map(toMegabytes),
      load === LARGEST && peer === 'gateway-postgres' ? toVerdict(peak < LARGEST_GOAL) : '',
    ]),
  );
  return [
    '# Memory',
    `${toPlace(place)} Resident memory of the gateway's process, in MB.`,
    `## A mix of requests at ${toConnections(CONNECTIONS)}\n\nAt rest after so many requests; the goal is a growth of at most 5 %.`,
    toMarkdown(['Requests', ...rows.map(({ peer }) => TITLES[peer])], [...counts, ['growth', ...growths]]),
    `## Lists of 1,000 rows at ${toConnections(BURST_CONNECTIONS)}\n\nEach load lasts ${seconds} s. The goal on Postgres is a peak below 400 MB with the largest rows that a key can create.`,
    toMarkdown(['', 'before', 'peak', 'at rest after it', ''], bursts),
  ].join('\n\n');
}

const STORES = ['postgres', 'supabase', 'embedded'] as const;
const TENANTS = 10;

type Options = Output &
  Pick<MemoryPlan, 'requests' | 'seconds'> & { readonly only: readonly (typeof STORES)[number][] };

const HELP = `
It starts the gateway on each store. Each gateway answers a mix of requests on 32 connections, and
its resident memory is read in ten pauses. Then 200 connections request lists of 1,000 rows: the
largest rows that a key can create and rows of usual size, read at once and slowly.

--output writes memory.json and memory.md. Needs wrk (Debian: apt-get install wrk).`;

async function measure(options: Options, cleanup: Cleanup, signal: AbortSignal): Promise<void> {
  const wrk = requireWrk();
  const size = { tenants: TENANTS + 1, students: 2_000 };
  const { requests, seconds } = options;
  const only = options.only.map((store): PeerId => `gateway-${store}`);
  const { peers, postgres } = await openWorld(cleanup, { ...size, only });
  const plan = { tenants: TENANTS, requests, seconds, largeRows: 1_000, quietMs: 5_000 };
  const rows: MemoryRow[] = [];
  for (const peer of peers) rows.push(await measureMemory(peer as HttpPeer, plan, { signal, log: console.error }));
  const results = { ...readPlace(postgres.version, size, wrk), requests, seconds, rows };
  saveResults('memory', results, toMemoryReport(results), options);
}

if (import.meta.main) {
  const description = "Measures the gateway's memory under long work and under long lists.";
  await runCommand(
    createCommand('bench:memory', description, HELP, measure)
      .option('--requests <N>', 'requests to each gateway', readInteger(10, 100_000_000), 200_000)
      .option('--seconds <N>', 'length of each load of long lists', readInteger(1, 3_600), 30)
      .addOption(new Option('--only <STORE...>', 'only these stores').choices(STORES).default(STORES)),
  );
}
