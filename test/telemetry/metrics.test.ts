import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { withBody } from '../helpers/function-body.ts';
import { type GatewayProcess, startProcess } from '../helpers/process.ts';
import { sendRaw } from '../helpers/raw.ts';
import { send } from '../helpers/send.ts';
import { createDatabase, type Database, loginUrl } from '../helpers/servers.ts';
import { waitFor } from '../helpers/wait-for.ts';

const KEY = 'wms_demo_aurora';
const STUDENT = { p_nome: 'Ana Prado', p_email: 'ana@aurora.example' };

/** The value of each series, by its name with its labels as they are written. */
type Series = ReadonlyMap<string, number>;

let database: Database;
let gateway: GatewayProcess;

beforeAll(async () => {
  database = await createDatabase();
  gateway = await startProcess({
    DATABASE_URL: loginUrl(database.adminUrl, 'gateway_test'),
    METRICS_PORT: '0',
    DEADLINE_MS: '4000',
    STORE_CONNECTIONS: '2',
  });
  await read();
});

afterAll(async () => {
  await gateway.stop();
  await database.drop();
});

async function read(): Promise<Series> {
  const text = await (await fetch(`${gateway.managementOrigin}/metrics`)).text();
  const lines = text.split('\n').filter((line) => line !== '' && !line.startsWith('#'));
  return new Map(
    lines.map((line) => [line.slice(0, line.lastIndexOf(' ')), Number(line.slice(line.lastIndexOf(' ') + 1))]),
  );
}

/** What was added, by some work, to the series whose name begins so; waits until it is what is expected. */
async function expectAdded(prefix: string, expected: Record<string, number>, work: () => Promise<unknown>) {
  // The use of keys is recorded every few seconds, at whichever call comes then.
  const ignoresUsage = !Object.keys(expected).some((name) => name.includes('record_usage'));
  const before = await read();
  await work();
  await waitFor(async () => {
    const after = [...(await read())].filter(
      ([name]) => name.startsWith(prefix) && !(name.includes('record_usage') && ignoresUsage),
    );
    const added = after.map(([name, value]) => [name.slice(prefix.length), value - (before.get(name) ?? 0)]);
    expect(Object.fromEntries(added.filter(([, value]) => value !== 0))).toEqual(expected);
  });
}

const get = async (target: string, init: RequestInit = {}) => {
  const answer = await fetch(gateway.origin + target, { ...init, headers: { 'X-Api-Key': KEY, ...init.headers } });
  await answer.text();
  return answer.status;
};

describe('requests', () => {
  test('are counted by operation and status', () =>
    expectAdded(
      'http_server_request_duration_seconds_count',
      {
        '{operation="listarAcademias",status="200"}': 3,
        '{operation="listarAcademias",status="401"}': 1,
        '{operation="listarAcademias",status="400"}': 1,
        '{operation="listarAcademias",status="422"}': 2,
        '{operation="criarAluno",status="201"}': 1,
        '{operation="none",status="404"}': 2,
        '{operation="none",status="405"}': 1,
      },
      async () => {
        for (let n = 0; n < 3; n += 1) await get('/v1/academias');
        await get('/v1/academias', { headers: { 'X-Api-Key': 'wms_demo_inativa' } });
        await get('/v1/academias', { headers: { 'X-Api-Key': '' } });
        for (let n = 0; n < 2; n += 1) await get(`/v1/academias?limit=-${n}`);
        await get('/v1/alunos', { method: 'POST', body: JSON.stringify(STUDENT) });
        await get('/v1/nada');
        await get('/nada');
        await get('/v1/academias', { method: 'DELETE' });
      },
    ));

  test('are counted in the buckets at or above their duration, which is added to the sum', () =>
    withBody(database.adminUrl, 'listar_academias', 'perform pg_sleep(0.3)', async () => {
      const labels = 'operation="listarAcademias",status="200"';
      const names = ['0.001', '0.1', '0.25', '5', '10', '+Inf'].map((le) => `bucket{le="${le}",${labels}}`);
      const readAll = async () => {
        const series = await read();
        return [...names, `sum{${labels}}`].map(
          (name) => series.get(`http_server_request_duration_seconds_${name}`) ?? 0,
        );
      };
      const before = await readAll();
      await get('/v1/academias');
      await waitFor(async () => {
        const added = (await readAll()).map((value, n) => value - (before[n] ?? 0));
        expect(added).toEqual([0, 0, 0, 1, 1, 1, expect.toSatisfy((seconds) => seconds > 0.3 && seconds < 4)]);
      });
    }));

  test('whose client goes away count as 499', () =>
    withBody(database.adminUrl, 'listar_academias', 'perform pg_sleep(30)', () =>
      expectAdded(
        'http_server_request_duration_seconds_count',
        { '{operation="listarAcademias",status="499"}': 1 },
        async () => {
          const controller = new AbortController();
          const answer = get('/v1/academias', { signal: controller.signal });
          await waitFor(async () => expect((await read()).get('gateway_store_calls{state="running"}')).toBe(1));
          controller.abort();
          await expect(answer).rejects.toThrow();
        },
      ),
    ));

  test('are measured by the size of body and answer', async () => {
    const body = JSON.stringify(STUDENT);
    await expectAdded(
      'http_server_request_body_size_bytes_sum',
      { '{operation="criarAluno",status="201"}': body.length },
      () => get('/v1/alunos', { method: 'POST', body }),
    );
    await expectAdded('http_server_request_body_size_bytes_count', {}, () => get('/v1/academias'));
    const readSize = async () =>
      (await read()).get('http_server_response_size_bytes_sum{operation="none",status="404"}') ?? 0;
    const before = await readSize();
    const answer = await sendRaw(gateway.origin, 'GET /v1/nada HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n');
    await waitFor(async () => expect((await readSize()) - before).toBe(Buffer.byteLength(answer)));
  });

  test('are named by path if they are for no operation', () =>
    expectAdded(
      'http_server_request_duration_seconds_count',
      {
        '{operation="/healthz",status="200"}': 2,
        '{operation="/readyz",status="200"}': 1,
        '{operation="/docs",status="200"}': 1,
        '{operation="/openapi.json",status="200"}': 1,
      },
      async () => {
        for (const target of ['/healthz', '/healthz?x=1', '/readyz', '/docs', '/openapi.json']) {
          expect(await get(target)).toBe(200);
        }
      },
    ));

  test('with made-up paths and methods add only series of `none`', async () => {
    const methods = ['GET', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'PROPFIND', 'PURGE', 'M-SEARCH', 'LINK'];
    const sendAs = async (method: string, target: string) => (await send(gateway.origin + target, { method })).status;
    const garbage = (n: number) => {
      const name = `${n.toString(36)}${(n * 7919).toString(36)}`;
      const targets = [`/${name}`, `/v1/${name}`, `/v1/alunos/${name}`, `/${name}/v1/alunos`, `/docs/${name}`];
      return sendAs(methods[n % methods.length] ?? '', `${targets[n % targets.length]}?${name}=${name}`);
    };
    const names = async () => {
      // Of the garbage collector's kinds one may come up at any time.
      const all = [...(await read()).keys()].filter(
        (name) => !name.startsWith('nodejs_') && !name.startsWith('process_'),
      );
      return all.toSorted();
    };
    const made = 'FOO /v1/alunos HTTP/1.1\r\nHost: x\r\n\r\n';
    await sendRaw(gateway.origin, made);
    for (const method of methods) await sendAs(method, '/v1/alunos');
    for (let n = 0; n < 45; n += 1) await garbage(n);
    await waitFor(async () => expect((await names()).join()).toContain('{operation="none",status="405"}'));
    const before = await names();
    const statuses = new Set<number>();
    await expectAdded('http_server_request_duration_seconds_count', expect.anything(), async () => {
      for (let n = 45; n < 545; n += 1) statuses.add(await garbage(n));
    });
    expect(await sendRaw(gateway.origin, made)).toMatch(/^HTTP\/1\.1 400 /);
    expect(await names()).toEqual(before);
    expect(statuses).toEqual(new Set([404]));
    const labels = before.flatMap((name) => /operation="([^"]*)"/.exec(name)?.[1] ?? []);
    const known = [
      'none',
      '/',
      'listarAcademias',
      'listarAlunos',
      'criarAluno',
      '/healthz',
      '/readyz',
      '/docs',
      '/openapi.json',
    ];
    expect([...new Set(labels)].filter((label) => !known.includes(label))).toEqual([]);
  });
});

describe('calls of the store', () => {
  const PREFIX = 'gateway_store_call_duration_seconds_count';
  const academias = (result: string) => `{function="listar_academias",result="${result}"}`;

  test('are counted by function and result', () =>
    expectAdded(
      PREFIX,
      {
        [academias('ok')]: 2,
        [academias('refusedKey')]: 1,
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

  test('over the deadline are counted as storeTimeout, and gauges show running and waiting calls', () =>
    withBody(database.adminUrl, 'listar_academias', 'perform pg_sleep(30)', async () => {
      const gauges = async () => {
        const series = await read();
        const value = (name: string, state: string) => series.get(`gateway_store_${name}{state="${state}"}`);
        return [value('calls', 'running'), value('calls', 'waiting'), value('connections', 'used')];
      };
      // One key has one of the two places. A key has its own when it was accepted once.
      const other = { headers: { 'X-Api-Key': 'wms_demo_bosque' } };
      await get('/v1/personais?limit=1');
      await get('/v1/personais?limit=1', other);
      // The use of the keys is recorded by calls that take places too.
      await waitFor(async () => expect(await gauges()).toEqual([0, 0, 0]));
      await expectAdded(PREFIX, { [academias('storeTimeout')]: 3 }, async () => {
        const answers = [get('/v1/academias'), get('/v1/academias', other), get('/v1/academias')];
        await waitFor(async () => expect(await gauges()).toEqual([2, 1, 2]));
        expect(await Promise.all(answers)).toEqual([502, 502, 502]);
      });
      await waitFor(async () => expect(await gauges()).toEqual([0, 0, 0]));
      expect((await read()).get('gateway_store_connections{state="idle"}')).toBeGreaterThan(0);
    }));
});

test('the process, its memory and its event loop are measured', async () => {
  const series = await read();
  expect(series.get('process_resident_memory_bytes')).toBeGreaterThan(10_000_000);
  expect(series.get('process_cpu_seconds_total')).toBeGreaterThan(0);
  expect(series.get('nodejs_heap_size_used_bytes')).toBeGreaterThan(1_000_000);
  expect(series.get('nodejs_eventloop_lag_p99_seconds')).toBeGreaterThan(0);
  expect(series.get('process_start_time_seconds')).toBeGreaterThan(Date.now() / 1_000 - 300);
});

describe('the port of the metrics', () => {
  const ask = async (origin: string, target: string, init?: RequestInit) => {
    const answer = await fetch(origin + target, init);
    return [answer.status, answer.headers.get('content-type'), await answer.text()];
  };
  const JSON_TEXT = 'application/json; charset=utf-8';
  const NOT_FOUND = [404, JSON_TEXT, '{"error":"Not found"}'];

  test('is the only one with metrics, which are not cached', async () => {
    const answer = await fetch(`${gateway.managementOrigin}/metrics`);
    expect([answer.status, answer.headers.get('content-type'), answer.headers.get('cache-control')]).toEqual([
      200,
      'text/plain; version=0.0.4; charset=utf-8',
      'no-store',
    ]);
    expect(await answer.text()).toContain('# TYPE http_server_request_duration_seconds histogram\n');
    expect(await ask(gateway.origin, '/metrics')).toEqual(NOT_FOUND);
  });

  test('compresses the metrics if the client accepts it', async () => {
    const { headers } = await fetch(`${gateway.managementOrigin}/metrics`, { headers: { 'Accept-Encoding': 'gzip' } });
    expect([headers.get('content-encoding'), headers.get('vary')]).toEqual(['gzip', 'Accept-Encoding']);
  });

  test('has the probes too, and nothing else', async () => {
    for (const origin of [gateway.origin, gateway.managementOrigin]) {
      expect(await ask(origin, '/healthz')).toEqual([200, JSON_TEXT, '{"status":"ok"}']);
      expect(await ask(origin, '/readyz')).toEqual([
        200,
        JSON_TEXT,
        '{"status":"ready","checks":{"store":"ok","contract":"ok"}}',
      ]);
    }
    const headers = { 'X-Api-Key': KEY };
    for (const target of ['/', '/v1/academias', '/docs', '/openapi.json', '/metrics/x']) {
      expect(await ask(gateway.managementOrigin, target, { headers })).toEqual(NOT_FOUND);
    }
    const NOT_ALLOWED = [405, NOT_FOUND[1], '{"error":"Method not allowed"}'];
    expect(await ask(gateway.managementOrigin, '/metrics', { method: 'POST' })).toEqual(NOT_ALLOWED);
  });
});
