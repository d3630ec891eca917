import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Answer, type CallOptions, call, KEYS, STUDENT } from '../helpers/api.ts';
import { openTestStore, startGateway, type TestGateway } from '../helpers/gateway.ts';

// What the document does not say, so that no test derives it. supabase/tests has the rules of SQL.

const CENTRO = 'a1000000-0000-4000-8000-000000000001';
let gateway: TestGateway;

beforeAll(async () => {
  gateway = await startGateway({ store: await openTestStore() });
});

afterAll(async () => {
  await gateway.close();
  await gateway.store.close();
});

const create = (json: unknown, options: CallOptions = {}) => call('/alunos', { url: gateway.url, json, ...options });
const list = async (nome: string) =>
  (await call(`/alunos?limit=1000&nome=${encodeURIComponent(nome)}`, { url: gateway.url })).body;

test('creates a student that the list then has', async () => {
  const before = Date.now();
  const answer = await create({ ...STUDENT, p_academia_id: CENTRO, p_telefone: '1', p_sexo: 'x', p_modalidade: 'y' });
  const { id, criado_em } = answer.body as { id: string; criado_em: string };
  const student = { id, nome: 'Ana Prado', email: 'ana@aurora.example', ativo: true, academia_id: CENTRO, criado_em };
  expect([answer.status, answer.body]).toEqual([201, student]);
  expect(Date.parse(criado_em)).toBeGreaterThanOrEqual(before - 1000);
  expect(await list('Ana Prado')).toEqual([student]);
});

test('keeps names as they are', async () => {
  for (const nome of ['  Zé  ', '👩‍🏫 Conceição', "O'Neil; drop table alunos --", '\u202Eabc', '\\x00', 'a\nb']) {
    expect(await create({ ...STUDENT, p_nome: nome })).toMatchObject({ status: 201, body: { nome } });
  }
});

test('reports every invalid field that needs no database at once, and then those that only the database can check', async () => {
  const foreign = 'b1000000-0000-4000-8000-000000000001';
  const date = 'must be a date that exists, as YYYY-MM-DD or DD/MM/YYYY';
  const first = await create({ ...STUDENT, p_nome: '', p_data_nascimento: '2024-02-30', p_academia_id: foreign });
  expect(first).toMatchObject({ status: 422, body: { error: { p_data_nascimento: [date] } } });
  expect(Object.keys((first.body as { error: object }).error)).toEqual(['p_nome', 'p_data_nascimento']);
  const second = await create({ ...STUDENT, p_academia_id: foreign });
  expect([second.status, second.body]).toEqual([
    422,
    { error: { p_academia_id: ['must be the id of a gym of the tenant'] } },
  ]);
});

describe('Idempotency-Key', () => {
  const isReplayed = ({ headers }: Answer) => headers.get('Idempotent-Replayed') === 'true';
  const once = (key: string, json: unknown = STUDENT, options: CallOptions = {}) =>
    create(json, { headers: { 'Idempotency-Key': key }, ...options });

  test('gives the first answer again to a body with the same fields, however it is written', async () => {
    const student = { p_nome: 'Outra Grafia', p_email: 'a@b.co', p_data_nascimento: '17/05/1990' };
    const first = await once('"outra-grafia~', student);
    const again = await call('/alunos', {
      url: gateway.url,
      body: '{ "p_data_nascimento": "17/05/1990", "p_email": "a@b.co",\n"p_nome": "Outra Gr\\u0061fia" }',
      headers: { 'idempotency-key': '"outra-grafia~' },
    });
    expect(again).toMatchObject({ status: 201, body: first.body });
    expect([first, again].map(isReplayed)).toEqual([false, true]);
    expect(await list('Outra Grafia')).toEqual([first.body]);
  });

  test('makes one student of 50 requests at once', async () => {
    const student = { ...STUDENT, p_nome: 'Cinquenta' };
    const answers = await Promise.all(Array.from({ length: 50 }, () => once('cinquenta', student)));
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([201]));
    expect(new Set(answers.map(({ body }) => JSON.stringify(body))).size).toBe(1);
    expect(answers.filter((answer) => !isReplayed(answer))).toHaveLength(1);
    expect(await list('Cinquenta')).toHaveLength(1);
  });

  test('gives nothing to an API key that is refused', async () => {
    await once('sem-permissao');
    const answer = await once('sem-permissao', STUDENT, { key: KEYS.readOnly });
    expect(answer).toMatchObject({ status: 401, body: { error: 'API Key sem permissão para criar_aluno' } });
  });

  test('means nothing to a list', async () => {
    const headers = { 'Idempotency-Key': '' };
    expect((await call('/academias', { url: gateway.url, headers })).status).toBe(200);
  });
});
