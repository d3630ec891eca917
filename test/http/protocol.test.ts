import { describe, expect, inject, test } from 'vitest';
import { call, KEYS, lists, operations } from '../helpers/api.ts';
import { openRaw, sendAndReset, sendRaw } from '../helpers/raw.ts';
import { expectSecure } from '../helpers/secure-headers.ts';

const url = inject('url');
const { host } = new URL(url);
const HEAD = `Host: ${host}\r\nX-Api-Key: ${KEYS.aurora}\r\nConnection: close\r\n`;
const GET = `GET /v1/alunos HTTP/1.1\r\n${HEAD}`;
const LONG = 'a'.repeat(20_000);

/** Sends bytes and takes the one answer apart, whose headers have to be those of every answer. */
async function raw(text: string): Promise<{ status: number; body: string }> {
  const [head = '', body = ''] = (await sendRaw(url, text)).split('\r\n\r\n');
  const [first = '', ...lines] = head.split('\r\n');
  const fields = lines.map((line) => line.split(': ')).map(([name = '', value]) => [name.toLowerCase(), value]);
  const headers: Record<string, string> = Object.fromEntries(fields);
  expect(headers['content-type']).toBe('application/json; charset=utf-8');
  expect(headers['x-request-id']).toMatch(/^\S+$/);
  expectSecure(headers);
  return { status: Number(first.split(' ')[1]), body };
}

describe('a path', () => {
  test.each([
    '/',
    '',
    '/alunos/',
    '/aluno',
    '/alunos/1',
    '/ALUNOS',
    '/alunos.json',
    '//alunos',
    '/anamnese',
    '/alunos%2F',
    '/..%2Falunos',
  ])('that is none is not found: %j', async (path) => {
    expect(await call(path)).toMatchObject({ status: 404, body: { error: 'Not found' } });
  });

  test.each(['/', '/v1', '/v2/alunos', '/alunos', '/v1alunos', '/favicon.ico'])(
    'outside of the interface is not found: %s',
    async (path) => {
      const answer = await fetch(new URL(url).origin + path, { headers: { 'X-Api-Key': KEYS.aurora } });
      expect([answer.status, await answer.json()]).toEqual([404, { error: 'Not found' }]);
    },
  );

  test.each(['/alunos%', '/%ff', '/%zz/alunos', '/alunos%ED%A0%80'])(
    'that cannot be decoded is malformed: %s',
    async (path) => {
      expect((await raw(`GET /v1${path} HTTP/1.1\r\n${HEAD}\r\n`)).body).toBe('{"error":"Malformed URL"}');
    },
  );

  test('with characters that are not encoded is malformed', async () => {
    const { status, body } = await raw(`GET /v1/alunos?nome=L\xc3\xadgia HTTP/1.1\r\n${HEAD}\r\n`);
    expect([status, body]).toEqual([400, '{"error":"Malformed URL"}']);
  });

  test('is the same however its characters are encoded', async () => {
    expect((await call('/academias?limit=1')).body).toEqual((await call('/%61cademias?%6Cimit=%31')).body);
  });

  test('may be an absolute URL, as sent to a proxy', async () => {
    const { status } = await raw(`GET http://${host}/v1/academias?limit=1 HTTP/1.1\r\n${HEAD}\r\n`);
    expect(status).toBe(200);
  });

  test('is a 404 even without a key', async () => {
    expect(await call('/nada', { key: null })).toMatchObject({ status: 404 });
    expect(await call('/academias', { key: null, method: 'DELETE' })).toMatchObject({ status: 405 });
  });
});

describe.each(operations)('$path', ({ path }) => {
  const methods = operations.filter((other) => other.path === path).map(({ method }) => method);
  const allow = [...methods, 'HEAD'].sort().join(', ');

  test.each(['PUT', 'PATCH', 'DELETE', 'OPTIONS', 'POST', 'PROPFIND'].filter((method) => !methods.includes(method)))(
    'does not allow %s',
    async (method) => {
      const answer = await call(path, { method, body: '' });
      expect(answer).toMatchObject({ status: 405, body: { error: 'Method not allowed' } });
      expect(answer.headers.get('allow')).toBe(allow);
    },
  );
});

describe.each(lists)('HEAD $path', ({ path }) => {
  test.each(['?limit=2', '?limit=1&offset=1', '?limit=0'])('is GET without the body: %s', async (query) => {
    const options = { headers: { 'Accept-Language': 'pt-BR' } };
    const [get, head] = [await call(path + query, options), await call(path + query, { ...options, method: 'HEAD' })];
    expect(head.status).toBe(get.status);
    expect(head.body).toBe('');
    const hop = ['date', 'connection', 'keep-alive', 'x-request-id'];
    const headers = (answer: typeof get) => [...answer.headers].filter(([name]) => !hop.includes(name));
    expect(headers(head)).toEqual(headers(get));
  });
});

describe('a request that is not HTTP as it should be', () => {
  test.each([
    ['no HTTP at all', 'hello\r\n\r\n'],
    ['an unknown method', `FETCH /v1/alunos HTTP/1.1\r\n${HEAD}\r\n`],
    ['another protocol', `GET /v1/alunos SPDY/3\r\n${HEAD}\r\n`],
    ['a space in the path', `GET /v1/alu nos HTTP/1.1\r\n${HEAD}\r\n`],
    ['a header without a name', `${GET}: x\r\n\r\n`],
    ['a header with a control character', `${GET}X-A: \x01\r\n\r\n`],
    ['two lengths', `POST /v1/alunos HTTP/1.1\r\n${HEAD}Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}`],
    ['a length that is none', `POST /v1/alunos HTTP/1.1\r\n${HEAD}Content-Length: x\r\n\r\n{}`],
    [
      'a length and chunks',
      `POST /v1/alunos HTTP/1.1\r\n${HEAD}Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
    ],
    [
      'a chunk of a size that is none',
      `POST /v1/alunos HTTP/1.1\r\n${HEAD}Transfer-Encoding: chunked\r\n\r\nzz\r\n\r\n`,
    ],
    ['two Hosts', `${GET}Host: ${host}\r\n\r\n`],
    ['a Host that is none', `GET /v1/alunos HTTP/1.1\r\nHost: a b/@c\r\nConnection: close\r\n\r\n`],
    ['an empty Host', `GET /v1/alunos HTTP/1.1\r\nHost:\r\nConnection: close\r\n\r\n`],
    ['no Host', `GET /v1/alunos HTTP/1.1\r\nX-Api-Key: ${KEYS.aurora}\r\nConnection: close\r\n\r\n`],
  ])('is refused: %s', async (_what, text) => {
    const { status, body } = await raw(text);
    expect(status).toBe(400);
    expect(JSON.parse(body)).toEqual({ error: expect.stringMatching(/^(Bad request|Invalid JSON body)$/) });
  });

  test.each([
    [405, 'Method not allowed', 'CONNECT', `CONNECT ${host} HTTP/1.1\r\n${HEAD}\r\n`],
    [408, 'Request timeout', 'a head without an end', 'GET /v1/alunos HTTP/1.1\r\nHost: x\r\n'],
    [417, 'Expectation failed', 'an expectation that is not known', `${GET}Expect: the-impossible\r\n\r\n`],
    [431, 'Request header fields too large', 'a header that is too large', `${GET}X-A: ${LONG}\r\n\r\n`],
    [431, 'Request header fields too large', 'a URL that is too long', `GET /v1/${LONG} HTTP/1.1\r\n${HEAD}\r\n`],
  ])('is a %i, %s: %s', async (expected, error, _what, text) => {
    const { status, body } = await raw(text);
    expect([status, JSON.parse(body)]).toEqual([expected, { error }]);
  });
});

describe('headers that a client may send twice', () => {
  test.each(['Accept: */*', 'Content-Type: text/plain', 'User-Agent: x', 'X-Nobody: y'])('%s', async (line) => {
    const { status } = await raw(`GET /v1/academias HTTP/1.1\r\n${HEAD}${line}\r\n${line}\r\n\r\n`);
    expect(status).toBe(200);
  });

  test('HTTP/1.0 works, without Host too', async () => {
    const { status } = await raw(`GET /v1/academias HTTP/1.0\r\nX-Api-Key: ${KEYS.aurora}\r\n\r\n`);
    expect(status).toBe(200);
  });

  test('ignores an unknown upgrade and reads no request behind it', async () => {
    const { socket, read, ended } = await openRaw(url);
    const get = `GET /v1/academias HTTP/1.1\r\nHost: ${host}\r\nX-Api-Key: ${KEYS.aurora}\r\n`;
    socket.write(`${get}Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n${get}\r\n`);
    await ended;
    socket.destroy();
    expect(read()).toMatch(/^HTTP\/1\.1 200 OK\r\n(.+\r\n)*Connection: close\r\n/);
    expect(read().match(/HTTP\/1\.1/g)).toHaveLength(1);
  });

  test.each(['gym.example', 'gym.example:3000', '127.0.0.1', '[::1]:3000', 'gym_1.example:'])(
    'Host is any host: %s',
    async (other) => {
      const { status } = await raw(`GET /v1/academias HTTP/1.1\r\n${HEAD.replace(host, other)}\r\n`);
      expect(status).toBe(200);
    },
  );
});

test('a GET may have a body, which nobody reads', async () => {
  const { status } = await raw(`GET /v1/academias HTTP/1.1\r\n${HEAD}Content-Length: 5\r\n\r\nhello`);
  expect(status).toBe(200);
});

test('a reset connection does not affect other clients', async () => {
  const texts = [
    `CONNECT ${host} HTTP/1.1\r\n${HEAD}\r\n`,
    'hello\r\n\r\n',
    `${GET}\r\n`,
    `${GET}Expect: x\r\n\r\n`,
    `POST /v1/alunos HTTP/1.1\r\n${HEAD}Content-Length: 100\r\n\r\n{`,
  ];
  for (const text of texts) for (let i = 0; i < 10; i += 1) await sendAndReset(url, text);
  expect((await call('/academias')).status).toBe(200);
});

test.each([
  ['CONNECT', `CONNECT ${host} HTTP/1.1\r\n${HEAD}\r\n`],
  ['what is no HTTP', 'hello\r\n\r\n'],
])('the connection is closed after %s, though the client keeps its side open', async (_what, text) => {
  const { socket, ended } = await openRaw(url);
  socket.write(text);
  await ended;
  // To a connection that is closed on the other side the second write fails.
  const writing = setInterval(() => socket.write('more'), 20);
  await new Promise((resolve) => socket.once('close', resolve).once('error', resolve));
  clearInterval(writing);
  expect(socket.destroyed).toBe(true);
});

test('invalid HTTP behind a request does not replace its answer', async () => {
  const { socket, read, ended } = await openRaw(url);
  socket.write(`GET /v1/alunos?limit=1000 HTTP/1.1\r\nHost: ${host}\r\nX-Api-Key: ${KEYS.aurora}\r\n\r\nhello\r\n\r\n`);
  await ended;
  expect(read()).toMatch(/^HTTP\/1\.1 200 OK\r\n(.+\r\n)*Connection: close\r\n/);
  expect(read().match(/HTTP\/1\.1/g)).toHaveLength(1);
  socket.destroy();
});

describe('requests that are sent before their answers are read', () => {
  const toRequests = (count: number) => {
    const get = `GET /v1/academias?limit=1 HTTP/1.1\r\nHost: ${host}\r\nX-Api-Key: ${KEYS.aurora}\r\n`;
    return `${`${get}\r\n`.repeat(count - 1)}${get}Connection: close\r\n\r\n`;
  };

  test('are answered in turn', async () => {
    const answers = await sendRaw(url, toRequests(32));
    expect(answers.match(/HTTP\/1\.1 200 OK\r\n/g)).toHaveLength(32);
  });

  test('close the connection if there are too many', async () => {
    const { socket, read, ended } = await openRaw(url);
    socket.write(toRequests(200));
    await ended;
    socket.destroy();
    expect(read().match(/HTTP\/1\.1 200 OK\r\n/g) ?? []).toHaveLength(0);
    expect(await call('/academias')).toMatchObject({ status: 200 });
  });
});
