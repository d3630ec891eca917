import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { expect, test } from 'vitest';
import { compileFile } from '../../src/openapi/compile.ts';
import { readTags } from '../../src/openapi/schema.ts';

// Documents in several files, and the values in them that are references.

const SCHEME = 'securitySchemes: { apiKey: { type: apiKey, in: header, name: X-Api-Key } }';

type Files = Readonly<Record<string, string | Buffer>>;

/** Compiles FILES in a new folder, with others added or replaced. */
function compileWith(others: Files) {
  const folder = mkdtempSync(join(tmpdir(), 'document-'));
  for (const [name, text] of Object.entries({ ...FILES, ...others })) {
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    writeFileSync(join(folder, name), text);
  }
  return compileFile(join(folder, 'openapi.yaml'));
}

const answer = (schema: string) =>
  `{ '200': { description: Found, content: { application/json: { schema: ${schema}, examples: { a: { value: { $ref: none.yaml, $id: 'x:y' } } } } } } }`;

const MAIN = `openapi: 3.1.0
info: { title: Orders, version: '1', x-data: { $ref: none.yaml } }
servers: [{ url: /v1 }]
security: [{ apiKey: [] }]
paths:
  /orders/{orderId}: { $ref: paths/order.yaml }
  /orders:
    get:
      operationId: listOrders
      x-rpc: list_orders
      responses: ${answer('{ type: array, items: { $ref: schemas/Order.yaml } }')}
    post:
      operationId: addOrder
      x-rpc: add_order
      requestBody: { content: { application/json: { schema: { $ref: schemas/Order.yaml } } } }
      responses: ${answer("{ $ref: 'schemas/Order.yaml#' }")}
components:
  ${SCHEME}
  schemas: { $ref: schemas/index.yaml }
`;
const FILES = {
  'openapi.yaml': MAIN,
  'paths/order.yaml': `get:
  operationId: getOrder
  x-rpc: get_order
  parameters: [{ name: orderId, in: path, required: true, schema: { type: string } }]
  responses: ${answer('{ $ref: ../schemas/Order.yaml }')}
`,
  'schemas/index.yaml': 'Order: { $ref: Order.yaml }\n',
  'schemas/Order.yaml': `type: object
required: [id]
properties:
  id: { type: string }
  lines: { type: array, items: { $ref: Line.yaml } }
  example: { type: string, default: { $ref: none.yaml } }
`,
  'schemas/Line.yaml': `type: object
properties: { amount: { type: integer }, order: { $ref: ./Order.yaml } }
`,
};

test('a document in several files is served as one, with the names of its components', async () => {
  const { operations, source } = await compileWith({});
  expect([...operations.keys()]).toEqual(['getOrder', 'listOrders', 'addOrder']);
  expect(operations.get('addOrder')).toMatchObject({ returns: 'row', body: { schema: { required: ['id'] } } });
  expect(Object.keys(source.components?.schemas ?? {})).toEqual(['Order', 'Line']);
  const text = JSON.stringify(source);
  expect([...new Set(text.match(/"\$ref":"[^"]*"/g))].sort()).toEqual([
    '"$ref":"#/components/schemas/Line"',
    '"$ref":"#/components/schemas/Order"',
    '"$ref":"none.yaml"',
  ]);
});

test('aliases of YAML may be many, and a merge key has the keys of a map', async () => {
  const lines = Array.from({ length: 101 }, (_, n) => `line${n}: *line`);
  const order = `x-line: &line { type: string }\ntype: object\nproperties: { id: { <<: *line }, ${lines} }\n`;
  const { operations } = await compileWith({ 'schemas/Order.yaml': order });
  expect(operations.get('addOrder')?.body?.schema.properties).toMatchObject({ id: { type: 'string' }, line100: {} });
});

test('the mapping of a discriminator refers to the components that the parts of other files become', async () => {
  const mapping = "{ whole: '#/$defs/Whole', line: Line.yaml, part: './Part.yaml#', own: Order }";
  const { source } = await compileWith({
    'openapi.yaml': MAIN.replace("'schemas/Order.yaml#'", 'schemas/Choice.yaml'),
    'schemas/Choice.yaml': `$defs: { Whole: { type: object } }
oneOf: [{ $ref: '#/$defs/Whole' }, { $ref: Line.yaml }]
discriminator: { propertyName: kind, mapping: ${mapping} }
`,
    'schemas/Part.yaml': 'allOf: [{ $ref: Choice.yaml }]\n',
  });
  const mapped = {
    ...{ whole: '#/components/schemas/Whole', line: '#/components/schemas/Line' },
    ...{ part: '#/components/schemas/Part', own: 'Order' },
  };
  expect(source.components?.schemas).toMatchObject({
    Choice: { discriminator: { propertyName: 'kind', mapping: mapped } },
    Part: { allOf: [{ $ref: '#/components/schemas/Choice' }] },
  });
});

test.each([
  ['', '', { Order: '#/components/schemas/Order_2' }, [['Order'], ['Card']]],
  ['{ form: Order, card: Card }', '', { form: '#/components/schemas/Order_2', card: 'Card' }, [['form'], ['card']]],
  [
    '{ order: Order }',
    ", { $ref: '../openapi.yaml#/components/schemas/Order' }",
    { Order: '#/components/schemas/Order_2', order: 'Order' },
    [['Order'], ['Card'], ['order']],
  ],
])(
  'a discriminator with the mapping "%s" knows a renamed schema by its old name',
  async (given, more, mapping, tags) => {
    const discriminator = `{ propertyName: kind${given && `, mapping: ${given}`} }`;
    const { operations, source } = await compileWith({
      'openapi.yaml': MAIN.replace('schema: { $ref: schemas/Order.yaml }', 'schema: { $ref: forms/Choice.yaml }'),
      'forms/Choice.yaml': `oneOf: [{ $ref: Order.yaml }, { $ref: Card.yaml }${more}]\ndiscriminator: ${discriminator}\n`,
      'forms/Order.yaml': 'type: object\n',
      'forms/Card.yaml': 'type: object\n',
    });
    const schemas = { Choice: { discriminator: { propertyName: 'kind', mapping } }, Order_2: {}, Card: {} };
    expect(source.components?.schemas).toMatchObject(schemas);
    const { oneOf = [] } = operations.get('addOrder')?.body?.schema ?? {};
    expect(oneOf.map((schema) => readTags(schema, 'kind'))).toEqual(tags);
  },
);

test('all mistakes are reported together, each once, with file and line', async () => {
  const error = await compileWith({
    'openapi.yaml': MAIN.replace('x-rpc: list_orders', `x-rpc: ${'a'.repeat(64)}`)
      .replace('x-rpc: add_order', 'sumary: Add')
      .replace(SCHEME, `${SCHEME}\n  responses: { Gone: { $ref: '#/components/responses/Nothing' } }`),
    'schemas/Line.yaml': FILES['schemas/Line.yaml']
      .replace('integer', 'integer, format: cpf')
      .replace('./Order', './Ordr'),
  }).catch((error) => error);
  expect(error.message.split('\n')).toEqual([
    `openapi.yaml:10: GET /orders: x-rpc ${'a'.repeat(64)} has 64 characters, and Postgres knows 63: give it a shorter name`,
    'openapi.yaml:12: POST /orders: x-rpc must name the Postgres function, in lower case; it is missing',
    'openapi.yaml:14: POST /orders: has sumary, which OpenAPI does not define: correct it, or call it x-sumary',
    'openapi.yaml:19: responses Gone: the reference #/components/responses/Nothing leads to nothing: correct it, or add what it names',
    'schemas/Line.yaml:2: schemas Line: the reference ./Ordr.yaml leads to a file that cannot be read, or to a place that it lacks: correct it, or add what it names',
    'schemas/Line.yaml:2: schemas Line: unknown format "cpf": the gateway could not check it; use minimum and maximum, or remove it',
  ]);
});

test('a chain of references keeps what is beside each, and a map keeps the parts beside its reference', async () => {
  const { operations, source } = await compileWith({
    'openapi.yaml': MAIN.replace(
      'schemas: { $ref: schemas/index.yaml }',
      'schemas: { $ref: schemas/index.yaml, Own: {} }',
    ),
    'schemas/Order.yaml': '{ $ref: Base.yaml, required: [id], properties: { line: { $ref: Line.yaml } } }\n',
    'schemas/Base.yaml': 'type: object\nproperties: { id: { type: string } }\n',
  });
  expect(operations.get('addOrder')).toMatchObject({ returns: 'row', body: { schema: { required: ['id'] } } });
  expect(source.components?.schemas).toMatchObject({
    Order: { $ref: '#/components/schemas/Base', properties: { line: { $ref: '#/components/schemas/Line' } } },
    Own: {},
  });
});

const LINE = FILES['schemas/Line.yaml'];
const SHARED = `  responses: { Gone: { description: Gone, content: { application/json: { schema: { required: [code] } } } } }`;

const ACCEPT = '  parameters: { A: { name: Accept, in: header, schema: { type: string } } }';
const refTo = (component: string) => `{ $ref: '#/components/${component}' }`;
const contentOf = (schema: string) => `{ application/json: { schema: ${schema} } }`;

/** The changed files with a mistake, and the message. */
const MISTAKES: Readonly<Record<string, readonly [files: Files, message: RegExp]>> = {
  'a reference, which is a URI, in the path of a file and in the pointer': [
    {
      'openapi.yaml': MAIN.replace('schemas/Order.yaml#', 'schemas/order%20lines/L%C3%ADnea.yaml#/%24defs/One%20line'),
      'schemas/order lines/Línea.yaml': '$defs: { One line: { type: object, properties: { a: { typ: string } } } }\n',
    },
    /^schemas\/order lines\/Línea\.yaml:1: schemas One_line: has typ, which JSON Schema does not define: correct it, or call it x-typ$/,
  ],
  'a list of schemas in items, with the keyword that takes one': [
    { 'schemas/Order.yaml': FILES['schemas/Order.yaml'].replace('{ $ref: Line.yaml }', '[{ $ref: Line.yaml }]') },
    /^schemas\/Order\.yaml:5: schemas Order: properties\/lines\/items must be object,boolean: give a list of schemas to prefixItems$/,
  ],
  'an operation beside the reference to a path item': [
    { 'openapi.yaml': MAIN.replace('$ref: paths/order.yaml', '$ref: paths/order.yaml, put: {}') },
    /^openapi\.yaml:6: PUT \/orders\/\{orderId\}: put beside \$ref has no effect: add it to what \$ref leads to/,
  ],
  'a file in another encoding': [
    { 'schemas/Line.yaml': Buffer.from(`${LINE}description: Preço\n`, 'latin1') },
    /^schemas\/Line\.yaml: is not in UTF-8: save it in that encoding/,
  ],
  'a file that is no YAML': [{ 'schemas/Line.yaml': `${LINE}a: [\n` }, /^schemas\/Line\.yaml:\d+: /],
  'a status that is there as a number and as a text': [
    { 'paths/order.yaml': FILES['paths/order.yaml'].replace("{ '200'", "{ 200: { description: First }, '200'") },
    /^paths\/order\.yaml:5: Map keys must be unique/,
  ],
  'a node of YAML that contains itself': [
    { 'openapi.yaml': MAIN.replace(/^info:.*$/m, "info: &info { title: Orders, version: '1',\n  x-self: *info }") },
    /openapi\.yaml:3: \*info is within &info: write a \$ref instead$/,
  ],
  'an alias of no anchor above it': [
    { 'schemas/Line.yaml': `${LINE}x-a: { <<: *line }\nx-b: &line {}\n` },
    /^schemas\/Line\.yaml:3: no anchor &line is above \*line: correct one of the two$/,
  ],
  'the schema of a parameter that leads to nothing, once': [
    {
      'openapi.yaml': MAIN.replace(
        /responses: /,
        `parameters: [{ name: a, in: query, schema: ${refTo('schemas/None')} }]\n      responses: `,
      ),
    },
    /^openapi\.yaml:11: GET \/orders: the reference #\/components\/schemas\/None leads to nothing: correct it, or add what it names$/,
  ],
  'a reference to a folder': [
    { 'schemas/Line.yaml': LINE.replace('./Order.yaml', '../paths') },
    /^schemas\/Line\.yaml:2: schemas Line: the reference \.\.\/paths leads to a file that cannot be read, or to a place that it lacks/,
  ],
  'a reference that leads to itself': [
    { 'openapi.yaml': "openapi: 3.1.0\npaths: {}\ncomponents: { $ref: '#/components/schemas/A' }\n" },
    /^openapi\.yaml:3: the reference #\/components\/schemas\/A leads to nothing/m,
  ],
  'a mistake in a shared component, once': [
    {
      'openapi.yaml': MAIN.replaceAll(/'200': /g, "'404': { $ref: '#/components/responses/Gone' }, '200': ").replace(
        SCHEME,
        `${SCHEME}\n${SHARED}`,
      ),
    },
    /^openapi\.yaml:19: responses Gone: the schema of the response 404 does not allow what the gateway sends: \{"error":"text"\}$/,
  ],
  'a mistake in a shared schema or parameter, once': [
    {
      'openapi.yaml': MAIN.replaceAll(/responses: /g, `parameters: [${refTo('parameters/A')}]\n      responses: `)
        .replaceAll(/'200': /g, `'404': { description: Gone, content: ${contentOf(refTo('schemas/E'))} }, '200': `)
        .replace(/components:.*/s, `components:\n  ${SCHEME}\n  schemas: { E: { required: [code] } }\n${ACCEPT}`),
    },
    /^openapi\.yaml:21: schemas E: the schema of the response 404 does [^\n]*\nopenapi\.yaml:22: parameters A: parameter Accept in [^\n]*$/,
  ],
  'what stands beside a reference, where that leads to the same': [
    {
      'schemas/Order.yaml': "properties: { a: { $ref: Line.yaml, maxLength: '1' } }\n",
      'schemas/Line.yaml': 'maxLength: 1\n',
    },
    /^schemas\/Order\.yaml:1: schemas Order: properties\/a\/maxLength must be integer$/,
  ],
};

test.each(Object.entries(MISTAKES))('tells the file and the line of %s', async (_what, [files, message]) => {
  await expect(compileWith(files)).rejects.toThrow(message);
});
