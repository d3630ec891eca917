// The measurements: of every case in each round one peer after the other, the next round in another order.

import type { Case, CaseId } from './cases.ts';
import { type Size, toKey } from './data.ts';
import { hasCase, type Peer, type PeerId } from './peer.ts';
import { readCpu, readPeakMemory, resetPeakMemory } from './process-figures.ts';

/** What to measure, and how long. */
export type Plan = {
  readonly cases: readonly Case[];
  readonly connections: readonly number[];
  readonly rounds: number;
  readonly seconds: number;
  /** Leaves out what nobody wants to know; all is measured without it. */
  readonly isWanted?: (peer: PeerId, case_: CaseId) => boolean;
};

/** What one peer did in one round. */
export type Measurement = {
  readonly round: number;
  readonly peer: PeerId;
  readonly case: CaseId;
  readonly connections: number;
  /** Requests per second. */
  readonly rate: number;
  /** Of the latency, in milliseconds. */
  readonly p50: number;
  readonly p99: number;
  /** Microseconds of processor time for each request, and the highest memory in bytes, where the system tells. */
  readonly cpu?: number;
  readonly memory?: number;
};

type Step = {
  readonly round: number;
  readonly case: Case;
  readonly connections: number;
  readonly peers: readonly Peer[];
};

/** How long a peer works before each time that it is measured, in seconds. */
const WARM_UP = 1;
/** How many measurements long it works before the first one: a JavaScript engine is slow for some thousand requests. */
const FIRST_WARM_UP = 3;

/** Measures, and tells of each step before it. Throws where a peer does not answer as it has to. */
export async function measureAll(
  peers: readonly Peer[],
  plan: Plan & Size,
  signal: AbortSignal,
  tell: (text: string) => void,
): Promise<Measurement[]> {
  const measurements: Measurement[] = [];
  tell('warming up');
  for (const step of toWarmUp(peers, plan)) {
    for (const peer of step.peers) await warmUp(peer, step, plan, signal, FIRST_WARM_UP * plan.seconds);
  }
  for (const step of toSteps(peers, plan)) {
    tell(`round ${step.round} of ${plan.rounds}: ${step.case.title}, ${toConnections(step.connections)}`);
    for (const peer of step.peers) measurements.push(await measure(peer, step, plan, signal));
  }
  return measurements;
}

/** How long the measurements take, in seconds. */
export function toDuration(peers: readonly Peer[], plan: Plan): number {
  const count = (steps: readonly Step[]) => steps.reduce((sum, step) => sum + step.peers.length, 0);
  return (
    count(toWarmUp(peers, plan)) * FIRST_WARM_UP * plan.seconds + count(toSteps(peers, plan)) * (WARM_UP + plan.seconds)
  );
}

/** A number of connections, in words. */
export function toConnections(count: number): string {
  return `${count} connection${count === 1 ? '' : 's'}`;
}

/** A program that has just started runs slower than later, so before the first round all are used once. */
function toWarmUp(peers: readonly Peer[], plan: Plan): Step[] {
  return toSteps(peers, {
    ...plan,
    cases: plan.cases.slice(0, 1),
    rounds: 1,
    connections: [Math.max(...plan.connections)],
  });
}

/** All rounds of what reads come before those of what writes, which would change what is read. */
function toSteps(peers: readonly Peer[], { cases, connections, rounds, isWanted = () => true }: Plan): Step[] {
  const parts = [cases.filter(({ body }) => !body), cases.filter(({ body }) => body)];
  const numbers = Array.from({ length: rounds }, (_, n) => n + 1);
  return parts.flatMap((part) =>
    numbers.flatMap((round) =>
      part.flatMap((case_) =>
        connections.map((count) => {
          const having = peers.filter((peer) => hasCase(peer, case_) && isWanted(peer.id, case_.id));
          return { round, case: case_, connections: count, peers: rotate(having, round - 1) };
        }),
      ),
    ),
  );
}

function rotate<T>(values: readonly T[], by: number): T[] {
  const at = values.length === 0 ? 0 : by % values.length;
  return [...values.slice(at), ...values.slice(0, at)];
}

async function warmUp(
  peer: Peer,
  { case: case_, connections }: Step,
  { tenants }: Size,
  signal: AbortSignal,
  seconds = WARM_UP,
): Promise<void> {
  await peer.load(case_, toKeys(case_, tenants), { connections, seconds, signal });
}

async function measure(peer: Peer, step: Step, plan: Plan & Size, signal: AbortSignal): Promise<Measurement> {
  const { round, case: case_, connections } = step;
  const keys = toKeys(case_, plan.tenants);
  await warmUp(peer, step, plan, signal);
  resetPeakMemory(peer.pid);
  const before = readCpu(peer.pid);
  const { requests, seconds, p50, p99, refused, failed } = await peer.load(case_, keys, {
    connections,
    seconds: plan.seconds,
    signal,
  });
  const after = readCpu(peer.pid);
  const memory = readPeakMemory(peer.pid);
  signal.throwIfAborted();
  // A generator may count an answer, and no longer its status, at the end.
  const isAsExpected = case_.status < 400 ? refused === 0 : refused >= requests * 0.99;
  if (requests === 0 || failed > 0 || !isAsExpected) {
    throw new Error(
      `${peer.title}, ${case_.title}: expected all answers with status ${case_.status}; of ${requests} requests ` +
        `${refused} were refused, and ${failed} had no answer`,
    );
  }
  return {
    ...{ round, peer: peer.id, case: case_.id, connections, rate: requests / seconds, p50, p99 },
    ...(before !== undefined && after !== undefined ? { cpu: (after - before) / requests } : {}),
    ...(memory === undefined ? {} : { memory }),
  };
}

/** The keys that the requests of a case have in turn: one of each tenant, or as many that no tenant has. */
export function toKeys({ isRefused = false }: Case, tenants: number): string[] {
  return Array.from({ length: tenants }, (_, n) => toKey(isRefused ? -n : n + 1));
}
