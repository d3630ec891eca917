// The report of a run: data, text with colours on a terminal, and JUnit XML for CI.

import { styleText } from 'node:util';
import junit, { type Builder } from 'junit-report-builder';
import { showControls } from '../../src/admin/terminal.ts';
import type { Created } from './client.ts';
import type { Part } from './coverage.ts';

/** The result of a check. */
export type Outcome = { readonly name: string } & (
  | { readonly result: 'passed'; readonly seconds: number }
  | {
      readonly result: 'failed';
      readonly seconds: number;
      /** The shortest request that fails. */
      readonly curl: string;
      readonly expected: string;
      readonly got: string;
    }
  | { readonly result: 'skipped'; readonly reason: string }
);

/** The checks of an operation. */
export type Section = { readonly title: string; readonly seconds: number; readonly outcomes: readonly Outcome[] };

export type Report = {
  readonly url: string;
  readonly seed: number;
  readonly runs: number;
  readonly requests: number;
  readonly seconds: number;
  /** Why the run has ended early. */
  readonly stopped: Error | undefined;
  readonly sections: readonly Section[];
  readonly created: Created;
  readonly coverage: readonly Part[];
};

export type Failed = Extract<Outcome, { result: 'failed' }>;

/** Names listed in the text; the other formats list all. */
const MAX_NAMES = 12;
const IDS_PER_LINE = 3;
const KINDS = { status: 'statuses', input: 'inputs', keyword: 'keywords of inputs' };

export function hasFailed({ sections }: Report): boolean {
  return sections.some(({ outcomes }) => outcomes.some(({ result }) => result === 'failed'));
}

export function toHeading({ url, seed, runs }: Pick<Report, 'url' | 'seed' | 'runs'>): string {
  return `Contract tests of ${url}\nSeed ${seed}, ${runs} runs; --seed ${seed} repeats them.\n`;
}

export function toSection({ title, seconds, outcomes }: Section): string {
  const { passed, failed, skipped } = group(outcomes);
  const counts = [
    styleText('green', `${passed.length} passed`),
    ...(failed.length > 0 ? [styleText('red', `${failed.length} failed`)] : []),
    ...(skipped.length > 0 ? [styleText('yellow', `${skipped.length} skipped`)] : []),
  ];
  const head = styleText('bold', title.padEnd(22));
  const line = `${head} ${counts.join(', ')} ${styleText('dim', `${seconds.toFixed(1)} s`)}`;
  // Checks that fail with the same request for the same reason are one failure.
  const causes = Map.groupBy(failed, ({ curl, expected, got }) => JSON.stringify([curl, expected, got]));
  const names = skipped.map(({ name, reason }) => ({
    name: name.replace(/^answers the example (\w+).*/, '$1'),
    reason,
  }));
  return [line, ...[...causes.values()].map(toFailure), ...toReasons('skipped', names)].join('\n');
}

function toFailure(failures: readonly Failed[]): string {
  const [{ curl, expected, got }] = failures as [Failed];
  const indent = (text: string) => showControls(text).replaceAll('\n', '\n              ');
  return [
    ...failures.map(({ name }) => `  ${styleText('red', `FAILED  ${name}`)}`),
    `    ${showControls(curl)}`,
    `    expected  ${indent(expected)}`,
    `    got       ${indent(got)}`,
    '',
  ].join('\n');
}

/** A line per reason, with its names. */
function toReasons(what: string, all: readonly { readonly name: string; readonly reason: string }[]): string[] {
  return [...Map.groupBy(all, ({ reason }) => reason)].map(([reason, same]) => {
    const names = same.slice(0, MAX_NAMES).map(({ name }) => name);
    const more = same.length > MAX_NAMES ? ` and ${same.length - MAX_NAMES} more` : '';
    return styleText('dim', `  ${what}  ${showControls(reason)}: ${names.join(', ')}${more}`);
  });
}

export function toSummary({ sections, created, coverage, requests, seconds }: Report): string {
  const { passed, failed, skipped } = group(sections.flatMap(({ outcomes }) => outcomes));
  const counts = `${passed.length} passed, ${failed.length} failed, ${skipped.length} skipped`;
  const line = `${counts}; ${requests} requests in ${seconds.toFixed(1)} s`;
  const colour = failed.length > 0 ? 'red' : 'green';
  return ['', ...toCreated(created), ...toCoverage(coverage), '', styleText(colour, line)].join('\n');
}

/** The tested and untested parts of the document. */
function toCoverage(parts: readonly Part[]): string[] {
  const counts = [...Map.groupBy(parts, ({ kind }) => kind)].map(([kind, all]) => {
    const shown = all.filter(({ reason }) => reason === undefined);
    return `${shown.length} of ${all.length} ${KINDS[kind]}`;
  });
  const missing = parts.flatMap(({ operation, name, reason }) =>
    reason === undefined ? [] : [{ name: `${operation} ${name}`, reason }],
  );
  return [`Shown of the document: ${counts.join(', ')}`, ...toReasons('not shown', missing)];
}

/** Lists the ids of records that stay. */
export function toCreated(created: Created): string[] {
  return [...Map.groupBy(created, ({ by }) => by)].flatMap(([by, records]) => {
    const lines = Map.groupBy(records.entries(), ([index]) => Math.floor(index / IDS_PER_LINE));
    return [
      `Created by ${by} and not removed: ${records.length}`,
      ...[...lines.values()].map((line) => `  ${line.map(([, { id }]) => showControls(id)).join(' ')}`),
      '',
    ];
  });
}

function group(outcomes: readonly Outcome[]) {
  const filter = <R extends Outcome['result']>(result: R) =>
    outcomes.filter((outcome): outcome is Extract<Outcome, { result: R }> => outcome.result === result);
  return { passed: filter('passed'), failed: filter('failed'), skipped: filter('skipped') };
}

/** JUnit XML, with a testsuite per operation and a testcase per check. */
export function toJUnit({ sections, url, seed }: Report): string {
  // The package's types declare a `default`, but the builder is the module itself.
  const xml = (junit as unknown as Builder).newBuilder();
  for (const { title, seconds, outcomes } of sections) {
    const suite = xml.testSuite().name(title).time(seconds).property('url', url).property('seed', String(seed));
    for (const outcome of outcomes) {
      const testCase = suite.testCase().className(title).name(toXmlText(outcome.name));
      if (outcome.result === 'skipped') testCase.skipped().standardOutput(toXmlText(outcome.reason));
      else testCase.time(outcome.seconds);
      if (outcome.result !== 'failed') continue;
      const details = `${outcome.curl}\nexpected ${outcome.expected}\ngot ${outcome.got}`;
      testCase.failure(toXmlText(`expected ${outcome.expected}`)).stacktrace(toXmlText(details));
    }
  }
  return xml.build();
}

/** Replaces characters that XML 1.0 (section 2.2) does not allow, and the end of a CDATA section. */
function toXmlText(text: string): string {
  const allowed = text.replace(/[^\t\n\r\u{20}-\u{d7ff}\u{e000}-\u{fffd}\u{10000}-\u{10ffff}]/gu, '\ufffd');
  return allowed.replaceAll(']]>', ']] >');
}
