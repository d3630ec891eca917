// Tables of requests and their answers, which do not depend on the kind of store, so it is a stub.

import { brotliDecompressSync, gunzipSync, gzipSync, inflateSync } from 'node:zlib';
import type { OpenAPIV3 } from 'openapi-types';
import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { messages } from '../../src/api/messages.ts';
import { storeFault } from '../../src/errors.ts';
import type { Result } from '../../src/store/store.ts';
import { document, jsonBody, STUDENT } from '../helpers/api.ts';
import { startGateway, startOwnGateway, type TestGateway } from '../helpers/gateway.ts';
import { expectSecure } from '../helpers/secure-headers.ts';
import { namesIn, type RawAnswer, type SendOptions, send } from '../helpers/send.ts';
import { createStubStore, createStudents, idOfStudent, limitsOf } from '../helpers/stub-store.ts';

const PANEL = 'https://painel.example';
const LOCAL = 'http://localhost:5173';

/** A schema, a value that breaks it, the message in either language, and its place in the field. */
const RULES: readonly [schema: object, value: unknown, english: string, portuguese: string, place?: string][] = [
  [{ type: 'string' }, 1, 'must be string', 'Informe um texto'],
  [{ type: 'integer' }, 1.5, 'must be integer', 'Informe um número inteiro'],
  [{ type: 'number', nullable: true }, '1', 'must be number', 'Informe um número'],
  [{ type: 'boolean' }, 'sim', 'must be boolean', 'Informe true ou false'],
  [{ type: 'object' }, [], 'must be object', 'Informe um objeto'],
  [{ type: 'array', items: {} }, {}, 'must be array', 'Informe uma lista'],
  [{ type: 'string', minLength: 1 }, '', 'must NOT have fewer than 1 characters', 'Informe pelo menos 1 caractere'],
  [{ type: 'string', minLength: 2 }, 'a', 'must NOT have fewer than 2 characters', 'Informe pelo menos 2 caracteres'],
  [{ type: 'string', maxLength: 1 }, 'ab', 'must NOT have more than 1 characters', 'Informe no máximo 1 caractere'],
  [{ type: 'string', maxLength: 2 }, 'abc', 'must NOT have more than 2 characters', 'Informe no máximo 2 caracteres'],
  [{ pattern: '^a$' }, 'b', 'must match pattern "^a$"', 'Informe um valor que corresponda ao padrão "^a$"'],
  [{ format: 'date' }, 'b', 'must match format "date"', 'Informe uma data válida, como 2026-12-31'],
  [{ format: 'uuid' }, 'b', 'must match format "uuid"', 'Informe um identificador (UUID) válido'],
  [{ type: 'integer', minimum: 2 }, 1, 'must be >= 2', 'Informe um número maior ou igual a 2'],
  [{ type: 'integer', maximum: 2 }, 3, 'must be <= 2', 'Informe um número menor ou igual a 2'],
  [{ type: 'integer', multipleOf: 2 }, 3, 'must be multiple of 2', 'Informe um múltiplo de 2'],
  [{ enum: ['a', 'b'] }, 'c', 'must be equal to one of the allowed values: a, b', 'Escolha um destes valores: a, b'],
  [{ type: 'array', items: {}, maxItems: 1 }, [1, 2], 'must NOT have more than 1 items', 'Informe no máximo 1 item'],
  [{ not: { type: 'integer' } }, 1, 'must NOT be valid', 'Informe um valor válido'],
  [{ type: 'array', items: { type: 'integer' } }, ['a'], 'must be integer', 'Informe um número inteiro', '.0'],
  [{ type: 'object', required: ['a'] }, {}, messages.isRequired.en, messages.isRequired['pt-BR'], '.a'],
  [
    ...([{ type: 'object', additionalProperties: false }, { a: 1 }] as const),
    ...([messages.isNoField.en, messages.isNoField['pt-BR'], '.a'] as const),
  ],
  [
    { type: 'array', items: { type: 'string', pattern: 'a', 'x-pattern-message': 'must not be blank' } },
    ...([['b'], 'must not be blank', 'Preencha este campo', '.0'] as const),
  ],
];
const toFields = (toValue: (rule: (typeof RULES)[number]) => unknown, toPlace: typeof toValue = () => '') =>
  Object.fromEntries(RULES.map((rule, n) => [`p_${n}${toPlace(rule)}`, toValue(rule)]));

/** The second form refuses a value with the message of the first. */
const FORMS = [
  { type: 'integer', minimum: 5 },
  { type: 'number', minimum: 5 },
  { type: 'number', maximum: 1 },
];
const UNTRANSLATED = { type: 'string', minLength: 3, pattern: '^b', 'x-pattern-message': 'must begin with b' };
const ITEM = { type: 'object', additionalProperties: false, required: ['a'], properties: { a: { type: 'integer' } } };

/** The paths of a POST, and the schemas of the fields of its body. */
const BODIES: Readonly<Record<string, object>> = {
  '/regras': toFields(([schema]) => schema),
  '/formas': { p_um: { oneOf: FORMS }, p_algum: { anyOf: FORMS } },
  '/textos': { p_valor: UNTRANSLATED },
  '/itens': { p_itens: { type: 'array', items: ITEM } },
};

const list = document.paths['/alunos']?.get as OpenAPIV3.OperationObject & { parameters: OpenAPIV3.ParameterObject[] };
const ARRAY = { type: 'array', items: { type: 'string' } } as const;
const ARRAYS = [
  { in: 'query', name: 'each', schema: ARRAY },
  { in: 'query', name: 'commas', explode: false, schema: ARRAY },
  { in: 'query', name: 'bars', style: 'pipeDelimited', schema: ARRAY },
  { in: 'query', name: 'exact', schema: { type: 'number' } },
  { in: 'query', name: 'exacts', schema: { type: 'array', items: { type: 'number' } } },
];
const NO_RECORDS = { type: 'integer', default: 100, minimum: 0, maximum: 1_000 };
const mayBeEmpty = (parameter: OpenAPIV3.ParameterObject) =>
  parameter.name === 'limit' ? { ...parameter, schema: NO_RECORDS } : parameter;

const PATHS = {
  ...Object.fromEntries(
    Object.entries(BODIES).map(([path, properties]) => {
      const body = jsonBody({ type: 'object', additionalProperties: false, properties });
      const responses = { 204: { description: 'Done' } };
      return [path, { post: { operationId: path.slice(1), 'x-rpc': 'um', ...body, responses } }];
    }),
  ),
  '/filtros': { get: { ...list, operationId: 'filtros', parameters: [...list.parameters, ...ARRAYS] } },
  '/vazia': { get: { ...list, operationId: 'vazia', parameters: list.parameters.map(mayBeEmpty) } },
  '/notas/{nome}': {
    put: {
      ...{ operationId: 'guardar', 'x-rpc': 'um', responses: { 202: { description: 'Will be done' } } },
      parameters: [{ in: 'path', name: 'nome', required: true, schema: { type: 'string' } }],
    },
  },
  '/notas/todas': { get: { ...list, operationId: 'notas' } },
};

/** The store's results for these keys. */
const RESULTS: Readonly<Record<string, Result>> = {
  refused: { failure: { kind: 'refusedKey', text: 'API Key inválida' } },
  unlucky: storeFault('storeUnavailable', 'down'),
  large: { failure: { kind: 'answerTooLarge', cause: 'too large' } },
  raising: {
    failure: {
      kind: 'invalidInput',
      fields: { p_a: ['must be a date that exists, as YYYY-MM-DD or DD/MM/YYYY'], p_b: ['must be in the future'] },
    },
  },
};
const students = createStudents(1_000);
const never = new AbortController().signal;
const store = createStubStore((call) => {
  if (call.function === 'record_usage') return limitsOf('limited', { per_minute: 1, burst: 2 });
  const key = String(call.args.p_api_key);
  if (key === 'broken') throw new Error('a mistake of ours');
  return RESULTS[key] ?? (call.returns === 'rows' ? students.call(call, never) : { json: '{}', count: 1 });
});

let gateway: TestGateway;
/** A gateway for pages of two origins. */
let forPages: TestGateway;
/** A gateway for all pages, without a store. */
let forAll: TestGateway;
/** The result of its store's check. */
let check = async () => storeFault('storeUnavailable', 'down').failure;

beforeAll(async () => {
  gateway = await startGateway({ store, document: { ...document, paths: { ...document.paths, ...PATHS } } as never });
  forPages = await startGateway({ store, corsOrigins: [PANEL, LOCAL] });
  forAll = await startGateway({ store: { ...store, check: () => check() }, corsOrigins: [PANEL, '*'] });
});

beforeEach(() => {
  store.calls.length = 0;
});

afterAll(() => Promise.all([gateway, forPages, forAll].map(({ close }) => close())));

type Options = SendOptions & { readonly key?: string | null; readonly language?: string; readonly to?: TestGateway };

/** Sends a request to an operation, and checks what all answers have in common. */
async function ask(
  target: string,
  { key = 'k', language, to = gateway, ...options }: Options = {},
): Promise<RawAnswer> {
  const headers = {
    ...(key === null ? {} : { 'X-Api-Key': key }),
    ...(language === undefined ? {} : { 'Accept-Language': language }),
    ...options.headers,
  };
  const answer = await send(to.url + target, { ...options, headers });
  expectSecure(answer.headers);
  expect(answer.headers['x-request-id']).toMatch(/^\S+$/);
  if (answer.bytes.length > 0) {
    expect(answer.headers['content-type']).toBe('application/json; charset=utf-8');
    expect(answer.headers['content-length']).toBe(String(answer.bytes.length));
  }
  if (answer.status >= 400) {
    expect(answer.headers['cache-control']).toBe('no-store');
    for (const name of ['etag', 'link']) expect(answer.headers).not.toHaveProperty(name);
  }
  return answer;
}

/** The status of an answer, the errors of the request, and the language. */
async function refuse(target: string, options?: Options): Promise<unknown[]> {
  const { status, headers, text } = await ask(target, options);
  expect(namesIn(headers.vary).includes('accept-language')).toBe(status === 422);
  const { error, ...others } = JSON.parse(text);
  expect(others).toEqual({});
  return [status, error, headers['content-language']].slice(0, status === 422 ? 3 : 2);
}

const post = (body: string | Buffer, options: Options = {}): Options => ({ method: 'POST', body, ...options });
const withHeader = (name: string, value: string): Options => ({ headers: { [name]: value } });

/** Every way in which a request to an operation ends. */
const ENDINGS: readonly (readonly [what: string, status: number, target: string, options: Options])[] = [
  ['a list', 200, '/alunos?limit=1', {}],
  ['a list for HEAD', 200, '/alunos', { method: 'HEAD' }],
  ['a compressed list', 200, '/alunos', withHeader('Accept-Encoding', 'br')],
  ['a creation', 201, '/alunos', post(JSON.stringify(STUDENT))],
  ['a copy that holds', 304, '/alunos', withHeader('If-None-Match', '*')],
  ['no key', 400, '/alunos', { key: '' }],
  ['no JSON', 400, '/alunos', post('{')],
  ['no URL', 400, '/%ff', {}],
  ['a refused key', 401, '/alunos', { key: 'refused' }],
  ['no such path', 404, '/nada', {}],
  ['no such method', 405, '/alunos', { method: 'DELETE' }],
  ['a body that is too large', 413, '/alunos', post('x'.repeat(100_001))],
  ['invalid parameters', 422, '/alunos?limit=0', {}],
  ['a mistake of ours', 500, '/alunos', { key: 'broken' }],
  ['a fault of the store', 502, '/alunos', { key: 'unlucky' }],
];

test.each<(typeof ENDINGS)[number]>([
  ...ENDINGS.map(([what, status, target, options]) => [what, status, `/v1${target}`, options] as const),
  ['another path', 404, '/nada', {}],
  ['the root', 302, '/', {}],
  ['the health', 200, '/healthz', {}],
  ['the readiness', 503, '/readyz', {}],
  ['the metrics', 200, '/metrics', {}],
  ['the document', 200, '/openapi.json', {}],
  ['the document as YAML', 200, '/openapi.yaml', {}],
  ['the page with a slash', 308, '/docs/', {}],
  ['the page', 200, '/docs', {}],
])(
  'the answer to %s, a %i, has the id of its request, and has the headers that protect a browser',
  async (_what, status, target, options) => {
    const { key = 'k', ...rest } = options;
    const headers = { 'X-Api-Key': key ?? '', 'X-Request-Id': 'asked', ...rest.headers };
    const answer = await send(new URL(forAll.url).origin + target, { ...rest, headers });
    expect([answer.status, answer.headers['x-request-id']]).toEqual([status, 'asked']);
    expectSecure(answer.headers);
    // The page has a policy of its own.
    expect(answer.headers['content-security-policy']?.includes('script-src')).toBe(target === '/docs');
  },
);

test.each(ENDINGS)(
  'the answer to %s, a %i, is complete, in its language, and readable by pages of allowed origins alone',
  async (_what, status, target, options) => {
    const isCopy = options.method !== 'POST' && status <= 400;
    const headers = { ...(isCopy ? {} : { 'If-None-Match': '*' }), ...options.headers };
    const askFrom = (Origin: string, to: TestGateway) =>
      ask(target, { ...options, to, language: 'pt-BR', headers: { ...headers, Origin } });
    const pages = [[PANEL, gateway] as const, [PANEL, forPages] as const, ['null', forAll] as const];
    const answers = await Promise.all(pages.map(([origin, to]) => askFrom(origin, to)));
    for (const answer of answers) {
      expect(answer.status).toBe(status);
      expect(answer.headers['content-language']).toBe(status === 422 ? 'pt-BR' : undefined);
      expect(namesIn(answer.headers.vary).includes('accept-language')).toBe(status === 422);
      if (!isCopy) expect(answer.headers).not.toHaveProperty('etag');
      expect(answer.headers).not.toHaveProperty('access-control-allow-credentials');
    }
    const told = (name: string) => answers.map((answer) => answer.headers[`access-control-${name}`]);
    expect(told('allow-origin')).toEqual([undefined, PANEL, '*']);
    expect(answers.map((answer) => namesIn(answer.headers.vary).includes('origin'))).toEqual([false, true, false]);
    const [none, exposed] = told('expose-headers');
    expect([none, namesIn(exposed)]).toEqual([
      undefined,
      [
        ...['allow', 'content-language', 'etag', 'idempotent-replayed', 'link', 'location'],
        ...['ratelimit', 'ratelimit-policy', 'retry-after', 'x-request-id'],
      ],
    ]);
  },
);

test('the store is told the id of the request, and whose turn it takes', async () => {
  const call = vi.fn(store.call);
  const to = await startOwnGateway({ store: { ...store, call } });
  for (const _ of [1, 2]) await ask('/alunos', { to, headers: { 'X-Request-Id': 'asked' } });
  expect(call.mock.calls.map(([, , origin]) => origin)).toMatchObject([
    { requestId: 'asked', share: 'address 127.0.0.1' },
    { requestId: 'asked', share: 'k' },
  ]);
});

test('a mistake of ours in an endpoint of operators is a 500 too', async () => {
  const before = check;
  // The result of a check is kept for a second.
  check = () => Promise.reject(new Error('a mistake of ours'));
  await expect
    .poll(async () => (await send(new URL('/readyz', forAll.url).href)).text, { timeout: 60_000 })
    .toBe('{"error":"Internal error"}');
  check = before;
});

describe('a path', () => {
  test.each([
    ...['/v1/', '/v1', '/v1/alunos/', '/v1/aluno', '/v1/alunos/1', '/v1/ALUNOS', '/v1/alunos.json', '/v1//alunos'],
    ...['/v1/anamnese', '/v1/alunos%2F', '/v1/..%2Falunos', '/v1/healthz', '/v2/alunos', '/v1alunos', '/favicon.ico'],
    ...['/readyz/x', '/healthz/', '/METRICS', '/docs/x'],
  ])('that does not exist is not found, even without a key: %s', async (path) => {
    const to = { ...gateway, url: new URL(gateway.url).origin };
    expect(await refuse(path, { key: null, to })).toEqual([404, 'Not found']);
  });

  test('of an operation without /v1 is refused with a hint', async () => {
    const { status, text } = await send(`${new URL(gateway.url).origin}/alunos?limit=1`);
    expect([status, text]).toEqual([404, '{"error":"Not found: the path begins with /v1"}']);
  });

  test.each(['/alunos%', '/%ff', '/%zz/alunos', '/alunos%ED%A0%80'])(
    'that cannot be decoded is malformed: %s',
    async (path) => {
      expect(await refuse(path)).toEqual([400, 'Malformed URL']);
    },
  );

  test('is the same however its characters are encoded', async () => {
    expect((await ask('/%61lunos?%6Cimit=%31')).text).toBe((await ask('/alunos?limit=1')).text);
  });

  test('without a parameter has not the methods of one with a parameter that it matches too', async () => {
    expect((await ask('/notas/uma', { method: 'PUT' })).status).toBe(202);
    expect(await refuse('/notas/todas', { method: 'PUT' })).toEqual([405, 'Method not allowed']);
    expect((await ask('/notas/todas', { method: 'PUT' })).headers.allow).toBe('GET, HEAD');
  });

  test.each(['?limit=2', '?limit=1&offset=1', '?limit=0'])(
    'answers HEAD as GET, without the body: %s',
    async (query) => {
      const [get, head] = [await ask(`/alunos${query}`), await ask(`/alunos${query}`, { method: 'HEAD' })];
      expect([head.status, head.text]).toEqual([get.status, '']);
      const hop = ['date', 'connection', 'keep-alive', 'x-request-id'];
      const lasting = ({ headers }: RawAnswer) => Object.entries(headers).filter(([name]) => !hop.includes(name));
      expect(lasting(head)).toEqual(lasting(get));
    },
  );
});

describe('the key', () => {
  const taken = async (options: Options) => {
    const { status } = await ask('/alunos?limit=1', options);
    return [status, store.calls.map(({ args }) => args.p_api_key)];
  };

  test.each([[null], [''], ['  ']])('is missing: %j', async (key) => {
    for (const target of ['/alunos', '/alunos?p_api_key=k&api_key=k']) {
      expect(await refuse(target, { key })).toEqual([400, 'Missing X-Api-Key header']);
    }
  });

  test.each([
    ['k', 'k'],
    ["' or true --", "' or true --"],
    ['chave-\xe9', 'chave-\xe9'],
    [Buffer.from('chave-é').toString('latin1'), 'chave-é'],
    ['x'.repeat(8_000), 'x'.repeat(8_000)],
  ])('is passed to the store as it was meant: %#', async (key, expected) => {
    expect(await taken({ key })).toEqual([200, [expected]]);
  });

  test('is read from its header, in any case', async () => {
    expect(await taken({ key: null, headers: { 'x-aPI-kEY': 'k' } })).toEqual([200, ['k']]);
  });
});

test('a key with limits gets them with its answers, and a call beyond them is refused without reading the body or calling the store', async () => {
  const rateLimits = { perAddress: 9, redisUrl: undefined };
  const to = await startOwnGateway({ store, rateLimits, hasWholeStore: true });
  const limitsTo = async (options: Options, target = '/alunos') => {
    const { status, headers, text } = await ask(target, { key: 'limited', to, ...options });
    expect(headers['ratelimit-policy']).toBe('"address";q=9;w=60, "minute";q=1;w=60');
    return { status, left: headers.ratelimit?.replace(/;t=\d+/g, ''), wait: headers['retry-after'], text };
  };
  expect(await limitsTo({})).toMatchObject({ status: 200, left: '"address";r=8, "minute";r=1' });
  expect(await limitsTo({}, '/alunos?limit=0')).toMatchObject({ status: 422, left: '"address";r=7, "minute";r=0' });
  store.calls.length = 0;
  const [left, wait] = ['"address";r=6, "minute";r=0', expect.stringMatching(/^(5\d|60)$/)];
  expect(await limitsTo(post('{'))).toEqual({ status: 429, left, wait, text: '{"error":"Too many requests"}' });
  expect(store.calls).toEqual([]);
  expect((await ask('/alunos', { to })).headers['ratelimit-policy']).toBe('"address";q=9;w=60');
});

describe('a query', () => {
  test.each(['%', '%f', '%zz', '%ff', '%C3', '%ED%A0%80', '%C0%80'])(
    'is not percent-encoded UTF-8: %s',
    async (text) => {
      for (const query of [`limit=${text}`, `${text}=1`, `foo=${text}&limit=0`]) {
        expect(await refuse(`/alunos?${query}`)).toEqual([400, 'Malformed URL']);
      }
    },
  );

  const names = (count: number) => Array.from({ length: count }, (_, n) => `a${n}=`).join('&');

  test.each([
    ['limit=99999999999999999999', { limit: ['must be <= 1000'] }],
    [`offset=${'9'.repeat(400)}`, { offset: ['must be integer'] }],
    ['limit=-0&offset=%2B5', { limit: ['must be integer'], offset: ['must be integer'] }],
    ['limit=1&limit=1&offset=1&offset=2&offset=3', { limit: ['must be given once'], offset: ['must be given once'] }],
    [
      'toString=1&__proto__=1',
      JSON.parse(`{"toString":["${messages.isNoParameter.en}"],"__proto__":["${messages.isNoParameter.en}"]}`),
    ],
    [names(101), { query: ['must not have more than 100 parameters'] }],
  ])('is refused: %#', async (query, error) => {
    const answer = await refuse(`/alunos?${query}`);
    expect(JSON.stringify(answer)).toEqual(JSON.stringify([422, error, 'en']));
  });

  test('may have separators that separate nothing, and + for a blank', async () => {
    expect((await ask('/alunos?&limit=1&&offset=0&nome=na+al&')).status).toBe(200);
    expect(store.calls[0]?.args).toEqual({ p_api_key: 'k', p_limit: 1, p_offset: 0, p_nome: 'na al' });
  });
});

describe('a body', () => {
  const TEXT = JSON.stringify(STUDENT);
  const NOT_JSON = [400, 'Invalid JSON body'];
  const TOO_LARGE = [413, 'Request body too large'];
  const TOO_DEEP = 'must not be nested deeper than 64 levels';
  const NO_TEXT = 'must not contain U+0000 or an unpaired surrogate';
  const nested = (depth: number) => `${'['.repeat(depth)}${']'.repeat(depth)}`;
  const withField = (value: string) => `{"p_nome":"Ana","p_email":"ana@aurora.example","p_sexo":${value}}`;
  const fields = (count: number) =>
    JSON.stringify(Object.fromEntries(Array.from({ length: count }, (_, n) => [`f${n}`, n])));

  test.each<[what: string, body: string | Buffer, answer: unknown[]]>([
    ['no JSON', '{', NOT_JSON],
    ['empty', '', NOT_JSON],
    ['UTF-16', Buffer.from(TEXT, 'utf16le'), NOT_JSON],
    ['Latin-1', Buffer.from('{"p_nome":"Jos\xe9","p_email":"a@b.co"}', 'latin1'), NOT_JSON],
    ['a surrogate as UTF-8', Buffer.from([0x22, 0xed, 0xa0, 0x80, 0x22]), NOT_JSON],
    ['a byte more than the limit', TEXT.padEnd(100_001), TOO_LARGE],
    ['20 MB', ' '.repeat(20_000_000), TOO_LARGE],
    ['nested 40,000 deep', nested(40_000), [422, { body: ['must be object'] }, 'en']],
    ['of 101 fields', fields(101), [422, { body: ['must not have more than 100 fields'] }, 'en']],
    ['with a field nested 65 deep', withField(nested(65)), [422, { p_sexo: [TOO_DEEP] }, 'en']],
    ['with a field nested 20,000 deep', withField(nested(20_000)), [422, { p_sexo: [TOO_DEEP] }, 'en']],
    ...['"\\ud800"', '"a\\udc00b"', '"\\u0000"'].map((value): [string, string, unknown[]] => [
      `with the field ${value}`,
      withField(value),
      [422, { p_sexo: [NO_TEXT] }, 'en'],
    ]),
    [
      'with a name twice, whatever the value that it hides',
      `{"p_sexo":${nested(40_000)},"p_sexo":"x","p_nome":"\\u0000","p_nome":"Ana","p_email":"a@b.co"}`,
      [422, { p_sexo: [TOO_DEEP], p_nome: ['must be given once'] }, 'en'],
    ],
    [
      'with a name twice, in another spelling',
      '{"p_nome":"Ana","p_email":"a@b.co","p_\\u006eome":"Bia"}',
      [422, { p_nome: ['must be given once'] }, 'en'],
    ],
  ])('is refused before the key is verified: %s', async (_what, body, expected) => {
    expect(await refuse('/alunos', post(body))).toEqual(expected);
    expect(store.calls).toEqual([]);
  });

  test.each([
    ['nonsense', { 'Content-Type': 'nonsense' }, TEXT],
    ['a form', { 'Content-Type': 'application/x-www-form-urlencoded' }, TEXT],
    ['nothing', {}, TEXT],
    ['JSON, with a byte order mark', { 'Content-Type': 'application/json' }, `\uFEFF${TEXT}`],
    ['JSON, of exactly the limit', { 'Content-Type': 'application/json' }, TEXT.padEnd(100_000)],
  ])('is read as JSON, whatever its Content-Type: %s', async (_what, headers, body) => {
    expect((await ask('/alunos', post(body, { headers }))).status).toBe(201);
  });

  test('that is compressed is not decompressed', async () => {
    const bomb = gzipSync(Buffer.alloc(50_000_000, ' '));
    expect(bomb.length).toBeLessThan(100_000);
    expect(await refuse('/alunos', post(bomb, withHeader('Content-Encoding', 'gzip')))).toEqual(NOT_JSON);
  });

  test.each(['{', ' '.repeat(200_000)])('is not looked at without a key: %#', async (body) => {
    expect(await refuse('/alunos', post(body, { key: '' }))).toEqual([400, 'Missing X-Api-Key header']);
  });

  test.each(['x'.repeat(9_000_000), '\n'.repeat(4_500_000)])('with a string of 9 MB is read: %#', async (p_nome) => {
    const to = await startOwnGateway({ store, bodyLimit: 10_000_000 });
    const answer = await refuse('/alunos', post(JSON.stringify({ ...STUDENT, p_nome }), { to }));
    expect(answer).toMatchObject([422, { p_nome: expect.any(Array) }, 'en']);
  });

  test('reports every invalid field of up to 100, and 300 places of thousands with the total', async () => {
    const [, error] = await refuse('/alunos', post(fields(100)));
    expect(Object.keys(error as object)).toHaveLength(102);
    const [, many] = await refuse('/itens', post(JSON.stringify({ p_itens: Array(5_000).fill({ b: 1 }) })));
    expect(Object.keys(many as object)).toHaveLength(300);
    const body = ['has 10000 errors, of which not all are listed'];
    expect(many).toMatchObject({ 'p_itens.0.a': ['is required'], body });
  });
});

describe('the language of a 422', () => {
  const given = '"p_nome":"Ana","p_email":"ana@aurora.example"';

  test.each([
    ['{}', 'p_nome', messages.isRequired],
    [`{${given},"p_x":1}`, 'p_x', messages.isNoField],
    [`{${given},"p_sexo":"a","p_sexo":"b"}`, 'p_sexo', messages.isRepeated],
    ['[]', 'body', messages.isNoObject],
    [`{${given},"p_sexo":${'['.repeat(65)}${']'.repeat(65)}}`, 'p_sexo', messages.isTooDeep],
    [`{${given},"p_sexo":"\\u0000"}`, 'p_sexo', messages.isNoText],
    [`{${given},"p_sexo":1e400}`, 'p_sexo', messages.isOutOfRange],
    [`{${given},"p_sexo":[-0.1E-400]}`, 'p_sexo', messages.isOutOfRange],
  ])('is that of the client: %#', async (body, field, message) => {
    for (const language of ['en', 'pt-BR'] as const) {
      const error = { [field]: [message[language]] };
      expect(await refuse('/alunos', post(body, { language }))).toMatchObject([422, error, language]);
    }
  });

  test('is one for all messages of a body and a header', async () => {
    const body = '{"p_nome":" ","p_email":"ana","p_telefone":1,"p_sexo":"\\u0000","p_x":1}';
    expect(await refuse('/alunos', post(body, { language: 'pt', headers: { 'Idempotency-Key': 'a b' } }))).toEqual([
      422,
      {
        p_nome: ['Preencha este campo'],
        p_email: ['Informe um e-mail válido'],
        p_telefone: ['Informe um texto'],
        p_sexo: ['Remova os caracteres inválidos (U+0000 ou surrogate sem par)'],
        p_x: ['Este campo não existe nesta operação'],
        'Idempotency-Key': ['Use somente caracteres ASCII visíveis'],
      },
      'pt-BR',
    ]);
  });

  test.each([
    ['en', 2],
    ['pt-BR', 3],
  ] as const)('is %s for every rule of a schema', async (language, column) => {
    const body = JSON.stringify(toFields(([, value]) => value));
    const errors = toFields(
      (rule) => [rule[column]],
      ([, , , , place = '']) => place,
    );
    expect(await refuse('/regras', post(body, { language }))).toEqual([422, errors, language]);
  });

  test('is Portuguese where one of several schemas has to hold', async () => {
    const bounds = ['Informe um número maior ou igual a 5', 'Informe um número menor ou igual a 1'];
    const told = [...bounds, 'Informe um valor em uma das formas previstas'];
    const answer = await refuse('/formas', post('{"p_um":3,"p_algum":3}', { language: 'pt' }));
    expect(answer).toEqual([422, { p_um: told, p_algum: told }, 'pt-BR']);
  });

  test.each([
    ['en', 'must be smaller: these records take more than 4000000 bytes'],
    ['pt-BR', 'Informe um número menor: estes registros ocupam mais de 4000000 bytes'],
  ])('is %s for a page that would be too large', async (language, text) => {
    expect(await refuse('/alunos', { key: 'large', language })).toEqual([422, { limit: [text] }, language]);
  });

  const [english, portuguese] = ['must begin with b', 'Informe pelo menos 3 caracteres'];
  const date = 'Informe uma data que exista, como AAAA-MM-DD ou DD/MM/AAAA';

  test.each([
    ['k', '{"p_valor":"abc"}', { p_valor: [english] }, 'en'],
    ['k', '{"p_valor":"a"}', { p_valor: [portuguese, english] }, 'pt-BR, en'],
    ['raising', '{}', { p_a: [date], p_b: ['must be in the future'] }, 'pt-BR, en'],
  ])('is English for a text without a translation: %s %s', async (key, body, error, languages) => {
    expect(await refuse('/textos', post(body, { key, language: 'pt' }))).toEqual([422, error, languages]);
  });
});

describe('the links of a page', () => {
  const next = (query: string) => `<?${query}>; rel="next"`;
  const prev = (query: string) => `<?${query}>; rel="prev"`;
  const from = (n: number) => `after=${idOfStudent(n)}`;

  test.each<[target: string, link: string | undefined]>([
    ['/alunos', next(`limit=100&${from(99)}`)],
    [`/alunos?limit=100&${from(99)}`, next(`limit=100&${from(199)}`)],
    [`/alunos?limit=1000&${from(999)}`, undefined],
    [`/alunos?limit=10&${from(998)}`, undefined],
    ['/alunos?limit=400&offset=0', next('limit=400&offset=400')],
    ['/alunos?limit=400&offset=400', `${next('limit=400&offset=800')}, ${prev('limit=400&offset=0')}`],
    ['/alunos?limit=400&offset=800', prev('limit=400&offset=400')],
    ['/alunos?limit=1000&offset=1000', prev('limit=1000&offset=0')],
    ['/alunos?limit=10&offset=3', `${next('limit=10&offset=13')}, ${prev('limit=3&offset=0')}`],
    ['/alunos?limit=2&nome=%26%25+%C3%A9&ativo=true', next(`ativo=true&nome=%26%25%20%C3%A9&limit=2&${from(1)}`)],
    [
      "/alunos?nome='😀+~<b>;,%22%23%3F=/\\&limit=1",
      next(`nome='%F0%9F%98%80%20~%3Cb%3E%3B%2C%22%23%3F%3D%2F%5C&limit=1&${from(0)}`),
    ],
    // A page of no records, which a document may allow.
    ...['', '&offset=0', '&offset=5', `&${from(1)}`].map(
      (place) => [`/vazia?limit=0${place}`, undefined] as [string, undefined],
    ),
  ])('%s are %s', async (target, link) => {
    const { status, headers } = await ask(target);
    expect([status, headers.link]).toEqual([200, link]);
    expect(store.calls).toHaveLength(1);
  });

  test('have all digits of the numbers that filter the list', async () => {
    const query = 'exact=12345678901234567.89&exacts=1e-30&exacts=0.10000000000000000001&limit=2&offset=2';
    const { link } = (await ask(`/filtros?${query}`)).headers;
    expect(link).toContain(next(query.replace('offset=2', 'offset=4')));
  });

  test('have the arrays that filter the list', async () => {
    const query = 'each=a&each=b%2Cc&commas=d%2Ce,f&bars=g%7Ch&limit=2&offset=2';
    const { link = '' } = (await ask(`/filtros?${query}`)).headers;
    for (const [, reference] of link.matchAll(/<(.*?)>/g)) await ask(`/filtros${reference}`);
    const arrays = store.calls.map(({ args: { p_each, p_commas, p_bars } }) => [p_each, p_commas, p_bars]);
    expect(arrays).toEqual(
      Array(3).fill([
        ['a', 'b,c'],
        ['d,e', 'f'],
        ['g', 'h'],
      ]),
    );
  });
});

describe('a copy', () => {
  const TARGET = '/alunos?limit=3&offset=1';
  let whole: RawAnswer;
  let tag: string;

  beforeAll(async () => {
    whole = await ask(TARGET);
    tag = whole.headers.etag ?? '';
  });

  test('is private to its client, which asks each time whether it holds', () => {
    expect(whole.headers['cache-control']).toBe('private, no-cache');
  });

  /** TAG stands for the tag. The store is called all the same, and the answer says nothing else (RFC 9110, 15.4.5). */
  test.each<[what: string, condition: string, options?: Options]>([
    ['the tag', 'TAG'],
    ['its strong form, since the comparison is weak', 'STRONG'],
    ['any', '*'],
    ['it among others, with many blanks', ' "a"  ,   TAG  ,W/"b" '],
    ['it behind one with a comma', '"a,b", TAG'],
    ["the request's Cache-Control", 'TAG', withHeader('Cache-Control', 'max-age=0, no-cache')],
    ['HEAD', 'TAG', { method: 'HEAD' }],
    ['a client that takes it compressed', 'TAG', withHeader('Accept-Encoding', 'gzip')],
  ])('holds for %s', async (_what, condition, options = {}) => {
    const field = condition.replace('TAG', tag).replace('STRONG', tag.slice(2));
    const sent = { ...options, headers: { ...options.headers, 'If-None-Match': field } };
    const { status, headers, text } = await ask(TARGET, sent);
    expect([status, text, store.calls.length]).toEqual([304, '', 1]);
    for (const name of ['content-length', 'transfer-encoding', 'content-encoding', 'content-type']) {
      expect(headers).not.toHaveProperty(name);
    }
    for (const name of ['etag', 'cache-control', 'vary', 'link']) expect(headers[name], name).toBe(whole.headers[name]);
  });

  const tomorrow = new Date(Date.now() + 86_400_000).toUTCString();

  test.each<[string, () => Record<string, string>]>([
    ['another tag', () => ({ 'If-None-Match': 'W/"0000000000000000000000000000"' })],
    ['nothing', () => ({ 'If-None-Match': '' })],
    ['a weak mark in lower case', () => ({ 'If-None-Match': tag.replace('W/', 'w/') })],
    ['its quotes twice', () => ({ 'If-None-Match': tag.replaceAll('"', '""') })],
    ['any in quotes', () => ({ 'If-None-Match': '"*"' })],
    ['bytes that are no ASCII', () => ({ 'If-None-Match': '\xff\xfe' })],
    ['a date alone, which is ignored', () => ({ 'If-Modified-Since': tomorrow })],
  ])('does not hold for %s', async (_what, toHeaders) => {
    const { status, text, headers } = await ask(TARGET, { headers: toHeaders() });
    expect([status, text, headers.etag]).toEqual([200, whole.text, tag]);
  });
});

describe('compression', () => {
  const DECODERS = { br: brotliDecompressSync, gzip: gunzipSync, deflate: inflateSync };
  const accept = (encoding: string): Options => withHeader('Accept-Encoding', encoding);
  const decode = ({ headers: { 'content-encoding': encoding }, bytes }: RawAnswer) =>
    (encoding ? DECODERS[encoding as 'br'](bytes) : bytes).toString();

  // Answers that are too short to compress, those compressed at once, and those compressed in the background.
  test.each(Object.keys(DECODERS))('by %s gives the same text from a kilobyte on', async (encoding) => {
    for (const limit of [5, 7, 10, 100, 180, 185, 190, 195, 200, 500, 1_000]) {
      const [answer, plain] = [
        await ask(`/alunos?limit=${limit}`, accept(encoding)),
        await ask(`/alunos?limit=${limit}`),
      ];
      expect(plain.headers).not.toHaveProperty('content-encoding');
      expect(answer.headers['content-encoding']).toBe(plain.bytes.length < 1_024 ? undefined : encoding);
      expect(decode(answer) === plain.text).toBe(true);
      if (limit >= 500) expect(answer.bytes.length).toBeLessThan(plain.bytes.length / 10);
      for (const name of ['etag', 'link', 'vary']) expect(answer.headers[name]).toBe(plain.headers[name]);
      expect(plain.bytes.length < 1_024).toBe(limit === 5);
    }
  });

  test.each(Object.keys(DECODERS))('by %s mixes no lists that are asked for at once', async (encoding) => {
    const targets = Array.from({ length: 20 }, (_, n) => `/alunos?limit=${10 + (n % 5) * 150}&offset=${n}`);
    const [answers, plain] = await Promise.all(
      [accept(encoding), {}].map((options) => Promise.all(targets.map((target) => ask(target, options)))),
    );
    expect(answers?.map(decode)).toEqual(plain?.map(({ text }) => text));
    expect(new Set(plain?.map(({ text }) => text)).size).toBe(targets.length);
  });

  test('has no length for HEAD, which is not known without the body', async () => {
    const { headers, text } = await ask('/alunos?limit=1000', { method: 'HEAD', ...accept('gzip') });
    expect([text, headers['content-encoding'], headers['content-length']]).toEqual(['', 'gzip', undefined]);
  });

  test('is of long errors too, and not of short ones', async () => {
    const query = Array.from({ length: 60 }, (_, n) => `filtro_${n}=1`).join('&');
    const [long, short] = [await ask(`/alunos?${query}`, accept('gzip')), await ask('/alunos?limit=0', accept('gzip'))];
    expect(Object.keys(JSON.parse(decode(long)).error)).toHaveLength(60);
    expect([long, short].map(({ headers }) => headers['content-encoding'])).toEqual(['gzip', undefined]);
    for (const { headers } of [long, short])
      expect(namesIn(headers.vary)).toEqual(['accept-language', 'accept-encoding']);
  });
});

describe('a page of another origin', () => {
  const preflight = (origin: string, { url }: TestGateway) =>
    send(`${url}/alunos`, {
      method: 'OPTIONS',
      headers: {
        Origin: origin,
        'Access-Control-Request-Method': 'POST',
        'Access-Control-Request-Headers': 'content-type,idempotency-key,x-api-key,x-request-id',
      },
    });
  const askFrom = (origin: string, target: string, options: Options, to: TestGateway) =>
    ask(target, { ...options, to, headers: { ...options.headers, Origin: origin } });

  test.each([PANEL, LOCAL])(
    'of %s may use the methods and headers of the API, and asking for that is no call of the store',
    async (origin) => {
      const { status, headers } = await preflight(origin, forPages);
      expect([status, store.calls]).toEqual([204, []]);
      const { 'access-control-allow-headers': names, 'access-control-allow-methods': methods } = headers;
      expect(namesIn(names)).toEqual(['content-type', 'idempotency-key', 'x-api-key', 'x-request-id']);
      expect(namesIn(methods)).toEqual(expect.arrayContaining(['get', 'post']));
      expect(headers).toMatchObject({ 'access-control-allow-origin': origin, 'access-control-max-age': '600' });
      expect(headers).toMatchObject({ 'x-content-type-options': 'nosniff', 'x-request-id': expect.any(String) });
      expect(namesIn(headers.vary)).toEqual(['origin', 'access-control-request-headers']);
      expect(headers).not.toHaveProperty('content-length');
    },
  );

  test.each([{ Origin: PANEL }, { 'Access-Control-Request-Method': 'POST' }, {}])(
    'gets for an OPTIONS that is no preflight, with %j, the answer to an unknown method',
    async (headers) => {
      const answers = ['/alunos', '/nada'].map((target) => ask(target, { method: 'OPTIONS', headers, to: forPages }));
      const allowed = 'Origin' in headers ? { 'access-control-allow-origin': PANEL } : {};
      expect(await Promise.all(answers)).toMatchObject([
        { status: 405, text: '{"error":"Method not allowed"}', headers: { allow: 'GET, HEAD, POST', ...allowed } },
        { status: 404, text: '{"error":"Not found"}', headers: allowed },
      ]);
    },
  );

  test('may read the 400 of a request with an invalid Host', async () => {
    const answer = await askFrom(PANEL, '/alunos', { headers: { Host: 'um dois' } }, forPages);
    expect([answer.status, answer.headers['access-control-allow-origin']]).toEqual([400, PANEL]);
  });

  test.each(['null', 'http://painel.example', 'https://painel.example.outro.example'])(
    'of %j may read nothing',
    async (origin) => {
      for (const answer of [await preflight(origin, forPages), await askFrom(origin, '/alunos', {}, forPages)]) {
        expect(answer.headers).not.toHaveProperty('access-control-allow-origin');
        // Or a cache would give the one origin's answer to another.
        expect(namesIn(answer.headers.vary)).toContain('origin');
      }
      expect((await preflight(origin, forAll)).headers['access-control-allow-origin']).toBe('*');
    },
  );
});
