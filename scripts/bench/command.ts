// What the benchmark commands share.

import { mkdirSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { Command, CommanderError, InvalidArgumentError, Option } from 'commander';
import { type Cleanup, withCleanup } from './processes.ts';

const FAILED = 1;
const USAGE = 2;

/** What every benchmark command has. */
export type Output = { readonly output?: string };

type Measure<O> = (options: O, cleanup: Cleanup, signal: AbortSignal) => Promise<void>;

/** Creates a command; `measure` gets what it has to stop in the end, and a signal to stop early. */
export function createCommand<O>(name: string, description: string, help: string, measure: Measure<O>): Command {
  return new Command(`npm run ${name} --`)
    .description(description)
    .exitOverride()
    .addOption(
      // npm runs in the package's folder and names the caller's in INIT_CWD.
      new Option('--output <FOLDER>', 'write the results to this folder').argParser((folder) =>
        resolve(process.env.INIT_CWD ?? '.', folder),
      ),
    )
    .addHelpText(
      'after',
      `${help}\n\nA missed goal is reported and fails nothing.\nExit codes: 0 measured; 1 failed; 2 wrong usage.`,
    )
    .action((options: O) => withCleanup((cleanup, signal) => measure(options, cleanup, signal)));
}

/** Runs a command with the arguments of this process, and sets the exit code. */
export async function runCommand(command: Command): Promise<void> {
  try {
    await command.parseAsync();
  } catch (error) {
    if (error instanceof CommanderError) process.exitCode = error.exitCode === 0 ? 0 : USAGE;
    else {
      console.error(error instanceof Error ? error.message : error);
      process.exitCode = FAILED;
    }
  }
}

/** Prints a report and, with `output`, writes it and the results behind it, which git ignores. */
export function saveResults(name: string, results: object, report: string, { output }: Output): void {
  console.log(report);
  if (!output) return;
  mkdirSync(output, { recursive: true });
  writeFileSync(join(output, `${name}.json`), `${JSON.stringify(results, null, 2)}\n`);
  writeFileSync(join(output, `${name}.md`), `${report}\n`);
  console.error(`Written to ${output}`);
}

/** Reads an option that is an integer within bounds. */
export function readInteger(min: number, max: number): (text: string) => number {
  return (text) => {
    const number = /^\d+$/.test(text) ? Number(text) : Number.NaN;
    if (number >= min && number <= max) return number;
    throw new InvalidArgumentError(`Expected an integer from ${min} to ${max}.`);
  };
}

/** Reads each value of an option with several; the first one replaces the default. */
export function readIntegers(min: number, max: number): (text: string) => readonly number[] {
  const read = readInteger(min, max);
  const values: number[] = [];
  return (text) => {
    values.push(read(text));
    return [...values];
  };
}
