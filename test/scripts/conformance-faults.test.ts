// Gateways with a fault each, which a run of all checks has to find.

import { hash, randomUUID } from 'node:crypto';
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
  namesOf,
  type Options,
  outcomesOf,
  queryOf,
  spoil,
  startChecks,
} from './conformance/checks.ts';

const { run, findFaults, findFault, close } = await startChecks();

afterAll(close);

type Row = Record<string, Json>;
type Changed = Partial<Answer> | false | undefined;
/** What String.replace does to a text. */
type Edit = [pattern: string | RegExp, replacement: string | ((...found: string[]) => string)];

const only = ['listarPersonais'];
const STUDENTS = { only: ['listarAlunos'] };
const CREATION = { only: ['criarAluno'] };

const edit = (text: string, [pattern, replacement]: Edit) => text.replace(pattern, replacement as string);
const withBody = (body: unknown, status?: number) => ({
  ...{ body: body as Json, text: JSON.stringify(body) },
  ...(status ? { status } : {}),
});
/** The headers of an answer with others, undefined for one that it lacks. */
const withHeaders = ({ headers }: Answer, others: Record<string, string | undefined>) => {
  const changed = Object.entries({ ...headers, ...others }).filter(([, value]) => value !== undefined);
  return { headers: Object.fromEntries(changed) as Record<string, string> };
};
const NOT_MODIFIED = { status: 304, text: '', body: undefined };

/** Requests have another path and query. */
const targets = (...change: Edit): Fault => ({ ask: ({ target }) => ({ target: edit(target, change) }) });
/** Requests have another body. */
const bodies = (...change: Edit): Fault => ({ ask: ({ body = '' }) => ({ body: edit(body, change) }) });
/** Requests lack a header. */
const ignores = (name: string): Fault => ({ ask: ({ headers: { [name]: _value, ...headers } }) => ({ headers }) });

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
const encoded = (change: (rows: Json[]) => Json[]): Fault =>
  answers(({ body }, { headers }) => 'Accept-Encoding' in headers && withBody(change(body as Json[])));
const headers = (others: Record<string, string | undefined>) => answers((answer) => withHeaders(answer, others));
const lacks = (name: string) => headers({ [name]: undefined });
const link = (...change: Edit): Fault =>
  answers((answer) => withHeaders(answer, { link: edit(answer.headers.link ?? '', change) || undefined }));
/** Any cache may keep answers with this status. */
const published = (status: number): Fault =>
  of(status, (_body, _request, answer) => withHeaders(answer, { 'cache-control': 'public, max-age=600' }));

const endConnection = () => {
  throw new Error('other side closed');
};

/** A fault, and what the report says of it. */
type Found = readonly [Fault, ...(string | RegExp)[]];
/** By the check that finds it, and by how a gateway is faulty. */
type Faults = Readonly<Record<string, Readonly<Record<string, Found>>>>;

const lacksInHead = (name: string): [string, Found] => [
  `no ${name} in the answer to HEAD`,
  [
    {
      ...targets(/^[^?]*$/, '$&?limit=1'),
      ...answers((answer, { method }) => method === 'HEAD' && withHeaders(answer, { [name]: undefined })),
    },
    new RegExp(`expected ${name}: .+, like GET, got ${name}: none`),
  ],
];
const takesForOwn = (near: symbol): [string, Found] => [
  `the key $${near.description} taken for its own`,
  [
    { ask: ({ key }) => (key === near ? { key: OWN_KEY } : {}) },
    `curl -i -H "X-Api-Key: $${near.description}" '$URL/personais'\nexpected 401 as in the document`,
  ],
];

const OF_LIST: Faults = {
  'refuses limit less than 1': {
    'a wrong status': [
      of(422, () => ({ status: 400 })),
      `${GET} '$URL/personais?limit=0'\nexpected 422 that names limit alone, got 400 {"error":{"limit":["must be`,
    ],
  },
  'refuses limit more than 1000': {
    'a maximum that is one more': [
      targets(/limit=1001\b/, 'limit=1000'),
      "limit=1001'\nexpected 422 that names limit alone",
    ],
  },
  'refuses academia_id that is not uuid': {
    'an error that does not name the field': [
      refusals(() => withBody({ error: { outro: ['is wrong'] } })),
      'expected 422 that names academia_id alone, got 422 {"error":{"outro":["is wrong"]}}',
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
      'got listarPersonais does not declare this status\n206 [',
    ],
    'a response that is not the schema': [
      rows((all) => all.map(({ email, ...row }) => row)),
      "got not the schema of 200: /0 must have required property 'email'\n200 [",
    ],
    'another content type': [
      headers({ 'content-type': 'text/html' }),
      'got Content-Type is text/html, expected application/json\n200 [',
    ],
    'a body that is cut off': [
      of(200, (_body, _request, { text }) => ({ text: text.slice(0, -1), body: undefined })),
      'got the body is not JSON\n200 [',
    ],
    'a maximum that is one less': [
      targets(/limit=1000\b/, 'limit=1001'),
      `personais?limit=1000'\nexpected 200 as in the document, got 422 {"error":{"limit":["must be <= 1000"]}}`,
    ],
    'more values that are refused, of which the smallest is shown': [
      targets(/limit=(\d+)/, (limit, value) => (Number(value) > 611 ? 'limit=0' : limit)),
      `${GET} '$URL/personais?limit=612'\n`,
    ],
    'a connection that ends, told apart from a gateway that is gone': [
      { ask: (request) => (queryOf(request) === 'limit=1000' ? endConnection() : {}) },
      /personais\?limit=1000'\nexpected an answer, got no answer: /,
    ],
  },
  'gives pages that are together the whole list': {
    'a page that repeats a record': [
      targets(/(?<=after=.{35})2/, '1'),
      /limit=1&after=a2.*02'\nexpected every record once, got a2.*02 .* as its record 1, for the second time$/,
    ],
  },
  'continues after any record': {
    'a page after a record that skips one': [
      targets(/(?<=after=.{35})2/, '3'),
      'expected a2000000-0000-4000-8000-000000000003 in that place',
    ],
  },
  'gives the page of any limit and offset': {
    'an offset that skips a record': [
      targets(/offset=(\d+)/, (offset, value) => (Number(value) > 1 ? `offset=${Number(value) + 1}` : offset)),
    ],
    'a page that is longer than its limit': [
      targets(/limit=(\d+)/, (_limit, value) => `limit=${Math.min(Number(value) + 1, 1000)}`),
    ],
    'a page that has other values than the whole list': [
      filtered('offset', (all) => all.map((row) => ({ ...row, nome: 'Outra' }))),
      /expected a2.* {"nome":"Bruno Araújo",.*, as in the whole list, got a2.* {"nome":"Outra",.* as its record 1$/,
    ],
  },
  'fills every page': {
    'pages of three records at most': [rows((all) => all.slice(0, 3)), 'got 3 records, and more behind them'],
  },
  'gives nothing beyond the end': {
    'the first page beyond the end': [targets(/offset=\d{5,}/, 'offset=0'), 'expected no record'],
  },
  'gives the same when repeated': {
    'another order where no page is asked for': [
      of<Row[]>(200, (all, request) => request.method === 'GET' && !queryOf(request) && withBody(all.toReversed())),
    ],
  },
  'filters by academia_id': {
    'a filtered list that has other values than the whole list': [
      filtered('academia_id', (all) => all.map((row) => ({ ...row, ativo: !row.ativo }))),
      ', as in the whole list, got a2000000-',
    ],
    'a filter that does not filter': [
      targets(/academia_id=[^&]{36}(?=&|$)/, ''),
      'expected only records with academia_id = "a1000000-0000-4000-8000-000000000001", got a2000000-',
    ],
    'a filter that minds the case of an id': [
      filtered('academia_id', (all, value) => (value === value.toLowerCase() ? all : [])),
      'academia_id=A1000000-0000-4000-8000-000000000001',
    ],
  },
  'refuses an unknown parameter': {
    'an unknown parameter that is accepted': [targets(/(?<=[?&])(?!(limit|offset|academia_id)=)[^&]*/g, '')],
  },
  'refuses limit that is not integer': {
    '1e1 that is taken for a number': [targets(/(?<=limit=)[^&]*e[^&]*/, (value) => String(Number(value)))],
  },
  'refuses academia_id twice': {
    'the first of two values that is taken': [targets(/(academia_id=[^&]*)&academia_id=.*/, '$1')],
  },
  'answers the example headersTooLarge with 431': {
    'headers of any size that are taken': [
      ignores('X-Filler'),
      `${GET} -H "X-Filler: $(printf '%020000d' 0)" '$URL/personais'\nexpected 431 as in the document`,
    ],
  },
  'refuses a request without a key': {
    'no need of a key': [{ ask: () => ({ key: OWN_KEY }) }, "curl -i '$URL/personais'\n"],
  },
  'refuses an unknown key': Object.fromEntries([...NEAR_KEYS.keys()].slice(0, 3).map(takesForOwn)),
  'links each page to the next and the previous one': {
    'a link to another path': [
      link('<?', '</v1/academias?'),
      /expected a Link to \/v1\/personais\?.*, got \/v1\/academias\?/,
    ],
    'a link without the filter': [link(/academia_id=[^&]*&/, '')],
    'a next that is the same page': [link(/offset=\d+>; rel="next/, 'offset=0>; rel="next')],
    'a prev to the first page': [link(/offset=\d+>; rel="prev/, 'offset=0>; rel="prev')],
    'no next on a filtered page': [
      answers(
        (answer, request) => queryOf(request).includes('academia_id') && withHeaders(answer, { link: undefined }),
      ),
      /academia_id=.*\nexpected a Link to the next page/,
    ],
    'a next after the end': [link(/^(?!.*next).*/, (text) => `${text && `${text}, `}<?limit=2&offset=4>; rel="next"`)],
    'a prev before the beginning': [link(/<([^>]*)>; rel="next"/, '$&, <$1>; rel="prev"')],
  },
  'answers HEAD like GET': Object.fromEntries(
    ['content-type', 'etag', 'link', 'cache-control', 'vary'].map(lacksInHead),
  ),
  'answers 304 to the ETag of an unchanged answer': {
    'a copy that does not hold': [
      ignores('If-None-Match'),
      /If-None-Match: W\/"[\w-]+"' '\$URL\/personais\?limit=1'\nexpected 304 without a body, got 200 \[/,
    ],
    'another tag for the same answer': [
      answers((answer) => 'etag' in answer.headers && withHeaders(answer, { etag: `W/"${randomUUID()}"` })),
    ],
    'no tag': [lacks('etag'), 'expected an ETag, got none'],
  },
  'answers in full to another ETag': {
    'every copy that holds': [answers((_answer, { headers }) => 'If-None-Match' in headers && NOT_MODIFIED)],
    'one tag for every answer': [
      answers((answer, request) => ({
        ...withHeaders(answer, answer.headers.etag ? { etag: 'W/"1"' } : {}),
        ...(request.headers['If-None-Match'] === 'W/"1"' ? NOT_MODIFIED : {}),
      })),
      'got W/"1"',
    ],
  },
  'answers an unknown path with 404': {
    'an error with more than its text': [
      of(404, (body) => withBody({ ...body, path: '/x' })),
      'expected 404 {"error": a text} alone',
    ],
  },
  "returns the request's X-Request-Id": {
    'no id': [lacks('x-request-id'), /expected X-Request-Id: contract-.*, got none$/],
    'one id alone': [headers({ 'x-request-id': 'same' }), ", or a proxy's own, got same, as for another request"],
  },
  'forbids content type sniffing': {
    'types to guess': [lacks('x-content-type-options'), /expected .*nosniff, got none$/],
  },
  'keeps answers to a key out of shared caches': {
    'answers for any cache': [
      headers({ 'cache-control': 'public, max-age=600' }),
      /expected .*no-store.*, got Cache-Control: public, max-age=600, Vary: x-api-key, Accept-Encoding$/,
    ],
    'a refused key for any cache': [published(401), 'X-Api-Key: unknown'],
    'a missing key for any cache': [published(400)],
    'a 304 for any cache': [published(304), 'If-None-Match'],
    'a copy for every key': [headers({ 'cache-control': 'no-cache', vary: 'accept-encoding' })],
  },
  'gives the same in any encoding': {
    'an encoded answer without its last record': [encoded((all) => all.slice(0, -1))],
    'an encoded answer with a record too many': [encoded((all) => [...all, { id: 'x' }])],
  },
  'declares the language of its messages': {
    'another language': [headers({ 'content-language': 'en' }), 'got en'],
  },
};

const OTHER_ID = '00000000-0000-4000-8000-000000000000';

/** Lists a second record beside each. */
const LISTS_TWICE = rows((all) => all.flatMap((row) => [row, { ...row, id: OTHER_ID }]));
const DUPLICATE = new RegExp(`expected one record of the creation.*, got ${OTHER_ID} `);

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
    'a creation that is carried out twice': [LISTS_TWICE, DUPLICATE],
    'a copy that holds after a creation': [
      of(200, (_body, { target, headers }, answer) => {
        const etag = `W/"${hash('sha1', target)}"`;
        const isHeld = headers['If-None-Match'] === etag;
        return answer.headers.etag ? { ...withHeaders(answer, { etag }), ...(isHeld && NOT_MODIFIED) } : {};
      }),
      /If-None-Match.*nome=.*\n.*, got 304$/,
    ],
  },
  'creates what was sent': {
    'another creation than was sent': [bodies('Contract test ', 'Contract ')],
    'a decomposed accent that is composed': [bodies('e\u0301', '\u00e9')],
  },
  'takes p_nome': {
    'a maximum that is one less': [
      bodies(/(?<="p_nome":"[^"]{254})[^"](?=")/u, '$&$&'),
      /"p_nome":"a{255}".*\n.*, got 422 .*"p_nome":\["must NOT have more than 255 characters"\]/,
    ],
    'names that are stored without capitals': [
      of(201, ({ nome, ...row }) => withBody({ ...row, nome: String(nome).toLowerCase() })),
    ],
  },
  'takes p_email': {
    'a maximum that is one less': [bodies(/(?<="p_email":")(?=[^"]{254}")/, 'a'), /"p_email":"[^"]{254}"/],
  },
  'refuses p_email longer than 254': {
    'a maximum that is one more': [bodies(/(?<="p_email":")a(?=[^"]{254}")/, ''), /"p_email":"[^"]{255}"/],
  },
  'reads a body whatever its Content-Type': {
    'a body that is read by its Content-Type': [
      answers((_answer, { headers }) => 'Content-Type' in headers && withBody({ error: 'Not JSON' }, 415)),
      /-H 'Content-Type: text\/plain'.*\n.*, got 415 \{"error":"Not JSON"\}$/,
    ],
  },
  'creates one record for all requests with the same Idempotency-Key': {
    'a second record for a repeated creation': [LISTS_TWICE, DUPLICATE],
    'an idempotency key that is forgotten after the concurrent requests': [forgets((wasAnswered) => wasAnswered)],
    'an idempotency key that only holds after the answer': [forgets((wasAnswered) => !wasAnswered)],
    'a repeated answer that is not marked': [
      lacks('idempotent-replayed'),
      /expected idempotent-replayed: none once.*, got none, none, none, none$/,
    ],
  },
  'refuses a repeated field': { 'the last of two values that is taken': [bodies('"p_nome":1,', '')] },
  'refuses another body with the same Idempotency-Key': { 'an idempotency key for any body': [forgets(() => true)] },
  'refuses PUT /alunos and names the methods': {
    'a method too many in a 405': [
      headers({ allow: 'DELETE, GET, HEAD, POST' }),
      'expected Allow: GET, POST, got DELETE, GET, HEAD, POST',
    ],
  },
  'answers OPTIONS /alunos': { 'a 405 that names no methods': [lacks('allow'), 'expected Allow: GET, POST, got none'] },
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
    'a filter that ignores the case of letters': [targets(/(?<=status=)[^&]*/, (value) => value.toLowerCase())],
  },
};

const OF_NAMES: Faults = {
  'filters by nome': {
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

/** Tests that each fault is found. */
function testFaults(faults: Faults, options: Options, find = findFault): void {
  for (const [check, all] of Object.entries(faults)) {
    test.each(Object.entries(all))('is caught with %s', async (_what, [fault, ...texts]) => {
      const report = await find(check, fault, options);
      for (const text of texts) expect(report).toMatch(text);
    });
  }
}

describe('a faulty gateway', () => {
  testFaults(OF_LIST, { only });
  testFaults(OF_CREATION, CREATION);
  testFaults(OF_FILTERS, { only: ['listarTreinos'] });
  testFaults(OF_TEXTS, { only: ['listarAnamneses'] });
  testFaults(OF_NAMES, { ...STUDENTS, runs: 20 });
  testFaults(OF_DEMO, { ...CREATION, demo: true });

  test('gets few records while the smallest failing value is looked for', async () => {
    const fault = bodies(/(?<="p_nome":")[^"]{100}/, '');
    const report = await run({ ...CREATION, intercept: spoil(fault) });
    expect(namesOf(failuresOf(report))).toContain('takes p_nome');
    expect(report.created.length).toBeLessThan(100);
  });

  test.each<[schema: OpenAPIV3.SchemaObject, right: string, wrong: string, error: string]>([
    [{ type: 'integer', minimum: -60 }, '-60', '-61', 'the value must be >= -60, and is -61'],
    [{ type: 'boolean' }, 'true', 'yes', 'the value must be boolean, and is "yes"'],
    [{ type: 'array', maxItems: 2, items: { type: 'integer' } }, '1, 2', '1,x', '/1 must be integer, and is "x"'],
  ])('is caught with a header that is not as the document has it: %j', async (schema, right, wrong, error) => {
    const name = 'refuses a request without a key';
    const fault = (id: string) => headers({ 'x-request-id': id });
    const copy = structuredClone(document);
    const response = copy.components?.responses?.BadRequest as OpenAPIV3.ResponseObject;
    response.headers = { 'X-Request-Id': { schema } };
    const report = await findFault(name, fault(wrong), { only, document: copy });
    expect(report).toContain(`got not the schema of the header x-request-id: ${error}\n400 `);
    expect(namesOf(await findFaults(fault(right), { only, document: copy }))).not.toContain(name);
    expect(namesOf(await findFaults(lacks('x-request-id'), { only, document: copy }))).not.toContain(name);
    response.headers = { 'X-Request-Id': { schema, required: true } };
    const missing = await findFault(name, lacks('x-request-id'), { only, document: copy });
    expect(missing).toContain('got the header x-request-id is missing, which the document requires\n400 ');
  });

  const overLimit = (seconds: number) => ({ status: 429, headers: { 'retry-after': String(seconds) } });
  const seen = new Set<string>();
  const toText = ({ method, target, headers, key }: Request) => JSON.stringify([method, target, headers, String(key)]);

  const HARMLESS: Readonly<Record<string, Fault>> = {
    'limit requests, which are repeated after the time that it names': answers(
      (_answer, request) => seen.size < seen.add(toText(request)).size && overLimit(0),
    ),
    'stand behind a proxy that makes its links absolute': link(
      /.+/,
      (text) => `${text.replaceAll('<?', '<https://api.example/v1/personais?')}, </style.css>; rel=preload`,
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
    'stand behind a proxy that gives requests ids of its own': answers((answer) =>
      withHeaders(answer, { 'x-request-id': `proxy-${randomUUID()}` }),
    ),
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
        'got 201 {}',
      ],
    },
    'keeps what was created with an Idempotency-Key from the other key': {
      "an Idempotency-Key that leads to another tenant's record": [
        { ask: ({ key, method }) => (key === OTHER_KEY && method === 'POST' ? { key: OWN_KEY } : {}) },
        'expected another record than that of the own key, got 201 {',
      ],
    },
    'refuses a key that may only read': {
      'a key that writes and may only read': [
        to(READ_KEY, () => ({ status: 201 })),
        /"X-Api-Key: \$READ_KEY".*\nexpected 401 as in the document/,
      ],
    },
  };
  const HOLES_OF_LIST: Faults = {
    'tells no record of the other key from an unknown one by after': {
      'a page after a record of another tenant': [
        to(OWN_KEY, (_answer, { target }) => target.includes(`after=${FOREIGN.personal}`) && { text: '[1]' }),
        /got .*\[1\]/,
      ],
    },
    'lets a key read that may only read': {
      'a read that is refused to a key that may read': [
        to(READ_KEY, () => withBody({ error: 'API Key sem permissão' }, 401)),
        'got 401 {"error":"API Key sem permissão"}',
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
        'expected as for an unknown id: 200 [], got 404 {}',
      ],
    },
    'no page of /alunos had a record of the other key': {
      'a filter that shows a record of another tenant': [
        to(OWN_KEY, ({ status, body }, { target }) => {
          const [row] = body as Row[];
          return status === 200 && target.includes('nome=') && row && withBody([row, { ...row, id: FOREIGN.student }]);
        }),
        new RegExp(`nome=.*\n.*, got ${FOREIGN.student}`),
      ],
    },
    'leaves the records of the other key as they were': {
      "a change of another tenant's records": [
        changes('/alunos', { nome: 'Outro' }),
        /"X-Api-Key: \$OTHER_KEY".*\n.*, got .*Outro/,
      ],
    },
  };
  testFaults(HOLES_OF_CREATION, { ...all, ...CREATION });
  testFaults(HOLES_OF_LIST, { ...all, only });
  testFaults(HOLES_OF_STUDENTS, { ...all, ...STUDENTS });

  test('is not one that counts the calls of the other key, which no operation writes', async () => {
    expect(await findFaults(changes('/uso', { chamadas: 7 }), { ...all, only })).toEqual([]);
  });

  test.each([
    ['that is not over it', {}, '200 '],
    ['without a time to wait', withBody({ error: 'Too many requests' }, 429), 'none'],
  ])('is caught with a limit that a key %s', async (_what, change, got) => {
    const name = 'refuses a key over its limit with 429 and Retry-After';
    const fault = to(LIMITED_KEY, () => change);
    const report = await findFault(name, fault, { limitedKey: KEYS.readOnly });
    expect(report).toMatch(new RegExp(`"X-Api-Key: \\$LIMITED_KEY".*\n.*, got ${got}`));
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

  afterAll(pegs.close);

  const OF_LIFE: Faults = {
    'creates what is read, changed, deleted': {
      'a Location of another record': [
        on('POST', (_body, answer) => withHeaders(answer, { location: '/v2/cabides/1' })),
        /expected Location: .*\/cabides\/[\w-]{36}, got \/v2\/cabides\/1$/,
      ],
      'another record': [
        on('GET', (body) => !Array.isArray(body) && withBody({ ...body, numero: 1 })),
        /got .*"numero":1/,
      ],
      'another change than it is told': [
        on('PATCH', (body) => withBody({ ...body, preco: 2 })),
        /expected preco \d+, got /,
      ],
      'a copy of a record that holds after a change': [
        answers((_answer, { headers }) => 'If-None-Match' in headers && NOT_MODIFIED),
        /If-None-Match.*\n.*304 $/s,
      ],
      'a record that it says to have deleted': [
        {
          ask: ({ method }) => (method === 'DELETE' ? { method: 'GET' } : {}),
          ...on('DELETE', (_body, { status }) => status === 200 && { status: 204, text: '', body: undefined }),
        },
        'expected 404 as in the document',
      ],
    },
    'answers HEAD like GET': {
      'an answer to HEAD as if the record were there': [
        answers((_answer, { method }) => method === 'HEAD' && { status: 200 }),
        'expected status: 404, like GET, got status: 200',
      ],
    },
    'refuses a request without a key': {
      'more than an error, which the document does not describe': [
        of(400, (body) => withBody({ ...body, code: 1 })),
        'must NOT have more than 1 properties',
      ],
    },
    'refuses the same fields again': {
      'what has to be unique twice': [
        of(409, (_body, { method }) => method === 'POST' && { status: 201 }),
        'expected 409 as in the document',
      ],
    },
  };
  testFaults(OF_LIFE, { only: ['criarCabide', 'obterCabide', 'alterarCabide', 'apagarCabide'] }, pegs.findFault);

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
