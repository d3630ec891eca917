// The outcome of a run, as latest.json has it.

import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { CaseId } from './cases.ts';
import type { Size } from './data.ts';
import { type Outcome, toOutcomes } from './goals.ts';
import { type Machine, readMachine, readVersions, type Versions } from './machine.ts';
import type { PeerId } from './peer.ts';
import type { Measurement } from './run.ts';
import { type Spread, toSpread } from './statistics.ts';

/** One peer, case and number of connections over all rounds. */
export type Row = {
  readonly peer: PeerId;
  readonly case: CaseId;
  readonly connections: number;
} & Readonly<Partial<Record<Figure, Spread>>>;

type Figure = (typeof FIGURES)[number];

/** Where a run takes place, of what and with how much data. */
export type Place = {
  /** The day, as ISO 8601. */
  readonly date: string;
  readonly machine: Machine;
  readonly versions: Versions;
  readonly generator: string;
  readonly size: Size;
};

/** A run. */
export type Results = Place & {
  readonly rounds: number;
  readonly seconds: number;
  readonly goals: readonly Outcome[];
  readonly rows: readonly Row[];
};

/** All but what is computed of the measurements. */
export type Circumstances = Omit<Results, 'goals' | 'rows'>;

const FIGURES = ['rate', 'p50', 'p99', 'cpu', 'memory'] as const;

/** Here and today. */
export function readPlace(postgres: string, generator: string, size: Size): Place {
  const date = new Date().toISOString().slice(0, 10);
  return { date, machine: readMachine(), versions: readVersions(postgres), generator, size };
}

/** Writes results to a folder, as JSON and as a report in Markdown. */
export function writeResults(folder: string, name: string, results: object, report: string): void {
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, `${name}.json`), `${JSON.stringify(results, null, 2)}\n`);
  writeFileSync(join(folder, `${name}.md`), `${report}\n`);
  console.error(`Written to ${folder}`);
}

/** The results of measurements, in the order in which each peer came first. */
export function toResults(circumstances: Circumstances, measurements: readonly Measurement[]): Results {
  const groups = Map.groupBy(measurements, (one) => `${one.case} ${one.connections} ${one.peer}`);
  return { ...circumstances, goals: toOutcomes(measurements), rows: [...groups.values()].map(toRow) };
}

function toRow(rounds: readonly Measurement[]): Row {
  const [{ peer, case: case_, connections }] = rounds as [Measurement];
  const figures = FIGURES.map((figure) => [figure, toSpread(rounds.flatMap((round) => round[figure] ?? []))]);
  return { peer, case: case_, connections, ...Object.fromEntries(figures.filter(([, spread]) => spread)) };
}
