import { expect, test } from 'vitest';
import { call, KEYS } from '../helpers/api.ts';

type Change = { id: string; recurso: string; registro_id: string; tipo: string };

async function changes(query: string, key = KEYS.aurora): Promise<Change[]> {
  const answer = await call(`/alteracoes?${query}`, { key });
  expect(answer.status).toBe(200);
  return answer.body as Change[];
}

test('the changes name every record of the lists', async () => {
  for (const [recurso, path] of [
    ['academias', '/academias'],
    ['personais', '/personais'],
    ['treinos', '/treinos?limit=1000'],
  ] as const) {
    const own = (await changes(`limit=1000&recurso=${recurso}`)).map(({ registro_id }) => registro_id);
    const { body } = await call(path);
    expect(new Set(own)).toEqual(new Set((body as { id: string }[]).map(({ id }) => id)));
  }
});

test('pages neither skip nor repeat, also within one statement', async () => {
  const all = await changes('limit=1000&recurso=treinos');
  const paged: Change[] = [];
  for (let page = all.slice(0, 0), after = ''; ; after = `&after=${page.at(-1)?.id}`) {
    page = await changes(`limit=150&recurso=treinos${after}`);
    paged.push(...page);
    if (page.length < 150) break;
  }
  expect(paged).toEqual(all);
  expect(await changes('limit=150&offset=150&recurso=treinos')).toEqual(all.slice(150, 300));
  expect(all.map(({ id }) => id)).toEqual(all.map(({ id }) => id).sort());
});

test.each([
  ['of another tenant', '0060deb0-0000-8000-8000-000000001001'],
  ['that never was', '0060dea0-0000-8000-8000-000000001002'],
])('does not continue after a change %s', async (_what, after) => {
  const { status, body } = await call(`/alteracoes?after=${after}`);
  const message =
    'must be the id of a change that is still kept: read everything again, and then the changes without after';
  expect([status, body]).toEqual([422, { error: { after: [message] } }]);
});
