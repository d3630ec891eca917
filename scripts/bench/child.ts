// Processes that the benchmark starts. Each ends with it.

import { type ChildProcess, type StdioOptions, spawn } from 'node:child_process';
import { once } from 'node:events';
import type { Cleanup } from './cleanup.ts';

/** The environment of a process, beside PATH. */
export type Environment = Readonly<Record<string, string>>;

/** How long a process may take to end by itself, in milliseconds. */
const STOP_MS = 5_000;

/** What a process has beside its arguments. */
export type ChildOptions = {
  readonly env?: Environment;
  /** It sends and takes messages. */
  readonly hasChannel?: boolean;
  /** What it says of itself on standard error is of no interest. */
  readonly isQuiet?: boolean;
};

/** Starts a command without its output, and ends it at the clean-up. */
export function startChild(
  cleanup: Cleanup,
  command: string,
  args: readonly string[],
  { env = {}, hasChannel = false, isQuiet = false }: ChildOptions = {},
): ChildProcess {
  // /dev/null takes a log as fast as it comes: what is measured is the cost of writing it, and no disk.
  const stdio: StdioOptions = [
    'ignore',
    'ignore',
    isQuiet ? 'ignore' : 'inherit',
    ...(hasChannel ? ['ipc' as const] : []),
  ];
  const child = spawn(command, args, { env: { PATH: process.env.PATH, ...env }, stdio });
  cleanup.add(() => stopChild(child));
  return child;
}

/** Starts a script on the Node that runs this. */
export function startScript(cleanup: Cleanup, args: readonly string[], options: ChildOptions = {}): ChildProcess {
  return startChild(cleanup, process.execPath, args, options);
}

/** Whether a process has ended, by itself or by a signal. */
export function hasEnded({ exitCode, signalCode }: ChildProcess): boolean {
  return exitCode !== null || signalCode !== null;
}

/** Waits until a process has ended well. Throws where it fails. */
export async function waitForEnd(child: ChildProcess, what: string): Promise<void> {
  const [code] = await once(child, 'exit');
  if (code !== 0) throw new Error(`${what} ended with ${code}`);
}

async function stopChild(child: ChildProcess): Promise<void> {
  if (child.pid === undefined || hasEnded(child)) return;
  const exited = once(child, 'exit');
  child.kill();
  const cut = setTimeout(() => child.kill('SIGKILL'), STOP_MS);
  await exited;
  clearTimeout(cut);
}
