// Compares the gateway with what it is built on and with what could replace it: npm run bench -- --help

import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Command, CommanderError, Option } from 'commander';
import { toPath } from '../../src/admin/path.ts';
import { readInteger } from '../integer.ts';
import { checkAgreement } from './agreement.ts';
import { CASES, type CaseId } from './cases.ts';
import { toReport, toResults } from './comparison.ts';
import type { Size } from './data.ts';
import { isForGoal, toGoalReport } from './goals.ts';
import { measureAll, type Plan, toDuration } from './measure.ts';
import { PEERS, type PeerId } from './peer.ts';
import { openWorld } from './peers.ts';
import { toPlot } from './plot.ts';
import { type Cleanup, withCleanup } from './processes.ts';
import { readPlace } from './report.ts';
import { requireWrk } from './wrk.ts';

type Options = Size &
  Pick<Plan, 'rounds' | 'seconds' | 'connections'> & {
    readonly output?: string;
    readonly only?: readonly PeerId[];
    readonly cases?: readonly CaseId[];
    readonly short?: boolean;
  };

const HELP = `
It starts a Postgres 18 and a PostgREST from npm, loads the data, starts each peer as a process,
checks that all of them give the same answers, and measures them in turns. The load comes from wrk,
which must be installed (Debian: apt-get install wrk). With pgbench it measures Postgres alone
(Debian: apt-get install postgresql-15).

Fewer connections than the most are only for the goals, unless --cases says what to measure.
--short measures only what the goals need, with little data and one round, in two minutes.
--output writes latest.md and latest.svg.

Peers: ${PEERS.join(', ')}
Cases: ${CASES.map(({ id }) => id).join(', ')}

Examples:
  npm run bench -- --short
  npm run bench -- --output scripts/bench/results
  npm run bench -- --only node-http gateway-postgres --cases rows10 --rounds 3

A missed goal is reported and fails nothing.
Exit codes: 0 measured; 1 failed; 2 wrong usage.`;

const FAILED = 1;
const USAGE = 2;

async function measure(options: Options, cleanup: Cleanup, signal: AbortSignal): Promise<void> {
  const { tenants, students, rounds, seconds, short: isShort } = options;
  const wrk = requireWrk();
  console.error(`Loading ${tenants} tenants with ${students} students each`);
  const { peers, postgres } = await openWorld(cleanup, options);
  signal.throwIfAborted();
  const most = Math.max(...options.connections);
  const isWanted = (peer: PeerId, id: CaseId, connections: number) =>
    options.cases?.includes(id) ?? ((connections === most && !isShort) || isForGoal(peer, id, connections));
  const cases = CASES.filter(({ id }) =>
    options.connections.some((n) => peers.some((peer) => isWanted(peer.id, id, n))),
  );
  await checkAgreement(peers, cases, tenants);
  const plan = { ...options, cases, isWanted };
  console.error(`Measuring takes ${Math.ceil(toDuration(peers, plan) / 60)} minutes`);
  const measurements = await measureAll(peers, plan, signal, console.error);
  const results = toResults(
    { ...readPlace(postgres.version, { tenants, students }, wrk), rounds, seconds },
    measurements,
  );
  const report = isShort ? toGoalReport(results.goals) : toReport(results);
  console.log(report);
  if (!options.output) return;
  mkdirSync(options.output, { recursive: true });
  writeFileSync(join(options.output, 'latest.md'), `${report}\n`);
  writeFileSync(join(options.output, 'latest.svg'), toPlot(results));
  console.error(`Written to ${options.output}`);
}

/** Reads each value of an option with several; the first one replaces the default. */
function readIntegers(min: number, max: number): (text: string) => readonly number[] {
  const read = readInteger(min, max);
  const values: number[] = [];
  return (text) => {
    values.push(read(text));
    return [...values];
  };
}

const command = new Command('npm run bench --')
  .description('Compares the gateway with what it is built on and with what could replace it.')
  .exitOverride()
  .addHelpText('after', HELP)
  .option('--rounds <N>', 'number of rounds', readInteger(1, 100), 5)
  .option('--seconds <N>', 'length of a measurement, after a second to warm up', readInteger(1, 600), 2)
  .option('--connections <N...>', 'concurrent requests', readIntegers(1, 10_000), [32, 8, 1])
  .option('--tenants <N>', 'number of tenants', readInteger(1, 5_000), 100)
  .option('--students <N>', 'students of each tenant', readInteger(1, 1_000_000), 5_000)
  .addOption(new Option('--only <PEER...>', 'only these peers').choices(PEERS))
  .addOption(new Option('--cases <CASE...>', 'only these cases').choices(CASES.map(({ id }) => id)))
  .addOption(
    new Option('--short', 'only what the goals need, with little data').implies({
      ...{ rounds: 1, seconds: 1, tenants: 10, students: 1_000 },
    }),
  )
  .option('--output <FOLDER>', 'write the results to this folder', toPath)
  .action((options: Options) => withCleanup((cleanup, signal) => measure(options, cleanup, signal)));

try {
  await command.parseAsync();
} catch (error) {
  if (error instanceof CommanderError) process.exitCode = error.exitCode === 0 ? 0 : USAGE;
  else {
    console.error(error instanceof Error ? error.message : error);
    process.exitCode = FAILED;
  }
}
