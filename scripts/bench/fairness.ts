// What one client notices while others flood the gateway: npm run bench:fairness -- --help

import { setTimeout as delay } from 'node:timers/promises';
import { Option } from 'commander';
import { type Case, findCase } from './cases.ts';
import { createCommand, type Output, readInteger, runCommand, saveResults } from './command.ts';
import { toKey } from './data.ts';
import { type Peer, type PeerId, TITLES } from './peer.ts';
import { openWorld } from './peers.ts';
import type { Cleanup } from './processes.ts';
import { type Place, readPlace, toMarkdown, toMilliseconds, toNumber, toPlace, toVerdict } from './report.ts';
import { toPercentile } from './statistics.ts';
import { requireWrk } from './wrk.ts';

export type FairnessPlan = {
  readonly floods: readonly Flood[];
  /** Students of each tenant. */
  readonly students: number;
  /** Requests of the client without a flood. */
  readonly requests: number;
  /** Length of each flood. */
  readonly seconds: number;
  /** Pause after a flood. */
  readonly restMs: number;
};

/** Connections that each send `depth` expensive lists at once, and again as soon as all are answered. */
export type Flood = {
  readonly title: string;
  readonly keys: readonly string[];
  readonly connections: number;
  readonly depth: number;
};

/** What a client saw that repeats a request on one connection; latencies are in ms. */
type Seen = {
  readonly requests: number;
  /** Answers with another status than 200, and requests without an answer. */
  readonly failures: number;
  readonly p50: number;
  readonly p99: number;
};

/** What the client saw right before a flood and during it, and how the flood was answered. */
type FloodRow = {
  readonly flood: string;
  readonly alone: Seen;
  readonly during: Seen;
  /** Answers to the flood per second, and the share of them with status 400 or above. */
  readonly rate: number;
  readonly refused: number;
};

/** One gateway. */
export type FairnessRow = {
  readonly peer: PeerId;
  /** Median time of one expensive list without a flood. */
  readonly expensiveMs: number;
  readonly floods: readonly FloodRow[];
};

export type FairnessResults = Place & { readonly seconds: number; readonly rows: readonly FairnessRow[] };

/** The client's p99 during a flood may be this many times its p99 alone, plus the time of one expensive list. */
const GOAL = 3;

const FLOODING = toKey(1);
const PROBING = toKey(2);
/** More than a flood sends in half a minute, so that each is sent once: the gateway delays refusals. */
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
/** Time for a flood to open all its connections before the client begins. */
const LEAD_MS = 1_000;

/** Measures one gateway. Throws if it fails a client without a flood, or does not answer a flood. */
export async function measureFairness(
  peer: Peer,
  { floods, students, requests, seconds, restMs }: FairnessPlan,
  { signal, log }: { readonly signal: AbortSignal; readonly log: (text: string) => void },
): Promise<FairnessRow> {
  // The last students: Postgres has to skip all others.
  const query = { limit: '1000', offset: `${Math.max(0, students - 1_000)}` };
  const expensive: Case = { ...findCase('rows1000'), query };
  const askCheap = () => peer.ask(findCase('rows10'), PROBING);
  const askAlone = async (ask: Ask, count: number) => {
    const seen = await repeat(ask, (made) => made < count, signal);
    if (seen.failures > 0)
      throw new Error(`${peer.title}: ${seen.failures} of ${count} requests failed without a flood`);
    return seen;
  };
  // The first requests are slow.
  await askAlone(askCheap, requests);
  const { p50: expensiveMs } = await askAlone(() => peer.ask(expensive, FLOODING), EXPENSIVE_REQUESTS);
  log(`${peer.title}, one expensive list: ${toMilliseconds(expensiveMs)} ms`);

  const rows: FloodRow[] = [];
  for (const { title, keys, connections, depth } of floods) {
    const alone = await askAlone(askCheap, requests);
    let isOver = false;
    const flood = peer.load(expensive, keys, { connections, depth, seconds, signal }).finally(() => {
      isOver = true;
    });
    // Awaited below.
    flood.catch(() => {});
    await delay(LEAD_MS, undefined, { signal });
    const during = await repeat(askCheap, () => !isOver, signal);
    const { requests: answers, seconds: taken, refused } = await flood;
    if (answers === 0) throw new Error(`${peer.title}, ${title}: there was no answer`);
    rows.push({ flood: title, alone, during, rate: answers / taken, refused: refused / answers });
    log(`${title}: p99 ${toMilliseconds(alone.p99)} ms alone, ${toMilliseconds(during.p99)} ms during the flood`);
    await delay(restMs, undefined, { signal });
  }
  return { peer: peer.id, expensiveMs, floods: rows };
}

type Ask = () => ReturnType<Peer['ask']>;

/** Repeats a request at least once, while `goesOn`. */
async function repeat(ask: Ask, goesOn: (made: number) => boolean, signal: AbortSignal): Promise<Seen> {
  const times: number[] = [];
  let failures = 0;
  do {
    signal.throwIfAborted();
    const before = performance.now();
    const answer = await ask().catch(() => undefined);
    times.push(performance.now() - before);
    if (answer?.status !== 200) failures += 1;
  } while (goesOn(times.length));
  const sorted = times.sort((a, b) => a - b);
  return { requests: sorted.length, failures, p50: toPercentile(sorted, 0.5), p99: toPercentile(sorted, 0.99) };
}

export function toFairnessReport({ seconds, rows, ...place }: FairnessResults): string {
  return [
    '# Fairness',
    `${toPlace(place)} Each gateway has its default configuration. The load generator, the gateway and Postgres share the processors.`,
    `One client repeats a list of 10 on one connection: alone, and while others flood the gateway for ${seconds} s with lists of
1,000 at the end of a large tenant, each repeated as soon as it is answered. Times are in milliseconds. The goal is that
none of its requests fails, and that its p99 is at most ${GOAL} times that of before the flood plus one expensive list.`,
    ...rows.flatMap(toSection),
  ].join('\n\n');
}

function toSection({ peer, expensiveMs, floods }: FairnessRow): string[] {
  return [
    `## ${TITLES[peer]}\n\nOne expensive list alone takes ${toMilliseconds(expensiveMs)} ms.`,
    toMarkdown(
      [
        'Flood',
        'answers/s',
        '4xx and 5xx',
        'alone: p50',
        'p99',
        'during: requests',
        'failed',
        'p50',
        'p99',
        'goal',
        '',
      ],
      floods.map(({ flood, rate, refused, alone, during }) => {
        const max = GOAL * alone.p99 + expensiveMs;
        return [
          ...[flood, toNumber(rate), `${(refused * 100).toFixed(1)} %`],
          ...[toMilliseconds(alone.p50), toMilliseconds(alone.p99)],
          ...[toNumber(during.requests), toNumber(during.failures)],
          ...[toMilliseconds(during.p50), toMilliseconds(during.p99)],
          ...[`≤ ${toMilliseconds(max)}`, toVerdict(during.failures === 0 && during.p99 <= max)],
        ];
      }),
    ),
  ];
}

const STORES = ['postgres', 'supabase', 'embedded'] as const;

type Options = Output & {
  readonly seconds: number;
  readonly students: number;
  readonly stores: readonly (typeof STORES)[number][];
};

const HELP = `
It starts a Postgres 18 from npm with two large tenants, and the gateway with its default
configuration. A client of one tenant repeats a list of 10 on one connection, alone and during
three floods of lists of 1,000 from wrk (Debian: apt-get install wrk):

${FLOODS.map(({ title }) => `  ${title}`).join('\n')}

--output writes fairness.json and fairness.md.`;

async function measure(options: Options, cleanup: Cleanup, signal: AbortSignal): Promise<void> {
  const wrk = requireWrk();
  const { seconds, students, stores } = options;
  const size = { tenants: 2, students };
  const only = stores.map((store): PeerId => `gateway-${store}`);
  console.error(`Loading ${size.tenants} tenants with ${students} students each`);
  const { peers, postgres } = await openWorld(cleanup, { ...size, only, env: {} });
  // Longer than a store call may take, and than a refusal is delayed.
  const plan = { floods: FLOODS, students, requests: 2_000, seconds, restMs: 6_000 };
  const rows: FairnessRow[] = [];
  for (const peer of peers) rows.push(await measureFairness(peer, plan, { signal, log: console.error }));
  const results = { ...readPlace(postgres.version, size, wrk), seconds, rows };
  saveResults('fairness', results, toFairnessReport(results), options);
}

if (import.meta.main) {
  const description = 'Measures what one client notices while others flood the gateway.';
  await runCommand(
    createCommand('bench:fairness', description, HELP, measure)
      .option('--seconds <N>', 'length of each flood', readInteger(2, 3_600), 30)
      .option('--students <N>', 'students of each tenant', readInteger(1_000, 1_000_000), 100_000)
      .addOption(new Option('--stores <STORE...>', 'on these stores').choices(STORES).default(['postgres'])),
  );
}
