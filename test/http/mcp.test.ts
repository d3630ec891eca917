import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { Ajv, type AnySchema } from 'ajv';
import type { OpenAPIV3 } from 'openapi-types';
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { storeFault } from '../../src/errors.ts';
import { readDocument } from '../../src/openapi/document.ts';
import type { Operation } from '../../src/openapi/operations.ts';
import type { Result as StoreResult } from '../../src/store/store.ts';
import type { EndedRequest } from '../../src/telemetry/record.ts';
import { document, documentOf, jsonBody, KEYS, lists, operations, STUDENT, withoutHeaders } from '../helpers/api.ts';
import {
  compileOnce,
  openTestStore,
  startGateway,
  startOwnGateway,
  type TestGateway,
  type TestGatewayOptions,
} from '../helpers/gateway.ts';
import { send } from '../helpers/send.ts';
import { createStubStore, createStudents, limitsOf } from '../helpers/stub-store.ts';
import { waitFor } from '../helpers/wait-for.ts';

const PANEL = 'https://painel.example';
const BODY_LIMIT = 2_000;
const AURORA = { 'X-Api-Key': KEYS.aurora };
const PING = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'ping' });
const COUNT = 101;
const REPEATED = 'mcp-again';

const LIST = { responses: withoutHeaders(document.paths['/alunos']?.get as OpenAPIV3.OperationObject) };
const FIELDS = { type: 'object', additionalProperties: false };
const TEXT = { type: 'string' };
const READ_ONLY = { ...TEXT, readOnly: true };
const COUNT_OR_NULL = { type: 'integer', nullable: true };
/** The same in JSON Schema, with the bounds of JavaScript's integers. */
const ASKED_COUNT_OR_NULL = {
  type: ['integer', 'null'],
  ...{ minimum: Number.MIN_SAFE_INTEGER, maximum: Number.MAX_SAFE_INTEGER },
};
const TREE = { $ref: '#/components/schemas/Arvore' };
const S0 = { $ref: '#/$defs/s0' };
const GROUP = { $ref: '#/components/schemas/Grupo' };
const answering = (schema: object) => ({
  responses: { 200: { description: 'Done', content: { 'application/json': { schema } } } },
});

/** Operations of every shape, by their ids. */
const OWN = {
  corpo: [
    '/corpo',
    'post',
    jsonBody({ type: 'object', required: ['id', 'nome'], properties: { id: READ_ONLY, nome: TEXT } }),
  ],
  campos: ['/campos', 'post', jsonBody({ ...FIELDS, properties: { p_dados: { type: 'object' } } })],
  arvore: [
    '/arvore',
    'post',
    {
      ...LIST,
      ...jsonBody({
        ...{ ...FIELDS, required: ['p_id'] },
        properties: { p_id: READ_ONLY, p_nome: TEXT, p_idade: COUNT_OR_NULL, p_arvore: TREE },
      }),
    },
  ],
  ramo: ['/ramo', 'get', answering(TREE)],
  numero: ['/numero', 'get', answering({ type: 'number', nullable: true })],
  partes: [
    '/um/{a}/dois',
    'get',
    {
      ...LIST,
      parameters: [
        { name: 'a', in: 'path', required: true, schema: TEXT },
        { name: 'b', in: 'query', schema: { type: 'boolean' } },
        { name: 'preço[até]', in: 'query', schema: { type: 'integer' } },
        { name: 'x-c', in: 'header', schema: { ...TEXT, nullable: true, 'x-note': 1 } },
      ],
    },
  ],
} as const;
const ownPaths = Object.entries(OWN).map(
  ([operationId, [path, method, parts]]) => documentOf({ operationId, ...parts }, path, method).paths,
);
const nodes = { nome: TEXT, filho: TREE, id: READ_ONLY, senha: { ...TEXT, writeOnly: true } };
const schemas: Record<string, object> = {
  Arvore: { ...FIELDS, properties: { ...nodes, 'x-nota': { ...COUNT_OR_NULL, 'x-note': 1 } } },
  Grupo: {
    ...FIELDS,
    properties: {
      itens: { type: 'array', items: { oneOf: [GROUP, TEXT] } },
      par: {
        ...{ type: 'object', anyOf: [{ required: ['um'] }, { maxProperties: 0 }] },
        oneOf: [GROUP, TEXT].map((um) => ({ properties: { um } })),
      },
    },
  },
};
const components = { ...document.components, schemas: { ...document.components?.schemas, ...schemas } };
const ownDocument = { ...document, components, paths: Object.assign({}, ...ownPaths) } as OpenAPIV3.Document;

const students = createStudents(COUNT);
const RESULTS: Readonly<Record<string, StoreResult>> = {
  wrong: { failure: { kind: 'refusedKey', text: 'API Key inválida' } },
  unlucky: storeFault('storeError', 'a secret cause'),
  raising: { failure: { kind: 'invalidInput', fields: { p_nome: ['must not be blank'] } } },
};
const store = createStubStore((call) => {
  const known = RESULTS[String(call.args.p_api_key)];
  if (known) return known;
  if (call.returns === 'nothing') return { json: '', count: 1 };
  if (call.returns === 'value') return { json: '12345678901234567890', count: 1 };
  const isReplayed = call.args.p_idempotency_key === REPEATED;
  return call.returns === 'row'
    ? { json: '{"id":"novo"}', isReplayed }
    : students.call(call, new AbortController().signal);
});

let gateway: TestGateway;
/** The gateway with operations of every shape. */
let other: TestGateway;
const ended: EndedRequest[] = [];

const OPTIONS = { store, mcp: true, bodyLimit: BODY_LIMIT, corsOrigins: [PANEL] };
const open = (options: Partial<TestGatewayOptions>) => startOwnGateway({ ...OPTIONS, ...options });

beforeAll(async () => {
  gateway = await startGateway({ ...OPTIONS, onEnd: (request) => ended.push(request) });
  other = await startGateway({ ...OPTIONS, document: ownDocument });
});

beforeEach(() => {
  store.calls.length = 0;
});

afterAll(() => Promise.all([gateway.close(), other.close()]));

const endpointOf = ({ url }: { readonly url: string }) => new URL('/mcp', url).href;
const argsOf = () => store.calls.map(({ args: { p_api_key, ...args } }) => args);

/** Connects the SDK's client, which is closed when the test ends. */
async function connect(headers: Record<string, string> = AURORA, to = gateway): Promise<Client> {
  const client = new Client({ name: 'test', version: '1' });
  const transport = new StreamableHTTPClientTransport(new URL(endpointOf(to)), { requestInit: { headers } });
  await client.connect(transport as Parameters<Client['connect']>[0]);
  onTestFinished(() => client.close());
  return client;
}

/** `next` is what a list says about its next page. */
type Result = { readonly isError: boolean; readonly body: unknown; readonly next?: string };

async function callTool(name: string, args: object = {}, client?: Client): Promise<Result> {
  const result = await (client ?? (await connect())).callTool({ name, arguments: { ...args } });
  const [content, next, ...others] = result.content as { readonly type: string; readonly text: string }[];
  expect({ types: [content?.type, next?.type ?? 'text'], others }).toEqual({ types: ['text', 'text'], others: [] });
  const text = content?.text ?? '';
  const hasContent = !text.startsWith('Done');
  const body = hasContent ? JSON.parse(text) : text;
  const value = Array.isArray(body) ? { result: body } : body;
  expect(result.structuredContent).toEqual(hasContent && !result.isError ? value : undefined);
  return { isError: result.isError === true, body, ...(next && { next: next.text }) };
}

/** Posts a message as a client does. */
const post = (body: string, headers: Record<string, string> = {}, to = gateway) =>
  send(endpointOf(to), {
    method: 'POST',
    headers: {
      'Content-Type': 'application/json',
      Accept: 'application/json, text/event-stream',
      ...AURORA,
      ...headers,
    },
    body,
  });

const toMessage = (params: object) => JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params });
const idOf = (wanted: string) => operations.find((one) => one.method === wanted && one.path === '/alunos')?.id ?? '';
const [list, creation] = [idOf('GET'), idOf('POST')];

/** The operation's answer to the same request. */
async function ask(target: string, init: RequestInit = {}): Promise<{ isError: boolean; body: unknown }> {
  const answer = await fetch(gateway.url + target, { headers: AURORA, ...init });
  return { isError: answer.status >= 400, body: await answer.json() };
}

describe('the tools', () => {
  test('are the operations of the document, with its instructions, and are listed without a key', async () => {
    const client = await connect({});
    expect(document.info).toMatchObject({ 'x-instructions': client.getInstructions() });
    expect(client.getServerVersion()).toEqual({ name: document.info.title, version: document.info.version });
    const { tools } = await client.listTools();
    const { operations: compiled } = await compileOnce(document);
    expect(tools).toHaveLength(operations.length);
    for (const { id, method, operation } of operations) {
      const tool = tools.find(({ name }) => name === id);
      expect(tool).toMatchObject({
        title: operation.summary,
        description: expect.stringMatching(new RegExp(`^${operation.summary}\n\n`)),
        annotations: { readOnlyHint: method === 'GET' },
      });
      const { inputs, body } = compiled.get(id) as Operation;
      const fields = body ? (body.fields ?? [{ argument: 'body' }]).map(({ argument }) => argument) : [];
      expect(Object.keys(tool?.inputSchema.properties ?? {})).toEqual([...inputs.map(({ name }) => name), ...fields]);
      // Throws for keywords that JSON Schema does not have.
      for (const schema of [tool?.inputSchema ?? {}, tool?.outputSchema ?? {}]) {
        new Ajv({ strict: true, validateFormats: false }).compile(schema as AnySchema);
      }
    }
    expect(tools.find(({ name }) => name === creation)?.inputSchema.required).toEqual(['p_nome', 'p_email']);
    // The texts name tools, and not methods and paths.
    const texts = JSON.stringify(tools);
    expect(texts).not.toMatch(/\b(GET|POST) \//);
    expect(texts).toContain('hyphens to `listarAlunos` as `id_personal`.');
    expect(texts).toContain('from `listarPersonais` without hyphens');
  });

  test('have input schemas in JSON Schema, without fields that only answers have', async () => {
    const { tools } = await (await connect({}, other)).listTools();
    const schemaOf = (id: string) => tools.find(({ name }) => name === id)?.inputSchema;
    const nome = TEXT;
    expect(schemaOf('corpo')?.properties?.body).toEqual({ type: 'object', required: ['nome'], properties: { nome } });
    const senha = { ...TEXT, writeOnly: true };
    const s0 = { ...FIELDS, properties: { nome, filho: S0, senha, 'x-nota': ASKED_COUNT_OR_NULL } };
    expect(schemaOf('arvore')).toEqual({
      ...{ ...FIELDS, required: [], $defs: { s0 } },
      properties: { p_nome: nome, p_idade: ASKED_COUNT_OR_NULL, p_arvore: S0 },
    });
    expect(schemaOf('partes')).toMatchObject({ properties: { 'x-c': { type: ['string', 'null'] } }, required: ['a'] });
    expect(Object.keys(schemaOf('partes')?.properties ?? {})).toEqual(['a', 'b', 'preco_ate', 'x-c']);
    expect(schemaOf('partes')?.properties?.['x-c']).not.toHaveProperty('x-note');
  });

  test('have output schemas, in which a value that is not an object is the property result', async () => {
    const { tools } = await (await connect({}, other)).listTools();
    const schemaOf = (id: string) => tools.find(({ name }) => name === id)?.outputSchema;
    const properties = { nome: TEXT, filho: S0, id: READ_ONLY, 'x-nota': { type: ['integer', 'null'] } };
    expect(schemaOf('ramo')).toEqual({ ...FIELDS, properties, $defs: { s0: { ...FIELDS, properties } } });
    expect(schemaOf('numero')).toEqual({
      type: 'object',
      properties: { result: { type: ['number', 'null'] } },
      required: ['result'],
    });
    expect(schemaOf('corpo')).toBeUndefined();
    const { text } = await post(toMessage({ name: 'numero' }), {}, other);
    expect(text).toContain('"structuredContent":{"result":12345678901234567890}');
  });

  test('give what their schemas describe, as a client that knows them confirms', async () => {
    const store = await openTestStore();
    onTestFinished(() => store.close());
    const real = await open({ store });
    const client = await connect(AURORA, real);
    await client.listTools();
    for (const { id } of lists) {
      expect(await callTool(id, { limit: 2 }, client)).toMatchObject({ isError: false, body: [{}, {}] });
    }
    expect(await callTool(creation, STUDENT, client)).toMatchObject({ isError: false, body: { nome: STUDENT.p_nome } });
    // The client refuses a student without a name.
    const stub = await connect();
    await stub.listTools();
    await expect(stub.callTool({ name: creation, arguments: STUDENT })).rejects.toThrow("required property 'nome'");
  });

  test('give a value that is within itself as one of several', async () => {
    const source = { ...documentOf({ operationId: 'um', ...answering(GROUP) }, '/um', 'get'), components };
    const groups = createStubStore(() => ({
      json: '{"itens":["a",{"itens":["b",{"itens":[]}]}],"par":{"um":"c"}}',
      count: 1,
    }));
    const client = await connect(AURORA, await open({ store: groups, document: source }));
    await client.listTools();
    const { structuredContent } = await client.callTool({ name: 'um' });
    expect(structuredContent).toEqual({ itens: ['a', { itens: ['b', { itens: [] }] }], par: { um: 'c' } });
  });

  test.each([7, 40])(
    'with %s records that may contain each other have a list no longer than ten documents',
    async (count) => {
      const names = Array.from({ length: count }, (_, n) => `R${n}`);
      const refOf = (name: string) => ({ $ref: `#/components/schemas/${name}` });
      const toPath = (name: string) =>
        documentOf({ operationId: name, ...answering(refOf(name)) }, `/${name}`, 'get').paths;
      const record = { type: 'object', properties: Object.fromEntries(names.map((name) => [name, refOf(name)])) };
      const all = Object.fromEntries(names.map((name) => [name, { ...record }]));
      const { securitySchemes } = document.components ?? {};
      const parts = { paths: Object.assign({}, ...names.map(toPath)), components: { securitySchemes, schemas: all } };
      const source = { ...document, ...parts } as OpenAPIV3.Document;
      const records = createStubStore(() => ({ json: '{"R1":{"R2":{"R1":{"R1":{}}}}}', count: 1 }));
      const client = await connect(AURORA, await open({ store: records, document: source }));
      const { tools } = await client.listTools();
      expect(JSON.stringify(tools).length).toBeLessThan(10 * JSON.stringify(parts).length);
      expect(await callTool('R0', {}, client)).toMatchObject({ isError: false });
    },
  );

  test.each([
    ['corpo', { body: { nome: 'Ana' } }, { p_body: { json: '{"nome":"Ana"}' } }, 'Done; there is no content.'],
    // Null counts as left out, unless it is a value.
    ['arvore', { p_nome: null, p_idade: null }, { p_idade: null }, []],
    ['partes', { a: '../é?&/', b: true, 'x-c': 'ç' }, { p_a: '../é?&/', p_b: true, p_c: 'ç' }, []],
    ['partes', { a: 'a', preco_ate: 5, b: null }, { p_a: 'a', p_preco_ate: 5 }, []],
  ])('pass the arguments of %s on: %j', async (name, args, expected, body) => {
    expect(await callTool(name, args, await connect(AURORA, other))).toEqual({ isError: false, body });
    expect(argsOf()).toEqual([expected]);
  });

  test.each([
    ['corpo', { nome: 'Ana' }, { nome: ['is not a field of this operation'], body: ['is required'] }],
    [
      'arvore',
      { p_id: null, constructor: null },
      { p_id: ['is read-only'], constructor: ['is not a field of this operation'] },
    ],
    ['partes', { b: 'yes' }, { a: ['is required'], b: ['must be boolean'] }],
  ])('refuse arguments of %s without a call: %j', async (name, args, error) => {
    expect(await callTool(name, args, await connect(AURORA, other))).toEqual({ isError: true, body: { error } });
    expect(store.calls).toEqual([]);
  });

  test.each([
    ['campos', 'p_dados', 'p_dados'],
    ['corpo', 'body', 'p_body'],
  ])('keep the numbers in the JSON of %s', async (name, field, argument) => {
    const json = '{"n":12345678901234567890, "d":1.10, "nome":""}';
    const params = `{"name":"${name}", "arguments": {"${field}":${json}}}`;
    await post(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":${params}}`, {}, other);
    expect(argsOf()).toEqual([{ [argument]: { json } }]);
  });

  test.each(lists)(
    '$id answers what the operation answers, and says how to get the next page until the end',
    async ({ id, path }) => {
      const client = await connect();
      const { body, isError } = await ask(`${path}?limit=100`);
      const rows = body as { id: string }[];
      const next = (place: string) =>
        `There may be more records: call ${id} again with the same arguments and ${place}.`;
      expect(await callTool(id, { limit: 100 }, client)).toEqual({
        isError,
        body,
        next: next(`after "${rows[99]?.id}"`),
      });
      // Only a full page has a next one.
      const rest = await callTool(id, { limit: 100, after: rows[99]?.id }, client);
      expect(rest).toEqual({ isError: false, body: [expect.anything()] });
      expect((await callTool(id, { limit: 1, offset: 1 }, client)).next).toBe(next('offset 2'));
    },
  );

  test('pass an Idempotency-Key on, and say that an earlier call with it has created the record', async () => {
    const args = { ...STUDENT, 'Idempotency-Key': REPEATED };
    expect(await callTool(creation, args)).toEqual({
      ...{ isError: false, body: { id: 'novo' } },
      next: 'An earlier call with the same Idempotency-Key got this answer: nothing was changed again.',
    });
    expect(argsOf()).toEqual([{ ...STUDENT, p_idempotency_key: REPEATED }]);
  });
});

describe('of another document, the tools', () => {
  test('take arrays, and have names that every model API takes', async () => {
    const petstore = await open({ document: readDocument('test/documents/petstore.yaml') });
    const client = await connect(AURORA, petstore);
    // A new client, which does not know the schemas: the store gives no pets.
    const { tools } = await (await connect(AURORA, petstore)).listTools();
    expect(tools.map(({ name }) => name)).toEqual(['findPets', 'addPet', 'find_pet_by_id', 'deletePet']);
    expect(tools[2]?.outputSchema).toMatchObject({ type: 'object', allOf: [{}, { required: ['id'] }] });

    await callTool('findPets', { tags: ['a', 'b,c', 5], limit: '2' }, client);
    await callTool('find_pet_by_id', { id: 7 }, client);
    expect(argsOf()).toEqual([{ p_tags: ['a', 'b,c', '5'], p_limit: 2 }, { p_id: 7 }]);
    for (const [tags, error] of [
      ['a', { tags: ['must be array'] }],
      [{}, { tags: ['must be array'] }],
      [['a', {}], { 'tags.1': ['must be string'] }],
      [['a', '\0'], { tags: ['must not contain U+0000 or an unpaired surrogate'] }],
    ]) {
      expect(await callTool('findPets', { tags }, client)).toEqual({ isError: true, body: { error } });
    }
  });

  test('refuse two operations that would have one name', async () => {
    const [one, two] = [documentOf({ operationId: 'a b' }, '/a'), documentOf({ operationId: 'a_b' }, '/b')];
    const both = { ...document, paths: { ...one.paths, ...two.paths } };
    await expect(open({ document: both })).rejects.toThrow('MCP: the operationIds a b and a_b give one name');
  });
});

/** More names than an operation can have. */
const MANY = Array.from({ length: 150 }, (_, n) => `a${n}`);

describe('the errors of a tool', () => {
  test.each([
    ['values out of bounds', 'limit=0&nada=1&academia_id=x', { limit: 0, nada: 1, academia_id: 'x' }],
    ['other types', 'limit=5.5&ativo=sim', { limit: 5.5, ativo: 'sim' }],
    ['an empty text', 'nome=', { nome: '' }],
    ['U+0000', 'nome=%00', { nome: '\0' }],
    ['names of Object', '__proto__=1&constructor=2', JSON.parse('{"__proto__":1,"constructor":2}')],
    ['too many arguments', MANY.join('=&'), Object.fromEntries(MANY.map((name) => [name, '']))],
  ])('are those of the query: %s', async (_what, query, args) => {
    expect(await callTool(list, args)).toEqual({ ...(await ask(`/alunos?${query}`)), isError: true });
  });

  test.each([
    {},
    { p_nome: ' ', p_email: 'ana', p_apelido: 'Aninha' },
    { p_nome: null, p_email: [] },
    { ...STUDENT, p_api_key: KEYS.aurora },
    { ...STUDENT, p_telefone: '\ud800' },
  ])('are those of the body, in the language of the client: %j', async (args) => {
    for (const language of ['en', 'pt-BR']) {
      const headers = { ...AURORA, 'Accept-Language': language };
      const expected = await ask('/alunos', { method: 'POST', headers, body: JSON.stringify(args) });
      expect(await callTool(creation, args, await connect(headers))).toEqual({ ...expected, isError: true });
    }
  });

  test.each([[], ['Ana'], {}])('name a parameter that is not a text: %j', async (value) => {
    const error = { nome: ['must be a string, a number or a boolean'], limit: ['must be >= 1'] };
    expect(await callTool(list, { nome: value, limit: 0 })).toEqual({ isError: true, body: { error } });
  });

  test.each([
    ['no key', '', 'Missing X-Api-Key header'],
    ['a refused key', 'wrong', 'API Key inválida'],
    ['a rule of SQL', 'raising', { p_nome: ['must not be blank'] }],
    ['a fault of the store, without its cause', 'unlucky', 'Data store error'],
  ])('report %s', async (_what, key, error) => {
    const client = await connect(key ? { 'X-Api-Key': key } : {});
    expect(await callTool(creation, STUDENT, client)).toEqual({ isError: true, body: { error } });
    expect(gateway.faults.splice(0)).toHaveLength(key === 'unlucky' ? 1 : 0);
  });

  test('are protocol errors for an unknown tool, and for arguments that are not an object', async () => {
    await expect(callTool('nada')).rejects.toThrow('Unknown tool: nada');
    const { status, text } = await post(toMessage({ name: list, arguments: [1] }));
    expect({ status, error: JSON.parse(text).error.code }).toEqual({ status: 200, error: -32602 });
  });
});

describe('a tool call is a request', () => {
  test('that is recorded with its operation and the status of the operation', async () => {
    const calls = [
      { name: list, arguments: { limit: 1 } },
      { name: list, arguments: { limit: 0 } },
      { name: creation, arguments: STUDENT },
    ];
    const id = 'mcp-recorded';
    for (const message of [...calls.map(toMessage), PING]) await post(message, { 'X-Request-Id': id });
    const requests = await waitFor(() => {
      const found = ended.filter((request) => request.id === id);
      expect(found).toHaveLength(4);
      return found;
    });
    expect(requests.map(({ method, url, endpoint, status }) => [method, url, endpoint, status])).toEqual([
      ['POST', '/mcp', list, 200],
      ['POST', '/mcp', list, 422],
      ['POST', '/mcp', creation, 201],
      ['POST', '/mcp', '/mcp', 200],
    ]);
    expect(requests[0]?.storeMs).toBeGreaterThan(0);
  });

  test.each([
    ['without another', {}, 'token'],
    ['beside an empty one', { 'X-Api-Key': '' }, 'token'],
    ['not beside another', { 'X-Api-Key': 'key' }, 'key'],
  ])('with the key of Authorization, %s', async (_what, headers, key) => {
    await callTool(list, {}, await connect({ Authorization: 'bearer token', ...headers }));
    expect(store.calls.map(({ args }) => args.p_api_key)).toEqual([key]);
  });

  test('that is refused beyond the limit of its address', async () => {
    const limited = await open({ rateLimits: { perAddress: 1, redisUrl: undefined } });
    const call = () => post(toMessage({ name: list }), {}, limited);
    expect([(await call()).status, (await call()).status]).toEqual([200, 429]);
    await expect(connect(AURORA, limited)).rejects.toThrow('{"error":"Too many requests"}');
  });

  test('that the limits of its address and its key count, with their header fields and the time to wait', async () => {
    const store = createStubStore(({ args }) =>
      'p_writer' in args ? limitsOf('limited', { per_minute: 1 }) : { json: '[]', count: 0 },
    );
    const rateLimits = { perAddress: 9, redisUrl: undefined };
    const limited = await open({ store, hasWholeStore: true, rateLimits });
    const call = () => post(toMessage({ name: list }), { 'X-Api-Key': 'limited' }, limited);
    // The first call makes the limits known.
    await call();
    expect((await call()).headers['ratelimit-policy']).toBe('"address";q=9;w=60, "minute";q=1;w=60');
    const { headers, text } = await call();
    expect(headers.ratelimit).toMatch(/^"address";r=6;t=\d+, "minute";r=0;t=(5\d|60)$/);
    expect(text).toMatch(/\{\\"error\\":\\"Too many requests\\"\}.*"Wait (5\d|60) seconds before the next call\."/);
  });
});

describe('the endpoint', () => {
  test.each(['GET', 'DELETE', 'PUT', 'HEAD'])('has no %s', async (method) => {
    const { status, headers, text } = await send(endpointOf(gateway), { method });
    expect({ status, allow: headers.allow }).toEqual({ status: 405, allow: 'POST' });
    if (method !== 'HEAD') expect(text).toBe('{"error":"Method not allowed"}');
  });

  const withValues = (count: number) =>
    JSON.stringify({ ...JSON.parse(PING), params: { _meta: { values: Array(count).fill(1) } } });
  const TOO_LARGE = 'Request body too large';
  const TOO_DEEP = { params: ['must not be nested deeper than 64 levels'] };

  test.each([
    ['several messages', `[${PING},${PING}]`, 422, { body: ['must be object'] }],
    ['a repeated name', '{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}', 422, { id: ['must be given once'] }],
    ['no JSON', '{', 400, 'Invalid JSON body'],
    ['a long body', ' '.repeat(BODY_LIMIT + 1), 413, TOO_LARGE],
    ['900 values beside the arguments', withValues(900), 200, undefined],
    ['1,000 values beside the arguments', withValues(1_000), 413, TOO_LARGE],
    ['a nesting that would cost more than its bytes', `{"params":${'['.repeat(500)}${']'.repeat(500)}}`, 422, TOO_DEEP],
  ])('answers %s as it should', async (_what, body, status, error) => {
    const answer = await post(body);
    expect([answer.status, JSON.parse(answer.text).error]).toEqual([status, error]);
  });

  test.each([
    [undefined, 200],
    [PANEL, 200],
    ['https://other.example', 403],
    ['null', 403],
  ])('of a page of %s answers with %i', async (origin, expected) => {
    const { status, text } = await post(PING, origin ? { Origin: origin } : {});
    expect(status).toBe(expected);
    if (status === 403) expect(text).toBe('{"error":"Origin not allowed"}');
  });

  test('is served only if configured', async () => {
    const off = await open({ mcp: false });
    const { status, text } = await post(PING, {}, off);
    expect({ status, text }).toEqual({ status: 404, text: '{"error":"Not found"}' });
  });
});
