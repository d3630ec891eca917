import { describe, expect, test } from 'vitest';
import { call, KEYS } from '../helpers/api.ts';

type Aluno = { id: string; nome: string; ativo: boolean; academia_id: string | null; criado_em: string };

const CENTRO = 'a1000000-0000-4000-8000-000000000001';
const BRUNO = 'a2000000000040008000000000000001';

async function list(query: string, key = KEYS.aurora): Promise<Aluno[]> {
  const answer = await call(`/alunos?${query}`, { key });
  expect(answer.status).toBe(200);
  return answer.body as Aluno[];
}

const names = (students: Aluno[]) => students.map(({ nome }) => nome);

describe('pages', () => {
  test('are of 100 students unless told', async () => {
    expect(await list('')).toHaveLength(100);
    expect(await list('')).toEqual(await list('limit=100&offset=0'));
  });

  test('neither skip nor repeat', async () => {
    const all = await list('limit=1000');
    const pages = await Promise.all([0, 97, 194].map((offset) => list(`limit=97&offset=${offset}`)));
    expect(all).toHaveLength(250);
    expect(pages.flat()).toEqual(all);
  });

  test('come oldest first', async () => {
    const times = (await list('limit=1000')).map(({ criado_em }) => criado_em);
    expect(times).toEqual([...times].sort());
  });

  test('end empty beyond the last student', async () => {
    expect(await list('offset=250')).toEqual([]);
    expect(await list('offset=2147483647')).toEqual([]);
  });
});

describe('filters', () => {
  test('ativo tells active from inactive', async () => {
    const active = await list('limit=1000&ativo=true');
    const inactive = await list('limit=1000&ativo=false');
    expect([active.length, inactive.length]).toEqual([225, 25]);
    expect(active.every(({ ativo }) => ativo)).toBe(true);
    expect(inactive.some(({ ativo }) => ativo)).toBe(false);
  });

  test('academia_id gives the students of a gym, in any case of its letters', async () => {
    const students = await list(`limit=1000&academia_id=${CENTRO}`);
    const all = await list('limit=1000');
    expect(students).toEqual(all.filter(({ academia_id }) => academia_id === CENTRO));
    expect(students.length).toBeGreaterThan(0);
    expect(await list(`limit=1000&academia_id=${CENTRO.toUpperCase()}`)).toEqual(students);
  });

  test('id_personal gives the students of a trainer', async () => {
    expect(await list(`limit=1000&id_personal=${BRUNO}`)).toHaveLength(50);
    expect(await list(`limit=1000&id_personal=${BRUNO.toUpperCase()}`)).toHaveLength(50);
  });

  test.each(['x', 'b2000000000040008000000000000001', 'a'.repeat(64), 'a2000000_0000_4000_8000_000000000001'])(
    'id_personal=%s names no trainer of the tenant and gives nothing',
    async (id) => {
      expect(await list(`id_personal=${id}`)).toEqual([]);
    },
  );

  test('work together', async () => {
    const students = await list(`limit=1000&ativo=true&academia_id=${CENTRO}&id_personal=${BRUNO}&nome=alves`);
    const some = await list(`limit=1000&id_personal=${BRUNO}`);
    expect(students).toEqual(
      some.filter(({ ativo, academia_id, nome }) => ativo && academia_id === CENTRO && nome.includes('Alves')),
    );
  });
});

describe('nome', () => {
  test('is a part of the name, anywhere in it', async () => {
    expect(names(await list('nome=na%20al'))).toEqual(['Ana Alves']);
    expect(names(await list('nome=na+al'))).toEqual(['Ana Alves']);
  });

  test.each([
    ['érica alves', 'Érica Alves'],
    ['ÉRICA ALVES', 'Érica Alves'],
    ['JÚLIA CONCEIÇÃO', 'Júlia Conceição'],
    ['úrsula magalhães', 'Úrsula Magalhães'],
  ])('ignores the case of %s', async (nome, found) => {
    expect(names(await list(`nome=${encodeURIComponent(nome)}`))).toEqual([found]);
  });

  test.each([
    ['antonio alves', 'Antônio Alves'],
    ['ÂNTÕNÏO ÁLVES', 'Antônio Alves'],
    // Letters apart from their accents.
    ['A\u0300ntonio Alves', 'Antônio Alves'],
    ['ursula conceicao', 'Úrsula Conceição'],
  ])('ignores the accents of %s', async (nome, found) => {
    expect(names(await list(`nome=${encodeURIComponent(nome)}`))).toEqual([found]);
  });

  test('of an accent alone is in every name', async () => {
    expect(await list(`nome=${encodeURIComponent('\u0301')}`)).toEqual(await list('nome=a&limit=100'));
  });

  test.each(['%', '_', '\\', '%ana%', 'A_a', '\\A', '*'])('takes %s literally', async (nome) => {
    expect(await list(`nome=${encodeURIComponent(nome)}`)).toEqual([]);
  });

  test('finds pages as without it', async () => {
    const all = await list('limit=1000&nome=a');
    const pages = await Promise.all([0, 100, 200].map((offset) => list(`nome=a&offset=${offset}`)));
    expect(pages.flat()).toEqual(all);
    expect(all.length).toBeGreaterThan(200);
  });

  test.each(['a', 'a'.repeat(100), '🏋'.repeat(100)])('may be of 1 to 100 characters: %s', async (nome) => {
    expect((await call(`/alunos?nome=${encodeURIComponent(nome)}`)).status).toBe(200);
  });

  test.each([
    ['', 'must NOT have fewer than 1 characters'],
    ['a'.repeat(101), 'must NOT have more than 100 characters'],
    ['🏋'.repeat(101), 'must NOT have more than 100 characters'],
  ])('is refused outside of that: %s', async (nome, message) => {
    const answer = await call(`/alunos?nome=${encodeURIComponent(nome)}`);
    expect(answer).toMatchObject({ status: 422, body: { error: { nome: [message] } } });
  });
});

test.each(['', 'a-b', 'á', 'a b', 'a\n'])('refuses id_personal=%j', async (id) => {
  const answer = await call(`/alunos?id_personal=${encodeURIComponent(id)}`);
  expect(answer.status).toBe(422);
  expect(answer.body).toEqual({
    error: { id_personal: ["must be the trainer's id without hyphens (1 to 64 letters, digits or underscores)"] },
  });
});

test('refuses an id_personal of 65 characters', async () => {
  const { status, body } = await call(`/alunos?id_personal=${'a'.repeat(65)}`);
  const messages = [
    'must NOT have more than 64 characters',
    "must be the trainer's id without hyphens (1 to 64 letters, digits or underscores)",
  ];
  expect([status, body]).toEqual([422, { error: { id_personal: messages } }]);
});

test('gives null for the gym of a student without one', async () => {
  expect(await list('nome=Érica%20Alves')).toMatchObject([{ academia_id: null }]);
});

test('gives each tenant its own', async () => {
  expect(names(await list('', KEYS.bosque))).toEqual([
    'Álvaro Sá',
    'Bianca Muniz',
    'Cássio Prado',
    'Dalva Teixeira',
    'Éder Vilela',
  ]);
  expect(await list(`academia_id=${CENTRO}`, KEYS.bosque)).toEqual([]);
  expect(await list(`id_personal=${BRUNO}`, KEYS.bosque)).toEqual([]);
  expect(await list('nome=Ana%20Alves', KEYS.bosque)).toEqual([]);
});
