// Rules of the database about several fields of a body, some of which are left out.

import { expect, test } from 'vitest';
import type { Exchange } from '../../../scripts/conformance/client.ts';
import { runWith } from './checks.ts';

const PATHS = `
/aulas:
  post:
    operationId: criar
    x-rpc: criar
    requestBody:
      required: true
      content: { application/json: { schema: { type: object, additionalProperties: false, properties: {
        nome: { type: string, maxLength: 9 },
        inicio: &hour { type: integer, minimum: 0, maximum: 24, x-rule: fim > inicio },
        fim: *hour } } } }
    responses: { '201': { description: OK, content: { application/json: { schema: { type: object } } } } }`;

test('a rule may refuse a field by a default, but a field without a rule may not be refused', async () => {
  const exchange: Exchange = async ({ body = '{}' }) => {
    const { nome, inicio = 8, fim = 18 } = JSON.parse(body);
    const isRefused = nome !== undefined || fim <= inicio;
    const answer = isRefused ? { error: { fim: ['must satisfy fim > inicio'] } } : {};
    const headers = { 'content-type': 'application/json' };
    return { status: isRefused ? 422 : 201, headers, text: JSON.stringify(answer), body: answer };
  };
  const found = (await runWith(PATHS, exchange)).filter(({ name }) => name.startsWith('takes '));
  expect(found.map(({ name, result }) => `${name}: ${result}`)).toEqual([
    'takes nome: failed',
    'takes inicio: passed',
    'takes fim: passed',
    'takes all inputs together: passed',
  ]);
});
