// Gateways with a fault each, which a run of all checks has to find.

import { hash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import type { OpenAPIV3 } from 'openapi-types';
import { afterAll, describe, expect, test } from 'vitest';
import type { Answer } from '../../scripts/conformance/client.ts';
import { toJUnit } from '../../scripts/conformance/report.ts';
import type { Request } from '../../scripts/conformance/request.ts';
import { LIMITED_KEY, NEAR_KEYS, OTHER_KEY, OWN_KEY, READ_KEY } from '../../scripts/conformance/request.ts';
import { readDocument } from '../../src/openapi/document.ts';
import { follow } from '../../src/openapi/pointer.ts';
import type { Json } from '../../src/store/store.ts';
import { document, KEYS } from '../helpers/api.ts';
import {
  type Fault,
  failuresOf,
  GET,
  mapQuery,
  namesOf,
  outcomesOf,
  queryOf,
  spoil,
  startChecks,
} from './conformance/checks.ts';

const { run, findFaults, findFault, close } = await startChecks();

afterAll(close);

type Options = Parameters<typeof run>[0];
type Row = Record<string, Json>;
type Changed = Partial<Answer> | false | undefined;
type Headers = Record<string, string | undefined>;

const only = ['listarPersonais'];
const STUDENTS = { only: ['listarAlunos'] };
const CREATION = { only: ['criarAluno'] };
const matching = (pattern: RegExp): string => expect.stringMatching(pattern);
const containing = (text: string): string => expect.stringContaining(text);

const withBody = (body: unknown, status?: number) => ({
  ...{ body: body as Json, text: JSON.stringify(body) },
  ...(status ? { status } : {}),
});
const withHeaders = ({ headers }: Answer, others: Headers) => {
  const changed = Object.entries({ ...headers, ...others }).filter(([, value]) => value !== undefined);
  return { headers: Object.fromEntries(changed) as Record<string, string> };
};
const NOT_MODIFIED = { status: 304, text: '', body: undefined };

/** Answers are changed where there is a change. */
const answers = (change: (answer: Answer, request: Request) => Changed): Fault => ({
  answer: (answer, request) => change(answer, request) || {},
});
/** Answers with a status are changed, and by their body. */
const of = <T = Row>(status: number, change: (body: T, request: Request, answer: Answer) => Changed): Fault =>
  answers((answer, request) => answer.status === status && change(answer.body as T, request, answer));
/** Answers to a key are changed. */
const to = (key: symbol, change: (answer: Answer, request: Request) => Changed): Fault =>
  answers((answer, request) => request.key === key && change(answer, request));
const refusals = (change: (error: Row) => Changed): Fault => of<{ error: Row }>(422, ({ error }) => change(error));
const rows = (change: (rows: Row[]) => unknown): Fault =>
  of<Row[]>(200, (all, { method }) => method === 'GET' && withBody(change(all)));
/** Changes the rows of a list with this filter. */
const filtered = (name: string, change: (rows: Row[], value: string) => unknown): Fault =>
  of<Row[]>(200, (all, request) => {
    const value = new URLSearchParams(queryOf(request)).get(name);
    return value !== null && withBody(change(all, value));
  });
const parameter = (name: string, change: (value: string) => string | undefined): Fault => ({
  ask: (request) => mapQuery(request, (one, value) => (one === name ? change(value) : value)),
});
/** Answers have these headers, undefined where they lack one. */
const headers = (change: (headers: Headers, query: string) => Headers): Fault =>
  answers((answer, request) => withHeaders(answer, change(answer.headers, queryOf(request))));
const lacks = (name: string) => headers(() => ({ [name]: undefined }));
const link = (change: (link: string) => string | undefined) =>
  headers(({ link }) => ({ link: change(link ?? '') || undefined }));
const encoded = (change: (text: string, rows: Json[]) => Changed): Fault =>
  answers(({ text, body }, { headers }) => 'Accept-Encoding' in headers && change(text, body as Json[]));
/** Requests have another body. */
const bodies = (change: (body: string) => string): Fault => ({ ask: ({ body = '' }) => ({ body: change(body) }) });
/** Any cache may keep answers with this status. */
const published = (status: number): Fault =>
  of(status, (_body, _request, answer) => withHeaders(answer, { 'cache-control': 'public, max-age=600' }));

const endConnection = () => {
  throw new Error('other side closed');
};

type Found = Partial<Record<'expected' | 'got' | 'curl', unknown>>;
/** By the check that finds it, and by how a gateway is faulty: the fault, and what the report says. */
type Faults = Readonly<Record<string, Readonly<Record<string, readonly [Fault, Found?]>>>>;

const SKIPS_AFTER = parameter('after', (value) => value.replace(/2$/, '3'));
const SKIPPED = { expected: 'a2000000-0000-4000-8000-000000000003 in that place' };
const lacksInHead = (name: string): [string, readonly [Fault, Found]] => [
  `no ${name} in the answer to HEAD`,
  [
    {
      ask: (request) => (queryOf(request) === '' ? { target: `${request.target}?limit=1` } : {}),
      answer: (answer, { method }) => (method === 'HEAD' ? withHeaders(answer, { [name]: undefined }) : {}),
    },
    { expected: matching(new RegExp(`^${name}: .+, like GET$`)), got: `${name}: none` },
  ],
];
const takesForOwn = (near: symbol): [string, readonly [Fault, Found]] => [
  `the key $${near.description} taken for its own`,
  [
    { ask: ({ key }) => (key === near ? { key: OWN_KEY } : {}) },
    { curl: `curl -i -H "X-Api-Key: $${near.description}" '$URL/personais'`, expected: '401 as in the document' },
  ],
];
let tags = 0;

const OF_LIST: Faults = {
  'refuses limit less than 1': {
    'a wrong status': [
      refusals(() => ({ status: 400 })),
      {
        curl: `${GET} '$URL/personais?limit=0'`,
        ...{ expected: '422 that names limit alone', got: '400 {"error":{"limit":["must be >= 1"]}}' },
      },
    ],
    'an error in another form': [
      refusals(() => withBody({ message: 'limit is wrong' })),
      { got: matching(/^not the schema of 422: the value must have required property 'error'\n422/) },
    ],
  },
  'refuses limit more than 1000': {
    'a maximum that is one more': [
      parameter('limit', (value) => (value === '1001' ? '1000' : value)),
      { curl: matching(/limit=1001'$/), expected: '422 that names limit alone' },
    ],
  },
  'refuses academia_id that is not uuid': {
    'an error that does not name the field': [
      refusals(() => withBody({ error: { outro: ['is wrong'] } })),
      { expected: '422 that names academia_id alone', got: '422 {"error":{"outro":["is wrong"]}}' },
    ],
  },
  'names all of several errors': {
    'an error that names the first field alone': [
      refusals((error) => withBody({ error: Object.fromEntries(Object.entries(error).slice(0, 1)) })),
    ],
  },
  'takes limit': {
    'a status that is not declared': [
      of(200, (_body, { method }) => method === 'GET' && { status: 206 }),
      { got: matching(/^listarPersonais does not declare this status\n206 \[/) },
    ],
    'a response that is not the schema': [
      rows((all) => all.map(({ email, ...row }) => row)),
      { got: matching(/^not the schema of 200: \/0 must have required property 'email'\n200 \[/) },
    ],
    'another content type': [
      headers(() => ({ 'content-type': 'text/html' })),
      { got: matching(/^Content-Type is text\/html, expected application\/json\n200 \[/) },
    ],
    'a body that is cut off': [
      of(200, (_body, _request, { text }) => ({ text: text.slice(0, -1), body: undefined })),
      { got: matching(/^the body is not JSON\n200 \[/) },
    ],
    'a maximum that is one less': [
      parameter('limit', (value) => (value === '1000' ? '1001' : value)),
      {
        ...{ curl: matching(/personais\?limit=1000'$/), expected: '200 as in the document' },
        got: '422 {"error":{"limit":["must be <= 1000"]}}',
      },
    ],
    'more values that are refused, of which the smallest is shown': [
      parameter('limit', (value) => (Number(value) > 611 ? '0' : value)),
      { curl: `${GET} '$URL/personais?limit=612'` },
    ],
    'a connection that ends, told apart from a gateway that is gone': [
      { ask: (request) => (queryOf(request) === 'limit=1000' ? endConnection() : {}) },
      { curl: `${GET} '$URL/personais?limit=1000'`, got: matching(/^no answer: /) },
    ],
  },
  'gives pages that are together the whole list': {
    'a page that repeats a record': [
      parameter('after', (value) => value.replace(/2$/, '1')),
      {
        curl: `${GET} '$URL/personais?limit=1&after=a2000000-0000-4000-8000-000000000002'`,
        expected: 'every record once',
        got: matching(/^a2000000-0000-4000-8000-000000000002 .* as its record 1, for the second time$/),
      },
    ],
    'a next page that skips a record': [SKIPS_AFTER, SKIPPED],
  },
  'continues after any record': { 'a page after a record that skips one': [SKIPS_AFTER, SKIPPED] },
  'gives the page of any limit and offset': {
    'an offset that skips a record': [
      parameter('offset', (value) => (Number(value) > 1 ? String(Number(value) + 1) : value)),
    ],
    'a page that is longer than its limit': [parameter('limit', (value) => String(Math.min(Number(value) + 1, 1000)))],
  },
  'fills every page': {
    'pages of three records at most': [rows((all) => all.slice(0, 3)), { got: '3 records, and more behind them' }],
  },
  'gives nothing beyond the end': {
    'the first page beyond the end': [
      parameter('offset', (value) => (Number(value) > 10_000 ? '0' : value)),
      { expected: 'no record' },
    ],
  },
  'gives the same when repeated': {
    'another order where no page is asked for': [
      of<Row[]>(200, (all, request) => request.method === 'GET' && !queryOf(request) && withBody(all.toReversed())),
    ],
  },
  'filters by academia_id': {
    'a filter that does not filter': [
      parameter('academia_id', (value) => (value.length === 36 ? undefined : value)),
      {
        expected: 'only records with academia_id = "a1000000-0000-4000-8000-000000000001"',
        got: matching(/^a2000000-/),
      },
    ],
    'a filter that minds the case of an id': [
      filtered('academia_id', (all, value) => (value === value.toLowerCase() ? all : [])),
      { curl: matching(/academia_id=A1000000-0000-4000-8000-000000000001/) },
    ],
  },
  'refuses an unknown parameter': {
    'an unknown parameter that is accepted': [
      {
        ask: (request) =>
          mapQuery(request, (name, value) => (/^(limit|offset|academia_id)$/.test(name) ? value : undefined)),
      },
    ],
  },
  'refuses limit that is not integer': {
    '1e1 that is taken for a number': [
      parameter('limit', (value) => (/e/.test(value) ? String(Number(value)) : value)),
    ],
  },
  'refuses academia_id twice': {
    'the first of two values that is taken': [
      { ask: ({ target }) => ({ target: target.replace(/(academia_id=[^&]*)&academia_id=.*/, '$1') }) },
    ],
  },
  'answers the example headersTooLarge with 431': {
    'headers of any size that are taken': [
      { ask: ({ headers: { 'X-Filler': _filler, ...headers } }) => ({ headers }) },
      { curl: `${GET} -H "X-Filler: $(printf '%020000d' 0)" '$URL/personais'`, expected: '431 as in the document' },
    ],
  },
  'refuses a request without a key': {
    'no need of a key': [{ ask: () => ({ key: OWN_KEY }) }, { curl: "curl -i '$URL/personais'" }],
  },
  'refuses an unknown key': {
    'no need of a known key': [{ ask: () => ({ key: OWN_KEY }) }],
    ...Object.fromEntries([...NEAR_KEYS.keys()].slice(0, 3).map(takesForOwn)),
  },
  'links each page to the next and the previous one': {
    'no next': [link((text) => text.replace('"next"', '"last"'))],
    'no prev': [link((text) => text.replace('"prev"', '"first"'))],
    'a link to another path': [
      link((text) => text.replace('<?', '</v1/academias?')),
      { expected: matching(/^a Link to \/v1\/personais\?/), got: matching(/^\/v1\/academias\?/) },
    ],
    'a link without the filter': [link((text) => text.replace(/academia_id=[^&]*&/, ''))],
    'a next that is the same page': [link((text) => text.replace(/offset=\d+>; rel="next/, 'offset=0>; rel="next'))],
    'a next that skips one': [link((text) => text.replace(/offset=2>; rel="next/, 'offset=3>; rel="next'))],
    'a prev to the first page': [link((text) => text.replace(/offset=\d+>; rel="prev/, 'offset=0>; rel="prev'))],
    'a next with another limit': [link((text) => text.replace(/limit=\d+(.*rel="next")/, 'limit=1001$1'))],
    'no next on a filtered page': [
      headers(({ link }, query) => ({ link: query.includes('academia_id') ? undefined : link })),
      { curl: matching(/academia_id=/), expected: 'a Link to the next page' },
    ],
    'a next after the end': [
      link((text) => (text.includes('next') ? text : `${text && `${text}, `}<?limit=2&offset=4>; rel="next"`)),
    ],
    'a prev before the beginning': [link((text) => text.replace('"next"', '"next", <?limit=2&offset=0>; rel="prev"'))],
  },
  'answers HEAD like GET': {
    'another type in the answer to HEAD': [
      answers((answer, { method }) => method === 'HEAD' && withHeaders(answer, { 'content-type': 'x/y' })),
      { expected: 'content-type: application/json; charset=utf-8, like GET', got: 'content-type: x/y' },
    ],
    ...Object.fromEntries(['etag', 'link', 'cache-control', 'vary'].map(lacksInHead)),
  },
  'answers 304 to the ETag of an unchanged answer': {
    'a copy that does not hold': [
      { ask: ({ headers: { 'If-None-Match': _tag, ...headers } }) => ({ headers }) },
      {
        curl: matching(/If-None-Match: W\/"[\w-]+"' '\$URL\/personais\?limit=1'$/),
        ...{ expected: '304 without a body', got: matching(/^200 \[/) },
      },
    ],
    'another tag for the same answer': [headers(({ etag }) => (etag ? { etag: `W/"${tags++}"` } : {}))],
    'no tag': [lacks('etag'), { expected: 'an ETag', got: 'none' }],
  },
  'answers in full to another ETag': {
    'every copy that holds': [answers((_answer, { headers }) => 'If-None-Match' in headers && NOT_MODIFIED)],
    'one tag for every answer': [
      answers((answer, request) => ({
        ...withHeaders(answer, answer.headers.etag ? { etag: 'W/"1"' } : {}),
        ...(request.headers['If-None-Match'] === 'W/"1"' ? NOT_MODIFIED : {}),
      })),
      { got: 'W/"1"' },
    ],
  },
  'answers an unknown path with 404': {
    'an error with more than its text': [
      of(404, (body) => withBody({ ...body, path: '/x' })),
      { expected: '404 {"error": a text} alone' },
    ],
  },
  "returns the request's X-Request-Id": {
    'no id': [lacks('x-request-id'), { expected: matching(/^X-Request-Id: contract-/), got: 'none' }],
    'one id alone': [
      headers(() => ({ 'x-request-id': 'same' })),
      { expected: matching(/, or a proxy's own$/), got: matching(/^same,/) },
    ],
  },
  'forbids content type sniffing': {
    'types to guess': [lacks('x-content-type-options'), { expected: matching(/nosniff/), got: 'none' }],
  },
  'keeps answers to a key out of shared caches': {
    'answers for any cache': [
      headers(() => ({ 'cache-control': 'public, max-age=600' })),
      { expected: matching(/no-store/), got: 'Cache-Control: public, max-age=600, Vary: x-api-key, Accept-Encoding' },
    ],
    'a refused key for any cache': [published(401), { curl: matching(/X-Api-Key: unknown/) }],
    'a missing key for any cache': [published(400)],
    'a 304 for any cache': [published(304), { curl: matching(/If-None-Match/) }],
    'a copy for every key': [headers(() => ({ 'cache-control': 'no-cache', vary: 'accept-encoding' }))],
  },
  'gives the same in any encoding': {
    'an encoded answer that is cut off': [encoded((text) => ({ text: text.slice(0, -1), body: undefined }))],
    'an encoded answer without its last record': [encoded((_text, all) => ({ text: '[]', body: all.slice(0, -1) }))],
    'an encoded answer with a record too many': [encoded((_text, all) => withBody([...all, { id: 'x' }]))],
  },
  'declares the language of its messages': {
    'another language': [headers(() => ({ 'content-language': 'en' })), { got: 'en' }],
  },
};

const OTHER_ID = '00000000-0000-4000-8000-000000000000';

/** The requests with an Idempotency-Key by the name that they create. */
const repeated = new Map<string, number>();
const countOf = (name: Json | undefined) => repeated.get(String(name)) ?? 0;
/** Lists a second record of each creation from its fourth request on. */
const LISTS_TWICE = answers(({ status, body }, { method, body: sent = '', headers: { 'Idempotency-Key': key } }) => {
  const name = key && JSON.parse(sent).p_nome;
  if (name) repeated.set(name, countOf(name) + 1);
  const toRows = (row: Row) => (countOf(row.nome) < 4 ? [row] : [row, { ...row, id: OTHER_ID }]);
  return method === 'GET' && status === 200 && withBody((body as Row[]).flatMap(toRows));
});
const DUPLICATE = { expected: matching(/^one record of the creation/), got: matching(new RegExp(`^${OTHER_ID} `)) };

/** Forgets an Idempotency-Key before or after its first answer. */
function forgets(isForgotten: (wasAnswered: boolean) => boolean): Fault {
  const answered = new Set<string>();
  return {
    ask: ({ headers: { 'Idempotency-Key': key = '', ...headers } }) =>
      key && isForgotten(answered.has(key)) ? { headers } : {},
    answer: (_answer, { headers: { 'Idempotency-Key': key = '' } }) => {
      answered.add(key);
      return {};
    },
  };
}

const OF_CREATION: Faults = {
  'creates what the list shows': {
    'a creation that is carried out twice': [
      rows((all) => all.flatMap((row) => [row, { ...row, id: OTHER_ID }])),
      DUPLICATE,
    ],
    'a copy that holds after a creation': [
      of(200, (_body, { target, headers }, answer) => {
        const etag = `W/"${hash('sha1', target)}"`;
        const isHeld = headers['If-None-Match'] === etag;
        return answer.headers.etag ? { ...withHeaders(answer, { etag }), ...(isHeld && NOT_MODIFIED) } : {};
      }),
      { got: '304', curl: matching(/If-None-Match.*nome=/) },
    ],
  },
  'creates what was sent': {
    'another creation than was sent': [bodies((body) => body.replace(/Contract test /, 'Contract '))],
    'a decomposed accent that is composed': [bodies((body) => body.normalize('NFC'))],
  },
  'takes p_nome': {
    'a maximum that is one less': [
      bodies((body) => body.replace(/(?<="p_nome":"[^"]{254})[^"](?=")/u, '$&$&')),
      {
        curl: matching(/"p_nome":"a{255}"/),
        got: '422 {"error":{"p_nome":["must NOT have more than 255 characters"]}}',
      },
    ],
    'names that are stored without capitals': [
      of(201, ({ nome, ...row }) => withBody({ ...row, nome: String(nome).toLowerCase() })),
    ],
  },
  'takes p_email': {
    'a maximum that is one less': [
      bodies((body) => body.replace(/(?<="p_email":")(?=[^"]{254}")/, 'a')),
      { curl: matching(/"p_email":"[^"]{254}"/) },
    ],
  },
  'refuses p_email longer than 254': {
    'a maximum that is one more': [
      bodies((body) => body.replace(/(?<="p_email":")a(?=[^"]{254}")/, '')),
      { curl: matching(/"p_email":"[^"]{255}"/) },
    ],
  },
  'takes p_sexo': {
    'a rule that the document does not have': [
      of(201, (_body, { body }) => body?.includes('"p_sexo"') && withBody({ error: { p_sexo: ['no'] } }, 422)),
    ],
  },
  'forbids content type sniffing': {
    'types to guess of refusals, for which nothing is created': [lacks('x-content-type-options')],
  },
  'reads a body whatever its Content-Type': {
    'a body that is read by its Content-Type': [
      answers((_answer, { headers }) => 'Content-Type' in headers && withBody({ error: 'Not JSON' }, 415)),
      { got: '415 {"error":"Not JSON"}', curl: matching(/-H 'Content-Type: text\/plain'/) },
    ],
  },
  'creates one record for all requests with the same Idempotency-Key': {
    'a second record for a repeated creation': [LISTS_TWICE, DUPLICATE],
    'an idempotency key that is forgotten after the concurrent requests': [forgets((wasAnswered) => wasAnswered)],
    'an idempotency key that only holds after the answer': [forgets((wasAnswered) => !wasAnswered)],
    'a repeated answer that is not marked': [
      lacks('idempotent-replayed'),
      { expected: matching(/^idempotent-replayed: none once/), got: 'none, none, none, none' },
    ],
  },
  'refuses a repeated field': {
    'the last of two values that is taken': [bodies((body) => body.replace(/"p_nome":1,/, ''))],
  },
  'refuses another body with the same Idempotency-Key': { 'an idempotency key for any body': [forgets(() => true)] },
};

const OF_FILTERS: Faults = {
  'filters by data_inicio_gte': {
    'a date filter that leaves out the day itself': [
      filtered('data_inicio_gte', (all, value) => all.filter(({ data_inicio }) => data_inicio !== value)),
    ],
  },
  'filters by all of them together': {
    'two filters that lead to nothing together': [
      of(200, (_body, request) => {
        const names = [...new URLSearchParams(queryOf(request)).keys()];
        return names.filter((name) => /^(ativo|id_\w+|data_\w+)$/.test(name)).length > 1 && withBody([]);
      }),
    ],
  },
};

const OF_TEXTS: Faults = {
  'filters by status': {
    'a filter that ignores the case of letters': [parameter('status', (value) => value.toLowerCase())],
  },
};

const OF_NAMES: Faults = {
  'filters by nome': {
    'a filter that leaves out what matches': [filtered('nome', (all) => all.slice(1))],
    'a filter that minds the case of letters': [
      filtered('nome', (all, value) => all.filter(({ nome }) => String(nome).includes(value))),
    ],
  },
};

let creations = 0;
const OF_DEMO: Faults = {
  'lists every record once while others are created': {
    'a record that is missed while others are created': [
      filtered('after', (all) => (creations++ % 2 === 0 ? all.slice(1) : all)),
    ],
  },
};

const toRows = (faults: Faults, options: Options) =>
  Object.entries(faults).flatMap(([check, all]) =>
    Object.entries(all).map(([what, [fault, found = {}]]) => ({ what, check, fault, found, options })),
  );

/** Tests that each fault is found. */
function testFaults(rows: ReturnType<typeof toRows>, find = findFault): void {
  test.each(rows)('is caught with $what', async ({ check, fault, found, options = {} }) => {
    expect(await find(check, fault, options)).toMatchObject(found);
  });
}

describe('a faulty gateway', () => {
  testFaults([
    ...toRows(OF_LIST, { only }),
    ...toRows(OF_CREATION, CREATION),
    ...toRows(OF_FILTERS, { only: ['listarTreinos'] }),
    ...toRows(OF_TEXTS, { only: ['listarAnamneses'] }),
    ...toRows(OF_NAMES, { ...STUDENTS, runs: 20 }),
    ...toRows(OF_DEMO, { ...CREATION, demo: true }),
  ]);

  test('gets few records while the smallest failing value is looked for', async () => {
    const fault = bodies((body) => body.replace(/(?<="p_nome":")[^"]{100}/, ''));
    const report = await run({ ...CREATION, intercept: spoil(fault) });
    expect(namesOf(failuresOf(report))).toContain('takes p_nome');
    expect(report.created.length).toBeLessThan(100);
  });

  test.each([
    ['names no methods', 'PUT', undefined, 'none'],
    ['names one too many', 'PUT', 'DELETE, GET, HEAD, POST', 'DELETE, GET, HEAD, POST'],
    ['answers OPTIONS with none', 'OPTIONS', undefined, 'none'],
  ])('is caught with a 405 that %s', async (_what, method, allow, got) => {
    const fault = of(405, (_body, request, answer) => request.method === method && withHeaders(answer, { allow }));
    const failures = await findFaults(fault, { ...CREATION, runs: 1 });
    expect(failures).toContainEqual(expect.objectContaining({ expected: 'Allow: GET, POST', got }));
  });

  test.each<[schema: OpenAPIV3.SchemaObject, right: string, wrong: string, error: string]>([
    [{ type: 'integer', minimum: -60 }, '-60', '-61', 'the value must be >= -60, and is -61'],
    [{ type: 'number', maximum: 0.5 }, '0.5', '0.75', 'the value must be <= 0.5, and is 0.75'],
    [{ type: 'boolean' }, 'true', 'yes', 'the value must be boolean, and is "yes"'],
    [{ type: 'array', maxItems: 2, items: { type: 'integer' } }, '1, 2', '1,x', '/1 must be integer, and is "x"'],
  ])('is caught with a header that is not as the document has it: %j', async (schema, right, wrong, error) => {
    const name = 'refuses a request without a key';
    const fault = (id: string) => headers(() => ({ 'x-request-id': id }));
    const copy = structuredClone(document);
    const response = copy.components?.responses?.BadRequest as OpenAPIV3.ResponseObject;
    response.headers = { 'X-Request-Id': { schema } };
    const { got } = await findFault(name, fault(wrong), { only, document: copy });
    expect(got).toContain(`not the schema of the header x-request-id: ${error}\n400 `);
    expect(namesOf(await findFaults(fault(right), { only, document: copy }))).not.toContain(name);
    expect(namesOf(await findFaults(lacks('x-request-id'), { only, document: copy }))).not.toContain(name);
    response.headers = { 'X-Request-Id': { schema, required: true } };
    const missing = await findFault(name, lacks('x-request-id'), { only, document: copy });
    expect(missing.got).toContain('the header x-request-id is missing, which the document requires\n400 ');
  });

  const overLimit = (seconds: number) => ({ status: 429, headers: { 'retry-after': String(seconds) } });
  const seen = new Set<string>();
  const toText = ({ method, target, headers, key }: Request) => JSON.stringify([method, target, headers, String(key)]);
  let requests = 0;

  const HARMLESS: Readonly<Record<string, Fault>> = {
    'limit requests, which are repeated after the time that it names': answers(
      (_answer, request) => seen.size < seen.add(toText(request)).size && overLimit(0),
    ),
    'stand behind a proxy that makes its links absolute': link(
      (text) => text && `${text.replaceAll('<?', '<https://api.example/v1/personais?')}, </style.css>; rel=preload`,
    ),
    'stand behind a proxy that compresses, and that shortens refusals': answers((answer, { method }) => {
      const { vary, etag, 'cache-control': control } = answer.headers;
      const isShort = answer.status >= 300 && answer.status !== 422;
      return withHeaders(answer, {
        'cache-control': isShort ? undefined : control,
        vary: method === 'HEAD' ? 'x-api-key' : `${vary}, Accept-Encoding`,
        etag: method === 'HEAD' ? etag?.replace('W/', '') : etag,
      });
    }),
    'stand behind a proxy that gives requests ids of its own': headers(() => ({
      'x-request-id': `proxy-${requests++}`,
    })),
  };

  test.each(Object.entries(HARMLESS))('may %s', async (_what, fault) => {
    expect(await findFaults(fault, { only })).toEqual([]);
  });

  test.each([
    ['the key is over its limit', of(200, (_body, { method }) => method === 'GET' && overLimit(3_600)), { only }],
    ['it refuses the key', {}, { key: KEYS.readOnly, ...CREATION }],
  ])('is shown as one failure where %s', async (_what, fault, options) => {
    expect(namesOf(await findFaults(fault, options))).toEqual(['accepts the key']);
  });
});

describe('a gateway with a hole between its keys', () => {
  const FOREIGN = {
    personal: 'b2000000-0000-4000-8000-000000000001',
    gym: 'b1000000-0000-4000-8000-000000000001',
    student: 'b3000000-0000-4000-8000-000000000001',
  };
  const all = { otherKey: KEYS.bosque, readKey: KEYS.readOnly };
  /** Changes the records that the other key reads of a list, from the second time on. */
  const changes = (path: string, change: Row): Fault => {
    let reads = 0;
    return to(
      OTHER_KEY,
      ({ body }, { target }) =>
        target.startsWith(path) && ++reads > 1 && withBody((body as Row[]).map((row) => ({ ...row, ...change }))),
    );
  };

  const HOLES_OF_CREATION: Faults = {
    'tells no record of the other key from an unknown one by p_academia_id': {
      'a reference to a record of another tenant': [
        to(OWN_KEY, (_answer, { body }) => body?.includes(FOREIGN.gym) && { status: 201, text: '{}' }),
        { got: '201 {}' },
      ],
    },
    'keeps what was created with an Idempotency-Key from the other key': {
      "an Idempotency-Key that leads to another tenant's record": [
        { ask: ({ key, method }) => (key === OTHER_KEY && method === 'POST' ? { key: OWN_KEY } : {}) },
        { expected: 'another record than that of the own key', got: containing('201 {') },
      ],
    },
    'refuses a key that may only read': {
      'a key that writes and may only read': [
        to(READ_KEY, () => ({ status: 201 })),
        { expected: '401 as in the document', curl: containing('"X-Api-Key: $READ_KEY"') },
      ],
    },
  };
  const HOLES_OF_LIST: Faults = {
    'shows no record of the other key': {
      "another tenant's record in a list": [
        to(OWN_KEY, ({ status, body }) => status === 200 && withBody([{ id: FOREIGN.personal }, ...(body as Row[])])),
        { got: containing(FOREIGN.personal) },
      ],
    },
    'tells no record of the other key from an unknown one by after': {
      'a page after a record of another tenant': [
        to(OWN_KEY, (_answer, { target }) => target.includes(`after=${FOREIGN.personal}`) && { text: '[1]' }),
        { got: containing('[1]') },
      ],
    },
    'lets a key read that may only read': {
      'a read that is refused to a key that may read': [
        to(READ_KEY, () => withBody({ error: 'API Key sem permissão' }, 401)),
        { got: '401 {"error":"API Key sem permissão"}' },
      ],
    },
  };
  const HOLES_OF_STUDENTS: Faults = {
    'tells no record of the other key from an unknown one by id_personal': {
      'a filter that says that another tenant has the record': [
        to(
          OWN_KEY,
          (_answer, { target }) => target.includes(FOREIGN.personal.replaceAll('-', '')) && { status: 404, text: '{}' },
        ),
        { expected: 'as for an unknown id: 200 []', got: '404 {}' },
      ],
    },
    'no page had a record of the other key': {
      'a filter that shows a record of another tenant': [
        to(OWN_KEY, ({ status, body }, { target }) => {
          const [row] = body as Row[];
          return status === 200 && target.includes('nome=') && row && withBody([row, { ...row, id: FOREIGN.student }]);
        }),
        { got: containing(FOREIGN.student), curl: containing('nome=') },
      ],
    },
    'leaves the records of the other key as they were': {
      "a change of another tenant's records": [
        changes('/alunos', { nome: 'Outro' }),
        { got: containing('Outro'), curl: containing('"X-Api-Key: $OTHER_KEY"') },
      ],
    },
  };
  testFaults([
    ...toRows(HOLES_OF_CREATION, { ...all, ...CREATION }),
    ...toRows(HOLES_OF_LIST, { ...all, only }),
    ...toRows(HOLES_OF_STUDENTS, { ...all, ...STUDENTS }),
  ]);

  test('is not one that counts the calls of the other key, which no operation writes', async () => {
    expect(await findFaults(changes('/uso', { chamadas: 7 }), { ...all, only })).toEqual([]);
  });

  test.each([
    ['that is not over it', {}, '200 '],
    ['without a time to wait', withBody({ error: 'Too many requests' }, 429), 'none'],
  ])('is caught with a limit that a key %s', async (_what, change, got) => {
    const name = 'refuses a key over its limit with 429 and Retry-After';
    const limited = await findFault(
      name,
      to(LIMITED_KEY, () => change),
      { limitedKey: KEYS.readOnly },
    );
    expect(limited).toMatchObject({ got: containing(got), curl: containing('"X-Api-Key: $LIMITED_KEY"') });
  });
});

describe('a run skips what it cannot check', () => {
  const empty = rows(() => []);
  const emptyOfOther = to(OTHER_KEY, ({ status }) => status === 200 && withBody([]));
  const untouched = 'leaves the records of the other key as they were';
  const otherKey = KEYS.bosque;
  const withNotFound = structuredClone(document);
  Object.assign(withNotFound.paths['/personais']?.get?.responses ?? {}, { 404: { description: 'Not found' } });
  const notFound = withBody({ error: 'Not found' }, 404);
  const fromProxy = { status: 400, headers: { 'content-type': 'text/html' }, text: '<h1>400</h1>', body: undefined };

  test.each<[what: string, reason: string, check: string, Fault, Options]>([
    ['pages of no records', 'the list has no records', 'continues after any record', empty, { only }],
    ['filters of no records', 'the list has no records', 'filters by academia_id', empty, { only }],
    [
      ...(['a filter that leads to no record', 'no value is known that leads to a record'] as const),
      ...(['filters by id_personal, which no property shows', filtered('id_personal', () => []), STUDENTS] as const),
    ],
    [
      ...(['the copy of a refused answer', 'the database refused it, with 404 {"error":"Not found"}'] as const),
      'answers 304 to the ETag of an unchanged answer',
      answers((_answer, request) => queryOf(request) === 'limit=1' && notFound),
      { only, document: withNotFound },
    ],
    [
      ...(['headers that a proxy does not pass on', 'a proxy refused it first'] as const),
      ...(['answers the example headersTooLarge with 431', of(431, () => fromProxy), { only }] as const),
    ],
    [
      ...(['changes where it only reads', 'a run with --read-only changes nothing'] as const),
      ...([untouched, {}, { only, otherKey, readOnly: true }] as const),
    ],
    [
      'changes where there are no records',
      'the other key has no records in a list whose records an operation writes',
      ...([untouched, emptyOfOther, { only, otherKey }] as const),
    ],
  ])('%s: %s', async (_what, reason, name, fault, options) => {
    const report = await run({ runs: 1, ...options, intercept: spoil(fault) });
    expect(outcomesOf(report)).toContainEqual({ name, result: 'skipped', reason });
  });
});

test('a gateway that knows of a record with the only known value of a rule is not at fault', async () => {
  const ruled = structuredClone(document);
  const creation = ruled.paths['/alunos']?.post as OpenAPIV3.OperationObject;
  const media = (creation.requestBody as OpenAPIV3.RequestBodyObject).content['application/json'];
  const { properties } = follow(ruled, media?.schema as object) as { properties: Record<string, object> };
  Object.assign(properties.p_email ?? {}, { 'x-rule': 'an address of the gym' });
  creation.responses['409'] = { description: 'Taken' };
  const taken = withBody({ error: `taken by ${KEYS.aurora} ]]>` }, 409);
  const fault = of(201, (_body, { method }) => method === 'POST' && taken);
  const report = await run({ ...CREATION, document: ruled, demo: true, intercept: spoil(fault) });
  expect(failuresOf(report)).toEqual([]);
  expect(toJUnit(report)).toContain('409 {"error":"taken by $API_KEY ]] >"}');
  expect(namesOf(await findFaults(fault, { ...CREATION, demo: true }))).toContain('creates what was sent');
});

describe('a gateway that forgets what it has said', async () => {
  const sql = readFileSync('test/documents/everything.sql', 'utf8');
  const pegs = await startChecks({ document: readDocument('test/documents/everything.yaml'), sql });
  /** Answers to this method are changed. */
  const on = (method: string, change: (body: Row, answer: Answer, request: Request) => Changed): Fault =>
    answers(
      (answer, request) =>
        request.method === method && answer.status < 300 && change(answer.body as Row, answer, request),
    );
  const known = new Map<string, Answer>();

  afterAll(pegs.close);

  const OF_LIFE: Faults = {
    'creates what is read, changed, deleted': {
      'a Location of another record': [
        on('POST', (_body, answer) => withHeaders(answer, { location: '/v2/cabides/1' })),
        { expected: matching(/^Location: .*\/cabides\/[\w-]{36}$/), got: '/v2/cabides/1' },
      ],
      'another record': [
        on('GET', (body) => !Array.isArray(body) && withBody({ ...body, numero: 1 })),
        { got: containing('"numero":1') },
      ],
      'another change than it is told': [
        on('PATCH', (body) => withBody({ ...body, preco: 2 })),
        { expected: matching(/^preco \d+$/) },
      ],
      'a record as it was before a change': [
        answers((answer, { method, target }) => {
          if (method !== 'GET') return {};
          const id = target.replace(/.*\//, '');
          known.set(id, known.get(id) ?? answer);
          return known.get(id);
        }),
        { got: containing('numero') },
      ],
      'a copy of a record that holds after a change': [
        answers((_answer, { headers }) => 'If-None-Match' in headers && NOT_MODIFIED),
        { got: matching(/304 $/), curl: containing('If-None-Match') },
      ],
      'a record that it says to have deleted': [
        {
          ask: ({ method }) => (method === 'DELETE' ? { method: 'GET' } : {}),
          ...on('DELETE', (_body, { status }) => status === 200 && { status: 204, text: '', body: undefined }),
        },
        { expected: '404 as in the document' },
      ],
    },
    'answers HEAD like GET': {
      'an answer to HEAD as if the record were there': [
        answers((_answer, { method }) => method === 'HEAD' && { status: 200 }),
        { expected: 'status: 404, like GET', got: 'status: 200' },
      ],
    },
    'refuses a request without a key': {
      'more than an error, which the document does not describe': [
        of(400, (body) => withBody({ ...body, code: 1 })),
        { got: containing('must NOT have more than 1 properties') },
      ],
    },
    'refuses the same fields again': {
      'what has to be unique twice': [
        of(409, (_body, { method }) => method === 'POST' && { status: 201 }),
        { expected: '409 as in the document' },
      ],
    },
  };
  testFaults(
    toRows(OF_LIFE, { only: ['criarCabide', 'obterCabide', 'alterarCabide', 'apagarCabide'] }),
    pegs.findFault,
  );

  test('is not one that has a record of an earlier run with the only value that is made up for a field', async () => {
    const other = readDocument('test/documents/everything.yaml');
    const peg = other.components?.schemas?.NovoCabide as OpenAPIV3.SchemaObject;
    Object.assign(peg.properties ?? {}, { p_padrao: { type: 'boolean' } });
    const answer = of(201, (_body, { body }) => body?.includes('"p_padrao":true') && withBody({ error: 'taken' }, 409));
    const ask = ({ body }: Request) => (body ? { body: body.replace(/,?"p_padrao":(true|false)/, '') } : {});
    const report = await pegs.run({ document: other, only: ['criarCabide'], intercept: spoil({ ...answer, ask }) });
    const name = 'refuses the same fields again';
    expect(outcomesOf(report)).toContainEqual(expect.objectContaining({ name, result: 'passed' }));
  });

  test('is not one whose unique fields may have one of which no value is known', async () => {
    const other = readDocument('test/documents/everything.yaml');
    const peg = other.components?.schemas?.NovoCabide as OpenAPIV3.SchemaObject;
    Object.assign(peg.properties ?? {}, { p_parede: { type: 'string', 'x-rule': 'the name of a wall' } });
    const answer = of(409, (_body, { method }) => method === 'POST' && { status: 201 });
    const report = await pegs.run({ document: other, only: ['criarCabide'], intercept: spoil(answer) });
    const reason = 'no value is known of p_parede, which may have to be unique';
    expect(outcomesOf(report)).toContainEqual(expect.objectContaining({ result: 'skipped', reason }));
  });
});
