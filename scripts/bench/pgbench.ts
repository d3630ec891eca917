// Postgres alone: the functions called by pgbench, with prepared statements.

import { execFile, spawnSync } from 'node:child_process';
import { mkdtempDisposableSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { createStatementWriter } from '../../src/store/statement.ts';
import { type Case, toCall } from './cases.ts';
import { type Answer, type Peer, TITLES } from './peer.ts';
import { type Postgres, withClient } from './servers.ts';
import { toPercentiles } from './statistics.ts';
import type { Generated, Load } from './wrk.ts';

/** More clients than these are not faster on two processors. */
const CLIENTS = 8;
/** pgbench takes no more scripts. */
const MAX_SCRIPTS = 128;

/** Whether pgbench is installed. */
export function hasPgbench(): boolean {
  return spawnSync('pgbench', ['--version']).status === 0;
}

/** Creates the peer that calls the functions without HTTP. */
export function createPgbenchPeer(postgres: Postgres): Peer {
  const url = postgres.url('bench_gateway');
  return {
    ...{ id: 'pgbench', title: TITLES.pgbench, pid: 0 },
    ask: (case_, key) => ask(url, case_, key),
    load: (case_, keys, load) =>
      run(
        url,
        keys.slice(0, MAX_SCRIPTS).map((key) => toScript(case_, key)),
        load,
      ),
  };
}

function ask(url: string, case_: Case, key: string): Promise<Answer> {
  const call = toCall(case_, key);
  const { text, values } = createStatementWriter()(call, call.returns);
  return withClient(url, async (db) => {
    await db.query(`set role gateway; set timezone = 'UTC'`);
    const { rows } = await db.query(text, [...values]);
    return { status: case_.status, body: JSON.parse(rows[0].json) };
  });
}

/** The statement that the gateway sends; pgbench makes parameters of its variables, and the key has none. */
function toScript(case_: Case, key: string): string {
  const { function: name, args } = toCall(case_, key);
  const values = Object.entries(args).map(([argument, value]) =>
    typeof value === 'number'
      ? [`\\set ${argument} ${value}`, `${argument} => :${argument}`]
      : ['', `${argument} => '${value}'`],
  );
  return `${values.map(([set]) => set).join('\n')}\nselect * from public.${name}(${values.map(([, value]) => value).join(', ')});\n`;
}

async function run(
  url: string,
  scripts: readonly string[],
  { connections, seconds, signal }: Load,
): Promise<Generated> {
  using folder = mkdtempDisposableSync(join(tmpdir(), 'bench-pgbench-'));
  const files = scripts.map((script, n) => {
    const file = join(folder.path, `${n}.sql`);
    writeFileSync(file, script);
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
  return {
    ...{ requests: sorted.length, seconds, refused: 0, failed: 0 },
    ...toPercentiles(sorted),
  };
}
