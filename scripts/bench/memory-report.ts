import type { Attack } from './attacks.ts';
import { BURST_CONNECTIONS, type Burst, CONNECTIONS, type MemoryRow, SAMPLES } from './memory.ts';
import { TITLES } from './peers.ts';
import type { Place } from './results.ts';
import { toMarkdown, toNumber, toPlace } from './text-report.ts';

/** A run, as memory.json has it; memory is in bytes. */
export type MemoryResults = Place & {
  readonly requests: number;
  readonly seconds: number;
  readonly rows: readonly (MemoryRow & { readonly attacks: readonly Attack[] })[];
};

/** The most that the memory may have grown by since the first sample, as a part of it. */
const GOAL = 0.05;

/** What the memory is to stay below under attack, in bytes, on the store that the goal is of. */
const ATTACK_GOAL = { peer: 'gateway-postgres', memory: 400e6 };

/** The report, in Markdown that can be read as it is. */
export function toMemoryReport(results: MemoryResults): string {
  const { rows, requests, seconds } = results;
  const titles = rows.map(({ peer }) => TITLES[peer]);
  const counts = Array.from({ length: SAMPLES }, (_, n) => [
    toNumber((requests * (n + 1)) / SAMPLES),
    ...rows.map(({ samples }) => toMegabytes(samples[n]?.memory)),
  ]);
  const growths = rows.map((row) => {
    const growth = toGrowth(row);
    return `${(growth * 100).toFixed(1)} %, ${growth <= GOAL ? 'met' : 'missed'}`;
  });
  const bursts = rows.flatMap(({ peer, bursts }) => bursts.map((burst) => toCells(TITLES[peer], burst)));
  return [
    '# Memory',
    `${toPlace(results)} Resident memory of the gateway's process, in MB.`,
    `## A mix of requests at ${CONNECTIONS} connections\n\nAt rest, after so many requests; the goal is a growth of 5 % at most.`,
    toMarkdown(['Requests', ...titles], [...counts, ['growth', ...growths]]),
    `## Lists of 1,000 rows at ${BURST_CONNECTIONS} connections\n\nFor ${seconds} s each.`,
    toMarkdown(['', 'before', 'peak', 'at rest after it'], bursts),
    ...toAttackTable(rows),
  ].join('\n\n');
}

function toAttackTable(rows: MemoryResults['rows']): string[] {
  const attacks = rows.flatMap(({ peer, attacks }) => attacks.map((attack) => ({ peer, ...attack })));
  if (attacks.length === 0) return [];
  return [
    [
      '## The largest rows that a key can store, and clients that do not read',
      '',
      'Long e-mails have 99,000 letters; those stored earlier come from the administrator of the database. The largest lists are',
      'of 1,000 students with the longest values. A silent connection reads nothing for 10 s, and then all. The process is a new',
      'one, with a deadline of 60 s. The goal on Postgres is a peak below 400 MB, whatever the statuses of the answers.',
    ].join('\n'),
    toMarkdown(
      ['', 'before', 'peak', 'at rest after it', 'answers × status', ''],
      attacks.map(({ peer, statuses, ...burst }) => [
        ...toCells(TITLES[peer], burst),
        toCounts(statuses),
        peer === ATTACK_GOAL.peer ? (burst.peak < ATTACK_GOAL.memory ? 'met' : 'missed') : '',
      ]),
    ),
  ];
}

function toCounts(statuses: Attack['statuses']): string {
  return Object.entries(statuses)
    .map(([status, count]) => `${toNumber(count)} × ${status}`)
    .join(', ');
}

/** By how much the memory has grown from the first sample to the last, as a part of it. */
function toGrowth({ samples }: MemoryRow): number {
  return (samples.at(-1)?.memory ?? 0) / (samples[0]?.memory ?? 0) - 1;
}

function toCells(title: string, { load, before, peak, after }: Burst): string[] {
  return [`${title}, ${load}`, ...[before, peak, after].map(toMegabytes)];
}

function toMegabytes(bytes: number | undefined): string {
  return toNumber(bytes && bytes / 1e6);
}
