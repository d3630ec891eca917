import { afterAll, expect, test } from 'vitest';
import { call, STUDENT } from '../helpers/api.ts';
import { openTestStore, startGateway } from '../helpers/gateway.ts';

// Checks what the document does not say, and the contract therefore does not test. supabase/tests has the rules of SQL.

const gateway = await startGateway({ store: await openTestStore() });
const { url } = gateway;

afterAll(async () => {
  await gateway.close();
  await gateway.store.close();
});

test('keeps names as they are, and the time', async () => {
  const before = Date.now();
  for (const nome of ['  Zé  ', '👩‍🏫 Conceição', "O'Neil; drop table alunos --", '\u202Eabc', '\\x00', 'a\nb']) {
    const { status, body } = await call('/alunos', { url, json: { ...STUDENT, p_nome: nome } });
    expect([status, body]).toMatchObject([201, { nome }]);
    expect(Date.parse((body as { criado_em: string }).criado_em)).toBeGreaterThanOrEqual(before - 1000);
  }
});

test('gives the first answer again to a body with the same fields, however it is written', async () => {
  const headers = { 'Idempotency-Key': '"outra-grafia~' };
  const student = { p_nome: 'Outra Grafia', p_email: 'a@b.co', p_data_nascimento: '17/05/1990' };
  const first = await call('/alunos', { url, headers, json: student });
  const again = await call('/alunos', {
    ...{ url, headers },
    body: '{ "p_data_nascimento": "17/05/1990", "p_email": "a@b.co",\n"p_nome": "Outra Gr\\u0061fia" }',
  });
  expect([first.status, again.status, again.body]).toEqual([201, 201, first.body]);
  expect(again.headers.get('Idempotent-Replayed')).toBe('true');
});

test('makes one student of more simultaneous requests than the store has connections', async () => {
  const headers = { 'Idempotency-Key': 'vinte' };
  const answers = await Promise.all(Array.from({ length: 20 }, () => call('/alunos', { url, headers, json: STUDENT })));
  expect(new Set(answers.map(({ status, body }) => `${status} ${JSON.stringify(body)}`)).size).toBe(1);
  expect(answers.filter((answer) => answer.headers.get('Idempotent-Replayed') === null)).toHaveLength(1);
});
