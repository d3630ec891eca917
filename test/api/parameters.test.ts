import { expect, test } from 'vitest';
import { call } from '../helpers/api.ts';

// What the contract tests do not derive from the document: how a query is read.

test.each(['%', '%f', '%zz', '%ff', '%C3', '%ED%A0%80', '%C0%80'])(
  'refuses a query that is not percent-encoded UTF-8: %s',
  async (text) => {
    for (const query of [`limit=${text}`, `${text}=1`, `foo=${text}&limit=0`]) {
      expect(await call(`/alunos?${query}`)).toMatchObject({ status: 400, body: { error: 'Malformed URL' } });
    }
  },
);

test.each([
  ['limit=99999999999999999999', { limit: ['must be <= 1000'] }],
  [`offset=${'9'.repeat(400)}`, { offset: ['must be integer'] }],
  ['limit=-0&offset=%2B5', { limit: ['must be integer'], offset: ['must be integer'] }],
  ['limit=1&limit=1&offset=1&offset=2&offset=3', { limit: ['must be given once'], offset: ['must be given once'] }],
  [
    'toString=1&__proto__=1',
    JSON.parse(
      '{"toString":["is not a parameter of this operation"],"__proto__":["is not a parameter of this operation"]}',
    ),
  ],
])('refuses %.60s', async (query, error) => {
  const answer = await call(`/alunos?${query}`);
  expect([answer.status, JSON.stringify(answer.body)]).toEqual([422, JSON.stringify({ error })]);
});

test('takes separators that separate nothing, and + for a blank', async () => {
  expect((await call('/alunos?&limit=1&&offset=0&')).status).toBe(200);
  expect((await call('/alunos?nome=na+al')).body).toMatchObject([{ nome: 'Ana Alves' }]);
});
