import type { RequestHandler } from 'express';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { serveDocs } from '../../src/http/docs.ts';
import { serveHealth, serveMetrics } from '../../src/http/health.ts';
import { readDocument } from '../../src/openapi/document.ts';
import { KEYS, STUDENT } from '../helpers/api.ts';
import { startGateway, type TestGateway } from '../helpers/gateway.ts';
import { expectSecure } from '../helpers/secure-headers.ts';
import { type SendOptions, send } from '../helpers/send.ts';
import { createStudentsAndFailures } from '../helpers/stub-store.ts';

const store = createStudentsAndFailures(100);

let gateway: TestGateway;
let origin: string;

beforeAll(async () => {
  const document = await readDocument('openapi.yaml');
  const checks = { store: 'Data store unavailable', contract: 'ok' };
  const readiness = { read: async () => ({ status: 'not ready', checks }) as const };
  const rateLimiter: RequestHandler = (req, _res, next) => {
    if (req.headers['x-break']) throw new Error('a mistake of ours');
    next();
  };
  const metrics = { contentType: 'text/plain', read: async () => '' };
  const operational = [serveHealth(readiness), serveMetrics(metrics)];
  gateway = await startGateway({
    store,
    parts: { operational, rateLimiter, docs: serveDocs(() => ({ source: document, texts: new Map() })) },
  });
  origin = new URL(gateway.url).origin;
});

afterAll(() => gateway.close());

const post = (body: string): SendOptions => ({ method: 'POST', body });
const withHeader = (name: string, value: string): SendOptions => ({ headers: { [name]: value } });

test.each<[status: number, target: string, options: SendOptions]>([
  [200, '/v1/alunos', {}],
  [200, '/v1/alunos', { method: 'HEAD' }],
  [200, '/v1/alunos?limit=100', withHeader('Accept-Encoding', 'br')],
  [201, '/v1/alunos', post(JSON.stringify(STUDENT))],
  [304, '/v1/alunos', withHeader('If-None-Match', '*')],
  [400, '/v1/alunos', withHeader('X-Api-Key', '')],
  [400, '/v1/alunos', post('{')],
  [400, '/v1/%ff', {}],
  [401, '/v1/alunos', withHeader('X-Api-Key', 'refused')],
  [404, '/nada', {}],
  [404, '/v1/nada', {}],
  [405, '/v1/alunos', { method: 'PUT' }],
  [405, '/v1/alunos', { method: 'OPTIONS' }],
  [413, '/v1/alunos', post('x'.repeat(100_001))],
  [422, '/v1/alunos?limit=0', {}],
  [500, '/v1/alunos', withHeader('X-Break', '1')],
  [502, '/v1/alunos', withHeader('X-Api-Key', 'unlucky')],
  [200, '/healthz', {}],
  [503, '/readyz', {}],
  [200, '/metrics', {}],
  [200, '/openapi.json', {}],
  [200, '/openapi.yaml', {}],
  [308, '/docs/', {}],
  [200, '/docs', {}],
])('a %i of %s has the id of its request, and is of no use to a browser: %j', async (status, target, options) => {
  const headers = { 'X-Api-Key': KEYS.aurora, 'X-Request-Id': 'asked', ...options.headers };
  const answer = await send(origin + target, { ...options, headers });
  expect([answer.status, answer.headers['x-request-id']]).toEqual([status, 'asked']);
  expectSecure(answer.headers);
  // The page has a policy of its own.
  expect(answer.headers['content-security-policy']?.includes('script-src')).toBe(target === '/docs');
});
