// The tables, in Markdown that can be read as it is.

import { CASES, type CaseId } from './cases.ts';
import { GOAL_CONNECTIONS, type Outcome } from './goals.ts';
import { PEERS, TITLES } from './peers.ts';
import type { Place, Results, Row } from './results.ts';
import { toConnections } from './run.ts';

/** The whole report. */
export function toReport(results: Results): string {
  const connections = [...new Set(results.rows.map((row) => row.connections))];
  return [
    '# Benchmark',
    toHead(results),
    ...toGoalTable(results.goals),
    ...connections.flatMap((count) => toSection(results.rows, count)),
  ].join('\n\n');
}

/** Where and of what it was measured, on how much data. */
export function toPlace({ date, machine, versions, generator, size }: Place): string {
  const { processor, processors, memoryGb, system } = machine;
  const names = Object.entries(versions).map(([name, version]) => `${name} ${version}`);
  return [
    `${date}, on ${processors} processors (${processor}), ${memoryGb} GB, ${system}; ${generator}; ${names.join(', ')}.`,
    `${toNumber(size.tenants)} tenants with ${toNumber(size.students)} students each.`,
  ].join('\n');
}

/** How it was measured. */
function toHead({ rounds, seconds, ...place }: Results): string {
  return [
    `${toPlace(place)} Each measurement takes ${seconds} s. Medians of ${rounds}, least and most in parentheses. The load generator, what is`,
    'measured and Postgres share the processors. Every peer has 10 connections to the database. Logs are written as in',
    'production (JSON, level info) to /dev/null. CPU and memory are of the process that is measured, without the database',
    'and the PostgREST behind it.',
  ].join('\n');
}

function toGoalTable(goals: readonly Outcome[]): string[] {
  if (goals.length === 0) return [];
  const rows = goals.map((goal) => [toTitle(goal), toTarget(goal), toMeasured(goal), goal.isMet ? 'met' : 'missed']);
  return [
    `## Goals\n\nAt ${toConnections(GOAL_CONNECTIONS)}; a ratio is of two measurements in the same round.`,
    toMarkdown(['Goal', 'Target', 'Measured', ''], rows),
  ];
}

/** Goals beside those of a stored run. */
export function toComparison(now: readonly Outcome[], stored: readonly Outcome[]): string {
  const rows = now.map((goal) => {
    const before = stored.find((other) => toTitle(other) === toTitle(goal));
    const change = before ? toRatio(goal.measured.median / before.measured.median) : '';
    return [toTitle(goal), toTarget(goal), toValue(goal.measured.median), toValue(before?.measured.median), change];
  });
  return toMarkdown(['Goal', 'Target', 'Now', 'Stored', 'Now / stored'], rows);
}

function toSection(rows: readonly Row[], connections: number): string[] {
  const of = rows.filter((row) => row.connections === connections);
  return [
    `## ${toConnections(connections)}`,
    'Requests per second:',
    toMatrix(of),
    ...CASES.flatMap(({ id, title }) => {
      const details = inOrder(of.filter((row) => row.case === id));
      return details.length === 0 ? [] : [`### ${title}, ${toConnections(connections)}`, toDetails(details)];
    }),
  ];
}

function toMatrix(rows: readonly Row[]): string {
  const cases = CASES.filter(({ id }) => rows.some((row) => row.case === id));
  const find = (peer: string, case_: CaseId) => rows.find((row) => row.peer === peer && row.case === case_);
  return toMarkdown(
    ['', ...cases.map(({ title }) => title)],
    PEERS.filter((peer) => rows.some((row) => row.peer === peer)).map((peer) => [
      TITLES[peer],
      ...cases.map(({ id }) => toNumber(find(peer, id)?.rate?.median)),
    ]),
  );
}

function toDetails(rows: readonly Row[]): string {
  const head = ['', 'requests/s', '(least–most)', 'p50 ms', 'p99 ms', 'CPU µs/request', 'peak MB'];
  return toMarkdown(
    head,
    rows.map(({ peer, rate, p50, p99, cpu, memory }) => [
      TITLES[peer],
      toNumber(rate?.median),
      `(${toNumber(rate?.min)}–${toNumber(rate?.max)})`,
      toMilliseconds(p50?.median),
      toMilliseconds(p99?.median),
      toNumber(cpu?.median),
      toNumber(memory && memory.median / 1e6),
    ]),
  );
}

function inOrder(rows: readonly Row[]): Row[] {
  return [...rows].sort((a, b) => PEERS.indexOf(a.peer) - PEERS.indexOf(b.peer));
}

function toTitle({ title, case: case_ }: Pick<Outcome, 'title' | 'case'>): string {
  return `${title}, ${CASES.find(({ id }) => id === case_)?.title}`;
}

function toTarget({ target, isCeiling }: Outcome): string {
  return `${isCeiling ? '≤' : '≥'} ${toValue(target)}`;
}

function toMeasured({ measured: { median, min, max } }: Outcome): string {
  return `${toValue(median)} (${toValue(min)}–${toValue(max)})`;
}

/** A ratio with two digits behind the point, or a number of requests. */
function toValue(value: number | undefined): string {
  return value !== undefined && value < 100 ? toRatio(value) : toNumber(value);
}

function toRatio(value: number): string {
  return value.toFixed(2);
}

/** Milliseconds with two digits behind the point, one from 10 on. */
export function toMilliseconds(value: number | undefined): string {
  return value === undefined ? '–' : value.toFixed(value < 10 ? 2 : 1);
}

/** A whole number, its thousands parted. */
export function toNumber(value: number | undefined): string {
  return value === undefined ? '–' : Math.round(value).toLocaleString('en-US');
}

/** A table whose first column is text; the others are numbers. */
export function toMarkdown(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const widths = head.map((_, n) => Math.max(3, ...[head, ...rows].map((row) => row[n]?.length ?? 0)));
  const toLine = (row: readonly string[]) =>
    `| ${widths.map((width, n) => (n === 0 ? (row[n] ?? '').padEnd(width) : (row[n] ?? '').padStart(width))).join(' | ')} |`;
  const rule = widths.map((width, n) => (n === 0 ? '-'.repeat(width) : `${'-'.repeat(width - 1)}:`));
  return [toLine(head), toLine(rule), ...rows.map(toLine)].join('\n');
}
