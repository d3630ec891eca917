// The command: its help and its options.

import { Command, InvalidArgumentError, Option } from 'commander';
import { readInteger, toList, toOutput } from '../program.ts';
import { CASES } from './cases.ts';
import { MOST_SIZES } from './data.ts';

/** What the command line says. */
export type Options = {
  readonly sizes: readonly number[];
  readonly others: number;
  readonly requests: number;
  readonly only?: readonly string[];
  readonly output?: string;
};

/** What a run has whose results are kept. */
export const WHOLE = { sizes: [1_000, 100_000, 1_000_000], others: 999, requests: 100 };

const HELP = `
It starts a Postgres 18 from npm, makes the other tenants, lets one tenant grow to each size, keeps
a database of each with a gateway of its own, and measures the requests of one client over HTTP,
the sizes in turns. That takes a quarter of an hour, half of it for the data, and 5 GB of disk.

The results go to scripts/bench/results (growth.json, growth.md) where all is measured with all of
the data, or to the folder that --output names. A goal that is missed fails nothing.

Examples:
  npm run bench:growth
  npm run bench:growth -- --sizes 1000 50000 --others 99 --requests 50
  npm run bench:growth -- --only first last name-common --output /tmp/growth

Cases: ${CASES.map(({ id }) => id).join(', ')}

Exit codes: 0 measured; 1 a server does not start, or answers wrong; 2 wrong usage.`;

/** The command. Parsing throws commander's error; `npm run` is started in the folder that INIT_CWD names. */
export function createProgram(
  env: Readonly<Record<string, string | undefined>>,
  action: (options: Options) => Promise<void>,
): Command {
  return new Command('npm run bench:growth --')
    .description('Measures what becomes slower as a tenant grows.')
    .exitOverride()
    .addOption(
      new Option('--sizes <N...>', `how many students the tenant has, in turn, at most ${MOST_SIZES} sizes`)
        .argParser(toAscending(toList(readInteger(1_000, 10_000_000))))
        .default(WHOLE.sizes, WHOLE.sizes.join(' ')),
    )
    .option('--others <N>', 'how many other tenants there are', readInteger(1, 5_000), WHOLE.others)
    .option('--requests <N>', 'how many requests each case makes', readInteger(10, 10_000), WHOLE.requests)
    .addOption(new Option('--only <CASE...>', 'only these cases').choices(CASES.map(({ id }) => id)))
    .addOption(toOutput(env))
    .addHelpText('after', HELP)
    .action(action);
}

type Read = (text: string, earlier: readonly number[]) => readonly number[];

/** A tenant only grows. */
function toAscending(read: Read): Read {
  return (text, earlier) => {
    const sizes = read(text, earlier).toSorted((a, b) => a - b);
    if (sizes.length <= MOST_SIZES) return sizes;
    throw new InvalidArgumentError(`Expected at most ${MOST_SIZES} sizes.`);
  };
}
