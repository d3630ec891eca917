// Generates load with wrk: a Lua script sends the requests in turn and prints the results as JSON.

import { execFile, spawnSync } from 'node:child_process';
import { mkdtempDisposableSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { HttpRequest } from './cases.ts';

/** A load, which the signal can end early. */
export type Load = {
  readonly connections: number;
  readonly seconds: number;
  readonly signal: AbortSignal;
  /** Timeout of a request in seconds; 2 by default. */
  readonly timeout?: number;
};

/** The results of a load, with latencies in ms. */
export type Generated = {
  readonly requests: number;
  readonly seconds: number;
  readonly p50: number;
  readonly p90: number;
  readonly p99: number;
  /** Answers with status 400 or above. */
  readonly refused: number;
  /** Requests without an answer. */
  readonly failed: number;
};

const MARK = 'figures: ';

const SCRIPT = `
local next = 0
function request()
  next = next % #requests + 1
  return requests[next]
end
function done(summary, latency)
  local errors = summary.errors
  io.write(string.format(
    '${MARK}{"requests":%d,"seconds":%f,"p50":%f,"p90":%f,"p99":%f,"refused":%d,"failed":%d}\\n',
    summary.requests, summary.duration / 1e6,
    latency:percentile(50) / 1e3, latency:percentile(90) / 1e3, latency:percentile(99) / 1e3,
    errors.status, errors.connect + errors.read + errors.write + errors.timeout
  ))
end
`;

/** The name and version of the installed wrk; undefined without one. */
export function findWrk(): string | undefined {
  // wrk prints its version only together with its usage, and exits with 1.
  const { stdout } = spawnSync('wrk', ['--version'], { encoding: 'utf8' });
  return stdout ? `wrk ${/^wrk (?:\S*\/)?(\d[^\s-]*)/.exec(stdout)?.[1] ?? '(unknown version)'}` : undefined;
}

/** The name and version of the installed wrk. Throws without one. */
export function requireWrk(): string {
  const wrk = findWrk();
  if (wrk) return wrk;
  throw new Error('wrk is not installed. Debian, Ubuntu: apt-get install wrk; macOS: brew install wrk');
}

/** Sends requests to an origin. */
export async function runWrk(origin: string, requests: readonly HttpRequest[], load: Load): Promise<Generated> {
  const { connections, seconds, signal, timeout = 2 } = load;
  using folder = mkdtempDisposableSync(join(tmpdir(), 'bench-wrk-'));
  const script = join(folder.path, 'wrk.lua');
  writeFileSync(script, toScript(requests));
  // A second thread would compete with the measured process.
  const args = ['--threads', '1', '--connections', `${connections}`, '--duration', `${seconds}s`];
  const more = ['--timeout', `${timeout}s`, '--script', script];
  const { stdout } = await promisify(execFile)('wrk', [...args, ...more, origin], { signal });
  return parseWrk(stdout);
}

/** Writes the script for requests. A JSON string without control characters is also a Lua string. */
export function toScript(requests: readonly HttpRequest[]): string {
  const calls = requests.map(({ method, path, headers, body }) => {
    const named = Object.entries(headers).map(([name, value]) => `[${JSON.stringify(name)}]=${JSON.stringify(value)}`);
    return `  wrk.format("${method}", ${JSON.stringify(path)}, {${named}}, ${body ? JSON.stringify(body) : 'nil'})`;
  });
  // Before init() wrk does not know the host.
  return `function init()\nrequests = {\n${calls.join(',\n')}\n}\nend\n${SCRIPT}`;
}

/** Parses the output of the script. */
export function parseWrk(output: string): Generated {
  const figures = output.split(MARK)[1];
  if (!figures) throw new Error(`wrk printed no figures: ${output}`);
  return JSON.parse(figures);
}
