import { expect, test } from 'vitest';
import { toCall } from '../../src/api/call.ts';
import { messages } from '../../src/api/messages.ts';
import { createToolReader } from '../../src/api/tool-reader.ts';
import { validate } from '../../src/api/validate.ts';
import { compile } from '../../src/openapi/compile.ts';
import type { Operation } from '../../src/openapi/operations.ts';
import type { JsonObject } from '../../src/store/store.ts';
import { document, documentOf, jsonBody } from '../helpers/api.ts';

/** Compiles a document of OpenAPI 3.1 whose operation has these parts. */
async function compileParts(parts: object) {
  const components = { securitySchemes: document.components?.securitySchemes ?? {} };
  const compiled = await compile({ ...documentOf(parts), openapi: '3.1.0', components });
  return { compiled, operation: compiled.operations.get('um') as Operation };
}

async function read(operation: Operation, args: JsonObject) {
  const texts = new Map(Object.entries(args).map(([name, value]) => [name, JSON.stringify(value)]));
  const reader = createToolReader({ operation, args, texts });
  const request = reader.read({ method: '', url: '', headers: {} });
  await reader.takeInputs(
    { method: '', url: '', headers: {}, readBody: async () => new Uint8Array() },
    operation,
    request,
  );
  return request;
}

/** The arguments of a tool call of the operation that has these parts. */
async function argsOf(parts: object, args: JsonObject) {
  const { operation } = await compileParts(parts);
  return toCall(operation, await read(operation, args)).args;
}

test('an array in a text with 50,000 levels is refused on its name', async () => {
  const input = { in: 'query', name: 'ids', argument: 'p_ids', form: 'array', type: 'integer' };
  const operation = { inputs: [input], path: '/a' } as unknown as Operation;
  const ids = '['.repeat(50_000) + ']'.repeat(50_000);
  const request = await read(operation, { ids });
  expect(request.problems).toEqual(new Map([['ids', [messages.isTooDeep]]]));
});

test('a field that another one requires is refused by its name', async () => {
  const schema = { type: 'object', dependentRequired: { a: ['b'] } };
  const { compiled, operation } = await compileParts(jsonBody(schema));
  const request = await read(operation, { body: { a: 1 } });
  const fields = { b: [expect.objectContaining({ en: 'must have property b when property a is present' })] };
  expect(() => validate(compiled, operation, request)).toThrow(
    expect.objectContaining({ failure: { kind: 'invalidInput', fields } }),
  );
});

const ANY = { oneOf: [{ type: 'string' }, { type: 'number' }, { type: 'object' }] };
const OTHER = '1,"p_other":true';

test.each<[object, JsonObject[string], string]>([
  [ANY, 'azul', '"azul"'],
  [ANY, '10', '"10"'],
  [ANY, OTHER, JSON.stringify(OTHER)],
  [ANY, 1.5, '1.5'],
  [{}, OTHER, JSON.stringify(OTHER)],
  [{ type: ['string', 'object'] }, 10, '"10"'],
  [{ type: ['number', 'object'] }, '10', '10'],
  [{ type: 'object' }, '{"a": 1}', '{"a": 1}'],
])('with the schema %j the argument %j is the JSON %s', async (schema, value, json) => {
  const fields = { type: 'object', additionalProperties: false, properties: { p_v: schema } };
  expect((await argsOf(jsonBody(fields), { p_v: value })).p_v).toEqual({ json });
  expect((await argsOf(jsonBody(schema), { body: value })).p_body).toEqual({ json });
});

test.each<[object, JsonObject[string], JsonObject[string]]>([
  [{ type: 'number' }, ['1.5', '12345678901234567.89', 2], [1.5, '12345678901234567.89', 2]],
  [{ type: 'string' }, ['a', 1, true], ['a', '1', 'true']],
  [{ type: 'string' }, '["a,", 12345678901234567890, 1.50]', ['a,', '12345678901234567890', '1.50']],
])(
  'the items of a list of %j are converted, with all digits, in a parameter and in a field',
  async (items, sent, taken) => {
    const schema = { type: 'array', items };
    const parameter = { parameters: [{ name: 'v', in: 'query', schema }] };
    const field = jsonBody({ type: 'object', additionalProperties: false, properties: { p_v: schema } });
    expect((await argsOf(parameter, { v: sent })).p_v).toEqual(taken);
    expect((await argsOf(field, { p_v: sent })).p_v).toEqual(taken);
  },
);
