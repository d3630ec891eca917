// The memory of a gateway while it works long, and while many clients want much at once.

import { setTimeout as delay } from 'node:timers/promises';
import { type CaseId, findCase, type HttpRequest, toApiRequest } from './cases.ts';
import { toKey } from './data.ts';
import type { Generator } from './generator.ts';
import type { Peer, PeerId } from './peer.ts';
import { readMemory, readPeakMemory, resetPeakMemory } from './process-figures.ts';
import { toKeys } from './run.ts';
import { readSlowly } from './slow-readers.ts';
import { toSpread } from './statistics.ts';

/** How long a process is left alone before its memory is read, in ms: what it does not need is collected late. */
export const QUIET_MS = 5_000;

/** What is asked of each gateway. */
export type MemoryPlan = {
  readonly tenants: number;
  /** How many requests are made in all, at least. */
  readonly requests: number;
  /** How long each load of long lists lasts. */
  readonly seconds: number;
  readonly quietMs: number;
};

/** The resident memory at rest, in bytes, after so many requests. */
export type Sample = { readonly requests: number; readonly memory: number };

/** The resident memory at rest before a load, at its most, and at rest after it, in bytes. */
export type Burst = { readonly load: string; readonly before: number; readonly peak: number; readonly after: number };

/** What was seen of one gateway. */
export type MemoryRow = {
  readonly peer: PeerId;
  readonly samples: readonly Sample[];
  readonly bursts: readonly Burst[];
};

/** What a measurement has beside its plan: a way to make load, word to end, and who wants to hear of each step. */
export type Measuring = {
  readonly generator: Generator;
  readonly signal: AbortSignal;
  readonly tell: (text: string) => void;
};

/** How often the memory is read; the first time all that is made once has been made. */
export const SAMPLES = 10;
export const CONNECTIONS = 32;
export const BURST_CONNECTIONS = 200;
/** How many lists a client asks for at once that does not wait for answers. */
const PIPELINED = 20;

/** The longest that a generator works at a time: its rate in the first second says little. */
const MAX_SECONDS = 30;

/** Of how many readings the median is taken, in the last part of a pause. */
const READINGS = 5;

/** The requests of a tenant in turn, some with what other clients send than load generators. */
const MIX: readonly { readonly id: CaseId; readonly more?: HttpRequest['headers'] }[] = [
  { id: 'rows10' },
  { id: 'rows100' },
  { id: 'search' },
  { id: 'rows10' },
  { id: 'create' },
  { id: 'rows10', more: { 'If-None-Match': '*' } },
  { id: 'rows100', more: { 'Accept-Encoding': 'gzip' } },
  { id: 'refused' },
  { id: 'invalid', more: { 'Accept-Language': 'pt-BR' } },
  { id: 'rows100', more: { 'Accept-Encoding': 'br' } },
];

/** Measures one gateway. Throws where it does not answer as it has to. */
export async function measureMemory(peer: Peer, plan: MemoryPlan, measuring: Measuring): Promise<MemoryRow> {
  const { generator, signal } = measuring;
  const { origin = '', title } = peer;
  const samples = await sample(peer, plan, measuring);
  const list = toApiRequest(findCase('rows1000'), toKey(1));
  const load = { connections: BURST_CONNECTIONS, seconds: plan.seconds, signal };
  const loads = {
    'read at once': async () => (await generator.run(origin, [list], load)).requests,
    'read slowly': () => readSlowly(origin, list, { ...load, depth: 1 }),
    [`${PIPELINED} at once, read slowly`]: () => readSlowly(origin, list, { ...load, depth: PIPELINED }),
  };
  const bursts: Burst[] = [];
  for (const [name, run] of Object.entries(loads)) {
    const { result, ...burst } = await watch(peer, name, run, plan.quietMs, measuring);
    if (result === 0) throw new Error(`${title}, lists of 1,000 ${name}: there was no answer`);
    bursts.push(burst);
  }
  return { peer: peer.id, samples, bursts };
}

/** Reads the memory of a gateway before, at and after a load, and gives the load's result beside it. */
export async function watch<T>(
  { pid, title }: Peer,
  load: string,
  run: () => Promise<T>,
  quietMs: number,
  { signal, tell }: Pick<Measuring, 'signal' | 'tell'>,
): Promise<Burst & { readonly result: T }> {
  const before = await settle(pid, quietMs, signal);
  resetPeakMemory(pid);
  const result = await run();
  const peak = readPeakMemory(pid) ?? Number.NaN;
  tell(`${title}, ${load}: ${toMegabytes(peak)}`);
  return { load, before, peak, after: await settle(pid, quietMs, signal), result };
}

async function sample(peer: Peer, plan: MemoryPlan, { generator, signal, tell }: Measuring): Promise<Sample[]> {
  const { origin = '', pid, title } = peer;
  const mix = toMix(plan.tenants);
  const samples: Sample[] = [];
  for (let done = 0, rate = 1_000; samples.length < SAMPLES; ) {
    const goal = Math.ceil((plan.requests * (samples.length + 1)) / SAMPLES);
    while (done < goal) {
      const seconds = Math.min(MAX_SECONDS, Math.max(1, Math.round((goal - done) / rate)));
      const { requests, failed } = await generator.run(origin, mix, { connections: CONNECTIONS, seconds, signal });
      // wrk counts answers that come late too, as they do on a machine that is busy.
      if (failed >= requests) throw new Error(`${title}: of ${requests} requests ${failed} had no answer`);
      done += requests;
      rate = requests / seconds;
    }
    const memory = await settle(pid, plan.quietMs, signal);
    samples.push({ requests: done, memory });
    tell(`${title}, ${done} requests: ${toMegabytes(memory)}`);
  }
  return samples;
}

/** The resident memory of a process that has come to rest, in bytes: the median of some readings. */
async function settle(pid: number, quietMs: number, signal: AbortSignal): Promise<number> {
  await delay(quietMs, undefined, { signal });
  const readings: number[] = [];
  while (readings.length < READINGS) {
    readings.push(readMemory(pid) ?? Number.NaN);
    await delay(quietMs / 25, undefined, { signal });
  }
  return toSpread(readings)?.median ?? Number.NaN;
}

function toMix(tenants: number): HttpRequest[] {
  return Array.from({ length: tenants }, (_, tenant) =>
    MIX.map(({ id, more }) => {
      const case_ = findCase(id);
      const { headers, ...request } = toApiRequest(case_, toKeys(case_, tenants)[tenant] ?? '');
      return { ...request, headers: { ...headers, ...more } };
    }),
  ).flat();
}

function toMegabytes(bytes: number): string {
  return `${Math.round(bytes / 1e6)} MB`;
}
