import { readFileSync } from 'node:fs';
import { beforeAll, describe, expect, inject, test } from 'vitest';
import { parse } from 'yaml';
import { messages } from '../../src/api/messages.ts';
import { compile } from '../../src/openapi/compile.ts';
import { describeDifference, findDrift } from '../../src/openapi/drift.ts';
import { canHold } from '../../src/openapi/postgres-types.ts';
import type { Schema } from '../../src/openapi/schema.ts';
import type { Call } from '../../src/store/store.ts';
import { useGateway } from '../helpers/api.ts';

// Each kind of function is served in the same way on every store, or is refused at the start in one sentence.

/** A function of SQL, and the operation that calls it. */
type Row = {
  readonly what: string;
  readonly sql: string;
  /** The operation without its id and function; by default a list of any objects. */
  readonly operation?: string;
  /** Queries or bodies, and the status and body of their answers. */
  readonly answers?: readonly (readonly [string, number, unknown])[];
  /** The difference that the comparison reports. The other one is for a store that knows only the names of types. */
  readonly refused?: string;
  readonly refusedByNames?: string;
};

const INTEGER = '{ type: integer, nullable: true }';
const ROW = `responses: { '200': { description: A row, content: { application/json: { schema: { type: object } } } }, '404': { description: None } }`;
const LIST = `responses: { '200': { description: Rows, content: { application/json: { schema: { type: array, items: { type: object } } } } } }`;
const VALUE = `responses: { '200': { description: A value, content: { application/json: { schema: {} } } } }`;
/** An optional property is left out where it is null. */
const EVENT =
  '{ type: object, required: [a], properties: { a: { type: string }, eventId: { type: string, format: uuid } } }';
/** The aliases of a statement have these names. */
const COLUMNS = `{ r: ${INTEGER}, names: ${INTEGER}, value: ${INTEGER}, count: ${INTEGER} }`;
const withQuery = (schema: string, rest = VALUE) => `parameters: [{ name: v, in: query, schema: ${schema} }]\n${rest}`;

/** The SQL of a function with this argument of its own, this result and these statements. */
const define = (argument: string, returns: string, statements: string, volatility = 'stable', name = 'NAME') =>
  `create function public.${name}(p_api_key text${argument && `, ${argument} default null`}) returns ${returns}
language plpgsql ${volatility} security definer set search_path = pg_catalog, pg_temp as $$
begin
  ${statements};
end $$;
select private.publish('public.${name}');`;

const ECHO = 'return to_jsonb(p_v)';

/** An argument of a new type, a query that is accepted with its answer, and a query with a value that cannot be stored. */
const argument = (type: string, sql: string, schema: string, taken: string, back: unknown, refused: string) => ({
  sql: `${sql}\n${define(`p_v ${type}`, 'jsonb', ECHO)}`,
  operation: withQuery(schema),
  answers: [
    [taken, 200, back],
    [refused, 422, { error: { v: ['is no value that can be stored'] } }],
  ] as const,
});

/** A function with this result, which the schema describes. */
const value = (returns: string, statements: string, schema: string, back: unknown) => ({
  sql: define('', returns, statements),
  operation: VALUE.replace('schema: {}', `schema: ${schema}`),
  answers: [['', 200, back]] as const,
});

const ROWS: readonly Row[] = [
  {
    what: 'a row type, and not a set',
    sql: `create type public.ponto as (x integer, y integer);
${define('p_v integer', 'public.ponto', 'return case p_v when 1 then row(1, 2)::public.ponto when 2 then row(1, null)::public.ponto end')}`,
    operation: withQuery(
      '{ type: integer, format: int32 }',
      ROW.replace('type: object', `type: object, properties: { x: ${INTEGER}, y: ${INTEGER} }`),
    ),
    answers: [
      ['?v=1', 200, { x: 1, y: 2 }],
      ['?v=2', 200, { x: 1, y: null }],
      ['?v=3', 404, { error: 'Not found' }],
    ],
  },
  {
    what: 'a row of columns with the names that a statement has',
    sql: define(
      '',
      'table (r integer, names integer, value integer, count integer) rows 1',
      'return query select 1, 2, 3, 4',
    ),
    operation: ROW.replace('type: object', `type: object, properties: ${COLUMNS}`),
    answers: [['', 200, { r: 1, names: 2, value: 3, count: 4 }]],
  },
  {
    what: 'a single column of a composite type, which Postgres expands',
    sql: `create type public.par as (x integer, y integer); create domain public.casal as public.par;
${define('', 'table (c public.casal) rows 1', 'c := row(1, 2); return next')}`,
    operation: ROW.replace('type: object', 'type: object, required: [c], properties: { c: { type: object } }'),
    refused: 'the response has c; in the database it returns no such column',
    // PostgREST does not tell what a function returns.
    refusedByNames: '',
  },
  {
    what: 'a list of rows of one column',
    sql: define('', 'table (r integer)', 'return query select 1 union all select 3'),
    answers: [['', 200, [{ r: 1 }, { r: 3 }]]],
  },
  {
    what: 'an error of the function that quotes an argument of another type',
    sql: define('p_v integer', 'jsonb', 'return to_jsonb(p_v::text::timestamptz)'),
    operation: withQuery('{ type: integer, format: int32 }'),
    answers: [['?v=1', 502, { error: 'Data store error' }]],
  },
  {
    what: 'a domain over a domain',
    ...argument(
      'public.d2',
      'create domain public.d1 as integer check (value >= 0); create domain public.d2 as public.d1 check (value <= 10);',
      '{ type: integer, format: int32 }',
      ...(['?v=7', 7, '?v=11'] as const),
    ),
  },
  {
    what: 'a domain over an enum',
    ...argument(
      'public.d3',
      `create type public.e1 as enum ('a', 'b', 'c'); create domain public.d3 as public.e1 check (value <> 'c');`,
      '{ type: string, enum: [a, b, c] }',
      ...(['?v=b', 'b', '?v=c'] as const),
    ),
  },
  {
    what: 'an array of a domain',
    ...argument(
      'public.d4[]',
      'create domain public.d4 as integer check (value >= 0);',
      '{ type: array, items: { type: integer, format: int32 } }',
      ...(['?v=1&v=2', [1, 2], '?v=-1'] as const),
    ),
  },
  {
    what: 'a column of a table whose name is no pattern',
    sql: `create table private."c++ (d" (signo text not null);
${define('', 'table (signo text) rows 1', `return query select 'a'`)}`,
    operation: ROW.replace('type: object', 'type: object, required: [signo], properties: { signo: { type: string } }'),
    answers: [['', 200, { signo: 'a' }]],
  },
  {
    what: 'a record whose columns only a query can name',
    sql: define('', 'setof record', 'return query select 1'),
    operation: VALUE.replace('schema: {}', 'schema: { type: array, items: { type: object } }'),
    refused: 'it returns record',
    refusedByNames: '',
  },
  {
    what: 'one value by an argument',
    sql: define('out total integer', 'integer', 'total := 7').replace(' default null', ''),
    operation: VALUE.replace('schema: {}', 'schema: { type: integer, format: int32 }'),
    refused: 'it returns by the argument total: declare it returns integer',
    refusedByNames: '',
  },
  {
    what: 'a domain over an array',
    ...argument(
      'public.d7',
      'create domain public.d7 as text[] check (array_length(value, 1) < 3);',
      '{ type: array, items: { type: string } }',
      ...(['?v=a&v=b', ['a', 'b'], '?v=a&v=b&v=c'] as const),
    ),
  },
  {
    what: 'two arguments of one domain',
    sql: `create domain public."Nota" as integer check (value <= 10);\n${define(
      'p_v public."Nota" default null, p_w public."Nota"',
      'jsonb',
      'return to_jsonb(p_v)',
    )}`,
    operation: `parameters: [{ name: v, in: query, schema: { type: integer, format: int32 } }, { name: w, in: query, schema: { type: integer, format: int32 } }]\n${VALUE}`,
    answers: [['?v=11', 422, { error: { v: ['is no value that can be stored'] } }]],
  },
  {
    what: 'an error of the function that quotes a text, which holds every value',
    sql: define('p_v text', 'jsonb', `return to_jsonb(p_v::date)`),
    operation: withQuery('{ type: string }'),
    answers: [['?v=2024-02-30', 502, { error: 'Data store error' }]],
  },
  {
    what: 'the check of a table whose name is a text',
    sql: `create table private.pesos (n integer constraint pesos_check check (n > 0));
grant insert on private.pesos to gateway_functions;
${define('p_body jsonb', 'jsonb', `insert into private.pesos values (0); return '{}'`, 'volatile')}`,
    operation: `requestBody: { required: true, content: { application/json: { schema: { type: object, properties: { n: { type: string } } } } } }
responses: { '201': { description: Weighed, content: { application/json: { schema: {} } } } }`,
    answers: [['{"n":"pesos"}', 502, { error: 'Data store error' }]],
  },
  {
    what: 'an error with the status of a success',
    sql: define('', 'jsonb', `raise sqlstate 'PT201' using message = 'secret'`),
    operation: VALUE,
    answers: [['', 502, { error: 'Data store error' }]],
  },
  {
    what: 'an error of the function with the code of a foreign statement',
    sql: define('', 'jsonb', `raise sqlstate '26000' using message = 'none'`),
    operation: VALUE,
    answers: [['', 502, { error: 'Data store error' }]],
  },
  {
    what: 'the null of JSON',
    sql: define('', 'jsonb', `return 'null'`),
    operation: ROW.replace('type: object', 'type: object, additionalProperties: true'),
    answers: [['', 404, { error: 'Not found' }]],
  },
  {
    what: 'an object with any names',
    ...value('jsonb', `return '{"available": 3}'`, '{ type: object, additionalProperties: { type: integer } }', {
      available: 3,
    }),
  },
  {
    what: 'a list of any values',
    ...value(
      'setof jsonb',
      `return query values ('{"n": 1}'::jsonb), ('"x"'), (null)`,
      '{ type: array, items: { oneOf: [{ type: object, properties: { n: {} } }, { type: string }] } }',
      [{ n: 1 }, 'x', null],
    ),
  },
  { what: 'a list of no values', ...value('setof jsonb', 'return', '{ type: array, items: { type: object } }', []) },
  {
    what: 'a row with a null where the document has none',
    ...value(`table (a text, "eventId" uuid) rows 1`, `return query select 'x', null::uuid`, EVENT, { a: 'x' }),
  },
  {
    what: 'rows with such nulls',
    ...value(
      'table (a text, "eventId" uuid)',
      `return query select 'x', null::uuid union all select ',"eventId":null', null`,
      `{ type: array, items: ${EVENT} }`,
      [{ a: 'x' }, { a: ',"eventId":null' }],
    ),
  },
  {
    what: 'a variadic argument',
    sql: define('variadic p_v text[]', 'jsonb', ECHO),
    operation: withQuery('{ type: array, items: { type: string } }'),
    refused: 'p_v is variadic text[], which cannot be given by name: declare it without variadic',
  },
  {
    what: 'a type of schema private',
    sql: `create domain private.d5 as integer; ${define('p_v private.d5', 'jsonb', ECHO)}`,
    operation: withQuery('{ type: integer, format: int32 }'),
    answers: [['?v=7', 200, 7]],
    refusedByNames: 'p_v is private.d5, which the Data API may not use: create the type in schema public',
  },
  {
    what: 'a type of an extension whose schema is not in the path',
    sql: `create schema ext; grant usage on schema ext to public; create extension citext schema ext;
${define('p_v ext.citext', 'jsonb', ECHO)}`,
    operation: withQuery('{ type: string }'),
    answers: [['?v=Ana', 200, 'Ana']],
  },
  {
    what: 'a domain that takes no null',
    sql: `create domain public.d6 as integer not null; ${define('p_v public.d6', 'jsonb', ECHO, 'volatile')}`,
    operation: `requestBody: { required: true, content: { application/json: { schema: { type: object, required: [p_v], additionalProperties: false, properties: { p_v: { type: integer, format: int32, nullable: true } } } } } }
responses: { '201': { description: Kept, content: { application/json: { schema: {} } } } }`,
    answers: [
      ['{"p_v":7}', 201, 7],
      ['{"p_v":null}', 422, { error: { p_v: ['is no value that can be stored'] } }],
    ],
  },
  {
    what: 'a row for an object of any properties, which would be its first column',
    sql: define('', 'record', 'total := 7; nome := null').replace(
      /p_api_key text\) returns record/,
      'p_api_key text, out total integer, out nome text)',
    ),
    operation: ROW,
    refused: 'the response is object; in the database it returns a row: return one value',
    refusedByNames: '',
  },
  {
    what: 'an exclusion constraint that is violated',
    sql: `create table private.pedras (inicio timestamptz not null, fim timestamptz not null,
  constraint pedras_periodo exclude using gist (tstzrange(inicio, fim) with &&));
grant insert on private.pedras to gateway_functions;
${define(
  'p_v timestamptz',
  'jsonb',
  `insert into private.pedras values (p_v, p_v + interval '1 hour'); return '{"ok": true}'::jsonb`,
  'volatile',
)}`,
    operation: `requestBody: { required: true, content: { application/json: { schema: { type: object, additionalProperties: false, properties: { p_v: { type: string, format: date-time } } } } } }
responses: { '201': { description: Booked, content: { application/json: { schema: {} } } }, '409': { description: Taken, x-conflicts: { pedras_periodo: this hour is taken } } }`,
    answers: [
      ['{"p_v":"2024-01-01T10:00:00Z"}', 201, { ok: true }],
      ['{"p_v":"2024-01-01T10:30:00Z"}', 409, { error: 'this hour is taken' }],
    ],
  },
  {
    what: 'a foreign key that restricts a deletion',
    sql: `create table private.feixes (id integer primary key);
create table private.varas (feixe_id integer constraint varas_feixe references private.feixes on delete restrict);
insert into private.feixes values (1), (2);
insert into private.varas values (1);
grant select, delete on private.feixes to gateway_functions;
${define('p_body jsonb', 'jsonb', `delete from private.feixes where id = (p_body ->> 'id')::integer; return '{}'`, 'volatile')}`,
    operation: `requestBody: { required: true, content: { application/json: { schema: { type: object, nullable: true, properties: { id: { type: integer } } } } } }
responses: { '201': { description: Removed, content: { application/json: { schema: {} } } }, '409': { description: Used, x-conflicts: { varas_feixe: it has sticks } } }`,
    answers: [
      ['{"id":1}', 409, { error: 'it has sticks' }],
      ['{"id":2}', 201, {}],
      ['{"id":3.00000000000000000001}', 422, { error: { id: ['must be integer'] } }],
      [
        `{"id":3.00000000000000000001,"a":${'['.repeat(3_000)}${']'.repeat(3_000)}}`,
        422,
        { error: { a: [messages.isTooDeep.en] } },
      ],
      ['{"id":2.99999999999999999999}', 422, { error: { id: ['must be integer'] } }],
      [`{"id":3${'0'.repeat(40)}e-40}`, 201, {}],
    ],
  },
];

/** A creation as the database's page describes it, by what it gives: its type and its last statement. */
const CREATIONS: readonly (readonly [Call['returns'], type: string, end: string])[] = [
  ['row', 'table (n integer) rows 1', 'return query select 1;'],
  ['rows', 'table (n integer)', 'return query select 1;'],
  ['values', 'setof jsonb', `return query select '1'::jsonb;`],
  ['value', 'jsonb', `return '1'::jsonb;`],
  ['nothing', 'void', ''],
];
const CREATE = CREATIONS.map(([returns, type, end]) => {
  const name = `criar_${returns}`;
  const statements = `declare
    v_tenant constant uuid := private.verify_key(p_api_key, '${name}');
    v_first constant jsonb := private.recall_response(v_tenant, p_idempotency_key, '["${name}"]');
  begin
    if v_first is null then
      perform private.keep_response(v_tenant, p_idempotency_key, '{}');
    end if;
    ${end}
  end`;
  return define('p_idempotency_key text', type, statements, 'volatile', name);
});

const PAGE = readFileSync('docs/openapi-support.md', 'utf8');
const isText = (type: string) => canHold({ type: 'string' }, { type: TYPES[type] ?? '', labels: null });
/** Types of Postgres as people write them, and as Postgres names them. */
const TYPES: Readonly<Record<string, string>> = {
  ...{ varchar: 'character varying', char: 'character', timestamptz: 'timestamp with time zone' },
  ...{ timestamp: 'timestamp without time zone', timetz: 'time with time zone', time: 'time without time zone' },
  ...Object.fromEntries(
    `text citext uuid date interval inet bytea smallint integer bigint numeric real boolean json jsonb cidr money name oid
      point xml`
      .split(/\s+/)
      .concat('double precision')
      .map((type) => [type, type]),
  ),
};
const FORMATS = 'uuid date date-time date-time-local time time-local duration ipv4 ipv6 byte'.split(' ');

test.each<[string, readonly Schema[]]>([
  ['string', [{ type: 'string' }]],
  ['string with a format', FORMATS.map((format) => ({ type: 'string', format }))],
  ['integer', [{ type: 'integer' }, { type: 'integer', maximum: 9, minimum: 0 }]],
  ['number', [{ type: 'number' }]],
  ['boolean', [{ type: 'boolean' }]],
  ['anything else', [{ type: 'object' }]],
])('the page names the types of an argument that take: %s', (row, schemas) => {
  const cell = new RegExp(`^\\| ${row} \\| (.*) \\|$`, 'm').exec(PAGE)?.[1] ?? '';
  // Parentheses contain the format of a type.
  const named = [...cell.replace(/\(.*?\)|`format: int32`/g, '').matchAll(/`([^`]+)`/g)].map(([, type = '']) => type);
  const takes = (type: string) => schemas.some((schema) => canHold(schema, { type, labels: null }));
  const taken = Object.keys(TYPES).filter((name) => takes(TYPES[name] ?? ''));
  // Types of texts hold the values of every other row too, and are named in the row string alone.
  expect(new Set(named)).toEqual(new Set(row === 'string' ? taken : taken.filter((name) => !isText(name))));
});

const nameOf = (index: number) => `funcao_${index}`;
const isByNames = inject('kind') === 'supabase';

const document = parse(`
openapi: 3.0.3
info: { title: Functions, version: '1' }
servers: [{ url: /v1 }]
security: [{ key: [] }]
components: { securitySchemes: { key: { type: apiKey, in: header, name: X-Api-Key } } }
paths: {}
`);
for (const [index, { operation = LIST }] of ROWS.entries()) {
  const own = { operationId: nameOf(index), 'x-rpc': nameOf(index), ...parse(operation) };
  document.paths[`/${nameOf(index)}`] = { [own.requestBody ? 'post' : 'get']: own };
}

const sql = [...ROWS.map(({ sql }, index) => sql.replaceAll('NAME', nameOf(index))), ...CREATE].join('\n');
const gateway = useGateway({ sql, document });
let differences: ReturnType<typeof findDrift>;

beforeAll(async () => {
  const description = await gateway.store.describe(new AbortController().signal);
  if ('failure' in description) throw description.failure.cause;
  differences = findDrift((await compile(document)).operations, description.functions);
});

describe.each(ROWS.map((row, index) => ({ ...row, name: nameOf(index) })))('$what', (row) => {
  const refused = isByNames ? (row.refusedByNames ?? row.refused) : row.refused;

  test('is compared at the start', () => {
    const own = differences.filter(({ operation, isAddition }) => operation === row.name && !isAddition);
    const sentences = own.map(describeDifference);
    // PostgREST does not distinguish a variadic argument, and its type is not an array.
    if (refused)
      expect(sentences).toEqual([expect.stringContaining(isByNames && !row.refusedByNames ? 'p_v' : refused)]);
    else expect(sentences).toEqual([]);
  });

  if (refused) return;
  test.each(row.answers ?? [])('is served: %j is a %i', async (sent, status, body) => {
    const isBody = sent.startsWith('{');
    const init = { headers: { 'X-Api-Key': 'wms_demo_aurora' }, ...(isBody && { method: 'POST', body: sent }) };
    const answer = await fetch(`${gateway.url}/${row.name}${isBody ? '' : sent}`, init);
    expect([answer.status, await answer.json()]).toEqual([status, body]);
  });
});

test.each(CREATIONS)('a repetition of a creation that gives %s is recognized', async (returns) => {
  const repeat = async (key?: string) => {
    const args = { p_api_key: 'wms_demo_aurora', ...(key && { p_idempotency_key: `${returns}-${key}` }) };
    const call = { function: `criar_${returns}`, args, returns, readOnly: false };
    const result = await gateway.store.call(call, new AbortController().signal);
    return 'failure' in result ? result.failure : result.isReplayed === true;
  };
  expect([await repeat('1'), await repeat('1'), await repeat(), await repeat('2'), await repeat('2')]).toEqual([
    ...[false, true, false, false, true],
  ]);
});
