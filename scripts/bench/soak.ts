// Runs a mixed load with faults for hours, and checks that nothing grows, fails or is lost: npm run soak -- --help

import { execFile, execFileSync } from 'node:child_process';
import { chmodSync, closeSync, openSync, readdirSync, readFileSync, rmSync, writeFileSync, writeSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import { Command, Option } from 'commander';
import { readInteger } from '../../src/admin/arguments.ts';
import { toPaths } from '../../src/store/embedded/folder.ts';
import { type Answer, Client, findMistakes } from '../../test/helpers/clients.ts';
import { type Environment, startProduction } from '../../test/helpers/process.ts';
import { canReplicate, startReplication, toGatewayUrl } from '../../test/helpers/replication.ts';
import { createLogins } from '../../test/helpers/servers.ts';
import { LISTS } from './cases.ts';
import { type Cleanup, createFolder, withCleanup } from './cleanup.ts';
import { load as fill, makeStore, toKeys } from './data.ts';
import { readFamilyMemory } from './proc.ts';
import { toMarkdown, toNumber, toSpread } from './report.ts';

type Options = { readonly store: 'postgres' | 'embedded'; readonly minutes: number };

const SIZE = { tenants: 20, students: 1_000 };
/** Intervals of reading the figures and of administration, in ms. */
const SAMPLE_MS = 5_000;
const ADMINISTER_MS = 60_000;
/** Requests may still fail for this time after a fault, in ms. */
const AFTERWARDS_MS = 15_000;
/** Allowed growth of a figure from the second quarter to the last. */
const GROWTH = 1.05;
/** Quarters are compared by the minimum of this figure, which follows a garbage collection. Its median depends on the load. */
const HEAP = 'least heap in use, bytes';
const DISK_BYTES = 2e9;
const ROOT = join(import.meta.dirname, '../..');

/** The expected status of each kind of request, and outcome of administration. */
const EXPECTED = { list: 200, creation: 201, 'refused key': 401, administration: 'done' } as const;
type Kind = keyof typeof EXPECTED;

/** Counts answers, and lists those that no fault explains. */
class Observations {
  readonly answers = new Map<string, number>();
  readonly unexpected: string[] = [];
  #faultyUntil = 0;

  /** Runs a fault. During it and shortly after, requests may fail. */
  async during(fault: () => Promise<void>): Promise<void> {
    this.#faultyUntil = Number.POSITIVE_INFINITY;
    await fault();
    this.#faultyUntil = Date.now() + AFTERWARDS_MS;
  }

  count(kind: Kind, status: number | string): void {
    const name = `${kind}: ${status}`;
    this.answers.set(name, (this.answers.get(name) ?? 0) + 1);
    if (status !== EXPECTED[kind] && Date.now() > this.#faultyUntil)
      this.unexpected.push(`${new Date().toISOString()} ${name}`);
  }
}

/** The context of the load, which runs until the signal aborts. */
type Load = {
  readonly origin: string;
  readonly record: Observations;
  readonly signal: AbortSignal;
  readonly keys: string[];
};

const pick = (count: number) => Math.floor(Math.random() * count);

/** Repeats work, after a pause each time, until the signal aborts. */
async function repeat({ signal }: Load, pauseMs: number, work: (round: number) => Promise<void>): Promise<void> {
  for (let round = 0; ; round += 1) {
    await delay(pauseMs, undefined, { signal }).catch(() => {});
    if (signal.aborted) return;
    await work(round);
  }
}

/** Starts a client that lists, or one that creates. */
function startClient({ origin, record, keys }: Load, creates?: 'repeated'): Client {
  const onAnswer = ({ action, status, body }: Answer) =>
    record.count(action === 'create' ? 'creation' : 'list', status || String(body));
  const own = creates ? { creates, lists: [], pauseMs: 20 } : { lists: LISTS, pauseMs: 5 };
  return new Client({ url: `${origin}/v1`, keys, onAnswer, ...own });
}

const refuse = (load: Load) =>
  repeat(load, 500, async () => {
    const headers = { 'X-Api-Key': `wms_live_${pick(1e9)}` };
    const ended = fetch(`${load.origin}/v1/alunos`, { headers }).then(
      (answer) => answer.text().then(() => answer.status),
      (error) => String(error.cause ?? error),
    );
    load.record.count('refused key', await ended);
  });

/** A client that reads slowly, or disconnects before the answer. */
const stall = (load: Load, isSlow: boolean) =>
  repeat(load, isSlow ? 1_000 : 50, async () => {
    const { hostname, port } = new URL(load.origin);
    const socket = connect(Number(port), hostname).on('error', () => {});
    socket.write(
      `GET /v1/alunos?limit=1000 HTTP/1.1\r\nHost: x\r\nX-Api-Key: ${load.keys[pick(SIZE.tenants)]}\r\n\r\n`,
    );
    if (isSlow) {
      socket.pause();
      for (let n = 0; n < 20 && !load.signal.aborted; n += 1) {
        socket.read(1_000);
        await delay(100);
      }
    } else await delay(pick(10));
    socket.destroy();
  });

/** Imports, exports and rotates a key, on another tenant in each round. */
async function administer(load: Load, cleanup: Cleanup, env: Environment, round: number): Promise<void> {
  const admin = async (...args: string[]) => {
    const file = join(ROOT, 'src/admin/main.ts');
    const { stdout } = await promisify(execFile)(process.execPath, [file, ...args, '--json'], {
      ...{ env: { ...process.env, ...env }, cwd: ROOT },
    });
    return JSON.parse(stdout);
  };
  const tenants: { id: string }[] = await admin('tenant', 'list');
  const tenant = round % SIZE.tenants;
  const id = tenants[tenant]?.id ?? '';
  const folder = createFolder(cleanup, 'soak');
  const rows = Array.from({ length: 100 }, (_, n) => `Importado ${round}-${n},importado${round}-${n}@bench.example`);
  writeFileSync(join(folder, 'alunos.csv'), ['nome,email', ...rows].join('\n'));
  await admin('import', 'alunos', join(folder, 'alunos.csv'), '--tenant', id);
  await admin('export', join(folder, 'all'), '--tenant', id);
  rmSync(folder, { recursive: true });
  const keys: { id: string; state: string }[] = await admin('key', 'list', '--tenant', id);
  const old = keys.findLast(({ state }) => state === 'active');
  const { key }: { key: string } = await admin('key', 'rotate', old?.id ?? '', '--overlap', '30s');
  load.keys[tenant] = key;
}

/** Fills a disk for ten seconds. */
async function fillDisk(folder: string): Promise<void> {
  const file = join(folder, 'filler');
  const handle = openSync(file, 'w');
  try {
    for (;;) writeSync(handle, Buffer.alloc(1_000_000));
  } catch {
    await delay(10_000);
  } finally {
    closeSync(handle);
    rmSync(file);
  }
}

/** Mounts a small file system in memory on a folder; false without the permission. */
function mountDisk(cleanup: Cleanup, folder: string): boolean {
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${DISK_BYTES}`, 'tmpfs', folder], { stdio: 'ignore' });
  } catch {
    return false;
  }
  cleanup.defer(() => void execFileSync('umount', ['--lazy', folder]));
  return true;
}

/** Reads the figures that must not grow. */
async function readFigures({ origin }: Load, pid: number): Promise<Map<string, number>> {
  const metrics = await (await fetch(`${origin}/metrics`)).text();
  const figure = (name: string) =>
    [...metrics.matchAll(new RegExp(`^${name}(?:{[^}]*})? (\\S+)$`, 'gm'))].reduce((sum, [, n]) => sum + Number(n), 0);
  return new Map([
    // Shared memory is left out: it has a fixed size, which an embedded Postgres takes an hour to fill.
    ['private memory, bytes', readFamilyMemory(pid, 'Pss_Anon') ?? Number.NaN],
    [HEAP, figure('nodejs_heap_size_used_bytes')],
    ['file descriptors', readdirSync(`/proc/${pid}/fd`).length],
    ['handles', figure('nodejs_active_handles_total')],
    ['connections to the store', figure('gateway_store_connections')],
  ]);
}

const sample = (load: Load, pid: number, series: Map<string, number[]>) =>
  repeat(load, SAMPLE_MS, async () => {
    const figures = await readFigures(load, pid).catch(() => new Map<string, number>());
    for (const [name, value] of figures) series.set(name, [...(series.get(name) ?? []), value]);
  });

type Fault = { readonly name: string; readonly run: () => Promise<void> };

type Place = {
  readonly gateways: readonly { readonly origin: string; readonly pid: number }[];
  /** The environment of the administrator. */
  readonly env: Environment;
  /** In the order in which they happen. */
  readonly faults: readonly Fault[];
};

async function open(cleanup: Cleanup, { store }: Options): Promise<Place> {
  const folder = createFolder(cleanup, 'soak-disk');
  // Postgres runs as another user, who needs access.
  chmodSync(folder, 0o755);
  const isDisk = mountDisk(cleanup, folder);
  if (!isDisk) console.error('Cannot mount a disk here: the full disk is left out');
  const full = isDisk ? [{ name: 'a full disk', run: () => fillDisk(folder) }] : [];
  const start = async (env: Environment) => {
    const gateway = await startProduction(env);
    cleanup.defer(async () => void (await gateway.stop()));
    return gateway;
  };
  if (store === 'embedded') {
    await makeStore(folder, SIZE);
    const env = { DATA_DIR: folder };
    const killServer = async () => {
      const [pid] = readFileSync(join(toPaths(folder).database, 'postmaster.pid'), 'utf8').split('\n');
      process.kill(Number(pid), 'SIGKILL');
    };
    return {
      gateways: [await start(env)],
      env,
      faults: [{ name: 'a kill of the server', run: killServer }, ...full],
    };
  }
  if (!canReplicate()) throw new Error('this needs the package postgresql-15');
  const servers = await startReplication(2, folder, async (db) => {
    await fill(db, SIZE);
    await createLogins(db);
  });
  cleanup.defer(async () => void (await Promise.all(servers.map((server) => server.remove()))));
  const [primary, standby] = servers;
  // Otherwise a failover could lose acknowledged creations.
  await primary.set('synchronous_standby_names', '*');
  const env = { DATABASE_URL: toGatewayUrl(servers, 'target_session_attrs=read-write') };
  // Time for a replaced worker to tell its clients to reconnect.
  const rolling = { ...env, WORKERS: '2', DRAIN_MS: '7000' };
  const restart = () => primary.shutDown().then(() => primary.start());
  const failOver = () => primary.kill().then(() => standby?.promote());
  return {
    gateways: [await start(env), await start(rolling)],
    env: { DATABASE_URL: toGatewayUrl(servers, 'target_session_attrs=read-write', 'postgres') },
    faults: [
      { name: 'a restart of Postgres', run: restart },
      // Postgres exits if it cannot write WAL.
      ...full.map(({ name, run }) => ({ name, run: () => run().then(restart) })),
      { name: 'a failover', run: failOver },
    ],
  };
}

/** Causes all faults in the first quarter of the time, because the second and the last are compared. */
async function causeFaults({ record, signal }: Load, faults: readonly Fault[], quarterMs: number): Promise<void> {
  const begin = performance.now();
  for (const [n, { name, run }] of faults.entries()) {
    // Each fault has a fixed time, however long the earlier ones took.
    const at = begin + (quarterMs * (n + 0.5)) / faults.length;
    await delay(Math.max(0, at - performance.now()), undefined, { signal }).catch(() => {});
    if (signal.aborted) return;
    console.error(`${new Date().toISOString()} ${name}`);
    await record.during(run);
  }
}

async function soak(options: Options, cleanup: Cleanup, interrupt: AbortSignal): Promise<void> {
  const { gateways, env, faults } = await open(cleanup, options);
  const [steady, rolling = steady] = gateways;
  if (!steady || !rolling) throw new Error('there is no gateway');
  const ms = options.minutes * 60_000;
  const record = new Observations();
  const end = AbortSignal.any([AbortSignal.timeout(ms), interrupt]);
  const keys = toKeys(false, SIZE.tenants);
  const load: Load = { origin: steady.origin, record, signal: end, keys };
  const others: Load = { ...load, origin: rolling.origin };
  const series = new Map<string, number[]>();
  const readers = Array.from({ length: 4 }, () => [startClient(load), startClient(others)]).flat();
  const creators = [load, load, others].map((one) => startClient(one, 'repeated'));
  const working = [
    refuse(load),
    ...[stall(load, true), stall(load, false), stall(others, false), sample(load, steady.pid, series)],
    repeat(load, ADMINISTER_MS, async (round) => {
      const failure = await administer(load, cleanup, env, round).catch(String);
      if (failure) console.error(failure);
      record.count('administration', failure ? 'failed' : EXPECTED.administration);
    }),
    causeFaults(load, faults, ms / 4),
  ];
  if (rolling !== steady)
    working.push(repeat(load, 2 * ADMINISTER_MS, async () => void process.kill(rolling.pid, 'SIGHUP')));
  const clients = [...readers, ...creators];
  await Promise.all(working);
  await Promise.all(clients.map((client) => client.stop()));
  interrupt.throwIfAborted();
  const mistakes = await findMistakes(clients, `${steady.origin}/v1`);
  const created = creators.reduce((sum, client) => sum + client.created.size, 0);
  report(record, series, created, mistakes.map(String));
}

function report(
  record: Observations,
  series: ReadonlyMap<string, number[]>,
  created: number,
  mistakes: readonly string[],
): void {
  const quarter = (name: string, values: readonly number[], n: number) => {
    const spread = toSpread(values.slice((values.length * (n - 1)) / 4, (values.length * n) / 4));
    return spread?.[name === HEAP ? 'min' : 'median'] ?? Number.NaN;
  };
  const rows = [...series].map(([name, values]) => {
    const [second, last] = [quarter(name, values, 2), quarter(name, values, 4)];
    return [name, toNumber(second), toNumber(last), last <= second * GROWTH ? 'flat' : 'grows'];
  });
  const answers = [...record.answers].toSorted().map(([name, n]) => [name, toNumber(n)]);
  console.log(toMarkdown(['', 'second quarter', 'last quarter', ''], rows));
  console.log(`\n${toMarkdown(['answers', 'number'], answers)}`);
  console.log(`\n${toNumber(created)} students created, each there exactly once but for ${mistakes.length} mistakes.`);
  console.log(`${record.unexpected.length} failures outside of faults.`);
  for (const line of [...record.unexpected, ...mistakes].slice(0, 20)) console.log(line);
  if (rows.some((row) => row.includes('grows')) || mistakes.length + record.unexpected.length > 0) process.exitCode = 1;
}

await new Command('npm run soak --')
  .description('Runs a mixed load with faults, and reports what grows, fails or is lost.')
  .addOption(new Option('--store <STORE>', 'the store').choices(['postgres', 'embedded']).default('postgres'))
  .option('--minutes <N>', 'duration of the load in minutes', readInteger(1, 100_000), 60)
  .addHelpText('after', '\nExit codes: 0 nothing grows, fails or is lost; 1 something does.')
  .action((options: Options) => withCleanup((cleanup, signal) => soak(options, cleanup, signal)))
  .parseAsync();
