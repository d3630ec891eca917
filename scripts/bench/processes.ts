// The processes and folders of a benchmark run. All are gone when the run ends, fails or is interrupted.

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';

/** What a run has to stop, last started first. Adding to it throws after the run, so add before you start. */
export type Cleanup = AsyncDisposableStack;

/** Environment variables of a process, besides PATH. */
export type Environment = Readonly<Record<string, string>>;

const ROOT = join(import.meta.dirname, '../..');
/** How long a process may take to stop before it is killed, in ms. */
const STOP_MS = 5_000;

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

/** Starts a program whose standard output is discarded. With `ipc` it exchanges messages with this process. */
export function startProcess(
  cleanup: Cleanup,
  command: string,
  args: readonly string[],
  env: Environment,
  options: { readonly ipc?: boolean; readonly quiet?: boolean } = {},
): ChildProcess {
  let child: ChildProcess | undefined;
  cleanup.defer(() => child && stop(child));
  // /dev/null: the benchmark measures the cost of writing a log, not of a disk.
  child = spawn(command, args, {
    env: { PATH: process.env.PATH, ...env },
    stdio: ['ignore', 'ignore', options.quiet ? 'ignore' : 'inherit', ...(options.ipc ? (['ipc'] as const) : [])],
  });
  return child;
}

/** Starts a script with this Node. */
export function startScript(cleanup: Cleanup, args: readonly string[], env: Environment = {}, ipc = false) {
  return startProcess(cleanup, process.execPath, args, env, { ipc });
}

/** Starts the gateway with the arguments of `npm start` and waits until it is ready. */
export async function startGateway(cleanup: Cleanup, env: Environment) {
  const { scripts } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'));
  const args = String(scripts.start)
    .replace(/^exec node /, '')
    .split(' ');
  const port = await findPort();
  const main = join(ROOT, args.pop() ?? '');
  const child = startScript(cleanup, [...args, main], {
    ...{ NODE_ENV: 'production', LOG_FORMAT: 'json', DRAIN_MS: '0', PORT: `${port}` },
    ...env,
  });
  const origin = `http://127.0.0.1:${port}`;
  await waitForAnswer(`${origin}/readyz`, child);
  return { origin, pid: child.pid ?? 0 };
}

async function stop(child: ChildProcess): Promise<void> {
  if (child.pid === undefined || hasEnded(child)) return;
  const exited = once(child, 'exit');
  child.kill();
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
  cleanup.defer(() => rmSync(folder, { recursive: true, force: true }));
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
