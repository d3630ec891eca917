// Measures every case in each round, one peer after the other, in a different order each time.

import type { Case, CaseId } from './cases.ts';
import { type Size, toKeys } from './data.ts';
import { hasCase, type Peer, type PeerId, TITLES } from './peers.ts';
import { type Cpu, readCpu, readPeakMemory, resetPeakMemory } from './proc.ts';
import { toConnections } from './report.ts';

/** What to measure, and for how long. */
export type Plan = {
  /** With fewer connections than the most, only the first. */
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
  /** Processor time of a request, and peak memory in bytes, on Linux. */
  readonly cpu?: Cpu;
  readonly memory?: number;
};

type Step = {
  readonly round: number;
  readonly case: Case;
  readonly connections: number;
  readonly peers: readonly Peer[];
};

/** Load before each measurement, in seconds. */
const WARM_UP = 1;
/** Load before the first measurement, in measurements: JavaScript is slow for the first thousands of requests. */
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
  log('warming up');
  for (const step of toWarmUp(peers, plan)) {
    for (const peer of step.peers) await load(peer, step, FIRST_WARM_UP * plan.seconds);
  }
  for (const step of toSteps(peers, plan)) {
    log(`round ${step.round} of ${plan.rounds}: ${step.case.title}, ${toConnections(step.connections)}`);
    for (const peer of step.peers) {
      await load(peer, step, WARM_UP);
      measurements.push(await measure(peer, step, () => load(peer, step, plan.seconds)));
      signal.throwIfAborted();
    }
  }
  return measurements;
}

/** Warms up every peer once. */
function toWarmUp(peers: readonly Peer[], plan: Plan): Step[] {
  const connections = [Math.max(...plan.connections)];
  return toSteps(peers, { ...plan, cases: plan.cases.slice(0, 1), rounds: 1, connections });
}

/** All rounds of reads come first, because writes change what is read. */
function toSteps(peers: readonly Peer[], { cases, connections, rounds }: Plan): Step[] {
  const parts = [cases.filter(({ body }) => !body), cases.filter(({ body }) => body)];
  const numbers = Array.from({ length: rounds }, (_, n) => n + 1);
  return parts.flatMap((part) =>
    numbers.flatMap((round) =>
      part.flatMap((case_) =>
        connections
          .filter((count) => case_ === cases[0] || count === Math.max(...connections))
          .map((count) => {
            const own = peers.filter((peer) => hasCase(peer, case_));
            return { round, case: case_, connections: count, peers: rotate(own, round - 1) };
          }),
      ),
    ),
  );
}

function rotate<T>(values: readonly T[], by: number): T[] {
  const at = values.length === 0 ? 0 : by % values.length;
  return [...values.slice(at), ...values.slice(0, at)];
}

/** Measures a peer under a load. Throws after wrong answers. */
export async function measure(peer: Peer, step: Step, load: () => ReturnType<Peer['load']>): Promise<Measurement> {
  const { round, case: case_, connections } = step;
  resetPeakMemory(peer.pid);
  const before = readCpu(peer.pid);
  const { requests, seconds, p50, p90, p99, refused, failed } = await load();
  const after = readCpu(peer.pid);
  const memory = readPeakMemory(peer.pid);
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
    ...(memory === undefined ? {} : { memory }),
  };
}

function toDifference(before: Cpu, after: Cpu, requests: number): Cpu {
  return { user: (after.user - before.user) / requests, system: (after.system - before.system) / requests };
}
