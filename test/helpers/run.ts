import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { expect } from 'vitest';
import { migrate } from '../../scripts/migrate.ts';
import { administer } from '../../src/admin/main.ts';
import { FILES } from '../../src/config.ts';

/** How a command ended, and what it has printed. */
export type Run = { readonly code: number; readonly output: string; readonly errors: string };

/** Expects that a command has succeeded, and returns its output. */
export function succeed({ code, output, errors }: Run): string {
  expect({ code, errors }).toEqual({ code: 0, errors: '' });
  return output;
}

/** Expects that a command with --json has failed, and returns its error with the exit code. */
export function fail({ code, output, errors }: Run) {
  expect(output).toBe('');
  return { code, ...JSON.parse(errors) };
}

export type RunOptions = { readonly env?: Record<string, string>; readonly cwd?: string; readonly input?: string };

/** The outputs of a command that runs in this process. */
type Printing = { print(text: string): void; printError(text: string): void };

/** Runs a command in this process: starting one takes longer than the work of most commands. */
export async function runInProcess(command: (printing: Printing) => Promise<number>): Promise<Run> {
  let [output, errors] = ['', ''];
  const print = (text: string) => {
    output += text;
  };
  const printError = (text: string) => {
    errors += text;
  };
  return { code: await command({ print, printError }), output, errors };
}

/** Runs `npm run admin -- …` in this process. */
export function runAdmin(args: readonly string[], env: Record<string, string>): Promise<Run> {
  return runInProcess((printing) => administer(args, { env, ...printing, note: () => {} }));
}

/** Runs `npm run migrate -- …` in this process, by default with the product's migrations. */
export function runMigrate(
  args: readonly string[],
  env: Record<string, string>,
  folder = FILES.migrations,
): Promise<Run> {
  return runInProcess(({ print, printError }) =>
    migrate(args, {
      ...{ env, folder },
      print: (line) => print(`${line}\n`),
      printError: (line) => printError(`${line}\n`),
    }),
  );
}

/** Runs a script of the repository as its npm script does, in a process of its own without the rest of the environment. */
export async function runCommand(file: string, args: readonly string[], options: RunOptions = {}): Promise<Run> {
  const { env, cwd = '.', input } = options;
  const { PATH, NODE_COMPILE_CACHE } = process.env;
  const child = spawn(process.execPath, [file, ...args], { cwd, env: { PATH, NODE_COMPILE_CACHE, ...env } });
  let [output, errors] = ['', ''];
  child.stdout.on('data', (chunk) => {
    output += chunk;
  });
  child.stderr.on('data', (chunk) => {
    errors += chunk;
  });
  if (input !== undefined) child.stdin.end(input);
  const [code] = await once(child, 'close');
  return { code, output, errors };
}
