// The gateway, and other servers, in processes of their own.

import { type ChildProcess, type StdioOptions, spawn } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as delay } from 'node:timers/promises';

/** Environment variables; those that are undefined are not set. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** A line of the log. */
export type LogLine = Readonly<Record<string, unknown>>;

type ProcessOptions = {
  /** A command that runs the command after it. */
  readonly launcher?: readonly string[];
  readonly nodeArgs?: readonly string[];
  readonly args?: readonly string[];
  readonly cwd?: string;
  readonly stdio?: StdioOptions;
  /** Makes the process lead a group, so that one signal reaches its workers too, as in a terminal. */
  readonly isGroup?: boolean;
  /** Whether `output` and `printed` have the log's messages, each with its level, instead of JSON. */
  readonly isText?: boolean;
};

/** Processes that a failed test may leave behind; they end with the tests. */
const running = new Set<ChildProcess>();
process.on('exit', () => killAll());

/** Kills every process that still runs. */
export function killAll(): void {
  for (const child of running) child.kill('SIGKILL');
}

/** The arguments of Node in `npm start` of a repository, before the file. */
export function readNodeArgs(root = '.'): string[] {
  const { start } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')).scripts;
  return start.split(' ').slice(2, -1);
}

/** Starts the gateway of a repository as in production, without its output, and waits until it is ready. */
export async function startProduction(env: Environment, root = '.', nodeArgs: readonly string[] = []) {
  const port = await findPort();
  const gateway = new GatewayProcess(
    { NODE_ENV: 'production', NODE_COMPILE_CACHE: undefined, PORT: `${port}`, ...env },
    // /dev/null: a benchmark measures the cost of writing a log, not of a disk.
    { nodeArgs: [...readNodeArgs(root), ...nodeArgs], cwd: root, stdio: ['ignore', 'ignore', 'inherit'] },
  );
  const origin = `http://127.0.0.1:${port}`;
  await waitForAnswer(`${origin}/readyz`, gateway.child);
  return { origin, pid: gateway.child.pid ?? 0, stop: (signal?: NodeJS.Signals) => gateway.stop(signal) };
}

/** Starts a gateway and waits until it listens. */
export async function startProcess(env: Environment, options?: ProcessOptions): Promise<GatewayProcess> {
  const gateway = new GatewayProcess(env, options);
  await gateway.printed(/Listening on .*\n/);
  return gateway;
}

function toText(line: string): string {
  const { level, msg }: LogLine = JSON.parse(line);
  return `${String(level).toUpperCase()}: ${msg}\n`;
}

/** A gateway that was started and may not listen yet. */
export class GatewayProcess {
  readonly child: ChildProcess;
  /** Fulfilled with the exit code when the process has ended and its output is complete. */
  readonly ended: Promise<number | null>;
  #output = '';
  #errors = '';
  #hasEnded = false;
  /** The checks of all calls that wait for output. */
  readonly #waiting = new Set<() => void>();

  constructor(env: Environment, options: ProcessOptions = {}) {
    const { launcher = [], nodeArgs = [], args = [], cwd, stdio = 'pipe', isGroup = false, isText } = options;
    const [command = '', ...rest] = [...launcher, process.execPath, ...nodeArgs, 'src/start.js', ...args];
    const { PATH, NODE_COMPILE_CACHE } = process.env;
    this.child = spawn(command, rest, {
      env: { PATH, NODE_COMPILE_CACHE, PORT: '0', REFUSALS_PER_MINUTE: '0', DRAIN_MS: '0', ...env },
      cwd,
      stdio,
      detached: isGroup,
    });
    const add = (text: string) => {
      this.#output += text;
      this.#check();
    };
    if (isText && this.child.stdout) createInterface(this.child.stdout).on('line', (line) => add(toText(line)));
    else this.child.stdout?.on('data', add);
    this.child.stderr?.on('data', (chunk) => {
      this.#errors += chunk;
    });
    running.add(this.child);
    this.ended = once(this.child, 'close').then(([code]) => {
      running.delete(this.child);
      this.#hasEnded = true;
      this.#check();
      return code;
    });
  }

  /** The origin of the API. */
  get origin(): string {
    return /Listening on (http:\/\/[^/]+)/.exec(this.#output)?.[1] ?? '';
  }

  /** The origin of the metrics, if they have a port of their own. */
  get managementOrigin(): string {
    return /Metrics: (http:\/\/[^/]+)/.exec(this.#output)?.[1] ?? '';
  }

  output(): string {
    return this.#output;
  }

  errors(): string {
    return this.#errors;
  }

  /** The complete lines of a log of JSON. */
  lines(): LogLine[] {
    const lines = this.#output.split('\n').slice(0, -1);
    return lines.map((line) => JSON.parse(line));
  }

  /** Waits for a line of the log. */
  line(isWanted: (line: LogLine) => boolean): Promise<LogLine> {
    return this.#waitFor(() => this.lines().find(isWanted));
  }

  /** Waits until the output contains a text, at or after an index. */
  printed(text: string | RegExp, from = 0): Promise<string> {
    return this.#waitFor(() => {
      const output = this.#output.slice(from);
      return (typeof text === 'string' ? output.includes(text) : text.test(output)) ? output : undefined;
    });
  }

  /** Sends a signal and returns the exit code. */
  stop(signal: NodeJS.Signals = 'SIGTERM'): Promise<number | null> {
    this.child.kill(signal);
    return this.ended;
  }

  #check(): void {
    for (const check of this.#waiting) check();
  }

  #waitFor<T>(read: () => T | undefined): Promise<T> {
    return new Promise((resolve, reject) => {
      const check = () => {
        const value = read();
        if (value !== undefined) resolve(value);
        else if (this.#hasEnded) reject(new Error(`The process has ended: ${this.#output}${this.#errors}`));
        else return;
        this.#waiting.delete(check);
      };
      this.#waiting.add(check);
      check();
    });
  }
}

/** Ends a process, unless it has ended. */
export async function endProcess(child: ChildProcess, signal?: NodeJS.Signals): Promise<void> {
  if (child.kill(signal)) await once(child, 'exit');
}

/** Waits until a server that was started is ready. Throws if its process ends first. */
export async function untilReady(child: ChildProcess, isReady: () => Promise<boolean>): Promise<void> {
  while (!(await isReady().catch(() => false))) {
    const end = child.exitCode ?? child.signalCode;
    if (end !== null) throw new Error(`${child.spawnargs.join(' ')} ended with ${end}`);
    await delay(20);
  }
}

/** Waits until a server answers, even with an error other than 503. Throws if its process ends first. */
export function waitForAnswer(url: string, child: ChildProcess, headers: Record<string, string> = {}): Promise<void> {
  // PostgREST and the gateway answer 503 until they are ready.
  return untilReady(child, async () => (await fetch(url, { headers })).status !== 503);
}

/** Finds a port that nobody listens on. The system gives none of this range to others, so the port stays free. */
export async function findPort(): Promise<number> {
  const port = randomInt(10_000, 32_768);
  const server = createServer().listen(port, '127.0.0.1');
  try {
    await once(server, 'listening');
  } catch {
    return findPort();
  }
  server.close();
  await once(server, 'close');
  return port;
}
