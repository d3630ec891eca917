// The report of `npm run bench`: the goals, and all figures.

import { CASES, type CaseId, findCase } from './cases.ts';
import type { Measurement } from './measure.ts';
import { PEERS, type PeerId, TITLES } from './peers.ts';
import { type Spread, toConnections, toMarkdown, toNumber, toRange, toSpread } from './report.ts';

/** Compared figures. The own cost is a difference, all others are ratios. */
const FIGURES = { rate: 'requests/s', p50: 'p50', p90: 'p90', p99: 'p99', cost: 'own cost, µs of CPU' } as const;

/** A target for a figure of a peer relative to another: a minimum for the rate, a maximum for all others. */
type Goal = readonly [
  than: PeerId,
  case_: CaseId,
  connections: number,
  figure: keyof typeof FIGURES,
  target: number,
  peer?: PeerId,
];
const MEASURED = 'gateway-postgres';
const GOALS: readonly Goal[] = [
  ['node-store', 'rows10', 32, 'cost', 55],
  ['node-store', 'rows10', 8, 'cost', 45],
  ['node-http', 'rows10', 32, 'rate', 1],
  ['node-http', 'rows100', 32, 'rate', 1.2],
  ['node-http', 'rows10', 1, 'p50', 1.15],
  ['node-http', 'rows10', 8, 'p50', 1.15],
  ['node-http', 'rows10', 32, 'p99', 1],
  ['node-http', 'rows100', 32, 'p99', 1],
  ['postgrest', 'rows10', 32, 'rate', 3],
  ['postgrest', 'rows100', 32, 'rate', 2.4],
  ['fastify', 'refused', 32, 'rate', 1],
  ['fastify', 'invalid', 32, 'rate', 1],
  ['postgrest', 'rows10', 32, 'rate', 0.6, 'gateway-supabase'],
  ['postgrest', 'rows100', 32, 'rate', 0.6, 'gateway-supabase'],
  ['gateway-postgres', 'rows10', 32, 'rate', 1, 'gateway-embedded'],
  ['gateway-postgres', 'rows10', 32, 'rate', 1, 'gateway-workers'],
  ['gateway-postgres', 'rows10', 32, 'p90', 1.2, 'gateway-flooded'],
];

/** A goal's figure in each round, in which the two peers are measured shortly after each other. */
export function toRounds(goal: Goal, measurements: readonly Measurement[]): number[] {
  const [than, id, connections, figure, , peer = MEASURED] = goal;
  const relevant = measurements.filter((one) => one.case === id && one.connections === connections);
  return relevant.flatMap((one) => {
    const other = relevant.find(({ round, peer }) => round === one.round && peer === than);
    if (one.peer !== peer || !other) return [];
    if (figure !== 'cost') return one[figure] / other[figure];
    return one.cpu && other.cpu ? one.cpu.user + one.cpu.system - other.cpu.user - other.cpu.system : [];
  });
}

/** The table of goals. */
export function toGoals(measurements: readonly Measurement[]): string {
  const rows = GOALS.flatMap((goal) => {
    const [than, id, connections, figure, target, peer = MEASURED] = goal;
    const measured = toSpread(toRounds(goal, measurements));
    if (!measured) return [];
    const isMet = figure === 'rate' ? measured.median >= target : measured.median <= target;
    const decimals = figure === 'cost' ? 0 : 2;
    const title = `${TITLES[peer]} ${figure === 'cost' ? '−' : '/'} ${TITLES[than]}`;
    return [
      [
        `${title}: ${FIGURES[figure]}, ${findCase(id).title}, ${toConnections(connections)}`,
        `${figure === 'rate' ? '≥' : '≤'} ${toNumber(target, decimals)}`,
        toRange(measured, decimals),
        isMet ? 'met' : 'missed',
      ],
    ];
  });
  return toMarkdown(['Goal', 'Target', 'Measured', ''], rows);
}

/** A table for each number of connections. */
export function toTables(measurements: readonly Measurement[]): string {
  const counts = [...new Set(measurements.map((one) => one.connections))];
  const tables = counts.map((count) => {
    const rows = CASES.flatMap(({ id, title }) =>
      PEERS.flatMap((peer) => {
        const own = measurements.filter((one) => one.connections === count && one.case === id && one.peer === peer);
        return own.length === 0 ? [] : [[`${title}: ${TITLES[peer]}`, ...toCells(own)]];
      }),
    );
    const head = ['requests/s', 'p50 ms', 'p99 ms', 'CPU µs/request: user', 'system'];
    return `## ${toConnections(count)}\n\n${toMarkdown(['', ...head], rows)}`;
  });
  return tables.join('\n\n');
}

function toCells(rounds: readonly Measurement[]): string[] {
  const spread = (read: (one: Measurement) => number | undefined): Spread | undefined =>
    toSpread(rounds.flatMap((one) => read(one) ?? []));
  return [
    toRange(spread(({ rate }) => rate)),
    toNumber(spread(({ p50 }) => p50)?.median, 2),
    toNumber(spread(({ p99 }) => p99)?.median, 2),
    toRange(spread(({ cpu }) => cpu?.user)),
    toRange(spread(({ cpu }) => cpu?.system)),
  ];
}
