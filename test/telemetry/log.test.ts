import { execFileSync } from 'node:child_process';
import { closeSync, mkdirSync, mkdtempSync, openSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createLog } from '../../src/telemetry/log.ts';
import { createRecord } from '../../src/telemetry/record.ts';
import { withBody } from '../helpers/function-body.ts';
import { GatewayProcess, type LogLine, startProcess } from '../helpers/process.ts';
import { openRaw, sendRaw } from '../helpers/raw.ts';
import { runCommand } from '../helpers/run.ts';
import { asAdmin, createDatabase, type Database, findPort, loginUrl } from '../helpers/servers.ts';
import { waitFor } from '../helpers/wait-for.ts';

const DEMO_KEY = 'wms_demo_aurora';
const AURORA = 'a0000000-0000-4000-8000-000000000000';
const STUDENT = { p_nome: 'Nome Secreto', p_email: 'secreto@aurora.example' };

const folder = mkdtempSync(join(tmpdir(), 'log-'));
let database: Database;
let env: Record<string, string>;
let gateway: GatewayProcess;
/** Of the length of those that are issued. */
let key: string;

const issue = () =>
  asAdmin(database.adminUrl, async (admin) => {
    const { rows } = await admin.query(`select key from private.issue_key($1, 'Painel')`, [AURORA]);
    return String(rows[0].key);
  });

beforeAll(async () => {
  database = await createDatabase();
  env = { DATABASE_URL: loginUrl(database.adminUrl, 'gateway_test'), DEADLINE_MS: '1000', STORE_CONNECTIONS: '4' };
  gateway = await startProcess(env);
  key = await issue();
});

afterAll(async () => {
  await gateway.stop();
  await database.drop();
  rmSync(folder, { recursive: true });
});

let ids = 0;
/** All of one length, or an answer would not take the same bytes as another. */
const newId = () => {
  ids += 1;
  return `log-${String(ids).padStart(4, '0')}`;
};

const linesOf = (id: string, from = gateway) => from.lines().filter(({ requestId }) => requestId === id);

/** Waits for whatever is logged before another request that follows, and gives the lines of a request. */
async function readLines(id: string, from = gateway): Promise<LogLine[]> {
  const marker = newId();
  await (await fetch(`${from.origin}/marker`, { headers: { 'X-Request-Id': marker } })).text();
  await from.line(({ requestId }) => requestId === marker);
  return linesOf(id, from);
}

/** Sends a request and gives its one line, without what every one has. */
async function lineOf(target: string, init: RequestInit = {}): Promise<LogLine> {
  const id = newId();
  const answer = await fetch(gateway.origin + target, {
    ...init,
    headers: { 'X-Api-Key': DEMO_KEY, 'X-Request-Id': id, ...init.headers },
  });
  await answer.text();
  const lines = await readLines(id);
  expect(lines).toHaveLength(1);
  const { time, requestId, durationMs, responseBytes, ...rest } = lines[0] as LogLine;
  expect(requestId).toBe(id);
  expect(time).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
  expect(Math.abs(Date.now() - Date.parse(String(time)))).toBeLessThan(10_000);
  expect(durationMs).toBeGreaterThan(0);
  expect(responseBytes).toBeGreaterThan(100);
  return rest;
}

describe('the line of a request', () => {
  const STORED = { storeMs: expect.any(Number) };

  test.each<[string, target: string, init: RequestInit, line: object]>([
    ['a success', '/v1/alunos?nome=ana&limit=2', {}, { operation: 'listarAlunos', status: 200, ...STORED }],
    [
      'a creation',
      '/v1/alunos',
      { method: 'POST', body: JSON.stringify(STUDENT) },
      { operation: 'criarAluno', status: 201, ...STORED },
    ],
    ['invalid input, without a store call', '/v1/alunos?limit=0', {}, { operation: 'listarAlunos', status: 422 }],
    ['an unknown path, without an operation', '/v1/nada?x=1', {}, { status: 404 }],
    ['a method that is not allowed', '/v1/alunos', { method: 'DELETE' }, { status: 405 }],
  ])('describes %s', async (_what, target, init, line) => {
    const { method = 'GET' } = init;
    expect(await lineOf(target, init)).toEqual({ level: 'info', method, path: target.replace(/\?.*/, ''), ...line });
  });

  test('has the duration of the store call', () =>
    withBody(database.adminUrl, 'listar_academias', 'perform pg_sleep(0.2)', async () => {
      const id = newId();
      await (
        await fetch(`${gateway.origin}/v1/academias`, { headers: { 'X-Api-Key': DEMO_KEY, 'X-Request-Id': id } })
      ).text();
      const [{ storeMs, durationMs }] = (await readLines(id)) as [{ storeMs: number; durationMs: number }];
      expect(storeMs).toBeGreaterThanOrEqual(200);
      expect(durationMs).toBeGreaterThanOrEqual(storeMs);
    }));

  test.each([
    ['not HTTP', 'hello\r\n\r\n', 400, { method: '', path: '' }],
    [
      'a header that is too large',
      `GET / HTTP/1.1\r\nX-A: ${'a'.repeat(20_000)}\r\n\r\n`,
      431,
      { method: '', path: '' },
    ],
    ['CONNECT', 'CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n', 405, { method: 'CONNECT', path: 'x:1' }],
  ])('describes one that the gateway does not read: %s', async (_what, text, status, rest) => {
    const answer = await sendRaw(gateway.origin, text);
    const [, id = ''] = /^X-Request-Id: (\S+)$/m.exec(answer) ?? [];
    const line = { level: 'info', time: expect.any(String), requestId: id, status, durationMs: 0 };
    expect(await readLines(id)).toEqual([{ ...line, ...rest, responseBytes: Buffer.byteLength(answer) }]);
  });

  test.each([
    ['as it is', (wrong: string) => wrong],
    ['twice', (wrong: string) => `${wrong}, ${wrong}`],
  ])('of a refused key has the first 17 characters of a key of full length, given %s', async (_what, write) => {
    const wrong = key.replace(/.$/, (last) => (last === 'a' ? 'b' : 'a'));
    expect(key).toHaveLength(47);
    expect(await lineOf('/v1/alunos', { headers: { 'X-Api-Key': write(wrong) } })).toEqual({
      level: 'info',
      method: 'GET',
      path: '/v1/alunos',
      operation: 'listarAlunos',
      status: 401,
      storeMs: expect.any(Number),
      keyPrefix: key.slice(0, 17),
    });
  });

  test('has no prefix of a short key', async () => {
    expect(await lineOf('/v1/alunos', { headers: { 'X-Api-Key': key.slice(0, 39) } })).not.toHaveProperty('keyPrefix');
  });

  test('has no control characters of a key', async () => {
    const id = newId();
    const key = `\x9b2J\x9b31m${'a'.repeat(50)}`;
    const head = `Host: x\r\nConnection: close\r\nX-Request-Id: ${id}\r\nX-Api-Key: ${key}\r\n`;
    await sendRaw(gateway.origin, `GET /v1/alunos HTTP/1.1\r\n${head}\r\n`);
    const [line] = await readLines(id);
    expect(line).toMatchObject({ status: 401 });
    expect(line).not.toHaveProperty('keyPrefix');
    expect(gateway.output()).not.toMatch(/[\x7f-\x9f]/);
  });

  test.each([
    ['a path', (secret: string) => `/v1/${secret}`, '/v1/[hidden]'],
    ['a path behind a part of it', (secret: string) => `/v1/alunos/${secret}/x`, '/v1/alunos/[hidden]/x'],
    ['a path with one letter encoded', (secret: string) => `/v1/${secret.replace('m', '%6d')}`, '/v1/[hidden]'],
    ['a parameter of the path', (secret: string) => `/v1/alunos;key=${secret}`, '/v1/alunos;key=[hidden]'],
    ['the query', (secret: string) => `/v1/alunos?key=${secret}`, '/v1/alunos'],
    ['the fragment', (secret: string) => `/v1/alunos#${secret}`, '/v1/alunos'],
  ])('of a key in %s does not have it', async (_what, write, path) => {
    expect(await lineOf(write(key))).toMatchObject({ path });
    expect(gateway.output()).not.toContain(key.slice(-12));
  });

  test('has the cause of a store fault, at level error', () =>
    withBody(database.adminUrl, 'listar_academias', 'raise division_by_zero', async () => {
      expect(await lineOf('/v1/academias', { headers: { 'X-Api-Key': key } })).toEqual({
        level: 'error',
        method: 'GET',
        path: '/v1/academias',
        operation: 'listarAcademias',
        status: 502,
        storeMs: expect.any(Number),
        keyPrefix: key.slice(0, 17),
        fault: {
          kind: 'storeError',
          cause: 'division_by_zero',
          code: '22012',
          where: expect.stringContaining('PL/pgSQL function public.listar_academias'),
        },
      });
    }));

  test("has the client's trace id", async () => {
    const traceparent = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';
    expect(await lineOf('/v1/nada', { headers: { traceparent } })).toMatchObject({
      traceId: '4bf92f3577b34da6a3ce929d0e0e4736',
    });
  });

  test.each([
    ['without Host', 'GET /v1/alunos HTTP/1.1', 400],
    ['with an expectation that is not known', 'GET /v1/alunos HTTP/1.1\r\nHost: x\r\nExpect: 200-maybe', 417],
    ['of HTTP/1.0', 'GET /v1/nada HTTP/1.0', 404],
    ['with a broken URL', 'GET /v1/%ff HTTP/1.1\r\nHost: x', 400],
    ['that has the form for a proxy', 'GET http://x/v1/nada?nome=ana HTTP/1.1\r\nHost: x', 404],
  ])('is written for one %s', async (_what, head, status) => {
    const id = newId();
    const answer = await sendRaw(gateway.origin, `${head}\r\nConnection: close\r\nX-Request-Id: ${id}\r\n\r\n`);
    expect(answer).toMatch(new RegExp(`^HTTP/1.1 ${status} (.+\r\n)+X-Request-Id: ${id}\r\n`, 'i'));
    expect(await readLines(id)).toEqual([
      {
        level: 'info',
        time: expect.any(String),
        requestId: id,
        method: 'GET',
        path: expect.not.stringContaining('?'),
        status,
        durationMs: expect.any(Number),
        responseBytes: Buffer.byteLength(answer),
      },
    ]);
  });
});

describe('the bytes of an answer', () => {
  const request = (target: string, id: string, more = '') =>
    `GET ${target} HTTP/1.1\r\nHost: x\r\nX-Api-Key: ${DEMO_KEY}\r\nX-Request-Id: ${id}\r\n${more}\r\n`;
  const bytesOf = async (id: string) => {
    const lines = await readLines(id);
    expect(lines).toHaveLength(1);
    return lines[0]?.responseBytes;
  };
  /** What each answer alone takes; nothing in them changes its length. */
  const measure = async (target: string) => {
    const id = newId();
    const answer = await sendRaw(gateway.origin, request(target, id, 'Connection: close\r\n'));
    const alone = Buffer.byteLength(answer.replace('Connection: close', 'Connection: keep-alive'));
    // What Node adds where a connection goes on.
    return alone + 'Keep-Alive: timeout=75\r\n'.length;
  };

  test('are counted per answer on a reused connection', async () => {
    const [first, second] = [newId(), newId()];
    const connection = await openRaw(gateway.origin);
    connection.socket.write(request('/v1/alunos?limit=50', first));
    await gateway.line(({ requestId }) => requestId === first);
    connection.socket.write(request('/v1/academias?limit=1', second));
    await gateway.line(({ requestId }) => requestId === second);
    connection.socket.destroy();
    const [long, short] = [await measure('/v1/alunos?limit=50'), await measure('/v1/academias?limit=1')];
    expect(await bytesOf(first)).toBe(long);
    expect(await bytesOf(second)).toBe(short);
  });

  test('are counted per answer for pipelined requests', async () => {
    const sent = [newId(), newId(), newId(), newId()];
    const targets = ['/v1/alunos?limit=50', '/v1/nada', '/v1/alunos?limit=10', '/v1/academias?limit=1'];
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
        const { rows } = await asAdmin(database.adminUrl, (admin) => admin.query(sql));
        expect(rows).toEqual([{ application_name: `wellness-gateway ${sent[0]}` }]);
      });
      connection.socket.resetAndDestroy();
      await gateway.line(({ requestId }) => requestId === sent[0]);
      expect(linesOf(sent[0] ?? '')).toEqual([
        {
          level: 'info',
          time: expect.any(String),
          requestId: sent[0],
          method: 'GET',
          path: '/v1/academias',
          operation: 'listarAcademias',
          status: 499,
          durationMs: expect.any(Number),
          storeMs: expect.any(Number),
          responseBytes: 0,
        },
      ]);
      for (const other of sent.slice(1)) expect(await readLines(other)).toEqual([]);
    }));
});

test('the log contains no key, query or body', () => {
  const output = gateway.output();
  expect(gateway.lines().length).toBeGreaterThan(50);
  for (const secret of [key.slice(17), STUDENT.p_nome, STUDENT.p_email, 'limit=', 'nome=ana', 'only-for-tests']) {
    expect(output.replace(/^.*Demo data: try.*$/m, '')).not.toContain(secret);
  }
  expect(gateway.errors()).toBe('');
});

describe('the level', () => {
  test.each([
    ['debug', ['debug', 'info', 'info', 'error', 'error']],
    ['info', ['info', 'info', 'error', 'error']],
    ['error', ['error', 'error']],
    ['silent', []],
  ] as const)('%s logs as much as it says: probes, requests and faults', (level, expected) => {
    const lines: string[] = [];
    const destination = { write: (line: string) => void lines.push(line), flush: async () => {} };
    const log = createLog({ level, keyHeaders: [], isTerminal: false }, destination);
    const record = createRecord('GET', '/', {});
    const end = (endpoint: string, status: number) =>
      log.request({ ...record, endpoint, status, durationMs: 1, responseBytes: 1 });
    end('/healthz', 200);
    end('none', 404);
    log.info('Listening');
    end('listarAlunos', 502);
    log.fault('A fault', { kind: 'internal', cause: 'unknown' });
    expect(lines.map((line) => JSON.parse(line).level)).toEqual(expected);
  });

  test('info is that of the process', async () => {
    for (const target of ['/healthz', '/readyz', '/metrics']) {
      await (await fetch(gateway.origin + target, { headers: { 'X-Request-Id': target } })).text();
      expect(await readLines(target)).toEqual([]);
    }
  });
});

test('on a terminal has a sentence for each request and its fault', () => {
  let output = '';
  const write = (text: string) => {
    output += text;
  };
  const options = { level: 'info', keyHeaders: ['x-api-key'], isTerminal: true } as const;
  const log = createLog(options, { write, flush: async () => {} });
  const end = (id: string, status: number, more = {}) => {
    const record = createRecord('GET', '/v1/academias?ativo=true', { 'x-api-key': key, 'x-request-id': id });
    log.request({ ...record, endpoint: 'a', status, durationMs: 1.26, storeMs: 1, responseBytes: 10, ...more });
  };
  end('good', 200);
  end('bad', 502, { fault: { kind: 'storeError', cause: { code: '22012', message: 'division_by_zero' } } });
  const sentence = (level: string, status: number, id: string) =>
    new RegExp(
      `^\\[\\d\\d:\\d\\d:\\d\\d\\.\\d{3}\\] ${level}: GET /v1/academias ${status} in 1.3 ms \\(store 1 ms\\) key ${key.slice(0, 17)}… request ${id}$`,
      'm',
    );
  expect(output).toMatch(sentence('INFO', 200, 'good'));
  expect(output).toMatch(sentence('ERROR', 502, 'bad'));
  expect(output).toContain('"cause": "division_by_zero"');
  expect(output).not.toContain('ativo=true');
});

describe('the end of a process', () => {
  test('every request answered before SIGTERM is logged', async () => {
    const own = await startProcess(env);
    const acknowledged: string[] = [];
    // The lines are more than a pipe holds.
    const pending = Array.from({ length: 500 }, (_, n) => `kept-${n}-end`);
    const client = async () => {
      for (let id = pending.pop(); id; id = pending.pop()) {
        await (await fetch(`${own.origin}/v1/nada`, { headers: { 'X-Request-Id': id } })).text();
        acknowledged.push(id);
      }
    };
    await Promise.all(Array.from({ length: 20 }, client));
    expect(await own.stop()).toBe(0);
    const written = [...own.output().matchAll(/kept-\d+-end/g)].map(([id]) => id);
    expect(written.toSorted()).toEqual(acknowledged.toSorted());
    expect(written).toHaveLength(500);
  });

  test('the lines before a failed start are written', async () => {
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

  /** The lines are more than a pipe holds. */
  const useAndStop = async (own: GatewayProcess, origin: string) => {
    for (let n = 0; n < 80; n += 1) {
      const answer = await fetch(`${origin}/v1/academias`, { headers: { 'X-Api-Key': DEMO_KEY } });
      expect([answer.status, ((await answer.json()) as unknown[]).length > 0]).toEqual([200, true]);
      const long = await fetch(`${origin}/v1/${'nada/'.repeat(200)}`);
      expect([long.status, await long.json()]).toEqual([404, { error: 'Not found' }]);
    }
    return own.stop();
  };

  test('a log pipe that is closed fails no request and does not hold up the end', async () => {
    const own = await startProcess(env);
    own.child.stdout?.destroy();
    expect(await useAndStop(own, own.origin)).toBe(0);
  });

  test.each([
    ['a disk without space for the log', () => '/dev/full'],
    ['a log pipe whose reader has stopped', () => createFifo(join(folder, 'stopped'))],
  ])('%s fails no request and does not hold up the end', async (_what, create) => {
    const port = await findPort();
    const output = openSync(create(), 'r+');
    const own = new GatewayProcess({ ...env, PORT: String(port) }, { stdio: ['ignore', output, 'pipe'] });
    const origin = `http://127.0.0.1:${port}`;
    await waitFor(async () => expect((await fetch(`${origin}/readyz`)).status).toBe(200));
    expect(await useAndStop(own, origin)).toBe(0);
    closeSync(output);
  });
});

function createFifo(path: string): string {
  execFileSync('mkfifo', [path]);
  return path;
}
