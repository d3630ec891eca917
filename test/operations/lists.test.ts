import { describe, expect, test } from 'vitest';
import { readExamples } from '../../src/openapi/examples.ts';
import { type CallOptions, call, document, lists, useGateway } from '../helpers/api.ts';

// Checks what the document does not say of its lists, so no test derives it.

async function list<T = { nome: string }>(query: string, path = '/alunos', options: CallOptions = {}): Promise<T[]> {
  const answer = await call(`${path}?${query}`, options);
  expect(answer.status).toBe(200);
  return answer.body as T[];
}

describe('the name of a student', () => {
  test.each([
    ['na al', 'Ana Alves'],
    ['ÉRICA ALVES', 'Érica Alves'],
    ['úrsula magalhães', 'Úrsula Magalhães'],
    ['ÂNTÕNÏO ÁLVES', 'Antônio Alves'],
    // The letter and its accent are two characters.
    ['A\u0300ntonio Alves', 'Antônio Alves'],
    ['ursula conceicao', 'Úrsula Conceição'],
  ])('is found by a part of it, whatever the case and the accents of its letters: %s', async (nome, found) => {
    expect((await list(`nome=${encodeURIComponent(nome)}`)).map((row) => row.nome)).toEqual([found]);
  });

  test('contains an accent alone', async () => {
    expect(await list(`nome=${encodeURIComponent('\u0301')}`)).toEqual(await list('nome=a'));
  });

  test.each(['%', '_', '\\', '%ana%', 'A_a', '\\A', '*'])('takes %s literally', async (nome) => {
    expect(await list(`nome=${encodeURIComponent(nome)}`)).toEqual([]);
  });

  test.each([
    'id_personal=a2000000000040008000000000000003',
    'academia_id=a1000000-0000-4000-8000-000000000002',
    'ativo=false',
  ])('is looked for among those with %s', async (filter) => {
    const all = await list(`limit=1000&${filter}`);
    const found = all.filter(({ nome }) => nome.endsWith(' Alves'));
    expect(found).not.toEqual([]);
    expect(await list(`nome=alves&${filter}`)).toEqual(found);
  });
});

test('an id may have either spelling, in either case, if its pattern allows it', async () => {
  const id = 'a3000000-0000-4000-8000-000000000062';
  const workouts = await list(`id_aluno=${id}`, '/treinos');
  expect(workouts).toMatchObject([{ id_aluno: id }, { id_aluno: id }]);
  expect(await list(`id_aluno=${id.replaceAll('-', '').toUpperCase()}`, '/treinos')).toEqual(workouts);
});

test.each(['', 'ninguém', '%25', '{a3000000-0000-4000-8000-000000000062}', 'a3-0000', 'null'])(
  'an id that names nothing gives nothing: %s',
  async (id) => {
    expect(await list(`id_aluno=${id}`, '/treinos')).toEqual([]);
    expect(await list(`id_personal=${id}`, '/treinos')).toEqual([]);
  },
);

test('usage continues after a record of an earlier day than the filter asks for', async () => {
  const rows = await list('dia_gte=2099-01-02&after=a8000000-0000-4000-8000-000000000001', '/uso');
  expect(rows).toEqual([expect.objectContaining({ dia: '2099-01-02' })]);
});

const NO_RECORD = 'must be the id of a record of the tenant';
const NO_CHANGE =
  'must be the id of a change that is still kept: read everything again, and then the changes without after';

test.each([
  ['/uso', 'b8000000-0000-4000-8000-000000000001', NO_RECORD],
  ['/alteracoes', '0060deb0-0000-8000-8000-000000001001', NO_CHANGE],
  ['/alteracoes', '0060dea0-0000-8000-8000-000000001002', NO_CHANGE],
])('%s does not continue after a record of another tenant, or an unknown one: %s', async (path, after, message) => {
  const { status, body } = await call(`${path}?after=${after}`);
  expect([status, body]).toEqual([422, { error: { after: [message] } }]);
});

test.each(['academias', 'personais', 'treinos'])('the changes name every record of %s', async (name) => {
  const changes = await list<{ registro_id: string }>(`limit=1000&recurso=${name}`, '/alteracoes');
  const records = await list<{ id: string }>('limit=1000', `/${name}`);
  expect(new Set(changes.map(({ registro_id }) => registro_id))).toEqual(new Set(records.map(({ id }) => id)));
});

describe('of records of the same time', () => {
  const tables = ['academias', 'personais', 'alunos', 'treinos', 'anamneses'];
  const updates = tables.map((name) => `update private.${name} set criado_em = '2024-01-01'`);
  // The filters find several of them.
  const gateway = useGateway({
    sql: `${updates.join('; ')}; update private.anamnese_secoes set ordem = 1; update private.academias set ativo = false;
      update private.personais set academia_id = 'a1000000-0000-4000-8000-000000000003' where email like '%@aurora.example'`,
  });

  test.each(lists)('$id gives what the filters of each example find by id, from any place on', async ({ id, path }) => {
    for (const { operationId, status, request } of readExamples(document)) {
      if (operationId !== id || status !== 200) continue;
      const all = [...new URL(request.target, gateway.url).searchParams];
      const filters = all.filter(([name]) => !['limit', 'offset', 'after'].includes(name));
      const read = (place: Record<string, string>) => {
        const query = new URLSearchParams([...filters, ...Object.entries(place)]);
        return list<{ id: string }>(`${query}`, path, { url: gateway.url });
      };
      const whole = await read({ limit: '1000' });
      const ids = whole.map((record) => record.id);
      expect(ids).toEqual(ids.toSorted());
      const [first, ...rest] = whole;
      expect(await read({ limit: '999', offset: '1' })).toEqual(rest);
      if (first) expect(await read({ limit: '999', after: first.id })).toEqual(rest);
    }
  });
});
