// Tests whether a deployment answers as openapi.yaml says: npm run contract -- --help

import { randomInt } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { Command, CommanderError, InvalidArgumentError, Option } from 'commander';
import { matching, readInteger, toPath } from '../../src/admin/arguments.ts';
import { messageOf } from '../../src/errors.ts';
import { DocumentError, readDocument } from '../../src/openapi/document.ts';
import { type Created, Unreachable } from './client.ts';
import { readContract } from './contract.ts';
import { hasFailed, type Report, toCreated, toHeading, toJUnit, toSection, toSummary } from './report.ts';
import { type RunOptions, runContract } from './run.ts';

type Options = Omit<RunOptions, 'contract' | 'timeoutMs' | 'only' | 'signal'> & {
  readonly document: string;
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

Exit codes: 0 all passed; 1 something failed; 2 wrong usage; 3 the deployment cannot be reached;
130 interrupted.`;

const PASSED = 0;
const FAILED = 1;
const USAGE = 2;
const UNREACHABLE = 3;
/** The exit code of shells after SIGINT. */
const INTERRUPTED = 130;

const MAX_SEED = 2 ** 31 - 1;
/** Maximum time for an answer. */
const TIMEOUT_MS = 10_000;

/** Where the command prints, its report and its errors. */
type Printing = { print(text: string): void; printError(text: string): void };

/** Runs the command until it ends or the signal is aborted. Returns the exit code. */
export async function testContract(
  args: readonly string[],
  { print, printError }: Printing,
  signal?: AbortSignal,
): Promise<number> {
  const isJson = args.includes('--json');
  const fail = (error: unknown, created: Created = []) => {
    const [exitCode, message] = describe(error);
    if (created.length > 0 && !isJson) print(`${toCreated(created).join('\n')}\n`);
    printError(`${isJson ? JSON.stringify({ error: message, ...(created.length > 0 && { created }) }) : message}\n`);
    return exitCode;
  };
  try {
    // `fail` prints an error, with --json as JSON.
    const command = createCommand().configureOutput({ writeOut: print, outputError: () => {} });
    const report = await run(command.parse(args, { from: 'user' }), (text) => print(`${text}\n`), signal);
    if (report.stopped) return fail(report.stopped, report.created);
    return hasFailed(report) ? FAILED : PASSED;
  } catch (error) {
    return error instanceof CommanderError && error.exitCode === 0 ? PASSED : fail(error);
  }
}

function createCommand(): Command {
  return new Command('npm run contract --')
    .description('Tests whether a deployment answers as openapi.yaml says.')
    .exitOverride()
    .requiredOption(
      '--url <URL>',
      'the URL before the paths of the document, such as http://127.0.0.1:3000/v1',
      readUrl,
    )
    .addOption(keyOption('API_KEY', '--key', 'the API key; reports do not show it').makeOptionMandatory())
    .addOption(
      keyOption('OTHER_KEY', '--other-key', "another tenant's key, which must see and touch nothing of this one's"),
    )
    .addOption(keyOption('READ_KEY', '--read-key', 'a key that may only read'))
    .addOption(keyOption('LIMITED_KEY', '--limited-key', 'a key over its limit'))
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
    .addHelpText('after', HELP);
}

function keyOption(variable: string, name: string, description: string): Option {
  return new Option(`${name} <KEY>`, description)
    .env(variable)
    .argParser(matching(/^[!-~]+$/, 'visible ASCII characters'));
}

/** Runs the checks, and prints and writes their report. */
async function run(command: Command, print: (text: string) => void, signal?: AbortSignal): Promise<Report> {
  const { operation: only, json: isJson = false, junit, document, ...options } = command.opts<Options>();
  const contract = await readContract(readDocument(document));
  const known = contract.operations.map(({ id }) => id);
  const unknown = only?.find((id) => !known.includes(id));
  if (unknown !== undefined)
    command.error(`'${unknown}' is not an operation of the document, which has ${known.join(', ')}`);
  // A file that cannot be written should fail before the run. The report of an earlier run stays until this one ends.
  if (junit) write(command, junit, '', 'a');
  if (!isJson) print(toHeading(options));
  const report = await runContract({ ...options, contract, only, signal, timeoutMs: TIMEOUT_MS }, (section) => {
    if (!isJson) print(toSection(section));
  });
  if (!report.stopped) print(isJson ? JSON.stringify(report) : toSummary(report));
  if (junit) write(command, junit, toJUnit(report));
  return report;
}

function write(command: Command, file: string, text: string, flag = 'w'): void {
  try {
    writeFileSync(file, text, { flag });
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

/** The exit code and the message of an error. */
function describe(error: unknown): [code: number, message: string] {
  if (error instanceof Unreachable) return [UNREACHABLE, error.message];
  if (error instanceof CommanderError) return [USAGE, `${error.message.replace(/^error: /, '')}\nSee --help.`];
  if (error instanceof DocumentError) return [USAGE, error.message];
  return [FAILED, error instanceof Error ? (error.stack ?? error.message) : String(error)];
}

if (import.meta.main) {
  // The reader of the output has gone, such as `head` after its last line.
  process.stdout.on('error', () => process.exit(FAILED));
  const print = (text: string) => process.stdout.write(text);
  const printError = (text: string) => process.stderr.write(text);
  // After the first SIGINT the created records are still listed. The second one ends the process at once.
  const interruption = new AbortController();
  process.once('SIGINT', () => interruption.abort());
  const code = await testContract(process.argv.slice(2), { print, printError }, interruption.signal);
  process.exitCode = interruption.signal.aborted ? INTERRUPTED : code;
}
