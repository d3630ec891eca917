import { expect, test } from 'vitest';
import { call, KEYS } from '../helpers/api.ts';

type Treino = { id: string; id_aluno: string; id_personal: string; ativo: boolean; data_inicio: string };

async function list(query: string, key = KEYS.aurora): Promise<Treino[]> {
  const answer = await call(`/treinos?${query}`, { key });
  expect(answer.status).toBe(200);
  return answer.body as Treino[];
}

test('gives all workouts in pages that neither skip nor repeat', async () => {
  const all = await list('limit=1000');
  const pages = await Promise.all([0, 100, 200, 300].map((offset) => list(`offset=${offset}`)));
  expect(all).toHaveLength(400);
  expect(pages.flat()).toEqual(all);
});

test('ativo tells active from inactive', async () => {
  expect(await list('limit=1000&ativo=true')).toHaveLength(300);
  expect((await list('limit=1000&ativo=false')).every(({ ativo }) => !ativo)).toBe(true);
});

test('id_aluno takes the id with hyphens and without', async () => {
  const id = 'a3000000-0000-4000-8000-000000000062';
  const workouts = await list(`id_aluno=${id}`);
  expect(workouts.map(({ id_aluno }) => id_aluno)).toEqual([id, id]);
  expect(await list(`id_aluno=${id.replaceAll('-', '')}`)).toEqual(workouts);
});

test('id_personal takes the id with hyphens and without, and gives it without', async () => {
  const id = 'a2000000-0000-4000-8000-000000000003';
  const workouts = await list(`limit=1000&id_personal=${id}`);
  expect(workouts).toHaveLength(100);
  expect(workouts.every(({ id_personal }) => id_personal === id.replaceAll('-', ''))).toBe(true);
  expect(await list(`limit=1000&id_personal=${id.replaceAll('-', '')}`)).toEqual(workouts);
});

test("a workout's id_personal finds the trainer's students", async () => {
  const [workout] = await list('limit=1');
  const answer = await call(`/alunos?id_personal=${workout?.id_personal}`);
  expect(answer.status).toBe(200);
  expect(answer.body).not.toEqual([]);
});

test.each(['', 'ninguém', '%25', '{a3000000-0000-4000-8000-000000000062}', 'a3-0000', 'null'])(
  'an id that names nothing gives nothing: %s',
  async (id) => {
    expect(await list(`id_aluno=${id}`)).toEqual([]);
    expect(await list(`id_personal=${id}`)).toEqual([]);
  },
);

test('data_inicio_gte includes the day itself', async () => {
  const all = await list('limit=1000');
  const day = '2024-12-31';
  expect(await list(`limit=1000&data_inicio_gte=${day}`)).toEqual(all.filter(({ data_inicio }) => data_inicio >= day));
  expect((await list(`limit=1000&data_inicio_gte=${day}`)).some(({ data_inicio }) => data_inicio === day)).toBe(true);
});

test.each(['2024-02-29', '0001-01-01', '9999-12-31'])('data_inicio_gte takes %s', async (date) => {
  await list(`data_inicio_gte=${date}`);
});

test.each([
  '',
  '2024-02-30',
  '2023-02-29',
  '2024-13-01',
  '0000-01-01',
  'today',
  'infinity',
  '-infinity',
  'epoch',
  '01/02/2024',
  '2024-1-1',
  '20240101',
  '2024-01-01T00:00:00Z',
  ' 2024-01-01',
  '10000-01-01',
])('data_inicio_gte refuses %j', async (date) => {
  const answer = await call(`/treinos?data_inicio_gte=${encodeURIComponent(date)}`);
  expect(answer.status).toBe(422);
  expect(answer.body).toEqual({ error: { data_inicio_gte: ['must match format "date"'] } });
});

test('gives each tenant its own', async () => {
  expect(await list('', KEYS.bosque)).toHaveLength(5);
  expect(await list('id_aluno=a3000000-0000-4000-8000-000000000062', KEYS.bosque)).toEqual([]);
});
