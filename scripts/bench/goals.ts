// The goals of the gateway's speed. Machines are noisy, so a missed goal fails nothing.

import { type CaseId, findCase } from './cases.ts';
import type { Measurement } from './measure.ts';
import type { PeerId } from './peer.ts';
import { toConnections, toMarkdown, toNumber, toVerdict } from './report.ts';
import { type Spread, toSpread } from './statistics.ts';

/** A figure of one peer, or its ratio to another peer's, and the target. */
export type Goal = {
  readonly title: string;
  readonly case: CaseId;
  readonly peer: PeerId;
  readonly than?: PeerId;
  readonly figure: 'rate' | 'cpu';
  readonly target: number;
  /** The target is a maximum, not a minimum. */
  readonly isCeiling?: boolean;
};

/** A goal and its measured values. */
export type Outcome = Goal & { readonly measured: Spread; readonly isMet: boolean };

/** The goals apply at this load. */
const CONNECTIONS = 32;

const [POSTGRES, SUPABASE, EMBEDDED] = ['gateway-postgres', 'gateway-supabase', 'gateway-embedded'] as const;

const GOALS: readonly Goal[] = [
  ...compare('postgres store / PostgREST', POSTGRES, 'postgrest', 4, 3),
  ...compare('postgres store / bare node:http', POSTGRES, 'node-http', 1.15, 1.3),
  ...compare('postgres store / Fastify', POSTGRES, 'fastify', 1.4, 1.8),
  ...compare('postgres store / Postgres alone', POSTGRES, 'pgbench', 0.5, 0.6),
  ...compare('supabase store / the PostgREST it calls', SUPABASE, 'postgrest', 0.6, 0.6),
  ...compare('supabase store / the default fetch', SUPABASE, 'gateway-fetch', 1, 1),
  ...compare('embedded store / PGlite alone', EMBEDDED, 'pglite-loop', 0.7, 0.7),
  {
    ...{ title: 'processor time of the postgres store / bare node:http', case: 'rows10', peer: POSTGRES },
    ...{ than: 'node-http', figure: 'cpu', target: 1.4, isCeiling: true },
  },
  { title: 'postgres store, requests/s', case: 'refused', peer: POSTGRES, figure: 'rate', target: 10_000 },
  {
    ...{ title: 'postgres store / Fastify', case: 'invalid', peer: POSTGRES, than: 'fastify' },
    ...{ figure: 'rate', target: 1.3 },
  },
];

function compare(title: string, peer: PeerId, than: PeerId, rows10: number, rows100: number): Goal[] {
  const goal = { title, peer, than, figure: 'rate' } as const;
  return [
    { ...goal, case: 'rows10', target: rows10 },
    { ...goal, case: 'rows100', target: rows100 },
  ];
}

/** Whether a goal needs a measurement. */
export function isForGoal(peer: PeerId, id: CaseId): boolean {
  return GOALS.some((goal) => goal.case === id && (goal.peer === peer || goal.than === peer));
}

/** The goals that were measured. A ratio is of two measurements in one round, which are close in time. */
export function toOutcomes(measurements: readonly Measurement[]): Outcome[] {
  return GOALS.flatMap((goal) => {
    const measured = toSpread(toValues(goal, measurements));
    if (!measured) return [];
    const isMet = goal.isCeiling ? measured.median <= goal.target : measured.median >= goal.target;
    return [{ ...goal, measured, isMet }];
  });
}

function toValues({ peer, than, case: id, figure }: Goal, measurements: readonly Measurement[]): number[] {
  const relevant = measurements.filter((one) => one.case === id && one.connections === CONNECTIONS);
  return relevant.flatMap((one) => {
    if (one.peer !== peer) return [];
    const value = one[figure];
    const other = than ? relevant.find((other) => other.round === one.round && other.peer === than)?.[figure] : 1;
    return value === undefined || !other ? [] : [value / other];
  });
}

export function toGoalTable(goals: readonly Outcome[]): string {
  const rows = goals.map(({ title, case: id, target, isCeiling, measured: { median, min, max }, isMet }) => [
    `${title}, ${findCase(id).title}`,
    `${isCeiling ? '≤' : '≥'} ${toValue(target)}`,
    `${toValue(median)} (${toValue(min)}–${toValue(max)})`,
    toVerdict(isMet),
  ]);
  const table = toMarkdown(['Goal', 'Target', 'Measured', ''], rows);
  return `At ${toConnections(CONNECTIONS)}; a ratio is of two measurements in the same round.\n\n${table}`;
}

/** A ratio with two decimals, or a number of requests. */
function toValue(value: number): string {
  return value < 100 ? value.toFixed(2) : toNumber(value);
}
