import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createRecord } from '../../src/http/context.ts';
import { createMetrics, type MetricSources } from '../../src/telemetry/metrics.ts';
import { useDatabase } from '../helpers/database.ts';
import { withBody } from '../helpers/function-body.ts';
import { type GatewayProcess, startProcess } from '../helpers/process.ts';
import { sendRaw } from '../helpers/raw.ts';
import { loginUrl } from '../helpers/servers.ts';
import { waitFor } from '../helpers/wait-for.ts';

const KEY = 'wms_demo_aurora';
const STUDENT = { p_nome: 'Ana Prado', p_email: 'ana@aurora.example' };
const DURATIONS = 'http_server_request_duration_seconds_count';

/** The value of each series, by its name with its labels as they are written. */
type Series = ReadonlyMap<string, number>;

function readSeries(text: string): Series {
  return new Map([...text.matchAll(/^([^#\n].*) (\S+)$/gm)].map(([, name = '', value]) => [name, Number(value)]));
}

describe('the metrics of a process', () => {
  const end = (metrics: ReturnType<typeof createMetrics>, length?: string) =>
    metrics.request({
      ...createRecord('POST', '/v1/alunos', length === undefined ? {} : { 'content-length': length }),
      ...{ endpoint: 'criarAluno', status: 201, durationMs: 300, responseBytes: 1_000 },
    });

  test('count a request in the buckets at or above its duration, which is added to the sum', async () => {
    const metrics = createMetrics();
    end(metrics);
    const series = readSeries(await metrics.read());
    const read = (name: string, labels = '') =>
      series.get(`http_server_${name}{${labels}operation="criarAluno",status="201"}`);
    const buckets = ['0.001', '0.25', '0.5', '10', '+Inf'].map((le) =>
      read('request_duration_seconds_bucket', `le="${le}",`),
    );
    expect(buckets).toEqual([0, 0, 1, 1, 1]);
    expect([read('request_duration_seconds_sum'), read('response_size_bytes_sum')]).toEqual([0.3, 1_000]);
  });

  test.each([
    [undefined, undefined],
    ['0', undefined],
    ['70', 70],
    ['10000001', undefined],
  ])('count a body with a Content-Length of %s as %s bytes', async (length, bytes) => {
    const metrics = createMetrics();
    end(metrics, length);
    const sum = 'http_server_request_body_size_bytes_sum{operation="criarAluno",status="201"}';
    expect(readSeries(await metrics.read()).get(sum)).toBe(bytes);
  });

  test('show the current state', async () => {
    const metrics = createMetrics();
    const common: MetricSources = {
      readLoad: () => ({ running: 2, waiting: 1, open: 5, idle: 2 }),
      readSockets: () => ({ open: 7, refused: 3, unread: 99 }),
      isReady: async () => true,
    };
    metrics.observe(common);
    const states = (text: string) => text.match(/^gateway_.*$/gm);
    const known = [
      ...['gateway_store_calls{state="running"} 2', 'gateway_store_calls{state="waiting"} 1'],
      ...['gateway_store_connections{state="used"} 3', 'gateway_store_connections{state="idle"} 2'],
      'gateway_store_failovers_total 0',
      ...['gateway_client_sockets 7', 'gateway_client_sockets_refused_total 3', 'gateway_unread_bytes 99'],
    ];
    expect(states(await metrics.read())).toEqual([...known, 'gateway_ready 1']);
    const others = createMetrics();
    others.observe({ ...common, isReady: async () => false, isCountingShared: () => false, isExporting: () => false });
    const flags = ['gateway_ready 0', 'gateway_rate_limits_shared 0', 'gateway_traces_exported 0'];
    expect(states(await others.read())).toEqual([...known, ...flags]);
  });
});

const database = useDatabase();
let gateway: GatewayProcess;

beforeAll(async () => {
  const DATABASE_URL = loginUrl(database.adminUrl, 'gateway_test');
  gateway = await startProcess({ DATABASE_URL, METRICS_PORT: '0', DEADLINE_MS: '20000', STORE_CONNECTIONS: '2' });
  await read();
});

afterAll(() => gateway.stop());

const read = async () => readSeries(await (await fetch(`${gateway.managementOrigin}/metrics`)).text());

/** Waits until the work has added these values to the series whose names begin with the prefix. */
async function expectAdded(prefix: string, expected: Record<string, number>, work: () => Promise<unknown>) {
  const before = await read();
  await work();
  await waitFor(async () => {
    // The use of keys is recorded every few seconds, with whichever call comes then.
    const after = [...(await read())].filter(([name]) => name.startsWith(prefix) && !name.includes('record_usage'));
    const added = after.map(([name, value]) => [name.slice(prefix.length), value - (before.get(name) ?? 0)]);
    expect(Object.fromEntries(added.filter(([, value]) => value !== 0))).toEqual(expected);
  });
}

const get = async (target: string, init: RequestInit = {}) => {
  const answer = await fetch(gateway.origin + target, { ...init, headers: { 'X-Api-Key': KEY, ...init.headers } });
  await answer.text();
  return answer.status;
};

describe('a gateway', () => {
  test('counts requests by operation and status, or by path if they are for no operation', () =>
    expectAdded(
      DURATIONS,
      {
        '{operation="listarAcademias",status="200"}': 3,
        '{operation="listarAcademias",status="401"}': 1,
        '{operation="listarAcademias",status="400"}': 1,
        '{operation="listarAcademias",status="422"}': 2,
        '{operation="criarAluno",status="201"}': 1,
        // Made-up paths and methods add no series of their own.
        '{operation="none",status="404"}': 4,
        '{operation="none",status="400"}': 1,
        '{operation="none",status="405"}': 1,
        '{operation="/healthz",status="200"}': 2,
        '{operation="/readyz",status="200"}': 1,
        '{operation="/docs",status="200"}': 1,
        '{operation="/openapi.json",status="200"}': 1,
      },
      async () => {
        for (let n = 0; n < 3; n += 1) await get('/v1/academias');
        await get('/v1/academias', { headers: { 'X-Api-Key': 'wms_demo_inativa' } });
        await get('/v1/academias', { headers: { 'X-Api-Key': '' } });
        for (let n = 0; n < 2; n += 1) await get(`/v1/academias?limit=-${n}`);
        await get('/v1/alunos', { method: 'POST', body: JSON.stringify(STUDENT) });
        await get('/v1/academias', { method: 'DELETE' });
        const others = '/v1/nada /nada /docs/nada /healthz /healthz?x=1 /readyz /docs /openapi.json'.split(' ');
        for (const target of others) await get(target);
        await get('/v1/nada', { method: 'PROPFIND' });
        await sendRaw(gateway.origin, 'FOO /v1/alunos HTTP/1.1\r\nHost: x\r\n\r\n');
      },
    ));

  test('counts calls of the store by function and result', () =>
    expectAdded(
      'gateway_store_call_duration_seconds_count',
      {
        '{function="listar_academias",result="ok"}': 2,
        '{function="listar_academias",result="refusedKey"}': 1,
        '{function="criar_aluno",result="invalidInput"}': 1,
        '{function="criar_aluno",result="ok"}': 1,
      },
      async () => {
        const post = (json: object) => get('/v1/alunos', { method: 'POST', body: JSON.stringify(json) });
        await get('/v1/academias');
        await get('/v1/academias');
        await get('/v1/academias', { headers: { 'X-Api-Key': 'wms_demo_inativa' } });
        await get('/v1/academias?limit=0');
        expect(await post({ ...STUDENT, p_academia_id: '00000000-0000-4000-8000-000000000000' })).toBe(422);
        expect(await post(STUDENT)).toBe(201);
      },
    ));

  test('shows the calls that run, and counts those whose client goes away as 499', () =>
    withBody(database.adminUrl, 'listar_academias', 'perform pg_sleep(30)', () =>
      expectAdded(DURATIONS, { '{operation="listarAcademias",status="499"}': 1 }, async () => {
        const controller = new AbortController();
        const answer = get('/v1/academias', { signal: controller.signal });
        await waitFor(async () => {
          const series = await read();
          expect(series.get('gateway_store_calls{state="running"}')).toBe(1);
          expect(series.get('gateway_store_connections{state="used"}')).toBe(1);
        });
        controller.abort();
        await expect(answer).rejects.toThrow();
      }),
    ));
});

describe('the port of the metrics', () => {
  const ask = async (origin: string, target: string, init?: RequestInit) => {
    const answer = await fetch(origin + target, init);
    return [answer.status, answer.headers.get('content-type'), await answer.text()];
  };
  const JSON_TEXT = 'application/json; charset=utf-8';
  const READY = '{"status":"ready","checks":{"store":"ok","contract":"ok"}}';
  const NOT_FOUND = [404, JSON_TEXT, '{"error":"Not found"}'];

  test('is the only one with metrics, which are compressed and not cached', async () => {
    const answer = await fetch(`${gateway.managementOrigin}/metrics`, { headers: { 'Accept-Encoding': 'gzip' } });
    expect(answer.status).toBe(200);
    expect(Object.fromEntries(answer.headers)).toMatchObject({
      'content-type': 'text/plain; version=0.0.4; charset=utf-8',
      'cache-control': 'no-store',
      'content-encoding': 'gzip',
      vary: 'Accept-Encoding',
    });
    expect(await answer.text()).toContain('# TYPE http_server_request_duration_seconds histogram\n');
    expect(await ask(gateway.origin, '/metrics')).toEqual(NOT_FOUND);
  });

  test('has the probes too, and nothing else', async () => {
    for (const origin of [gateway.origin, gateway.managementOrigin]) {
      expect(await ask(origin, '/healthz')).toEqual([200, JSON_TEXT, '{"status":"ok"}']);
      expect(await ask(origin, '/readyz')).toEqual([200, JSON_TEXT, READY]);
    }
    const headers = { 'X-Api-Key': KEY };
    for (const target of ['/', '/v1/academias', '/docs', '/openapi.json', '/metrics/x']) {
      expect(await ask(gateway.managementOrigin, target, { headers })).toEqual(NOT_FOUND);
    }
    const NOT_ALLOWED = [405, NOT_FOUND[1], '{"error":"Method not allowed"}'];
    expect(await ask(gateway.managementOrigin, '/metrics', { method: 'POST' })).toEqual(NOT_ALLOWED);
  });
});
