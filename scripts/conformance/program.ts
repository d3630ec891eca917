// The command: its help and its options.

import { randomInt } from 'node:crypto';
import { resolve } from 'node:path';
import { Command, InvalidArgumentError, Option } from 'commander';

/** What the command line says. */
export type Options = {
  readonly url: string;
  readonly key: string;
  readonly document: string;
  readonly readOnly?: boolean;
  readonly demo?: boolean;
  readonly seed: number;
  readonly runs: number;
  readonly operation?: readonly string[];
  readonly junit?: string;
  readonly json?: boolean;
};

/** The command line asks for what there is not. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
}

export type Environment = Readonly<Record<string, string | undefined>>;

const HELP = `
It sends the document's examples and what it generates from the schemas, at and on
either side of every bound, and looks at pages and filters. What it creates stays,
and its ids are told at the end; with --read-only nothing but GET and HEAD is sent.

Examples:
  npm run contract -- --url http://127.0.0.1:3000/v1 --key wms_demo_aurora --demo
  API_KEY=… npm run contract -- --url https://api.example/v1 --read-only --junit report.xml

Exit codes: 0 all passed; 1 something failed; 2 wrong usage; 3 the deployment cannot
be reached.`;

const LARGEST_SEED = 2 ** 31 - 1;

/** The command. Parsing throws commander's error; `npm run` is started in the folder that INIT_CWD names. */
export function createProgram(env: Environment, action: (options: Options) => Promise<void>): Command {
  const toPath = (file: string) => resolve(env.INIT_CWD ?? '.', file);
  return (
    new Command('npm run contract --')
      .description('Holds a deployment against openapi.yaml.')
      .exitOverride()
      // main tells it, as JSON where that is wanted.
      .configureOutput({ outputError: () => {} })
      .requiredOption('--url <URL>', "the URL that the document's paths come behind", readUrl)
      .addOption(
        new Option('--key <KEY>', 'the API key, which the report never shows')
          .env('API_KEY')
          .argParser(readKey)
          .makeOptionMandatory(),
      )
      .option('--read-only', 'send GET and HEAD alone')
      .option('--demo', 'the deployment has the demo data: hold it against the examples too')
      .addOption(
        new Option('--seed <N>', 'repeat the run of this seed')
          .argParser(readSeed)
          .default(randomInt(LARGEST_SEED), 'another one each time'),
      )
      .option('--runs <N>', 'how many values to generate for each check', readRuns, 20)
      .option('--operation <ID...>', 'only these operations, by their operationId')
      .addOption(
        new Option('--document <FILE>', 'another document')
          .argParser(toPath)
          .default(resolve('openapi.yaml'), 'openapi.yaml'),
      )
      .option('--junit <FILE>', 'write the report as JUnit XML too', toPath)
      .option('--json', 'give one JSON value, for scripts')
      .addHelpText('after', HELP)
      .action(action)
  );
}

function readUrl(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (!url || !/^https?:$/.test(url.protocol) || url.search || url.hash || url.username || url.password) {
    throw new InvalidArgumentError('Expected a URL such as https://api.example/v1, without a query.');
  }
  return text.replace(/\/+$/, '');
}

function readKey(text: string): string {
  if (!/^[!-~]+$/.test(text)) throw new InvalidArgumentError('Expected visible ASCII characters.');
  return text;
}

function readSeed(text: string): number {
  return readInteger(text, -LARGEST_SEED, LARGEST_SEED);
}

function readRuns(text: string): number {
  return readInteger(text, 1, 10_000);
}

function readInteger(text: string, least: number, most: number): number {
  const number = /^-?\d+$/.test(text) ? Number(text) : Number.NaN;
  if (!(number >= least && number <= most))
    throw new InvalidArgumentError(`Expected an integer from ${least} to ${most}.`);
  return number;
}
