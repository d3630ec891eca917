// What becomes slower as a tenant grows: npm run bench:growth -- --help

import { InvalidArgumentError, Option } from 'commander';
import { request } from 'undici';
import { createCommand, type Output, readInteger, readIntegers, runCommand, saveResults } from './command.ts';
import { CASES, type Case } from './growth/cases.ts';
import { growTo, MAX_SIZES, type Stage } from './growth/data.ts';
import { type Cleanup, startGateway } from './processes.ts';
import { type Place, readPlace, toMarkdown, toMilliseconds, toNumber, toPlace } from './report.ts';
import { type Postgres, startPostgres, withClient } from './servers.ts';
import { toPercentile, toSpread } from './statistics.ts';

/** The tenant at one of its sizes, and a gateway on its database. */
type World = { readonly origin: string; readonly stage: Stage };

/** One case at one size; latencies are in ms. */
type Measurement = {
  readonly case: string;
  readonly students: number;
  readonly p50: number;
  readonly p99: number;
  /** The median of each round. */
  readonly medians: readonly number[];
  /** Rows in the answer. */
  readonly rows: number;
};

type Results = Place & {
  readonly sizes: readonly number[];
  readonly requests: number;
  readonly measurements: readonly Measurement[];
};

/** Students of each other tenant. */
const STUDENTS = 500;
/** The cases are measured in turns, so that a slow phase of the machine slows all of them alike. */
const ROUNDS = 10;
/** Maximum time of a case in a round, and minimum requests. */
const MAX_MS = 2_000;
const MIN_REQUESTS = 2;
/** Maximum ratio between the largest and the smallest size, for what should not grow. */
const GOAL = 1.5;

/** Creates the database of a size from the one before it, so that all sizes exist at the same time. */
async function createDatabase(postgres: Postgres, stages: readonly Stage[], step: number): Promise<void> {
  const [stage, before] = [stages[step], stages[step - 1]];
  if (!stage) return;
  await withClient(toUrl(postgres, 'postgres'), (db) =>
    db.query(`create database ${toName(step)} template ${before ? toName(before.step) : 'postgres'}`),
  );
  await withClient(toUrl(postgres, 'postgres', step), (db) => growTo(db, stage, before?.students ?? 0));
}

function toUrl(postgres: Postgres, login: Parameters<Postgres['url']>[0], step?: number): string {
  const url = new URL(postgres.url(login));
  url.pathname = step === undefined ? '/template1' : `/${toName(step)}`;
  return url.href;
}

function toName(step: number): string {
  return `growth_${step}`;
}

/** Measures every case at each size. Throws if an answer has another status than 200 and 201. */
async function measureAll(worlds: readonly World[], cases: readonly Case[], requests: number, signal: AbortSignal) {
  const series = cases.flatMap((case_) =>
    worlds.map((world) => ({ case_, world, rounds: [] as number[][], rows: 0, send: () => ask(case_, world) })),
  );
  for (let round = 0; round < ROUNDS; round += 1) {
    for (const one of series) {
      signal.throwIfAborted();
      // The first request brings the pages into memory.
      one.rows = await one.send();
      one.rounds.push(await repeat(one.send, Math.ceil(requests / ROUNDS)));
    }
  }
  return series.map(({ case_, world, rounds, rows }): Measurement => {
    const sorted = rounds.flat().sort((a, b) => a - b);
    const medians = rounds.map((times) => toSpread(times)?.median ?? Number.NaN);
    const [p50, p99] = [toPercentile(sorted, 0.5), toPercentile(sorted, 0.99)];
    return { case: case_.id, students: world.stage.students, p50, p99, medians, rows };
  });
}

async function repeat(send: () => Promise<unknown>, count: number): Promise<number[]> {
  const times: number[] = [];
  const begin = performance.now();
  while (times.length < MIN_REQUESTS || (times.length < count && performance.now() - begin < MAX_MS)) {
    const before = performance.now();
    await send();
    times.push(performance.now() - before);
  }
  return times;
}

/** Sends a request and returns the number of rows; `fetch` would take longer than some answers. */
async function ask(case_: Case, { origin, stage }: World): Promise<number> {
  const { path, body = null, ...options } = case_.toRequest(stage);
  const { statusCode, body: answer } = await request(origin + path, { ...options, body });
  if (statusCode === 200 || statusCode === 201) return [await answer.json()].flat().length;
  throw new Error(`${case_.title}: expected status 200 or 201, got ${statusCode}: ${await answer.text()}`);
}

function toReport(results: Results): string {
  const { sizes, requests, measurements, ...place } = results;
  const cases = CASES.filter(({ id }) => measurements.some((one) => one.case === id));
  return [
    '# Growth of a tenant',
    `${toPlace(place)}
Beside them one tenant with ${sizes.map(toNumber).join(', ')} students, a workout for each and an anamnesis for every fifth.
Times are of one client's requests over HTTP, in milliseconds; p50 and p99 of ${requests} requests, fewer where one takes long.
Growth is of the median from the smallest to the largest size: the median of the ratios of ten rounds. The goal is at
most ${GOAL}, except where a reason for growth is given; p99 is of the largest size.`,
    ...[...Map.groupBy(cases, ({ group }) => group)].flatMap(([group, own]) => [`## ${group}`, toTable(results, own)]),
  ].join('\n\n');
}

function toTable({ sizes, measurements }: Results, cases: readonly Case[]): string {
  const head = ['', 'rows', ...sizes.map((size) => `p50 ${toNumber(size)}`), 'p99', 'growth', ''];
  const rows = cases.map(({ id, title, reason }) => {
    const figures = sizes.map((size) => measurements.find((one) => one.case === id && one.students === size));
    const [small, large] = [figures[0], figures.at(-1)];
    const ratios = small?.medians.map((median, round) => (large?.medians[round] ?? Number.NaN) / median) ?? [];
    const growth = toSpread(ratios)?.median ?? Number.NaN;
    const hasMore = (small?.rows ?? 0) < (large?.rows ?? 0);
    return [
      title,
      [...new Set([small, large].map((figure) => toNumber(figure?.rows)))].join(' to '),
      ...figures.map((figure) => toMilliseconds(figure?.p50)),
      toMilliseconds(large?.p99),
      growth.toFixed(2),
      growth <= GOAL ? 'met' : (reason ?? (hasMore ? 'gives more rows' : 'missed')),
    ];
  });
  return toMarkdown(head, rows);
}

type Options = Output & {
  readonly sizes: readonly number[];
  readonly others: number;
  readonly requests: number;
  readonly only?: readonly string[];
};

const HELP = `
It starts a Postgres 18 from npm with the other tenants, lets one tenant grow to each size, keeps a
database with a gateway for each size, and measures the requests of one client, all sizes in turns.
That takes a quarter of an hour, half of it for the data, and 5 GB of disk.

--output writes growth.json and growth.md.

Examples:
  npm run bench:growth -- --output scripts/bench/results
  npm run bench:growth -- --sizes 1000 50000 --others 99 --requests 50
  npm run bench:growth -- --only first last name-common

Cases: ${CASES.map(({ id }) => id).join(', ')}`;

async function measure(options: Options, cleanup: Cleanup, signal: AbortSignal): Promise<void> {
  const { sizes, others, requests, only } = options;
  const cases = CASES.filter(({ id }) => only?.includes(id) ?? true);
  const size = { tenants: others, students: STUDENTS };
  console.error(`Loading ${others} tenants with ${STUDENTS} students each`);
  const postgres = await startPostgres(cleanup, size);
  const stages = sizes.map((students, step) => ({ tenant: others + 1, students, step }));
  for (const { step, students } of stages) {
    signal.throwIfAborted();
    console.error(`Growing to ${students} students`);
    await createDatabase(postgres, stages, step);
  }
  const worlds = await Promise.all(
    stages.map(async (stage) => {
      const env = { DATABASE_URL: toUrl(postgres, 'bench_gateway', stage.step), DEADLINE_MS: '60000' };
      return { stage, ...(await startGateway(cleanup, env)) };
    }),
  );
  console.error(`Measuring ${cases.length} cases`);
  const measurements = await measureAll(worlds, cases, requests, signal);
  const results = { ...readPlace(postgres.version, size), sizes, requests, measurements };
  saveResults('growth', results, toReport(results), options);
}

/** The sizes in ascending order: a tenant only grows. */
function readSizes(): (text: string) => readonly number[] {
  const read = readIntegers(1_000, 10_000_000);
  return (text) => {
    const sizes = read(text).toSorted((a, b) => a - b);
    if (sizes.length <= MAX_SIZES) return sizes;
    throw new InvalidArgumentError(`Expected at most ${MAX_SIZES} sizes.`);
  };
}

await runCommand(
  createCommand('bench:growth', 'Measures what becomes slower as a tenant grows.', HELP, measure)
    .option(
      '--sizes <N...>',
      `students of the tenant, at most ${MAX_SIZES} sizes`,
      readSizes(),
      [1_000, 100_000, 1_000_000],
    )
    .option('--others <N>', 'number of other tenants', readInteger(1, 5_000), 999)
    .option('--requests <N>', 'requests of each case', readInteger(10, 10_000), 100)
    .addOption(new Option('--only <CASE...>', 'only these cases').choices(CASES.map(({ id }) => id))),
);
