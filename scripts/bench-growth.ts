// Measures what becomes slower as a tenant grows: npm run bench:growth -- --help

import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import pg from 'pg';
import { startScript } from './bench/child.ts';
import { type Cleanup, withCleanup } from './bench/cleanup.ts';
import { GATEWAY_ARGS } from './bench/gateway.ts';
import { CASES } from './bench/growth/cases.ts';
import { growTo, type Stage } from './bench/growth/data.ts';
import { measureAll } from './bench/growth/measure.ts';
import { createProgram, type Options, WHOLE } from './bench/growth/program.ts';
import { GOAL, type Results, toReport } from './bench/growth/report.ts';
import { readMachine, readVersions } from './bench/machine.ts';
import { runProgram } from './bench/program.ts';
import { writeResults } from './bench/results.ts';
import { findPort, type Postgres, startPostgres, waitForAnswer } from './bench/servers.ts';

const STORED = join(import.meta.dirname, 'bench/results');

/** How many students each of the other tenants has. */
const STUDENTS = 500;

/** The database that has the other tenants alone. */
const TEMPLATE = 'postgres';

const SUPERUSER = 'postgres';
const GATEWAY = 'bench_gateway';

async function measure(options: Options, cleanup: Cleanup, signal: AbortSignal): Promise<Results> {
  const { sizes, others, requests, only } = options;
  const cases = CASES.filter(({ id }) => only?.includes(id) ?? true);
  console.error(`Loading ${others} tenants with ${STUDENTS} students each`);
  const postgres = await startPostgres(cleanup, { tenants: others, students: STUDENTS });
  const stages = sizes.map((students, step) => ({ tenant: others + 1, students, step }));
  for (const { step, students } of stages) {
    signal.throwIfAborted();
    console.error(`Growing to ${students} students`);
    await makeDatabase(postgres, stages, step);
  }
  const worlds = await Promise.all(
    stages.map(async (stage) => ({ stage, origin: await startGateway(cleanup, toUrl(postgres, GATEWAY, stage.step)) })),
  );
  console.error(`Measuring ${cases.length} cases`);
  const measurements = await measureAll(worlds, cases, requests, signal);
  const date = new Date().toISOString().slice(0, 10);
  const circumstances = { date, machine: readMachine(), versions: readVersions(postgres.version) };
  return { ...circumstances, others, sizes, requests, goal: GOAL, measurements };
}

/** Makes the database of a size out of the one before it: then all sizes can be measured at the same time. */
async function makeDatabase(postgres: Postgres, stages: readonly Stage[], step: number): Promise<void> {
  const [stage, before] = [stages[step], stages[step - 1]];
  if (!stage) return;
  await withClient(toUrl(postgres, SUPERUSER), (db) =>
    db.query(`create database ${toName(step)} template ${before ? toName(before.step) : TEMPLATE}`),
  );
  await withClient(toUrl(postgres, SUPERUSER, step), (db) => growTo(db, stage, before?.students ?? 0));
}

async function withClient(url: string, work: (db: pg.Client) => Promise<unknown>): Promise<void> {
  const db = new pg.Client(url);
  // It is lost where a signal ends the run.
  db.on('error', () => {});
  await db.connect();
  try {
    await work(db);
  } finally {
    await db.end();
  }
}

function toUrl(postgres: Postgres, login: Parameters<Postgres['url']>[0], step?: number): string {
  const url = new URL(postgres.url(login));
  url.pathname = step === undefined ? '/template1' : `/${toName(step)}`;
  return url.href;
}

function toName(step: number): string {
  return `growth_${step}`;
}

async function startGateway(cleanup: Cleanup, database: string): Promise<string> {
  const port = await findPort();
  const child = startScript(cleanup, GATEWAY_ARGS, {
    env: { NODE_ENV: 'production', LOG_FORMAT: 'json', PORT: `${port}`, DATABASE_URL: database, DEADLINE_MS: '60000' },
  });
  const origin = `http://127.0.0.1:${port}`;
  await waitForAnswer(`${origin}/readyz`, child);
  return origin;
}

function tell(results: Results, { output, only, sizes, others, requests }: Options): void {
  const isWhole = !only && isDeepStrictEqual({ sizes, others, requests }, WHOLE);
  const folder = output ?? (isWhole ? STORED : undefined);
  const report = toReport(results);
  console.log(report);
  if (folder) writeResults(folder, 'growth', results, report);
}

await runProgram(
  createProgram(process.env, async (options) => {
    tell(await withCleanup((cleanup, signal) => measure(options, cleanup, signal)), options);
  }),
);
