import type { OpenAPIV3 } from 'openapi-types';
import { expect, test } from 'vitest';
import { readExamples } from '../../src/openapi/examples.ts';

const id = { name: 'id', in: 'path', required: true, schema: { type: 'string', example: 'a b' } } as const;
const unit = { name: 'unidade', in: 'query', required: true, schema: { type: 'string' }, example: 'kg' } as const;
const order = { name: 'ordem', in: 'query', schema: { type: 'string' }, example: 'nome' } as const;
const body = { content: { 'application/json': { example: { peso: 70 } } } };
const missing = { content: { 'application/json': { example: { error: 'Nada aqui' } } } };
const success = { description: '', content: { 'application/json': { example: { peso: 70 } } } };

function readFrom(operation: object, others = {}) {
  const paths = { '/pesos/{id}': { put: { operationId: 'pesar', responses: {}, ...operation } } };
  const document = { openapi: '3.0.3', info: { title: 'Pesos', version: '1' }, paths, ...others };
  return readExamples(document as unknown as OpenAPIV3.Document);
}

test('an unnamed example of a success is sent, with the examples of the body and of required parameters', () => {
  const responses = { 200: success, 404: { description: '', ...missing } };
  const examples = readFrom({ parameters: [id, unit, order], requestBody: body, responses });
  expect(examples).toMatchObject([
    {
      name: 'example',
      status: 200,
      request: { method: 'PUT', target: '/pesos/a%20b?unidade=kg', body: '{"peso":70}' },
      value: { peso: 70 },
    },
  ]);
});

test('an unnamed example is not sent if a required input has no example', () => {
  const responses = { 200: success };
  const required = { ...order, required: true, example: undefined };
  expect(readFrom({ parameters: [id, required], requestBody: body, responses })).toEqual([]);
  const requestBody = { required: true, content: { 'application/json': {} } };
  expect(readFrom({ parameters: [id], requestBody, responses })).toEqual([]);
});

test('a named example of an error says which request leads to it, or an input has an example of its name', () => {
  const named = { nada: { value: { error: 'Nada aqui' } } };
  const responses = { 200: success, 404: { description: '', content: { 'application/json': { examples: named } } } };
  const isSent = (parameter: object) =>
    readFrom({ parameters: [parameter], requestBody: body, responses }).find(({ name }) => name === 'nada')?.isCaused;
  expect([isSent(id), isSent({ ...id, examples: { nada: { value: 'x' } } })]).toEqual([false, true]);
});

test('a named example takes the unnamed examples of inputs, unless it overrides them', () => {
  const named = { pesado: { value: { peso: 170 } }, vazio: { 'x-request': { rawQuery: '', path: { id: 'c' } } } };
  const responses = { 200: { description: '', content: { 'application/json': { examples: named } } } };
  const targets = readFrom({ parameters: [id, unit], requestBody: body, responses }).map(
    ({ request }) => request.target,
  );
  expect(targets).toEqual(['/pesos/a%20b?unidade=kg', '/pesos/c?']);
});

test.each([
  [{ content: {}, required: true }, {}, '{}'],
  [{ content: {} }, {}, undefined],
  [{ content: {} }, { body: null }, 'null'],
  [body, { body: null }, 'null'],
  [body, {}, '{"peso":70}'],
  [{ content: { 'application/json': { example: null } } }, {}, 'null'],
])('the body is that of the example, or else of the request, or none: %j, %j', (requestBody, override, expected) => {
  const content = { 'application/json': { examples: { um: { 'x-request': override } } } };
  const examples = readFrom({ parameters: [id], requestBody, responses: { 400: { description: '', content } } });
  expect(examples.map(({ request }) => request.body)).toEqual([expected]);
});

test('the key is that of the security of the operation, or else of the document', () => {
  const scheme = (name: string) => ({ type: 'apiKey', in: 'header', name, 'x-example': `of ${name}` });
  const securitySchemes = {
    antigo: { type: 'http', scheme: 'basic' },
    outro: { type: 'apiKey', in: 'query', name: 'k' },
    ...{ geral: scheme('X-Key'), proprio: scheme('X-Own') },
  };
  const others = { components: { securitySchemes }, security: [{ geral: [] }] };
  const operation = { parameters: [id, unit], requestBody: body, responses: { 200: success } };
  const headersOf = (own: object) => readFrom({ ...operation, ...own }, others).map(({ request }) => request.headers);
  expect(headersOf({})).toEqual([{ 'X-Key': 'of X-Key' }]);
  expect(headersOf({ security: [{ proprio: [] }] })).toEqual([{ 'X-Own': 'of X-Own' }]);
});
