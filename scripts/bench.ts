// Measures the gateway beside what it is built on, and what it could be replaced by: npm run bench -- --help

import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { checkAgreement } from './bench/agreement.ts';
import { CASES } from './bench/cases.ts';
import { type Cleanup, withCleanup } from './bench/cleanup.ts';
import { createGenerator } from './bench/generator.ts';
import { isForGoal } from './bench/goals.ts';
import { openWorld } from './bench/peers.ts';
import { toPlot } from './bench/plot.ts';
import { createProgram, type Options, runProgram, SIZE } from './bench/program.ts';
import { type Results, readPlace, toResults, writeResults } from './bench/results.ts';
import { measureAll, toDuration } from './bench/run.ts';
import { toComparison, toReport } from './bench/text-report.ts';

const STORED = join(import.meta.dirname, 'bench/results');

async function measure(options: Options, cleanup: Cleanup, signal: AbortSignal): Promise<Results> {
  const { tenants, students, rounds, seconds, short: isShort } = options;
  const generator = createGenerator(cleanup, options.generator);
  const cases = CASES.filter(({ id }) => options.cases?.includes(id) ?? (!isShort || SHORT_CASES.includes(id)));
  console.error(`Loading ${tenants} tenants with ${students} students each`);
  const { peers, postgres } = await openWorld(cleanup, generator, options);
  signal.throwIfAborted();
  await checkAgreement(peers, cases, tenants);
  const plan = { ...options, cases, ...(isShort ? { isWanted: isForGoal } : {}) };
  console.error(`Measuring, which takes ${Math.ceil(toDuration(peers, plan) / 60)} minutes`);
  const measurements = await measureAll(peers, plan, signal, console.error);
  const place = readPlace(postgres.version, generator.name, { tenants, students });
  return toResults({ ...place, rounds, seconds }, measurements);
}

const SHORT_CASES = CASES.map(({ id }) => id).filter((id) => isForGoal('gateway-postgres', id));

async function tell(results: Results, { short: isShort, output, only, cases }: Options): Promise<void> {
  const isWhole = !isShort && !only && !cases && isDeepStrictEqual(results.size, SIZE);
  const folder = output ?? (isWhole ? STORED : undefined);
  console.log(isShort ? toComparison(results.goals, readStored()?.goals ?? []) : toReport(results));
  if (!folder) return;
  writeResults(folder, 'latest', results, toReport(results));
  writeFileSync(join(folder, 'latest.svg'), toPlot(results));
}

function readStored(): Results | undefined {
  try {
    return JSON.parse(readFileSync(join(STORED, 'latest.json'), 'utf8'));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    console.error('There are no stored results to compare with');
    return undefined;
  }
}

await runProgram(
  createProgram(process.env, async (options) => {
    await tell(await withCleanup((cleanup, signal) => measure(options, cleanup, signal)), options);
  }),
);
