// What the gateway is held against. Machines are noisy: a goal that is missed is told, and fails nothing.

import type { CaseId } from './cases.ts';
import type { PeerId } from './peer.ts';
import type { Measurement } from './run.ts';
import { type Spread, toSpread } from './statistics.ts';

/** A figure of one peer, alone or divided by that of another, and where it has to be. */
export type Goal = {
  readonly title: string;
  readonly case: CaseId;
  readonly peer: PeerId;
  readonly than?: PeerId;
  readonly figure: 'rate' | 'cpu';
  readonly target: number;
  /** The figure is at most the target, and not at least. */
  readonly isCeiling?: boolean;
};

/** A goal with what was measured of it. */
export type Outcome = Goal & { readonly measured: Spread; readonly isMet: boolean };

/** The connections that the goals hold for. */
export const GOAL_CONNECTIONS = 32;

export const GOALS: readonly Goal[] = [
  ...faster('postgres store', 'gateway-postgres', 'PostgREST', 'postgrest', { rows10: 1.8, rows100: 1.8 }),
  ...faster('postgres store', 'gateway-postgres', 'bare node:http', 'node-http', { rows10: 0.85, rows100: 0.85 }),
  ...faster('postgres store', 'gateway-postgres', 'Fastify', 'fastify', { rows10: 1.1, rows100: 1.5 }),
  ...faster('supabase store', 'gateway-supabase', 'the PostgREST it calls', 'postgrest', { rows10: 0.6, rows100: 0.6 }),
  ...faster('supabase store', 'gateway-supabase', 'the default fetch', 'gateway-fetch', { rows10: 1.6, rows100: 1.6 }),
  ...faster('embedded store', 'gateway-embedded', 'PGlite alone', 'pglite-loop', { rows10: 0.7, rows100: 0.7 }),
  {
    ...{ title: 'processor time of the postgres store / bare node:http', case: 'rows10', peer: 'gateway-postgres' },
    ...{ than: 'node-http', figure: 'cpu', target: 1.4, isCeiling: true },
  },
  ...perSecond({ refused: 10_000, invalid: 10_000 }),
];

/** Whether a goal needs a measurement. */
export function isForGoal(peer: PeerId, case_: CaseId): boolean {
  return GOALS.some((goal) => goal.case === case_ && (goal.peer === peer || goal.than === peer));
}

/** The goals that there are measurements for. A ratio is that of a round, whose measurements are close in time. */
export function toOutcomes(measurements: readonly Measurement[]): Outcome[] {
  return GOALS.flatMap((goal) => {
    const measured = toSpread(toValues(goal, measurements));
    if (!measured) return [];
    const { target, isCeiling = false } = goal;
    return [{ ...goal, measured, isMet: isCeiling ? measured.median <= target : measured.median >= target }];
  });
}

function toValues({ peer, than, case: case_, figure }: Goal, measurements: readonly Measurement[]): number[] {
  const of = measurements.filter((one) => one.case === case_ && one.connections === GOAL_CONNECTIONS);
  return of.flatMap((one) => {
    if (one.peer !== peer) return [];
    const value = one[figure];
    const other = than ? of.find(({ round, peer }) => round === one.round && peer === than)?.[figure] : 1;
    return value === undefined || !other ? [] : [value / other];
  });
}

function faster(
  name: string,
  peer: PeerId,
  otherName: string,
  than: PeerId,
  targets: Partial<Record<CaseId, number>>,
): Goal[] {
  return Object.entries(targets).map(([id, target]) => {
    const title = `${name} / ${otherName}`;
    return { title, case: id as CaseId, peer, than, figure: 'rate', target };
  });
}

function perSecond(targets: Partial<Record<CaseId, number>>): Goal[] {
  return Object.entries(targets).map(([id, target]) => {
    return {
      title: 'postgres store, requests/s',
      case: id as CaseId,
      peer: 'gateway-postgres',
      figure: 'rate',
      target,
    };
  });
}
