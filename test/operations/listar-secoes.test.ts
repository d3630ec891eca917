import { expect, test } from 'vitest';
import { call, KEYS } from '../helpers/api.ts';

const titles = async (query: string, key = KEYS.aurora) => {
  const answer = await call(`/anamnese/secoes?${query}`, { key });
  expect(answer.status).toBe(200);
  return (answer.body as { titulo: string }[]).map(({ titulo }) => titulo);
};

test('gives the active sections in the order of the form, not of their insertion', async () => {
  expect(await titles('')).toEqual([
    'Identificação',
    'Objetivos',
    'Histórico de lesões',
    'Medicamentos',
    'Hábitos de sono',
    'Alimentação',
  ]);
});

test('pages neither skip nor repeat', async () => {
  const pages = await Promise.all([0, 4].map((offset) => titles(`limit=4&offset=${offset}`)));
  expect(pages.flat()).toEqual(await titles(''));
});

test('gives each tenant its own', async () => {
  expect(await titles('', KEYS.bosque)).toEqual(['Identificação', 'Objetivos', 'Saúde']);
});
