import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { diag, SpanKind, SpanStatusCode } from '@opentelemetry/api';
import type { SpanExporter } from '@opentelemetry/sdk-trace';
import { afterEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { createRecord } from '../../src/http/context.ts';
import { openTracing } from '../../src/telemetry/tracing.ts';
import { withBody } from '../helpers/function-body.ts';
import { type GatewayProcess, startProcess } from '../helpers/process.ts';
import { createDatabase, findPort, hasPostgrest, POSTGREST_KEY, startPostgrest } from '../helpers/servers.ts';

type Spans = Parameters<SpanExporter['export']>[0];

const KEY = 'wms_demo_aurora';
const SECRET_KEY = `wms_live_${'Geheim0'.repeat(6)}`.slice(0, 47);
const MALFORMED = '00-4BF92F3577B34DA6A3CE929D0E0E4736-00F067AA0BA902B7-01';

const newParent = (flags: string) => {
  const [traceId, spanId] = [randomBytes(16).toString('hex'), randomBytes(8).toString('hex')];
  return { traceId, spanId, traceparent: `00-${traceId}-${spanId}-${flags}` };
};

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

describe('a span', () => {
  afterEach(() => diag.disable());

  /** Starts tracing. `end` returns the spans in the order in which they ended. */
  function startTracing(ratio = 1) {
    const spans: Spans[number][] = [];
    const warn = vi.fn();
    const exporter: SpanExporter = {
      export: (ended, done) => {
        spans.push(...ended);
        done({ code: 0 });
      },
      shutdown: async () => {},
    };
    const tracing = openTracing({ url: 'http://collector.example', ratio, warn, exporter });
    const start = (traceparent?: string, url = '/v1/academias?limit=1') =>
      tracing.start(createRecord('GET', url, { traceparent }));
    const end = async () => {
      await tracing.close();
      expect(warn.mock.calls).toEqual([]);
      return spans;
    };
    return { start, end };
  }

  test('of a request belongs to its client’s trace, and that of a store call belongs to the request', async () => {
    const parent = newParent('01');
    const { start, end } = startTracing();
    const request = start(parent.traceparent);
    const call = request.child('listar_academias');
    call.end({});
    request.end({ 'http.route': '/v1/academias', 'http.response.status_code': 200 });
    const [ofCall, ofRequest] = await end();
    const { traceId, spanId } = ofRequest?.spanContext() ?? {};
    expect([traceId, ofCall?.spanContext().traceId]).toEqual([parent.traceId, parent.traceId]);
    expect([ofRequest?.parentSpanContext?.spanId, ofCall?.parentSpanContext?.spanId]).toEqual([parent.spanId, spanId]);
    expect(request.traceparent).toBe(`00-${traceId}-${spanId}-01`);
    expect(call.traceparent).toBe(`00-${traceId}-${ofCall?.spanContext().spanId}-01`);
    expect(ofRequest).toMatchObject({
      ...{ name: 'GET /v1/academias', kind: SpanKind.SERVER, status: { code: SpanStatusCode.UNSET } },
      resource: { attributes: { 'service.name': 'wellness-gateway' } },
    });
    expect(ofRequest?.attributes).toEqual({
      'http.request.method': 'GET',
      'url.path': '/v1/academias',
      'http.route': '/v1/academias',
      'http.response.status_code': 200,
    });
    expect(ofCall).toMatchObject({ name: 'listar_academias', kind: SpanKind.CLIENT });
    expect(ofCall?.attributes).toEqual({
      'db.system.name': 'postgresql',
      'db.stored_procedure.name': 'listar_academias',
    });
  });

  test('without a parent begins a trace, and without a route has no path in its name, nor a key anywhere', async () => {
    const { start, end } = startTracing();
    const span = start(undefined, `/v1/${SECRET_KEY}?nome=Secreta`);
    span.end({});
    const [sent] = await end();
    expect(sent).toMatchObject({ name: 'GET', attributes: { 'url.path': '/v1/[hidden]' } });
    expect(sent?.parentSpanContext).toBeUndefined();
    expect(span.traceparent).toBe(`00-${sent?.spanContext().traceId}-${sent?.spanContext().spanId}-01`);
  });

  test('reads the known fields of a later traceparent version', async () => {
    const { traceparent, spanId } = newParent('01');
    const { start, end } = startTracing();
    start(`01${traceparent.slice(2)}-more`).end({});
    expect((await end()).map(({ parentSpanContext }) => parentSpanContext?.spanId)).toEqual([spanId]);
  });

  test('of a fault is marked as an error', async () => {
    const { start, end } = startTracing();
    start().end({}, { kind: 'storeError', cause: 'division_by_zero' });
    const [sent] = await end();
    expect(sent).toMatchObject({ status: { code: SpanStatusCode.ERROR }, attributes: { 'error.type': 'storeError' } });
  });

  test('is sampled at the configured ratio if it begins a trace, and otherwise as its client decides', async () => {
    const { start, end } = startTracing(0);
    const [sampled, unsampled] = [newParent('01'), newParent('00')];
    for (let n = 0; n < 20; n += 1) start().end({});
    start(sampled.traceparent).end({});
    const dropped = start(unsampled.traceparent);
    expect(dropped.traceparent).toMatch(new RegExp(`^00-${unsampled.traceId}-[0-9a-f]{16}-00$`));
    dropped.end({});
    expect((await end()).map((span) => span.spanContext().traceId)).toEqual([sampled.traceId]);
  });

  test.each([
    ['', 'wellness-gateway'],
    ['other', 'other'],
  ])('has the name of the service, where OTEL_SERVICE_NAME is "%s": %s', async (value, name) => {
    vi.stubEnv('OTEL_SERVICE_NAME', value);
    vi.stubEnv('OTEL_RESOURCE_ATTRIBUTES', '');
    onTestFinished(() => void vi.unstubAllEnvs());
    const { start, end } = startTracing();
    start().end({});
    expect((await end())[0]?.resource.attributes['service.name']).toBe(name);
  });
});

/** Starts a collector of OTLP over HTTP; one that hangs takes everything and answers nothing. */
async function startCollector({ hangs = false, status = 200 } = {}) {
  const requests: object[] = [];
  const bodies: Buffer[] = [];
  const server = createServer(async (req, res) => {
    requests.push({ path: req.url, type: req.headers['content-type'] });
    for await (const chunk of req) bodies.push(chunk);
    if (!hangs) res.writeHead(status).end();
  });
  server.listen(0, '127.0.0.1');
  onTestFinished(() => {
    server.close();
    server.closeAllConnections();
  });
  await once(server, 'listening');
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, requests, bodies };
}

describe('a collector', () => {
  afterEach(() => diag.disable());

  test.each<[string, start: () => Promise<string>, text: RegExp]>([
    ['is unreachable', async () => `http://127.0.0.1:${await findPort()}`, /ECONNREFUSED|Export failed/],
    ['hangs', async () => (await startCollector({ hangs: true })).url, /timed out|Export failed/],
    ['refuses spans', async () => (await startCollector({ status: 400 })).url, /Bad Request/],
  ])('that %s is reported in warnings without its password, and does not delay a stop', async (_what, start, text) => {
    const warnings: string[] = [];
    const url = new URL(await start());
    Object.assign(url, { username: 'user', password: 'collector-password' });
    const tracing = openTracing({ url: url.href, ratio: 1, warn: (line) => void warnings.push(line) });
    expect(tracing.isExporting()).toBe(true);
    for (let n = 0; n < 50; n += 1) tracing.start(createRecord('GET', '/v1/academias', {})).end({});
    const begun = performance.now();
    await tracing.close();
    expect(performance.now() - begun).toBeLessThan(8_000);
    expect(tracing.isExporting()).toBe(false);
    expect(warnings).not.toEqual([]);
    for (const warning of warnings) expect(warning).toMatch(text);
    expect(warnings.join()).not.toContain(url.password);
  });
});

/** Makes a process print which modules of the SDK it loads. */
const SPY = `import { registerHooks } from 'node:module';
  registerHooks({ load: (url, context, next) => { if (/@opentelemetry\\/(?!api\\/)/.test(url)) console.error(url); return next(url, context); } });`;
const nodeArgs = ['--import', `data:text/javascript,${encodeURIComponent(SPY)}`];
/** Refuses with the traceparent that PostgREST got. */
const TELL = `raise exception '%', coalesce(current_setting('request.headers', true)::json->>'traceparent', 'none')`;

describe.runIf(hasPostgrest)('a gateway on PostgREST', () => {
  /** Sends a request with each traceparent. Returns the traceparents that PostgREST got, and the traces in the log. */
  async function askAll(traceparents: readonly (string | undefined)[], env: Record<string, string>) {
    const database = await createDatabase();
    const postgrest = await startPostgrest(database);
    const gateway = await startProcess({ ...postgrest.env, ...env }, { nodeArgs });
    onTestFinished(async () => {
      await gateway.stop('SIGKILL');
      await postgrest.stop();
      await database.drop();
    });
    const answers: { told: string | undefined; traceId: unknown }[] = [];
    await withBody(database.adminUrl, 'listar_academias', TELL, async () => {
      for (const traceparent of traceparents) {
        const answer = await get(gateway, '/v1/academias', traceparent ? { traceparent } : {});
        const { error } = (await answer.json()) as { error?: string };
        const line = await gateway.line(({ requestId }) => requestId === answer.headers.get('x-request-id'));
        answers.push({ told: error, traceId: line.traceId });
      }
    });
    return { gateway, answers };
  }

  const get = ({ origin }: GatewayProcess, target: string, headers: Record<string, string> = {}) =>
    fetch(origin + target, { headers: { 'X-Api-Key': KEY, ...headers } });

  test('with a collector sends spans as OTLP in protobuf at the stop at the latest, and gives its trace to PostgREST', async () => {
    const collector = await startCollector();
    const [continued, unsampled] = [newParent('01'), newParent('00')];
    const env = { OTEL_EXPORTER_OTLP_ENDPOINT: `${collector.url}/`, MCP: 'on' };
    const traceparents = [continued.traceparent, unsampled.traceparent, undefined, MALFORMED];
    const { gateway, answers } = await askAll(traceparents, env);
    const [, , none, malformed] = answers.map(({ traceId }) => String(traceId));
    const traces = [
      { traceId: continued.traceId, flags: '01' },
      { traceId: unsampled.traceId, flags: '00' },
      { traceId: none, flags: '01' },
      { traceId: malformed, flags: '01' },
    ];
    expect(answers).toEqual(
      traces.map(({ traceId, flags }) => ({
        traceId,
        told: expect.stringMatching(new RegExp(`^00-${traceId}-[0-9a-f]{16}-${flags}$`)),
      })),
    );
    expect(malformed).not.toBe(MALFORMED.slice(3, 35).toLowerCase());

    const call = { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'listarAcademias', arguments: {} } };
    const accept = { 'Content-Type': 'application/json', Accept: 'application/json, text/event-stream' };
    const headers = { 'X-Api-Key': KEY, ...accept };
    const tool = await fetch(`${gateway.origin}/mcp`, { method: 'POST', headers, body: JSON.stringify(call) });
    expect(tool.status).toBe(200);
    expect((await get(gateway, '/v1/treinos?limit=0')).status).toBe(422);
    expect((await get(gateway, `/v1/${SECRET_KEY}?nome=Secreta`, { 'X-Api-Key': SECRET_KEY })).status).toBe(404);
    expect(await gateway.stop()).toBe(0);

    const type = { path: '/v1/traces', type: 'application/x-protobuf' };
    expect(collector.requests).toEqual(collector.requests.map(() => type));
    const sent = Buffer.concat(collector.bodies);
    const isSent = (traceId = '') => sent.includes(Buffer.from(traceId, 'hex'));
    expect(traces.map(({ traceId }) => isSent(traceId))).toEqual([true, false, true, true]);
    const names = ['GET /v1/academias', 'listar_academias', 'POST /mcp', 'GET /v1/treinos', '/v1/[hidden]'];
    for (const text of names) expect(sent.includes(text), text).toBe(true);
    // A request that is refused before the store has no span of a call.
    for (const text of ['listar_treinos', 'Geheim', 'Secreta', 'limit', KEY, POSTGREST_KEY])
      expect(sent.includes(text), text).toBe(false);
    expect(gateway.errors()).toContain('@opentelemetry/sdk-trace');
    expect(gateway.output()).not.toContain('Traces: ');
  });

  test('without a collector gives the valid traceparent of a client to PostgREST, and loads no SDK', async () => {
    const { traceparent, traceId } = newParent('01');
    const { gateway, answers } = await askAll([traceparent, MALFORMED, undefined], {});
    const none = { told: 'none', traceId: undefined };
    expect(answers).toEqual([{ told: traceparent, traceId }, none, none]);
    expect(await gateway.stop()).toBe(0);
    expect(gateway.errors()).toBe('');
  });
});
