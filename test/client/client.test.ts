import { mkdtempSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { inspect } from 'node:util';
import { delay, HttpResponse, http } from 'msw';
import { setupServer } from 'msw/node';
import { afterAll, afterEach, beforeAll, describe, expect, expectTypeOf, inject, test } from 'vitest';
import { buildClient } from '../../client/build.ts';
import {
  ClientError,
  type ClientOptions,
  type components,
  createClient,
  type Failure,
  type Item,
  type ListPath,
} from '../../client/src/client.ts';
import { storeFault } from '../../src/errors.ts';
import { KEYS, STUDENT } from '../helpers/api.ts';
import { canTestInBrowser, runPage } from '../helpers/browser.ts';
import { startOwnGateway } from '../helpers/gateway.ts';
import { findPort } from '../helpers/servers.ts';
import { createStubStore } from '../helpers/stub-store.ts';
import { waitFor } from '../helpers/wait-for.ts';

const ID = expect.stringMatching(/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/);

type Aluno = components['schemas']['Aluno'];

const FAILING_URL = 'http://gateway.example/v1';
/** Answers with failures that a gateway does not produce on demand. Requests to any other host are real. */
const server = setupServer();
/** The URL ends in a slash, which is allowed. */
const client = createClient({ baseUrl: `${inject('url')}/`, apiKey: KEYS.aurora });
const failing = createClient({ baseUrl: FAILING_URL, apiKey: KEYS.aurora, retry: 0 });
// Started after the clients are created, as in beforeAll: they use the fetch that is there at the time of the call.
server.listen({ onUnhandledFrame: 'bypass' });
/** Answers the lists of students at FAILING_URL one after the other. */
const answerStudents = (...answers: Response[]) =>
  server.use(...answers.map((answer) => http.get(`${FAILING_URL}/alunos`, () => answer, { once: true })));

afterEach(() => server.resetHandlers());
afterAll(() => server.close());

/** A client that records its requests. `change` alters each answer, as a proxy would. */
function recordingClient(change = (response: Response) => response) {
  const targets: string[] = [];
  const fetch = async (request: Request) => {
    targets.push(new URL(request.url).search);
    return change(await globalThis.fetch(request));
  };
  return { targets, client: createClient({ baseUrl: inject('url'), apiKey: KEYS.aurora, fetch }) };
}

async function allStudents(): Promise<Aluno[]> {
  const result = await client.GET('/alunos', { query: { limit: 1000 } });
  if (!result.ok) throw new ClientError(result);
  return result.data;
}

describe('a list', () => {
  test('is read to its end', async () => {
    const { client, targets } = recordingClient();
    expect(await Array.fromAsync(client.all('/alunos'))).toEqual(await allStudents());
    expect(targets).toEqual([
      '?limit=100',
      '?limit=100&after=a3000000-0000-4000-8000-000000000100',
      '?limit=100&after=a3000000-0000-4000-8000-000000000200',
    ]);
  });

  test('is read only as far as needed', async () => {
    const { client, targets } = recordingClient();
    await expect(client.all('/alunos', { pageSize: Number.NaN }).next()).rejects.toThrow(RangeError);
    // Environment variables are strings.
    for await (const { id } of client.all('/alunos', { pageSize: '10' as never })) {
      if (id.endsWith('15')) break;
    }
    expect(targets).toEqual(['?limit=10', '?limit=10&after=a3000000-0000-4000-8000-000000000010']);
  });

  const [hundredth, last] = ['a3000000-0000-4000-8000-000000000100', 'a3000000-0000-4000-8000-000000000200'];
  test.each<[how: string, query: object, from: number, asked: string[]]>([
    ['offset', {}, 0, ['?limit=100', '?limit=100&offset=100', '?limit=100&offset=200']],
    [
      'its items, from an item on',
      { after: hundredth },
      100,
      [`?after=${hundredth}&limit=100`, `?after=${last}&limit=100`],
    ],
  ])('is read by %s where no Link comes', async (_how, query, from, asked) => {
    const { client, targets } = recordingClient(({ body, status }) => new Response(body, { status }));
    expect(await Array.fromAsync(client.all('/alunos', { query }))).toEqual((await allStudents()).slice(from));
    expect(targets).toEqual(asked);
  });

  test.each([null, {}])('is a failure where the gateway answers with %j', async (data) => {
    server.use(http.get(`${FAILING_URL}/alunos`, () => HttpResponse.json(data, { headers: { 'X-Request-Id': 'x' } })));
    const message = 'The body is not a list';
    expect(await Array.fromAsync(failing.pages('/alunos'))).toEqual([
      { ok: false, requestId: 'x', kind: 'unexpectedAnswer', status: 200, message },
    ]);
    const error = `200: ${message} (request x)`;
    await expect(Array.fromAsync(failing.all('/alunos'))).rejects.toThrow(error);
    await expect(Array.fromAsync(failing.follow('/alunos'))).rejects.toThrow(error);
    await expect(failing.follow('/alunos', { intervalMs: Number('5s') }).next()).rejects.toThrow(RangeError);
  });
});

describe('a list that is followed', () => {
  test('gives what is there after an item, and what comes later, until it is aborted', async () => {
    const controller = new AbortController();
    const apiKey = KEYS.bosque;
    const own = createClient({ baseUrl: inject('url'), apiKey });
    const [first] = await Array.fromAsync(own.all('/alteracoes', { query: { recurso: 'academias' } }));
    const options = { query: { after: first?.id ?? '' }, pageSize: 3, intervalMs: 20, signal: controller.signal };
    const seen: string[] = [];
    for await (const page of own.follow('/alteracoes', options)) {
      seen.push(...page.map(({ id }) => id));
      const result = await own.GET('/alteracoes', { query: { after: seen.at(-1) ?? '' } });
      if (result.ok && result.data.length === 0) controller.abort();
    }
    const all = (await Array.fromAsync(own.all('/alteracoes'))).map(({ id }) => id);
    expect(seen).toEqual(all.slice(1, seen.length + 1));
    expect(seen.length).toBeGreaterThan(3);
  });

  test('goes on after a failure that may pass, and throws any other', async () => {
    answerStudents(
      HttpResponse.json([STUDENT]),
      HttpResponse.json({ error: 'Data store unavailable' }, { status: 502 }),
      HttpResponse.json([STUDENT]),
      HttpResponse.json({ error: { after: ['must be new'] } }, { status: 422 }),
    );
    const seen: unknown[] = [];
    const follow = async () => {
      for await (const page of failing.follow('/alunos', { intervalMs: 1 })) seen.push(...page);
    };
    await expect(follow()).rejects.toThrow('422: after must be new');
    expect(seen).toEqual([STUDENT, STUDENT]);
  });

  test('waits as long as the answer says, also if that is longer than a timer can wait', async () => {
    const controller = new AbortController();
    let calls = 0;
    const refuse = () => {
      calls += 1;
      setTimeout(() => controller.abort(), 500);
      const headers = { 'Retry-After': '2592000' };
      return HttpResponse.json({ error: 'Too many requests' }, { status: 429, headers });
    };
    server.use(http.get(`${FAILING_URL}/alunos`, refuse));
    const { signal } = controller;
    expect(await Array.fromAsync(failing.follow('/alunos', { intervalMs: 1, signal }))).toEqual([]);
    expect(calls).toBe(1);
  });
});

test.each([
  ['a key that is not set', { apiKey: undefined as unknown as string }, 'apiKey is undefined'],
  [
    'a URL without its scheme',
    { baseUrl: '127.0.0.1:3000/v1' },
    'baseUrl 127.0.0.1:3000/v1 must begin with https:// or http://',
  ],
])('%s is refused at once', (_what, options, message) => {
  expect(() => createClient({ baseUrl: 'http://127.0.0.1', apiKey: 'key', ...options })).toThrow(message);
});

describe('a failure', () => {
  const headers = { 'X-Request-Id': 'r1', 'Retry-After': '60' };
  const html = (status: number, after?: string) =>
    new HttpResponse('<html>', { status, headers: after ? { 'Retry-After': after } : {} });

  test.each<[Response, object, string]>([
    ...(
      [
        [400, 'badRequest', 'Missing X-Api-Key header'],
        [401, 'refusedKey', 'API Key expirada'],
        [403, 'refused', 'O aluno é de outra academia'],
        [404, 'refused', 'Aluno não encontrado'],
        [409, 'refused', 'O aluno tem treinos'],
        [410, 'refused', 'O aluno foi apagado'],
        [429, 'tooManyRequests', 'Too many requests'],
        [502, 'storeFailure', 'Data store timeout'],
      ] as const
    ).map(([status, kind, message]): [Response, object, string] => [
      HttpResponse.json({ error: message }, { status, headers }),
      {
        kind,
        status,
        message,
        requestId: 'r1',
        ...(status === 429 || status === 502 ? { retryAfterSeconds: 60 } : {}),
      },
      `${status}: ${message} (request r1)`,
    ]),
    [
      HttpResponse.json({ error: { p_nome: ['must not be blank'], p_email: ['is required'] } }, { status: 422 }),
      { kind: 'invalidInput', status: 422, fields: { p_nome: ['must not be blank'], p_email: ['is required'] } },
      '422: p_nome must not be blank; p_email is required',
    ],
    [
      html(503, '6.5'),
      { kind: 'unexpectedAnswer', status: 503, message: 'HTTP 503', retryAfterSeconds: 7 },
      '503: HTTP 503',
    ],
    [
      html(422, 'Fri, 31 Dec 1999 23:59:59 GMT'),
      { kind: 'unexpectedAnswer', status: 422, message: 'HTTP 422', retryAfterSeconds: 0 },
      '422: HTTP 422',
    ],
    [html(404, 'soon'), { kind: 'unexpectedAnswer', status: 404, message: 'HTTP 404' }, '404: HTTP 404'],
    [
      html(200),
      { kind: 'unexpectedAnswer', status: 200, message: 'The body is not JSON' },
      '200: The body is not JSON',
    ],
  ])('says what the gateway answered: %#', async (answer, expected, message) => {
    answerStudents(answer);
    const failure = await failing.GET('/alunos');
    expect(failure).toEqual({ ok: false, ...expected });
    expect(new ClientError(failure as Failure).message).toBe(message);
  });

  test('has the id of its request, as the log of the gateway has it', async () => {
    const told: string[] = [];
    const store = createStubStore(() => storeFault('storeTimeout', 'late'));
    const gateway = await startOwnGateway({ store, onEnd: ({ id }) => told.push(id) });
    const { all } = createClient({ baseUrl: gateway.url, apiKey: KEYS.aurora, retry: 0 });
    const error: ClientError = await Array.fromAsync(all('/alunos')).catch((error) => error);
    expect(error.message).toBe(`502: Data store timeout (request ${error.failure.requestId})`);
    await waitFor(() => expect(told).toEqual([error.failure.requestId]));
  });

  test('says that the gateway is unreachable if nothing listens', async () => {
    const port = await findPort();
    const { GET } = createClient({ baseUrl: `http://127.0.0.1:${port}/v1`, apiKey: KEYS.aurora, retry: 0 });
    const result = await GET('/alunos');
    const message = `connect ECONNREFUSED 127.0.0.1:${port}`;
    expect(result).toEqual({ ok: false, kind: 'unreachable', message, cause: expect.any(TypeError) });
    expect(new ClientError(result as Failure).message).toBe(`The gateway gave no answer: ${message}`);
  });

  test('names every address where a name has several', async () => {
    const errors = [new Error('connect ECONNREFUSED ::1:3000'), new Error('connect ECONNREFUSED 127.0.0.1:3000')];
    const fetch = async () => Promise.reject(new TypeError('fetch failed', { cause: new AggregateError(errors) }));
    const result = await createClient({ baseUrl: FAILING_URL, apiKey: KEYS.aurora, retry: 0, fetch }).GET('/alunos');
    const message = 'connect ECONNREFUSED ::1:3000; connect ECONNREFUSED 127.0.0.1:3000';
    expect(result).toMatchObject({ kind: 'unreachable', message });
  });

  test('says that the call was aborted', async () => {
    const reason = new Error('no longer wanted');
    const result = await client.GET('/alunos', { signal: AbortSignal.abort(reason) });
    expect(result).toEqual({ ok: false, kind: 'unreachable', message: reason.message, cause: reason });
  });

  test('is a redirection, which does not take the key along', async () => {
    const asked: string[] = [];
    server.use(
      http.get(`${FAILING_URL}/*`, ({ request }) => {
        asked.push(new URL(request.url).pathname);
        return new HttpResponse(null, { status: 307, headers: { Location: '/elsewhere' } });
      }),
    );
    const failure = { ok: false, kind: 'unexpectedAnswer', status: 307, message: 'HTTP 307' };
    expect(await createClient({ baseUrl: FAILING_URL, apiKey: KEYS.aurora }).GET('/alunos')).toEqual(failure);
    expect(asked).toEqual(['/v1/alunos']);
  });
});

describe('a retry', () => {
  /** A client whose calls get these answers in turn, and the requests that it has sent. */
  function answering(answers: (() => Response)[], options: Partial<ClientOptions> = {}) {
    const sent: Promise<string>[] = [];
    const fetch = async (request: Request) => {
      sent.push(request.text().then((body) => `${request.method} ${request.headers.get('Idempotency-Key')} ${body}`));
      return (answers[sent.length - 1] ?? HttpResponse.error)();
    };
    return { client: createClient({ baseUrl: FAILING_URL, apiKey: KEYS.aurora, fetch, ...options }), sent };
  }
  const temporary = (status: number, retryAfter?: number) => () =>
    new HttpResponse(null, { status, headers: retryAfter === undefined ? {} : { 'Retry-After': `${retryAfter}` } });
  const students = () => HttpResponse.json([]);
  const unreachable = () => {
    throw new TypeError('fetch failed', { cause: new Error('connect ECONNREFUSED 127.0.0.1:3000') });
  };
  const cutOff = () =>
    new HttpResponse(new ReadableStream({ start: (controller) => controller.error(new Error('terminated')) }));

  test.each([
    ['a 429', temporary(429, 0)],
    ['a 502', temporary(502)],
    ['a 503', temporary(503)],
    ['a 504', temporary(504)],
    ['no answer', unreachable],
    ['an answer that is cut off', cutOff],
  ])('of a read follows %s', async (_what, failed) => {
    const { client, sent } = answering([failed, students]);
    expect(await client.GET('/alunos')).toEqual({ ok: true, data: [] });
    expect(sent).toHaveLength(2);
  });

  test('of a creation has the same key and body', async () => {
    const { client, sent } = answering([unreachable, temporary(502, 0), () => HttpResponse.json({}, { status: 201 })]);
    const header = { 'Idempotency-Key': 'once' };
    expect(await client.POST('/alunos', { body: STUDENT, header })).toEqual({ ok: true, data: {} });
    expect(await Promise.all(sent)).toEqual(Array(3).fill(`POST once ${JSON.stringify(STUDENT)}`));
  });

  test('of a creation without a key is not made: it may have succeeded', async () => {
    const { client, sent } = answering([temporary(502, 0), students]);
    expect(await client.POST('/alunos', { body: STUDENT })).toMatchObject({ kind: 'storeFailure' });
    expect(sent).toHaveLength(1);
  });

  test.each([400, 401, 404, 500])('of a read that gets a %i is not made', async (status) => {
    const { client, sent } = answering([temporary(status, 0), students]);
    expect(await client.GET('/alunos')).toMatchObject({ ok: false, status });
    expect(sent).toHaveLength(1);
  });

  test('of a request that cannot be sent is not made', async () => {
    const { client, sent } = answering([students]);
    const body = { ...STUDENT, p_telefone: 1n as unknown as string };
    const header = { 'Idempotency-Key': 'once' };
    expect(await client.POST('/alunos', { body, header })).toMatchObject({ kind: 'unreachable' });
    expect(sent).toEqual([]);
  });

  test.each([
    [undefined, 3],
    [0, 1],
    [1, 2],
  ])('happens at most `retry` times: %s', async (retry, calls) => {
    const failed = Array(calls + 1).fill(temporary(502, 0));
    const { client, sent } = answering(failed, { timeout: '9000' as never, ...(retry === undefined ? {} : { retry }) });
    expect(await client.GET('/alunos')).toMatchObject({ kind: 'storeFailure', retryAfterSeconds: 0 });
    expect(sent).toHaveLength(calls);
  });

  test('waits as long as Retry-After says', async () => {
    const { client } = answering([temporary(429, 1), students]);
    const start = performance.now();
    expect(await client.GET('/alunos')).toEqual({ ok: true, data: [] });
    // A timer may be a millisecond early.
    expect(performance.now() - start).toBeGreaterThan(990);
  });

  test('is not made if Retry-After is beyond the timeout', async () => {
    const { client, sent } = answering([temporary(429, 60), students]);
    expect(await client.GET('/alunos')).toMatchObject({ kind: 'tooManyRequests', retryAfterSeconds: 60 });
    expect(sent).toHaveLength(1);
  });

  test('is not made after the call was aborted', async () => {
    const controller = new AbortController();
    const reason = new Error('no longer wanted');
    const answer = () => {
      setImmediate(() => controller.abort(reason));
      return temporary(502, 20)();
    };
    const { client } = answering([answer]);
    const result = await client.GET('/alunos', { signal: controller.signal });
    expect(result).toEqual({ ok: false, kind: 'unreachable', message: reason.message, cause: reason });
  });
});

describe('an option', () => {
  test('sets the language of the messages', async () => {
    const { POST } = createClient({ baseUrl: inject('url'), apiKey: KEYS.aurora, language: 'pt-BR' });
    const result = await POST('/alunos', { body: { p_nome: ' ', p_email: 'ana@aurora.example' } });
    const fields = { p_nome: ['Preencha este campo'] };
    expect(result).toEqual({ ok: false, requestId: ID, kind: 'invalidInput', status: 422, fields });
  });

  test('sets the timeout of a call', async () => {
    server.use(http.get(`${FAILING_URL}/alunos`, () => delay('infinite')));
    const { GET } = createClient({ baseUrl: FAILING_URL, apiKey: KEYS.aurora, timeout: 50 });
    const result = await GET('/alunos');
    const message = 'no answer within 50 ms';
    expect(result).toEqual({ ok: false, kind: 'unreachable', message, cause: expect.any(DOMException) });
    expect(result).toMatchObject({ cause: { name: 'TimeoutError' } });
  });

  test.each([{ timeout: 0 }, { timeout: Number.POSITIVE_INFINITY }, { timeout: Number.NaN }, { retry: -1 }])(
    'is refused if its value is invalid: %j',
    (option) => {
      expect(() => createClient({ baseUrl: FAILING_URL, apiKey: 'key', ...option })).toThrow(RangeError);
    },
  );
});

test('no error contains the key', async () => {
  const key = 'wms_demo_segredo';
  const urls = [inject('url'), `${inject('url')}/v0`, `http://127.0.0.1:${await findPort()}/v1`, 'http://[', 'ftp://x'];
  for (const baseUrl of urls) {
    const client = createClient({ baseUrl, apiKey: key, retry: 0 });
    const result = await client.GET('/alunos', { query: { limit: 3 } });
    const error = await Array.fromAsync(client.all('/alunos')).catch((error) => error);
    expect(error).toBeInstanceOf(ClientError);
    for (const thing of [result, error]) {
      expect(inspect(thing, { depth: null, showHidden: true })).not.toContain(key);
      expect(`${JSON.stringify(thing)} ${error.stack}`).not.toContain(key);
    }
  }
});

test('a key that no header can carry is refused without being shown', () => {
  const create = () => createClient({ baseUrl: inject('url'), apiKey: 'wms_segredo\nwms_segredo' });
  expect(create).toThrow(new TypeError('apiKey has characters that a header cannot have'));
});

describe('the built module', () => {
  const folder = mkdtempSync(join(tmpdir(), 'client-'));
  let module: string;

  beforeAll(async () => {
    await buildClient(folder);
    module = readFileSync(join(folder, 'client.js'), 'utf8');
  });

  test('imports nothing, and has the licenses of what it contains', () => {
    expect(module).not.toMatch(/^import\b|\bimport\(/m);
    expect(readFileSync(join(folder, 'client.licenses.txt'), 'utf8')).toMatch(/^openapi-fetch\n\nMIT License/);
  });

  test.skipIf(!canTestInBrowser())('runs in a plain page, also that of the README', async () => {
    const store = createStubStore(({ function: name }) =>
      name === 'listar_treinos' ? storeFault('storeTimeout', 'late') : { json: '[{"nome":"Ana"}]', count: 1 },
    );
    const gateway = await startOwnGateway({ store, corsOrigins: ['*'] });
    const page = `
      import { ClientError, createClient } from './client.js';
      const options = { apiKey: 'key', language: 'pt-BR' };
      const client = createClient({ ...options, baseUrl: '${gateway.url}' });
      const list = await client.GET('/alunos', { query: { limit: 5 } });
      const invalid = await client.POST('/alunos', { body: { p_nome: ' ', p_email: 'ana@aurora.example' } });
      const failed = await client.GET('/treinos');
      const unreachable = await createClient({ ...options, baseUrl: 'http://127.0.0.1:1/v1', retry: 0 }).GET('/alunos');
      await import('./readme.js');
      globalThis.results = [list, invalid, failed, new ClientError(unreachable).message, document.body.textContent];
    `;
    const [, example = ''] =
      /<script type="module">(.*?)<\/script>/s.exec(readFileSync('client/README.md', 'utf8')) ?? [];
    const readme = example.replace('https://gateway.example/v1', gateway.url).replace("prompt('Key')", "'key'");
    const results = await runPage({ '/page.js': page, '/readme.js': readme, '/client.js': module });
    expect(results).toEqual([
      { ok: true, data: [{ nome: 'Ana' }] },
      {
        ok: false,
        requestId: ID,
        kind: 'invalidInput',
        status: 422,
        fields: { p_nome: ['Preencha este campo'] },
      },
      { ok: false, requestId: ID, kind: 'storeFailure', status: 502, message: 'Data store timeout' },
      'The gateway gave no answer: Failed to fetch',
      'Ana',
    ]);
  });
});

/** The types of a document with a path that gives an array without pages, and one that gives pages but no array. */
type Other = {
  '/days': { get: Operation<{ query?: never }, string[]> };
  '/report': { get: Operation<{ query?: { limit?: number; offset?: number } }, { total: number }> };
  '/classes/{id}/seats': {
    get: Operation<{ query: { day: string; limit?: number; offset?: number }; path: { id: string } }, number[]>;
  };
};
type Operation<Parameters, T> = {
  parameters: Parameters;
  responses: { 200: { content: { 'application/json': T } }; default: { content: { 'application/json': Error } } };
};
type Empty = { '/a': { delete: { parameters: { query?: never }; responses: { 204: { content?: never } } } } };
type Content<T> = { content: { 'application/json': T } };
type Card = { id: { readonly $read: string }; pin: { readonly $write: string }; name: string };
type Cards = { '/cards': { post: Operation<{ query?: never }, Card> & { requestBody: Content<Card> } } };

// Nothing is asserted at run time: tsc checks these types, and that each misuse is an error.
test('the types compile', () => {
  expectTypeOf<Item<'/alunos'>>().toEqualTypeOf<Aluno>();
  expectTypeOf(client.all('/treinos')).toEqualTypeOf<AsyncGenerator<components['schemas']['Treino'], void>>();
  const list = () => client.GET('/alunos');
  expectTypeOf(list).returns.resolves.toEqualTypeOf<{ readonly ok: true; readonly data: Aluno[] } | Failure>();
  expectTypeOf(client.POST<'/alunos'>)
    .parameter(1)
    .toHaveProperty('body');
  expectTypeOf<Extract<Failure, { status: 422 }>['fields']>().toEqualTypeOf<
    Readonly<Record<string, readonly string[]>>
  >();

  // An answer without content has no data.
  const empty = createClient<Empty>({ baseUrl: 'http://gateway.example', apiKey: 'key' });
  expectTypeOf<Awaited<ReturnType<typeof empty.DELETE<'/a'>>>>().toEqualTypeOf<
    { readonly ok: true; readonly data: undefined } | Failure
  >();

  // Read-only properties are not sent, and write-only properties are not given.
  const cards = createClient<Cards>({ baseUrl: 'http://gateway.example', apiKey: 'key' });
  const create = () => cards.POST('/cards', { body: { pin: '1', name: 'Ana' } });
  expectTypeOf(create).returns.resolves.toEqualTypeOf<
    { readonly ok: true; readonly data: { id: string; name: string } } | Failure
  >();

  // Lists in pages differ from other paths.
  expectTypeOf<ListPath<Other>>().toEqualTypeOf<'/classes/{id}/seats'>();
  expectTypeOf<Item<'/classes/{id}/seats', Other>>().toEqualTypeOf<number>();
  const other = createClient<Other>({ baseUrl: 'http://gateway.example', apiKey: 'key' });

  const misuses = () => {
    // @ts-expect-error the id is only read
    cards.POST('/cards', { body: { id: '1', pin: '1', name: 'Ana' } });
    // @ts-expect-error no such path
    client.GET('/no-such-path');
    // @ts-expect-error no such method
    client.DELETE('/alunos');
    // @ts-expect-error no such filter
    client.GET('/alunos', { query: { apelido: 'Aninha' } });
    // @ts-expect-error a word, not a boolean
    client.all('/alunos', { query: { ativo: true } });
    // @ts-expect-error the pages have their own limit and offset
    client.all('/alunos', { query: { limit: 5 } });
    // @ts-expect-error no body
    client.POST('/alunos');
    // @ts-expect-error a required field is missing
    client.POST('/alunos', { body: { p_nome: 'Ana' } });
    // @ts-expect-error the key travels in the header alone
    client.POST('/alunos', { body: { ...STUDENT, p_api_key: 'key' } });
    // @ts-expect-error no list
    other.all('/days');
    // @ts-expect-error no list
    other.pages('/report');
    // @ts-expect-error a required parameter is missing
    other.all('/classes/{id}/seats');
    other.all('/classes/{id}/seats', { path: { id: '1' }, query: { day: '2024-05-02' } });
  };
  expectTypeOf(misuses).toBeFunction();
});
