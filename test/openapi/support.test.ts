import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { OpenAPIV3 } from 'openapi-types';
import { expect, test } from 'vitest';
import { parse } from 'yaml';
import { compile, compileFile } from '../../src/openapi/compile.ts';
import { DocumentError } from '../../src/openapi/document.ts';
import { formats } from '../../src/openapi/formats.ts';
import { REFUSED, type Refused } from '../../src/openapi/mistakes.ts';
import { KEYWORDS, REFERENCES } from '../../src/openapi/support.ts';

// Checks docs/openapi-support.md, row by row.

const page = readFileSync('docs/openapi-support.md', 'utf8');
const [supported = '', refused = ''] = page.split(/^## (?:Refused|Arguments)$/m);
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

/** Puts a value at a place of a document, such as `servers 0 url`. GET stands for the operation, and Pet for a schema. */
function put(document: OpenAPIV3.Document, [place, value]: [string, unknown]): OpenAPIV3.Document {
  const names = place.replace(/^GET/, GET).replace(/^Pet$/, PET).split(' ');
  const last = names.pop() ?? '';
  // biome-ignore lint/suspicious/noExplicitAny: a document of any form
  const parent = names.reduce((node, name) => (node[name] ??= {}), document as any);
  parent[last] = value;
  return document;
}

/** The small document with a value at a place. */
function small(place: string, yaml: string): OpenAPIV3.Document {
  return put(parse(SMALL), [place, parse(yaml)]);
}

const GET = 'paths /pets/{id} get';
const PARAMETERS = `${GET} parameters`;
const CONTENT = '{ application/json: { schema: { type: object } } }';
const PET = 'components schemas Pet';
const SHOPS = '{ type: array, items: { type: object, properties: { name: {} } } }';

/** A path with one operation, which has these names as string parameters in path. */
function own(...names: string[]): string {
  const parameters = names.map((name) => `{ name: ${name}, in: path, required: true, schema: { type: string } }`);
  const responses = "{ '204': { description: None } }";
  return `{ get: { operationId: own, x-rpc: own, parameters: [${parameters}], responses: ${responses} } }`;
}

/** A path with one operation, which has this schema as its body. */
function bodyOf(schema: string): string {
  return `{ post: { operationId: d, x-rpc: d, requestBody: { content: { application/json: { schema: ${schema} } } },
    responses: { '204': { description: '' } } } }`;
}

const SELF = "{ $ref: '#/components/schemas/Pet' }";

/** For everything that is refused, values by their places in the small document. */
const EDITS: Readonly<Record<Refused, Readonly<Record<string, unknown>>>> = parse(`
what the specification does not allow: { GET sumary: A pet }
a path outside of \`paths\`: { /shops: {} }
a reference to nothing: { GET responses 404: { $ref: '#/components/responses/Nothing' } }
a reference to another kind of object:
  { GET responses 404: { $ref: '#/components/schemas/Pet' }, components schemas Pet: { type: object } }
several paths of servers: { servers: [{ url: https://a.example/v1 }, { url: https://a.example/v2 }] }
a server without a URL: { servers: [{ url: https://<host>/v1 }] }
servers of a path or an operation: { GET servers: [{ url: /v2 }] }
another dialect: { jsonSchemaDialect: https://json-schema.org/draft-07/schema }
'\`head\`, \`options\`, \`trace\`':
  { 'paths /pets/{id} options': { operationId: o, responses: { '204': { description: None } } } }
callbacks: { GET callbacks: { changed: { '{$request.query.url}': {} } } }
a path that no request has: { paths /pets?status=sold: ${own()} }
two paths of one shape: { 'paths /pets/{name}': {} }
two parameters in one segment: { 'paths /files/{name}.{type}': ${own('name', 'type')} }
other parameters in path than the path has: { 'paths /shops/{id}': ${own()} }
a path of the gateway's own: { paths /metrics: ${own()}, servers: [{ url: / }] }
no function: { GET x-rpc: Get Pet }
a name over 63 characters: { GET x-rpc: ${'a'.repeat(64)} }
no operationId: { GET operationId: '' }
an operationId twice: { paths /shops: ${own().replace('own', 'getPet')} }
other security than a key in a header, or none: { GET security: [{ bearer: [] }] }
a cookie, or a parameter in another place: { GET parameters: [{ name: sid, in: body, schema: { type: string } }] }
a parameter with content: { GET parameters: [{ name: filter, in: query, content: { application/json: {} } }] }
an object as a parameter, \`deepObject\`:
  { GET parameters: [{ name: filter, in: query, style: deepObject, schema: { type: object } }] }
the styles \`label\` and \`matrix\`:
  { GET parameters: [{ name: id, in: path, required: true, style: matrix, schema: { type: string } }] }
the headers \`Accept\`, \`Content-Type\`, \`Authorization\`:
  { GET parameters: [{ name: Accept, in: header, schema: { type: string } }] }
a name that no header can have: { GET parameters: [{ name: X Motivo, in: header, schema: { type: string } }] }
'\`allowEmptyValue\` of what is never empty':
  { GET parameters: [{ name: n, in: query, allowEmptyValue: true, schema: { type: integer } }] }
a default that its schema does not allow:
  { GET parameters: [{ name: limit, in: query, schema: { type: integer, maximum: 10, default: 50 } }] }
a name without letters and digits: { GET parameters: [{ name: '.', in: query, schema: { type: string } }] }
the name \`__proto__\`: { GET parameters: [{ name: __proto__, in: query, schema: { type: string } }] }
two parameters with one argument:
  { GET parameters: [{ name: petId, in: query, schema: { type: string } }, { name: pet_id, in: query, schema: { type: string } }] }
'\`after\` without ids':
  paths /shops: ${own()}
  paths /shops get parameters:
    - { name: limit, in: query, schema: { type: integer, default: 1 } }
    - { name: offset, in: query, schema: { type: integer, default: 1 } }
    - { name: after, in: query, schema: { type: string } }
  paths /shops get responses: { '200': { description: Shops, content: { application/json: { schema: ${SHOPS} } } } }
a body of a GET or a DELETE:
  'paths /pets/{id} delete':
    { operationId: d, x-rpc: d, requestBody: { content: ${CONTENT} }, responses: { '204': { description: '' } } }
forms, uploads, CSV and XML: { GET responses 200 content text/csv: {} }
content without a schema: { GET responses 200 content: { application/json: {} } }
several success statuses, or none: { GET responses 201: { description: Created } }
content of a 204: { GET responses: { '204': { description: None, content: ${CONTENT} } } }
redirections, informational responses: { GET responses 302: { description: Moved } }
another form of errors:
  GET responses 404:
    { description: None, content: { application/json: { schema: { type: object, required: [code] } } } }
'\`x-conflicts\` of another form, or without a 409': { GET responses 4XX: { description: Taken, x-conflicts: { a: b } } }
a header that is never sent: { GET responses 200 headers: { X-Total: { schema: { type: integer } } } }
'\`Location\` without a link': { GET responses 200 headers: { Location: { schema: { type: string } } } }
a link to no operation: { GET responses 200 links: { self: { operationId: nobody } } }
an unknown format: { Pet: { type: string, format: cpf } }
an invalid pattern: { Pet: { type: string, pattern: '(' } }
'\`$id\`, \`$anchor\`, \`$dynamicRef\`': { Pet: { $anchor: pet } }
anything else beside \`$ref\`:
  { GET responses 404: { $ref: '#/components/responses/No', content: {} }, components responses No: { description: No } }
keywords beside \`$ref\` in 3.0:
  { openapi: 3.0.3, Pet: { properties: { a: { $ref: '#/components/schemas/Pet', maxLength: 1 } } } }
'\`nullable\` in 3.1': { Pet: { type: string, nullable: true } }
a keyword that is none: { Pet: { type: string, maxlength: 1 } }
a keyword with a value that it does not have: { Pet: { type: string, maxLength: '1' } }
an extension of another form: { Pet: { x-never-null: 'true' } }
a misspelt extension: { GET x-readonly: true }
'a value of another type in an \`enum\`': { Pet: { type: string, enum: [1.0, latest, true] } }
a schema that no value meets: { Pet: { type: integer, minimum: 2, maximum: 1 } }
a schema within itself: { Pet: { oneOf: [{ allOf: [{ $ref: '#/components/schemas/Pet' }] }, { type: string }] } }
integers that JSON readers round: { Pet: { type: integer, maximum: 9223372036854775807 } }
`);

test('the page has a row for each', () => {
  expect(ROWS.map(([what]) => what)).toEqual(Object.keys(REFUSED));
  expect(Object.keys(EDITS)).toEqual(Object.keys(REFUSED));
});

test.each(ROWS)('refuses %s with one sentence and a place', async (what = '', message) => {
  const document = Object.entries(EDITS[what as Refused]).reduce(put, parse(SMALL));
  const error = await compile(document).catch((error) => error);
  expect(error.mistakes).toHaveLength(1);
  const [mistake] = error.mistakes;
  expect(mistake.text.replace(/^([A-Z]+ )?\/[^ ]*: |^schemas Pet: /, '')).toBe(message);
  expect(mistake).toMatchObject({ what, place: expect.any(Array) });
});

test.each([
  ['keywords', KEYWORDS],
  ['formats', Object.keys(formats)],
])('the page names the %s that are served', (name, served) => {
  const rows = [...supported.matchAll(new RegExp(`^\\| ${name}(?: [^|]*)? \\| (.*) \\|$`, 'gim'))];
  const named = rows.flatMap(([, list = '']) => [...list.matchAll(/`([^`]+)`/g)].map(([, word]) => word));
  expect(named.sort()).toEqual([...served].filter((word) => !REFERENCES.includes(word)).sort());
});

test.each([
  ['parameters of a path, and a HEAD', SMALL],
  ['webhooks', `${SMALL}webhooks: { changed: { post: { responses: { '200': { description: Received } } } } }\n`],
  ['OpenAPI 3.0', SMALL.replace('3.1.0', '3.0.3')],
  [
    'a variable of a server',
    SMALL.replace('url: /v1', "url: 'https://{host}/{v}', variables: { host: { default: a }, v: { default: v1 } }"),
  ],
  [
    'extensions beside paths and responses',
    SMALL.replace('\ncomponents', "\n  x-paths: { get: { $ref: '#/none' } }\ncomponents").replace(
      'responses: {',
      "responses: { x-note: a, x-none: , x-data: { $ref: '#/none', headers: { X-A: {} } },",
    ),
  ],
  ['links', SMALL.replace('description: Found,', 'description: Found, links: { self: { operationId: getPet } },')],
])('serves %s', async (_what, yaml) => {
  const { operations, match } = await compile(parse(yaml));
  expect(operations.get('getPet')).toMatchObject({ returns: 'value', inputs: [{ argument: 'p_id' }] });
  expect(match('head', '/v1/pets/1').id).toBe('getPet');
});

const ID = '{ name: id, in: path, required: true, schema: { type: string } }';
const emptyOf = (schema: string) => `{ name: x, in: query, allowEmptyValue: true, schema: ${schema} }`;
const NO_VALUE = 'leave no valid value: correct one of the two';
const photo = (value: string) =>
  bodyOf(`{ type: object, additionalProperties: false, properties: { p_photo: { format: byte, default: ${value} } } }`);

type Row = [place: string, yaml: string, message?: string];
/** A row for each value that is refused at a place with the same message. */
const rows = (place: string, message: string, ...values: string[]) => values.map((yaml): Row => [place, yaml, message]);

test.each<Row>([
  ...['/pets/{', '/pets/{}', '/pets/{a/b}', '/pets%', '/pets#all', '/pets/../shops'].flatMap((path) =>
    rows(`paths ${path}`, `no request has the path ${path}`, own()),
  ),
  ...rows('servers', 'server', '{}', '[null]', '[{}]', '[{ url: [] }]', '[{ url: /v1, variables: [null] }]'),
  ['servers', "[{ url: '/{a}' }]", 'server'],
  ['servers', '[{ url: /%zz }]', 'the URL of a server is /%zz'],
  ['servers', "[{ url: '/{v}', variables: { v: { default: v1, enum: [v1, v2] } } }]", 'have the paths /v1 and /v2'],
  [PET, '{ $ref: 1 }', '$ref must be string'],
  [PET, '{ properties: { a: { ref: 1 } } }', 'has ref, which JSON Schema does not define: call it $ref'],
  ['components responses a', '{ description: A, schema: {} }', 'not define: move it into content, below application'],
  ['components requestBodies a', '{ content: {}, schema: {} }', 'not define: move it into content, below application'],
  [`${GET} responses 200 content application/json schema`, '{ $ref: 1 }', '$ref must be string'],
  [PET, '{ type: string, enum: [null, a] }', 'schemas Pet: enum has values of another type than string, null: correct'],
  [PET, '{ type: [integer, boolean], enum: [1, "2"] }', 'type than integer or boolean, "2": correct them'],
  [PET, '{ type: [string, "null"], const: 1 }', `const and type ${NO_VALUE}`],
  [PET, '{ type: string, minLength: 2, maxLength: 1 }', `minLength and maxLength ${NO_VALUE}`],
  [PET, '{ type: array, items: {}, minItems: 2, maxItems: 1 }', `minItems and maxItems ${NO_VALUE}`],
  [PET, '{ type: number, exclusiveMinimum: 1, maximum: 1 }', `exclusiveMinimum and maximum ${NO_VALUE}`],
  [PET, '{ required: [b], properties: { a: {} }, additionalProperties: false }', `required and properties ${NO_VALUE}`],
  [PET, '{ type: integer, enum: [1, 9007199254740993] }', 'enum is beyond 9007199254740991'],
  [PET, '{ type: number, enum: [1, 2] }'],
  [PET, '{ type: [string, "null"], enum: [a, null] }'],
  [PET, '{ type: number, minimum: 1, maximum: 1 }'],
  [PET, '{ type: object, required: [x-a], patternProperties: { ^x-: {} }, additionalProperties: false }'],
  [PET, '{ items: { allOf: [{ properties: { __proto__: {} } }] } }', 'Pet: no parameter and no property can have the'],
  [
    PET,
    '{ prefixItems: [{}], additionalItems: false }',
    'additionalItems, which JSON Schema does not define: call it items',
  ],
  ['paths /shops', own('id'), 'the path has the parameters none, and id in path'],
  ['paths /shops/{id}/{id}', own('id'), 'the path has the parameters id, id, and id in path'],
  [`${GET} security`, '[]', 'it has none'],
  [`${GET} security`, '[{ apiKey: [] }, {}]', 'it has apiKey (apiKey in header), {}, which makes it optional'],
  ['components securitySchemes apiKey name', 'X Api Key', 'no header can have the name X Api Key (RFC 9110, 5.1)'],
  [PARAMETERS, '[{ name: sid, in: cookie, schema: { type: string } }]', 'sid is in cookie: expected one of query'],
  [PARAMETERS, '[{ name: sid, in: , schema: { type: string } }]', 'sid is in null: expected one of query'],
  [PARAMETERS, '[{ name: sid, in: [query], schema: { type: string } }]', 'sid is in ["query"]: expected one of query'],
  ['paths /pets/{id} post', '{ requestBody: { content: { a/b: {} } }, responses: {} }', 'the body has the content a/b'],
  [`${GET} responses 409`, '{ description: Taken, x-conflicts: [a] }', 'the response 409 has x-conflicts'],
  [PARAMETERS, '[{ name: x, in: query, schema: { items: {}, type: array } }]', 'or an array of one of them'],
  [PARAMETERS, `[${ID}, { name: x, in: query, schema: false }]`, 'parameter x in query must be a string, integer'],
  [
    PARAMETERS,
    '[{ name: x, in: query, schema: { type: array, prefixItems: [{ type: integer }], items: { type: string } } }]',
    'or an array of one of them',
  ],
  [PARAMETERS, `[${ID}, ${emptyOf('{ type: string }')}]`],
  ...['{ enum: [a] }', '{ type: string, minLength: 1 }', '{ type: string, format: date }'].flatMap((schema) =>
    rows(PARAMETERS, 'allows an empty value, which its', `[${ID}, ${emptyOf(schema)}]`),
  ),
  [PARAMETERS, "[{ $ref: '#/components/parameters/Id', required: true }]", 'required beside $ref has no effect'],
  ['paths /cats/{id}', "{ $ref: '#/paths/~1pets~1{id}', post: {} }", 'POST /cats/{id}: post beside $ref has no effect'],
  [PET, '{ type: string, format: constructor }', 'unknown format "constructor"'],
  [`${GET} responses 200 links`, "{ self: { operationRef: '#/paths/~1a/get' } }", 'self refers to #/paths/~1a/get'],
  [PET, '{ discriminator: { propertyName: a, mapping: { b: C } } }', 'the reference #/components/schemas/C leads to'],
  [`${GET} security`, '[{ apiKey: [admin] }]', 'it has apiKey (apiKey in header), the roles admin, which no key has'],
  [PET, '{ type: integer, format: uint32 }', 'format "uint32": the gateway could not check it; use minimum and'],
  [PET, '{ type: [boolean, "null"], format: int32 }', 'unknown format "int32" of boolean or null'],
  [PET, '{ type: string, format: int64 }'],
  [PET, '{ type: [number, string], format: double }'],
  [PET, '{ discriminator: kind }', 'Pet: discriminator must have a propertyName'],
  [PET, `{ discriminator: { propertyName: a, mapping: { b: ${SELF} } } }`, 'mapping must be a map from values to'],
  [PET, '{ discriminator: { propertyName: a, maping: {} } }', 'discriminator has maping, which OpenAPI does not'],
  [PET, '{ discriminator: { propertyName: a, x-tool: {} } }'],
  ['components schemas Page<Pet>', '{}', 'schemas has the name Page<Pet>: OpenAPI allows letters'],
  [`${GET} x-read-only`, "'yes'", 'GET /pets/{id}: x-read-only must be true or false'],
  [PET, '{ pattern: a, x-pattern-message: { de: Hallo } }', 'Pet: x-pattern-message must be a text'],
  [PET, '{ x-error-message: { de: Hallo } }'],
  [PET, '{ pattern: a, x-patern-message: Hallo }', 'x-patern-message has no effect: call it x-pattern-message'],
  [PET, '{ x-neverNull: true }', 'x-neverNull has no effect: call it x-never-null'],
  ['components securitySchemes apiKey x-rpc-usd', 'record_usage', 'x-rpc-usd has no effect: call it x-rpc-used'],
  [`${GET} responses 409`, "{ description: '', x-conflict: {} }", 'x-conflict has no effect: call it x-conflicts'],
  ['x-translation', '{}', 'x-translation has no effect: call it x-translations'],
  [
    PET,
    `{ x-examples: [], x-internal: true, x-nullable: true, x-go-type: a, x-enum-varnames: [], x-ms-enum: {}, x-order: 1,
      x-min: 1, ${'pt de en es th one any all ref'.split(' ').map((name) => `x-${name}-message: a`)}, x-log-message: a, x-role: a, x-request: a, x-tags: [], x-faker: a }`,
  ],
  ['components securitySchemes apiKey x-examples', '[]'],
  ['components examples a', '{ value: {}, x-requests: [] }'],
  [`${GET} x-readme`, '{ code-samples: [] }'],
  ['x-tagGroups', '[]'],
  ['components securitySchemes apiKey x-example', '1', 'x-example must be a text'],
  ['components examples a', '{ value: {}, x-generated: id }', 'examples a: x-generated must be a list of names'],
  ['components examples a', '{ value: {}, x-request: a }', 'examples a: x-request must be an object'],
  ['components parameters a', '{ name: a, in: query, schema: {}, x-filter: none }', 'a: x-filter must be an object'],
  [`${GET} responses 304`, '{ description: Same, content: {} }', 'GET /pets/{id}: a 304 has no content'],
  [
    'paths /shops',
    bodyOf('{}').replace("{ '204'", "{ '304': { description: '' }, '204'"),
    'POST /shops: the gateway never answers with 304',
  ],
  ...['4XX', 'default'].map(
    (status): Row => [
      `${GET} responses ${status}`,
      '{ description: No, content: { application/json: { schema: { properties: { error: { type: string } } } } } }',
      `response ${status} does not allow what the gateway sends: {"error":{"field":["message"]}}; or declare a 422`,
    ],
  ),
  [`${GET} GET`, '{}', 'has GET, which OpenAPI does not define: call it get'],
  ['paths shops', '{}', 'has shops, which OpenAPI does not define: call it /shops'],
  ['paths /shops', '{ put: { sumary: A, tags: [1], responses: {} } }', 'has sumary, which OpenAPI does not define'],
  ['components headers a', '{ example: 1, examples: {}, schema: {} }', 'headers a: has two keys of which OpenAPI'],
  ['paths /shops', '{ /rooms: {} }', '/shops: /rooms is at /shops instead of under paths: '],
  ['paths /pets', photo('AAAA')],
  ['paths /pets', photo('null')],
  ['paths /pets', photo("'!'"), 'POST /pets: the default "!" of p_photo is not allowed'],
  ['paths /pets', bodyOf('{ type: object, default: 5 }'), 'POST /pets: the default 5 of the body is not'],
])('serves %s: %s, or refuses it: %s', async (place, yaml, message) => {
  const compiled = compile(small(place, yaml));
  if (message === undefined) return expect(compiled).resolves.toBeDefined();
  const error = await compiled.catch((error) => error);
  expect(error).toBeInstanceOf(DocumentError);
  expect(error.message).toContain(message);
});

test.each(['3.0.3', '3.1.0'])('a parameter of %s is refused for its own mistake only', async (openapi) => {
  const parameters = [
    '{ name: id, in: path, schema: { type: string } }',
    '{ name: a, in: query, type: string }',
    '{ name: b, in: query, style: simple, schema: { type: string } }',
    '{ name: c, in: body, schema: { type: string } }',
    '{ name: d, in: query, schema: { type: int } }',
    '{ in: query, schema: { type: string } }',
  ];
  const error = await compile({ ...small(PARAMETERS, `[${parameters}]`), openapi }).catch((error) => error);
  const texts = error.mistakes.map(({ text }: { text: string }) => text.replace('GET /pets/{id}: ', ''));
  expect(texts.sort()).toEqual([
    'parameter b in query has the style simple, which is not supported: use form',
    'parameter c is in body: expected one of query, path, header',
    "parameters/0 must have required property 'required'",
    'parameters/1 has type, which OpenAPI does not define: move it into schema',
    "parameters/1 must have required property 'schema'",
    expect.stringMatching('^parameters/2/style must be equal to one of'),
    expect.stringMatching('^parameters/4/schema/type must be equal to one of'),
    "parameters/5 must have required property 'name'",
  ]);
});

test.each<[openapi: string, place: string, yaml: string, ...texts: string[]]>([
  [
    '3.0.3',
    PET,
    '{ type: [object] }',
    'schemas Pet: type must be string, one type: for null too say nullable: true, for others declare openapi: 3.1.0',
  ],
  ['3.0.3', PET, '{ const: 1 }', 'schemas Pet: has const, which OpenAPI 3.0 does not define: declare openapi: 3.1.0'],
  [
    '3.0.3',
    PET,
    '{ exclusiveMinimum: 1 }',
    'schemas Pet: exclusiveMinimum must be boolean: say true, and the bound in minimum or maximum, or declare openapi: 3.1.0',
  ],
  [
    '3.1.0',
    PET,
    '{ exclusiveMinimum: true }',
    'schemas Pet: exclusiveMinimum must be number: give it the bound itself',
  ],
  [
    '3.1.0',
    PET,
    '{ type: [string, null] }',
    "schemas Pet: type/1 must be equal to one of the allowed values: array, boolean, integer, 'null', number, object, string",
  ],
  [
    '3.1.0',
    'components schemas Dog',
    "{ $ref: '#/components/schema/None' }",
    'schemas Dog: the reference #/components/schema/None leads to another kind of object: refer to one of components/schemas',
  ],
  ['3.0.3', PET, '{ additionalProperties: "no" }', 'schemas Pet: additionalProperties must be boolean'],
  ['3.1.0', PARAMETERS, '{ name: a, in: query, schema: {} }', 'GET /pets/{id}: parameters must be array'],
  ...['allOf', 'oneOf', 'enum'].map((name): [string, string, string, string] => [
    ...(['3.1.0', PET, `{ ${name}: { type: object } }`] as const),
    `schemas Pet: ${name} must be array`,
  ]),
])('a mistake is reported in one line, and hides no other: %s, %s: %s', async (openapi, place, yaml, ...texts) => {
  const own = 'POST /pets: the default 5 of p_a is not allowed by its schema: correct one of the two';
  const properties = `{ p_a: { type: string, default: 5 }, p_b: ${SELF} }`;
  const body = `{ type: object, additionalProperties: false, properties: ${properties} }`;
  const document = put(put(small(PET, '{}'), [place, parse(yaml)]), ['paths /pets', parse(bodyOf(body))]);
  const error = await compile({ ...document, openapi }).catch((error) => error);
  expect(error.mistakes.map(({ text }: { text: string }) => text).sort()).toEqual([own, ...texts].sort());
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
