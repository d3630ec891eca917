import { copyFileSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { DeadlineError } from '../../src/deadline.ts';
import { type Fault, OperatorError } from '../../src/errors.ts';
import { createReadiness, type Readiness, serveMetrics } from '../../src/http/health.ts';
import { compileFile } from '../../src/openapi/compile.ts';
import type { Store } from '../../src/store/store.ts';
import { type FaultProxy, startFaultProxy } from '../helpers/fault-proxy.ts';
import { withBody } from '../helpers/function-body.ts';
import { startGateway } from '../helpers/gateway.ts';
import { type GatewayProcess, startProcess } from '../helpers/process.ts';
import { openRaw } from '../helpers/raw.ts';
import { asAdmin, createDatabase, type Database, loginUrl } from '../helpers/servers.ts';
import { createStubStore } from '../helpers/stub-store.ts';
import { waitFor } from '../helpers/wait-for.ts';

const DEADLINE_MS = 2_000;
const KEY = 'wms_demo_aurora';
const ID = '00000000-0000-4000-8000-000000000001';
const JSON_TEXT = 'application/json; charset=utf-8';

let database: Database;
let proxy: FaultProxy;
let gateway: GatewayProcess;
const others = new Set<GatewayProcess>();

beforeAll(async () => {
  database = await createDatabase();
  const { hostname, port } = new URL(database.adminUrl);
  proxy = await startFaultProxy({ host: hostname, port: Number(port) });
  gateway = await startProcess(environment());
});

afterEach(async () => {
  await proxy.pass();
  await Promise.all([...others].map((other) => other.stop('SIGKILL')));
  others.clear();
});

afterAll(async () => {
  await gateway.stop();
  await proxy.close();
  await database.drop();
});

/** A gateway whose way to its store can fail. */
function environment(adminUrl = database.adminUrl): Record<string, string> {
  const url = new URL(loginUrl(adminUrl, 'gateway_test'));
  url.port = String(proxy.port);
  return { DATABASE_URL: url.href, DEADLINE_MS: String(DEADLINE_MS), STORE_CONNECTIONS: '4' };
}

async function startOther(env: Record<string, string>): Promise<GatewayProcess> {
  const other = await startProcess(env);
  others.add(other);
  return other;
}

async function ask(
  target: string,
  init: RequestInit = {},
  { origin }: { origin: string } = gateway,
): Promise<[number, string]> {
  const answer = await fetch(origin + target, init);
  expect(answer.headers.get('content-type')).toBe(JSON_TEXT);
  expect(answer.headers.get('cache-control')).toBe('no-store');
  return [answer.status, await answer.text()];
}

const report = (status: string, store: string, contract: string) =>
  JSON.stringify({ status, checks: { store, contract } });
const READY = [200, report('ready', 'ok', 'ok')];
const UNREACHABLE = [503, report('not ready', 'Data store unavailable', 'unknown: the store does not answer')];
const HANGING = [503, report('not ready', 'Data store timeout', 'unknown: the store does not answer')];
const DRIFTED = 'document and database disagree';
const HEALTHY = [200, '{"status":"ok"}'];

/** Waits for an answer of /readyz, which holds for a second. */
const untilReadiness = (expected: unknown[], from = gateway) =>
  waitFor(async () => expect(await ask('/readyz', {}, from)).toEqual(expected));

describe('/healthz and /readyz', () => {
  test('need no key, and answer that all is well', async () => {
    expect(await ask('/healthz')).toEqual(HEALTHY);
    expect(await ask('/readyz')).toEqual(READY);
  });

  test.each(['/healthz', '/readyz'])('%s answers HEAD without a body', async (target) => {
    const whole = await fetch(gateway.origin + target);
    const { length } = await whole.text();
    const head = await fetch(gateway.origin + target, { method: 'HEAD' });
    expect([head.status, head.headers.get('content-length'), await head.text()]).toEqual([200, String(length), '']);
  });

  test.each(['POST', 'PUT', 'DELETE', 'OPTIONS'])('are a 405 for %s', async (method) => {
    for (const target of ['/healthz', '/readyz']) {
      expect(await ask(target, { method })).toEqual([405, '{"error":"Method not allowed"}']);
    }
  });

  test('are not under /v1, and operations are only under /v1', async () => {
    for (const target of ['/v1/healthz', '/readyz/x', '/readyz/', '/healthz/', '/metrics/', '/METRICS', '/alunos']) {
      expect(await ask(target, { headers: { 'X-Api-Key': KEY } })).toEqual([404, '{"error":"Not found"}']);
    }
  });
});

describe('a store', () => {
  beforeEach(() => untilReadiness(READY));

  test('that refuses connections makes the gateway not ready, and healthy, until it is back', async () => {
    proxy.fail({ on: 'connect', does: 'refuse' });
    proxy.cut();
    await untilReadiness(UNREACHABLE);
    expect(await ask('/healthz')).toEqual(HEALTHY);
    expect((await fetch(`${gateway.origin}/v1/academias`, { headers: { 'X-Api-Key': KEY } })).status).toBe(502);
    await proxy.pass();
    await untilReadiness(READY);
  });

  test.each(['response', 'request'] as const)('that hangs on the %s is reported within the deadline', async (on) => {
    proxy.fail({ on, does: 'stall' });
    await waitFor(async () => {
      const begun = performance.now();
      const answer = await ask('/readyz');
      expect(performance.now() - begun).toBeLessThan(DEADLINE_MS + 5_000);
      expect([HANGING, UNREACHABLE]).toContainEqual(answer);
    });
    expect(await ask('/healthz')).toEqual(HEALTHY);
    await proxy.pass();
    await untilReadiness(READY);
  });

  test('that is busy to its last connection does not make the gateway not ready', async () => {
    const list = () => fetch(`${gateway.origin}/v1/academias`, { headers: { 'X-Api-Key': KEY } });
    await withBody(database.adminUrl, 'listar_academias', 'perform pg_sleep(0.3)', async () => {
      const calls = Array.from({ length: 24 }, list);
      let isBusy = true;
      const busy = Promise.all(calls).then(() => {
        isBusy = false;
      });
      const seen = new Set<string>();
      while (isBusy) seen.add((await ask('/readyz')).join());
      await busy;
      expect(seen).toEqual(new Set([READY.join()]));
    });
  });
});

describe('a database that changes after the start', () => {
  const rename = (adminUrl: string, from: string, to: string) =>
    asAdmin(adminUrl, (admin) => admin.query(`alter function public.${from} rename to ${to}`));
  const LINE = /^openapi\.yaml:\d+: listarSecoes → listar_secoes: .* in the database there is none of that name/;

  test('by an addition leaves it ready, also at a start, and by a disagreement not; the log warns of each once', async () => {
    const column = /^openapi\.yaml:\d+: listarSecoes → listar_secoes: .* the column cor \(other requests succeed\)$/;
    const growing = await createDatabase();
    const running = await startOther(environment(growing.adminUrl));
    await asAdmin(growing.adminUrl, (admin) =>
      admin.query(`drop function public.listar_secoes(text, integer, integer, uuid);
        create function public.listar_secoes(
          p_api_key text, p_limit integer default 100, p_offset integer default 0, p_after uuid default null)
        returns table (id uuid, titulo text, ordem integer, ativo boolean, cor text) language sql stable
        security definer set search_path = pg_catalog, pg_temp
        as $$ select '${ID}'::uuid, 'Hábitos', 1, true, 'azul' $$;
        select private.publish('public.listar_secoes')`),
    );
    const started = await startOther(environment(growing.adminUrl));
    for (const other of [running, started]) {
      const expected = [200, report('ready', 'ok', 'the database has more than the document')];
      for (let n = 0; n < 20; n += 1) expect(await ask('/readyz', {}, other)).toEqual(expected);
      const answer = await fetch(`${other.origin}/v1/anamnese/secoes`, { headers: { 'X-Api-Key': KEY } });
      const row = { id: ID, titulo: 'Hábitos', ordem: 1, ativo: true, cor: 'azul' };
      expect([answer.status, await answer.json()]).toEqual([200, [row]]);
    }
    await started.stop();
    expect(started.lines().filter(({ msg }) => column.test(String(msg)))).toMatchObject([{ level: 'warn' }]);

    await rename(growing.adminUrl, 'listar_secoes', 'listar_outras');
    await untilReadiness([503, report('not ready', 'ok', DRIFTED)], running);
    for (let n = 0; n < 20; n += 1) {
      expect(await ask('/readyz', {}, running)).toEqual([503, report('not ready', 'ok', DRIFTED)]);
    }
    expect(await ask('/healthz', {}, running)).toEqual(HEALTHY);
    await running.stop();
    for (const text of [column, LINE]) {
      expect(running.lines().filter(({ msg }) => text.test(String(msg)))).toMatchObject([{ level: 'warn' }]);
    }
    await growing.drop();
  });
});

describe('readiness itself', () => {
  const program = compileFile('openapi.yaml');

  /** Of a store that does as it is told. */
  async function createTestReadiness(parts: Partial<Store>, isDriftFatal = true, deadlineMs = 100, compiled = program) {
    const warnings: string[] = [];
    const told: string[] = [];
    const document = await compiled;
    const readiness = createReadiness({
      store: { check: async () => undefined, describe: async () => ({ functions: [] }), ...parts } as Store,
      readDocument: () => document,
      deadlineMs,
      isDriftFatal,
      log: {
        info: (text) => void told.push(text),
        warn: (text) => void warnings.push(text),
        fault: (text) => void told.push(text),
      },
    });
    return { readiness, warnings, told };
  }

  afterEach(() => vi.useRealTimers());

  test('asks the store again after a second, and for its functions after ten, and tells of what is new', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    const asked = { check: 0, describe: 0 };
    const { readiness, warnings } = await createTestReadiness({
      check: async () => {
        asked.check += 1;
        return undefined;
      },
      describe: async () => {
        asked.describe += 1;
        return { functions: [] };
      },
    });
    await readiness.read();
    await readiness.read();
    const told = warnings.length;
    expect([asked, told > 0]).toEqual([{ check: 1, describe: 1 }, true]);
    vi.advanceTimersByTime(1_001);
    await readiness.read();
    expect(asked).toEqual({ check: 2, describe: 1 });
    vi.advanceTimersByTime(9_000);
    await readiness.read();
    expect(asked).toEqual({ check: 3, describe: 2 });
    expect(warnings).toHaveLength(told);
  });

  test('needs a store that is set up right, also at a start, and tells once what is wrong', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    let fault: Fault | undefined = { kind: 'storeError', cause: new OperatorError('set PREPARE=on') };
    const { readiness, told } = await createTestReadiness({ check: async () => fault }, false);
    const checks = { store: 'Data store error', contract: 'unknown: the store does not answer' };
    for (let n = 0; n < 3; n += 1) {
      expect(await readiness.read()).toEqual({ status: 'not ready', checks });
      vi.advanceTimersByTime(1_001);
    }
    expect(told).toEqual(['set PREPARE=on']);
    const { readiness: starting } = await createTestReadiness({ check: async () => fault });
    await expect(starting.checkAtStart()).rejects.toThrow('set PREPARE=on');
    fault = undefined;
    expect(await readiness.read()).toMatchObject({ status: 'ready' });
    expect(told).toEqual(['set PREPARE=on', 'The store answers again']);
  });

  test('answers within the deadline if the store ignores its signal', async () => {
    const never = new Promise<never>(() => {});
    const silent = await createTestReadiness({ check: () => never });
    expect(await silent.readiness.read()).toEqual({
      status: 'not ready',
      checks: { store: 'Data store timeout', contract: 'unknown: the store does not answer' },
    });
    const half = await createTestReadiness({ describe: () => never });
    expect(await half.readiness.read()).toEqual({
      status: 'not ready',
      checks: { store: 'ok', contract: 'unknown: the store does not answer' },
    });
  });

  test('is soon the last known one while a check hangs', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    let hangs = false;
    const check = () => (hangs ? new Promise<never>(() => {}) : Promise.resolve(undefined));
    const readSoon = (readiness: Readiness) => {
      const report = readiness.readSoon();
      vi.advanceTimersByTime(400);
      return report;
    };
    const { readiness } = await createTestReadiness({ check }, false, 600_000);
    expect(await readiness.readSoon()).toMatchObject({ status: 'ready' });
    hangs = true;
    vi.advanceTimersByTime(1_001);
    expect(await readSoon(readiness)).toMatchObject({ status: 'ready' });
    const other = await createTestReadiness({ check }, false, 600_000);
    expect(await readSoon(other.readiness)).toEqual({ status: 'not ready' });
  });

  test('asks a store that hangs once, however many ask', async () => {
    let asked = 0;
    const { readiness } = await createTestReadiness({
      check: () => {
        asked += 1;
        return new Promise<never>(() => {});
      },
    });
    const reports = await Promise.all(Array.from({ length: 1_000 }, () => readiness.read()));
    expect(asked).toBe(1);
    expect(reports.filter(({ status }) => status === 'ready')).toEqual([]);
  });

  test('names the line of a difference in the document that is served, also when its file is gone', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'document-'));
    const file = join(folder, 'openapi.yaml');
    copyFileSync('openapi.yaml', file);
    const compiled = compileFile(file);
    await compiled;
    rmSync(folder, { recursive: true });
    const other = { name: 'outra', arguments: [] };
    const { readiness, warnings } = await createTestReadiness(
      { describe: async () => ({ functions: [other] }) },
      false,
      100,
      compiled,
    );
    expect(await readiness.read()).toEqual({ status: 'ready', checks: { store: 'ok', contract: DRIFTED } });
    const lines = warnings.map((text) => Number(/^openapi\.yaml:(\d+): /.exec(text)?.[1]));
    expect(lines.length).toBeGreaterThan(1);
    expect(lines).toEqual(lines.toSorted((one, another) => one - another));
  });

  test('asks anew where it has failed itself', async () => {
    let fails = true;
    const { readiness } = await createTestReadiness({
      check: async () => {
        if (fails) throw new Error('a mistake of ours');
        return { kind: 'storeError', cause: '' };
      },
    });
    await expect(readiness.read()).rejects.toThrow('a mistake of ours');
    fails = false;
    expect(await readiness.read()).toMatchObject({ status: 'not ready', checks: { store: 'Data store error' } });
  });
});

test('while requests under way are finished the port takes no more, and the port of the metrics says that it lives', async () => {
  const other = await startOther({ ...environment(), METRICS_PORT: '0' });
  const { managementOrigin } = other;
  const begun = await openRaw(other.origin);
  const body = JSON.stringify({ p_nome: 'Ana', p_email: 'ana@aurora.example' });
  const head = `POST /v1/alunos HTTP/1.1\r\nHost: x\r\nX-Api-Key: ${KEY}\r\nContent-Length: ${body.length}\r\n\r\n`;
  begun.socket.write(head + body.slice(0, 10));
  await waitFor(async () => expect(await ask('/healthz', {}, other)).toEqual(HEALTHY));
  other.child.kill('SIGTERM');
  await waitFor(() => expect(ask('/readyz', {}, other)).rejects.toThrow());
  expect(await ask('/healthz', {}, { origin: managementOrigin })).toEqual(HEALTHY);
  begun.socket.write(body.slice(10));
  await begun.ended;
  expect(begun.read()).toMatch(/^HTTP\/1\.1 201 Created\r\n/);
  expect(await other.ended).toBe(0);
});

test('/metrics of a worker whose primary process does not answer is a 503 without a fault', async () => {
  const store = createStubStore();
  const read = () => Promise.reject(new DeadlineError('too late'));
  const worker = await startGateway({
    store,
    parts: { operational: [serveMetrics({ contentType: 'text/plain', read })] },
  });
  expect(await ask('/metrics', {}, new URL(worker.url))).toEqual([503, '{"error":"No metrics in time"}']);
  expect(worker.faults).toEqual([]);
  await worker.close();
});
