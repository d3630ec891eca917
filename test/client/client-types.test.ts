import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { writeClientTypes } from '../../scripts/client-types.ts';
import { document, documentOf, jsonBody } from '../helpers/api.ts';

const file = join(mkdtempSync(join(tmpdir(), 'types-')), 'openapi.json');

/** The types of a document with one operation. */
function typesOf(parts: object, components: object, method = 'post'): Promise<string> {
  const { securitySchemes } = document.components ?? {};
  const own = { ...documentOf(parts, '/um', method), components: { securitySchemes, ...components } };
  writeFileSync(file, JSON.stringify(own));
  return writeClientTypes(file);
}

const property = { type: 'string', default: 'a' };
const object = (required: string[]) => ({
  type: 'object',
  properties: { p_v: property },
  ...(required.length > 0 ? { required } : {}),
});
const ref = { $ref: '#/components/schemas/Corpo' };

test.each([
  ['with a default is optional in a shared body', ref, object([]), /Corpo: \{[^}]*p_v\?: string;/],
  ['with a default is required where the document says so', ref, object(['p_v']), /Corpo: \{[^}]*p_v: string;/],
  ['with a default is optional in a body', object([]), {}, /"application\/json": \{[^}]*p_v\?: string;/],
  [
    'that is only read is marked',
    object([]),
    { properties: { id: { readOnly: true } } },
    /Corpo: \{[^}]*id\?: \$Read</,
  ],
  [
    'that is only read by what it refers to is marked',
    object([]),
    { properties: { id: { allOf: [{ type: 'string', readOnly: true }] } } },
    /Corpo: \{[^}]*id\?: \$Read</,
  ],
  ['with a default is optional in an object within', { type: 'array', items: ref }, object([]), /p_v\?: string;/],
])('a property %s', async (_what, body, shared, expected) => {
  expect(await typesOf(jsonBody(body), { schemas: { Corpo: shared } })).toMatch(expected);
});

const toKind = (kind: object) => ({ type: 'object', required: ['kind'], properties: { kind } });

test.each([
  ['its own value', { enum: ['card'] }, {}, 'kind: "card";'],
  ['its name where it shares its values', { enum: ['Um', 'two'] }, {}, 'kind: "Um";'],
  [
    'the value of a mapping to its name',
    { type: 'string' },
    { mapping: { card: 'Um', cash: 'Um' } },
    'kind: "card" | "cash";',
  ],
  ['its name', { type: 'string' }, {}, 'kind: "Um";'],
])('a schema of a discriminator has %s', async (_what, kind, more, expected) => {
  const [Um, Dois] = [toKind(kind), toKind({ enum: ['two'] })];
  const oneOf = ['Um', 'Dois'].map((name) => ({ $ref: `#/components/schemas/${name}` }));
  const body = { oneOf, discriminator: { propertyName: 'kind', ...more } };
  expect(await typesOf(jsonBody(body), { schemas: { Um, Dois } })).toContain(expected);
});

test('an array that does not explode has its separator, and the key its header', async () => {
  const schema = { type: 'array', items: { type: 'string' } };
  const list = (name: string, style: object) => ({ name, in: 'query', schema, ...style });
  const parameters = [list('a', {}), list('b', { explode: false }), list('c', { style: 'pipeDelimited' })];
  const securitySchemes = { apiKey: { type: 'apiKey', in: 'header', name: 'X-Token' } };
  const responses = { 204: { description: 'Done' }, 'x-owner': 'a team' };
  const text = await typesOf({ parameters, responses }, { securitySchemes }, 'get');
  expect(text).toContain('export const keyHeader: string = "X-Token";');
  const [, separators = ''] = /export const separators: [^=]* = (.*);\n$/s.exec(text) ?? [];
  expect(JSON.parse(separators)).toEqual({ 'GET /um': { b: ',', c: '|' } });
});

test('a reference into a response is the type of its content', async () => {
  const schema = { type: 'object', properties: { nome: { type: 'string' } } };
  const $ref = '#/paths/~1um/post/responses/200/content/application~1json/schema';
  const responses = { 200: { description: 'Done', content: { 'application/json': { schema } } } };
  const text = await typesOf({ ...jsonBody({ type: 'array', items: { $ref } }), responses }, {});
  expect(text).toContain('paths["/um"]["post"]["responses"]["200"]["content"]["application/json"][];');
});

test('a document without operations has no header of a key', async () => {
  writeFileSync(file, JSON.stringify({ ...document, paths: {} }));
  expect(await writeClientTypes(file)).toContain('export const keyHeader: string = "";');
});
