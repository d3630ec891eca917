import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { Ajv } from 'ajv';
import type { OpenAPIV3 } from 'openapi-types';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { storeFault } from '../../src/errors.ts';
import type { AppParts } from '../../src/http/app.ts';
import { serveMcp } from '../../src/http/mcp.ts';
import { createRecorder } from '../../src/http/recorder.ts';
import { readDocument } from '../../src/openapi/document.ts';
import type { Operation } from '../../src/openapi/operations.ts';
import type { Store } from '../../src/store/store.ts';
import type { EndedRequest } from '../../src/telemetry/record.ts';
import { document, documentOf, jsonBody, KEYS, lists, operations, STUDENT, withoutHeaders } from '../helpers/api.ts';
import {
  compileOnce,
  openTestRateLimits,
  openTestStore,
  startGateway,
  type TestGateway,
  type TestGatewayOptions,
} from '../helpers/gateway.ts';
import { send } from '../helpers/send.ts';
import { createStubStore } from '../helpers/stub-store.ts';
import { waitFor } from '../helpers/wait-for.ts';

const PANEL = 'https://painel.example';
const BODY_LIMIT = 2_000;
const AURORA = { 'X-Api-Key': KEYS.aurora };
const PING = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'ping' });

let store: Store;
let gateway: TestGateway;
const ended: EndedRequest[] = [];

async function open(options: Partial<TestGatewayOptions>, parts: Partial<AppParts> = {}): Promise<TestGateway> {
  const served = await compileOnce(options.document);
  const mcp = serveMcp({ readDocument: () => served, bodyLimit: BODY_LIMIT, corsOrigins: [PANEL] });
  return startGateway({ store, bodyLimit: BODY_LIMIT, ...options, parts: { mcp, ...parts } });
}

/** A gateway with MCP, which ends with its test. */
async function start(...options: Parameters<typeof open>): Promise<TestGateway> {
  const started = await open(...options);
  onTestFinished(started.close);
  return started;
}

beforeAll(async () => {
  store = await openTestStore();
  gateway = await open({}, { recorder: createRecorder([(request) => ended.push(request)]) });
});

afterAll(async () => {
  await gateway.close();
  await store.close();
});

const LIST = { responses: withoutHeaders(document.paths['/alunos']?.get as OpenAPIV3.OperationObject) };

const endpointOf = ({ url }: { readonly url: string }) => new URL('/mcp', url);

/** Connects the SDK's client, which ends with its test. */
async function connect(
  headers: Record<string, string> = AURORA,
  to: { readonly url: string } = gateway,
): Promise<Client> {
  const client = new Client({ name: 'test', version: '1' });
  const transport = new StreamableHTTPClientTransport(endpointOf(to), { requestInit: { headers } });
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
  const body = JSON.parse(content?.text ?? '');
  return { isError: result.isError === true, body, ...(next && { next: next.text }) };
}

/** Posts a message as a client does. */
const post = (body: string, headers: Record<string, string> = {}, to = gateway) =>
  send(String(endpointOf(to)), {
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

const [list, creation] = [
  operations.find(({ method, path }) => method === 'GET' && path === '/alunos'),
  operations.find(({ method, path }) => method === 'POST' && path === '/alunos'),
].map((operation) => operation?.id ?? '') as [string, string];

describe('the tools', () => {
  test('are the operations of the document, for which no key is needed', async () => {
    const { tools } = await (await connect({})).listTools();
    const expected = operations.map(({ id, method, operation }) => ({
      name: id,
      title: operation.summary,
      description: expect.stringMatching(new RegExp(`^${operation.summary}\n\n`)),
      annotations: { readOnlyHint: method === 'GET' },
    }));
    expect(tools).toHaveLength(expected.length);
    for (const tool of expected) expect(tools).toContainEqual(expect.objectContaining(tool));
  });

  test('take the parameters and the fields of the body, and no key', async () => {
    const { tools } = await (await connect({})).listTools();
    const { operations: compiled } = await compileOnce(document);
    expect(tools.find(({ name }) => name === creation)?.inputSchema.required).toEqual(['p_nome', 'p_email']);
    for (const { id } of operations) {
      const { inputs, body } = compiled.get(id) as Operation;
      const fields = body ? (body.fields ?? [{ argument: 'body' }]).map(({ argument }) => argument) : [];
      const { inputSchema } = tools.find(({ name }) => name === id) ?? {};
      expect(Object.keys(inputSchema?.properties ?? {}), id).toEqual([...inputs.map(({ name }) => name), ...fields]);
      // Throws for keywords that JSON Schema does not have.
      new Ajv({ strict: true, validateFormats: false }).compile(inputSchema ?? {});
    }
  });

  test('do not show a field that only answers have', async () => {
    const properties = { id: { type: 'string', readOnly: true }, nome: { type: 'string' } };
    const schema = { type: 'object', required: ['id', 'nome'], properties };
    const client = await connect({}, await start({ document: documentOf(jsonBody(schema)) }));
    const [tool] = (await client.listTools()).tools;
    expect(tool?.inputSchema.properties?.body).toEqual({
      type: 'object',
      required: ['nome'],
      properties: { nome: { type: 'string' } },
    });
  });

  test('refuse fields beside a body that is one argument', async () => {
    const stub = createStubStore(() => ({ json: '', count: 0 }));
    const schema = { type: 'object', required: ['nome'], properties: { nome: { type: 'string' } } };
    const client = await connect(AURORA, await start({ document: documentOf(jsonBody(schema)), store: stub }));
    const error = { nome: ['is not a field of this operation'], body: ['is required'] };
    expect(await callTool('um', { nome: 'Ana' }, client)).toEqual({ isError: true, body: { error } });
    expect(stub.calls).toEqual([]);
    expect(await client.callTool({ name: 'um', arguments: { body: { nome: 'Ana' } } })).toEqual({
      content: [{ type: 'text', text: 'Done; there is no content.' }],
    });
    expect(stub.calls[0]?.args).toEqual({ p_api_key: KEYS.aurora, p_body: { json: '{"nome":"Ana"}' } });
  });

  test('come with the instructions of the document', async () => {
    const client = await connect({});
    expect(document.info).toMatchObject({ 'x-instructions': client.getInstructions() });
    expect(client.getServerVersion()).toEqual({ name: document.info.title, version: document.info.version });
  });

  test.each(lists)('$id answers what the operation answers', async ({ id, path }) => {
    const answer = await fetch(`${gateway.url}${path}?limit=3`, { headers: AURORA });
    expect(await callTool(id, { limit: 3 })).toMatchObject({ isError: false, body: await answer.json() });
  });

  test.each(lists)('$id says how to go on, until its end', async ({ id }) => {
    const client = await connect();
    const all = (await callTool(id, { limit: 1000 }, client)).body as { id: string }[];
    const limit = Math.ceil(all.length / 2);
    const first = await callTool(id, { limit }, client);
    const after = all[limit - 1]?.id;
    const next = `There may be more records: call ${id} again with the same arguments and after "${after}".`;
    expect(first).toEqual({ isError: false, body: all.slice(0, limit), next });
    // Only a full page has a next one.
    const rest = await callTool(id, { limit: limit + 1, after }, client);
    expect(rest).toEqual({ isError: false, body: all.slice(limit) });
    const skipped = await callTool(id, { limit: 1, offset: 1 }, client);
    expect(skipped.next).toBe(`There may be more records: call ${id} again with the same arguments and offset 2.`);
  });

  test('are described by the names of tools, and not by methods and paths', async () => {
    const { tools } = await (await connect({})).listTools();
    const texts = tools.map((tool) => JSON.stringify(tool)).join();
    expect(texts).not.toMatch(/\b(GET|POST) \//);
    expect(texts).toContain('hyphens to `listarAlunos` as `id_personal`.');
    expect(texts).toContain('from `listarPersonais` without hyphens');
  });

  test('takes null for a parameter that is left out', async () => {
    const args = { nome: null, ativo: null, offset: null, after: null };
    expect(await callTool(list, { ...args, limit: 3 })).toEqual(await callTool(list, { limit: 3 }));
  });

  test('takes null for a field that is left out, unless null is a value of it', async () => {
    const stub = createStubStore();
    const tree = { type: 'object', additionalProperties: false };
    const inner = { $ref: '#/components/schemas/Arvore' };
    const schemas = { Arvore: { ...tree, properties: { nome: { type: 'string' }, filho: inner } } };
    const properties = {
      p_id: { type: 'string', readOnly: true },
      p_nome: { type: 'string' },
      p_idade: { type: 'integer', nullable: true },
      p_arvore: inner,
    };
    const schema = { type: 'object', additionalProperties: false, required: ['p_id'], properties };
    const components = { ...document.components, schemas: { ...document.components?.schemas, ...schemas } };
    const withTree = { ...documentOf({ ...jsonBody(schema), ...LIST }), components } as OpenAPIV3.Document;
    const client = await connect(AURORA, await start({ document: withTree, store: stub }));
    const [tool] = (await client.listTools()).tools;
    expect(tool?.inputSchema).toEqual({
      type: 'object',
      properties: {
        p_nome: { type: 'string' },
        p_idade: { type: ['integer', 'null'], minimum: Number.MIN_SAFE_INTEGER, maximum: Number.MAX_SAFE_INTEGER },
        p_arvore: { ...tree, properties: { nome: { type: 'string' }, filho: {} } },
      },
      required: [],
      additionalProperties: false,
    });
    expect(await callTool('um', { p_nome: null, p_idade: null }, client)).toEqual({ isError: false, body: [] });
    expect(stub.calls[0]?.args).toEqual({ p_api_key: KEYS.aurora, p_idade: null });
    const error = { p_id: ['is read-only'], constructor: ['is not a field of this operation'] };
    expect(await callTool('um', { p_id: null, constructor: null }, client)).toEqual({ isError: true, body: { error } });
  });

  test('takes every kind of parameter', async () => {
    const stub = createStubStore();
    const parameters = [
      { name: 'a', in: 'path', required: true, schema: { type: 'string' } },
      { name: 'b', in: 'query', schema: { type: 'boolean' } },
      { name: 'x-c', in: 'header', schema: { type: 'string', nullable: true, 'x-note': 1 } },
    ];
    const own = documentOf({ parameters, ...LIST }, '/um/{a}/dois', 'get');
    const client = await connect(AURORA, await start({ document: own, store: stub }));
    const [tool] = (await client.listTools()).tools;
    expect(tool?.inputSchema).toMatchObject({ properties: { 'x-c': { type: ['string', 'null'] } }, required: ['a'] });
    expect(tool?.inputSchema.properties?.['x-c']).not.toHaveProperty('x-note');

    const args = { a: '../é?&/', b: true, 'x-c': 'ç' };
    expect(await callTool('um', args, client)).toEqual({ isError: false, body: [] });
    expect(stub.calls[0]?.args).toEqual({ p_api_key: KEYS.aurora, p_a: args.a, p_b: true, p_c: 'ç' });
    const missing = { error: { a: ['is required'], b: ['must be boolean'] } };
    expect(await callTool('um', { b: 'yes' }, client)).toEqual({ isError: true, body: missing });
  });
});

describe('of another document, the tools', () => {
  test('take arrays, and have names that every model API takes', async () => {
    const stub = createStubStore();
    const petstore = await readDocument('test/documents/petstore.yaml');
    const client = await connect(AURORA, await start({ document: petstore, store: stub }));
    const { tools } = await client.listTools();
    expect(tools.map(({ name }) => name)).toEqual(['findPets', 'addPet', 'find_pet_by_id', 'deletePet']);

    expect(await callTool('findPets', { tags: ['a', 'b,c', 5], limit: '2' }, client)).toMatchObject({ body: [] });
    expect(await callTool('find_pet_by_id', { id: 7 }, client)).toMatchObject({ body: [] });
    expect(stub.calls.map(({ args }) => args)).toEqual([
      { p_api_key: KEYS.aurora, p_tags: ['a', 'b,c', '5'], p_limit: 2 },
      { p_api_key: KEYS.aurora, p_id: 7 },
    ]);
    for (const [tags, error] of [
      ['a', { tags: ['must be array'] }],
      [{}, { tags: ['must be array'] }],
      [['a', {}], { 'tags.1': ['must be string'] }],
      [['a', '\0'], { tags: ['must not contain U+0000 or an unpaired surrogate'] }],
    ]) {
      expect(await callTool('findPets', { tags }, client)).toEqual({ isError: true, body: { error } });
    }
  });

  test.each([
    ['a field', { additionalProperties: false, properties: { p_dados: { type: 'object' } } }, 'p_dados'],
    ['the body', {}, 'body'],
  ])('keep the numbers in JSON that is %s', async (_what, parts, name) => {
    const stub = createStubStore(() => ({ json: '', count: 1 }));
    const other = await start({ document: documentOf(jsonBody({ type: 'object', ...parts })), store: stub });
    const json = '{"n":12345678901234567890, "d":1.10}';
    const args = `{"name":"um", "arguments": {"${name}":${json}}}`;
    await post(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":${args}}`, {}, other);
    expect(Object.values(stub.calls[0]?.args ?? {})).toEqual([KEYS.aurora, { json }]);
  });

  test('refuse two operations that would have one name', async () => {
    const [one, other] = [documentOf({ operationId: 'a b' }, '/a'), documentOf({ operationId: 'a_b' }, '/b')];
    const both = { ...document, paths: { ...one.paths, ...other.paths } };
    await expect(start({ document: both })).rejects.toThrow('MCP: two operationIds differ only in');
  });
});

describe('a creation', () => {
  test('returns the record', async () => {
    const { isError, body } = await callTool(creation, STUDENT);
    expect(isError).toBe(false);
    expect(body).toMatchObject({ nome: STUDENT.p_nome, email: STUDENT.p_email, ativo: true });
  });

  test('takes place once for an Idempotency-Key', async () => {
    const args = { ...STUDENT, 'Idempotency-Key': 'mcp-once' };
    const first = await callTool(creation, args);
    expect(await callTool(creation, args)).toEqual(first);
    const error = { 'Idempotency-Key': ['was used for another request in the last 24 hours'] };
    expect(await callTool(creation, { ...args, p_nome: 'Outra' })).toEqual({ isError: true, body: { error } });
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
    const answer = await fetch(`${gateway.url}/alunos?${query}`, { headers: AURORA });
    expect(answer.status).toBe(422);
    expect(await callTool(list, args)).toEqual({ isError: true, body: await answer.json() });
  });

  test.each([
    {},
    { p_nome: ' ', p_email: 'ana', p_apelido: 'Aninha' },
    { p_nome: null, p_email: 5 },
    { ...STUDENT, p_api_key: KEYS.aurora },
    { ...STUDENT, p_telefone: '\ud800' },
    { ...STUDENT, p_data_nascimento: '2024-02-30' },
  ])('are those of the body: %j', async (args) => {
    for (const language of ['en', 'pt-BR']) {
      const headers = { ...AURORA, 'Accept-Language': language };
      const answer = await fetch(`${gateway.url}/alunos`, { method: 'POST', headers, body: JSON.stringify(args) });
      expect(answer.status).toBe(422);
      const client = await connect(headers);
      expect(await callTool(creation, args, client)).toEqual({ isError: true, body: await answer.json() });
    }
  });

  test.each([[], ['Ana'], {}])('name a parameter that is no text: %j', async (value) => {
    const error = { nome: ['must be a string, a number or a boolean'], limit: ['must be >= 1'] };
    expect(await callTool(list, { nome: value, limit: 0 })).toEqual({ isError: true, body: { error } });
  });

  test.each([
    ['no key', {}, 'Missing X-Api-Key header'],
    ['an unknown key', { 'X-Api-Key': 'wms_demo_nada' }, 'API Key inválida'],
    ['an expired key', { 'X-Api-Key': KEYS.expired }, 'API Key expirada'],
    ['a key without the permission', { 'X-Api-Key': KEYS.readOnly }, 'API Key sem permissão para criar_aluno'],
  ])('are told for %s', async (_what, headers, error) => {
    const client = await connect(headers as Record<string, string>);
    expect(await callTool(creation, STUDENT, client)).toEqual({ isError: true, body: { error } });
  });

  test('are told for a fault of the store, without its cause', async () => {
    const failing = await start({ store: createStubStore(() => storeFault('storeError', 'a secret cause')) });
    const result = await callTool(list, {}, await connect(AURORA, failing));
    expect(result).toEqual({ isError: true, body: { error: 'Data store error' } });
    expect(failing.faults).toHaveLength(1);
  });

  test('are of the protocol for an unknown tool, and for arguments that are no object', async () => {
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

  test('that the rate limits count', async () => {
    const limits = await openTestRateLimits({ perAddress: 4 });
    onTestFinished(limits.close);
    const limited = await start({}, { rateLimiter: limits.middleware });
    const statuses: number[] = [];
    for (let n = 0; n < 3; n += 1) statuses.push((await post(toMessage({ name: list }), {}, limited)).status);
    statuses.push((await fetch(`${limited.url}/academias`, { headers: AURORA })).status);
    expect(statuses).toEqual([200, 200, 200, 200]);
    await expect(connect(AURORA, limited)).rejects.toThrow('{"error":"Too many requests"}');
  });

  test('whose answer is compressed', async () => {
    const message = toMessage({ name: list, arguments: { limit: 100 } });
    const { headers } = await post(message, { 'Accept-Encoding': 'br' });
    expect(headers).toMatchObject({ 'content-encoding': 'br', 'cache-control': 'no-store' });
  });
});

describe('the endpoint', () => {
  test.each(['GET', 'DELETE', 'PUT', 'HEAD'])('has no %s', async (method) => {
    const { status, headers, text } = await send(String(endpointOf(gateway)), { method });
    expect({ status, allow: headers.allow }).toEqual({ status: 405, allow: 'POST' });
    if (method !== 'HEAD') expect(text).toBe('{"error":"Method not allowed"}');
  });

  test.each([
    ['several messages', `[${PING},${PING}]`, 422, { body: ['must be object'] }],
    ['a repeated name', '{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}', 422, { id: ['must be given once'] }],
    ['no JSON', '{', 400, 'Invalid JSON body'],
    ['a long body', ' '.repeat(BODY_LIMIT + 1), 413, 'Request body too large'],
  ])('refuses %s', async (_what, body, status, error) => {
    const answer = await post(body);
    expect({ status: answer.status, ...JSON.parse(answer.text) }).toEqual({ status, error });
  });

  test.each([
    [900, 200],
    [1_000, 413],
  ])('answers a message of %i values beside the arguments with %i', async (count, status) => {
    const message = { ...JSON.parse(PING), params: { _meta: { values: Array(count).fill(1) } } };
    expect((await post(JSON.stringify(message))).status).toBe(status);
  });

  test('refuses a nesting that would cost more than its bytes', async () => {
    const { status, text } = await post(`{"params":${'['.repeat(500)}${']'.repeat(500)}}`);
    const error = { params: ['must not be nested deeper than 64 levels'] };
    expect({ status, ...JSON.parse(text) }).toEqual({ status: 422, error });
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
    const off = await startGateway({ store });
    onTestFinished(off.close);
    const { status, text } = await post(PING, {}, off);
    expect({ status, text }).toEqual({ status: 404, text: '{"error":"Not found"}' });
  });
});
