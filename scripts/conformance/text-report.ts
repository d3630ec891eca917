// The report for people, of plain lines; colours only on a terminal.

import { styleText } from 'node:util';
import type { Outcome, Report, Section } from './report.ts';
import type { RunOptions } from './run.ts';

type Colour = 'red' | 'green' | 'yellow' | 'dim' | 'bold';
type Failed = Extract<Outcome, { result: 'failed' }>;

/** What a run begins with. */
export function toHeading({ url, seed, runs }: Pick<RunOptions, 'url' | 'seed' | 'runs'>): string {
  return `Contract tests of ${url}\nSeed ${seed}, ${runs} runs; --seed ${seed} repeats them.\n`;
}

/** An operation: its counts, what failed and what was skipped. */
export function toSection({ title, seconds, outcomes }: Section): string {
  const [passed, failed, skipped] = [count(outcomes, 'passed'), count(outcomes, 'failed'), count(outcomes, 'skipped')];
  const counts = [
    paint('green', `${passed} passed`),
    ...(failed > 0 ? [paint('red', `${failed} failed`)] : []),
    ...(skipped > 0 ? [paint('yellow', `${skipped} skipped`)] : []),
  ];
  const lines = [`${paint('bold', title.padEnd(22))} ${counts.join(', ')} ${paint('dim', `${seconds.toFixed(1)} s`)}`];
  return [...lines, ...toFailures(outcomes), ...toSkipped(outcomes)].join('\n');
}

/** Checks that fail by the same request for the same reason are told together. */
function toFailures(outcomes: readonly Outcome[]): string[] {
  const failed = outcomes.flatMap((outcome) => (outcome.result === 'failed' ? [outcome] : []));
  const byCause = Map.groupBy(failed, ({ curl, expected, got }) => JSON.stringify([curl, expected, got]));
  return [...byCause.values()].map(toFailure);
}

function toFailure(failures: readonly Failed[]): string {
  const [{ curl, expected, got }] = failures as [Failed];
  return [
    ...failures.map(({ name }) => `  ${paint('red', `FAILED  ${name}`)}`),
    `    ${curl}`,
    `    expected  ${indent(expected)}`,
    `    got       ${indent(got)}`,
    '',
  ].join('\n');
}

/** One line for each reason. */
function toSkipped(outcomes: readonly Outcome[]): string[] {
  const byReason = Map.groupBy(
    outcomes.flatMap((outcome) => (outcome.result === 'skipped' ? [outcome] : [])),
    ({ reason }) => reason,
  );
  return [...byReason].map(([reason, skipped]) =>
    paint('dim', `  skipped  ${reason}: ${toList(skipped.map(({ name }) => toShortName(name)))}`),
  );
}

/** More names than this are counted; the other reports have them all. */
const MOST_NAMES = 12;

function toList(names: readonly string[]): string {
  const more = names.length - MOST_NAMES;
  return names.slice(0, MOST_NAMES).join(', ') + (more > 0 ? ` and ${more} more` : '');
}

/** An example has its own name. */
function toShortName(name: string): string {
  return name.replace(/^answers the example (\w+).*/, '$1');
}

/** What a run ends with: what it left behind, and the sums. */
export function toSummary({ sections, created, requests, seconds }: Report): string {
  const outcomes = sections.flatMap((section) => section.outcomes);
  const [passed, failed, skipped] = [count(outcomes, 'passed'), count(outcomes, 'failed'), count(outcomes, 'skipped')];
  const sums = `${passed} passed, ${failed} failed, ${skipped} skipped; ${requests} requests in ${seconds.toFixed(1)} s`;
  return ['', ...toCreated(created), paint(failed > 0 ? 'red' : 'green', sums)].join('\n');
}

const IDS_PER_LINE = 3;

/** The ids of what a run has left behind. */
export function toCreated(created: Report['created']): string[] {
  return [...Map.groupBy(created, ({ by }) => by)].flatMap(([by, records]) => {
    const ids = records.map(({ id }) => id);
    const lines = Array.from({ length: Math.ceil(ids.length / IDS_PER_LINE) }, (_, line) =>
      ids.slice(line * IDS_PER_LINE, (line + 1) * IDS_PER_LINE).join(' '),
    );
    return [`Created by ${by}, and left there: ${ids.length}`, ...lines.map((line) => `  ${line}`), ''];
  });
}

function count(outcomes: readonly Outcome[], result: Outcome['result']): number {
  return outcomes.filter((outcome) => outcome.result === result).length;
}

function indent(text: string): string {
  return text.replaceAll('\n', '\n              ');
}

function paint(colour: Colour, text: string): string {
  return styleText(colour, text, { stream: process.stdout });
}
