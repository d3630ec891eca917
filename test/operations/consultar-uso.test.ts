import { expect, test } from 'vitest';
import { call, KEYS } from '../helpers/api.ts';

// The days of the demo data: those of the test run are counted at the same time.
const usage = async (query: string, key = KEYS.aurora) => {
  const answer = await call(`/uso?dia_gte=2099-01-01&${query}`, { key });
  expect(answer.status).toBe(200);
  const rows = answer.body as { dia: string; operacao: string; classe: string; chamadas: number }[];
  return rows.map(({ dia, operacao, classe, chamadas }) => `${dia} ${operacao} ${classe} ${chamadas}`);
};
const ALL = ['2099-01-01 listarAlunos 2xx 1180', '2099-01-01 listarAlunos 429 12', '2099-01-02 criarAluno 2xx 7'];

test('gives the calls of the key by day, operation and class', async () => {
  expect(await usage('')).toEqual(ALL);
  expect(await usage('', KEYS.bosque)).toEqual(['2099-01-01 listarTreinos 2xx 40']);
});

test('pages neither skip nor repeat', async () => {
  const pages = await Promise.all([0, 2].map((offset) => usage(`limit=2&offset=${offset}`)));
  expect(pages.flat()).toEqual(ALL);
  expect(await usage('after=a8000000-0000-4000-8000-000000000001')).toEqual(ALL.slice(1));
});

test('continues after a record of an earlier day than the filter asks for', async () => {
  const { body } = await call('/uso?dia_gte=2099-01-02&after=a8000000-0000-4000-8000-000000000001');
  expect(body).toEqual([expect.objectContaining({ dia: '2099-01-02' })]);
});

test('does not continue after a record of another key', async () => {
  const { status, body } = await call('/uso?after=b8000000-0000-4000-8000-000000000001');
  expect([status, body]).toEqual([422, { error: { after: ['must be the id of a record of the tenant'] } }]);
});
