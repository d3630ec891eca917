import { describe, expect, onTestFinished, test } from 'vitest';
import { openPostgres } from '../../src/store/postgres/store.ts';
import type { Store } from '../../src/store/store.ts';
import { openSupabase } from '../../src/store/supabase/store.ts';
import { limited } from '../../src/store/turns.ts';
import { createCall, listCall } from '../helpers/calls.ts';
import { useDatabase, useOpened } from '../helpers/database.ts';
import { loginUrl, POSTGREST_KEY, startPostgrest } from '../helpers/servers.ts';
import { waitFor } from '../helpers/wait-for.ts';

// Cancellation, sessions and replaced functions, as the database sees them.

const SQL = `
create function public.dormir(p_api_key text, p_segundos float8) returns table (acordado boolean)
language sql volatile security definer set search_path = pg_catalog, pg_temp set statement_timeout = '3s'
as $$ select true from pg_sleep(p_segundos) $$;
select private.publish('public.dormir');
`;

const database = useDatabase({ sql: SQL });
const postgrest = useOpened(
  () => startPostgrest(database),
  ({ stop }) => stop(),
);
/** The store that was opened last. */
let store: Store;

function open(kind: 'postgres' | 'supabase', connections: number): void {
  const common = { connections, deadlineMs: 20_000 };
  const opened =
    kind === 'postgres'
      ? openPostgres({ url: loginUrl(database.adminUrl, 'gateway_test'), ...common })
      : openSupabase({ url: postgrest.url, key: POSTGREST_KEY, restPath: '/', ...common });
  store = limited(opened, { slots: connections, waiting: 100 });
  onTestFinished(() => opened.close());
}

/** The rows of a list, or the kind of a failure. */
async function ask(name: string, args = {}, signal = AbortSignal.timeout(20_000)): Promise<unknown> {
  const result = await store.call({ ...listCall(args), function: name }, signal);
  return 'failure' in result ? result.failure.kind : JSON.parse(result.json);
}

const sleep = (p_segundos: number | string, signal?: AbortSignal) => ask('dormir', { p_segundos }, signal);
const listStudent = () => ask('listar_alunos', { p_limit: 1 });

/** The number of sleeping queries that the database runs now. */
const sleeping = async () => {
  const sql = `select from pg_stat_activity
    where datname = current_database() and state = 'active' and query like '%dormir%' and pid <> pg_backend_pid()`;
  return (await database.query(sql)).length;
};

test.each(['postgres', 'supabase'] as const)(
  'calls of %s that nobody waits for stop in the database, and the connections serve on',
  async (kind) => {
    open(kind, 2);
    const controller = new AbortController();
    const given = Array.from({ length: 6 }, () => sleep(60, controller.signal));
    await waitFor(async () => expect(await sleeping()).toBe(2));
    controller.abort();
    await waitFor(async () => expect(await sleeping()).toBe(0));
    expect(new Set(await Promise.all(given))).toEqual(new Set(['storeTimeout']));
    const later = await Promise.all(Array.from({ length: 10 }, listStudent));
    expect(later).toEqual(Array(10).fill([expect.anything()]));
  },
);

describe('postgres', () => {
  test.each([
    ['a read', listCall({ p_limit: 1 })],
    ['a creation', createCall()],
  ])('%s succeeds in a session without its prepared statement, as of another client of a pooler', async (_, call) => {
    const forget = `create function public.esquecer(p_api_key text) returns table (feito boolean)
      language plpgsql security definer set search_path = pg_catalog, pg_temp
      as $$ begin execute 'deallocate all'; return query select true; end $$;
      select private.publish('public.esquecer')`;
    await database.query(forget);
    onTestFinished(async () => void (await database.query('drop function public.esquecer')));
    open('postgres', 1);
    const answered = { json: expect.any(String), count: 1 };
    expect(await store.call(call, AbortSignal.timeout(20_000))).toEqual(answered);
    for (let round = 0; round < 2; round += 1) {
      expect(await ask('esquecer')).toEqual([{ feito: true }]);
      expect(await store.call(call, AbortSignal.timeout(20_000))).toEqual(answered);
    }
  });

  test('times are in ISO 8601 and in UTC, whatever the database has as its default', async () => {
    const setAll = (dateStyle: string, timeZone: string) =>
      database.query(
        `alter database ${database.name} set datestyle = ${dateStyle}; alter database ${database.name} set timezone = ${timeZone}`,
      );
    await setAll(`'German, DMY'`, `'Asia/Kolkata'`);
    open('postgres', 1);
    expect(await listStudent()).toMatchObject([{ criado_em: expect.stringMatching(/^\d{4}-\d\d-\d\dT.*\+00:00$/) }]);
    await setAll('default', 'default');
  });

  test.each([
    ['timezone', 'America/Sao_Paulo'],
    ['datestyle', 'German, DMY'],
  ])('a function that sets %s for its session changes no answer of another call', async (setting, value) => {
    open('postgres', 1);
    const set = `true from set_config('${setting}', '${value}', false)`;
    await database.query(SQL.replace('create', 'create or replace').replace('true from pg_sleep(p_segundos)', set));
    const before = await listStudent();
    for (let round = 0; round < 5; round += 1) {
      const [first, ...others] = await Promise.all([sleep(0), ...Array.from({ length: 8 }, listStudent)]);
      expect([first, ...others]).toEqual([[{ acordado: true }], ...Array(8).fill(before)]);
    }
    expect(await listStudent()).toEqual(before);
    await database.query(SQL.replace('create', 'create or replace'));
  });

  test('a replaced function answers as its new version, also with other columns, whether the gateway or Postgres writes the JSON', async () => {
    open('postgres', 3);
    const answers = () => Promise.all(Array.from({ length: 6 }, () => sleep(0)));
    for (const [type, value, json] of [
      ['boolean', 'true', true],
      ['boolean', 'false', false],
      ['timestamptz', `timestamptz '2026-11-21 12:00Z'`, '2026-11-21T12:00:00+00:00'],
      ['integer[]', 'array[1, 2]', [1, 2]],
      ['text', `text 'a "b"'`, 'a "b"'],
    ]) {
      const sql = SQL.replace('acordado boolean', `acordado ${type}`).replace(
        'true from pg_sleep(p_segundos)',
        `${value}`,
      );
      await database.query(`drop function public.dormir(text, float8); ${sql}`);
      for (const answer of [...(await answers()), ...(await answers())]) {
        expect(answer).toEqual([{ acordado: json }]);
      }
    }
    await database.query(`drop function public.dormir(text, float8); ${SQL}`);
  });

  test('a replaced function reads each digit of its new types after the next comparison', async () => {
    open('postgres', 2);
    const replace = async (old: string, type: string) => {
      const sql = SQL.replace(/p_segundos \w+/, `p_segundos ${type}`).replace('acordado boolean', 'acordado numeric');
      const body = sql.replace('true from pg_sleep(p_segundos)', 'p_segundos::float8::numeric');
      await database.query(`drop function public.dormir(text, ${old}); ${body}`);
      await store.describe(AbortSignal.timeout(20_000));
    };
    await replace('float8', 'real');
    expect(await sleep('0.5')).toEqual([{ acordado: 0.5 }]);
    await replace('real', 'float8');
    expect(await sleep('16777217')).toEqual([{ acordado: 16_777_217 }]);
    await database.query(`drop function public.dormir(text, float8); ${SQL}`);
  });

  test('a replaced function takes arguments of its new types at once', async () => {
    open('postgres', 3);
    const types = ['float8', 'smallint', 'float8', 'text', 'smallint', 'float8'];
    for (const [index, type] of types.slice(1).entries()) {
      const sql = SQL.replace(/p_segundos \w+/, `p_segundos ${type}`).replace('(p_segundos)', '(p_segundos::float8)');
      await database.query(`drop function public.dormir(text, ${types[index]}); ${sql}`);
      const call = () => sleep(type === 'smallint' ? '0' : '0.001');
      for (const answer of await Promise.all(Array.from({ length: 12 }, call))) {
        expect(answer).toEqual([{ acordado: true }]);
      }
    }
  });
});
