import { expect, test } from 'vitest';
import { call, KEYS } from '../helpers/api.ts';

const names = async (query: string, key = KEYS.aurora) => {
  const answer = await call(`/academias?${query}`, { key });
  expect(answer.status).toBe(200);
  return (answer.body as { nome: string }[]).map(({ nome }) => nome);
};

test('gives all gyms, oldest first', async () => {
  expect(await names('')).toEqual(['Aurora Centro', 'Aurora Praia', 'Aurora São João']);
});

test('ativo tells active from inactive', async () => {
  expect(await names('ativo=true')).toEqual(['Aurora Centro', 'Aurora Praia']);
  expect(await names('ativo=false')).toEqual(['Aurora São João']);
});

test('pages neither skip nor repeat', async () => {
  expect(await names('limit=2')).toEqual(['Aurora Centro', 'Aurora Praia']);
  expect(await names('limit=2&offset=2')).toEqual(['Aurora São João']);
});

test('gives each tenant its own', async () => {
  expect(await names('', KEYS.bosque)).toEqual(['Bosque Matriz']);
});
