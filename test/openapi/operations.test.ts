import type { OpenAPIV3 } from 'openapi-types';
import { expect, test } from 'vitest';
import { parse } from 'yaml';
import { toCall } from '../../src/api/call.ts';
import { messages } from '../../src/api/messages.ts';
import { receive } from '../../src/api/validate.ts';
import type { Failure } from '../../src/errors.ts';
import { compile } from '../../src/openapi/compile.ts';
import { OWN_PATHS } from '../../src/openapi/url.ts';
import type { Call } from '../../src/store/store.ts';
import { document, documentOf, jsonBody } from '../helpers/api.ts';
import { startOwnGateway } from '../helpers/gateway.ts';
import { createStubStore } from '../helpers/stub-store.ts';

const store = createStubStore(() => Promise.reject(new Error('not called')));

/** The document with a change to the operation GET /academias. */
function changed(change: (operation: OpenAPIV3.OperationObject) => void): OpenAPIV3.Document {
  const copy = structuredClone(document);
  change(copy.paths['/academias']?.get as OpenAPIV3.OperationObject);
  return copy;
}

/** A document as OpenAPI 3.1, without the schemas, which are written for 3.0. */
function withoutSchemas(source: OpenAPIV3.Document): OpenAPIV3.Document {
  const { securitySchemes = {} } = document.components ?? {};
  return { ...source, openapi: '3.1.0', components: { securitySchemes } };
}

const A = 'type: object, properties: { a: {} }';
test.each([
  [A, 'row'],
  [`${A}, additionalProperties: {}`, 'row'],
  [`${A}, anyOf: [{ required: [a] }]`, 'row'],
  [`${A}, additionalProperties: { type: string }`, 'value'],
  [`${A}, patternProperties: { ^ip_: { type: string } }`, 'value'],
  [`${A}, patternProperties: { ^x-: false }`, 'row'],
  [`${A}, unevaluatedProperties: { type: string }`, 'value'],
  [`${A}, unevaluatedProperties: false`, 'row'],
  [`${A}, if: { ${A} }, then: { required: [a] }`, 'row'],
  [`${A}, if: { ${A} }, else: { ${A} }`, 'row'],
  [`${A}, if: { ${A} }, else: { properties: { b: {} } }`, 'value'],
  [`${A}, then: { oneOf: [{ ${A} }, { type: object }] }`, 'value'],
  [`${A}, dependentSchemas: { a: { properties: { b: {} } } }`, 'value'],
  [`${A}, oneOf: [{ ${A} }, { type: object }]`, 'value'],
  [`type: array, items: { allOf: [{ ${A}, oneOf: [{ ${A} }] }, { ${A} }] }`, 'values'],
])('the properties of an object are columns, unless it has several shapes: %s', async (keywords, returns) => {
  const content = { 'application/json': { schema: parse(`{ ${keywords} }`) } };
  const responses = { 200: { description: 'x', content } };
  const { operations } = await compile(withoutSchemas(documentOf({ responses }, '/um', 'get')));
  expect(operations.get('um')?.returns).toBe(returns);
});

test('`after` takes records of several shapes, if each has an id', async () => {
  const record = (required: string[]) => ({ type: 'object', required, properties: { id: { type: 'string' } } });
  const list = (...shapes: object[]) =>
    changed((o) => {
      const { content } = o.responses['200'] as OpenAPIV3.ResponseObject;
      Object.assign(content?.['application/json'] ?? {}, {
        schema: { type: 'array', items: { oneOf: shapes } },
        examples: {},
      });
    });
  const { operations } = await compile(list(record(['id']), { allOf: [record(['id'])] }));
  expect(operations.get('listarAcademias')?.page?.after).toBeDefined();
  await expect(compile(list(record(['id']), record([])))).rejects.toThrow('the records must have the property id');
});

test('a read-only field of a body is no argument', async () => {
  const properties = { id: { type: 'string', readOnly: true }, p_nome: { type: 'string' } };
  const schema = { type: 'object', additionalProperties: false, properties };
  const { operations } = await compile(documentOf(jsonBody(schema)));
  expect(operations.get('um')?.body?.fields?.map(({ argument }) => argument)).toEqual(['p_nome']);
});

test.each([
  [
    { p_nome: 'Ana', p_extra_a: 1 },
    { patternProperties: { '^p_extra_': {} } },
    { json: '{"p_nome":"Ana","p_extra_a":1}' },
  ],
  [null, { type: ['object', 'null'] }, null],
])('a body with other values than its fields is one argument: %j', async (value, more, p_body) => {
  const properties = { p_nome: { type: 'string' } };
  const schema = { type: 'object', additionalProperties: false, properties, ...more };
  const source = withoutSchemas(documentOf(jsonBody(schema)));
  expect(await read(source, '/v1/um', { body: JSON.stringify(value) })).toMatchObject({
    args: { p_body },
  });
});

test('an enum allows null only if it contains null, whatever nullable says', async () => {
  const [a, b] = [['x'], ['x', null]].map((values) => ({ type: 'string', nullable: true, enum: values }));
  const schema = { type: 'object', properties: { a, b } };
  const responses = { 200: { description: 'Done', content: { 'application/json': { schema } } } };
  const { operations } = await compile(documentOf({ responses }, '/um', 'get'));
  expect(operations.get('um')?.optional).toEqual(['a']);
});

/** The call that a document makes of a request, or the failure. */
async function read(
  source: OpenAPIV3.Document,
  target: string,
  { body = '', key = 'x' } = {},
): Promise<Call | Failure> {
  const incoming = {
    ...{ method: body === '' ? 'GET' : 'POST', url: target, headers: { 'x-api-key': key } },
    readBody: async () => Buffer.from(body),
  };
  return receive(await compile(source), incoming).then(
    ({ operation, request }) => toCall(operation, request),
    ({ failure }) => failure,
  );
}

test('calls a function with its arguments in one order, whatever the order of the body', async () => {
  const fields = { p_nome: 'Ana', p_email: 'ana@aurora.example', p_sexo: 'feminino' };
  const orders = [Object.entries(fields), Object.entries(fields).reverse()];
  for (const body of orders.map((entries) => JSON.stringify(Object.fromEntries(entries)))) {
    const { args } = (await read(document, '/v1/alunos', { body })) as Call;
    expect(Object.entries(args)).toEqual([['p_api_key', 'x'], ...Object.entries(fields)]);
  }
});

test('refuses a text that overflows the stack of an expression', async () => {
  const body = JSON.stringify({ p_nome: 'Ana', p_email: `${'a.'.repeat(4_900_000)}@` });
  expect(await read(document, '/v1/alunos', { body })).toEqual({
    kind: 'invalidInput',
    fields: { body: [messages.isTooLong] },
  });
});

test('reads a path parameter between literals of its segment', async () => {
  const parameters = [{ name: 'name', in: 'path', required: true, schema: { type: 'string' } }];
  const source = documentOf({ parameters }, '/files/v-{name}.json/parts', 'get');
  expect(await read(source, '/v1/files/v-a%2Fb.c.json/parts')).toMatchObject({ args: { p_name: 'a/b.c' } });
});

test.each([
  ['without servers', undefined, '/academias'],
  ['with a server that has no path', [{ url: 'https://api.example.com' }], '/academias'],
  ['with a server under a path', [{ url: 'https://api.example.com/a/b/' }], '/a/b/academias'],
  ['with a server whose path is encoded in another way', [{ url: '/v1:a@b/%c3%a9' }], '/v1:a@b/%C3%A9/academias'],
  ['with a server of any scheme', [{ url: '//api.example.com/a/' }], '/a/academias'],
])('serves a document %s', async (_what, servers, path) => {
  const { servers: _own, ...rest } = document;
  const source = { ...rest, ...(servers ? { servers } : {}) };
  expect(await read(source, path)).toMatchObject({ function: 'listar_academias' });
});

test('refuses an undeclared parameter, whatever additional properties the schema of another one allows', async () => {
  const schema = { type: 'string', additionalProperties: true } as const;
  const own = changed(({ parameters }) => parameters?.push({ name: 'x', in: 'query', schema }));
  const fields = { y: [messages.isNoParameter] };
  expect(await read(own, '/v1/academias?y=1')).toEqual({ kind: 'invalidInput', fields });
});

test('names the header of the key as the document does', async () => {
  const own = structuredClone(document);
  const [scheme] = Object.values(own.components?.securitySchemes ?? {}) as OpenAPIV3.ApiKeySecurityScheme[];
  if (scheme) scheme.name = 'X-Token';
  expect(await read(own, '/v1/academias')).toEqual({ kind: 'missingKey', header: 'X-Token' });
});

test.each(['/academias:contar', '/avaliação', '/a b', '/x.y/~z'])(
  'serves the path %s, however it is written',
  async (path) => {
    const source = { ...document, paths: { [path]: document.paths['/academias'] as OpenAPIV3.PathItemObject } };
    for (const spelling of [encodeURI(path), path.split('/').map(encodeURIComponent).join('/')]) {
      expect(await read(source, `/v1${spelling}`)).toMatchObject({ function: 'listar_academias' });
    }
  },
);

test.each(['constructor', '__proto__'])('serves the operationId %s', async (operationId) => {
  expect(await read(documentOf({ operationId }, '/um', 'get'), '/v1/um?x=1')).toMatchObject({
    fields: { x: [messages.isNoParameter] },
  });
});

test('a store that throws is a 500 without details, and is logged in full', async () => {
  const gateway = await startOwnGateway({ store });
  const answer = await fetch(`${gateway.url}/academias`, { headers: { 'X-Api-Key': 'x' } });
  expect([answer.status, await answer.json()]).toEqual([500, { error: 'Internal error' }]);
  expect(gateway.faults).toEqual([{ kind: 'internal', cause: new Error('not called') }]);
});

test('the gateway answers each of its own paths, which no operation may have', async () => {
  const gateway = await startOwnGateway({ store, docs: true, mcp: true });
  // Paths that the gateway does not answer itself are a 404 of the operations.
  const answers = OWN_PATHS.map(async (path) => [
    path,
    (await fetch(new URL(path, gateway.url), { method: 'PUT' })).status,
  ]);
  expect(await Promise.all(answers)).toEqual(OWN_PATHS.map((path) => [path, 405]));
});
