// Compares the gateway with its building blocks and with alternatives: npm run bench -- --help

import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Command, Option } from 'commander';
import { readInteger, toPath } from '../../src/admin/arguments.ts';
import { CASES, type CaseId } from './cases.ts';
import { type Cleanup, withCleanup } from './cleanup.ts';
import { toGoals, toTables } from './comparison.ts';
import type { Size } from './data.ts';
import { measureAll, type Plan } from './measure.ts';
import { checkAgreement, openWorld, PEERS, type PeerId } from './peers.ts';
import { toPlace } from './report.ts';
import { requireWrk } from './wrk.ts';

type Options = Size &
  Pick<Plan, 'rounds' | 'seconds'> & {
    readonly connections?: readonly number[];
    readonly output?: string;
    readonly only?: readonly PeerId[];
    readonly cases?: readonly CaseId[];
  };

const HELP = `
It starts a Postgres 18 and a PostgREST from npm, loads the data, starts each peer as a process,
checks that all of them give the same answers, and measures them in turns. The load comes from wrk,
which must be installed (Debian: apt-get install wrk).

Only the first case is also measured with fewer connections. --short takes three minutes, with
little data and one round.
--output writes latest.md.

Examples:
  npm run bench -- --short
  npm run bench -- --output scripts/bench/results
  npm run bench -- --only node-http gateway-postgres --cases rows10 --rounds 3

A missed goal is reported and fails nothing.
Exit codes: 0 measured; 1 failed; 2 wrong usage.`;

const WRONG_USAGE = 2;

async function measure(options: Options, cleanup: Cleanup, signal: AbortSignal): Promise<void> {
  const { tenants, students, rounds, seconds, connections = [32, 8, 1] } = options;
  const wrk = requireWrk();
  console.error(`Loading ${tenants} tenants with ${students} students each`);
  const { peers, version } = await openWorld(cleanup, options);
  signal.throwIfAborted();
  const cases = CASES.filter(({ id }) => options.cases?.includes(id) ?? true);
  for (const case_ of cases) await checkAgreement(peers, case_, tenants);
  const plan = { ...options, cases, connections };
  const measurements = await measureAll(peers, plan, signal, console.error);
  const report = [
    '# Benchmark',
    `${toPlace([`Postgres ${version}`, wrk], { tenants, students })} Each measurement takes ${seconds} s. Medians of
${rounds} rounds, minimum and maximum in parentheses. The load generator, the peers and Postgres share the processors. Every peer has
10 database connections. Logs are written as in production (JSON, level info) to /dev/null. CPU is that of the measured process,
without the database and the PostgREST behind it.`,
    `## Goals\n\nA ratio is of two measurements in the same round.\n\n${toGoals(measurements)}`,
    toTables(measurements),
  ].join('\n\n');
  console.log(report);
  if (!options.output) return;
  mkdirSync(options.output, { recursive: true });
  writeFileSync(join(options.output, 'latest.md'), `${report}\n`);
  console.error(`Written to ${options.output}`);
}

const readConnections = readInteger(1, 10_000);

await new Command('npm run bench --')
  .description('Compares the gateway with its building blocks and with alternatives.')
  .exitOverride(({ exitCode }) => process.exit(exitCode === 0 ? 0 : WRONG_USAGE))
  .addHelpText('after', HELP)
  .option('--rounds <N>', 'number of rounds', readInteger(1, 100), 5)
  .option('--seconds <N>', 'length of a measurement, after a second to warm up', readInteger(1, 600), 2)
  .option('--connections <N...>', 'concurrent requests; 32, 8 and 1 by default', (text, earlier: number[] = []) => [
    ...earlier,
    readConnections(text),
  ])
  .option('--tenants <N>', 'number of tenants', readInteger(1, 5_000), 100)
  .option('--students <N>', 'students of each tenant', readInteger(1, 1_000_000), 5_000)
  .addOption(new Option('--only <PEER...>', 'only these peers').choices(PEERS))
  .addOption(new Option('--cases <CASE...>', 'only these cases').choices(CASES.map(({ id }) => id)))
  .addOption(
    new Option('--short', 'one round, with little data').implies({
      ...{ rounds: 1, seconds: 1, tenants: 10, students: 1_000 },
    }),
  )
  .option('--output <FOLDER>', 'write the results to this folder', toPath)
  .action((options: Options) => withCleanup((cleanup, signal) => measure(options, cleanup, signal)))
  .parseAsync()
  .catch(({ message }: Error) => {
    console.error(message);
    process.exitCode = 1;
  });
