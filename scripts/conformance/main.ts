// Contract tests of a deployment: npm run contract -- --help

import { writeFileSync } from 'node:fs';
import { CommanderError } from 'commander';
import type { OpenAPIV3 } from 'openapi-types';
import { messageOf } from '../../src/errors.ts';
import { DocumentError, readDocument } from '../../src/openapi/document.ts';
import { Unreachable } from './client.ts';
import { toJUnit } from './junit.ts';
import { readContract } from './operations.ts';
import { createProgram, type Options, UsageError } from './program.ts';
import { hasFailed } from './report.ts';
import { runContract } from './run.ts';
import { toCreated, toHeading, toSection, toSummary } from './text-report.ts';

const FAILED = 1;
const USAGE = 2;
const UNREACHABLE = 3;

/** The longest that the deployment may take for an answer. */
const TIMEOUT_MS = 10_000;

async function main(args: readonly string[]): Promise<void> {
  try {
    await createProgram(process.env, run).parseAsync(args, { from: 'user' });
  } catch (error) {
    process.exitCode = fail(error, args.includes('--json'));
  }
}

async function run({ operation, json: isJson = false, junit, ...options }: Options): Promise<void> {
  const document = readDocument(options.document);
  checkOperations(document, operation ?? []);
  // A file that cannot be written is better known before the run than after it.
  if (junit) write(junit, '');
  const tell = isJson ? () => {} : console.log;
  tell(toHeading(options));
  const { readOnly = false, demo = false } = options;
  const only = operation ? { only: operation } : {};
  const report = await runContract(
    { ...options, ...only, document, readOnly, demo, timeoutMs: TIMEOUT_MS },
    (section) => tell(toSection(section)),
  );
  console.log(isJson ? JSON.stringify(report) : toSummary(report));
  if (junit) write(junit, toJUnit(report));
  if (hasFailed(report)) process.exitCode = FAILED;
}

function checkOperations(document: OpenAPIV3.Document, ids: readonly string[]): void {
  const known = readContract(document).operations.map(({ id }) => id);
  const unknown = ids.find((id) => !known.includes(id));
  if (unknown) throw new UsageError(`${unknown} is no operation of the document, which has ${known.join(', ')}`);
}

function write(file: string, text: string): void {
  try {
    writeFileSync(file, text);
  } catch (error) {
    throw new UsageError(`${file} cannot be written: ${messageOf(error as Error)}`, { cause: error });
  }
}

/** Says what went wrong, on standard error, and gives the code to end with. */
function fail(error: unknown, isJson: boolean): number {
  if (error instanceof CommanderError && error.exitCode === 0) return 0;
  const [code, message] = toEnd(error);
  const created = error instanceof Unreachable ? error.created : [];
  if (created.length > 0 && !isJson) console.log(toCreated(created).join('\n'));
  console.error(isJson ? JSON.stringify({ error: message }) : message);
  return code;
}

function toEnd(error: unknown): [code: number, message: string] {
  if (error instanceof Unreachable) return [UNREACHABLE, error.message];
  if (error instanceof CommanderError) {
    return [USAGE, `${error.message.replace(/^error: /, '')}\nAdd --help to see what is expected.`];
  }
  if (error instanceof DocumentError || error instanceof UsageError) return [USAGE, error.message];
  return [FAILED, error instanceof Error ? (error.stack ?? error.message) : String(error)];
}

await main(process.argv.slice(2));
