import type { OpenAPIV3 } from 'openapi-types';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { parse } from 'yaml';
import { openPostgres } from '../../src/store/postgres/store.ts';
import type { Store } from '../../src/store/store.ts';
import { openSupabase } from '../../src/store/supabase/store.ts';
import { limited } from '../../src/store/turns.ts';
import { document } from '../helpers/api.ts';
import { useDatabase } from '../helpers/database.ts';
import { startGateway, type TestGateway } from '../helpers/gateway.ts';
import { loginUrl, POSTGREST_KEY, type PostgrestServer, startPostgrest } from '../helpers/servers.ts';
import { waitFor } from '../helpers/wait-for.ts';

// Deadlines and cancellation, as the database sees them.

/** The deadline where it is to pass; otherwise something else is to come first, on a busy machine too. */
const SHORT = { deadlineMs: 3_000 };
const DEADLINE_MS = 20_000;
const SQL = `
create function public.dormir(p_api_key text, p_segundos float8) returns table (acordado boolean)
language sql volatile security definer set search_path = pg_catalog, pg_temp set statement_timeout = '3s'
as $$ select true from pg_sleep(p_segundos) $$;
select private.publish('public.dormir');
`;
const PATHS = parse(`
/dormir:
  get:
    operationId: dormir
    x-rpc: dormir
    parameters: [{ name: segundos, in: query, required: true, schema: { type: number } }]
    responses:
      '200': { description: Awake, content: { application/json: { schema: { type: array, items: {} } } } }
`) as OpenAPIV3.PathsObject;

const headers = { 'X-Api-Key': 'wms_demo_aurora' };
const database = useDatabase(SQL);
let postgrest: PostgrestServer;
/** The one that was started last. */
let gateway: TestGateway;

beforeAll(async () => {
  postgrest = await startPostgrest(database);
});

afterAll(() => postgrest.stop());

const openers = {
  postgres: (connections: number, { deadlineMs = DEADLINE_MS } = {}) =>
    openPostgres({ url: loginUrl(database.adminUrl, 'gateway_test'), connections, prepare: true, deadlineMs }),
  supabase: (connections: number, { deadlineMs = DEADLINE_MS } = {}) =>
    openSupabase({ url: postgrest.url, key: POSTGREST_KEY, restPath: '/', connections, deadlineMs }),
};

async function start(opened: Store, { slots = 4, deadlineMs = DEADLINE_MS } = {}): Promise<void> {
  const store = limited(opened, { slots, waiting: 100 });
  onTestFinished(() => store.close());
  const started = await startGateway({
    store,
    document: { ...document, paths: { ...document.paths, ...PATHS } },
    deadlineMs,
  });
  onTestFinished(() => started.close());
  gateway = started;
}

async function get(path: string, init: RequestInit = {}): Promise<{ status: number; body: unknown }> {
  const answer = await fetch(`${gateway.url}${path}`, { headers, ...init });
  return { status: answer.status, body: await answer.json() };
}

/** How many sleeping queries the database runs now. */
const sleeping = async () => {
  const sql = `select from pg_stat_activity
    where datname = current_database() and state = 'active' and query like '%dormir%' and pid <> pg_backend_pid()`;
  return (await database.query(sql)).length;
};

describe.each(['postgres', 'supabase'] as const)('%s', (kind) => {
  test('a call beyond the deadline is a 502, and its query stops in the database', async () => {
    await start(openers[kind](2, SHORT), SHORT);
    // Connecting is not to take a part of the time.
    await waitFor(async () => expect((await get('/academias')).status).toBe(200));
    const answer = get('/dormir?segundos=60');
    await waitFor(async () => expect(await sleeping()).toBe(1));
    expect(await answer).toMatchObject({ status: 502, body: { error: 'Data store timeout' } });
    await waitFor(async () => expect(await sleeping()).toBe(0));
  });

  test('the connections serve on after more timeouts than there are of them', async () => {
    await start(openers[kind](2, SHORT), { ...SHORT, slots: 2 });
    const answers = await Promise.all(Array.from({ length: 6 }, () => get('/dormir?segundos=60')));
    expect(answers.map(({ body }) => body)).toEqual(Array(6).fill({ error: 'Data store timeout' }));
    await waitFor(async () => expect((await get('/academias')).status).toBe(200));
    const later = await Promise.all(Array.from({ length: 10 }, () => get('/academias?limit=1')));
    expect(later.map(({ status }) => status)).toEqual(Array(10).fill(200));
  });
});

describe('postgres', () => {
  test('a query that its client does not wait for is cancelled at once', async () => {
    await start(openers.postgres(2), { slots: 2 });
    const controller = new AbortController();
    const answer = get('/dormir?segundos=60', { signal: controller.signal }).catch((error) => error);
    await waitFor(async () => expect(await sleeping()).toBe(1));
    controller.abort();
    await waitFor(async () => expect(await sleeping()).toBe(0));
    await answer;
    expect(gateway.faults).toEqual([]);
    expect((await get('/academias')).status).toBe(200);
  });

  test('times are in ISO 8601 and in UTC, whatever the database has as its default', async () => {
    const setAll = (dateStyle: string, timeZone: string) =>
      database.query(
        `alter database ${database.name} set datestyle = ${dateStyle}; alter database ${database.name} set timezone = ${timeZone}`,
      );
    await setAll(`'German, DMY'`, `'Asia/Kolkata'`);
    await start(openers.postgres(1));
    const { body } = await get('/alunos?limit=1');
    expect(body).toMatchObject([{ criado_em: expect.stringMatching(/^\d{4}-\d\d-\d\dT.*\+00:00$/) }]);
    await setAll('default', 'default');
  });

  test.each([
    ['timezone', 'America/Sao_Paulo'],
    ['datestyle', 'German, DMY'],
  ])('a function that sets %s for its session changes no answer of another call', async (setting, value) => {
    await start(openers.postgres(1));
    const set = `true from set_config('${setting}', '${value}', false)`;
    await database.query(SQL.replace('create', 'create or replace').replace('true from pg_sleep(p_segundos)', set));
    const before = await get('/alunos?limit=1');
    for (let round = 0; round < 5; round += 1) {
      const [first, ...others] = await Promise.all([
        get('/dormir?segundos=0'),
        ...Array(8)
          .fill('/alunos?limit=1')
          .map((path) => get(path)),
      ]);
      expect([first?.status, ...others]).toEqual([200, ...Array(8).fill(before)]);
    }
    expect(await get('/alunos?limit=1')).toEqual(before);
    await database.query(SQL.replace('create', 'create or replace'));
  });

  test('a function that is replaced answers as it is then, also with other columns, whoever writes them as JSON', async () => {
    await start(openers.postgres(3));
    const answers = () => Promise.all(Array.from({ length: 6 }, () => get('/dormir?segundos=0')));
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
        expect(answer).toMatchObject({ status: 200, body: [{ acordado: json }] });
      }
    }
    expect(gateway.faults).toEqual([]);
    await database.query(`drop function public.dormir(text, float8); ${SQL}`);
  });

  test('a function that is replaced takes arguments of its new types at once', async () => {
    await start(openers.postgres(3));
    const types = ['float8', 'smallint', 'float8', 'text', 'smallint', 'float8'];
    for (const [index, type] of types.slice(1).entries()) {
      const sql = SQL.replace(/p_segundos \w+/, `p_segundos ${type}`).replace('(p_segundos)', '(p_segundos::float8)');
      await database.query(`drop function public.dormir(text, ${types[index]}); ${sql}`);
      const call = () => get(`/dormir?segundos=${type === 'smallint' ? '0' : '0.001'}`);
      for (const answer of await Promise.all(Array.from({ length: 12 }, call))) {
        expect(answer).toMatchObject({ status: 200, body: [{ acordado: true }] });
      }
    }
    expect(gateway.faults).toEqual([]);
  });
});
