import type { FairnessRow, FloodRow } from './fairness.ts';
import { TITLES } from './peers.ts';
import type { Place } from './results.ts';
import { toMarkdown, toMilliseconds, toNumber, toPlace } from './text-report.ts';

/** A run, as fairness.json has it. */
export type FairnessResults = Place & { readonly seconds: number; readonly rows: readonly FairnessRow[] };

/** How many times its p99 alone the client's p99 during a flood may be, beside the time of one expensive list. */
const GOAL = 3;

/** The report, in Markdown that can be read as it is. */
export function toFairnessReport(results: FairnessResults): string {
  return [
    '# Fairness',
    `${toPlace(results)} Each gateway has its default configuration. The load generator, what is measured and Postgres share the processors.`,
    [
      'One client asks for a list of 10 again and again on one connection: alone, and while others flood the gateway for',
      `${results.seconds} s with lists of 1,000 at the end of a large tenant, each asked for again as soon as it is answered. Times are`,
      `in milliseconds. The goal is that none of its requests fails, and that its p99 is at most ${GOAL} times that of before the`,
      'flood plus one expensive list.',
    ].join('\n'),
    ...results.rows.flatMap(toSection),
  ].join('\n\n');
}

function toSection({ peer, expensiveMs, floods }: FairnessRow): string[] {
  const head = ['Flood', 'alone: requests', 'p50', 'p99', 'during: requests', 'failed', 'p50', 'p99', 'goal', ''];
  return [
    `## ${TITLES[peer]}\n\nOne expensive list alone takes ${toMilliseconds(expensiveMs)} ms.`,
    toMarkdown(
      head,
      floods.map((row) => toCells(row, expensiveMs)),
    ),
    'What the floods were answered:',
    toMarkdown(
      ['Flood', 'answers/s', 'status 400 and above'],
      floods.map(({ flood, rate, refused }) => [flood, toNumber(rate), `${(refused * 100).toFixed(1)} %`]),
    ),
  ];
}

function toCells({ flood, alone, during }: FloodRow, expensiveMs: number): string[] {
  const most = GOAL * alone.p99 + expensiveMs;
  return [
    flood,
    ...[toNumber(alone.requests), toMilliseconds(alone.p50), toMilliseconds(alone.p99)],
    ...[toNumber(during.requests), toNumber(during.failures), toMilliseconds(during.p50), toMilliseconds(during.p99)],
    ...[`≤ ${toMilliseconds(most)}`, during.failures === 0 && during.p99 <= most ? 'met' : 'missed'],
  ];
}
