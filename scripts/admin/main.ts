// Administers tenants, their keys and their data: npm run admin -- --help

import { CommanderError } from 'commander';
import { type Report, toReport, UsageError } from './errors.ts';
import { createProgram } from './program.ts';

const FAILED = 1;
const USAGE = 2;

async function main(args: readonly string[]): Promise<void> {
  const isJson = args.includes('--json');
  try {
    await createProgram(process.env).parseAsync(args, { from: 'user' });
  } catch (error) {
    process.exitCode = fail(error, isJson);
  }
}

/** Says what went wrong, on standard error, and gives the code to end with. */
function fail(error: unknown, isJson: boolean): number {
  if (error instanceof CommanderError && error.exitCode === 0) return 0;
  // The help has been printed in the place of a command that lacks.
  if (error instanceof CommanderError && error.code === 'commander.help') return USAGE;
  const isUsage = error instanceof CommanderError || error instanceof UsageError;
  const report = isUsage ? toUsageReport(error) : toReport(error);
  if (isJson) console.error(JSON.stringify(report ?? { error: String(error) }));
  else console.error(report ? toText(report) : error);
  return isUsage ? USAGE : FAILED;
}

function toUsageReport({ message }: Error): Report {
  return { error: message.replace(/^error: /, ''), hint: 'Add --help to see what is expected.' };
}

function toText({ error, hint, lines = [] }: Report): string {
  const bad = lines.map(({ line, field, message }) => `line ${line}: ${field === null ? '' : `${field} `}${message}`);
  return [...bad, error, ...(hint ? [hint] : [])].join('\n');
}

await main(process.argv.slice(2));
