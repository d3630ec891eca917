// Measures the gateway beside what it is built on, and what it could be replaced by: npm run bench -- --help

import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { CommanderError } from 'commander';
import { checkAgreement } from './bench/agreement.ts';
import { CASES } from './bench/cases.ts';
import { type Cleanup, createCleanup } from './bench/cleanup.ts';
import { createGenerator } from './bench/generator.ts';
import { isForGoal } from './bench/goals.ts';
import { readMachine, readVersions } from './bench/machine.ts';
import { openWorld } from './bench/peers.ts';
import { toPlot } from './bench/plot.ts';
import { createProgram, type Options, SIZE } from './bench/program.ts';
import { type Results, toResults } from './bench/results.ts';
import { measureAll, toDuration } from './bench/run.ts';
import { toComparison, toReport } from './bench/text-report.ts';

const FAILED = 1;
const USAGE = 2;
const STORED = join(import.meta.dirname, 'bench/results');

async function main(args: readonly string[]): Promise<void> {
  try {
    await createProgram(process.env, run).parseAsync(args, { from: 'user' });
  } catch (error) {
    if (error instanceof CommanderError) process.exitCode = error.exitCode === 0 ? 0 : USAGE;
    else {
      console.error(error instanceof Error ? error.message : error);
      process.exitCode = FAILED;
    }
  }
}

/** Measures, and ends all that was started, at a signal too. */
async function run(options: Options): Promise<void> {
  const cleanup = createCleanup();
  const interrupted = new AbortController();
  const { promise, reject } = Promise.withResolvers<never>();
  const onSignal = () => {
    const reason = new Error('Interrupted');
    interrupted.abort(reason);
    reject(reason);
  };
  process.on('SIGINT', onSignal).on('SIGTERM', onSignal);
  const work = measure(options, cleanup, interrupted.signal);
  // What ends because its servers were ended is nobody's to hear of.
  work.catch(() => {});
  try {
    await tell(await Promise.race([work, promise]), options);
  } finally {
    await cleanup.close();
    process.off('SIGINT', onSignal).off('SIGTERM', onSignal);
  }
}

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
  const size = { tenants, students };
  const circumstances = {
    date: new Date().toISOString().slice(0, 10),
    machine: readMachine(),
    versions: readVersions(postgres),
    generator: generator.name,
    ...{ size, rounds, seconds },
  };
  return toResults(circumstances, measurements);
}

const SHORT_CASES = CASES.map(({ id }) => id).filter((id) => isForGoal('gateway-postgres', id));

async function tell(results: Results, { short: isShort, output, only, cases }: Options): Promise<void> {
  const isWhole = !isShort && !only && !cases && isDeepStrictEqual(results.size, SIZE);
  const folder = output ?? (isWhole ? STORED : undefined);
  console.log(isShort ? toComparison(results.goals, readStored()?.goals ?? []) : toReport(results));
  if (!folder) return;
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, 'latest.json'), `${JSON.stringify(results, null, 2)}\n`);
  writeFileSync(join(folder, 'latest.md'), `${toReport(results)}\n`);
  writeFileSync(join(folder, 'latest.svg'), toPlot(results));
  console.error(`Written to ${folder}`);
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

await main(process.argv.slice(2));
