import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { OpenAPIV3 } from 'openapi-types';
import { expect, test } from 'vitest';
import { parse } from 'yaml';
import { compile, compileFile } from '../../src/openapi/compile.ts';

// docs/openapi-support.md, row by row.

const page = readFileSync('docs/openapi-support.md', 'utf8');
const [, refused = ''] = page.split('## Refused');
/** What is refused, and the message. */
const ROWS = [...refused.matchAll(/^\| (?!What|---)(.*?) \| (.*?) \|/gm)].map(([, what = '', message = '']) => [
  what,
  message,
]);

const SMALL = `
openapi: 3.1.0
info: { title: Small, version: '1' }
servers: [{ url: /v1 }]
security: [{ apiKey: [] }]
paths:
  /pets/{id}:
    parameters: [{ name: id, in: path, required: true, schema: { type: string } }]
    get:
      operationId: getPet
      x-rpc: get_pet
      responses: { '200': { description: Found, content: { application/json: { schema: { type: object } } } } }
components:
  securitySchemes:
    apiKey: { type: apiKey, in: header, name: X-Api-Key }
    bearer: { type: http, scheme: bearer }
`;

/** The small document with a value at a place, such as `servers 0 url`. */
function small(place: string, yaml: string): OpenAPIV3.Document {
  const document = parse(SMALL);
  const names = place.split(' ');
  const last = names.pop() ?? '';
  const parent = names.reduce((node, name) => (node[name] ??= {}), document);
  parent[last] = parse(yaml);
  return document;
}

const GET = 'paths /pets/{id} get';
const PARAMETERS = `${GET} parameters`;
const CONTENT = '{ application/json: { schema: { type: object } } }';
const schema = (yaml: string) => small('components schemas Pet', yaml);
const version30 = (document: OpenAPIV3.Document) => ({ ...document, openapi: '3.0.3' });

function withoutSecurity(): OpenAPIV3.Document {
  const { security: _security, ...document } = parse(SMALL);
  return document;
}

/** A document for each row, in the order of the page. */
const DOCUMENTS: readonly OpenAPIV3.Document[] = [
  small('servers', '[{ url: https://a.example/v1 }, { url: https://a.example/v2 }]'),
  small('servers', "[{ url: '/{version}', variables: { version: { default: v1, enum: [v1, v2] } } }]"),
  small(`${GET} servers`, '[{ url: /v2 }]'),
  small('jsonSchemaDialect', 'https://json-schema.org/draft-07/schema'),
  small('paths /pets/{id} options', "{ operationId: o, responses: { '204': { description: None } } }"),
  small(`${GET} callbacks`, "{ changed: { '{$request.query.url}': {} } }"),
  withoutSecurity(),
  small(`${GET} security`, '[]'),
  small(`${GET} security`, '[{ apiKey: [] }, {}]'),
  small(`${GET} security`, '[{ bearer: [] }]'),
  small(PARAMETERS, '[{ name: sid, in: cookie, schema: { type: string } }]'),
  small(PARAMETERS, '[{ name: filter, in: query, content: { application/json: {} } }]'),
  small(PARAMETERS, '[{ name: filter, in: query, style: deepObject, schema: { type: object } }]'),
  small(PARAMETERS, '[{ name: id, in: path, required: true, style: matrix, schema: { type: string } }]'),
  small(PARAMETERS, '[{ name: Accept, in: header, schema: { type: string } }]'),
  small(PARAMETERS, '[{ name: n, in: query, allowEmptyValue: true, schema: { type: integer } }]'),
  small(
    PARAMETERS,
    '[{ name: petId, in: query, schema: { type: string } }, { name: pet_id, in: query, schema: { type: string } }]',
  ),
  small(
    'paths /pets/{id} delete',
    `{ operationId: d, x-rpc: d, requestBody: { content: ${CONTENT} }, responses: { '204': { description: '' } } }`,
  ),
  small(
    'paths /pets/{id} post',
    `{ operationId: d, x-rpc: d, requestBody: { content: { application/json: { schema: {} }, multipart/form-data: {} } }, responses: { '204': { description: '' } } }`,
  ),
  small(`${GET} responses 200 content text/csv`, '{}'),
  small(`${GET} responses 201`, '{ description: Created }'),
  small(`${GET} responses`, `{ '204': { description: None, content: ${CONTENT} } }`),
  small(`${GET} responses 302`, '{ description: Moved }'),
  small(
    `${GET} responses 404`,
    '{ description: None, content: { application/json: { schema: { type: object, required: [code] } } } }',
  ),
  small(`${GET} responses 200 headers`, '{ X-Total: { schema: { type: integer } } }'),
  small(`${GET} responses 200 headers`, '{ Location: { schema: { type: string } } }'),
  small(`${GET} responses 200 links`, '{ self: { operationId: nobody } }'),
  schema('{ type: string, format: cpf }'),
  schema("{ type: string, pattern: '(' }"),
  schema('{ $anchor: pet }'),
  version30(schema("{ properties: { a: { $ref: '#/components/schemas/Pet', maxLength: 1 } } }")),
  schema('{ type: string, nullable: true }'),
  schema('{ type: string, maxlength: 1 }'),
  schema('{ type: integer, maximum: 9223372036854775807 }'),
];

test('the page has a document for each row', () => {
  expect(DOCUMENTS).toHaveLength(ROWS.length);
});

test.each(ROWS.map(([what = '', message = ''], index) => ({ what, message, index })))(
  'refuses $what with one sentence and a place',
  async ({ message, index }) => {
    const error = await compile(DOCUMENTS[index] as OpenAPIV3.Document).catch((error) => error);
    expect(error.mistakes).toHaveLength(1);
    const [{ text, place }] = error.mistakes;
    expect(text.replace(/^([A-Z]+ )?\/pets\/\{id\}: |^schemas Pet: /, '')).toBe(message);
    expect(place).toEqual(expect.any(Array));
  },
);

test.each([
  ['parameters of a path, and a HEAD', SMALL],
  ['webhooks', `${SMALL}webhooks: { changed: { post: { responses: { '200': { description: Received } } } } }\n`],
  ['OpenAPI 3.0', SMALL.replace('3.1.0', '3.0.3')],
  [
    'a variable of a server',
    SMALL.replace('url: /v1', "url: 'https://{host}/{v}', variables: { host: { default: a }, v: { default: v1 } }"),
  ],
  ['links', SMALL.replace('description: Found,', 'description: Found, links: { self: { operationId: getPet } },')],
])('serves %s', async (_what, yaml) => {
  const { operations, match } = await compile(parse(yaml));
  expect(operations.get('getPet')).toMatchObject({ returns: 'row', inputs: [{ argument: 'p_id' }] });
  expect(match('head', '/v1/pets/1').id).toBe('getPet');
});

test('reports a mistake that the specification knows with its name', async () => {
  const document = small(`${GET} sumary`, 'A pet');
  await expect(compile(document)).rejects.toThrow('/paths/~1pets~1{id}/get has sumary, which OpenAPI does not define');
  await expect(compile(version30(document))).rejects.toThrow('has sumary, which OpenAPI does not define');
});

test.each([
  ['3.2.0', { openapi: '3.2.0', paths: { '/a': { query: {} } } }, 'it has OpenAPI 3.2.0'],
  ['4.0', { openapi: '4.0' }, 'it has OpenAPI 4.0'],
  ['a number', { openapi: 3.2 }, 'it has OpenAPI 3.2'],
  ['Swagger', { swagger: '2.0', paths: {} }, 'it has Swagger 2.0'],
  ['none', { asyncapi: '3.0.0' }, 'it has no version of OpenAPI'],
  ['nothing', null, 'it has no version of OpenAPI'],
])('a document of another version is refused first, in a sentence: %s', async (_what, document, why) => {
  const file = join(mkdtempSync(join(tmpdir(), 'version-')), 'openapi.json');
  writeFileSync(file, JSON.stringify(document));
  await expect(compileFile(file)).rejects.toThrow(`${file}: ${why}, and the gateway serves OpenAPI 3.0 and 3.1`);
});
