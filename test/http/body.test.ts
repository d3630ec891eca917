import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { documentOf, jsonBody, STUDENT } from '../helpers/api.ts';
import { startGateway, type TestGateway } from '../helpers/gateway.ts';
import { sendRaw } from '../helpers/raw.ts';
import { createStubStore } from '../helpers/stub-store.ts';

const store = createStubStore(() => ({ json: '{}', count: 1 }));
let gateway: TestGateway;

beforeAll(async () => {
  gateway = await startGateway({ store, bodyLimit: 10_000_000 });
});

afterAll(() => gateway.close());

async function post(
  body: string | Uint8Array<ArrayBuffer>,
  headers: Record<string, string> = {},
  to = gateway,
): Promise<[number, unknown]> {
  const init = { method: 'POST', headers: { 'X-Api-Key': 'k', ...headers }, body };
  const answer = await fetch(`${to.url}/alunos`, init);
  return [answer.status, await answer.json()];
}

const toFields = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, n) => [`f${n}`, n]));

test.each([
  ['letters', 'x'.repeat(9_000_000)],
  ['escapes', '\n'.repeat(4_500_000)],
])('a string of 9 MB is read, of %s', async (_what, p_nome) => {
  const [status, body] = await post(JSON.stringify({ p_nome, p_email: 'ana@aurora.example' }));
  expect(status).toBe(422);
  expect(Object.keys((body as { error: object }).error)).toEqual(['p_nome']);
});

test.each([
  [2_500, 422],
  [2_501, 413],
])('a body of 100 kB may have 2,500 chunks: %i are a %i', async (count, status) => {
  const limited = await startGateway({ store });
  const head = 'POST /v1/alunos HTTP/1.1\r\nHost: x\r\nX-Api-Key: k\r\nTransfer-Encoding: chunked\r\n';
  const close = status === 413 ? '' : 'Connection: close\r\n';
  const body = `{}${' '.repeat(count - 2)}`.replace(/./g, '1\r\n$&\r\n');
  const answer = await sendRaw(limited.url, `${head}${close}\r\n${body}0\r\n\r\n`);
  expect(answer).toMatch(new RegExp(`^HTTP/1\\.1 ${status} (.+\r\n)+connection: close\r\n`, 'i'));
  await limited.close();
});

test('reports every invalid field of up to 100', async () => {
  const [status, body] = await post(JSON.stringify(toFields(100)));
  expect(status).toBe(422);
  expect(Object.keys((body as { error: object }).error)).toHaveLength(102);
});

test.each([101, 11_000])('reports only that %i fields are too many', async (count) => {
  const english = { error: { body: ['must not have more than 100 fields'] } };
  expect(await post(JSON.stringify(toFields(count)))).toEqual([422, english]);
  const portuguese = { error: { body: ['Informe no máximo 100 campos'] } };
  expect(await post(JSON.stringify(toFields(count)), { 'Accept-Language': 'pt-BR' })).toEqual([422, portuguese]);
});

test.each([101, 1_000])('reports only that %i parameters are too many', async (count) => {
  const query = new URLSearchParams(Object.keys(toFields(count)).map((name): [string, string] => [name, '']));
  const answer = await fetch(`${gateway.url}/academias?${query}`, { headers: { 'X-Api-Key': 'k' } });
  expect(answer.status).toBe(422);
  expect(await answer.json()).toEqual({ error: { query: ['must not have more than 100 parameters'] } });
});

test('makes no store call for too many fields', () => {
  expect(store.calls).toEqual([]);
});

test('names 300 places and the total for a list with thousands of invalid items', async () => {
  const item = { type: 'object', additionalProperties: false, required: ['a'], properties: { a: { type: 'integer' } } };
  const schema = {
    type: 'object',
    additionalProperties: false,
    properties: { p_itens: { type: 'array', items: item } },
  };
  const other = await startGateway({ store, document: documentOf(jsonBody(schema), '/alunos'), bodyLimit: 10_000_000 });
  const [status, body] = await post(JSON.stringify({ p_itens: Array(5_000).fill({ b: 1 }) }), {}, other);
  expect(status).toBe(422);
  const { error } = body as { error: Record<string, string[]> };
  expect(Object.keys(error)).toHaveLength(300);
  expect(error['p_itens.0.a']).toEqual(['is required']);
  expect(error.body).toEqual(['has 10000 errors, of which not all are listed']);
  await other.close();
});

describe('a body of up to 100 kB', () => {
  const text = JSON.stringify(STUDENT);
  const NOT_JSON = [400, { error: 'Invalid JSON body' }];
  const TOO_LARGE = [413, { error: 'Request body too large' }];
  let limited: TestGateway;

  beforeAll(async () => {
    limited = await startGateway({ store });
  });

  afterAll(() => limited.close());

  const send = (body: string | Uint8Array<ArrayBuffer>, headers: Record<string, string> = {}) =>
    post(body, headers, limited);

  test.each([
    ['UTF-16', Buffer.from(text, 'utf16le')],
    ['Latin-1', Buffer.from('{"p_nome":"Jos\xe9","p_email":"a@b.co"}', 'latin1')],
    ['a surrogate as UTF-8', Buffer.from([0x22, 0xed, 0xa0, 0x80, 0x22])],
  ])('is not JSON in %s', async (_encoding, body) => {
    expect(await send(new Uint8Array(body))).toEqual(NOT_JSON);
  });

  test.each([undefined, 'text/plain', 'application/x-www-form-urlencoded', 'nonsense'])(
    'is read as JSON with Content-Type %s',
    async (type) => {
      const body = new Uint8Array(Buffer.from(text));
      expect((await send(body, type ? { 'Content-Type': type } : {}))[0]).toBe(201);
    },
  );

  test('may begin with a byte order mark', async () => {
    expect((await send(`\uFEFF${text}`))[0]).toBe(201);
  });

  test('of exactly the limit is read, and a byte more is refused, as are 20 MB', async () => {
    expect((await send(text.padEnd(100_000)))[0]).toBe(201);
    expect(await send(text.padEnd(100_001))).toEqual(TOO_LARGE);
    expect(await send(' '.repeat(20_000_000))).toEqual(TOO_LARGE);
  });

  const head = 'POST /v1/alunos HTTP/1.1\r\nHost: x\r\nX-Api-Key: k\r\nConnection: close\r\n';

  test('that says to be too large is refused before any of it comes', async () => {
    for (const expectation of ['', 'Expect: 100-continue\r\n']) {
      const answer = await sendRaw(limited.url, `${head}Content-Length: 10000000000\r\n${expectation}\r\n`);
      expect(answer).toMatch(/^HTTP\/1\.1 413 /);
    }
  });

  test('is asked for when the client waits to be', async () => {
    const expectation = `${head}Expect: 100-continue\r\nContent-Length: ${text.length}\r\n\r\n${text}`;
    const answer = await sendRaw(limited.url, expectation);
    expect(answer).toMatch(/^HTTP\/1\.1 100 Continue\r\n\r\nHTTP\/1\.1 201 Created\r\n/);
  });

  test('is not looked at without a key', async () => {
    const noKey = [400, { error: 'Missing X-Api-Key header' }];
    for (const body of ['{', ' '.repeat(200_000)]) expect(await send(body, { 'X-Api-Key': '' })).toEqual(noKey);
  });

  test('is looked at before the key is verified', async () => {
    store.calls.length = 0;
    expect(await send('{')).toEqual(NOT_JSON);
    expect((await send('{}'))[0]).toBe(422);
    expect(store.calls).toEqual([]);
  });

  const refusal = (fields: object) => [422, { error: fields }];
  const TOO_DEEP = ['must not be nested deeper than 64 levels'];
  const nested = (depth: number) => `${'['.repeat(depth)}${']'.repeat(depth)}`;
  const withField = (value: string) => `{"p_nome":"Ana","p_email":"ana@aurora.example","p_sexo":${value}}`;

  test('that is nested 40,000 deep is no object', async () => {
    expect(await send(nested(40_000))).toEqual(refusal({ body: ['must be object'] }));
  });

  test.each([65, 20_000])('has no field that is nested %i deep', async (depth) => {
    expect(await send(withField(nested(depth)))).toEqual(refusal({ p_sexo: TOO_DEEP }));
  });

  test.each(['"\\ud800"', '"a\\udc00b"', '"\\u0000"'])('has no field that is %s', async (value) => {
    const error = ['must not contain U+0000 or an unpaired surrogate'];
    expect(await send(withField(value))).toEqual(refusal({ p_sexo: error }));
  });

  test('has no name twice, whatever its spelling, and whatever the value that it hides', async () => {
    const hidden = `{"p_sexo":${nested(40_000)},"p_sexo":"x","p_nome":"\\u0000","p_nome":"Ana","p_email":"a@b.co"}`;
    expect(await send(hidden)).toEqual(refusal({ p_sexo: TOO_DEEP, p_nome: ['must be given once'] }));
    expect(await send('{"p_nome":"Ana","p_email":"a@b.co","p_\\u006eome":"Bia"}')).toEqual(
      refusal({ p_nome: ['must be given once'] }),
    );
  });
});
