// The embedded store's starts, and what its durability costs: npm run bench:embedded
// It starts the gateway on a new folder, again, and after it was killed, each up to the first answer. Then it creates students and
// lists them, with and without FSYNC, in turns with the disk's own fdatasync.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, cpSync, fdatasyncSync, openSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { openEmbedded } from '../../src/store/embedded/store.ts';
import type { Call, Store } from '../../src/store/store.ts';
import { type Cleanup, createFolder, withCleanup } from './processes.ts';
import { toMarkdown, toMilliseconds } from './report.ts';
import { toPercentiles } from './statistics.ts';

const ROOT = join(import.meta.dirname, '../..');
const MIGRATIONS = join(ROOT, 'supabase/migrations');
const PAGE = Buffer.alloc(8_192, 1);
/** Creations of each kind. */
const ROUNDS = 1_000;

/** What is measured, in ms, and the goal where there is one. */
type Row = { readonly name: string; readonly p50: number; readonly p99?: number; readonly goal?: number };

/** From the start of the process to its first list of records. */
async function measureStart(dataDir: string, end: NodeJS.Signals): Promise<number> {
  const env = { PATH: process.env.PATH, DATA_DIR: dataDir, PORT: '0', DRAIN_MS: '0' };
  const begin = performance.now();
  const gateway = spawn(process.execPath, ['src/start.js'], { cwd: ROOT, env, stdio: ['ignore', 'pipe', 'inherit'] });
  let output = '';
  let origin: string | undefined;
  for await (const chunk of gateway.stdout) {
    output += chunk;
    origin = /Listening on (http:\/\/[^/]+)/.exec(output)?.[1];
    if (origin) break;
  }
  const answer = await fetch(`${origin}/v1/alunos?limit=10`, { headers: { 'X-Api-Key': 'wms_demo_aurora' } });
  await answer.text();
  const duration = performance.now() - begin;
  gateway.kill(end);
  if (gateway.exitCode === null && gateway.signalCode === null) await once(gateway, 'exit');
  return duration;
}

const never = new AbortController().signal;
const callOf = (name: string, args: Call['args'], returns: Call['returns']): Call => ({
  function: name,
  args: { p_api_key: 'wms_demo_aurora', ...args },
  returns,
  readOnly: returns === 'rows',
});
const LIST = callOf('listar_alunos', { p_limit: 10 }, 'rows');
const CREATE = callOf('criar_aluno', { p_nome: 'Ana', p_email: 'ana@aurora.example' }, 'row');

async function time(work: () => unknown): Promise<number> {
  const begin = performance.now();
  await work();
  return performance.now() - begin;
}

async function measureCall(store: Store, call: Call): Promise<number> {
  return time(async () => {
    const result = await store.call(call, never);
    if ('failure' in result) throw new Error(`The store refuses ${call.function}`, { cause: result.failure });
  });
}

function toRow(name: string, times: readonly number[], goal?: number): Row {
  const sorted = Float64Array.from(times).sort();
  const figures = { name, ...toPercentiles(sorted) };
  return goal === undefined ? figures : { ...figures, goal };
}

async function measure(cleanup: Cleanup): Promise<void> {
  const folder = createFolder(cleanup, 'embedded');
  const dataDir = join(folder, 'store');
  const fresh = await measureStart(dataDir, 'SIGTERM');
  const later: number[] = [];
  const killed: number[] = [];
  for (let n = 0; n < 5; n += 1) later.push(await measureStart(dataDir, n < 4 ? 'SIGTERM' : 'SIGKILL'));
  for (let n = 0; n < 5; n += 1) killed.push(await measureStart(dataDir, 'SIGKILL'));

  const unsafe = join(folder, 'unsafe');
  cpSync(dataDir, unsafe, { recursive: true });
  const open = (dataDir: string, fsync: boolean) =>
    openEmbedded({ dataDir, fsync, migrationsDir: MIGRATIONS, statementLimitMs: 60_000 });
  const stores = [await open(dataDir, true), await open(unsafe, false)] as const;
  const file = openSync(join(folder, 'page'), 'w');
  const times = { disk: [] as number[], durable: [] as number[], unsafe: [] as number[], list: [] as number[] };
  // In turns, so that a busy moment of the machine meets all.
  for (let n = 0; n < ROUNDS; n += 1) {
    writeSync(file, PAGE, 0, PAGE.length, (n % 100) * PAGE.length);
    times.disk.push(await time(() => fdatasyncSync(file)));
    times.durable.push(await measureCall(stores[0], CREATE));
    times.unsafe.push(await measureCall(stores[1], CREATE));
    times.list.push(await measureCall(stores[0], LIST));
  }
  closeSync(file);
  for (const store of stores) await store.close();

  const disk = toRow('fdatasync of the disk', times.disk);
  const rows = [
    toRow('first answer in a new folder', [fresh], 3_000),
    toRow('first answer at a later start', later, 1_000),
    toRow('first answer after SIGKILL', killed, 1_000),
    disk,
    toRow('a creation', times.durable, disk.p50 + 1),
    toRow('a creation with FSYNC=off', times.unsafe),
    toRow('a list of 10', times.list),
  ];
  const table = rows.map(({ name, p50, p99, goal }) => [
    name,
    ...[p50, p99, goal].map(toMilliseconds),
    goal === undefined ? '' : p50 <= goal ? 'met' : 'missed',
  ]);
  console.log(toMarkdown(['ms', 'p50', 'p99', 'goal for p50', ''], table));
}

await withCleanup(measure);
