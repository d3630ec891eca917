import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { getResponse } from 'msw';
import { setupServer } from 'msw/node';
import { rolldown } from 'rolldown';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { buildMsw } from '../../client/build.ts';
import { writeMockDocument } from '../../client/mock-document.ts';
import { createClient } from '../../client/src/client.ts';
import type { Handlers } from '../../client/src/msw.ts';
import { readContract } from '../../scripts/conformance/contract.ts';
import { type Assignment, toValidRequest } from '../../scripts/conformance/request.ts';
import { createValid, createViolations } from '../../scripts/conformance/values.ts';
import { type Example, readExamples } from '../../src/openapi/examples.ts';
import { document, documentOf, lists, operations, STUDENT } from '../helpers/api.ts';
import { canTestInBrowser, runPage } from '../helpers/browser.ts';
import { startGateway, type TestGateway } from '../helpers/gateway.ts';
import { createStubStore } from '../helpers/stub-store.ts';

const BASE_URL = 'https://gateway.example/v1';
const KEY = 'key-of-a-test';

/** The packed module. It is built within node_modules, where it finds msw. */
const folder = mkdtempSync(resolve('node_modules/.msw-'));
await buildMsw(folder);
const { createHandlers }: typeof import('../../client/src/msw.ts') = await import(join(folder, 'msw.js'));
const handlers = createHandlers({ baseUrl: BASE_URL });
const server = setupServer(...handlers);
server.listen({ onUnhandledFrame: 'bypass' });
const client = createClient({ baseUrl: BASE_URL, apiKey: KEY });

const examples = readExamples(document);
const findExample = (id: string, name: string) =>
  examples.find((example) => example.operationId === id && example.name === name);

/** A gateway whose store accepts every call: only validation refuses. */
let gateway: TestGateway;

beforeAll(async () => {
  const store = createStubStore(({ returns }) =>
    returns === 'row' ? { json: '{}', count: 1 } : { json: '[]', count: 0 },
  );
  gateway = await startGateway({ store });
});

afterEach(() => server.resetHandlers());
afterAll(async () => {
  server.close();
  rmSync(folder, { recursive: true });
  await gateway.close();
});

test.each([
  ['no content', { '204': { description: 'x' } }, '{"status":204,"headers":{}}'],
  [
    'an example that no request leads to',
    { '200': { description: 'x', content: { 'application/json': { schema: { type: 'string' }, example: 'a' } } } },
    '{"status":200,"headers":{},"value":"a"}',
  ],
])('an operation answers with %s', async (_what, responses, answer) => {
  const parameters = [{ name: 'id', in: 'path', required: true, schema: { type: 'string' } }];
  const text = await writeMockDocument(documentOf({ parameters, responses }, '/um/{id}', 'delete'));
  expect(text).toContain(`"answers":[${answer}]`);
});

type Sent = {
  readonly target: string;
  readonly method?: string;
  readonly headers?: object;
  readonly body?: string | Uint8Array;
};

const toRequestOf = (url: string, { target, method = 'GET', headers = {}, body }: Sent) =>
  new Request(url + target, {
    ...{ method, headers: { 'X-Api-Key': KEY, ...headers } },
    ...(body === undefined ? {} : { body }),
  } as RequestInit);

async function send(url: string, sent: Sent) {
  return read(await fetch(toRequestOf(url, sent)));
}

async function read(response: Response) {
  const text = await response.text();
  const names = ['Content-Type', 'Content-Language', 'Allow'];
  return {
    status: response.status,
    headers: response.headers,
    told: names.map((name) => response.headers.get(name)),
    body: text === '' ? undefined : JSON.parse(text),
  };
}

/** Compares the handlers' answer with the gateway's; returns the status. */
async function compare(request: Sent): Promise<number> {
  const response = await getResponse([...handlers], toRequestOf(BASE_URL, request));
  const [expected, found] = [await send(gateway.url, request), await read(response as Response)];
  const describe_ = ({ status, told, body }: typeof expected) => ({
    request,
    status,
    ...(status < 400 ? {} : { told, body }),
  });
  expect(describe_(found)).toEqual(describe_(expected));
  return found.status;
}

describe('a request', () => {
  // The gateway gets its requests over HTTP, which takes longer below msw's interception.
  beforeAll(() => server.close());
  afterAll(() => server.listen({ onUnhandledFrame: 'bypass' }));

  test('is validated as the gateway validates it, whatever its inputs', async () => {
    const statuses: number[] = [];
    const compared = new Set<string>();
    for (const operation of (await readContract(document)).operations) {
      const compareWith = async (assignments: readonly Assignment[], headers = {}) => {
        const { headers: own, ...request } = toValidRequest(operation, assignments);
        statuses.push(await compare({ ...request, headers: { ...own, ...headers } }));
      };
      for (const input of operation.inputs) {
        // Lists share some of their inputs.
        const key = JSON.stringify([operation.method, input.in, input.name, input.schema]);
        if (compared.has(key)) continue;
        compared.add(key);
        const values = [createValid(input), ...createViolations(input)].flatMap(({ edges }) => edges);
        for (const value of values) await compareWith([{ input, value }]);
        await compareWith([{ input, value: values.at(-1) ?? '' }], { 'Accept-Language': 'pt-BR' });
        await compareWith([{ input: { name: `${input.name}_`, in: input.in }, value: '1' }]);
      }
      await compareWith([], { 'X-Api-Key': '' });
      await compareWith(
        operation.inputs.map((input) => ({ input, value: 'é' })),
        { 'Accept-Language': 'en, pt;q=0.9' },
      );
    }
    for (const status of [200, 201, 400, 422]) expect(statuses.filter((one) => one === status)).not.toEqual([]);
  });

  const post = (body: string | Uint8Array): Sent => ({ target: '/alunos', method: 'POST', body });
  // The work of the handlers themselves. Everything else is the gateway's code.
  test.each<Sent>([
    { target: '' },
    { target: '/' },
    { target: '/nada' },
    { target: '//alunos' },
    { target: '/%61lunos' },
    { target: '/%ff' },
    { target: '/alunos', method: 'DELETE' },
    { target: '/alunos', method: 'HEAD' },
    { target: '/alunos??limit=1' },
    { ...post(JSON.stringify(STUDENT)), headers: { 'Idempotency-Key': 'é' } },
    post(''),
    post(new Uint8Array([0x22, 0xff, 0x22])),
  ])('is answered as by the gateway: %j', async (request) => {
    await compare(request);
  });
});

describe('a request through msw', () => {
  const isStateless = ({ store, rateLimit, connection, after, status }: Example) =>
    store !== 'unavailable' && !rateLimit && !connection && !after && status !== 413 && status !== 431;

  test.each(examples.filter(isStateless))('gets its example: $operationId $status $name', async (example) => {
    const { target, ...request } = example.request;
    const headers = { 'X-Api-Key': '', ...request.headers };
    const { status, body } = await send(BASE_URL, { ...request, target, headers });
    expect({ status, body }).toEqual({ status: example.status, body: example.value || undefined });
  });

  test('without an example of its own gets the first one', async () => {
    expect(await client.POST('/alunos', { body: STUDENT })).toEqual({
      ok: true,
      data: findExample('criarAluno', 'created')?.value,
    });
    const found = await client.GET('/alunos', { query: { nome: 'ninguém' } });
    expect(found).toEqual({ ok: true, data: findExample('listarAlunos', 'firstPage')?.value });
  });

  test('has the id that the client gave it, or a new one', async () => {
    const headers = { 'X-Request-Id': 'mine' };
    expect((await send(BASE_URL, { target: '/alunos', headers })).headers.get('X-Request-Id')).toBe('mine');
    expect((await send(BASE_URL, { target: '/alunos' })).headers.get('X-Request-Id')).toMatch(/^[0-9a-f-]{36}$/);
  });

  test('gets no ETag, which would be the same for every list', async () => {
    const { status, headers } = await send(BASE_URL, { target: '/alunos' });
    expect([status, headers.get('ETag')]).toEqual([200, null]);
  });

  test('gets the headers that the document declares for a refusal', async () => {
    const { status, headers } = await send(BASE_URL, { target: '/alunos?limit=0' });
    expect([status, headers.get('RateLimit')]).toEqual([422, expect.stringMatching(/^"address";r=/)]);
  });

  test.each(['https://gateway.example/v10/alunos', 'https://gateway.example/', 'https://other.example/v1/alunos'])(
    'to another server is left alone: %s',
    async (url) => {
      expect(await getResponse([...handlers], new Request(url))).toBeUndefined();
    },
  );
});

describe('a list', () => {
  test.each([1, 2, 3, 100])('ends, in pages of %i', async (pageSize) => {
    for (const { path, method } of lists) {
      const pages = await Array.fromAsync(client.pages(path as '/alunos', { pageSize }));
      expect(
        pages.map(({ ok }) => ok),
        `${method} ${path}`,
      ).not.toContain(false);
      const ids = pages.flatMap((page) => (page.ok ? page.data.map(({ id }) => id) : []));
      expect(ids.length).toBeGreaterThan(0);
      expect(new Set(ids).size).toBe(ids.length);
    }
  });

  test('ends by offset too', async () => {
    const lengths: number[] = [];
    for (let offset = 0; offset < 3; offset += 1) {
      const page = await client.GET('/alunos', { query: { limit: 1, offset } });
      lengths.push(page.ok ? page.data.length : -1);
    }
    expect(lengths).toEqual([1, 1, 0]);
  });
});

describe('a chosen answer', () => {
  type Respond = (id: string, ...rest: [status: number, options?: object]) => ReturnType<Handlers['respond']>;
  const respond = handlers.respond as Respond;

  // Each status by the last operation that declares it: the handlers find all answers in the same way.
  const declared = new Map(
    operations.flatMap(({ id, path, method, operation }) =>
      Object.keys(operation.responses).map((status) => [status, { id, path, method, status: Number(status) }]),
    ),
  );

  test.each([...declared.values()])(
    'can have every declared status: $id $status',
    async ({ id, path, method, status }) => {
      const own = examples.filter((example) => example.operationId === id && example.status === status);
      server.use(respond(id, status));
      const first = await send(BASE_URL, { target: `${path}?not=valid`, method, headers: { 'X-Api-Key': '' } });
      expect([first.status, first.body]).toEqual([status, own[0]?.value || undefined]);
      expect(first.headers.get('RateLimit')).toMatch(/^"address";r=/);
      expect(first.headers.get('Retry-After')).toBe([429, 502].includes(status) ? '60' : null);
      // The headers of the example would be the same for every request: a client would read pages without end.
      expect([first.headers.get('Link'), first.headers.get('ETag')]).toEqual([null, null]);
      for (const { name, value } of own) {
        server.use(respond(id, status, { example: name }));
        expect((await send(BASE_URL, { target: path, method })).body).toEqual(value || undefined);
      }
    },
  );

  test('is that of its operation alone', async () => {
    server.use(handlers.respond('listarAlunos', 429));
    expect(await client.POST('/alunos', { body: STUDENT })).toMatchObject({ ok: true });
    expect(await client.GET('/treinos')).toMatchObject({ ok: true });
    expect(await client.GET('/alunos')).toMatchObject({ kind: 'tooManyRequests', retryAfterSeconds: 60 });
  });

  test('can be for one request, while the ones after it get the next', async () => {
    const once = { once: true };
    server.use(handlers.respond('listarAlunos', 502, once), handlers.respond('listarAlunos', 401, once));
    await client.GET('/treinos');
    const kinds: string[] = [];
    for (let n = 0; n < 3; n += 1) {
      const result = await client.GET('/alunos');
      kinds.push(result.ok ? 'ok' : result.kind);
    }
    expect(kinds).toEqual(['storeFailure', 'refusedKey', 'ok']);
  });

  test('has to be in the document', () => {
    expect(() => handlers.respond('criarAluno', 401, { example: 'forgottenKey' })).toThrow(
      new RangeError(
        'criarAluno 401 has no example forgottenKey: it has unknownKey, inactiveKey, expiredKey, missingPermission',
      ),
    );
    // @ts-expect-error no such status
    expect(() => handlers.respond('criarAluno', 304)).toThrow(
      /^criarAluno does not declare the status 304: it declares 201, /,
    );
    // @ts-expect-error no such operation
    expect(() => handlers.respond('apagarAluno', 200)).toThrow(
      /^apagarAluno is no operation of the document: it has listarAlunos, /,
    );
  });
});

describe('the built module', () => {
  const read = (file: string) => readFileSync(file, 'utf8');

  test('imports msw and nothing else', () => {
    const imports = read(join(folder, 'msw.js')).matchAll(/\b(?:from|import)\s*["'`]([^"'`]+)["'`]/g);
    expect([...imports].map(([, name]) => name)).toEqual(['msw']);
  });

  test.skipIf(!canTestInBrowser())('answers a client in a browser whose page forbids eval', async () => {
    writeFileSync(join(folder, 'page.js'), PAGE);
    const bundle = await rolldown({ input: join(folder, 'page.js'), platform: 'browser' });
    const { output } = await bundle.generate();
    await bundle.close();
    const scripts = {
      '/page.js': output[0].code,
      '/mockServiceWorker.js': read('node_modules/msw/lib/mockServiceWorker.js'),
    };
    const [list, created, invalid, failed, relative] = await runPage(scripts);
    expect(list).toEqual({ ok: true, data: findExample('listarAlunos', 'lastPage')?.value });
    expect(created).toEqual({ ok: true, data: findExample('criarAluno', 'createdMinimal')?.value });
    expect(invalid).toMatchObject({ kind: 'invalidInput', fields: { p_nome: ['must not be blank'] } });
    expect(failed).toMatchObject({ kind: 'storeFailure', message: 'Data store unavailable', retryAfterSeconds: 60 });
    expect(relative).toMatchObject({ ok: true });
  });
});

/** A page that calls the handlers through msw's service worker. */
const PAGE = `
import { setupWorker } from 'msw/browser';
import { createClient } from '${resolve('client/src/client.ts')}';
import { createHandlers } from './msw.js';

const baseUrl = '${BASE_URL}';
const gateway = createHandlers({ baseUrl });
const worker = setupWorker(...gateway, ...createHandlers({ baseUrl: '/v1' }));
await worker.start({ quiet: true });
const client = createClient({ baseUrl, apiKey: '${KEY}' });
const results = [
  await client.GET('/alunos', { query: { limit: 2, offset: 248 } }),
  await client.POST('/alunos', { body: { p_nome: 'Quirino Dantas', p_email: 'quirino@aurora.example' } }),
  await client.POST('/alunos', { body: { p_nome: ' ', p_email: 'quirino@aurora.example' } }),
];
worker.use(gateway.respond('listarAlunos', 502));
results.push(await client.GET('/alunos'));
results.push(await createClient({ baseUrl: '/v1', apiKey: '${KEY}' }).GET('/treinos'));
globalThis.results = results;
`;
