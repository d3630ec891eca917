import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { KEYS, STUDENT } from '../helpers/api.ts';
import { startGateway, type TestGateway } from '../helpers/gateway.ts';
import { namesIn, type RawAnswer, send } from '../helpers/send.ts';
import { createStudentsAndFailures } from '../helpers/stub-store.ts';

const PANEL = 'https://painel.example';
const LOCAL = 'http://localhost:5173';
const store = createStudentsAndFailures(500);

const ends: (() => Promise<void>)[] = [];
const start = async (corsOrigins?: readonly string[]): Promise<TestGateway> => {
  const gateway = await startGateway({ store, parts: corsOrigins ? { corsOrigins } : {} });
  ends.push(gateway.close);
  return gateway;
};

afterAll(async () => {
  for (const end of ends) await end();
});

const allowed = ({ headers }: RawAnswer) =>
  Object.fromEntries(Object.entries(headers).filter(([name]) => name.startsWith('access-control-')));

const preflight = (url: string, origin: string, more: Record<string, string> = {}) =>
  send(`${url}/alunos`, {
    method: 'OPTIONS',
    headers: {
      Origin: origin,
      'Access-Control-Request-Method': 'POST',
      'Access-Control-Request-Headers': 'content-type,idempotency-key,x-api-key,x-request-id',
      ...more,
    },
  });

/** Requests that end in every way in which a browser can make them end. */
const ENDINGS: [what: string, status: number, target: string, options: Parameters<typeof send>[1] & object][] = [
  ['a list', 200, '/alunos', {}],
  ['a list for HEAD', 200, '/alunos', { method: 'HEAD' }],
  ['a copy that holds', 304, '/alunos', { headers: { 'If-None-Match': '*' } }],
  ['a creation', 201, '/alunos', { method: 'POST', body: JSON.stringify(STUDENT) }],
  ['no JSON', 400, '/alunos', { method: 'POST', body: '{' }],
  ['no key', 400, '/alunos', { headers: { 'X-Api-Key': '' } }],
  ['a refused key', 401, '/alunos', { headers: { 'X-Api-Key': 'refused' } }],
  ['no such path', 404, '/nada', {}],
  ['no such method', 405, '/alunos', { method: 'DELETE' }],
  ['a body that is too large', 413, '/alunos', { method: 'POST', body: 'x'.repeat(100_001) }],
  ['invalid parameters', 422, '/alunos?limit=0', {}],
  ['a fault of the store', 502, '/alunos', { headers: { 'X-Api-Key': 'unlucky' } }],
];

const ask = (url: string, target: string, options: Parameters<typeof send>[1], origin: string) =>
  send(url + target, { ...options, headers: { 'X-Api-Key': KEYS.aurora, Origin: origin, ...options?.headers } });

describe('without origins', () => {
  test('a preflight is a method that is not allowed', async () => {
    const { url } = await start();
    const answer = await preflight(url, PANEL);
    expect([answer.status, answer.text]).toEqual([405, '{"error":"Method not allowed"}']);
    expect(allowed(answer)).toEqual({});
  });

  test('no page of another origin may read anything', async () => {
    const { url } = await start([]);
    for (const [what, status, target, options] of ENDINGS) {
      const answer = await ask(url, target, options, PANEL);
      expect([what, answer.status, allowed(answer)]).toEqual([what, status, {}]);
      expect(namesIn(answer.headers.vary)).not.toContain('origin');
    }
  });
});

describe('with origins', () => {
  let url: string;

  beforeAll(async () => {
    url = (await start([PANEL, LOCAL])).url;
  });

  test.each([PANEL, LOCAL])('a preflight of %s is no call and gets the allowed methods and headers', async (origin) => {
    store.calls.length = 0;
    const answer = await preflight(url, origin);
    expect([answer.status, answer.text]).toEqual([204, '']);
    const { 'access-control-allow-headers': headers, 'access-control-allow-methods': methods } = answer.headers;
    expect(namesIn(headers)).toEqual(['content-type', 'idempotency-key', 'x-api-key', 'x-request-id']);
    expect(namesIn(methods)).toEqual(expect.arrayContaining(['get', 'post']));
    expect(answer.headers).toMatchObject({ 'access-control-allow-origin': origin, 'access-control-max-age': '600' });
    expect(namesIn(answer.headers.vary)).toEqual(['origin', 'access-control-request-headers']);
    expect(store.calls).toEqual([]);
  });

  test.each(ENDINGS)('a page may read the answer to %s, which is a %i', async (_what, status, target, options) => {
    const answer = await ask(url, target, options, PANEL);
    expect(answer.status).toBe(status);
    expect(answer.headers['access-control-allow-origin']).toBe(PANEL);
    expect(namesIn(answer.headers['access-control-expose-headers'])).toEqual([
      'content-language',
      'etag',
      'link',
      'ratelimit',
      'ratelimit-policy',
      'retry-after',
      'x-request-id',
    ]);
    expect(namesIn(answer.headers.vary)).toContain('origin');
    expect(answer.headers).not.toHaveProperty('access-control-allow-credentials');
  });

  test.each([
    'https://outro.example',
    'null',
    'http://painel.example',
    'https://painel.example:443',
    'https://PAINEL.example',
    'https://painel.example.outro.example',
    'https://outro.painel.example',
    `${PANEL}, ${LOCAL}`,
    '*',
    '',
  ])('a page of %j may read nothing', async (origin) => {
    const answers = [await preflight(url, origin)];
    for (const [, , target, options] of ENDINGS) answers.push(await ask(url, target, options, origin));
    for (const { headers } of answers) {
      expect(headers).not.toHaveProperty('access-control-allow-origin');
      expect(headers).not.toHaveProperty('access-control-allow-credentials');
      // Or a cache would give the one origin's answer to another.
      expect(namesIn(headers.vary)).toContain('origin');
    }
  });

  test('a client that is no browser is served as without', async () => {
    const answer = await send(`${url}/alunos?limit=1`, { headers: { 'X-Api-Key': KEYS.aurora } });
    expect(answer.status).toBe(200);
    expect(answer.headers).not.toHaveProperty('access-control-allow-origin');
    expect(namesIn(answer.headers.vary)).toEqual(['origin', 'x-api-key', 'accept-encoding']);
  });

  test('the languages of a 422 are told apart beside the origins', async () => {
    const options = { headers: { 'Accept-Language': 'pt-BR' } };
    const { headers } = await ask(url, '/alunos?limit=0', options, PANEL);
    expect(namesIn(headers.vary)).toEqual(['origin', 'accept-language', 'accept-encoding']);
    expect(headers['content-language']).toBe('pt-BR');
  });
});

describe('with every origin', () => {
  test.each([[['*']], [[PANEL, '*']]])('any page may read everything, without credentials: %j', async (origins) => {
    const { url } = await start(origins);
    for (const origin of [PANEL, 'https://outro.example', 'null']) {
      expect((await preflight(url, origin)).headers['access-control-allow-origin']).toBe('*');
      for (const [, status, target, options] of ENDINGS) {
        const answer = await ask(url, target, options, origin);
        expect([answer.status, answer.headers['access-control-allow-origin']]).toEqual([status, '*']);
        expect(answer.headers).not.toHaveProperty('access-control-allow-credentials');
      }
    }
  });
});
