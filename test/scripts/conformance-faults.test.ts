// Gateways with a fault each, which a run of all checks has to find.

import { readFileSync } from 'node:fs';
import type { OpenAPIV3 } from 'openapi-types';
import { afterAll, describe, expect, test } from 'vitest';
import type { Answer } from '../../scripts/conformance/client.ts';
import { toJUnit } from '../../scripts/conformance/report.ts';
import { LIMITED_KEY, OTHER_KEY, OWN_KEY, READ_KEY, type Request } from '../../scripts/conformance/request.ts';
import type { RunOptions } from '../../scripts/conformance/run.ts';
import { readDocument } from '../../src/openapi/document.ts';
import { follow } from '../../src/openapi/pointer.ts';
import type { Json } from '../../src/store/store.ts';
import { document, KEYS } from '../helpers/api.ts';
import { type Fault, failuresOf, GET, mapQuery, namesOf, queryOf, spoil, startChecks } from './conformance/checks.ts';

const { run, findFaults, findFault, gateway, close } = await startChecks();

afterAll(close);

type Row = Record<string, Json>;
type Headers = Record<string, string>;

const only = ['listarPersonais'];
const STUDENTS = { only: ['listarAlunos'] };
const CREATION = { only: ['criarAluno'] };
const withBody = (body: unknown) => ({ body: body as Json, text: JSON.stringify(body) });
const refusals = (change: (error: Row) => object): Fault => ({
  answer: ({ status, body }) => (status === 422 ? change((body as { error: Row }).error) : {}),
});
const successes = (change: (text: string) => object): Fault => ({
  answer: ({ status, text }, { method }) => (status === 200 && method === 'GET' ? change(text) : {}),
});
const rows = (change: (rows: Row[]) => unknown): Fault => successes((text) => withBody(change(JSON.parse(text))));
/** Changes the rows of a list with this filter. */
const filtered = (name: string, change: (rows: Row[], value: string) => unknown): Fault => ({
  answer: ({ status, body }, request) => {
    const value = new URLSearchParams(queryOf(request)).get(name);
    return status === 200 && value !== null ? withBody(change(body as Row[], value)) : {};
  },
});
const parameter = (change: (name: string, value: string) => string | undefined): Fault => ({
  ask: (request) => mapQuery(request, change),
});
/** Answers have these headers, undefined where they lack one. */
const headers = (change: (headers: Headers, query: string) => Record<string, string | undefined>): Fault => ({
  answer: ({ headers }, request) => {
    const changed = Object.entries({ ...headers, ...change(headers, queryOf(request)) });
    return { headers: Object.fromEntries(changed.filter(([, value]) => value !== undefined)) as Headers };
  },
});

const endConnection = () => {
  throw new Error('other side closed');
};

describe('a faulty gateway', () => {
  const SKIPS_AFTER = parameter((name, value) => (name === 'after' ? value.replace(/2$/, '3') : value));
  const TWIN = '00000000-0000-4000-8000-000000000000';
  let creations = 0;
  const SKIPPED = { expected: 'a2000000-0000-4000-8000-000000000003 in that place' };

  test.each<[what: string, check: string, Fault, found: object, options?: Partial<RunOptions>]>([
    [
      'with a wrong status',
      'refuses limit less than 1',
      refusals(() => ({ status: 400 })),
      {
        curl: `${GET} '$URL/personais?limit=0'`,
        expected: '422 that names limit alone',
        got: '400 {"error":{"limit":["must be >= 1"]}}',
      },
    ],
    [
      'with an error that does not name the field',
      'refuses academia_id that is not uuid',
      refusals(() => withBody({ error: { outro: ['is wrong'] } })),
      { expected: '422 that names academia_id alone', got: '422 {"error":{"outro":["is wrong"]}}' },
    ],
    [
      'with an error in another form',
      'refuses limit less than 1',
      refusals(() => withBody({ message: 'limit is wrong' })),
      {
        got: 'not the schema of 422: the value must have required property \'error\'\n422 {"message":"limit is wrong"}',
      },
    ],
    [
      'with a status that is not declared',
      'takes limit',
      successes(() => ({ status: 206 })),
      { got: expect.stringMatching(/^listarPersonais does not declare this status\n206 \[/) },
    ],
    [
      'with a response that is not the schema',
      'takes limit',
      rows((all) => all.map(({ email, ...row }) => row)),
      { got: expect.stringMatching(/^not the schema of 200: \/0 must have required property 'email'\n200 \[/) },
    ],
    [
      'with a property that the document does not have',
      'takes limit',
      rows((all) => all.map((row) => ({ ...row, senha: 'x' }))),
      { got: expect.stringContaining('must NOT have additional properties') },
    ],
    [
      'with another content type',
      'takes limit',
      headers(() => ({ 'content-type': 'text/html' })),
      { got: expect.stringMatching(/^Content-Type is text\/html, expected application\/json\n200 \[/) },
    ],
    [
      'with a body that is cut off',
      'takes limit',
      successes((text) => ({ text: text.slice(0, -1), body: undefined })),
      { got: expect.stringMatching(/^the body is not JSON\n200 \[/) },
    ],
    [
      'that carries out a creation twice',
      'creates what the list shows',
      rows((all) => all.flatMap((row) => [row, { ...row, id: TWIN }])),
      { expected: expect.stringMatching(/^one record of the creation/), got: expect.stringContaining(TWIN) },
      CREATION,
    ],
    [
      'with a page that repeats a record',
      'gives pages that are together the whole list',
      parameter((name, value) => (name === 'after' ? value.replace(/2$/, '1') : value)),
      {
        curl: `${GET} '$URL/personais?limit=1&after=a2000000-0000-4000-8000-000000000002'`,
        expected: 'every record once',
        got: expect.stringMatching(/^a2000000-0000-4000-8000-000000000002 .* as its record 1, for the second time$/),
      },
    ],
    [
      'with an offset that skips a record',
      'gives the page of any limit and offset',
      parameter((name, value) => (name === 'offset' && Number(value) > 1 ? String(Number(value) + 1) : value)),
      { curl: expect.stringMatching(/\?limit=1&offset=[23]'$/) },
    ],
    ['with a next page that skips a record', 'gives pages that are together the whole list', SKIPS_AFTER, SKIPPED],
    ['with a page after a record that skips one', 'continues after any record', SKIPS_AFTER, SKIPPED],
    [
      'with a page that is longer than its limit',
      'gives the page of any limit and offset',
      parameter((name, value) => (name === 'limit' ? String(Math.min(Number(value) + 1, 1000)) : value)),
      { expected: 'at most 1 records', got: '2 records' },
    ],
    [
      'with a filter that does not filter',
      'filters by academia_id',
      parameter((name, value) => (name === 'academia_id' && value.length === 36 ? undefined : value)),
      {
        expected: 'only records with academia_id = "a1000000-0000-4000-8000-000000000001"',
        got: expect.stringMatching(/^a2000000-/),
      },
    ],
    [
      'with a filter that leaves out what matches',
      'filters by nome',
      filtered('nome', (all) => all.slice(1)),
      { expected: expect.stringMatching(/ in that place$| too, \d+ records in all$/) },
      STUDENTS,
    ],
    [
      'with a filter that minds the case of letters',
      'filters by nome',
      filtered('nome', (all, value) => all.filter(({ nome }) => String(nome).includes(value))),
      {},
      { ...STUDENTS, runs: 20 },
    ],
    [
      'with a date filter that leaves out the day itself',
      'filters by data_inicio_gte',
      filtered('data_inicio_gte', (all, value) => all.filter(({ data_inicio }) => data_inicio !== value)),
      {},
      { only: ['listarTreinos'] },
    ],
    [
      'where it accepts an unknown parameter',
      'refuses an unknown parameter',
      parameter((name, value) => (['limit', 'offset', 'academia_id'].includes(name) ? value : undefined)),
      { curl: `${GET} '$URL/personais?sort=1'`, expected: '422 that names sort alone' },
    ],
    [
      'where it takes 1e1 for a number',
      'refuses limit that is not integer',
      parameter((name, value) => (name === 'limit' && /e/.test(value) ? String(Number(value)) : value)),
      { curl: `${GET} '$URL/personais?limit=1e1'` },
    ],
    [
      'where it takes the first of two values',
      'refuses academia_id twice',
      { ask: ({ target }) => ({ target: target.replace(/(academia_id=[^&]*)&academia_id=.*/, '$1') }) },
      {},
    ],
    [
      'where it takes headers of any size',
      'answers the example headersTooLarge with 431',
      { ask: ({ headers: { 'X-Filler': _filler, ...headers } }) => ({ headers }) },
      {
        curl: `${GET} -H "X-Filler: $(printf '%020000d' 0)" '$URL/personais'`,
        expected: '431 as in the document',
      },
    ],
    [
      'where it does not create what was sent',
      'creates what was sent',
      { ask: ({ body = '' }) => ({ body: body.replace(/Contract test /, 'Contract ') }) },
      {},
      CREATION,
    ],
    [
      'where it refuses a valid value by a rule that the document does not have',
      'takes p_sexo',
      {
        answer: ({ status }, { body }) =>
          status === 201 && body?.includes('"p_sexo"')
            ? { status: 422, ...withBody({ error: { p_sexo: ['no'] } }) }
            : {},
      },
      {},
      CREATION,
    ],
    [
      'on the refusals of a creation too, for which nothing is created',
      'forbids content type sniffing',
      headers(() => ({ 'x-content-type-options': undefined })),
      {},
      CREATION,
    ],
    [
      'where it reads a body by its Content-Type',
      'reads a body whatever its Content-Type',
      {
        answer: (_answer, { headers }) =>
          'Content-Type' in headers ? { status: 415, ...withBody({ error: 'Not JSON' }) } : {},
      },
      { got: '415 {"error":"Not JSON"}', curl: expect.stringContaining("-H 'Content-Type: text/plain'") },
      CREATION,
    ],
    [
      'where a record is missed while others are created',
      'lists every record once while others are created',
      filtered('after', (all) => {
        creations += 1;
        return creations % 2 === 1 ? all.slice(1) : all;
      }),
      { expected: expect.stringMatching(/ in that place$| too, \d+ records in all$/) },
      { ...CREATION, demo: true },
    ],
    [
      'where it closes the connection, and is told apart from one that is gone',
      'takes limit',
      { ask: (request) => (queryOf(request) === 'limit=1000' ? endConnection() : {}) },
      { curl: `${GET} '$URL/personais?limit=1000'`, got: expect.stringMatching(/^no answer: /) },
    ],
  ])('is caught %s', async (_what, check, fault, found, options = {}) => {
    expect(await findFault(check, fault, { only, ...options })).toMatchObject(found);
  });

  test.each([
    ['with a 405 that names no methods', 'PUT', { allow: undefined }, 'none'],
    ['with a 405 that names one too many', 'PUT', { allow: 'DELETE, GET, HEAD, POST' }, 'DELETE, GET, HEAD, POST'],
    ['that answers OPTIONS with none', 'OPTIONS', { allow: undefined }, 'none'],
  ])('is caught %s', async (_what, method, change, got) => {
    const fault: Fault = {
      answer: ({ headers, status }, request) =>
        status === 405 && request.method === method ? { headers: { ...headers, ...change } as Headers } : {},
    };
    const failures = await findFaults(fault, { ...CREATION, runs: 1 });
    expect(failures).toContainEqual(expect.objectContaining({ expected: 'Allow: GET, POST', got }));
  });

  test('is caught with an error that names the first field alone', async () => {
    const fault = refusals((error) => withBody({ error: Object.fromEntries(Object.entries(error).slice(0, 1)) }));
    const failures = await findFaults(fault, { only });
    expect(namesOf(failures)).toEqual(['names all of several errors']);
  });

  test('is caught with another order where no page is asked for', async () => {
    const fault: Fault = {
      answer: ({ status, body }, request) =>
        status === 200 && request.method === 'GET' && queryOf(request) === ''
          ? withBody((body as Row[]).toReversed())
          : {},
    };
    const failures = await findFaults(fault, { only });
    expect(namesOf(failures)).toEqual(['gives the same when repeated']);
  });

  test('is caught where it needs no key', async () => {
    const fault: Fault = { ask: () => ({ key: OWN_KEY }) };
    const failures = await findFaults(fault, { only });
    expect(failures.find(({ name }) => name === 'refuses a request without a key')?.curl).toBe(
      `curl -i '${gateway.url}/personais'`,
    );
    expect(namesOf(failures)).toContain('refuses an unknown key');
  });

  test('is caught with a header that is not as the document has it', async () => {
    const fault = headers(() => ({ 'x-request-id': '61' }));
    const copy = structuredClone(document);
    const response = copy.components?.responses?.BadRequest as OpenAPIV3.ResponseObject;
    response.headers = { 'X-Request-Id': { schema: { type: 'integer', maximum: 60 } } };
    const { got } = await findFault('refuses a request without a key', fault, { only, document: copy });
    expect(got).toContain('not the schema of the header x-request-id: the value must be <= 60, and is 61\n400 ');
  });

  test('is caught where it forgets an idempotency key', async () => {
    const fault: Fault = {
      ask: ({ headers: { 'Idempotency-Key': key = '', ...headers } }) => ({
        headers: key.length === 36 || key === '' ? headers : { ...headers, 'Idempotency-Key': key },
      }),
    };
    const failures = await findFaults(fault, CREATION);
    expect(namesOf(failures)).toEqual(
      expect.arrayContaining([
        'gives the same answer to the same Idempotency-Key',
        'refuses another body with the same Idempotency-Key',
      ]),
    );
  });

  test('is caught where it does not say that an answer is a repeated one', async () => {
    const fault = headers(() => ({ 'idempotent-replayed': undefined }));
    expect(await findFault('gives the same answer to the same Idempotency-Key', fault, CREATION)).toMatchObject({
      expected: 'idempotent-replayed: none, then idempotent-replayed: true',
      got: 'idempotent-replayed: none, then idempotent-replayed: none',
    });
  });

  const link = (change: (link: string | undefined, query: string) => string | undefined) =>
    headers(({ link }, query) => ({ link: change(link, query) }));
  const LINKED = 'links each page to the next and the previous one';

  test.each([
    ['without a link to the next page', (text = '') => text.replace('"next"', '"last"'), /^a2000000\S+ too, 4 records/],
    [
      'without a link to the page before',
      (text = '') => text.replace('"prev"', '"first"'),
      /^a Link to the previous page/,
    ],
    ['without any links', () => undefined, /^a2000000\S+ too, 4 records/],
    [
      'with a next that is the same page',
      (text = '') => text.replace(/offset=\d+>; rel="next/, 'offset=0>; rel="next'),
    ],
    ['with a next that skips one', (text = '') => text.replace(/offset=2>; rel="next/, 'offset=3>; rel="next')],
    [
      'with a prev that is the first page',
      (text = '') => text.replace(/offset=\d+>; rel="prev/, 'offset=0>; rel="prev'),
    ],
    ['with a next that has another limit', (text = '') => text.replace(/limit=\d+(.*rel="next")/, 'limit=1001$1')],
    [
      'with a next after the end',
      (text?: string) =>
        text?.includes('next') ? text : [text, '<?limit=2&offset=4>; rel="next"'].filter(Boolean).join(', '),
    ],
    [
      'with a prev before the beginning',
      (text = '') => text.replace('"next"', '"next", <?limit=2&offset=0>; rel="prev"'),
    ],
  ])('is caught %s', async (_what, change, expected = /./) => {
    const failures = await findFaults(link(change), { only });
    expect(failures).toEqual([expect.objectContaining({ name: LINKED, expected: expect.stringMatching(expected) })]);
  });

  test('may stand behind a proxy that makes its links absolute', async () => {
    const absolute = link((text) => text?.replaceAll('<?', '<https://api.example/v1/personais?'));
    expect(await findFaults(absolute, { only })).toEqual([]);
  });

  test('is caught where a copy does not hold', async () => {
    const fault: Fault = { ask: ({ headers: { 'If-None-Match': _tag, ...headers } }) => ({ headers }) };
    const failures = await findFaults(fault, { only });
    expect(failures).toMatchObject([
      {
        name: 'answers 304 to the ETag of an unchanged answer',
        expected: '304 without a body',
        got: expect.stringMatching(/^200 \[/),
      },
    ]);
    const tag = /If-None-Match: (W\/"[\w-]+")' '(.*)'$/.exec(failures[0]?.curl ?? '');
    expect(tag?.[2]).toBe(`${gateway.url}/personais?limit=1`);
  });

  test('is caught where a copy holds that has changed', async () => {
    let answers = 0;
    const fault = headers(({ etag }) => (etag ? { etag: `W/"${answers++}"` } : {}));
    const failures = await findFaults(fault, { only });
    expect(namesOf(failures)).toEqual(['answers 304 to the ETag of an unchanged answer']);
  });

  test('is caught where every copy holds', async () => {
    const holds: Fault = {
      answer: (_answer, { headers }) => ('If-None-Match' in headers ? { status: 304, text: '', body: undefined } : {}),
    };
    expect(namesOf(await findFaults(holds, { only }))).toEqual(['answers in full to another ETag']);
  });

  test('is caught with one tag for every answer', async () => {
    const tag = 'W/"1"';
    const fault: Fault = {
      answer: ({ headers }, request) => ({
        headers: { ...headers, ...(headers.etag && { etag: tag }) },
        ...(request.headers['If-None-Match'] === tag ? { status: 304, text: '', body: undefined } : {}),
      }),
    };
    const failures = await findFaults(fault, { only });
    expect(failures).toMatchObject([{ name: 'answers in full to another ETag', got: 'W/"1"' }]);
  });

  const overLimit = (seconds: number) => ({ status: 429, headers: { 'retry-after': String(seconds) } });

  test('may limit requests, which are repeated after the time that it names', async () => {
    const seen = new Set<string>();
    const toText = ({ method, target, headers, key }: Request) =>
      JSON.stringify([method, target, headers, String(key)]);
    const limits: Fault = {
      answer: (_answer, request) => (seen.size < seen.add(toText(request)).size ? overLimit(0) : {}),
    };
    expect(await findFaults(limits, { only })).toEqual([]);
  });

  test('is shown as one failure where the key is over its limit', async () => {
    const failures = await findFaults(
      successes(() => overLimit(3_600)),
      { only },
    );
    expect(namesOf(failures)).toEqual(['accepts the key']);
  });

  test.each([
    ['tags', { etag: undefined }, 'answers 304 to the ETag of an unchanged answer', 'an ETag', 'none'],
    ['ids', { 'x-request-id': undefined }, "returns the request's X-Request-Id", /^X-Request-Id: contract-/, 'none'],
    ['one id alone', { 'x-request-id': 'same' }, "returns the request's X-Request-Id", /, or a proxy's own$/, /^same,/],
    ['types to guess', { 'x-content-type-options': undefined }, 'forbids content type sniffing', /nosniff/, 'none'],
    ['no language', { 'content-language': undefined }, 'declares the language of its messages', /: pt-BR$/, 'none'],
    ['another language', { 'content-language': 'en' }, 'declares the language of its messages', /: pt-BR$/, 'en'],
  ])('is caught with %s', async (_what, change, name, expected, got) => {
    const failures = await findFaults(
      headers(() => change),
      { only },
    );
    const [asExpected, asGot] = [expect.stringMatching(expected), expect.stringMatching(got)];
    expect(failures).toEqual([expect.objectContaining({ name, expected: asExpected, got: asGot })]);
  });

  test('may stand behind a proxy that gives requests ids of its own', async () => {
    let requests = 0;
    const fault = headers(() => ({ 'x-request-id': `proxy-${requests++}` }));
    expect(await findFaults(fault, { only })).toEqual([]);
  });

  test('is shown as one failure where it refuses the key', async () => {
    const report = await run({ key: KEYS.readOnly, only: ['criarAluno'] });
    expect(namesOf(failuresOf(report))).toEqual(['accepts the key']);
    expect(report.sections[0]?.outcomes.filter(({ result }) => result === 'passed')).toEqual([]);
  });
});

describe('a gateway with a hole between its keys', () => {
  const FOREIGN = { personal: 'b2000000-0000-4000-8000-000000000001', gym: 'b1000000-0000-4000-8000-000000000001' };
  const all = { otherKey: KEYS.bosque, readKey: KEYS.readOnly };
  const of = (key: symbol, change: (answer: Answer, request: Request) => Partial<Answer>): Fault => ({
    answer: (answer, request) => (request.key === key ? change(answer, request) : {}),
  });
  const withoutHyphens = (id: string) => id.replaceAll('-', '');
  /** Changes the records that the other key reads of a list, from the second time on. */
  const changes = (path: string, change: Row): Fault => {
    let reads = 0;
    return of(OTHER_KEY, ({ body }, { target }) =>
      target.startsWith(path) && ++reads > 1 ? withBody((body as Row[]).map((row) => ({ ...row, ...change }))) : {},
    );
  };

  test.each<[string, string, string, Fault, Partial<Record<'expected' | 'got' | 'curl', unknown>>]>([
    [
      "that lists another tenant's record",
      'listarPersonais',
      'shows no record of the other key',
      of(OWN_KEY, ({ status, body }) =>
        status === 200 ? withBody([{ id: FOREIGN.personal }, ...(body as Row[])]) : {},
      ),
      { got: expect.stringContaining(FOREIGN.personal) },
    ],
    [
      'that says of a filter that another tenant has the record',
      'listarAlunos',
      'tells no record of the other key from an unknown one by id_personal',
      of(OWN_KEY, (_answer, { target }) =>
        target.includes(withoutHyphens(FOREIGN.personal)) ? { status: 404, text: '{}' } : {},
      ),
      { expected: 'as for an unknown id: 200 []', got: '404 {}' },
    ],
    [
      'that continues after a record of another tenant',
      'listarPersonais',
      'tells no record of the other key from an unknown one by after',
      of(OWN_KEY, (_answer, { target }) => (target.includes(`after=${FOREIGN.personal}`) ? { text: '[1]' } : {})),
      { got: expect.stringContaining('[1]') },
    ],
    [
      'that refers to a record of another tenant',
      'criarAluno',
      'tells no record of the other key from an unknown one by p_academia_id',
      of(OWN_KEY, (_answer, { body }) => (body?.includes(FOREIGN.gym) ? { status: 201, text: '{}' } : {})),
      { got: '201 {}' },
    ],
    [
      'that lets a key write that may only read',
      'criarAluno',
      'refuses a key that may only read',
      of(READ_KEY, () => ({ status: 201 })),
      { expected: '401 as in the document', curl: expect.stringContaining('"X-Api-Key: $READ_KEY"') },
    ],
    [
      'that refuses a read to a key that may read',
      'listarPersonais',
      'lets a key read that may only read',
      of(READ_KEY, () => ({ status: 401, ...withBody({ error: 'API Key sem permissão' }) })),
      { got: '401 {"error":"API Key sem permissão"}' },
    ],
    [
      "that changes another tenant's records",
      'listarAlunos',
      'leaves the records of the other key as they were',
      changes('/alunos', { nome: 'Outro' }),
      { got: expect.stringContaining('Outro'), curl: expect.stringContaining('"X-Api-Key: $OTHER_KEY"') },
    ],
  ])('is caught %s', async (_what, id, check, fault, found) => {
    expect(await findFault(check, fault, { ...all, only: [id] })).toMatchObject(found);
  });

  test('is not one that counts the calls of the other key, which no operation writes', async () => {
    const failures = await findFaults(changes('/uso', { chamadas: 7 }), { ...all, only: ['listarPersonais'] });
    expect(failures).toEqual([]);
  });

  test.each([
    ['that is not over it', {}, '200 '],
    ['without a time to wait', { status: 429, ...withBody({ error: 'Too many requests' }) }, 'none'],
  ])('is caught with a limit that a key %s', async (_what, change, got) => {
    const fault = of(LIMITED_KEY, () => change);
    const limited = await findFault('refuses a key over its limit with 429 and Retry-After', fault, {
      limitedKey: KEYS.readOnly,
    });
    expect(limited.got).toContain(got);
    expect(limited.curl).toContain('"X-Api-Key: $LIMITED_KEY"');
  });
});

test('a gateway that knows of a record with the only known value of a rule is not at fault', async () => {
  const ruled = structuredClone(document);
  const creation = ruled.paths['/alunos']?.post as OpenAPIV3.OperationObject;
  const media = (creation.requestBody as OpenAPIV3.RequestBodyObject).content['application/json'];
  const { properties } = follow(ruled, media?.schema as object) as { properties: Record<string, object> };
  Object.assign(properties.p_email ?? {}, { 'x-rule': 'an address of the gym' });
  creation.responses['409'] = { description: 'Taken' };
  const taken = { status: 409, ...withBody({ error: `taken by ${KEYS.aurora} ]]>` }) };
  const fault: Fault = { answer: ({ status }, { method }) => (method === 'POST' && status === 201 ? taken : {}) };
  const report = await run({ ...CREATION, document: ruled, demo: true, intercept: spoil(fault) });
  expect(failuresOf(report)).toEqual([]);
  expect(toJUnit(report)).toContain('409 {"error":"taken by $API_KEY ]] >"}');
  expect(namesOf(await findFaults(fault, { ...CREATION, demo: true }))).toContain('creates what was sent');
});

describe('a gateway that forgets what it has said', async () => {
  const sql = readFileSync('test/documents/everything.sql', 'utf8');
  const pegs = await startChecks({ document: await readDocument('test/documents/everything.yaml'), sql });
  const id = (request: Request) => request.target.replace(/.*\//, '');
  /** Answers to these methods are changed. */
  const to = (method: string, change: (answer: Answer, request: Request) => Partial<Answer>): Fault => ({
    answer: (answer, request) => (request.method === method && answer.status < 300 ? change(answer, request) : {}),
  });
  const changed = new Map<string, Answer>();
  const LIFE = 'creates what is read, changed, deleted';

  afterAll(pegs.close);

  test.each<[string, string, Fault, Partial<Record<'expected' | 'got', unknown>>]>([
    [
      'that refers to another record',
      LIFE,
      to('POST', ({ headers }) => ({ headers: { ...headers, location: '/v2/cabides/1' } })),
      { expected: expect.stringMatching(/^Location: .*\/cabides\/[\w-]{36}$/), got: '/v2/cabides/1' },
    ],
    [
      'that shows another record',
      LIFE,
      to('GET', ({ body }) => (Array.isArray(body) ? {} : withBody({ ...(body as Row), numero: 1 }))),
      { got: expect.stringContaining('"numero":1') },
    ],
    [
      'that does not change what it is told to',
      LIFE,
      to('PATCH', ({ body }) => withBody({ ...(body as Row), preco: 2 })),
      { expected: 'preco 1' },
    ],
    [
      'that shows a record as it was before a change',
      LIFE,
      {
        answer: (answer, request) => {
          if (request.method === 'GET' && !changed.has(id(request))) changed.set(id(request), answer);
          return request.method === 'GET' ? (changed.get(id(request)) ?? {}) : {};
        },
      },
      { got: expect.stringContaining('numero') },
    ],
    [
      'that keeps what it says to have deleted',
      LIFE,
      {
        ask: ({ method }) => (method === 'DELETE' ? { method: 'GET' } : {}),
        answer: ({ status }, { method }) =>
          method === 'DELETE' && status === 200 ? { status: 204, text: '', body: undefined } : {},
      },
      { expected: '404 as in the document' },
    ],
    [
      'that takes what has to be unique twice',
      'refuses the same fields again',
      { answer: ({ status }, { method }) => (method === 'POST' && status === 409 ? { status: 201 } : {}) },
      { expected: '409 as in the document' },
    ],
  ])('is caught %s', async (_what, check, fault, found) => {
    const only = ['criarCabide', 'obterCabide', 'alterarCabide', 'apagarCabide'];
    expect(await pegs.findFault(check, fault, { only })).toMatchObject(found);
  });
});
