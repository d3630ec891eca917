import { describe, expect, inject, test } from 'vitest';
import { findDemo } from '../../src/http/demo.ts';
import { compile } from '../../src/openapi/compile.ts';
import type { Result } from '../../src/store/store.ts';
import { documentOf, KEYS } from '../helpers/api.ts';
import { createCall, listCall } from '../helpers/calls.ts';
import { useOpened } from '../helpers/database.ts';
import { openTestStore } from '../helpers/gateway.ts';

// Every store has to do this, whatever is behind it. The tests of the interface run on each of them too.

const never = new AbortController().signal;
/** More bytes than the demo data's students take, and fewer than its workouts. */
const ANSWER_LIMIT = 80_000;
const large = (result: string, value: string) => `
  create function public.${result.startsWith('table') ? 'linha' : 'valor'}(p_api_key text, p_size integer) returns ${result}
  language plpgsql stable security definer set search_path = pg_catalog, pg_temp
  as $$ begin perform private.verify_key(p_api_key, 'valor'); ${value} end; $$;
  select private.publish('public.${result.startsWith('table') ? 'linha' : 'valor'}');`;
const LARGE =
  large('jsonb', `return to_jsonb(repeat('x', p_size));`) +
  large('table (texto text) rows 1', `return query select repeat('x', p_size);`);
const store = useOpened(
  () => openTestStore({ answerLimit: ANSWER_LIMIT, sql: LARGE }),
  ({ close }) => close(),
);

function jsonOf(result: Result): unknown {
  if ('failure' in result) throw new Error(`${result.failure.kind}: ${JSON.stringify(result.failure)}`);
  return JSON.parse(result.json);
}

test('describes its kind without a password or a key', () => {
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

test('describes which arguments of a function have a default', async () => {
  const description = await store.describe(never);
  if ('failure' in description) throw description.failure.cause;
  const { arguments: args } = description.functions.find(({ name }) => name === 'listar_treinos') ?? { arguments: [] };
  const defaults = Object.fromEntries(args.map(({ name, hasDefault }) => [name, hasDefault]));
  expect(defaults).toMatchObject({ p_api_key: false, p_ativo: true, p_after: true });
});

test('takes null as an argument', async () => {
  expect(jsonOf(await store.call(listCall({ p_academia_id: null, p_limit: 2 }), never))).toHaveLength(2);
});

test('is found to have the demo data by a read that needs no input and has no example', async () => {
  const parameters = [{ name: 'limit', in: 'query', schema: { type: 'integer' } }];
  const schema = { type: 'array', items: { type: 'object', properties: { nome: { type: 'string' } } } };
  const responses = { 200: { description: 'Done', content: { 'application/json': { schema } } } };
  const find = (key: string) => {
    const scheme = { type: 'apiKey', in: 'header', name: 'X-Api-Key', 'x-example': key };
    const document = documentOf({ 'x-rpc': 'listar_treinos', parameters, responses }, '/linhas', 'get');
    const components = { ...document.components, securitySchemes: { apiKey: scheme } };
    return compile({ ...document, components } as never).then((compiled) => findDemo(compiled, store, 5_000));
  };
  expect(await find(KEYS.aurora)).toMatchObject({
    key: KEYS.aurora,
    target: '/linhas',
    headers: { 'X-Api-Key': KEYS.aurora },
  });
  expect(await find('wms_demo_ninguem')).toBeUndefined();
});

describe('a failure', () => {
  test.each<[string, string, object?]>([
    ['wms_demo_ninguem', 'API Key inválida'],
    ['wms_demo_inativa', 'API Key inativa'],
    ['wms_demo_expirada', 'API Key expirada'],
    ['wms_demo_leitura', 'API Key sem permissão para criar_aluno', { lacksPermission: true }],
  ])('of the key %s is a refusal with the text of SQL', async (key, text, more = {}) => {
    const failure = { kind: 'refusedKey', text, ...more };
    expect(await store.call(createCall({ p_api_key: key }), never)).toEqual({ failure });
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

  test('for an answer of more bytes than the limit harms no other call', async () => {
    const workouts = { ...listCall({ p_limit: 1_000 }), function: 'listar_treinos' };
    expect(await store.call(workouts, never)).toMatchObject({ failure: { kind: 'answerTooLarge' } });
    const calls = [workouts, listCall({ p_limit: 1 }), workouts, listCall({ p_limit: 2 })];
    // Each call has its own signal, as each request has.
    const results = await Promise.all(calls.map((call) => store.call(call, new AbortController().signal)));
    expect(results).toMatchObject([{ failure: {} }, { count: 1 }, { failure: {} }, { count: 2 }]);
    const few = { ...workouts, args: { ...workouts.args, p_limit: 100 } };
    expect(jsonOf(await store.call(few, never))).toHaveLength(100);
  });

  test.each([
    ['valor', 'value'],
    ['linha', 'row'],
  ] as const)('for a %s of more bytes than the limit is the same', async (name, returns) => {
    const ask = (p_size: number) =>
      store.call({ ...listCall({ p_size }), function: name, args: { p_api_key: KEYS.aurora, p_size }, returns }, never);
    expect(await ask(ANSWER_LIMIT)).toMatchObject({ failure: { kind: 'answerTooLarge' } });
    expect(JSON.stringify(jsonOf(await ask(1_000)))).toHaveLength(returns === 'row' ? 1_012 : 1_002);
  });

  test('for a signal that has aborted comes without a call', async () => {
    const before = (jsonOf(await store.call(listCall({ p_limit: 1_000 }), never)) as unknown[]).length;
    expect(await store.call(createCall(), AbortSignal.abort())).toMatchObject({ failure: { kind: 'storeTimeout' } });
    expect(jsonOf(await store.call(listCall({ p_limit: 1_000 }), never))).toHaveLength(before);
  });
});
