import type { OpenAPIV3 } from 'openapi-types';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { parse } from 'yaml';
import { compile } from '../../src/openapi/compile.ts';
import { findDrift } from '../../src/openapi/drift.ts';
import type { Store } from '../../src/store/store.ts';
import { openTestStore, startGateway, type TestGateway } from '../helpers/gateway.ts';

// What the answers of functions are, where they are no rows of declared columns, or have null in them.

const read = (id: string, schema: string) => `
    get:
      operationId: ${id}
      x-rpc: ${id}
      responses: { '200': { description: Found, content: { application/json: { schema: ${schema} } } } }`;

const RECORD =
  '{ type: object, required: [a], properties: { a: { type: string }, eventId: { type: string, format: uuid } } }';
const DOCUMENT: OpenAPIV3.Document = parse(`
openapi: 3.0.3
info: { title: Answers, version: '1' }
servers: [{ url: /v1 }]
security: [{ apiKey: [] }]
paths:
  /map: ${read('t_map', '{ type: object, additionalProperties: { type: integer } }')}
  /choices: ${read('t_choices', '{ type: array, items: { oneOf: [{ type: object, properties: { n: {} } }, { type: string }] } }')}
  /none: ${read('t_none', '{ type: array, items: { type: object } }')}
  /record: ${read('t_record', RECORD)}
  /records: ${read('t_records', `{ type: array, items: ${RECORD} }`)}
components:
  securitySchemes: { apiKey: { type: apiKey, in: header, name: X-Api-Key } }
`);

const CLAUSES = 'language plpgsql stable security definer set search_path = pg_catalog, pg_temp';
const define = (name: string, returns: string, query: string) => `
create function public.${name}(p_api_key text) returns ${returns} ${CLAUSES} as $$
begin
  perform private.verify_key(p_api_key, '${name}');
  ${query};
end $$;
select private.publish('public.${name}');`;

const COLUMNS = 'table (a text, "eventId" uuid)';
const SQL = [
  define('t_map', 'jsonb', `return '{"available": 3}'`),
  define('t_choices', 'setof jsonb', `return query values ('{"n": 1}'::jsonb), ('"x"'), (null)`),
  define('t_none', 'setof jsonb', 'return'),
  define('t_record', `${COLUMNS} rows 1`, `return query select 'x', null::uuid`).replace(
    ' rows 1 language plpgsql',
    ' language plpgsql rows 1',
  ),
  define('t_records', COLUMNS, `return query select 'x', null::uuid union all select ',"eventId":null', null`),
].join('');

let store: Store;
let gateway: TestGateway;

beforeAll(async () => {
  store = await openTestStore({ sql: SQL });
  gateway = await startGateway({ store, document: DOCUMENT });
});

afterAll(async () => {
  await gateway.close();
  await store.close();
});

test('document and database agree', async () => {
  const { operations } = await compile(DOCUMENT);
  const description = await store.describe(new AbortController().signal);
  if ('failure' in description) throw description.failure.cause;
  expect(findDrift(operations, description.functions)).toEqual([]);
});

test.each([
  ['/map', { available: 3 }],
  ['/choices', [{ n: 1 }, 'x', null]],
  ['/none', []],
  ['/record', { a: 'x' }],
  ['/records', [{ a: 'x' }, { a: ',"eventId":null' }]],
])('%s is the value itself, without properties that are null and may not be', async (path, expected) => {
  const answer = await fetch(gateway.url + path, { headers: { 'X-Api-Key': 'wms_demo_aurora' } });
  expect([answer.status, await answer.json()]).toEqual([200, expected]);
});
