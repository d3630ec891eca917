// Measures Postgres alone: pgbench calls the functions with prepared statements.

import { execFile, spawnSync } from 'node:child_process';
import { mkdtempDisposableSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { createStatementWriter } from '../../src/store/statement.ts';
import { asAdmin } from '../../test/helpers/servers.ts';
import { type Case, toCall } from './cases.ts';
import type { Answer } from './peers.ts';
import type { Generated, Load } from './wrk.ts';

/** More clients are not faster on two processors. */
const CLIENTS = 8;
/** pgbench's limit. */
const MAX_SCRIPTS = 128;

/** Whether pgbench is installed. */
export function hasPgbench(): boolean {
  return spawnSync('pgbench', ['--version']).status === 0;
}

/** Calls the function of a request once. */
export function askByPgbench(url: string, case_: Case, key: string): Promise<Answer> {
  const call = toCall(case_, key);
  const { text, values } = createStatementWriter()(call, call.returns);
  return asAdmin(url, async (db) => {
    await db.query(`set role gateway; set timezone = 'UTC'`);
    const { rows } = await db.query(text, [...values]);
    return { status: case_.status, body: JSON.parse(rows[0].json) };
  });
}

/** The gateway's statement. pgbench passes its variables as parameters; they hold only numbers, so texts are literals. */
function toScript(case_: Case, key: string): string {
  const { function: name, args } = toCall(case_, key);
  const values = Object.entries(args).map(([argument, value]) =>
    typeof value === 'number'
      ? [`\\set ${argument} ${value}`, `${argument} => :${argument}`]
      : ['', `${argument} => '${value}'`],
  );
  return `${values.map(([set]) => set).join('\n')}\nselect * from public.${name}(${values.map(([, value]) => value).join(', ')});\n`;
}

/** Calls the functions of a case's requests without HTTP. */
export async function runPgbench(
  url: string,
  case_: Case,
  keys: readonly string[],
  { connections, seconds, signal }: Load,
): Promise<Generated> {
  using folder = mkdtempDisposableSync(join(tmpdir(), 'bench-pgbench-'));
  const files = keys.slice(0, MAX_SCRIPTS).map((key, n) => {
    const file = join(folder.path, `${n}.sql`);
    writeFileSync(file, toScript(case_, key));
    return file;
  });
  const clients = Math.min(CLIENTS, connections);
  const args = [
    '--no-vacuum',
    '--protocol=prepared',
    `--client=${clients}`,
    `--time=${seconds}`,
    '--log',
    '--log-prefix=log',
  ];
  await promisify(execFile)('pgbench', [...args, ...files.flatMap((file) => ['--file', file]), url], {
    ...{ cwd: folder.path, signal },
    env: { PATH: process.env.PATH, PGOPTIONS: '-c role=gateway -c timezone=UTC' },
  });
  const logs = readdirSync(folder.path).filter((name) => name.startsWith('log.'));
  const lines = logs.flatMap((name) => readFileSync(join(folder.path, name), 'utf8').split('\n').filter(Boolean));
  // The third column is the time of the transaction, in µs.
  const sorted = Float64Array.from(lines, (line) => Number(line.split(' ', 3)[2]) / 1_000).sort();
  // Nearest-rank method.
  const percentile = (part: number) => sorted[Math.max(0, Math.ceil(sorted.length * part) - 1)] ?? Number.NaN;
  const latencies = { p50: percentile(0.5), p90: percentile(0.9), p99: percentile(0.99) };
  return { requests: sorted.length, seconds, refused: 0, failed: 0, ...latencies };
}
