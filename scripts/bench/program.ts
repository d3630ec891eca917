// The command: its help and its options.

import { resolve } from 'node:path';
import { Command, CommanderError, InvalidArgumentError, Option } from 'commander';
import { CASES, type CaseId } from './cases.ts';
import type { Size } from './data.ts';
import { GENERATORS } from './generator.ts';
import type { PeerId } from './peer.ts';
import { PEERS } from './peers.ts';

/** What the command line says. */
export type Options = {
  readonly rounds: number;
  readonly seconds: number;
  readonly connections: readonly number[];
  readonly tenants: number;
  readonly students: number;
  readonly only?: readonly PeerId[];
  readonly cases?: readonly CaseId[];
  readonly generator?: (typeof GENERATORS)[number];
  readonly output?: string;
  readonly short?: boolean;
};

/** How much data a run has whose results are kept. */
export const SIZE: Size = { tenants: 100, students: 5_000 };

const HELP = `
It starts a Postgres 18 and a PostgREST from npm, loads its data, starts every peer as a
process of its own, sees that all of them answer the same, and measures them in turns.
The load comes from wrk where it is installed, otherwise from autocannon.

The results go to scripts/bench/results (latest.json, latest.md, latest.svg) where all is
measured, on all of the data, or to the folder that --output names. With --short it takes two
minutes: what the goals need, on little data, beside what is stored in that folder. A
goal that is missed fails nothing.

Peers: ${PEERS.slice(0, 5).join(', ')},
  ${PEERS.slice(5).join(', ')}
Cases: ${CASES.map(({ id }) => id).join(', ')}

Examples:
  npm run bench
  npm run bench -- --short
  npm run bench -- --only node-http gateway-postgres --cases rows10 --rounds 3

Exit codes: 0 measured; 1 a server does not start, or a peer answers wrong; 2 wrong usage.`;

const FAILED = 1;
const USAGE = 2;

/** Runs a command with the arguments of this process, whose exit code says how it ended. */
export async function runProgram(program: Command): Promise<void> {
  try {
    await program.parseAsync();
  } catch (error) {
    if (error instanceof CommanderError) process.exitCode = error.exitCode === 0 ? 0 : USAGE;
    else {
      console.error(error instanceof Error ? error.message : error);
      process.exitCode = FAILED;
    }
  }
}

/** The command. Parsing throws commander's error; `npm run` is started in the folder that INIT_CWD names. */
export function createProgram(
  env: Readonly<Record<string, string | undefined>>,
  action: (options: Options) => Promise<void>,
): Command {
  return new Command('npm run bench --')
    .description('Measures the gateway beside what it is built on, and what it could be replaced by.')
    .exitOverride()
    .option('--rounds <N>', 'how often each measurement is made', readInteger(1, 100), 5)
    .option('--seconds <N>', 'how long each takes, after a second to warm up', readInteger(1, 600), 2)
    .addOption(
      new Option('--connections <N...>', 'how many requests are under way at once')
        .argParser(toList(readInteger(1, 10_000)))
        .default([32, 1], '32 and 1'),
    )
    .option('--tenants <N>', 'how many tenants', readInteger(1, 5_000), SIZE.tenants)
    .option('--students <N>', 'how many students each of them has', readInteger(1, 1_000_000), SIZE.students)
    .addOption(new Option('--only <PEER...>', 'only these peers').choices(PEERS))
    .addOption(new Option('--cases <CASE...>', 'only these cases').choices(CASES.map(({ id }) => id)))
    .addOption(new Option('--generator <NAME>', 'the load generator').choices(GENERATORS))
    .addOption(toOutput(env))
    .addOption(
      new Option('--short', 'what the goals need, in two minutes, beside the stored results').implies({
        ...{ rounds: 2, seconds: 1, connections: [32], tenants: 10, students: 1_000 },
      }),
    )
    .addHelpText('after', HELP)
    .action(action);
}

/** The option of where results go, a folder as it is seen from where the command was given. */
export function toOutput({ INIT_CWD = '.' }: Readonly<Record<string, string | undefined>>): Option {
  return new Option('--output <FOLDER>', 'where the results go').argParser((folder) => resolve(INIT_CWD, folder));
}

/** Reads an option that is an integer within bounds. */
export function readInteger(least: number, most: number): (text: string) => number {
  return (text) => {
    const number = /^\d+$/.test(text) ? Number(text) : Number.NaN;
    if (number >= least && number <= most) return number;
    throw new InvalidArgumentError(`Expected an integer from ${least} to ${most}.`);
  };
}

/** Reads each of several values; the first that is told replaces the default. */
export function toList(
  read: (text: string) => number,
): (text: string, earlier: readonly number[]) => readonly number[] {
  const told: number[] = [];
  return (text) => {
    told.push(read(text));
    return [...told];
  };
}
