import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createRecord } from '../../src/telemetry/record.ts';
import { type Collector, startCollector } from '../helpers/collector.ts';
import { withBody } from '../helpers/function-body.ts';
import { type GatewayProcess, startProcess } from '../helpers/process.ts';
import {
  createDatabase,
  type Database,
  findPort,
  hasPostgrest,
  loginUrl,
  POSTGREST_KEY,
  type PostgrestServer,
  startPostgrest,
} from '../helpers/servers.ts';
import { waitFor } from '../helpers/wait-for.ts';

const KEY = 'wms_demo_aurora';
const SECRET_KEY = `wms_live_${'Geheim0'.repeat(6)}`.slice(0, 47);
/** What PostgREST was told, in the text of a refusal. */
const TELL = `raise exception '%', coalesce(current_setting('request.headers', true)::json->>'traceparent', 'none')`;

let database: Database;
let postgrest: PostgrestServer | undefined;

beforeAll(async () => {
  database = await createDatabase();
  if (hasPostgrest) postgrest = await startPostgrest(database);
});

afterAll(async () => {
  await postgrest?.stop();
  await database.drop();
});

const onPostgrest = () => postgrest?.env ?? {};
const onPostgres = () => ({ DATABASE_URL: loginUrl(database.adminUrl, 'gateway_test') });

const newParent = (flags: string) => {
  const [traceId, spanId] = [randomBytes(16).toString('hex'), randomBytes(8).toString('hex')];
  return { traceId, spanId, traceparent: `00-${traceId}-${spanId}-${flags}` };
};

/** The error, or the rows, that an operation answers, and what the gateway calls the request. */
async function get(gateway: GatewayProcess, target: string, headers: Record<string, string> = {}) {
  const answer = await fetch(gateway.origin + target, { headers: { 'X-Api-Key': KEY, ...headers } });
  const body = (await answer.json()) as { error?: string };
  return { status: answer.status, error: body.error, id: answer.headers.get('x-request-id') ?? '' };
}

const ask = (gateway: GatewayProcess, traceparent?: string) =>
  get(gateway, '/v1/academias', traceparent === undefined ? {} : { traceparent });

const MALFORMED = '00-4BF92F3577B34DA6A3CE929D0E0E4736-00F067AA0BA902B7-01';

test.each([
  `00-${'0'.repeat(32)}-00f067aa0ba902b7-01`,
  `00-4bf92f3577b34da6a3ce929d0e0e4736-${'0'.repeat(16)}-01`,
  'ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01',
  MALFORMED,
  '00-4bf92f3577b34da6a3ce929d0e0e473-00f067aa0ba902b7-01',
  '00-4bf92f3577b34da6a3ce929d0e0e47360-00f067aa0ba902b7-01',
  '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b-01',
  '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7',
  '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-what-comes-later',
  '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01, 00-x',
  '',
])('is malformed: %s', (traceparent) => {
  expect(createRecord('GET', '/', { traceparent }).traceparent).toBeUndefined();
});

/** Lets a process say which modules of the SDK it loads. */
const SPY = `import { registerHooks } from 'node:module';
  registerHooks({ load: (url, context, next) => { if (/@opentelemetry\\/(?!api\\/)/.test(url)) console.error(url); return next(url, context); } });`;
const nodeArgs = ['--import', `data:text/javascript,${encodeURIComponent(SPY)}`];

describe.runIf(hasPostgrest)('where traces are sent', () => {
  const continued = newParent('01');
  const unsampled = newParent('00');
  const failing = newParent('01');
  const refused = newParent('01');
  const later = newParent('01');
  const called = newParent('01');
  /** What PostgREST was told for each of the requests. */
  const told = new Map<string, string | undefined>();
  const ids = new Map<string, string>();
  let collector: Collector;
  let gateway: GatewayProcess;

  beforeAll(async () => {
    collector = await startCollector();
    const env = { ...onPostgrest(), OTEL_EXPORTER_OTLP_ENDPOINT: collector.url, MCP: 'on' };
    gateway = await startProcess(env, { nodeArgs });
    await withBody(database.adminUrl, 'listar_academias', TELL, async () => {
      const parents: [string, string | undefined][] = [
        ['continued', continued.traceparent],
        ['unsampled', unsampled.traceparent],
        ['later', `01${later.traceparent.slice(2)}-more`],
        ['none', undefined],
        ['malformed', MALFORMED],
      ];
      for (const [name, traceparent] of parents) {
        const { error, id } = await ask(gateway, traceparent);
        told.set(name, error);
        ids.set(name, id);
      }
    });
    await withBody(database.adminUrl, 'listar_academias', 'raise division_by_zero', async () => {
      expect((await ask(gateway, failing.traceparent)).status).toBe(502);
    });
    const call = { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'listarAcademias', arguments: {} } };
    const accept = 'application/json, text/event-stream';
    const tool = await fetch(`${gateway.origin}/mcp`, {
      method: 'POST',
      headers: {
        'X-Api-Key': KEY,
        'Content-Type': 'application/json',
        Accept: accept,
        traceparent: called.traceparent,
      },
      body: JSON.stringify(call),
    });
    expect(tool.status).toBe(200);
    const { traceparent } = refused;
    expect((await get(gateway, '/v1/academias?limit=0', { traceparent })).status).toBe(422);
    expect((await get(gateway, `/v1/${SECRET_KEY}?nome=Secreta`, { 'X-Api-Key': SECRET_KEY })).status).toBe(404);
    expect(await gateway.stop()).toBe(0);
  });

  afterAll(() => collector.close());

  const spansOf = (traceId: string) => collector.spans.filter((span) => span.traceId === traceId);
  const lineOf = (name: string) => gateway.lines().find(({ requestId }) => requestId === ids.get(name));

  test('spans are sent as OTLP over HTTP in protobuf, and flushed at the stop', () => {
    expect(new Set(collector.requests.map((request) => JSON.stringify(request)))).toEqual(
      new Set([JSON.stringify({ path: '/v1/traces', type: 'application/x-protobuf' })]),
    );
    expect(collector.text()).toContain('service.name');
    expect(collector.text()).toContain('wellness-gateway');
    expect(gateway.errors()).toContain('@opentelemetry/sdk-trace');
    expect(gateway.lines().filter(({ level }) => level === 'warn')).toEqual([
      expect.objectContaining({ msg: 'The demo data is in this store, and everybody knows its keys' }),
    ]);
  });

  test('a request is a part of its client’s trace, and the call of the store a part of the request', () => {
    const spans = spansOf(continued.traceId);
    const [request] = spans.filter(({ kind }) => kind === 2);
    const [call] = spans.filter(({ kind }) => kind === 3);
    expect(spans).toHaveLength(2);
    expect(request).toEqual({
      traceId: continued.traceId,
      spanId: expect.stringMatching(/^[0-9a-f]{16}$/),
      parentId: continued.spanId,
      name: 'GET /v1/academias',
      kind: 2,
      attributes: {
        'http.request.method': 'GET',
        'url.path': '/v1/academias',
        'http.route': '/v1/academias',
        'http.response.status_code': 401,
      },
      status: 0,
    });
    expect(call).toEqual({
      traceId: continued.traceId,
      spanId: expect.stringMatching(/^[0-9a-f]{16}$/),
      parentId: request?.spanId,
      name: 'listar_academias',
      kind: 3,
      attributes: { 'db.system.name': 'postgresql', 'db.stored_procedure.name': 'listar_academias' },
      status: 0,
    });
    expect(told.get('continued')).toBe(`00-${continued.traceId}-${call?.spanId}-01`);
    expect(lineOf('continued')?.traceId).toBe(continued.traceId);
  });

  test('a request without a trace begins one', () => {
    const traceId = String(lineOf('none')?.traceId);
    expect(traceId).toMatch(/^[0-9a-f]{32}$/);
    const spans = spansOf(traceId);
    expect(spans.map(({ kind, parentId }) => [kind, parentId === ''])).toEqual([
      [3, false],
      [2, true],
    ]);
    expect(told.get('none')).toBe(`00-${traceId}-${spans[0]?.spanId}-01`);
  });

  test('the known fields of a later traceparent version are read', () => {
    expect(spansOf(later.traceId).map(({ parentId }) => parentId)).toContain(later.spanId);
  });

  test('an unsampled trace is not exported, but is passed to the store', () => {
    expect(spansOf(unsampled.traceId)).toEqual([]);
    expect(told.get('unsampled')).toMatch(new RegExp(`^00-${unsampled.traceId}-[0-9a-f]{16}-00$`));
    expect(lineOf('unsampled')?.traceId).toBe(unsampled.traceId);
  });

  test('ignores a traceparent that is malformed', () => {
    const name = 'malformed';
    const traceId = String(lineOf(name)?.traceId);
    expect(traceId).toMatch(/^(?!0+$)[0-9a-f]{32}$/);
    expect(traceId).not.toBe(MALFORMED.slice(3, 35).toLowerCase());
    const [request] = spansOf(traceId).filter(({ kind }) => kind === 2);
    expect(request?.parentId).toBe('');
    expect(told.get(name)).toMatch(new RegExp(`^00-${traceId}-[0-9a-f]{16}-01$`));
  });

  test('a fault marks the spans of the request and the call as errors', () => {
    const spans = spansOf(failing.traceId);
    expect(spans.map(({ kind, status, attributes }) => [kind, status, attributes['error.type']])).toEqual([
      [3, 2, 'storeError'],
      [2, 2, 'storeError'],
    ]);
  });

  test('a request that is refused before the store has no call span', () => {
    const [request, ...others] = spansOf(refused.traceId);
    expect(others).toEqual([]);
    expect([request?.attributes['http.response.status_code'], request?.status]).toEqual([422, 0]);
  });

  test('a tool call is a request to the endpoint of MCP, and an unknown path has no route', () => {
    const [tool] = spansOf(called.traceId).filter(({ kind }) => kind === 2);
    expect([tool?.name, tool?.attributes['http.route']]).toEqual(['POST /mcp', '/mcp']);
    const [unknown] = collector.spans.filter(({ attributes }) => attributes['url.path'] === '/v1/[hidden]');
    expect([unknown?.name, unknown?.attributes['http.route']]).toEqual(['GET', undefined]);
  });

  test('no key is sent, wherever it was, and no query', () => {
    expect(collector.spans.map(({ attributes }) => attributes['url.path'])).toContain('/v1/[hidden]');
    for (const secret of ['Geheim', 'Secreta', 'limit', KEY, POSTGREST_KEY]) {
      expect(collector.text()).not.toContain(secret);
    }
  });
});

describe.runIf(hasPostgrest)('where they are not', () => {
  const parent = newParent('01');

  test('a valid traceparent is passed to the store, a malformed one is dropped, none is created, and no SDK is loaded', async () => {
    const gateway = await startProcess(onPostgrest(), { nodeArgs });
    const told: (string | undefined)[] = [];
    await withBody(database.adminUrl, 'listar_academias', TELL, async () => {
      for (const traceparent of [parent.traceparent, MALFORMED, undefined]) {
        told.push((await ask(gateway, traceparent)).error);
      }
    });
    expect(told).toEqual([parent.traceparent, 'none', 'none']);
    expect(await gateway.stop()).toBe(0);
    const lines = gateway.lines().filter(({ traceId }) => traceId !== undefined);
    expect(lines.map(({ traceId }) => traceId)).toEqual([parent.traceId]);
    expect(gateway.errors()).toBe('');
  });
});

test('root traces are sampled at the configured ratio, and others as their client decides', async () => {
  const collector = await startCollector();
  const env = { ...onPostgres(), OTEL_EXPORTER_OTLP_ENDPOINT: `${collector.url}/`, OTEL_TRACES_SAMPLER_ARG: '0' };
  const gateway = await startProcess(env);
  const parent = newParent('01');
  for (let n = 0; n < 20; n += 1) expect((await ask(gateway)).status).toBe(200);
  expect((await ask(gateway, parent.traceparent)).status).toBe(200);
  expect(await gateway.stop()).toBe(0);
  expect(new Set(collector.spans.map(({ traceId }) => traceId))).toEqual(new Set([parent.traceId]));
  expect(collector.requests).toEqual([{ path: '/v1/traces', type: 'application/x-protobuf' }]);
  await collector.close();
});

describe('a collector', () => {
  const password = 'collector-password';

  /** Sends requests to a gateway whose collector fails, and stops it. */
  async function check(url: URL, text: RegExp): Promise<void> {
    url.username = 'user';
    url.password = password;
    const gateway = await startProcess({ ...onPostgres(), OTEL_EXPORTER_OTLP_ENDPOINT: url.href });
    const begun = performance.now();
    for (let n = 0; n < 50; n += 1) expect((await ask(gateway)).status).toBe(200);
    expect(performance.now() - begun).toBeLessThan(5_000);
    const readMetrics = async () => (await fetch(`${gateway.origin}/metrics`)).text();
    await waitFor(async () => expect(await readMetrics()).toContain('\ngateway_traces_exported 0\n'));
    const stopped = performance.now();
    expect(await gateway.stop()).toBe(0);
    expect(performance.now() - stopped).toBeLessThan(8_000);
    expect(gateway.errors()).toBe('');
    const warnings = gateway.lines().filter(({ level, msg }) => level === 'warn' && /^Traces: /.test(String(msg)));
    expect(warnings.length).toBeGreaterThan(0);
    for (const { msg } of warnings) expect(msg).toMatch(text);
    expect(gateway.output()).not.toContain(password);
  }

  test.concurrent('that is unreachable fails no request, is logged as a warning, and does not delay the stop', async () => {
    await check(new URL(`http://127.0.0.1:${await findPort()}`), /ECONNREFUSED|Export failed/);
  });

  test.concurrent('that hangs fails no request and does not delay the stop', async () => {
    const collector = await startCollector({ hangs: true });
    await check(new URL(collector.url), /timed out|Export failed/);
    expect(collector.requests.length).toBeGreaterThan(0);
    await collector.close();
  });

  test.concurrent('that refuses spans fails no request and does not delay the stop', async () => {
    const collector = await startCollector({ status: 400 });
    await check(new URL(collector.url), /Bad Request/);
    await collector.close();
  });
});
