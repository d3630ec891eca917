// The gateway as `npm start` runs it, in a process of its own, with a log of JSON.

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';

/** A line of the log. */
export type LogLine = Readonly<Record<string, unknown>>;

/** A gateway that runs. */
export type GatewayProcess = {
  readonly child: ChildProcess;
  /** Where it listens, without a path. */
  readonly origin: string;
  /** The origin of the port of the metrics, where it has one. */
  readonly managementOrigin: string;
  /** All that it has printed, of whatever form. */
  output(): string;
  errors(): string;
  /** The whole lines of its log. */
  lines(): LogLine[];
  /** Waits for a line of the log. */
  line(isWanted: (line: LogLine) => boolean): Promise<LogLine>;
  /** Ends it and gives its exit code; its output is complete then. */
  stop(signal?: NodeJS.Signals): Promise<number | null>;
};

/** The last that is printed at a start with a store that answers and has the demo data. */
const STARTED = 'Demo data: try';

/** What a test that fails has left behind ends with the tests. */
const running = new Set<ChildProcess>();
process.on('exit', () => {
  for (const child of running) child.kill('SIGKILL');
});

/**
 * Starts a gateway and waits until it has printed a text; node gets `nodeArgs`. As a group it can be sent a signal with
 * all processes that it starts, as a terminal does.
 */
export async function startProcess(
  env: Record<string, string>,
  { until = STARTED, nodeArgs = [] as string[], isGroup = false } = {},
): Promise<GatewayProcess> {
  const child = spawn(process.execPath, [...nodeArgs, 'src/start.js'], {
    env: { PATH: process.env.PATH, PORT: '0', REFUSALS_PER_MINUTE: '0', ...env },
    detached: isGroup,
  });
  let [output, errors] = ['', ''];
  child.stdout.on('data', (chunk) => {
    output += chunk;
  });
  child.stderr.on('data', (chunk) => {
    errors += chunk;
  });
  running.add(child);
  const closed = once(child, 'close').then(() => running.delete(child));
  const waitFor = async <T>(read: () => T | undefined): Promise<T> => {
    for (;;) {
      const value = read();
      if (value !== undefined) return value;
      if (child.exitCode !== null) throw new Error(`ended with ${child.exitCode}: ${output}${errors}`);
      await delay(10);
    }
  };
  await waitFor(() => (output.includes(until) ? true : undefined));
  const lines = () =>
    output
      .split('\n')
      .slice(0, -1)
      .map((line) => JSON.parse(line) as LogLine);
  return {
    child,
    origin: /Listening on (http:\/\/[^/]+)/.exec(output)?.[1] ?? '',
    managementOrigin: /Metrics: (http:\/\/[^/]+)/.exec(output)?.[1] ?? '',
    output: () => output,
    errors: () => errors,
    lines,
    line: (isWanted) => waitFor(() => lines().find(isWanted)),
    stop: async (signal = 'SIGTERM') => {
      if (child.exitCode === null && child.signalCode === null) child.kill(signal);
      await closed;
      return child.exitCode;
    },
  };
}
