// Measures every case in each round, one peer after the other, in a different order each time.

import type { Case, CaseId } from './cases.ts';
import { type Size, toKeys } from './data.ts';
import { hasCase, type Peer, type PeerId, TITLES } from './peers.ts';
import { type Cpu, readCpu } from './proc.ts';
import { toConnections } from './report.ts';

/** What to measure, and for how long. */
export type Plan = {
  /** Only the first one is measured with fewer connections than the maximum. */
  readonly cases: readonly Case[];
  readonly connections: readonly number[];
  readonly rounds: number;
  readonly seconds: number;
};

/** A measurement of a peer. */
export type Measurement = {
  readonly round: number;
  readonly peer: PeerId;
  readonly case: CaseId;
  readonly connections: number;
  /** Requests per second. */
  readonly rate: number;
  /** Latency in ms. */
  readonly p50: number;
  readonly p90: number;
  readonly p99: number;
  /** Processor time of a request, on Linux. */
  readonly cpu?: Cpu;
};

type Step = { readonly round: number; readonly case: Case; readonly connections: number };

/** Load before each measurement, in seconds. */
const WARM_UP = 1;
/** Load before the first measurement, as a multiple of its length: JavaScript is slow for the first thousands of requests. */
const FIRST_WARM_UP = 3;

/** Measures everything. Throws if a peer gives a wrong answer. */
export async function measureAll(
  peers: readonly Peer[],
  plan: Plan & Size,
  signal: AbortSignal,
  log: (text: string) => void,
): Promise<Measurement[]> {
  const measurements: Measurement[] = [];
  const load = (peer: Peer, { case: case_, connections }: Step, seconds: number) =>
    peer.load(case_, toKeys(case_.isRefused, plan.tenants), { connections, seconds, signal });
  const withCase = (case_: Case) => peers.filter((peer) => hasCase(peer, case_));
  log('warming up');
  const [first] = plan.cases as [Case];
  const warmUp = { round: 0, case: first, connections: Math.max(...plan.connections) };
  for (const peer of withCase(first)) await load(peer, warmUp, FIRST_WARM_UP * plan.seconds);
  for (const step of toSteps(plan)) {
    log(`round ${step.round} of ${plan.rounds}: ${step.case.title}, ${toConnections(step.connections)}`);
    for (const peer of rotate(withCase(step.case), step.round - 1)) {
      await load(peer, step, WARM_UP);
      measurements.push(await measure(peer, step, () => load(peer, step, plan.seconds)));
      signal.throwIfAborted();
    }
  }
  return measurements;
}

/** All rounds of reads come first, because writes change what is read. */
function* toSteps({ cases, connections, rounds }: Plan): Generator<Step> {
  for (const part of [cases.filter(({ body }) => !body), cases.filter(({ body }) => body)]) {
    for (let round = 1; round <= rounds; round += 1) {
      for (const case_ of part) {
        const counts = case_ === cases[0] ? connections : [Math.max(...connections)];
        for (const count of counts) yield { round, case: case_, connections: count };
      }
    }
  }
}

function rotate<T>(values: readonly T[], by: number): T[] {
  const at = values.length === 0 ? 0 : by % values.length;
  return [...values.slice(at), ...values.slice(0, at)];
}

/** Measures a peer under a load. Throws after wrong answers. */
export async function measure(peer: Peer, step: Step, load: () => ReturnType<Peer['load']>): Promise<Measurement> {
  const { round, case: case_, connections } = step;
  const before = readCpu(peer.pid);
  const { requests, seconds, p50, p90, p99, refused, failed } = await load();
  const after = readCpu(peer.pid);
  // wrk may count the last answers without their status.
  const isAsExpected = case_.status < 400 ? refused === 0 : refused >= requests * 0.99;
  if (requests === 0 || failed > 0 || !isAsExpected) {
    throw new Error(
      `${TITLES[peer.id]}, ${case_.title}: expected only answers with status ${case_.status}; ` +
        `of ${requests} requests ${refused} were refused and ${failed} had no answer`,
    );
  }
  return {
    ...{ round, peer: peer.id, case: case_.id, connections, rate: requests / seconds, p50, p90, p99 },
    ...(before && after ? { cpu: toDifference(before, after, requests) } : {}),
  };
}

function toDifference(before: Cpu, after: Cpu, requests: number): Cpu {
  return { user: (after.user - before.user) / requests, system: (after.system - before.system) / requests };
}
