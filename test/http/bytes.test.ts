// Tests of the bytes of a connection: how they are split into requests, who writes or closes when, and how many are unread.

import { EventEmitter, once } from 'node:events';
import type { ServerResponse } from 'node:http';
import { gunzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest';
import { createMemoryBudget, limitReading } from '../../src/http/memory.ts';
import type { Result } from '../../src/store/store.ts';
import type { EndedRequest } from '../../src/telemetry/record.ts';
import { STUDENT } from '../helpers/api.ts';
import { startGateway, startOwnGateway, type TestGateway } from '../helpers/gateway.ts';
import { openRaw, sendAndReset, sendRaw } from '../helpers/raw.ts';
import { expectSecure } from '../helpers/secure-headers.ts';
import { send } from '../helpers/send.ts';
import { createStubStore, createStudents } from '../helpers/stub-store.ts';
import { waitFor } from '../helpers/wait-for.ts';

const students = createStudents(1_000);
const never = new AbortController().signal;
const store = createStubStore((call) =>
  call.returns === 'rows' ? students.call(call, never) : { json: '{}', count: 1 },
);

let gateway: TestGateway;

beforeAll(async () => {
  gateway = await startGateway({ store });
});

afterAll(() => gateway.close());

const HEAD = 'Host: x\r\nX-Api-Key: k\r\n';
const CLOSE = `${HEAD}Connection: close\r\n`;
const GET = `GET /v1/alunos?limit=1 HTTP/1.1\r\n${CLOSE}`;
const POST = `POST /v1/alunos HTTP/1.1\r\n${HEAD}`;
const LONG = 'a'.repeat(20_000);
const BODY = JSON.stringify(STUDENT);
const get = (path: string, more = '') => `GET /v1${path} HTTP/1.1\r\n${HEAD}${more}\r\n`;
const statusesOf = (text: string) => [...text.matchAll(/HTTP\/1\.1 (\d+)/g)].map(([, status]) => Number(status));

/** Sends bytes and parses the one answer, which must have the headers of every answer. */
async function raw(text: string): Promise<{ status: number; body: string }> {
  const [head = '', body = ''] = (await sendRaw(gateway.url, text)).split('\r\n\r\n');
  const [first = '', ...lines] = head.split('\r\n');
  const fields = lines.map((line) => line.split(': ')).map(([name = '', value]) => [name.toLowerCase(), value]);
  const headers: Record<string, string> = Object.fromEntries(fields);
  if (!first.includes(' 304 ')) expect(headers['content-type']).toBe('application/json; charset=utf-8');
  expect(headers['x-request-id']).toMatch(/^\S+$/);
  expect(headers.date).toMatch(/ GMT$/);
  expectSecure(headers);
  return { status: Number(first.split(' ')[1]), body };
}

async function open(to = gateway): ReturnType<typeof openRaw> {
  const opened = await openRaw(to.url);
  onTestFinished(() => void opened.socket.destroy());
  return opened;
}

/** Everything that the gateway answers to these bytes, until it closes its side. */
async function exchange(text: string): Promise<string> {
  const { socket, read, ended } = await open();
  socket.write(text);
  await ended;
  return read();
}

/** Sends a request on a socket that reads nothing. */
async function askSilently(to: TestGateway, text: string): ReturnType<typeof openRaw> {
  const opened = await open(to);
  opened.socket.pause().write(text);
  return opened;
}

const isServing = async (to = gateway) =>
  expect((await send(`${to.url}/alunos`, { headers: { 'X-Api-Key': 'k' } })).status).toBe(200);

/** Requests a list. Returns what the answer says about an overload. */
const ask = async ({ url }: TestGateway) => {
  const answer = await fetch(`${url}/academias`, { headers: { 'X-Api-Key': 'k' } });
  return { status: answer.status, retryAfter: answer.headers.get('Retry-After'), body: await answer.text() };
};

describe('a request', () => {
  test.each([
    ['no HTTP at all', 'hello\r\n\r\n'],
    ['a length and chunks', `${POST}Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`],
    ['chunks of another coding', `${POST}Transfer-Encoding: gzip, chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n`],
    ['chunks in HTTP/1.0', `${POST.replace('1.1', '1.0')}Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n`],
    ['a chunk of a size that is none', `${POST}Transfer-Encoding: chunked\r\n\r\nzz\r\n\r\n`],
    ['two Hosts', `${GET}Host: x\r\n\r\n`],
    ['a Host that is none', 'GET /v1/alunos HTTP/1.1\r\nHost: a b/@c\r\nConnection: close\r\n\r\n'],
    ['an empty Host', 'GET /v1/alunos HTTP/1.1\r\nHost:\r\nConnection: close\r\n\r\n'],
    ['no Host', 'GET /v1/alunos HTTP/1.1\r\nConnection: close\r\n\r\n'],
  ])('that is not HTTP as it should be is refused: %s', async (_what, text) => {
    const { status, body } = await raw(text);
    expect(status).toBe(400);
    expect(body).toMatch(/^\{"error":"(Bad request|Invalid JSON body)"\}$/);
  });

  test.each([
    [
      400,
      'Malformed URL',
      'characters that are not encoded',
      `GET /v1/alunos?nome=L\xc3\xadgia HTTP/1.1\r\n${CLOSE}\r\n`,
    ],
    [405, 'Method not allowed', 'CONNECT', `CONNECT x HTTP/1.1\r\n${CLOSE}\r\n`],
    [408, 'Request timeout', 'a head without an end', 'GET /v1/alunos HTTP/1.1\r\nHost: x\r\n'],
    [417, 'Expectation failed', 'an expectation that is not known', `${GET}Expect: the-impossible\r\n\r\n`],
    [431, 'Request header fields too large', 'a header that is too large', `${GET}X-A: ${LONG}\r\n\r\n`],
    [431, 'Request header fields too large', 'a URL that is too long', `GET /v1/${LONG} HTTP/1.1\r\n${CLOSE}\r\n`],
  ])('is a %i, %s: %s', async (status, error, _what, text) => {
    expect(await raw(text)).toEqual({ status, body: JSON.stringify({ error }) });
  });

  test.each<readonly [what: string, text: string]>([
    ['to an absolute URL, as sent to a proxy', `GET http://x/v1/alunos?limit=1 HTTP/1.1\r\n${CLOSE}\r\n`],
    ...['Accept: */*', 'Content-Type: text/plain', 'User-Agent: x', 'X-Nobody: y'].map(
      (line) => [`with two lines ${line}`, `${GET}${line}\r\n${line}\r\n\r\n`] as const,
    ),
    ...['gym.example', 'gym.example:3000', '127.0.0.1', '[::1]:3000', 'gym_1.example:'].map(
      (host) => [`to the Host ${host}`, `${GET.replace('Host: x', `Host: ${host}`)}\r\n`] as const,
    ),
    ['of HTTP/1.0, without Host too', 'GET /v1/alunos?limit=1 HTTP/1.0\r\nX-Api-Key: k\r\n\r\n'],
    ['to GET with a body, which nobody reads', `${GET}Content-Length: 5\r\n\r\nhello`],
  ])('is served %s', async (_what, text) => {
    expect((await raw(text)).status).toBe(200);
  });

  test('joins the keys of two header lines, which is no valid key, and reads their tags as a list', async () => {
    store.calls.length = 0;
    expect(await raw(`${GET}X-Api-Key: k\r\nIf-None-Match: "a"\r\nIf-None-Match: *\r\n\r\n`)).toMatchObject({
      status: 200,
    });
    const [, tag = ''] = /etag: (\S+)/i.exec(await exchange(`${GET}\r\n`)) ?? [];
    expect(await raw(`${GET}If-None-Match: "a"\r\nIf-None-Match: ${tag}\r\n\r\n`)).toEqual({ status: 304, body: '' });
    expect(store.calls.map(({ args }) => args.p_api_key)).toEqual(['k, k', 'k', 'k']);
  });
});

describe('a body', () => {
  test.each([
    [2_500, 201],
    [2_501, 413],
  ])('of 100 kB may have 2,500 chunks: %i are a %i', async (count, status) => {
    const close = status === 413 ? '' : 'Connection: close\r\n';
    const body = `${BODY}${' '.repeat(count - BODY.length)}`.replace(/./g, '1\r\n$&\r\n');
    const answer = await sendRaw(gateway.url, `${POST}Transfer-Encoding: chunked\r\n${close}\r\n${body}0\r\n\r\n`);
    expect(answer).toMatch(new RegExp(`^HTTP/1\\.1 ${status} (.+\r\n)+connection: close\r\n`, 'i'));
  });

  test.each(['', 'Expect: 100-continue\r\n'])(
    'that is announced as too large is refused before it comes: %j',
    async (expectation) => {
      const { status } = await raw(`${POST}Connection: close\r\nContent-Length: 10000000000\r\n${expectation}\r\n`);
      expect(status).toBe(413);
    },
  );

  test('is asked for if the client waits for that', async () => {
    const head = `${POST}Connection: close\r\nExpect: 100-continue\r\nContent-Length: ${BODY.length}\r\n\r\n`;
    const answer = await sendRaw(gateway.url, head + BODY);
    expect(answer).toMatch(/^HTTP\/1\.1 100 Continue\r\n\r\nHTTP\/1\.1 201 Created\r\n/);
    expect(await sendRaw(gateway.url, head.replace('HTTP/1.1', 'HTTP/1.0') + BODY)).toMatch(/^HTTP\/1\.1 201 Created/);
  });
});

describe('a connection', () => {
  test.each([
    ['an unknown upgrade', get('/alunos', 'Connection: Upgrade\r\nUpgrade: websocket\r\n') + get('/alunos')],
    ['invalid HTTP behind a request', `${get('/alunos?limit=1000')}hello\r\n\r\n`],
  ])('has one answer, and is closed, after %s', async (_what, text) => {
    const answers = await exchange(text);
    expect(answers).toMatch(/^HTTP\/1\.1 200 OK\r\n(.+\r\n)*Connection: close\r\n/);
    expect(statusesOf(answers)).toEqual([200]);
  });

  test.each([
    ['CONNECT', `CONNECT x HTTP/1.1\r\n${CLOSE}\r\n`],
    ['what is no HTTP', 'hello\r\n\r\n'],
  ])('is closed after %s, though the client keeps its side open', async (_what, text) => {
    const { socket, ended } = await open();
    socket.write(text);
    await ended;
    // If the gateway has closed the connection, the second write fails.
    const writing = setInterval(() => socket.write('more'), 20);
    await new Promise((resolve) => socket.once('close', resolve).once('error', resolve));
    clearInterval(writing);
    expect(socket.destroyed).toBe(true);
  });

  test('that is reset does not affect other clients', async () => {
    const posted = `${POST}Content-Length: 100\r\n\r\n{`;
    const texts = [
      `CONNECT x HTTP/1.1\r\n${CLOSE}\r\n`,
      'hello\r\n\r\n',
      `${GET}\r\n`,
      `${GET}Expect: x\r\n\r\n`,
      posted,
    ];
    for (const text of texts) for (let i = 0; i < 10; i += 1) await sendAndReset(gateway.url, text);
    await isServing();
  });

  test('has its requests answered in turn, while others have theirs', async () => {
    const ends: ((result: Result) => void)[] = [];
    const slow = createStubStore(() => new Promise((resolve) => ends.push(resolve)));
    const slowly = await startOwnGateway({ store: slow, deadlineMs: 600_000 });
    const { socket, read } = await open(slowly);
    socket.write(get('/alunos?limit=1') + get('/alunos?limit=2') + get('/nada') + get('/alunos?limit=3'));
    await waitFor(() => expect(ends).toHaveLength(1));
    const other = isServing(slowly);
    await waitFor(() => expect(ends).toHaveLength(2));
    const end = (call: number) => ends[call]?.({ json: '[]', count: 0 });
    end(1);
    await other;
    for (const [call, next] of [
      [0, 3],
      [2, 4],
    ] as const) {
      end(call);
      await waitFor(() => expect(ends).toHaveLength(next));
    }
    end(3);
    await waitFor(() => expect(statusesOf(read())).toEqual([200, 200, 404, 200]));
    expect(slow.calls.map(({ args }) => args.p_limit)).toEqual([1, 100, 2, 3]);
  });

  test.each([
    [32, Array(32).fill(200)],
    [200, []],
  ])('may have 32 requests that wait: %i', async (count, statuses) => {
    const text = `${get('/alunos?limit=1').repeat(count - 1)}${GET}\r\n`;
    expect(statusesOf(await exchange(text))).toEqual(statuses);
    await isServing();
  });
});

test('a stalled body is a 408 during a stop too, which need not wait for the rest', async () => {
  const stopped = await startOwnGateway({ store });
  const { socket, read, ended } = await open(stopped);
  const begun = once(stopped.server, 'request');
  socket.write(`${POST}Content-Type: application/json\r\nContent-Length: 20\r\n\r\n{`);
  await begun;
  // Instead of 10 s. It applies from the next check on.
  stopped.server.requestTimeout = 1;
  const drained = stopped.server.drain({ noticeMs: 0, finishMs: 60_000 });
  await ended;
  expect(statusesOf(read())).toEqual([408]);
  await drained;
});

test('a request that was answered before its body came has no second answer', async () => {
  const own = await startOwnGateway({ store });
  const { socket, read, ended } = await open(own);
  socket.write(get('/alunos?limit=1', 'Content-Length: 20\r\n'));
  await waitFor(() => expect(statusesOf(read())).toEqual([200]));
  own.server.requestTimeout = 1;
  await ended;
  expect(statusesOf(read())).toEqual([200]);
});

describe('while a client reads nothing', () => {
  /** Starts a gateway with long lists, and a client that has requested them and reads nothing. */
  async function startUnread(requests: string, length = 8_000_000) {
    const long = createStubStore(() => ({ json: JSON.stringify('x'.repeat(length)), count: 1 }));
    const logged: EndedRequest[] = [];
    const stopped = await startOwnGateway({ store: long, onEnd: (request) => logged.push(request) });
    const client = await askSilently(stopped, requests);
    await waitFor(() => expect(long.calls).toHaveLength(1));
    return { long, stopped, client, logged };
  }

  /** Stops a gateway while a client begins to read. Returns everything that the client has read. */
  async function readDuringStop({ server }: TestGateway, client: Awaited<ReturnType<typeof openRaw>>): Promise<string> {
    const drained = server.drain({ noticeMs: 0, finishMs: 60_000 });
    client.socket.resume();
    await client.ended;
    client.socket.end();
    await drained;
    return client.read();
  }

  test('only one answer is in memory', async () => {
    const { long, stopped } = await startUnread(get('/alunos').repeat(32));
    await isServing(stopped);
    expect(long.calls).toHaveLength(2);
  });

  test('an unreadable body behind its answer is answered once, during a stop too', async () => {
    const { stopped, client, logged } = await startUnread(get('/alunos'));
    const failed = once(stopped.server, 'clientError');
    client.socket.write(`${POST}Transfer-Encoding: chunked\r\n\r\nzz\r\n`);
    await failed;
    const text = await readDuringStop(stopped, client);
    expect(statusesOf(text)).toEqual([200, 400]);
    const [, id] = /400 Bad Request\r\n.*?X-Request-Id: (\S+)/s.exec(text) ?? [];
    await waitFor(() => expect(logged.filter((one) => one.id === id).map(({ status }) => status)).toEqual([400]));
    expect(logged).toHaveLength(2);
    expect(stopped.faults).toEqual([]);
  });

  test('a stop gives it the whole answer', async () => {
    const { stopped, client } = await startUnread(get('/alunos'), 20_000_000);
    expect((await readDuringStop(stopped, client)).length).toBeGreaterThan(20_000_000);
  });
});

describe('while an answer is compressed', () => {
  const LIST = get('/alunos?limit=1000', 'Accept-Encoding: gzip\r\n');

  /** A gateway that calls `act` as soon as it compresses an answer. */
  const startWith = (act: () => void) =>
    startOwnGateway({
      store: createStubStore((call) => {
        setImmediate(act);
        return students.call(call, never);
      }),
    });

  test('a stop waits for it', async () => {
    let drained: Promise<void> | undefined;
    const stopped = await startWith(() => {
      drained = stopped.server.drain({ noticeMs: 0, finishMs: 5_000 });
    });
    const headers = { 'X-Api-Key': 'k', 'Accept-Encoding': 'gzip' };
    const answer = await send(`${stopped.url}/alunos?limit=1000`, { headers });
    expect([answer.status, answer.headers.connection]).toEqual([200, 'close']);
    expect(JSON.parse(gunzipSync(answer.bytes).toString())).toHaveLength(1_000);
    await drained;
  });

  test('an unreadable request behind it does not corrupt it', async () => {
    const broken = await startWith(() => client.socket.write('NO HTTP\r\n\r\n'));
    const client = await open(broken);
    client.socket.write(LIST);
    await client.ended;
    expect(statusesOf(client.read())).toEqual([200]);
  });

  test('clients that go away in the middle of it harm nobody', async () => {
    for (let n = 0; n < 20; n += 1) {
      const { socket, read } = await openRaw(gateway.url);
      // Several on one connection, so that most of them are waiting when it ends.
      socket.write(LIST.repeat(5));
      await once(socket, 'data');
      expect(read()).toMatch(/^HTTP\/1\.1 200 OK\r\n/);
      if (n % 2 === 0) socket.resetAndDestroy();
      else socket.destroy();
    }
    await isServing();
    expect(gateway.faults).toEqual([]);
  });
});

test('refuses lists, but not creations, while too many bytes are unread', async () => {
  const json = JSON.stringify('x'.repeat(8_000_000));
  const store = createStubStore(({ returns }) => ({ json: returns === 'row' ? '{}' : json, count: 1 }));
  const gateway = await startOwnGateway({ store, unreadLimit: 12_000_000 });
  const silent = await askSilently(gateway, get('/academias'));
  await waitFor(async () =>
    expect(await ask(gateway)).toEqual({ status: 502, retryAfter: '1', body: '{"error":"Data store unavailable"}' }),
  );
  expect(gateway.faults.at(-1)).toMatchObject({
    kind: 'storeOverloaded',
    cause: expect.stringMatching(/^\d+ bytes wait for clients/),
  });
  const created = await fetch(`${gateway.url}/alunos`, { method: 'POST', headers: { 'X-Api-Key': 'k' }, body: BODY });
  expect(created.status).toBe(201);
  silent.socket.destroy();
  await waitFor(async () => expect(await ask(gateway)).toMatchObject({ status: 200 }));
});

test('refuses long bodies, but not short ones, while too many bytes of one network wait for the rest', async () => {
  const gateway = await startOwnGateway({ store, unreadLimit: 400_000 });
  const begin = async () => {
    const opened = await open(gateway);
    opened.socket.write(`${POST}Content-Length: 90000\r\n\r\n${LONG.repeat(4)}`);
    return opened;
  };
  const first = await begin();
  const second = await begin();
  await waitFor(() => expect(first.read() + second.read()).toMatch(/^HTTP\/1\.1 502 .*Retry-After: 1\r\n/s));
  expect(gateway.faults).toEqual([expect.objectContaining({ kind: 'storeOverloaded' })]);
  const created = await fetch(`${gateway.url}/alunos`, { method: 'POST', headers: { 'X-Api-Key': 'k' }, body: BODY });
  expect(created.status).toBe(201);
  for (const { socket } of [first, second]) socket.destroy();
  await waitFor(async () => {
    const { socket, read } = await begin();
    socket.end(LONG.slice(10_000));
    await waitFor(() => expect(read()).not.toBe(''));
    expect(read()).toMatch(/^HTTP\/1\.1 400 /);
  });
});

test('sockets beyond the limit are closed, and counted, and those within it are served', async () => {
  const gateway = await startOwnGateway({ store: createStubStore(), maxSockets: 2 });
  const first = await open(gateway);
  const second = await open(gateway);
  const third = await open(gateway);
  await third.ended;
  // Otherwise a worker would return it to the primary process, which would offer it again and again.
  expect(gateway.server).toMatchObject({ maxConnections: 2, dropMaxConnection: true });
  first.socket.write(get('/academias'));
  await waitFor(() => expect(first.read()).toMatch(/^HTTP\/1\.1 200 /));
  expect(gateway.server.sockets()).toEqual({ open: 2, refused: 1 });
  second.socket.destroy();
  await waitFor(() => expect(gateway.server.sockets().open).toBe(1));
  expect(await ask(gateway)).toMatchObject({ status: 200 });
});

describe('unread answers', () => {
  const toAnswer = (writableLength = 0) =>
    Object.assign(new EventEmitter(), {
      closed: false,
      socket: { writableLength, destroy: vi.fn() },
    }) as unknown as ServerResponse & { socket: { destroy: () => void } };

  test('of one key take a quarter of the limit at most, and those of others the rest', () => {
    const unread = createMemoryBudget(1_000_000);
    const first = toAnswer();
    expect(unread.admit(first, 'a', 900_000)).toBe(true);
    expect(unread.admit(toAnswer(), 'b', 100_000)).toBe(true);
    expect(unread.admit(toAnswer(), 'c', 100_000)).toBe(false);
    first.emit('close');
    expect(unread.bytes).toBe(100_000);
    expect(unread.admit(toAnswer(), 'b', 150_000)).toBe(true);
    expect(unread.admit(toAnswer(), 'b', 1)).toBe(false);
    expect(unread.admit(toAnswer(), 'c', 700_000)).toBe(true);
    expect(unread.admit(toAnswer(), 'd', 1)).toBe(true);
    expect(unread.bytes).toBe(950_001);
  });

  test('always have room for a single one', () => {
    expect(createMemoryBudget(0).admit(toAnswer(), 'a', 8_000_000)).toBe(true);
    // A body that comes in parts.
    const incoming = createMemoryBudget(0);
    expect([incoming.take('a', 4_000), incoming.take('a', 9_000, 4_000), incoming.take('b', 1)]).toEqual([
      ...[true, true, false],
    ]);
  });

  test('to a client that is gone do not count', () => {
    const unread = createMemoryBudget(1_000_000);
    unread.admit(Object.assign(toAnswer(), { closed: true }), 'a', 50_000);
    expect(unread.bytes).toBe(0);
  });

  test('have 30 s to be read, and a second more for each 32 kB', () => {
    vi.useFakeTimers();
    const [slow, quick, taken] = [toAnswer(320_000), toAnswer(320_000), toAnswer(0)];
    for (const res of [slow, quick, taken]) limitReading(res);
    quick.emit('close');
    vi.advanceTimersByTime(39_999);
    expect(slow.socket.destroy).not.toHaveBeenCalled();
    vi.advanceTimersByTime(1);
    expect(slow.socket.destroy).toHaveBeenCalledTimes(1);
    for (const res of [quick, taken]) expect(res.socket.destroy).not.toHaveBeenCalled();
    vi.useRealTimers();
  });
});
