// wrk, where it is installed: a script in Lua gives it the requests in turn, and prints its figures as JSON.

import { spawn, spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type HttpRequest, toWire } from './cases.ts';
import type { Generated, Load } from './generator.ts';
import { readOutput } from './output.ts';

/** The version of the wrk that is installed; undefined where none is. */
export function findWrk(): string | undefined {
  // It has no option that gives the version alone, and fails for that it lacks a URL.
  const { stdout } = spawnSync('wrk', ['--version'], { encoding: 'utf8' });
  return stdout ? (/^wrk (?:\S*\/)?(\d[^\s-]*)/.exec(stdout)?.[1] ?? 'of an unknown version') : undefined;
}

const MARK = 'figures: ';

/** wrk runs it on one thread: a second one would take its processor from what is measured. */
const SCRIPT = `
local next = 0
function request()
  next = next % #requests + 1
  return requests[next]
end
function done(summary, latency)
  local errors = summary.errors
  io.write(string.format(
    '${MARK}{"requests":%d,"seconds":%f,"p50":%f,"p99":%f,"refused":%d,"failed":%d}\\n',
    summary.requests, summary.duration / 1e6, latency:percentile(50) / 1e3, latency:percentile(99) / 1e3,
    errors.status, errors.connect + errors.read + errors.write + errors.timeout
  ))
end
`;

/** Sends requests to an origin with so many connections for whole seconds. */
export async function runWrk(
  folder: string,
  origin: string,
  requests: readonly HttpRequest[],
  { connections, seconds, signal, depth }: Load,
): Promise<Generated> {
  const script = join(folder, 'wrk.lua');
  writeFileSync(script, toScript(new URL(origin).host, requests, depth));
  const args = ['--threads', '1', '--connections', `${connections}`, '--duration', `${seconds}s`, '--script', script];
  return parseWrk(await readOutput(spawn('wrk', [...args, origin], { signal })));
}

/** The script for the requests, each as it goes over the wire, so many times at once. */
export function toScript(host: string, requests: readonly HttpRequest[], depth = 1): string {
  const lines = requests.map((request) => `  ${quote(toWire(host, request).repeat(depth))},`);
  return `requests = {\n${lines.join('\n')}\n}\n${SCRIPT}`;
}

/** What the script prints at the end; wrk counts a status of 400 and above as refused. */
export function parseWrk(output: string): Generated {
  const figures = output.split(MARK)[1];
  if (!figures) throw new Error(`wrk has not told its figures: ${output}`);
  return JSON.parse(figures);
}

/** A text of ASCII as Lua writes it. */
function quote(text: string): string {
  return `"${text.replace(/["\\]/g, '\\$&').replaceAll('\r', '\\r').replaceAll('\n', '\\n')}"`;
}
