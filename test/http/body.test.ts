import type { OpenAPIV3 } from 'openapi-types';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { document } from '../helpers/api.ts';
import { startGateway, type TestGateway } from '../helpers/gateway.ts';
import { sendRaw } from '../helpers/raw.ts';
import { createStubStore } from '../helpers/stub-store.ts';

const store = createStubStore(() => ({ json: '{}', count: 1 }));
let gateway: TestGateway;

beforeAll(async () => {
  gateway = await startGateway({ store, bodyLimit: 10_000_000 });
});

afterAll(() => gateway.close());

async function post(body: string, headers: Record<string, string> = {}): Promise<[number, unknown]> {
  const init = { method: 'POST', headers: { 'X-Api-Key': 'k', ...headers }, body };
  const answer = await fetch(`${gateway.url}/alunos`, init);
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
  const copy = structuredClone(document) as OpenAPIV3.Document;
  const operation = copy.paths['/alunos']?.post as OpenAPIV3.OperationObject;
  operation.requestBody = {
    required: true,
    content: { 'application/json': { schema: schema as OpenAPIV3.SchemaObject } },
  };
  const other = await startGateway({ store, document: copy, bodyLimit: 10_000_000 });
  const init = {
    method: 'POST',
    headers: { 'X-Api-Key': 'k' },
    body: JSON.stringify({ p_itens: Array(5_000).fill({ b: 1 }) }),
  };
  const answer = await fetch(`${other.url}/alunos`, init);
  expect(answer.status).toBe(422);
  const { error } = (await answer.json()) as { error: Record<string, string[]> };
  expect(Object.keys(error)).toHaveLength(300);
  expect(error['p_itens.0.a']).toEqual(['is required']);
  expect(error.body).toEqual(['has 10000 errors, of which not all are listed']);
  await other.close();
});
