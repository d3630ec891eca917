import { BURST_CONNECTIONS, type Burst, CONNECTIONS, type MemoryRow, SAMPLES } from './memory.ts';
import { TITLES } from './peers.ts';
import type { Place } from './results.ts';
import { toMarkdown, toNumber, toPlace } from './text-report.ts';

/** A run, as memory.json has it; memory is in bytes. */
export type MemoryResults = Place & {
  readonly requests: number;
  readonly seconds: number;
  readonly rows: readonly MemoryRow[];
};

/** The most that the memory may have grown by since the first sample, as a part of it. */
const GOAL = 0.05;

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
  ].join('\n\n');
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
