// What one client notices of others who flood the gateway.

import { setTimeout as delay } from 'node:timers/promises';
import { type Case, findCase } from './cases.ts';
import { toKey } from './data.ts';
import type { Peer, PeerId } from './peer.ts';
import { toPercentile } from './statistics.ts';

/** What is measured, and how long. */
export type FairnessPlan = {
  readonly floods: readonly Flood[];
  /** How many students each tenant has. */
  readonly students: number;
  /** How many requests the client makes alone. */
  readonly requests: number;
  /** How long each flood lasts. */
  readonly seconds: number;
  /** How long the gateway is left alone after a flood, in milliseconds. */
  readonly restMs: number;
};

/** Connections that each send so many expensive lists at once, and again as soon as all of them are answered. */
export type Flood = {
  readonly title: string;
  readonly keys: readonly string[];
  readonly connections: number;
  readonly depth: number;
};

/** What a client saw that asks again and again on one connection. */
export type Seen = {
  readonly requests: number;
  /** Answers with another status than 200, and requests without an answer. */
  readonly failures: number;
  /** Of the latency of all requests, in milliseconds. */
  readonly p50: number;
  readonly p99: number;
};

/** What the client saw right before a flood and during it, and what was answered to the flood itself. */
export type FloodRow = {
  readonly flood: string;
  readonly alone: Seen;
  readonly during: Seen;
  /** Answers to the flood per second, and which part of them had a status of 400 or above. */
  readonly rate: number;
  readonly refused: number;
};

/** What was seen of one gateway. */
export type FairnessRow = {
  readonly peer: PeerId;
  /** The median of what one expensive list takes alone, in milliseconds. */
  readonly expensiveMs: number;
  readonly floods: readonly FloodRow[];
};

const FLOODING = toKey(1);
const PROBING = toKey(2);

/** More than a flood sends in half a minute, as refusals are held back: none of them is sent twice. */
const INVENTED_KEYS = 20_000;

export const FLOODS: readonly Flood[] = [
  { title: '1,000 connections of one key', keys: [FLOODING], connections: 1_000, depth: 1 },
  {
    title: '1,000 connections of invented keys',
    keys: Array.from({ length: INVENTED_KEYS }, (_, n) => toKey(-n)),
    connections: 1_000,
    depth: 1,
  },
  { title: '33 connections of one key, 32 requests at once', keys: [FLOODING], connections: 33, depth: 32 },
];

const EXPENSIVE_REQUESTS = 50;

/** How long a flood has lasted when the client begins, in milliseconds: then all of its connections are there. */
const LEAD_MS = 1_000;

/** For the plan: longer than a call of the store may take, and than a refusal is held back. */
export const REST_MS = 6_000;

/** Measures one gateway. Throws where it does not answer a client who is alone, or a flood. */
export async function measureFairness(
  peer: Peer,
  { floods, students, requests, seconds, restMs }: FairnessPlan,
  { signal, tell }: { readonly signal: AbortSignal; readonly tell: (text: string) => void },
): Promise<FairnessRow> {
  const cheap = findCase('rows10');
  const expensive = toExpensive(students);
  const askCheap = () => peer.ask(cheap, PROBING);
  const askAlone = async (ask: Ask, count: number) => {
    const seen = await askAgain(ask, (made) => made < count, signal);
    if (seen.failures > 0) throw new Error(`${peer.title}: of ${count} requests alone ${seen.failures} failed`);
    return seen;
  };
  // What runs for the first time runs slowly.
  await askAlone(askCheap, requests);
  const { p50: expensiveMs } = await askAlone(() => peer.ask(expensive, FLOODING), EXPENSIVE_REQUESTS);
  tell(`${peer.title}, one expensive list: ${expensiveMs.toFixed(1)} ms`);

  const rows: FloodRow[] = [];
  for (const { title, keys, connections, depth } of floods) {
    const alone = await askAlone(askCheap, requests);
    let isOver = false;
    const end = () => {
      isOver = true;
    };
    const flood = peer.load(expensive, keys, { connections, depth, seconds, signal });
    flood.then(end, end);
    await delay(LEAD_MS, undefined, { signal });
    const during = await askAgain(askCheap, () => !isOver, signal);
    const { requests: answers, seconds: taken, refused } = await flood;
    if (answers === 0) throw new Error(`${peer.title}, ${title}: there was no answer`);
    rows.push({ flood: title, alone, during, rate: answers / taken, refused: refused / answers });
    tell(`${peer.title}, ${title}: p99 ${alone.p99.toFixed(1)} ms alone, ${during.p99.toFixed(1)} ms during it`);
    await delay(restMs, undefined, { signal });
  }
  return { peer: peer.id, expensiveMs, floods: rows };
}

type Ask = () => ReturnType<Peer['ask']>;

/** Asks once at least, and then for as long as there is reason to. */
async function askAgain(ask: Ask, goesOn: (made: number) => boolean, signal: AbortSignal): Promise<Seen> {
  const taken: number[] = [];
  let failures = 0;
  do {
    signal.throwIfAborted();
    const before = performance.now();
    const status = await ask().then(
      (answer) => answer.status,
      () => undefined,
    );
    taken.push(performance.now() - before);
    if (status !== 200) failures += 1;
  } while (goesOn(taken.length));
  const sorted = taken.sort((a, b) => a - b);
  return { requests: sorted.length, failures, p50: toPercentile(sorted, 0.5), p99: toPercentile(sorted, 0.99) };
}

/** The longest list that there is, of the last students: Postgres has to count all those before them. */
function toExpensive(students: number): Case {
  const limit = 1_000;
  return { ...findCase('rows1000'), query: { limit: `${limit}`, offset: `${Math.max(0, students - limit)}` } };
}
