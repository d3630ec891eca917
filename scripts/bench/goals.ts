// The goals of the gateway's speed. Machines are noisy, so a missed goal fails nothing.

import { type CaseId, findCase } from './cases.ts';
import type { Measurement } from './measure.ts';
import { type PeerId, TITLES } from './peer.ts';
import { toConnections, toMarkdown } from './report.ts';
import { type Spread, toSpread } from './statistics.ts';

/** The ratio of a peer's figure to another peer's, and the target. */
type Goal = {
  readonly title: string;
  readonly case: CaseId;
  readonly connections: number;
  readonly peer: PeerId;
  readonly than: PeerId;
  readonly figure: 'rate' | 'p50' | 'p90' | 'p99' | 'cpu';
  /** A minimum for the rate, and a maximum for every other figure. */
  readonly target: number;
};

/** A goal and its measured values. */
export type Outcome = Goal & { readonly measured: Spread; readonly isMet: boolean };

const [POSTGRES, FLOODED] = ['gateway-postgres', 'gateway-flooded'] as const;
const [SUPABASE, EMBEDDED] = ['gateway-supabase', 'gateway-embedded'] as const;

const GOALS: readonly Goal[] = [
  ...[1, 8].map((connections) => ({ ...compare('p50', POSTGRES, 'node-http', 'rows10', 1.15), connections })),
  compare('p99', POSTGRES, 'node-http', 'rows10', 1),
  compare('p99', POSTGRES, 'node-http', 'rows100', 1),
  ...compareLists(POSTGRES, 'node-http', 1, 1.1),
  ...compareLists(POSTGRES, 'postgrest', 3.6, 2.6),
  ...compareLists(POSTGRES, 'fastify', 1.4, 1.8),
  ...compareLists(POSTGRES, 'pgbench', 0.5, 0.6),
  compare('rate', POSTGRES, 'fastify', 'refused', 1),
  compare('rate', POSTGRES, 'fastify', 'invalid', 1),
  compare('cpu', POSTGRES, 'node-http', 'rows10', 1.4),
  compare('p90', FLOODED, POSTGRES, 'rows10', 1.2),
  ...compareLists(SUPABASE, 'postgrest', 0.6, 0.6),
  ...compareLists(EMBEDDED, POSTGRES, 1, 1),
  compare('rate', EMBEDDED, POSTGRES, 'create', 1),
];

/** Why a goal is missed, as profiles have shown: of all figures of two peers, or of one. */
const REASONS: Readonly<Record<string, string>> = {
  [`${POSTGRES} node-http`]:
    'The bare server checks, logs, measures and limits nothing. A list of 10 takes the gateway 259 µs of processor time, and ' +
    'its store behind a bare server 92: what stands around the store is the larger half, and no part of it takes 10.',
  [`${POSTGRES} node-http p99`]:
    'The slowest requests wait 8 to 36 ms until a process of Postgres gets one of the two processors.',
  [`${POSTGRES} postgrest`]:
    'A slower machine slows Node more, the bare server too: on one that served twice as many lists it was 3.5 and 2.4.',
  [`${POSTGRES} fastify`]:
    'The other has got its best settings since the goal was set, and sends no Link, ETag and security headers, measures ' +
    'nothing and limits no key.',
  [`${POSTGRES} pgbench`]: 'HTTP, the log and the load generator take their part of the same two processors.',
  [`${EMBEDDED} ${POSTGRES}`]: 'Creations of both wait for the same disk: they differ by less than the spread.',
  [`${SUPABASE} postgrest`]: 'Each request is two of HTTP, and both servers share the two processors.',
};

function compareLists(peer: PeerId, than: PeerId, rows10: number, rows100: number): Goal[] {
  return [compare('rate', peer, than, 'rows10', rows10), compare('rate', peer, than, 'rows100', rows100)];
}

function compare(figure: Goal['figure'], peer: PeerId, than: PeerId, id: CaseId, target: number): Goal {
  return { title: `${TITLES[peer]} / ${TITLES[than]}`, case: id, connections: 32, peer, than, figure, target };
}

/** Whether a goal needs a measurement. */
export function isForGoal(peer: PeerId, id: CaseId, connections: number): boolean {
  return GOALS.some(
    (goal) => goal.case === id && goal.connections === connections && (goal.peer === peer || goal.than === peer),
  );
}

/** The goals that were measured. A ratio is of two measurements in one round, which are close in time. */
export function toOutcomes(measurements: readonly Measurement[]): Outcome[] {
  return GOALS.flatMap((goal) => {
    const measured = toSpread(toRatios(goal, measurements));
    if (!measured) return [];
    const isMet = goal.figure === 'rate' ? measured.median >= goal.target : measured.median <= goal.target;
    return [{ ...goal, measured, isMet }];
  });
}

function toRatios({ peer, than, case: id, connections, figure }: Goal, measurements: readonly Measurement[]): number[] {
  const relevant = measurements.filter((one) => one.case === id && one.connections === connections);
  return relevant.flatMap((one) => {
    const value = one.peer === peer ? one[figure] : undefined;
    const other = relevant.find(({ round, peer }) => round === one.round && peer === than)?.[figure];
    return value === undefined || !other ? [] : [value / other];
  });
}

const FIGURES = {
  rate: 'requests/s',
  p50: 'p50',
  p90: 'p90',
  p99: 'p99',
  cpu: 'processor time',
};

/** The goals with what was measured, and why some are missed. */
export function toGoalReport(goals: readonly Outcome[]): string {
  const rows = goals.map(({ title, case: id, connections, figure, target, measured: { median, min, max }, isMet }) => [
    `${title}: ${FIGURES[figure]}, ${findCase(id).title}, ${toConnections(connections)}`,
    `${figure === 'rate' ? '≥' : '≤'} ${target.toFixed(2)}`,
    `${median.toFixed(2)} (${min.toFixed(2)}–${max.toFixed(2)})`,
    isMet ? 'met' : 'missed',
  ]);
  const table = toMarkdown(['Goal', 'Target', 'Measured', ''], rows);
  const reasons = new Set(goals.filter(({ isMet }) => !isMet).map(toReason));
  const list = [...reasons].map((reason) => `- ${reason}`).join('\n');
  return `A ratio is of two measurements in the same round.\n\n${table}${list && `\n\nWhy goals are missed:\n\n${list}`}`;
}

function toReason({ peer, than, figure, title }: Goal): string {
  const reason = REASONS[`${peer} ${than} ${figure}`];
  if (reason) return `${title}, ${FIGURES[figure]}: ${reason}`;
  return `${title}: ${REASONS[`${peer} ${than}`] ?? 'not known.'}`;
}
