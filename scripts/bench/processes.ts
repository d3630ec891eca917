// The processes and folders of a benchmark run. All are gone when the run ends, fails or is interrupted.

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';

/** What a run has to stop, last started first. Adding to it throws after the run, so add before you start. */
export type Cleanup = AsyncDisposableStack;

/** Environment variables of a process, besides PATH. */
export type Environment = Readonly<Record<string, string>>;

const ROOT = join(import.meta.dirname, '../..');
/** How long a process may take to stop before it is killed, in ms: the gateway gives its Postgres 5 s. */
const STOP_MS = 10_000;

/** Runs a benchmark and stops what it started; SIGINT and SIGTERM fail it at once. */
export async function withCleanup<T>(work: (cleanup: Cleanup, signal: AbortSignal) => Promise<T>): Promise<T> {
  await using cleanup = new AsyncDisposableStack();
  const { signal, abort } = createInterrupt();
  process.on('SIGINT', abort).on('SIGTERM', abort);
  const working = work(cleanup, signal);
  // After an interrupt it fails too, because its servers are gone.
  working.catch(() => {});
  const interrupted = once(signal, 'abort').then(() => signal.throwIfAborted());
  return (await Promise.race([working, interrupted])) as T;
}

function createInterrupt(): { signal: AbortSignal; abort: () => void } {
  const controller = new AbortController();
  return { signal: controller.signal, abort: () => controller.abort(new Error('Interrupted')) };
}

/** Starts a program whose standard output is discarded, and with `quiet` its standard error too. */
export function startProcess(
  cleanup: Cleanup,
  command: string,
  args: readonly string[],
  env: Environment,
  { quiet = false, cwd = ROOT }: { readonly quiet?: boolean; readonly cwd?: string } = {},
): ChildProcess {
  let child: ChildProcess | undefined;
  cleanup.defer(() => child && stop(child));
  // /dev/null: the benchmark measures the cost of writing a log, not of a disk.
  child = spawn(command, args, {
    ...{ cwd, env: { PATH: process.env.PATH, ...env } },
    stdio: ['ignore', 'ignore', quiet ? 'ignore' : 'inherit'],
  });
  return child;
}

/** Starts the gateway of a repository, by default this one, as `npm start` does, and waits until it is ready. */
export async function startGateway(cleanup: Cleanup, env: Environment, root = ROOT) {
  const { scripts } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  const args = String(scripts.start)
    .replace(/^exec node /, '')
    .split(' ');
  const port = await findPort();
  const settings = { NODE_ENV: 'production', DRAIN_MS: '0', PORT: `${port}`, ...env };
  const child = startProcess(cleanup, process.execPath, args, settings, { cwd: root });
  const origin = `http://127.0.0.1:${port}`;
  await waitForAnswer(`${origin}/readyz`, child);
  return { origin, pid: child.pid ?? 0, stop: (signal: NodeJS.Signals) => stop(child, signal) };
}

async function stop(child: ChildProcess, signal: NodeJS.Signals = 'SIGTERM'): Promise<void> {
  if (child.pid === undefined || hasEnded(child)) return;
  const exited = once(child, 'exit');
  child.kill(signal);
  const timer = setTimeout(() => child.kill('SIGKILL'), STOP_MS);
  await exited;
  clearTimeout(timer);
}

function hasEnded({ exitCode, signalCode }: ChildProcess): boolean {
  return exitCode !== null || signalCode !== null;
}

/** Waits until a server that was started is ready. Throws if its process ends first. */
export async function untilReady(child: ChildProcess, isReady: () => Promise<boolean>): Promise<void> {
  while (!(await isReady().catch(() => false))) {
    if (hasEnded(child))
      throw new Error(`${child.spawnargs.join(' ')} ended with ${child.exitCode ?? child.signalCode}`);
    await delay(20);
  }
}

/** Waits until a server answers, even with an error other than 503. Throws if its process ends first. */
export function waitForAnswer(url: string, child: ChildProcess, headers: Environment = {}): Promise<void> {
  // PostgREST and the gateway answer 503 until they are ready.
  return untilReady(child, async () => (await fetch(url, { headers })).status !== 503);
}

/** Creates a temporary folder. */
export function createFolder(cleanup: Cleanup, name: string): string {
  const folder = mkdtempSync(join(tmpdir(), `bench-${name}-`));
  // The Postgres of a gateway that was interrupted works in it for a moment. rmSync leaves the rest when a file goes by itself.
  cleanup.defer(() => rm(folder, { recursive: true, force: true, maxRetries: 10 }));
  return folder;
}

/** Finds a port that nobody listens on now. */
export async function findPort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as { port: number };
  server.close();
  await once(server, 'close');
  return port;
}
