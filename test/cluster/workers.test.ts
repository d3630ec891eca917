import { spawnSync } from 'node:child_process';
import cluster, { type Worker } from 'node:cluster';
import { randomUUID } from 'node:crypto';
import { EventEmitter, once } from 'node:events';
import { closeSync, createReadStream, existsSync, mkdtempSync, openSync, readFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { Pool } from 'undici';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { openChannel } from '../../src/cluster/channel.ts';
import { Primary } from '../../src/cluster/primary.ts';
import { toShare } from '../../src/cluster/protocol.ts';
import { readConfig } from '../../src/config.ts';
import { toPaths } from '../../src/store/embedded/folder.ts';
import { findMistakes, underLoad } from '../helpers/clients.ts';
import { useDatabase } from '../helpers/database.ts';
import { whileFunctionHeld } from '../helpers/function-body.ts';
import { GatewayProcess, type LogLine, startProcess } from '../helpers/process.ts';
import { sendRaw } from '../helpers/raw.ts';
import { childrenOf, findPort, isRunning, loginUrl } from '../helpers/servers.ts';
import { waitFor, waitForBlocked } from '../helpers/wait-for.ts';

const KEY = 'wms_demo_aurora';
const OTHER_KEY = 'wms_demo_bosque';
const GYMS = '/v1/academias';

const database = useDatabase();
let env: Record<string, string>;

beforeAll(() => {
  env = {
    DATABASE_URL: loginUrl(database.adminUrl, 'gateway_test'),
    WORKERS: '2',
    STORE_CONNECTIONS: '2',
    DEADLINE_MS: '20000',
  };
});

const workersOf = ({ child }: GatewayProcess) => childrenOf(child.pid);

const haveEnded = (pids: readonly number[]) => waitFor(() => expect(pids.filter(isRunning)).toEqual([]));

/** Sends a request on a new connection, by default from a new address. Returns the answer, or an empty text without one. */
function ask(origin: string, target = GYMS, key = KEY, client = newClient()): Promise<string> {
  const headers = `Host: x\r\nX-Api-Key: ${key}\r\nX-Forwarded-For: ${client}\r\nConnection: close`;
  return sendRaw(origin, `GET ${target} HTTP/1.1\r\n${headers}\r\n\r\n`).catch(() => '');
}

let clients = 0;
function newClient(): string {
  clients += 1;
  return `10.0.${clients >> 8}.${clients & 255}`;
}

const statusOf = (answer: string) => Number(/^HTTP\/1\.1 (\d+)/.exec(answer)?.[1] ?? 0);

/** Waits until nobody can connect. A connection made at the moment of the stop may wait for the end of the process. */
const refuses = ({ origin }: GatewayProcess) =>
  waitFor(async () => expect(await Promise.race([ask(origin, '/healthz'), delay(500, 'none')])).toBe(''));

/** The values of a metric: those of the workers in their order, then that of the primary process. */
async function readEach(origin: string, name: string, labels = ''): Promise<number[]> {
  const text = await ask(origin, '/metrics');
  const pattern = new RegExp(`^${name}\\{${labels}worker="(?:\\d|primary)"\\} (\\S+)$`, 'gm');
  return [...text.matchAll(pattern)].map(([, value]) => Number(value));
}

const areReady = (origin: string, each = [1, 1]) =>
  waitFor(async () => expect(await readEach(origin, 'gateway_ready')).toEqual(each));

/** Waits until the metrics are those of both workers, each with one connection. */
const areSeen = (origin: string) =>
  waitFor(async () => {
    expect(await readEach(origin, 'gateway_store_connections', 'state="idle",')).toEqual([1, 1]);
    expect(await readEach(origin, 'gateway_ready')).toEqual([1, 1]);
  });

/** Holds up the function of a list until `work` lets go of it, or ends. */
const whileHeld = (work: (letGo: () => Promise<unknown>) => Promise<void>) =>
  whileFunctionHeld(database.adminUrl, 'listar_academias', work);

/** Renames a function, so that the document and the database disagree or agree again. */
const rename = (from: string, to: string) => database.query(`alter function public.${from} rename to ${to}`);

/** Sends a request to each worker, and waits until both are held up. */
async function beginTwo({ origin }: GatewayProcess): Promise<Promise<string>[]> {
  const answers = [ask(origin), ask(origin)];
  // If each worker has one connection to the database, each has one of the requests now.
  await waitForBlocked(database.adminUrl, 2);
  return answers;
}

describe('a gateway of two workers', () => {
  let gateway: GatewayProcess;

  beforeAll(async () => {
    const shared = { METRICS_PORT: '0', MCP: 'on', DRAIN_MS: '500' };
    // Without a worker the port is closed, so that port 0 would become another one.
    gateway = await startProcess({ ...env, ...shared, PORT: `${await findPort()}` });
  });

  afterAll(() => gateway.stop('SIGKILL'));

  const isServing = ({ msg }: LogLine) => /^Worker \d \(process \d+\) is serving$/.test(String(msg));
  /** Waits until this many workers have been replaced since a line of the log. */
  const areServing = (count: number, from: number) =>
    waitFor(() => expect(gateway.lines().slice(from).filter(isServing)).toHaveLength(count));

  test('serves with both, divides the connections between them, and logs its address once', async () => {
    expect(workersOf(gateway)).toHaveLength(2);
    await gateway.line(({ level }) => level === 'warn');
    const texts = gateway.lines().map(({ msg }) => String(msg).split(' ')[0]);
    expect(texts).toEqual([
      ...['Listening', 'Documentation:', 'MCP:', 'Metrics:', 'Workers:', 'Store:', 'Demo', 'The'],
    ]);
    expect(gateway.output()).toContain('"Workers: 2"');
    await whileHeld(async (letGo) => {
      const answers = [...(await beginTwo(gateway)), ask(gateway.origin), ask(gateway.origin)];
      await letGo();
      expect((await Promise.all(answers)).map(statusOf)).toEqual([200, 200, 200, 200]);
    });
    await areSeen(gateway.managementOrigin);
    expect(gateway.errors()).toBe('');
  });

  test('on SIGHUP keeps its workers if a new one cannot serve', async () => {
    const before = workersOf(gateway);
    await rename('listar_secoes', 'listar_outras');
    gateway.child.kill('SIGHUP');
    await gateway.line(({ msg }) => String(msg).startsWith('A new worker did not serve'));
    expect(gateway.errors()).toContain('in the database there is none of that name');
    expect(workersOf(gateway)).toEqual(before);
    expect(statusOf(await ask(gateway.origin))).toBe(200);
    await rename('listar_outras', 'listar_secoes');
  });

  test('replaces a killed worker while the other serves', async () => {
    const from = gateway.lines().length;
    const [victim = 0, other] = workersOf(gateway);
    await whileHeld(async (letGo) => {
      const answers = await beginTwo(gateway);
      process.kill(victim, 'SIGKILL');
      expect(await Promise.race(answers)).toBe('');
      await letGo();
      expect((await Promise.all(answers)).map(statusOf).toSorted()).toEqual([0, 200]);
    });
    const ended = new RegExp(`^Worker \\d \\(process ${victim}\\) ended with SIGKILL: starting a new one`);
    expect((await gateway.line(({ msg }) => ended.test(String(msg)))).level).toBe('error');
    await areServing(1, from);
    expect(workersOf(gateway)).toHaveLength(2);
    expect(workersOf(gateway)).toContain(other);
    await whileHeld(async (letGo) => {
      const answers = await beginTwo(gateway);
      await letGo();
      expect((await Promise.all(answers)).map(statusOf)).toEqual([200, 200]);
    });
  });

  test('gives its workers each variable, so that they take none from a .env that has changed since', () => {
    const [pid] = workersOf(gateway);
    expect(readFileSync(`/proc/${pid}/environ`, 'utf8').split('\0')).toContain('REDIS_URL=');
  });

  test('starts a worker again after it ran out of file descriptors', async () => {
    const from = gateway.lines().length;
    const allow = (files: string) =>
      spawnSync('prlimit', ['--pid', `${gateway.child.pid}`, `--nofile=${files}:`]).status;
    expect(allow('3')).toBe(0);
    try {
      process.kill(workersOf(gateway)[0] ?? 0, 'SIGKILL');
      await gateway.line(({ msg }) => /^Worker \d ended with spawn .* EMFILE: starting a new one/.test(String(msg)));
    } finally {
      expect(allow('4096')).toBe(0);
    }
    await areServing(1, from);
    expect(workersOf(gateway)).toHaveLength(2);
  });

  test('on SIGHUP replaces every worker, and no request fails', async () => {
    const before = workersOf(gateway);
    const all = Array.from({ length: 2 }, (_, n) => {
      // Short pauses leave the processor to the new workers.
      const creates = n === 0 ? ('once' as const) : undefined;
      return { url: `${gateway.origin}/v1`, keys: [KEY], creates, pauseMs: 10 };
    });
    const clients = await underLoad(all, async () => {
      gateway.child.kill('SIGHUP');
      await gateway.line(({ msg }) => msg === 'The workers are replaced');
    });
    expect(clients.flatMap(({ failures }) => failures)).toEqual([]);
    expect(await findMistakes(clients)).toEqual([]);
    expect(workersOf(gateway)).toHaveLength(2);
    expect(workersOf(gateway).filter((pid) => before.includes(pid))).toEqual([]);
  });

  test('answers a connection that a worker had not accepted when it was killed', async () => {
    const from = gateway.lines().length;
    const [victim = 0] = workersOf(gateway);
    process.kill(victim, 'SIGSTOP');
    // Node gives a worker one connection until it accepts that, and the others to the other worker.
    let answered = 0;
    const answers = Array.from({ length: 4 }, async () => {
      const answer = await ask(gateway.origin);
      answered += 1;
      return statusOf(answer);
    });
    await waitFor(() => expect(answered).toBeGreaterThan(2));
    process.kill(victim, 'SIGKILL');
    expect(await Promise.all(answers)).toEqual([200, 200, 200, 200]);
    await areServing(1, from);
  });

  test('replaces a worker that no longer answers; METRICS_PORT does not wait for it', async () => {
    const from = gateway.lines().length;
    const [victim = 0, other] = workersOf(gateway);
    const readStarts = () => readEach(gateway.managementOrigin, 'process_start_time_seconds');
    await areReady(gateway.managementOrigin);
    const before = await readStarts();
    process.kill(victim, 'SIGSTOP');
    await areReady(gateway.managementOrigin, expect.arrayContaining([0, 1]));
    // The series of the killed worker have ended.
    expect(await readStarts()).toHaveLength(before.length - 1);
    expect(statusOf(await ask(gateway.managementOrigin, '/readyz'))).toBe(200);
    const text = new RegExp(`^Worker \\d \\(process ${victim}\\) has not answered for 10 s and is killed$`);
    const isKilled = ({ msg }: LogLine) => text.test(String(msg));
    expect(gateway.lines().filter(isKilled)).toEqual([]);
    expect((await gateway.line(isKilled)).level).toBe('error');
    // Workers that were killed earlier did not hang.
    const isAnyKilled = ({ msg }: LogLine) => String(msg).includes('has not answered');
    expect(gateway.lines().filter(isAnyKilled)).toHaveLength(1);
    await areServing(1, from);
    await areReady(gateway.managementOrigin);
    expect((await readStarts()).filter((at) => !before.includes(at))).toEqual([expect.toSatisfy((at) => at > 0)]);
    expect(workersOf(gateway)).toHaveLength(2);
    expect(workersOf(gateway)).toContain(other);
  });

  test('names the worker in the line of each request, and logs an outage of the store once', async () => {
    const from = gateway.lines().length;
    await database.query(`revoke connect on database ${database.name} from public`);
    await database.query(`select pg_terminate_backend(pid) from pg_stat_activity
      where datname = current_database() and usename = 'gateway_test'`);
    await areReady(gateway.managementOrigin, [0, 0]);
    await database.query(`grant connect on database ${database.name} to public`);
    await areReady(gateway.managementOrigin);
    await Promise.all(Array.from({ length: 8 }, () => ask(gateway.origin, '/v1/nada')));
    await waitFor(() => {
      const lines = gateway.lines().slice(from);
      const requests = lines.filter(({ status }) => status === 404);
      expect(new Set(requests.map(({ worker }) => worker))).toEqual(new Set([1, 2]));
      const others = lines.filter(({ msg }) => String(msg).startsWith('The store '));
      expect(new Set(others.map(({ worker }) => worker))).toEqual(new Set([1]));
      expect(new Set(others.map(({ msg }) => msg)).size).toBe(others.length);
      expect(others.at(-1)?.msg).toBe('The store answers again');
    });
  });

  test('holds a key to its limit with both workers together, also if its calls fail', async () => {
    // On a busy machine a worker counts by itself if the primary process does not answer in time.
    await waitFor(async () => {
      const [{ key }] = (await database.query(
        `select k.key
           from private.create_tenant('Academia') t (id)
          cross join lateral private.issue_key(t.id, 'Site') k
          cross join lateral private.set_key_limits(k.id, '{"per_minute": 1, "burst": 4}')`,
      )) as [{ key: string }];
      const statuses: number[] = [];
      for (let n = 0; n < 16; n += 1)
        statuses.push(statusOf(await ask(gateway.origin, n % 2 ? GYMS : `${GYMS}?after=${randomUUID()}`, key)));
      expect(statuses.slice(0, 4)).toEqual([422, 200, 422, 200]);
      // The first call of a worker is answered before it knows the limit.
      expect(statuses.filter((status) => status !== 429).length).toBeLessThanOrEqual(5);
      expect(statuses.slice(8)).toEqual(Array(8).fill(429));
    });
  });

  test('leaves no worker when the primary is killed', async () => {
    const workers = workersOf(gateway);
    await whileHeld(async (letGo) => {
      const answers = await beginTwo(gateway);
      gateway.child.kill('SIGKILL');
      await refuses(gateway);
      await letGo();
      expect((await Promise.all(answers)).map(statusOf)).toEqual([200, 200]);
    });
    await haveEnded(workers);
  });
});

test('workers write whole lines to a slow pipe, and the last ones after a SIGINT to the whole group', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'workers-'));
  const fifo = join(folder, 'log');
  spawnSync('mkfifo', [fifo]);
  const port = await findPort();
  // Opening it for writing alone would wait for a reader.
  const output = openSync(fifo, 'r+');
  const reader = createReadStream(fifo, { highWaterMark: 4_096 });
  await once(reader, 'open');
  const gateway = new GatewayProcess(
    { ...env, PORT: `${port}` },
    { stdio: ['ignore', output, 'inherit'], isGroup: true },
  );
  closeSync(output);
  let text = '';
  const read = (async () => {
    for await (const chunk of reader) {
      text += chunk;
      if (text.length > 10_000) await delay(1);
    }
  })();
  await waitFor(() => expect(text).toContain('Listening on'));
  const url = `http://127.0.0.1:${port}`;
  const paths = ['/v1/nada', `/v1/${'nada/'.repeat(40)}`, `/v1/${'longo/'.repeat(1_000)}`];
  const pool = new Pool(url, { connections: 10, pipelining: 10 });
  const client = async (_: unknown, number: number) => {
    for (let sent = 0; sent < 12; sent += 1) {
      const { statusCode, body } = await pool.request({ method: 'GET', path: paths[(number + sent) % 3] ?? '' });
      expect(statusCode).toBe(404);
      await body.dump();
    }
  };
  await Promise.all(Array.from({ length: 50 }, client));
  await pool.close();
  process.kill(-(gateway.child.pid ?? 0), 'SIGINT');
  expect(await gateway.ended).toBe(0);
  await read;
  const lines = text.split('\n').slice(0, -1);
  const ids = lines.map((line) => JSON.parse(line).requestId).filter(Boolean);
  expect(ids).toHaveLength(600);
  expect(new Set(ids).size).toBe(600);
  expect(Math.max(...lines.map((line) => line.length))).toBeLessThan(4_096);
});

describe('a gateway of two workers behind a proxy', () => {
  let gateway: GatewayProcess;

  beforeAll(async () => {
    // Each worker has two connections for one key: both requests that are held up may come to the same worker.
    const more = { ADDRESS_REQUESTS_PER_MINUTE: '10', PROXY_HOPS: '1', STORE_CONNECTIONS: '8' };
    gateway = await startProcess({ ...env, ...more }, { isGroup: true });
  });

  afterAll(() => gateway.stop('SIGKILL'));

  test('counts the requests of an address together, and gives the metrics of both on its only port', async () => {
    await areReady(gateway.origin);
    // On a busy machine a worker counts by itself if the primary process does not answer in time.
    await waitFor(async () => {
      const client = newClient();
      const answers = await Promise.all(Array.from({ length: 30 }, () => ask(gateway.origin, GYMS, client, client)));
      expect(answers.map(statusOf).toSorted()).toEqual([...Array(10).fill(401), ...Array(20).fill(429)]);
      const remaining = answers.map((answer) => Number(/"address";r=(\d+)/.exec(answer)?.[1]));
      expect(remaining.toSorted((a, b) => a - b)).toEqual([...Array(20).fill(0), 0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    });
  });

  test('on SIGTERM to the whole group answers the requests in progress, records every call, and accepts no more', async () => {
    const workers = workersOf(gateway);
    let calls = 0;
    const load = Array.from({ length: 2 }, async () => {
      for (;;) {
        const status = statusOf(await ask(gateway.origin, '/v1/personais', OTHER_KEY));
        if (status === 0) return;
        expect(status).toBe(200);
        calls += 1;
      }
    });
    await waitFor(() => expect(calls).toBeGreaterThan(50));
    await whileHeld(async (letGo) => {
      const answers = await beginTwo(gateway);
      process.kill(-(gateway.child.pid ?? 0), 'SIGTERM');
      await refuses(gateway);
      await letGo();
      for (const answer of await Promise.all(answers)) {
        expect(statusOf(answer)).toBe(200);
        expect(answer).toContain('\r\nConnection: close');
      }
      expect(await gateway.ended).toBe(0);
    });
    await Promise.all(load);
    await haveEnded(workers);
    const recorded = `select sum(u.calls)::integer as calls
                        from private.usage u
                        join private.api_keys k on k.id = u.key_id
                       where k.key_hash = sha256(convert_to($1, 'UTF8')) and u.operation = 'listarPersonais'`;
    expect(await database.query(recorded, [OTHER_KEY])).toEqual([{ calls }]);
    const logged = gateway.lines().filter(({ operation }) => operation === 'listarPersonais');
    expect(new Set(logged.map(({ status }) => status))).toEqual(new Set([200]));
    expect(gateway.errors()).toBe('');
  });
});

describe('a start', () => {
  /** The exit code, the output and the errors of a start that has to fail. */
  async function fail(more: Record<string, string> = {}): Promise<[number | null, string, string]> {
    const gateway = new GatewayProcess({ ...env, ...more });
    return [await gateway.ended, gateway.output(), gateway.errors()];
  }

  test('reports a port in use once', async () => {
    const other = createServer().listen(0, '127.0.0.1');
    await once(other, 'listening');
    const { port } = other.address() as { port: number };
    const text = `port ${port} of 127.0.0.1 is in use: set PORT to another port\n`;
    expect(await fail({ PORT: String(port) })).toEqual([1, '', text]);
    other.close();
  });

  test('reports drift once, as an error or as a warning; a second signal ends it at once and leaves no worker', async () => {
    await rename('listar_secoes', 'listar_outras');
    onTestFinished(async () => void (await rename('listar_outras', 'listar_secoes')));
    const [code, output, errors] = await fail();
    expect(code).toBe(1);
    // On a busy machine the log may say that the store took long.
    expect(output).not.toContain('listarSecoes');
    expect(errors).toMatch(/^openapi\.yaml:\d+: listarSecoes → .*\n$/);

    const gateway = await startProcess({ ...env, CONTRACT_CHECK: 'warn' });
    onTestFinished(async () => void (await gateway.stop('SIGKILL')));
    await areReady(gateway.origin);
    for (let n = 0; n < 4; n += 1) expect((await fetch(`${gateway.origin}/readyz`)).status).toBe(200);
    const workers = workersOf(gateway);
    await whileHeld(async () => {
      const answers = await beginTwo(gateway);
      gateway.child.kill('SIGTERM');
      await refuses(gateway);
      await gateway.stop('SIGTERM');
      expect(gateway.child.signalCode).toBe('SIGTERM');
      expect(await Promise.all(answers)).toEqual(['', '']);
    });
    await haveEnded(workers);
    expect(gateway.lines().filter(({ msg }) => `${msg}\n` === errors)).toHaveLength(1);
  });

  test('exits on a signal while it makes an embedded store, and does not make it first', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'stopped-'));
    const dataDir = join(folder, 'store');
    const { complete, database } = toPaths(dataDir);
    const gateway = new GatewayProcess({ WORKERS: '2', DATA_DIR: dataDir });
    await waitFor(() => expect(existsSync(complete)).toBe(true));
    expect(await gateway.stop('SIGTERM')).toBe(0);
    expect(existsSync(database)).toBe(false);
  });

  // Before it starts the first worker, the gateway may not listen for signals yet.
  test.each(['--worker=1/2', '--worker=2/2'])('exits with 0 on a signal as soon as it has started %s', async (text) => {
    const { child, ended } = new GatewayProcess(env, { isGroup: true });
    const find = () => spawnSync('pgrep', ['-P', `${child.pid}`, '-f', '--', text]).status;
    await waitFor(() => expect(find()).toBe(0));
    const pids = childrenOf(child.pid);
    process.kill(-(child.pid ?? 0), 'SIGTERM');
    expect(await ended).toBe(0);
    await haveEnded(pids);
  });
});

describe('a replacement', () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => {
    vi.useRealTimers();
    vi.restoreAllMocks();
  });

  /** A worker without a process. It ends when it is told to; one that hangs has to be killed. */
  function createWorker(hangs: boolean, onEnd: (how: number | string) => void) {
    const worker = new EventEmitter();
    const end = (code: number | null, signal: string | null) => {
      onEnd(code ?? signal ?? '');
      worker.emit('disconnect');
      worker.emit('exit', code, signal);
    };
    const send = ({ id, message }: { id?: number; message: { kind: string } }) => {
      if (message.kind === 'stop') end(0, null);
      else if (id !== undefined) worker.emit('message', { id, answer: true });
      return true;
    };
    if (!hangs) queueMicrotask(() => worker.emit('message', { message: { kind: 'serving' } }));
    const child = new EventEmitter();
    return Object.assign(worker, {
      send,
      process: Object.assign(child, { pid: 1, send, kill: (signal: string) => end(null, signal) }),
    });
  }

  test('whose new worker hangs is given up after a minute, and a SIGHUP meanwhile begins another one', async () => {
    const ended: string[] = [];
    let begun = 0;
    vi.spyOn(cluster, 'setupPrimary').mockReturnValue();
    vi.spyOn(cluster, 'fork').mockImplementation(() => {
      begun += 1;
      const number = begun;
      return createWorker(number === 3, (how) => ended.push(`${number}: ${how}`)) as unknown as Worker;
    });
    const primary = new Primary(readConfig({ ...env, DEADLINE_MS: '1000', DRAIN_MS: '0', LOG_LEVEL: 'silent' }));
    await primary.open();
    const run = primary.run();
    void primary.replaceWorkers();
    await vi.waitFor(() => expect(begun).toBe(3), 60_000);
    void primary.replaceWorkers();
    await vi.advanceTimersByTimeAsync(60_000);
    expect(ended).toEqual([]);
    await vi.advanceTimersByTimeAsync(4_000);
    await vi.waitFor(() => expect(ended).toEqual(['3: SIGKILL', '1: 0', '2: 0']), 60_000);
    expect(begun).toBe(5);
    primary.stop();
    expect(await run).toBe(0);
  });
});

test('each of three workers has a part of the limits, the first ones get the remainder, and no other setting is divided', () => {
  const config = readConfig({});
  const parts = [1, 2, 3].map((number) => toShare(config, { number, of: 3 }));
  expect(parts.map(({ connections }) => connections)).toEqual([4, 3, 3]);
  const rest = { waiting: 333, refusalsPerMinute: 200, unreadLimit: 33_333_333, maxSockets: 3_333 };
  expect(parts[2]).toEqual({ ...config, connections: 3, ...rest });
});

test('a channel asks nothing of a process that has ended', async () => {
  const end = Object.assign(new EventEmitter(), { send: () => true });
  const { ask } = openChannel(end, () => undefined);
  const before = ask({}, 60_000);
  end.emit('disconnect');
  await expect(before).rejects.toThrow('the other process has ended');
  await expect(ask({}, 60_000)).rejects.toThrow('the other process has ended');
});
