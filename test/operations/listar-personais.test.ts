import { expect, test } from 'vitest';
import { call, KEYS } from '../helpers/api.ts';

const names = async (query: string, key = KEYS.aurora) => {
  const answer = await call(`/personais?${query}`, { key });
  expect(answer.status).toBe(200);
  return (answer.body as { nome: string }[]).map(({ nome }) => nome);
};

test('gives all trainers, oldest first, the inactive ones too', async () => {
  expect(await names('')).toEqual(['Bruno Araújo', 'Débora Gonçalves', 'Ícaro Nunes', 'Zilá Peixoto']);
});

test('academia_id gives the trainers of a gym', async () => {
  expect(await names('academia_id=a1000000-0000-4000-8000-000000000001')).toEqual(['Bruno Araújo', 'Débora Gonçalves']);
});

test('a gym of another tenant gives what one that does not exist gives', async () => {
  expect(await names('academia_id=b1000000-0000-4000-8000-000000000001')).toEqual([]);
  expect(await names('academia_id=ffffffff-ffff-4fff-8fff-ffffffffffff')).toEqual([]);
});

test('pages neither skip nor repeat', async () => {
  expect([...(await names('limit=3')), ...(await names('limit=3&offset=3'))]).toEqual(await names(''));
});

test('gives each tenant its own', async () => {
  expect(await names('', KEYS.bosque)).toEqual(['Otávio Leão']);
});
