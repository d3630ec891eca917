// Tests whether a deployment answers as openapi.yaml says: npm run contract -- --help

import { randomInt } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { Command, CommanderError, InvalidArgumentError, Option } from 'commander';
import { readInteger, toPath } from '../../src/admin/arguments.ts';
import { messageOf } from '../../src/errors.ts';
import { DocumentError, readDocument } from '../../src/openapi/document.ts';
import { Unreachable } from './client.ts';
import { readContract } from './operations.ts';
import { hasFailed, toCreated, toHeading, toJUnit, toSection, toSummary } from './report.ts';
import { runContract } from './run.ts';

type Options = {
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

const HELP = `
It sends the document's examples and values generated from the schemas, at every bound and on
either side of it, and checks pages and filters. Created records stay; their ids are printed at
the end. With --read-only it sends only GET and HEAD.

Examples:
  npm run contract -- --url http://127.0.0.1:3000/v1 --key wms_demo_aurora --demo
  API_KEY=… npm run contract -- --url https://api.example/v1 --read-only --junit report.xml

Exit codes: 0 all passed; 1 something failed; 2 wrong usage; 3 the deployment cannot be reached.`;

const FAILED = 1;
const USAGE = 2;
const UNREACHABLE = 3;

const MAX_SEED = 2 ** 31 - 1;
/** Maximum time for an answer. */
const TIMEOUT_MS = 10_000;

const command = new Command('npm run contract --')
  .description('Tests whether a deployment answers as openapi.yaml says.')
  .exitOverride()
  // Printed below, with --json as JSON.
  .configureOutput({ outputError: () => {} })
  .requiredOption('--url <URL>', 'the URL before the paths of the document, such as http://127.0.0.1:3000/v1', readUrl)
  .addOption(
    new Option('--key <KEY>', 'the API key; reports do not show it')
      .env('API_KEY')
      .argParser(readKey)
      .makeOptionMandatory(),
  )
  .option('--read-only', 'send only GET and HEAD')
  .option('--demo', 'the deployment has the demo data: compare it with the examples')
  .addOption(
    new Option('--seed <N>', 'repeat the run with this seed')
      .argParser(readInteger(-MAX_SEED, MAX_SEED))
      .default(randomInt(MAX_SEED), 'random'),
  )
  .option('--runs <N>', 'values to generate for each check', readInteger(1, 10_000), 20)
  .option('--operation <ID...>', 'only these operations, by operationId')
  .addOption(
    new Option('--document <FILE>', 'another document')
      .argParser(toPath)
      .default(resolve('openapi.yaml'), 'openapi.yaml'),
  )
  .option('--junit <FILE>', 'also write the report as JUnit XML', toPath)
  .option('--json', 'print one JSON value, for scripts')
  .addHelpText('after', HELP)
  .action(run);

async function run({ operation: only, json: isJson = false, junit, ...options }: Options): Promise<void> {
  const contract = await readContract(await readDocument(options.document));
  const known = contract.operations.map(({ id }) => id);
  const unknown = only?.find((id) => !known.includes(id));
  if (unknown) command.error(`${unknown} is not an operation of the document, which has ${known.join(', ')}`);
  // A file that cannot be written should fail before the run.
  if (junit) write(junit, '');
  const print = isJson ? () => {} : console.log;
  print(toHeading(options));
  const { readOnly = false, demo = false } = options;
  const report = await runContract(
    { ...options, contract, readOnly, demo, timeoutMs: TIMEOUT_MS, ...(only ? { only } : {}) },
    (section) => print(toSection(section)),
  );
  console.log(isJson ? JSON.stringify(report) : toSummary(report));
  if (junit) write(junit, toJUnit(report));
  if (hasFailed(report)) process.exitCode = FAILED;
}

function write(file: string, text: string): void {
  try {
    writeFileSync(file, text);
  } catch (error) {
    command.error(`${file} cannot be written: ${messageOf(error as Error)}`);
  }
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

/** Prints an error and sets the exit code. */
function fail(error: unknown, isJson: boolean): void {
  if (error instanceof CommanderError && error.exitCode === 0) return;
  const [code, message] = describe(error);
  process.exitCode = code;
  if (error instanceof Unreachable && error.created.length > 0 && !isJson) {
    console.log(toCreated(error.created).join('\n'));
  }
  console.error(isJson ? JSON.stringify({ error: message }) : message);
}

function describe(error: unknown): [code: number, message: string] {
  if (error instanceof Unreachable) return [UNREACHABLE, error.message];
  if (error instanceof CommanderError) return [USAGE, `${error.message.replace(/^error: /, '')}\nSee --help.`];
  if (error instanceof DocumentError) return [USAGE, error.message];
  return [FAILED, error instanceof Error ? (error.stack ?? error.message) : String(error)];
}

// The reader has gone, such as `head` that has its lines.
process.stdout.on('error', () => process.exit(FAILED));
const args = process.argv.slice(2);
await command.parseAsync(args, { from: 'user' }).catch((error) => fail(error, args.includes('--json')));
