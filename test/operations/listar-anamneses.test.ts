import { expect, test } from 'vitest';
import { call, KEYS } from '../helpers/api.ts';

type Anamnese = { id: string; id_aluno: string; status: string; resposta: Record<string, unknown> };

async function list(query: string, key = KEYS.aurora): Promise<Anamnese[]> {
  const answer = await call(`/anamnese/alunos?${query}`, { key });
  expect(answer.status).toBe(200);
  return answer.body as Anamnese[];
}

test('gives the 50 of 60 that are filled in', async () => {
  const all = await list('limit=1000');
  expect(all).toHaveLength(50);
  expect(all.every(({ resposta }) => Object.keys(resposta).length > 0)).toBe(true);
});

test.each(['a3000000-0000-4000-8000-000000000006', 'a3000000-0000-4000-8000-000000000012'])(
  'leaves out one without answers: %s',
  async (id) => {
    expect(await list(`id_aluno=${id}`)).toEqual([]);
  },
);

test('id_aluno takes the id with hyphens and without', async () => {
  const id = 'a3000000-0000-4000-8000-000000000004';
  const found = await list(`id_aluno=${id}`);
  expect(found.map(({ id_aluno }) => id_aluno)).toEqual([id]);
  expect(await list(`id_aluno=${id.replaceAll('-', '')}`)).toEqual(found);
});

test('status is compared as it is', async () => {
  const found = await list('status=em_revisao');
  expect(found).toHaveLength(10);
  expect(found.every(({ status }) => status === 'em_revisao')).toBe(true);
  expect(await list('status=EM_REVISAO')).toEqual([]);
  expect(await list('status=em%25')).toEqual([]);
  expect(await list('status=')).toEqual([]);
});

test('pages neither skip nor repeat', async () => {
  const pages = await Promise.all([0, 20, 40].map((offset) => list(`limit=20&offset=${offset}`)));
  expect(pages.flat()).toEqual(await list('limit=1000'));
});

test('gives each tenant its own', async () => {
  expect(await list('', KEYS.bosque)).toHaveLength(2);
  expect(await list('id_aluno=a3000000-0000-4000-8000-000000000004', KEYS.bosque)).toEqual([]);
});
