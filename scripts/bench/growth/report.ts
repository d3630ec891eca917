// The outcome of a run, and its tables, in Markdown that can be read as it is.

import type { Machine, Versions } from '../machine.ts';
import { toSpread } from '../statistics.ts';
import { toMarkdown, toMilliseconds, toNumber } from '../text-report.ts';
import { CASES } from './cases.ts';
import type { Measurement } from './measure.ts';

/** A run, as growth.json has it. */
export type Results = {
  /** The day, as ISO 8601. */
  readonly date: string;
  readonly machine: Machine;
  readonly versions: Versions;
  readonly others: number;
  readonly sizes: readonly number[];
  readonly requests: number;
  readonly goal: number;
  readonly measurements: readonly Measurement[];
};

/** How much slower than at the smallest size what must not grow may be at the largest. */
export const GOAL = 1.5;

/** The whole report. */
export function toReport(results: Results): string {
  const measured = CASES.filter(({ id }) => results.measurements.some((one) => one.case === id));
  const groups = [...new Set(measured.map(({ group }) => group))];
  return [
    '# Growth of a tenant',
    toHead(results),
    ...groups.flatMap((group) => [
      `## ${group}`,
      toTable(
        results,
        measured.filter((case_) => case_.group === group),
      ),
    ]),
  ].join('\n\n');
}

function toHead({ date, machine, versions, others, sizes, requests }: Results): string {
  const { processor, processors, memoryGb, system } = machine;
  const names = ['gateway', 'Node', 'Postgres'].map((name) => `${name} ${versions[name]}`);
  return [
    `${date}, on ${processors} processors (${processor}), ${memoryGb} GB, ${system}; ${names.join(', ')}.`,
    `One tenant with ${sizes.map(toNumber).join(', ')} students, a workout for each and an anamnesis for every fifth, beside`,
    `${toNumber(others)} tenants with 500 students each. Times are of a request over HTTP, in milliseconds, of one client;`,
    `p50 and p99 of ${requests} requests, fewer where one takes long. Growth is of the median from the smallest to the`,
    'largest size, which are measured in turns: the median of the ratios of ten rounds. The goal is at most',
    `${GOAL}, but for what has to grow, whose reason is told instead; p99 is of the largest size.`,
  ].join('\n');
}

function toTable(results: Results, cases: readonly (typeof CASES)[number][]): string {
  const { sizes } = results;
  const head = ['', 'rows', ...sizes.map((size) => `p50 ${toNumber(size)}`), 'p99', 'growth', ''];
  const rows = cases.map(({ id, title, reason }) => {
    const figures = sizes.map((size) => find(results, id, size));
    const growth = toGrowth(figures[0], figures.at(-1));
    return [
      title,
      [...new Set([figures[0], figures.at(-1)].map((figure) => toNumber(figure?.rows)))].join(' to '),
      ...figures.map((figure) => toMilliseconds(figure?.p50)),
      toMilliseconds(figures.at(-1)?.p99),
      growth.toFixed(2),
      growth <= GOAL ? 'met' : (reason ?? (hasMore(figures) ? 'gives more rows' : 'missed')),
    ];
  });
  return toMarkdown(head, rows);
}

function hasMore(figures: readonly (Measurement | undefined)[]): boolean {
  return (figures[0]?.rows ?? 0) < (figures.at(-1)?.rows ?? 0);
}

function toGrowth(small: Measurement | undefined, large: Measurement | undefined): number {
  const ratios = small?.medians.map((median, round) => (large?.medians[round] ?? Number.NaN) / median) ?? [];
  return toSpread(ratios)?.median ?? Number.NaN;
}

function find({ measurements }: Results, id: string, students: number): Measurement | undefined {
  return measurements.find((one) => one.case === id && one.students === students);
}
