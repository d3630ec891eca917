// The results of `npm run bench` and their report.

import { CASES, type CaseId } from './cases.ts';
import { type Outcome, toGoalReport, toOutcomes } from './goals.ts';
import type { Measurement } from './measure.ts';
import { PEERS, type PeerId, TITLES } from './peer.ts';
import { type Place, toConnections, toMarkdown, toMegabytes, toMilliseconds, toNumber, toPlace } from './report.ts';
import { type Spread, toSpread } from './statistics.ts';

const FIGURES = ['rate', 'p50', 'p99', 'cpu', 'memory'] as const;

/** One peer, case and number of connections over all rounds. */
export type Row = {
  readonly peer: PeerId;
  readonly case: CaseId;
  readonly connections: number;
} & Readonly<Partial<Record<(typeof FIGURES)[number], Spread>>>;

/** When, where and how it was measured. */
type Circumstances = Place & { readonly rounds: number; readonly seconds: number };

export type Results = Circumstances & { readonly goals: readonly Outcome[]; readonly rows: readonly Row[] };

/** The results of measurements. */
export function toResults(circumstances: Circumstances, measurements: readonly Measurement[]): Results {
  const groups = Map.groupBy(measurements, (one) => `${one.case} ${one.connections} ${one.peer}`);
  const rows = [...groups.values()].map(toRow).sort((a, b) => PEERS.indexOf(a.peer) - PEERS.indexOf(b.peer));
  return { ...circumstances, goals: toOutcomes(measurements), rows };
}

function toRow(rounds: readonly Measurement[]): Row {
  const [{ peer, case: case_, connections }] = rounds as [Measurement];
  const figures = FIGURES.map((figure) => [figure, toSpread(rounds.flatMap((round) => round[figure] ?? []))]);
  return { peer, case: case_, connections, ...Object.fromEntries(figures.filter(([, spread]) => spread)) };
}

export function toReport({ rounds, seconds, goals, rows, ...place }: Results): string {
  const connections = [...new Set(rows.map((row) => row.connections))];
  return [
    '# Benchmark',
    `${toPlace(place)} Each measurement takes ${seconds} s. Medians of ${rounds} rounds, minimum and maximum in parentheses.
The load generator, the peers and Postgres share the processors. Every peer has 10 database connections. Logs are
written as in production (JSON, level info) to /dev/null. CPU and memory are those of the measured process, without the
database and the PostgREST behind it.`,
    ...(goals.length > 0 ? [`## Goals\n\n${toGoalReport(goals)}`] : []),
    ...connections.flatMap((count) =>
      toSection(
        rows.filter((row) => row.connections === count),
        toConnections(count),
      ),
    ),
  ].join('\n\n');
}

function toSection(rows: readonly Row[], connections: string): string[] {
  const cases = CASES.filter(({ id }) => rows.some((row) => row.case === id));
  const rates = [...Map.groupBy(rows, ({ peer }) => peer)].map(([peer, own]) => [
    TITLES[peer],
    ...cases.map(({ id }) => toNumber(own.find((row) => row.case === id)?.rate?.median)),
  ]);
  return [
    `## ${connections}\n\nRequests per second:`,
    toMarkdown(['', ...cases.map(({ title }) => title)], rates),
    ...cases.flatMap(({ id, title }) => [
      `### ${title}, ${connections}`,
      toMarkdown(
        ['', 'requests/s', '(min–max)', 'p50 ms', 'p99 ms', 'CPU µs/request', 'peak MB'],
        rows.filter((row) => row.case === id).map(toCells),
      ),
    ]),
  ];
}

function toCells({ peer, rate, p50, p99, cpu, memory }: Row): string[] {
  return [
    TITLES[peer],
    toNumber(rate?.median),
    `(${toNumber(rate?.min)}–${toNumber(rate?.max)})`,
    toMilliseconds(p50?.median),
    toMilliseconds(p99?.median),
    toNumber(cpu?.median),
    toMegabytes(memory?.median),
  ];
}
