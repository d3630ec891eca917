// Measures how long a gateway takes from its start to its first list: npm run bench:start

import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { type Environment, hasEnded, startScript } from './bench/child.ts';
import { type Cleanup, withCleanup } from './bench/cleanup.ts';
import { toKey } from './bench/data.ts';
import { makeFolders } from './bench/embedded.ts';
import { GATEWAY_ARGS } from './bench/gateway.ts';
import { readCpu } from './bench/process-figures.ts';
import { findPort, startPostgres } from './bench/servers.ts';
import { type Spread, toSpread } from './bench/statistics.ts';

/** How often each is started. One more start comes first: what the system reads from the disk is in memory then. */
const RUNS = 7;
const SIZE = { tenants: 1, students: 100 };
/** How often a gateway that starts is asked, in milliseconds. */
const EVERY_MS = 3;

/** A store that there is already, and the most that a start on it is to take, in milliseconds. */
type Subject = { readonly name: string; readonly goal: number; readonly env: Environment };

async function openSubjects(cleanup: Cleanup): Promise<Subject[]> {
  const postgres = await startPostgres(cleanup, SIZE);
  const [folder = ''] = await makeFolders(cleanup, SIZE, 1);
  return [
    { name: 'postgres', goal: 1_000, env: { DATABASE_URL: postgres.url('bench_gateway') } },
    { name: 'embedded', goal: 2_000, env: { DATA_DIR: folder } },
  ];
}

/** How long a start took, in milliseconds, and how long a processor was busy with it, which other programs do not add to. */
type Start = { readonly ms: number; readonly busyMs: number };

async function measure(cleanup: Cleanup, { env }: Subject): Promise<Start> {
  const port = await findPort();
  const url = `http://127.0.0.1:${port}/v1/alunos?limit=10`;
  const headers = { 'X-Api-Key': toKey(1) };
  const begun = performance.now();
  const child = startScript(cleanup, GATEWAY_ARGS, { env: { PORT: String(port), ...env } });
  while (!(await fetch(url, { headers }).catch(() => undefined))?.ok) {
    if (hasEnded(child)) throw new Error(`The gateway ended with ${child.exitCode ?? child.signalCode}`);
    await delay(EVERY_MS);
  }
  const ms = performance.now() - begun;
  const busyMs = (readCpu(child.pid ?? 0) ?? Number.NaN) / 1_000;
  const exited = once(child, 'exit');
  child.kill();
  await exited;
  return { ms, busyMs };
}

async function measureAll(cleanup: Cleanup, subject: Subject): Promise<Start[]> {
  await measure(cleanup, subject);
  const all: Start[] = [];
  for (let run = 0; run < RUNS; run += 1) all.push(await measure(cleanup, subject));
  return all;
}

function toLine({ name, goal }: Subject, starts: readonly Start[]): string {
  const none: Spread = { median: Number.NaN, min: Number.NaN, max: Number.NaN };
  const { median, min, max } = toSpread(starts.map(({ ms }) => ms)) ?? none;
  const busy = toSpread(starts.map(({ busyMs }) => busyMs)) ?? none;
  const figures = [median, min, max, busy.median, goal].map((ms) => String(Math.round(ms)).padStart(6));
  return `| ${name} | ${figures.join(' | ')} | ${(median <= goal ? 'met' : 'missed').padEnd(6)} |`;
}

async function run(cleanup: Cleanup): Promise<void> {
  const subjects = await openSubjects(cleanup);
  console.log(`Milliseconds from the start to the first list, of ${RUNS} starts:\n`);
  console.log(`| store    | median |  least |   most |   busy |   goal |        |`);
  console.log(`| -------- | -----: | -----: | -----: | -----: | -----: | ------ |`);
  for (const subject of subjects) console.log(toLine(subject, await measureAll(cleanup, subject)));
}

withCleanup(run).catch((error) => {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
});
