import { Ajv2020 } from 'ajv/dist/2020.js';
import type { OpenAPIV3 } from 'openapi-types';
import { expect, test } from 'vitest';
import { parse } from 'yaml';
import { leaveOutNulls } from '../../src/api/answer.ts';
import { describeError } from '../../src/api/messages.ts';
import { toPlainIntegers } from '../../src/api/request.ts';
import { type CompiledDocument, compile, compileSchema, createAjv } from '../../src/openapi/compile.ts';
import { ANNOTATIONS, createConverter, formOf, readProperties, scalarOf } from '../../src/openapi/schema.ts';
import { KEYWORDS, REFERENCES } from '../../src/openapi/support.ts';
import { documentOf, jsonBody } from '../helpers/api.ts';

// Checks every keyword of a schema: what it allows is accepted, and what it forbids is refused.

type Row = readonly [schema: object, allowed: unknown, forbidden: unknown];

/** For each keyword a schema, a value that it allows, and a value that it forbids. */
const ROWS: Readonly<Record<string, Row>> = parse(`
$ref: [{ $ref: '#/components/schemas/Short' }, abc, abcd]
additionalProperties: [{ properties: { a: {} }, additionalProperties: { type: integer } }, { a: x, b: 1 }, { b: x }]
allOf: [{ allOf: [{ $ref: '#/components/schemas/Short' }, { minLength: 2 }] }, ab, a]
anyOf: [{ anyOf: [{ type: string }, { type: integer }] }, 1, true]
const: [{ const: a }, a, b]
contains: [{ contains: { const: 1 } }, [1, 2], [2]]
dependentRequired: [{ dependentRequired: { a: [b] } }, { a: 1, b: 2 }, { a: 1 }]
dependentSchemas: [{ dependentSchemas: { a: { required: [b] } } }, { a: 1, b: 2 }, { a: 1 }]
else: [{ if: { type: string }, else: { minimum: 5 } }, 6, 4]
enum: [{ enum: [a, 1, null] }, null, b]
exclusiveMaximum: [{ exclusiveMaximum: 5 }, 4, 5]
exclusiveMinimum: [{ exclusiveMinimum: 5 }, 6, 5]
format: [{ type: string, format: date }, '2024-02-29', '2023-02-29']
if: [{ if: { type: string }, then: { minLength: 2 } }, ab, a]
items: [{ type: array, items: { type: integer } }, [1], [a]]
maxContains: [{ contains: { const: 1 }, maxContains: 1 }, [1], [1, 1]]
maxItems: [{ maxItems: 1 }, [1], [1, 2]]
maxLength: [{ maxLength: 1 }, é, ab]
maxProperties: [{ maxProperties: 1 }, { a: 1 }, { a: 1, b: 1 }]
maximum: [{ maximum: 5 }, 5, 6]
minContains: [{ contains: { const: 1 }, minContains: 2 }, [1, 1], [1]]
minItems: [{ minItems: 2 }, [1, 2], [1]]
minLength: [{ minLength: 2 }, ab, a]
minProperties: [{ minProperties: 1 }, { a: 1 }, {}]
minimum: [{ minimum: 5 }, 5, 4]
multipleOf: [{ multipleOf: 0.01 }, 19.99, 19.999]
not: [{ not: { type: string } }, 1, a]
oneOf: [{ oneOf: [{ minimum: 5 }, { maximum: 5 }] }, 6, 5]
pattern: [{ pattern: ^a }, ab, b]
patternProperties: [{ patternProperties: { ^a: { type: integer } } }, { ab: 1, b: x }, { ab: x }]
prefixItems: [{ prefixItems: [{ type: integer }] }, [1, a], [a]]
properties: [{ properties: { a: { type: integer } } }, { a: 1 }, { a: x }]
propertyNames: [{ propertyNames: { maxLength: 1 } }, { a: 1 }, { ab: 1 }]
readOnly: [{ required: [a], properties: { a: { readOnly: true } } }, {}, { a: 1 }]
required: [{ required: [a] }, { a: null }, {}]
type: [{ type: [integer, 'null'] }, null, 1.5]
unevaluatedItems: [{ prefixItems: [{}], unevaluatedItems: false }, [1], [1, 2]]
unevaluatedProperties: [{ allOf: [{ properties: { a: {} } }], unevaluatedProperties: false }, { a: 1 }, { b: 1 }]
uniqueItems: [{ uniqueItems: true }, [1, 2], [1, 1]]
`);

/** The keywords that validate nothing, here or in JSON Schema 2020-12. */
const WITHOUT_EFFECT = [
  ...ANNOTATIONS.filter((name) => name !== 'readOnly'),
  ...REFERENCES,
  ...['$defs', '$schema', 'contentEncoding', 'contentMediaType', 'contentSchema', 'definitions'],
];

/** Further rows, by version. */
const CASES: Readonly<Record<string, Readonly<Record<string, Row>>>> = parse(`
3.0.3:
  an exclusive bound as a flag: [{ minimum: 5, exclusiveMinimum: true }, 6, 5]
  nullable: [{ type: string, nullable: true }, null, 1]
  nullable around a schema: [{ nullable: true, allOf: [{ $ref: '#/components/schemas/Short' }] }, null, abcd]
  nullable beside a schema and a type:
    [{ nullable: true, type: object, allOf: [{ $ref: '#/components/schemas/User' }], required: [name] }, null, {}]
  nullable around a choice: [{ nullable: true, oneOf: [{ type: string }, { type: integer }] }, null, true]
  readOnly that an allOf requires:
    [{ allOf: [{ $ref: '#/components/schemas/User' }], required: [id, name] }, { name: Ana }, { id: '1', name: Ana }]
  a required binary: [{ required: [a], properties: { a: { type: string, format: binary } } }, { a: '' }, {}]
3.1.0:
  a schema or null: [{ anyOf: [{ $ref: '#/components/schemas/Short' }, { type: 'null' }] }, null, abcd]
  a keyword beside a reference: [{ $ref: '#/components/schemas/Short', minLength: 2 }, ab, a]
  one schema in several places:
    - properties: { a: { $ref: '#/components/schemas/User' }, b: { $ref: '#/components/schemas/User', description: B },
        c: { anyOf: [{ $ref: '#/components/schemas/User' }, { type: 'null' }] } }
    - { a: {}, b: {}, c: null }
    - { b: { name: 1 } }
  a schema that contains itself, behind any name:
    [{ $ref: '#/components/schemas/Tree' }, { 'a/b~ %': [{ 'a/b~ %': [] }] }, { 'a/b~ %': [{ 'a/b~ %': 1 }] }]
  unique objects:
    - uniqueItems: true
    - [1, '1', [1], { a: 1 }, { a: { b: 1 } }, { a: '1' }]
    - [{ a: 1, b: { c: 1, d: 2 } }, { b: { d: 2, c: 1 }, a: 1 }]
  a property that every object of JavaScript has:
    [{ required: [valueOf], properties: { constructor: { type: string }, toString: { type: string } } }, { valueOf: 1 }, {}]
  a constant with such a property: [{ const: { constructor: { a: 1, b: 2 } } }, { constructor: { b: 2, a: 1 } }, { toString: 1 }]
  a choice of objects: [{ enum: [1, { a: 1 }, [{ a: 2 }]] }, [{ a: 2 }], [{ valueOf: 1 }]]
  a pattern beside a condition:
    - patternProperties: { ^k: { type: string } }
      if: { required: [name] }
      then: { $ref: '#/components/schemas/User' }
      unevaluatedProperties: false
    - { kind: a }
    - { kind: a, id: 1 }
  a small multiple: [{ multipleOf: 0.01 }, 0.07, 1e-12]
  a multiple of 16 digits: [{ multipleOf: 2 }, 9007199254740990, 9007199254740991]
  an integer that readers round: [{ type: integer }, 9007199254740991, 9007199254740992]
`);

const ALL = Object.entries({ ...CASES, '3.1.0': { ...ROWS, ...CASES['3.1.0'] } }).flatMap(([version, rows]) =>
  Object.entries(rows).map(([name, row]) => [version, name, ...row] as const),
);

/** A document of a version, in which the operation of each row has the schema of the row as its body. */
const toDocument = (version: string) => `
openapi: ${version}
info: { title: Values, version: '1' }
servers: [{ url: /v1 }]
security: [{ apiKey: [] }]
components:
  securitySchemes: { apiKey: { type: apiKey, in: header, name: X-Api-Key } }
  schemas:
    Short: { type: string, maxLength: 3 }
    User: { type: object, properties: { id: { type: string, readOnly: true }, name: { type: string } } }
    Tree: { type: object, properties: { 'a/b~ %': { type: array, items: { $ref: '#/components/schemas/Tree' } } } }
paths:
${ALL.map(([own, , schema], index) => (own === version ? toPath(index, schema) : '')).join('')}`;
const toPath = (index: number, schema: object) => `
  /values/${index}:
    post:
      operationId: check${index}
      x-rpc: check
      requestBody: { content: { application/json: { schema: ${JSON.stringify(schema)} } } }
      responses: { '204': { description: Checked } }
`;
const compiled = new Map(['3.0.3', '3.1.0'].map((version) => [version, compile(parse(toDocument(version)))]));

test('each keyword is in the table, or validates nothing', () => {
  // `then` is tested with `if`.
  const tested = [...Object.keys(ROWS), 'then'];
  expect(KEYWORDS.filter((name) => !tested.includes(name) && !WITHOUT_EFFECT.includes(name))).toEqual([]);
  expect(tested.filter((name) => !KEYWORDS.includes(name))).toEqual([]);
});

test.each(ALL.map((row, index) => [...row, index] as const))(
  '%s: %s',
  async (version, _what, _schema, allowed, forbidden, index) => {
    const document = (await compiled.get(version)) as CompiledDocument;
    const isValid = (body: unknown) => takes(document, `check${index}`, body);
    expect([isValid(allowed), isValid(forbidden)]).toEqual([true, false]);
  },
);

/** Converts a schema of OpenAPI 3.1 that refers to others by name. */
const convert = (schema: unknown, schemas: object = {}, use: 'request' | 'answer' = 'request') =>
  createConverter(use, { openapi: '3.1.0', components: { schemas } } as never)(schema);

/** Whether an operation accepts a body. */
function takes({ validators }: CompiledDocument, id: string, requestBody: unknown): boolean | undefined {
  return validators.get(id)?.every((check) => check({ path: {}, query: {}, header: {}, cookie: {}, requestBody }));
}

const CAT = `type: object, required: [kind], properties: { kind: { const: cat }, lives: { type: integer } }`;
const DOG = `type: object, required: [kind], properties: { kind: { enum: [dog, fox] } }`;

// Choices are validated in another form, for clearer errors.
test.each([
  '{ oneOf: [{ const: cat }, { type: string, enum: [dog, 1] }] }',
  '{ oneOf: [{ const: cat }, { enum: [cat, dog] }] }',
  '{ anyOf: [{ const: cat }, { enum: [cat, dog] }] }',
  `{ oneOf: [{ ${CAT} }, { ${DOG} }] }`,
  `{ anyOf: [{ ${CAT} }, { ${DOG} }, { type: 'null' }] }`,
  `{ anyOf: [{ type: object, oneOf: [{ ${CAT} }, { ${DOG} }] }, { type: 'null' }] }`,
  `{ type: object, anyOf: [{ ${CAT} }, { type: 'null' }] }`,
  `{ oneOf: [{ ${CAT} }, { ${CAT} }, { ${DOG} }] }`,
  `{ oneOf: [{ ${CAT} }, { type: [object, 'null'], required: [kind], properties: { kind: { const: dog } } }] }`,
  `{ oneOf: [{ ${CAT} }, { type: object, properties: { kind: { const: dog } } }] }`,
  `{ oneOf: [{ ${CAT} }, { ${DOG} }], properties: { id: {} }, unevaluatedProperties: false }`,
  `{ allOf: [{ required: [id] }], oneOf: [{ allOf: [{ ${CAT} }, { maxProperties: 2 }] }, { ${DOG} }] }`,
  "{ oneOf: [{ type: string }, { minimum: 5, type: integer }, { type: 'null' }] }",
  `{ anyOf: [{ type: string, minLength: 4 }, { ${CAT} }, { ${DOG} }, { type: number, maximum: 5 }] }`,
  '{ anyOf: [{ type: integer, minimum: 5 }, { type: number, maximum: 3 }] }',
  '{ anyOf: [{ const: 0.5 }, { type: integer, minimum: 1 }] }',
  `{ oneOf: [{ allOf: [{ ${CAT} }, { properties: { kind: { enum: [cat, dog] } } }] }, { ${DOG} }] }`,
  `{ oneOf: [{ required: [kind], type: object, properties: { kind: { const: 1 } } }, { ${DOG} }] }`,
  '{ allOf: [{ type: [string, integer], minimum: 2, enum: [cat, 1, 9] }], maximum: 9, minLength: 2 }',
  '{ anyOf: [{ allOf: [{ enum: [cat] }, { enum: [dog] }] }, { const: 9 }] }',
  '{ allOf: [{ type: array, prefixItems: [{ type: string }] }], items: { type: integer } }',
  '{ allOf: [{ type: string }], oneOf: [{ pattern: ^c }, { pattern: g$ }], anyOf: [{ pattern: o }] }',
  '{ allOf: [{ type: array }], anyOf: [{ minItems: 1 }, { type: object }] }',
])('a choice allows what JSON Schema says: %s', (text) => {
  const schema = parse(text);
  const expected = new Ajv2020({ strict: false }).compile(schema);
  const isValid = compileSchema(createAjv(), convert(schema));
  const objects = ['cat', 'dog', 'fox', 'cow', 1, undefined].flatMap((kind) => [
    ...[{ kind }, { kind, lives: 9 }, { kind, lives: 'x' }, { kind, id: 1 }, { kind, id: 1, lives: 9 }],
  ]);
  const values = JSON.parse(JSON.stringify([null, 1, 9, 'cat', 'dog', 'cow', [], ...objects]));
  expect(values.filter((value: unknown) => isValid(value))).toEqual(values.filter((value: unknown) => expected(value)));
});

const S = (n: number) => ({ $ref: `#/components/schemas/S${n}` });

/** The document with this many schemas S0, S1, … beside its own, and a body that has each of them as a property. */
function withSchemas(
  length: number,
  toSchema: (n: number) => object,
  { Any = {}, ...parts }: { Any?: object; paths?: OpenAPIV3.PathsObject } = {},
) {
  const all = Array.from({ length }, (_, n) => n);
  const schemas = { Any, ...Object.fromEntries(all.map((n) => [`S${n}`, toSchema(n)])) };
  const body = { type: 'object', properties: Object.fromEntries(all.map((n) => [`S${n}`, S(n)])) };
  const { components, ...document } = documentOf(jsonBody(body));
  return compile({
    ...document,
    components: { ...components, schemas: { ...components?.schemas, ...schemas } },
    ...parts,
  });
}

test('a long chain of schemas is compiled, in whatever order they are found', async () => {
  const withinOf = (n: number) => (n > 0 ? { within: S(n - 1) } : {});
  const document = await withSchemas(500, (n) => ({
    type: 'object',
    properties: { a: { type: 'string' }, ...withinOf(n) },
  }));
  const isValid = (a: unknown) => takes(document, 'um', { S2: { within: { within: { a } } } });
  expect([isValid('b'), isValid(1)]).toEqual([true, false]);
});

test.each([1_000, 3_000])('schemas in a ring of %s are refused in a sentence', async (length) => {
  const compiled = withSchemas(length, (n) => ({ type: 'object', properties: { within: S((n + 1) % length) } }));
  await expect(compiled).rejects.toThrow('refer to each other in too long a ring');
});

test('a hundred and fifty resources that may contain each other, each with operations, are compiled', async () => {
  const all = Array.from({ length: 150 }, (_, n) => n);
  const list = { type: 'array', items: { $ref: '#/components/schemas/Any' } };
  const lists = Object.fromEntries(['contained', 'a', 'b', 'c', 'd', 'e'].map((name) => [name, list]));
  const toResource = (n: number) => ({
    ...{ type: 'object', required: ['kind'] },
    properties: { kind: { enum: [`S${n}`] }, ...lists },
  });
  const toItem = (n: number) => [`/S${n}`, documentOf({ ...jsonBody(S(n)), operationId: `S${n}` }).paths['/um']];
  const paths = Object.fromEntries(all.map(toItem));
  const Any = { oneOf: all.map(S), discriminator: { propertyName: 'kind' } };
  const { operations } = await withSchemas(150, toResource, { Any, paths });
  expect(operations.size).toBe(150);
});

/** The values, in YAML, that a schema with references to others allows. */
function filterBy(schemas: string, schema: string, values: string, use: 'request' | 'answer' = 'request'): unknown[] {
  const isValid = compileSchema(createAjv(), convert(parse(schema), parse(schemas), use));
  return parse(values).filter((value: unknown) => isValid(value));
}

test('a discriminator chooses by its mapping, or by the names of schemas', () => {
  const schemas = ['Cat: lives', 'Dog: bites', 'Cow: milk'].map((text) =>
    text.replace(/(\w+): (\w+)/, '$1: { type: object, required: [$2], properties: { $2: { type: integer } } }'),
  );
  const refs = ['Cat', 'Dog', 'Cow'].map((name) => `{ $ref: '#/components/schemas/${name}' }`);
  const mapping = "{ cat: Cat, tom: Cat, dog: '#/components/schemas/Dog' }";
  const choice = `oneOf: [${refs}], discriminator: { propertyName: kind, mapping: ${mapping} }`;
  const allowed = `null, { kind: cat, lives: 9 }, { kind: tom, lives: 9 }, { kind: dog, bites: 1 }, { kind: Cow, milk: 1 }`;
  const forbidden = `1, {}, { lives: 9 }, { kind: cat, bites: 1 }, { kind: Cat, lives: 9 }, { kind: fox, lives: 9 }`;
  const all = [...schemas, `Pet: { ${choice} }`].join('\n');
  for (const own of [choice, "allOf: [{ $ref: '#/components/schemas/Pet' }]"]) {
    const schema = `{ nullable: true, ${own} }`;
    expect(filterBy(all, schema, `[${allowed}, ${forbidden}]`)).toEqual(parse(`[${allowed}]`));
  }
});

const SELF = "{ $ref: '#/components/schemas/Self' }";
const AS = `properties: { a: ${SELF} }`;
const LISTS = `properties: { a: { type: array, items: ${SELF} } }`;
const LISTS_2 = `properties: { a: { items: { allOf: [${SELF}] } } }`;

// Otherwise each level would take twice the time.
test.each([
  `allOf: [{ ${AS} }, { ${AS} }]`,
  `anyOf: [{ ${LISTS} }, { required: [b], ${LISTS_2} }]`,
  `oneOf: [{ maxProperties: 1, ${AS} }, { minProperties: 2, ${AS} }]`,
  `if: { ${AS} }, then: { ${AS} }, else: { maxProperties: 1, ${AS} }`,
  `if: { properties: { a: { ${AS}, minProperties: 1 } } }, then: { ${AS} }`,
  `items: ${SELF}, contains: ${SELF}`,
  `${AS}, patternProperties: { ^a: ${SELF} }`,
  `allOf: [{ ${AS} }], anyOf: [{ unevaluatedProperties: ${SELF} }, { additionalProperties: ${SELF} }]`,
  `$defs: { B: { anyOf: [{ properties: { b: {} } }, { ${AS} }] } },
    anyOf: [{ $ref: '#/components/schemas/Self/$defs/B', unevaluatedProperties: ${SELF} }, { allOf: [{ $ref: '#/components/schemas/Self/$defs/B' }], unevaluatedProperties: false }]`,
])('a schema that leads to itself in two ways takes each value once, as JSON Schema says: %s', (keywords) => {
  const Self = parse(`{ type: [object, array, string], format: counted, ${keywords} }`);
  const document = { ...parse(SELF), components: { schemas: { Self } } };
  let count = 0;
  const counted = () => {
    count += 1;
    return true;
  };
  const expected = new Ajv2020({ strict: false, formats: { counted } }).compile(document);
  const isValid = compileSchema(createAjv().addFormat('counted', counted), convert(parse(SELF), { Self }));
  const around = [(a: unknown) => ({ a }), (a: unknown) => [a], (a: unknown) => ({ a: [a] }), (b: unknown) => ({ b })];
  const nest = (values: unknown[]) =>
    values.flatMap((value) => [{ b: 1, a: value }, ...around.map((wrap) => wrap(value))]);
  const values = structuredClone(nest(nest(nest([{}, [], 1, { b: 1 }]))));
  expect(values.filter((value) => isValid(value))).toEqual(values.filter((value) => expected(value)));
  count = 0;
  for (const wrap of around) isValid(Array(12).fill(0).reduce<unknown>(wrap, 'a'));
  expect(count).toBeLessThan(100);
});

const REFS = ['Cat', 'Dog'].map((name) => `{ $ref: '#/components/schemas/${name}' }`);

test.each([
  ['lists the kinds of all', 'type: object, required: [kind], properties: { kind: { enum: [cat, Dog] } }', '{}', '{}'],
  ['has the kind of none', 'type: object', '{ kind: { const: cat } }', '{ kind: { const: Dog } }'],
  ['lists all, and an own kind is one', 'properties: { kind: { enum: [cat, Dog] } }', '{ kind: { const: cat } }', '{}'],
])('a discriminator chooses between schemas whose base %s', (_what, base, cat, dog) => {
  const extend = (own: string) => `{ allOf: [{ $ref: '#/components/schemas/Base' }, { properties: ${own} }] }`;
  const schema = `{ oneOf: [${REFS}], discriminator: { propertyName: kind, mapping: { cat: Cat } } }`;
  const values = '[{ kind: cat }, { kind: Dog }, {}, { kind: Cat }, { kind: 1 }]';
  const schemas = `{ Base: { ${base} }, Cat: ${extend(cat)}, Dog: ${extend(dog)} }`;
  expect(filterBy(schemas, schema, values)).toEqual([{ kind: 'cat' }, { kind: 'Dog' }]);
});

test.each([
  ['{}', '[cat, pet]', '[dog, pet]'],
  ['{ cat: Cat, dog: Dog }', '[cat, kitten, pet]', '[dog, pup, pet]'],
])('a discriminator with the mapping %s chooses by the values of one schema alone', (mapping, cat, dog) => {
  const toSchema = (kinds: string) => `{ type: object, required: [kind], properties: { kind: { enum: ${kinds} } } }`;
  const inline = '{ required: [x], properties: { kind: { enum: [a] } } }';
  const schema = `{ oneOf: [${REFS}, ${inline}], discriminator: { propertyName: kind, mapping: ${mapping} } }`;
  const kinds = [...parse(cat), ...parse(dog)].filter((kind) => kind !== 'pet');
  const values = [...kinds.map((kind) => `{ kind: ${kind} }`), '{ x: 1 }', '{ kind: a, x: 1 }'];
  const all = `[${values}, { kind: pet }, {}, { kind: Cat }]`;
  expect(filterBy(`{ Cat: ${toSchema(cat)}, Dog: ${toSchema(dog)} }`, schema, all)).toEqual(parse(`[${values}]`));
});

test('a read-only discriminator chooses nothing in a request', () => {
  const schemas = 'Cat: { type: object, required: [kind], properties: { kind: { type: string, readOnly: true } } }';
  const schema =
    "{ oneOf: [{ $ref: '#/components/schemas/Cat' }], minProperties: 0, discriminator: { propertyName: kind } }";
  const values = '[{}, { kind: Cat }, { kind: Dog }]';
  expect(filterBy(schemas, schema, values)).toEqual([{}]);
  expect(filterBy(schemas, schema, values, 'answer')).toEqual([{ kind: 'Cat' }]);
});

test.each([
  [{ $ref: '#/components/schemas/Id', maxLength: 36 }, 'text', 'string', { format: 'uuid', maxLength: 36 }],
  [{ $ref: '#/components/schemas/Id', not: {}, anyOf: [{}] }, 'text', 'string', { format: 'uuid', anyOf: [{}] }],
  [{ $ref: '#/components/schemas/Count', maximum: 100 }, 'text', 'integer', { minimum: 0, maximum: 100 }],
  [{ allOf: [{ $ref: '#/components/schemas/Count' }], minimum: 3 }, 'text', 'integer', { minimum: 3 }],
  [{ $ref: '#/components/schemas/Tags', maxItems: 2 }, 'array', undefined, { minItems: 1, maxItems: 2 }],
  [{ $ref: '#/components/schemas/Tags', minItems: 0, type: ['array', 'null'] }, 'array', undefined, { minItems: 1 }],
  [{ type: ['null'] }, 'json', undefined, { enum: [null] }],
  [{ type: 'array', prefixItems: [{ type: 'object' }], items: { type: 'string' } }, 'json', undefined, {}],
])('keywords beside a reference add to it: %j', (schema, form, scalar, expected) => {
  const schemas = {
    Id: { type: 'string', format: 'uuid' },
    Count: { type: 'integer', minimum: 0 },
    Tags: { type: 'array', minItems: 1, items: { type: 'string' } },
  };
  const converted = convert(schema, schemas);
  expect([formOf(converted), scalarOf(converted)]).toEqual([form, scalar]);
  expect(converted).toMatchObject(expected);
});

test('a property that parts of an allOf declare has what each says', () => {
  const base = {
    properties: { nome: { type: 'string', maxLength: 80, 'x-never-null': true }, dono: { type: 'object' } },
  };
  const own = { properties: { nome: { maxLength: 50, minLength: 1 }, dono: { required: ['id'] } } };
  const { properties } = readProperties(convert({ allOf: [base, own] }, {}, 'answer'));
  expect(properties).toEqual({
    nome: { type: 'string', maxLength: 50, minLength: 1, 'x-never-null': true },
    dono: { allOf: [{ type: 'object' }, { required: ['id'] }] },
  });
});

test.each([
  ['request', { type: 'integer', format: 'int32' }],
  ['answer', { type: 'integer', format: 'int32' }],
  ['request', { $ref: '#/components/schemas/Count', format: 'int32' }],
  ['answer', { allOf: [{ $ref: '#/components/schemas/Count' }, { format: 'int32' }] }],
] as const)('an int32 of a %s has 32 bits, and one error: %j', (use, source) => {
  const isValid = compileSchema(createAjv(), convert(source, { Count: { type: 'integer' } }, use));
  expect([isValid(2 ** 31 - 1), isValid(5e9)]).toEqual([true, false]);
  expect(isValid.errors).toMatchObject([{ keyword: 'maximum' }]);
});

test.each([
  [{ allOf: [{ $ref: '#/components/schemas/Id' }, { readOnly: true }] }],
  [{ $ref: '#/components/schemas/Own' }],
])('a property is read-only if a part of its schema is: %j', (id) => {
  const schemas = { Id: { type: 'string' }, Own: { $ref: '#/components/schemas/Id', readOnly: true } };
  const schema = { type: 'object', required: ['id'], properties: { id } };
  const isValid = compileSchema(createAjv(), convert(schema, schemas));
  expect([isValid({}), isValid({ id: '1' })]).toEqual([true, false]);
  const message = { en: 'is read-only', 'pt-BR': 'Este campo não pode ser alterado' };
  expect(isValid.errors?.map(describeError)).toEqual([message]);
});

test.each([
  ['rows', '[{"b":null,"a":",\\"b\\":null","d":{"b":null}},{"b":null}]', '[{"a":",\\"b\\":null","d":{"b":null}},{}]'],
  ['rows', '[{"a":1,"b":null},{"b":null}]', '[{"a":1},{}]'],
  ['rows', '[]', '[]'],
  ['rows', '[{"b" : null , "c":[[],"}"]},{}]', '[{ "c":[[],"}"]},{}]'],
  ['row', '{"b":"null","a":"b\\":null","c":null,"b":null}', '{"b":"null","a":"b\\":null","c":null}'],
  ['row', '{"a":12345678901234567890,"b": null,"c":[{"b":null}]}', '{"a":12345678901234567890,"c":[{"b":null}]}'],
] as const)(
  'a property that is neither required nor nullable is left out of %s where it is null',
  (returns, json, expected) => {
    expect(leaveOutNulls(json, { returns, optional: ['b'] })).toBe(expected);
  },
);

// Ajv's own keyword compares every pair of items, which takes minutes here.
test('many items are compared for uniqueness in a moment', { timeout: 30_000 }, () => {
  const isValid = compileSchema(createAjv(), { uniqueItems: true, items: { type: 'object' } });
  const items = Array.from({ length: 100_000 }, (_, a) => ({ a }));
  expect([isValid(items), isValid([...items, { a: 0 }])]).toEqual([true, false]);
});

test('a text of the largest body is read whole', () => {
  const text = 'A'.repeat(10_000_000);
  const isValid = compileSchema(createAjv(), { type: 'string', format: 'byte' });
  expect([isValid(text), isValid(`${text}=`)]).toEqual([true, false]);
  for (const long of [text, '\\n1.0'.repeat(2_000_000)]) {
    expect(toPlainIntegers(`["${long}",1.0,1e3,1e300]`)).toBe(`["${long}",1,1000,1e300]`);
  }
  expect(leaveOutNulls(`{"a":"${text}","b":null}`, { returns: 'row', optional: ['b'] })).toBe(`{"a":"${text}"}`);
});
