import { execFileSync } from 'node:child_process';
import { closeSync, mkdirSync, mkdtempSync, openSync, writeFileSync } from 'node:fs';
import type { IncomingHttpHeaders } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { createRecord } from '../../src/http/context.ts';
import { createLog, type LogOptions } from '../../src/telemetry/log.ts';
import type { EndedRequest } from '../../src/telemetry/record.ts';
import { useDatabase } from '../helpers/database.ts';
import { withBody } from '../helpers/function-body.ts';
import { GatewayProcess, type LogLine, startProcess } from '../helpers/process.ts';
import { openRaw, sendRaw } from '../helpers/raw.ts';
import { runCommand } from '../helpers/run.ts';
import { findPort, loginUrl } from '../helpers/servers.ts';
import { waitFor } from '../helpers/wait-for.ts';

const DEMO_KEY = 'wms_demo_aurora';
/** A key in the form and the length of those that are issued. */
const KEY = 'wms_live_0123456789abcdefghijABCDEFGHIJklmnopqr';
const PREFIX = KEY.slice(0, 17);
/** The other fields of each line of a gateway. */
const REST = { time: expect.any(String), durationMs: expect.any(Number), responseBytes: expect.any(Number) };

/** A log in this process, and the lines that it has written. */
function openTestLog(options: Partial<LogOptions> = {}) {
  const written: string[] = [];
  const destination = { write: (text: string) => void written.push(text), flush: async () => {} };
  const common = { level: 'info', format: 'auto', keyHeaders: ['x-api-key'], isTerminal: false } as const;
  const log = createLog({ ...common, ...options }, destination);
  const end = (url: string, headers: IncomingHttpHeaders, more: Partial<EndedRequest> = {}) => {
    const rest = { endpoint: 'none', status: 200, durationMs: 1.26, responseBytes: 10 };
    log.request({ ...createRecord('GET', url, headers), ...rest, ...more });
  };
  return { log, end, written };
}

describe('a line', () => {
  /** The line of a request, without the fields that every line has. */
  const lineOf = (url: string, headers: IncomingHttpHeaders, more?: Partial<EndedRequest>): LogLine => {
    const { end, written } = openTestLog();
    end(url, { 'x-request-id': 'one', ...headers }, more);
    const { time, ...line } = JSON.parse(written.join('')) as LogLine;
    expect(Math.abs(Date.now() - Date.parse(String(time)))).toBeLessThan(10_000);
    expect(time).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
    const { level, requestId, method, status, durationMs, responseBytes, ...rest } = line;
    expect([level, status]).toEqual([more?.fault ? 'error' : 'info', more?.status ?? 200]);
    expect([requestId, method, durationMs, responseBytes]).toEqual(['one', 'GET', 1.3, 10]);
    return rest;
  };
  const traceparent = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';

  test.each<[string, url: string, headers: IncomingHttpHeaders, line: object]>([
    ['has the path without the query', '/v1/alunos?nome=ana', {}, { path: '/v1/alunos' }],
    ['has the first 17 characters of a key', '/v1/a', { 'x-api-key': KEY }, { path: '/v1/a', keyPrefix: PREFIX }],
    ['has those of the first of two keys', '/', { 'x-api-key': `${KEY}, ${KEY}` }, { path: '/', keyPrefix: PREFIX }],
    ['has no prefix of a short key', '/v1/a', { 'x-api-key': KEY.slice(0, 39) }, { path: '/v1/a' }],
    ['has no control characters of a key', '/', { 'x-api-key': `\x9b2J\x9b31m${'a'.repeat(50)}` }, { path: '/' }],
    ['has no key in the path', `/v1/${KEY}`, {}, { path: '/v1/[hidden]' }],
    ['has no key behind a part of the path', `/v1/alunos/${KEY}/x`, {}, { path: '/v1/alunos/[hidden]/x' }],
    ['has no key with one letter encoded', `/v1/${KEY.replace('m', '%6d')}`, {}, { path: '/v1/[hidden]' }],
    ['has no key in a parameter of the path', `/v1/alunos;key=${KEY}`, {}, { path: '/v1/alunos;key=[hidden]' }],
    ['has no key in the query', `/v1/alunos?key=${KEY}`, {}, { path: '/v1/alunos' }],
    ["has the client's trace id", '/', { traceparent }, { path: '/', traceId: '4bf92f3577b34da6a3ce929d0e0e4736' }],
  ])('%s', (_what, url, headers, line) => {
    expect(lineOf(url, headers)).toEqual(line);
  });

  test('has a fault in full, except for the key', () => {
    const headers = { 'x-api-key': 'a "quoted" key' };
    const cause = { code: '22P02', message: 'bad: a "quoted" key', detail: ['a "quoted" key', 7] };
    expect(lineOf('/v1/a?x=1', headers, { status: 502, storeMs: 1.04, fault: { kind: 'storeError', cause } })).toEqual({
      path: '/v1/a',
      storeMs: 1,
      fault: { kind: 'storeError', cause: 'bad: [API key]', code: '22P02', detail: ['[API key]', 7] },
    });
    const { log, written } = openTestLog();
    log.fault('A fault', { kind: 'internal', cause: new Error('a "quoted" key') }, createRecord('GET', '/', headers));
    expect(written.join()).toContain('log.test.ts');
    expect(written.join()).not.toContain('quoted');
  });

  test.each([
    ['debug', ['debug', 'debug', 'debug', 'info', 'info', 'error', 'error']],
    ['info', ['info', 'info', 'error', 'error']],
    ['error', ['error', 'error']],
    ['silent', []],
  ] as const)('is written at level %s if it is a probe, a request or a fault: %j', (level, expected) => {
    const { log, end, written } = openTestLog({ level });
    for (const endpoint of ['/healthz', '/readyz', '/metrics']) end('/', {}, { endpoint });
    end('/', {}, { status: 404 });
    log.info('Listening');
    end('/', {}, { endpoint: 'listarAlunos', status: 502 });
    log.fault('A fault', { kind: 'internal', cause: 'unknown' });
    expect(written.map((line) => JSON.parse(line).level)).toEqual(expected);
  });

  test('for people is a sentence, with its fault below it', () => {
    const { end, written } = openTestLog({ isTerminal: true, worker: 2 });
    const headers = (id: string) => ({ 'x-api-key': KEY, 'x-request-id': id });
    const fault = { kind: 'storeError', cause: { code: '22012', message: 'division_by_zero' } } as const;
    end('/v1/academias?ativo=true', headers('good'), { storeMs: 1 });
    end('/v1/academias?ativo=true', headers('bad'), { storeMs: 1, status: 502, fault });
    const sentence = (level: string, status: number, id: string) =>
      new RegExp(
        `^\\[\\d\\d:\\d\\d:\\d\\d\\.\\d{3}\\] worker 2 ${level}: GET /v1/academias ${status} in 1.3 ms \\(store 1 ms\\) key ${PREFIX}… request ${id}$`,
        'm',
      );
    expect(written[0]).toMatch(sentence('INFO', 200, 'good'));
    expect(written[1]).toMatch(sentence('ERROR', 502, 'bad'));
    expect(written[1]).toContain('"cause": "division_by_zero"');
    expect(written.join()).not.toContain('ativo=true');
  });
});

const folder = mkdtempSync(join(tmpdir(), 'log-'));
const database = useDatabase();
let env: Record<string, string>;
let gateway: GatewayProcess;

beforeAll(async () => {
  env = { DATABASE_URL: loginUrl(database.adminUrl, 'gateway_test'), DEADLINE_MS: '20000', STORE_CONNECTIONS: '4' };
  gateway = await startProcess(env);
});

afterAll(() => gateway.stop());

let ids = 0;
/** All ids have one length: otherwise two answers would differ in bytes. */
const newId = () => {
  ids += 1;
  return `log-${String(ids).padStart(4, '0')}`;
};

const linesOf = (id: string) => gateway.lines().filter(({ requestId }) => requestId === id);

/** Waits until everything before another request is logged. Returns the lines of a request. */
async function readLines(id: string): Promise<LogLine[]> {
  const marker = newId();
  await (await fetch(`${gateway.origin}/marker`, { headers: { 'X-Request-Id': marker } })).text();
  await gateway.line(({ requestId }) => requestId === marker);
  return linesOf(id);
}

describe('the one line of a request', () => {
  test('has the cause of a store fault and the time of the call, at level error', () =>
    withBody(database.adminUrl, 'listar_academias', 'perform pg_sleep(0.2); raise division_by_zero', async () => {
      const id = newId();
      const headers = { 'X-Api-Key': DEMO_KEY, 'X-Request-Id': id };
      await (await fetch(`${gateway.origin}/v1/academias?limit=2`, { headers })).text();
      const isLong = expect.toSatisfy((ms) => ms >= 200);
      expect(await readLines(id)).toEqual([
        {
          ...{ ...REST, level: 'error', requestId: id, method: 'GET', path: '/v1/academias' },
          ...{ operation: 'listarAcademias', status: 502, storeMs: isLong, durationMs: isLong },
          fault: {
            kind: 'storeError',
            cause: 'division_by_zero',
            code: '22012',
            where: expect.stringContaining('PL/pgSQL function public.listar_academias'),
          },
        },
      ]);
    }));

  const UNREAD = { method: '', path: '', durationMs: 0 };

  test.each<[string, text: string, status: number, line: object]>([
    ['that is not HTTP', 'hello\r\n\r\n', 400, UNREAD],
    ['of CONNECT', 'CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n', 405, { method: 'CONNECT', path: 'x:1', durationMs: 0 }],
    ['without Host', 'GET /v1/alunos HTTP/1.1\r\nConnection: close\r\n\r\n', 400, { path: '/v1/alunos' }],
    ['of HTTP/1.0', 'GET /v1/nada HTTP/1.0\r\n\r\n', 404, { path: '/v1/nada' }],
    [
      'in the form for a proxy',
      'GET http://x/v1/nada?nome=ana HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n',
      404,
      { path: expect.not.stringContaining('?') },
    ],
  ])('has the status and the bytes of one %s', async (_what, text, status, line) => {
    const answer = await sendRaw(gateway.origin, text);
    const [, id = ''] = /^X-Request-Id: (\S+)$/im.exec(answer) ?? [];
    expect(answer).toMatch(new RegExp(`^HTTP/1.1 ${status} `));
    const common = { level: 'info', requestId: id, method: 'GET', path: expect.any(String), status };
    expect(await readLines(id)).toEqual([{ ...REST, ...common, ...line, responseBytes: Buffer.byteLength(answer) }]);
  });
});

describe('the bytes of an answer', () => {
  const request = (target: string, id: string, more = '') =>
    `GET ${target} HTTP/1.1\r\nHost: x\r\nX-Api-Key: ${DEMO_KEY}\r\nX-Request-Id: ${id}\r\n${more}\r\n`;
  /** The bytes of each answer alone. Nothing in them changes its length. */
  const measure = async (target: string) => {
    const id = newId();
    const answer = await sendRaw(gateway.origin, request(target, id, 'Connection: close\r\n'));
    const alone = Buffer.byteLength(answer.replace('Connection: close', 'Connection: keep-alive'));
    // Node adds this header if the connection goes on.
    return alone + 'Keep-Alive: timeout=75\r\n'.length;
  };

  test('are counted per answer for pipelined requests', async () => {
    const sent = [newId(), newId(), newId(), newId()];
    const targets = ['/v1/alunos?limit=50', '/docs/', '/v1/alunos?limit=10', '/v1/academias?limit=1'];
    const connection = await openRaw(gateway.origin);
    connection.socket.write(sent.map((id, n) => request(targets[n] ?? '', id)).join(''));
    await waitFor(() => expect(sent.flatMap((id) => linesOf(id))).toHaveLength(4));
    const total = Buffer.byteLength(connection.read());
    connection.socket.destroy();
    const bytes = sent.map((id) => Number(linesOf(id)[0]?.responseBytes));
    expect(bytes.reduce((sum, size) => sum + size)).toBe(total);
    for (const [n, target] of targets.entries()) {
      expect(bytes[n]).toBe(await measure(target));
    }
  });

  test('after a disconnect only the running request is logged; pipelined ones never start', () =>
    withBody(database.adminUrl, 'listar_academias', 'perform pg_sleep(30)', async () => {
      const sent = [newId(), newId(), newId()];
      const connection = await openRaw(gateway.origin);
      const targets = ['/v1/academias', '/v1/nada', '/v1/academias'];
      connection.socket.write(sent.map((id, n) => request(targets[n] ?? '', id)).join(''));
      await waitFor(async () => {
        const sql = `select application_name from pg_stat_activity where application_name like 'wellness-gateway %' and datname = current_database()`;
        const rows = await database.query(sql);
        expect(rows).toEqual([{ application_name: `wellness-gateway ${sent[0]}` }]);
      });
      connection.socket.resetAndDestroy();
      await gateway.line(({ requestId }) => requestId === sent[0]);
      expect(linesOf(sent[0] ?? '')).toEqual([
        {
          ...{ ...REST, level: 'info', requestId: sent[0], method: 'GET', path: '/v1/academias' },
          ...{ operation: 'listarAcademias', status: 499, storeMs: expect.any(Number), responseBytes: 0 },
        },
      ]);
      for (const other of sent.slice(1)) expect(await readLines(other)).toEqual([]);
    }));
});

describe('the end of a process', () => {
  test('logs every request that was answered before SIGTERM', async () => {
    const acknowledged: string[] = [];
    // The lines are more than a pipe holds.
    const pending = Array.from({ length: 500 }, (_, n) => `kept-${n}-end`);
    const client = async () => {
      for (let id = pending.pop(); id; id = pending.pop()) {
        await (await fetch(`${gateway.origin}/v1/nada`, { headers: { 'X-Request-Id': id } })).text();
        acknowledged.push(id);
      }
    };
    await Promise.all(Array.from({ length: 20 }, client));
    expect(await gateway.stop()).toBe(0);
    const written = [...gateway.output().matchAll(/kept-\d+-end/g)].map(([id]) => id);
    expect(written.toSorted()).toEqual(acknowledged.toSorted());
    expect(written).toHaveLength(500);
  });

  test('writes the lines before a failed start', async () => {
    const dataDir = join(folder, 'none');
    const programs = join(folder, 'programs');
    mkdirSync(programs);
    const write = (name: string, script: string) => writeFileSync(join(programs, name), script, { mode: 0o755 });
    write('postgres', `#!/bin/sh\necho 'postgres (PostgreSQL) 18.4'\n`);
    write('initdb', `#!/bin/sh\necho 'initdb: error: the reason' >&2\nexit 1\n`);
    const env = { DATA_DIR: dataDir, POSTGRES_BIN: programs, PORT: '0' };
    const { code, output, errors } = await runCommand('src/start.js', [], { env });
    expect([code, errors]).toEqual([1, 'Postgres has ended: the reason\n']);
    expect(output).toContain(`Creating a store in ${dataDir}`);
    expect(output.trim().split('\n')).toHaveLength(1);
  });

  test.each<[string, open: () => number | 'pipe']>([
    ['a log pipe that is closed', () => 'pipe'],
    ['a disk without space for the log', () => openSync('/dev/full', 'r+')],
    ['a log pipe whose reader has stopped', () => openSync(createFifo(join(folder, 'stopped')), 'r+')],
  ])('%s fails no request and does not hold up the end', async (_what, open) => {
    const output = open();
    // The log names the port, if it can be read.
    const port = output === 'pipe' ? 0 : await findPort();
    const own = new GatewayProcess({ ...env, PORT: String(port) }, { stdio: ['ignore', output, 'pipe'] });
    onTestFinished(async () => {
      await own.stop('SIGKILL');
      if (output !== 'pipe') closeSync(output);
    });
    if (output === 'pipe') await own.printed(/Listening on .*\n/);
    const origin = output === 'pipe' ? own.origin : `http://127.0.0.1:${port}`;
    await waitFor(async () => expect((await fetch(`${origin}/readyz`)).status).toBe(200));
    own.child.stdout?.destroy();
    // The lines are more than a pipe holds.
    for (let n = 0; n < 80; n += 1) {
      const answer = await fetch(`${origin}/v1/academias`, { headers: { 'X-Api-Key': DEMO_KEY } });
      expect([answer.status, ((await answer.json()) as unknown[]).length > 0]).toEqual([200, true]);
      const long = await fetch(`${origin}/v1/${'nada/'.repeat(200)}`);
      expect([long.status, await long.json()]).toEqual([404, { error: 'Not found' }]);
    }
    expect(await own.stop()).toBe(0);
  });
});

function createFifo(path: string): string {
  execFileSync('mkfifo', [path]);
  return path;
}
