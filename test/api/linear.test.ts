// Sends every input that a client controls at a quarter of its limit and at its limit: the CPU time grows with the input,
// not with its square, and no request holds the event loop for long.

import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { importSource } from '../../src/admin/import.ts';
import type { Column } from '../../src/admin/tables.ts';
import { CommandError } from '../../src/admin/terminal.ts';
import { formats } from '../../src/openapi/formats.ts';
import { document, documentOf, jsonBody, KEYS } from '../helpers/api.ts';
import { sendRaw } from '../helpers/raw.ts';
import { findPort } from '../helpers/servers.ts';
import { readCpuTime } from './linear/cpu-time.ts';

/** Bytes of an input in the request line or a header: Node's limit of 16 kB, less the rest of the head. */
const HEAD = 15_600;
/** Bytes of an input in a body: the limit of 100,000, less what surrounds the input. */
const BODY = 99_000;
/** Bytes of a CSV file, which has no limit. Between 25 and 50 kB the time of any file makes one jump; a quarter of this is beyond it. */
const FILE = 400_000;

/** A quadratic cost grows 16 times from a quarter of the limit to the limit, a linear one at most 4 times. */
const MAX_GROWTH = 8;
/** Ten times what a request takes on a quiet machine: on a busy one it takes several times as long. */
const MAX_HOLD_MS = 100;
/** The lowest of several batches counts: a busy machine adds to the CPU time and takes nothing from it. */
const BATCHES = 2;
/** The maximum before a cost counts as too high: the garbage of other tests adds to it for a while. */
const MAX_BATCHES = 50;
const REQUESTS_IN_BATCH = 4;

/** The beginnings of texts that every format has to read, and the parts that they repeat. */
const BEGINNINGS = ['', 'http://', 'a@', '/'];
const UNITS = [':', '/', 'a', '1', 'a.', 'a-', 'a@', '1:', '%41', '~0', '{a}', '(', ' ', '@'];

const folder = mkdtempSync(join(tmpdir(), 'linear-'));
let gateway: ChildProcess;
let url: string;

beforeAll(async () => {
  const file = join(folder, 'openapi.json');
  const paths = Object.assign({}, document.paths, ...OWN.map(({ paths }) => paths));
  const components = { ...document.components, schemas: { ...document.components?.schemas, ...PARTS_SCHEMAS } };
  writeFileSync(file, JSON.stringify({ ...document, paths, components }));
  const port = await findPort();
  url = `http://127.0.0.1:${port}`;
  gateway = fork('test/api/linear/gateway.ts', [file], {
    // The options of npm start. The log is written, but nobody reads it.
    execArgv: ['--max-semi-space-size=16'],
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    env: {
      PORT: `${port}`,
      CONTRACT_CHECK: 'warn',
      PROXY_HOPS: '2',
      CORS_ORIGINS: 'https://panel.example',
      MCP: 'on',
      ADDRESS_REQUESTS_PER_MINUTE: '10000000',
    },
  });
  await once(gateway, 'message');
});

afterAll(() => void gateway.kill('SIGKILL'));

const refer = (name: string) => ({ $ref: `#/components/schemas/${name}` });
const PARTS_SCHEMAS = {
  Parts: { type: 'array', items: refer('Part') },
  Part: {
    type: 'object',
    required: ['c'],
    properties: { a: refer('Piece'), b: refer('Piece'), next: refer('Part'), parts: refer('Parts') },
  },
  Piece: { type: 'object', required: ['c'], properties: { c: { type: 'string' } } },
};
const FORMATTED = {
  type: 'string',
  allOf: [{ pattern: '^\\S+@\\S+\\.\\S+$', maxLength: 40 }, ...Object.keys(formats).map((format) => ({ format }))],
};
const inPath = (name: string) => ({ name, in: 'path', required: true, schema: { type: 'string' } });

const OWN = [
  documentOf({ operationId: 'one', parameters: ['a'].map(inPath) }, '/one/{a}', 'get'),
  documentOf({ operationId: 'day', parameters: ['a', 'b', 'c'].map(inPath) }, '/rooms/{a}/seats/{b}/days/{c}', 'get'),
  // Schemas that refer to others, and to themselves.
  documentOf({ operationId: 'parts', ...jsonBody(refer('Parts')) }, '/parts'),
  // A text that has to match every format, and a pattern that backtracks.
  documentOf({ operationId: 'formats', ...jsonBody(FORMATTED) }, '/formats'),
];

function request(method: string, target: string, headers: object = {}, body = ''): string {
  const lines = Object.entries({ Host: 'h', 'X-Api-Key': KEYS.aurora, ...headers });
  return `${method} ${target} HTTP/1.1\r\n${lines.map(([name, value]) => `${name}: ${value}\r\n`).join('')}\r\n${body}`;
}

const get = (target: string, headers?: object) => request('GET', target, headers);
const post = (body: string, headers: object = {}) =>
  request('POST', '/v1/alunos', { 'Content-Length': body.length, ...headers }, body);
const postText = (body: string) => request('POST', '/v1/formats', { 'Content-Length': body.length }, body);
const postParts = (body: string) => request('POST', '/v1/parts', { 'Content-Length': body.length }, body);
const postMessage = (body: string) =>
  request('POST', '/mcp', { 'Content-Length': body.length, ...MESSAGE_HEADERS }, body);
/** A call of the tool that creates a student. */
const postArguments = (args: string) =>
  postMessage(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"criarAluno","arguments":{${args}}}}`);
/** A body in chunks of one letter. */
const postChunks = (body: string) =>
  request('POST', '/v1/alunos', { 'Transfer-Encoding': 'chunked' }, `${body.replace(/./g, '1\r\n$&\r\n')}0\r\n\r\n`);

const MESSAGE_HEADERS = { 'Content-Type': 'application/json', Accept: 'application/json, text/event-stream' };

/** Repeats a text up to a size. */
const fill = (size: number, text: string) => text.repeat(size / text.length);

/** Joins texts that differ, each made of a number in base 36, up to a size. */
function fillDistinct(size: number, separator: string, toText: (number: string) => string): string {
  const count = size / (toText('1zz').length + separator.length);
  return Array.from({ length: count }, (_, index) => toText((index + 46_656).toString(36).slice(1))).join(separator);
}

/** The name of an input, the status of the answer, and the request with this many bytes of the input. */
type Row = readonly [name: string, status: number, toRequest: (size: number) => string];

const heads: readonly Row[] = [
  ['a long segment', 404, (size) => get(`/v1/${fill(size, 'a')}`)],
  ['many segments', 404, (size) => get(`/v1${fill(size, '/a')}`)],
  // One letter shorter than the keys that the log hides.
  ['segments that are almost keys', 404, (size) => get(`/v1${fill(size, `/${'a'.repeat(23)}`)}`)],
  ['an encoded path', 404, (size) => get(`/v1${fill(size, '/%C3%A9')}`)],
  ['a path below /docs', 404, (size) => get(`/docs${fill(size, '/%41')}`)],
  ['a whole URL as the target', 404, (size) => get(`http://${fill(size, 'a.')}/v1/a`)],
  ['a path parameter', 204, (size) => get(`/v1/one/${fill(size, 'a')}`)],
  ['an encoded path parameter', 204, (size) => get(`/v1/one/${fill(size, '%C3%A9')}`)],
  ['path parameters between literals', 404, (size) => get(`/v1/rooms/${fill(size, 'a/seats/')}`)],

  ['query names', 422, (size) => get(`/v1/alunos?${fillDistinct(size, '&', (n) => n)}`)],
  ['encoded query names', 422, (size) => get(`/v1/alunos?${fillDistinct(size, '&', (n) => `+%41${n}`)}`)],
  ['a repeated query name', 422, (size) => get(`/v1/alunos?${fill(size, 'a&')}`)],
  ['a repeated parameter', 422, (size) => get(`/v1/alunos?${fill(size, 'nome=a&')}`)],
  ['a query value', 422, (size) => get(`/v1/alunos?id_personal=${fill(size, 'a')}`)],
  ['an encoded query value', 422, (size) => get(`/v1/alunos?nome=${fill(size, '%C3%A9')}`)],
  ['a long number in the query', 422, (size) => get(`/v1/alunos?limit=${fill(size, '9')}`)],
  ['the query of a health check', 200, (size) => get(`/healthz?${fill(size, 'a&')}`)],

  ['X-Api-Key', 200, (size) => get('/v1/alunos', { 'X-Api-Key': fill(size, 'k') })],
  ['X-Api-Key in UTF-8', 200, (size) => get('/v1/alunos', { 'X-Api-Key': fill(size, '\xc3\xa9') })],
  ['X-Request-Id', 200, (size) => get('/v1/alunos', { 'X-Request-Id': fill(size, 'a') })],
  ['traceparent', 200, (size) => get('/v1/alunos', { traceparent: `00-${fill(size, '0')}` })],
  ['X-Forwarded-For', 200, (size) => get('/v1/alunos', { 'X-Forwarded-For': fill(size, '1,') })],
  ['a forwarded address', 200, (size) => get('/v1/alunos', { 'X-Forwarded-For': `[${fill(size, '1:')},1` })],
  ['Host', 200, (size) => get('/v1/alunos', { Host: fill(size, 'a.') })],
  ['Expect', 417, (size) => get('/v1/alunos', { Expect: fill(size, '100-continue') })],
  ['Origin', 200, (size) => get('/v1/alunos', { Origin: `https://${fill(size, 'a.')}` })],
  ['If-None-Match', 200, (size) => get('/v1/alunos', { 'If-None-Match': fill(size, 'W/ ,') })],
  ['Accept-Encoding', 200, (size) => get('/v1/alunos', { 'Accept-Encoding': fill(size, 'br;q=0,') })],
  [
    'Accept-Language',
    422,
    (size) => get('/v1/alunos?limit=x', { 'Accept-Language': fillDistinct(size, ',', (n) => `x-${n}`) }),
  ],
  [
    'parameters of a language',
    422,
    (size) => get('/v1/alunos?limit=x', { 'Accept-Language': `pt${fill(size, ';q=1')}` }),
  ],
  ['Idempotency-Key', 422, (size) => post('{}', { 'Idempotency-Key': fill(size, 'a') })],
  [
    'headers that a page asks for',
    204,
    (size) =>
      request('OPTIONS', '/v1/alunos', {
        Origin: 'https://panel.example',
        'Access-Control-Request-Method': 'GET',
        'Access-Control-Request-Headers': fill(size, 'a,'),
      }),
  ],
  // Node accepts a thousand headers.
  ['headers', 200, (size) => get('/v1/alunos', { a: `b\r\n${fillDistinct(size, '\r\n', (n) => `${n}: abcdefghi`)}` })],
  ['a repeated header', 200, (size) => get('/v1/alunos', { a: `b${fill(size, '\r\na: abcdefghijk')}` })],
];

const bodies: readonly Row[] = [
  ['unknown fields', 422, (size) => post(`{${fillDistinct(size, ',', (n) => `"${n}":0`)}}`)],
  [
    'unknown fields, answered in Portuguese',
    422,
    (size) => post(`{${fillDistinct(size, ',', (n) => `"${n}":0`)}}`, { 'Accept-Language': 'pt-BR' }),
  ],
  ['a repeated field', 422, (size) => post(`{${fill(size, '"a":0,')}"a":0}`)],
  ['fields of a nested object', 422, (size) => post(`{"a":{${fillDistinct(size, ',', (n) => `"${n}":0`)}}}`)],
  ['nested arrays', 422, (size) => post(`{"a":${fill(size / 2, '[')}${fill(size / 2, ']')}}`)],
  ['nested objects', 422, (size) => post(`{"a":${fill((size * 5) / 6, '{"a":')}0${fill(size / 6, '}')}}`)],
  ['an array', 422, (size) => post(`{"a":[${fill(size, '0,')}0]}`)],
  ['an array of objects', 422, (size) => post(`{"a":[${fill(size, '{},')}0]}`)],
  ['parts that are wrong', 422, (size) => postParts(`[${fill(size, '{"a":{}},')}{}]`)],
  ['parts of parts that are wrong', 422, (size) => postParts(`[{"parts":[${fill(size, '{"a":{}},')}{}]}]`)],
  ['a string', 422, (size) => post(`{"p_nome":"${fill(size, 'a')}"}`)],
  ['escapes in a string', 422, (size) => post(`{"p_nome":"${fill(size, '\\n')}"}`)],
  ['a blank string', 422, (size) => post(`{"p_nome":"${fill(size, ' ')}"}`)],
  ['a long number', 422, (size) => post(`{"p_nome":${fill(size, '9')}}`)],
  ['an e-mail without @', 422, (size) => post(`{"p_email":"${fill(size, 'a.')}"}`)],
  ['an e-mail with many labels', 422, (size) => post(`{"p_email":"a@${fill(size, 'a.')}!"}`)],
  ['an e-mail with a long label', 422, (size) => post(`{"p_email":"a@${fill(size, 'a-')}!"}`)],

  ...BEGINNINGS.flatMap((begin) =>
    UNITS.map((unit): Row => {
      return [`a text of any format, ${begin}${unit}…`, 422, (size) => postText(`"${begin}${fill(size, unit)}!"`)];
    }),
  ),

  ['arguments of a tool', 200, (size) => postArguments(fillDistinct(size, ',', (n) => `"${n}":0`))],
  ['a nested argument', 200, (size) => postArguments(`"a":[${fill(size, '0,')}0]`)],
  ['an argument', 200, (size) => postArguments(`"Idempotency-Key":"${fill(size, '\xc3\xa9')}"`)],
  [
    'the name of a tool',
    200,
    (size) => postMessage(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"${fill(size, 'a')}"}}`),
  ],
  ['nested arrays in a message', 422, (size) => postMessage(`{"a":${fill(size / 2, '[')}${fill(size / 2, ']')}}`)],
  ['values of a message', 413, (size) => postMessage(`{"params":{${fillDistinct(size, ',', (n) => `"${n}":0`)}}}`)],
  ['a batch of messages', 422, (size) => postMessage(`[${fill(size, '{},')}{}]`)],
];

const requests = [
  ...heads.map((row) => [...row, HEAD] as const),
  ...bodies.map((row) => [...row, BODY] as const),
  // Nearly the maximum number of chunks.
  ['chunks of a body', 422, (size: number) => postChunks(`{"p_nome":"${fill(size, 'a')}"}`), 2_400] as const,
];

test.each(requests)('%s: the CPU time of a request is linear and short', async (_name, status, toRequest, limit) => {
  const last = 'GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n';
  const { least, most } = await measure(limit, MAX_HOLD_MS, (size) => {
    const batch = toRequest(size).repeat(REQUESTS_IN_BATCH) + last;
    return async () => {
      const begun = await askCpuTime();
      const answers = await sendRaw(url, batch);
      const used = (await askCpuTime()) - begun;
      const statuses = [...answers.matchAll(/HTTP\/1.1 (\d+)/g)].map(([, code]) => Number(code));
      expect(statuses.slice(0, -1)).toEqual(Array(REQUESTS_IN_BATCH).fill(status));
      return used / REQUESTS_IN_BATCH;
    };
  });
  expect.soft(most / least, 'growth').toBeLessThan(MAX_GROWTH);
  expect.soft(most, 'milliseconds').toBeLessThan(MAX_HOLD_MS);
});

async function askCpuTime(): Promise<number> {
  const answer = once(gateway, 'message');
  gateway.send('');
  return (await answer)[0];
}

const toColumn = (name: string): Column => ({
  name,
  type: 'text',
  required: true,
  max_length: 255,
  refers_to: null,
  takes_null: true,
  known_by: null,
});
const TABLE = { name: 'alunos', columns: [toColumn('nome'), toColumn('email')] };

/** The name of an input of an import, and the file with this many bytes of it. */
const imports: readonly (readonly [name: string, toFile: (size: number) => string])[] = [
  ['lines', (size) => `nome,email\n${fill(size, 'Ana,ana@a.br\n')}`],
  ['bad lines', (size) => `nome,email\n${fill(size, ' ,a\n')}`],
  ['unknown columns', (size) => `${fill(size, 'x,')}nome,email\n`],
  ['repeated columns', (size) => `${fill(size / 2, 'x,')}${fill(size / 2, 'nome,')}nome,email\n`],
  ['values', (size) => `nome,email\n${fill(size, 'a,')}\n`],
  ['a long value', (size) => `nome,email\n${fill(size, 'a')},ana@a.br\n`],
  ['a quote that is not closed', (size) => `nome,email\n"${fill(size, 'a""\n')}`],
  ['a header that does not end', (size) => fill(size, 'a,;')],
];

test.each(imports)('%s: the CPU time of an import is linear', async (_name, toFile) => {
  const { least, most } = await measure(FILE, Number.POSITIVE_INFINITY, (size) => {
    const file = toFile(size);
    return async () => {
      const begun = readCpuTime();
      await importFile(file);
      return readCpuTime() - begun;
    };
  });
  expect(most / least, 'growth').toBeLessThan(MAX_GROWTH);
});

/** Imports a file into a database that takes everything. */
async function importFile(file: string): Promise<void> {
  const db = { query: async () => ({ rows: [{ json: '[]' }] }) };
  const source = { table: 'alunos', name: 'file', read: async () => Buffer.from(file) };
  try {
    await importSource(db, TABLE, source, { tenant: 'tenant', timeZone: 'UTC', encoding: 'utf-8' });
  } catch (error) {
    if (!(error instanceof CommandError)) throw error;
  }
}

/** The lowest CPU time at a quarter of a limit and at the limit. The two take turns, so that noise affects both. */
async function measure(limit: number, maxMs: number, prepare: (size: number) => () => Promise<number>) {
  const [runLeast, runMost] = [prepare(limit / 4), prepare(limit)];
  let [least, most] = [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY];
  const isGood = () => most / least < MAX_GROWTH && most < maxMs;
  const isDone = (batch: number) => batch >= BATCHES && (isGood() || batch >= MAX_BATCHES);
  for (let batch = 0; !isDone(batch); batch += 1) {
    least = Math.min(least, await runLeast());
    most = Math.min(most, await runMost());
  }
  return { least, most };
}
