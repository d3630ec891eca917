import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { findDrift } from '../../src/openapi/drift.ts';
import type { Result, Store } from '../../src/store/store.ts';
import { document, KEYS } from '../helpers/api.ts';
import { createCall, listCall } from '../helpers/calls.ts';
import { compileOnce, openTestStore } from '../helpers/gateway.ts';

// What every store has to do, whatever is behind it. The interface's tests run through each of them too.

const never = new AbortController().signal;
/** More than the demo data's students take, and less than its workouts. */
const ANSWER_LIMIT = 80_000;
let store: Store;

beforeAll(async () => {
  store = await openTestStore({ answerLimit: ANSWER_LIMIT });
});

afterAll(() => store.close());

function jsonOf(result: Result): unknown {
  if ('failure' in result) throw new Error(`${result.failure.kind}: ${JSON.stringify(result.failure)}`);
  return JSON.parse(result.json);
}

test('is of the kind that its project is for, and says so without a password or a key', () => {
  const descriptions = {
    postgres: /^Postgres at /,
    supabase: /^Supabase at /,
    citus: /^Postgres at /,
    'citus by PostgREST': /^Supabase at /,
  };
  expect(store.description).toMatch(descriptions[inject('kind')]);
  expect(store.description).not.toMatch(/only-for-tests|eyJ/);
});

test('can be reached', async () => {
  expect(await store.check(never)).toBeUndefined();
});

test('describes its functions as the document has them', async () => {
  const { operations } = await compileOnce(document);
  const description = await store.describe(never);
  if ('failure' in description) throw description.failure.cause;
  expect(findDrift(operations, description.functions)).toEqual([]);
  const { arguments: args } = description.functions.find(({ name }) => name === 'listar_treinos') ?? { arguments: [] };
  // Somebody may have added one.
  expect(args.map(({ name, type, hasDefault }) => `${name} ${type} ${hasDefault}`)).toEqual(
    expect.arrayContaining([
      'p_api_key text false',
      'p_ativo boolean true',
      'p_limit integer true',
      'p_offset integer true',
      'p_id_aluno text true',
      'p_id_personal text true',
      'p_data_inicio_gte date true',
      'p_after uuid true',
    ]),
  );
});

describe('a call', () => {
  test('gives rows as a JSON array', async () => {
    expect(jsonOf(await store.call(listCall({ p_limit: 1 }), never))).toEqual([
      {
        id: 'a3000000-0000-4000-8000-000000000001',
        nome: 'Ana Alves',
        email: 'aluno001@aurora.example',
        ativo: true,
        academia_id: 'a1000000-0000-4000-8000-000000000002',
        criado_em: '2024-02-01T09:00:00+00:00',
      },
    ]);
  });

  test('gives no rows as an empty array', async () => {
    expect(jsonOf(await store.call(listCall({ p_offset: 1_000 }), never))).toEqual([]);
  });

  test('gives a row as a JSON object', async () => {
    expect(jsonOf(await store.call(createCall(), never))).toMatchObject({
      nome: 'Ana',
      ativo: true,
      academia_id: null,
    });
  });

  test('passes every type of argument on', async () => {
    const text = `'"\\{}[],;--\n\t%_ ção 🏋`;
    expect(jsonOf(await store.call(createCall({ p_nome: text }), never))).toMatchObject({ nome: text });
    for (const ativo of ['true', 'false', true, false]) {
      const rows = jsonOf(await store.call(listCall({ p_ativo: ativo, p_limit: 1 }), never)) as { ativo: boolean }[];
      expect(rows[0]?.ativo).toBe(String(ativo) === 'true');
    }
    expect(jsonOf(await store.call(listCall({ p_academia_id: null, p_limit: 2 }), never))).toHaveLength(2);
  });

  test('can be made many times at once', async () => {
    const results = await Promise.all(
      Array.from({ length: 60 }, (_, n) => store.call(listCall({ p_limit: n + 1 }), never)),
    );
    expect(results.map((result) => (jsonOf(result) as unknown[]).length)).toEqual(results.map((_, n) => n + 1));
  });
});

describe('a failure', () => {
  test.each([
    ['wms_demo_ninguem', 'API Key inválida'],
    ['wms_demo_inativa', 'API Key inativa'],
    ['wms_demo_expirada', 'API Key expirada'],
  ])('of the key %s is a refusal with the text of SQL', async (key, text) => {
    const call = listCall({ p_api_key: key });
    expect(await store.call(call, never)).toEqual({ failure: { kind: 'refusedKey', text } });
  });

  test('of a key without the permission says that the key is right', async () => {
    const text = 'API Key sem permissão para criar_aluno';
    expect(await store.call(createCall({ p_api_key: KEYS.readOnly }), never)).toEqual({
      failure: { kind: 'refusedKey', text, lacksPermission: true },
    });
  });

  test('of a field is a refusal on it', async () => {
    const fields = { p_academia_id: ['must be the id of a gym of the tenant'] };
    const call = createCall({ p_academia_id: 'b1000000-0000-4000-8000-000000000001' });
    expect(await store.call(call, never)).toEqual({ failure: { kind: 'invalidInput', fields } });
  });

  test.each([
    ['a function that does not exist', { ...listCall(), function: 'nada' }],
    ['an argument that does not exist', listCall({ p_nada: 1 })],
    ['a function of another schema', { ...listCall(), function: 'verify_key' }],
    ['a name that is SQL', { ...listCall(), function: 'listar_alunos"(); --' }],
  ])('for %s is an error of the store, with its cause', async (_what, call) => {
    const result = await store.call(call, never);
    expect(result).toMatchObject({ failure: { kind: 'storeError', cause: { message: expect.any(String) } } });
    expect(jsonOf(await store.call(listCall({ p_limit: 1 }), never))).toHaveLength(1);
  });

  test('of an argument that is none of its type is a refusal of the argument', async () => {
    const result = await store.call(listCall({ p_academia_id: 'x' }), never);
    expect(result).toMatchObject({ failure: { kind: 'invalidInput', fields: { p_academia_id: [{}] } } });
  });

  test('for an answer of more bytes than the limit harms no other call', async () => {
    const workouts = { ...listCall({ p_limit: 1_000 }), function: 'listar_treinos' };
    expect(await store.call(workouts, never)).toMatchObject({ failure: { kind: 'answerTooLarge' } });
    const calls = [workouts, listCall({ p_limit: 1 }), workouts, listCall({ p_limit: 2 })];
    // Each with its own signal, as each request has.
    const results = await Promise.all(calls.map((call) => store.call(call, new AbortController().signal)));
    expect(results).toMatchObject([{ failure: {} }, { count: 1 }, { failure: {} }, { count: 2 }]);
    const few = { ...workouts, args: { ...workouts.args, p_limit: 100 } };
    expect(jsonOf(await store.call(few, never))).toHaveLength(100);
  });

  test('for a signal that has aborted comes without a call', async () => {
    const before = (jsonOf(await store.call(listCall({ p_limit: 1_000 }), never)) as unknown[]).length;
    expect(await store.call(createCall(), AbortSignal.abort())).toMatchObject({ failure: { kind: 'storeTimeout' } });
    expect(jsonOf(await store.call(listCall({ p_limit: 1_000 }), never))).toHaveLength(before);
  });
});
