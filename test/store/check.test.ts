import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { readDatabaseUrl } from '../../src/database-url.ts';
import { compileFile } from '../../src/openapi/compile.ts';
import { describeDrift } from '../../src/openapi/drift.ts';
import { connectToPrimary } from '../../src/store/postgres/servers.ts';
import { openPostgres } from '../../src/store/postgres/store.ts';
import type { Store } from '../../src/store/store.ts';
import { openSupabase } from '../../src/store/supabase/store.ts';
import { createCall, listCall } from '../helpers/calls.ts';
import { useDatabase } from '../helpers/database.ts';
import { canTestPgbouncer, startPgbouncer } from '../helpers/pgbouncer.ts';
import {
  hasPostgrest,
  loginUrl,
  PASSWORD,
  POSTGREST_KEY,
  type PostgrestServer,
  startPostgrest,
} from '../helpers/servers.ts';
import { waitFor } from '../helpers/wait-for.ts';

// The check of the store reports a connection on which calls would fail, now or later.

const LIST = listCall({ p_limit: 1 });
/** Tells the settings of its transaction. */
const SQL = `
create function public.ajustes(p_api_key text) returns table (papel text, zona text, prazo text)
language sql stable security definer set search_path = pg_catalog, pg_temp
as $$ select current_setting('role'), current_setting('timezone'), current_setting('statement_timeout') $$;
grant execute on function public.ajustes to gateway;
`;

const database = useDatabase({ sql: SQL });
let postgrest: PostgrestServer | undefined;

beforeAll(async () => {
  postgrest = hasPostgrest ? await startPostgrest(database) : undefined;
});

afterAll(() => postgrest?.stop());

function open(url: string, connections = 1): Store {
  const store = openPostgres({ url, connections, deadlineMs: 20_000 });
  onTestFinished(() => store.close());
  return store;
}

const pool = async (target: string, mode: 'session' | 'transaction'): Promise<string> => {
  const pooler = await startPgbouncer(target, mode);
  onTestFinished(pooler.stop);
  return pooler.url;
};

/** Creates a login that may connect while the test runs. Returns its name and URL. */
async function createLogin(attributes = ''): Promise<{ login: string; url: string }> {
  const login = `um_login_${process.pid}`;
  await database.query(`create role ${login} login ${attributes} password '${PASSWORD}';
    grant connect on database ${database.name} to ${login}`);
  onTestFinished(async () => void (await database.query(`drop owned by ${login}; drop role ${login}`)));
  return { login, url: loginUrl(database.adminUrl, login) };
}

/** The cause of the fault that the check finds. */
async function check(store: Store): Promise<string | undefined> {
  const fault = await store.check(AbortSignal.timeout(20_000));
  return fault && (fault.cause as Error).message;
}

test('a login that may not become gateway leaves no connection behind', async () => {
  const { login, url } = await createLogin();
  const store = open(url);
  for (let n = 0; n < 3; n += 1) expect(await check(store)).toContain('grant gateway to the login');
  await waitFor(async () => {
    expect(await database.query(`select from pg_stat_activity where usename = '${login}'`)).toEqual([]);
  });
});

test.runIf(hasPostgrest)('a key that may execute no function is one difference, with the remedy', async () => {
  const execution = 'execute on all functions in schema public';
  await database.query(`revoke ${execution} from gateway`);
  onTestFinished(async () => void (await database.query(`grant ${execution} to gateway`)));
  const document = await compileFile('openapi.yaml');
  const options = { url: postgrest?.url ?? '', key: POSTGREST_KEY, restPath: '/', connections: 1, deadlineMs: 20_000 };
  const store = openSupabase(options);
  onTestFinished(() => store.close());
  expect(await describeDrift({ document, store, deadlineMs: 20_000 })).toEqual({
    lines: [
      expect.stringMatching(/^Supabase at .*: the gateway finds no function in schema public: run npm run migrate/),
    ],
    broken: new Set(document.operations.keys()),
  });
});

test('a login that owns the tables is a risk', async () => {
  const { login, url } = await createLogin('noinherit');
  await database.query(`grant gateway to ${login}; alter table private.treinos owner to ${login}`);
  onTestFinished(async () => void (await database.query(`reassign owned by ${login} to current_user`)));
  const store = open(url);
  expect(await check(store)).toBeUndefined();
  expect(await store.inspectLogin?.(AbortSignal.timeout(20_000))).toBe(
    `The login ${login} owns the tables: use one that is only a member of gateway, as scripts/deploy/logins.sql creates`,
  );
});

describe.skipIf(!canTestPgbouncer()).each(['transaction', 'session'] as const)('PgBouncer in %s mode', (mode) => {
  test('gives each call the rights of gateway, UTC and the deadline, and the next client none of them', async () => {
    const { login, url } = await createLogin('noinherit');
    await database.query(`grant gateway to ${login}; alter role ${login} set timezone = 'America/Sao_Paulo'`);
    const pooled = await pool(url, mode);
    const stores = [open(pooled, 2), open(pooled, 2)];
    const settings = { ...listCall(), function: 'ajustes' };
    const tell = async (store: Store) => {
      const result = await store.call(settings, AbortSignal.timeout(20_000));
      return 'failure' in result ? result.failure : JSON.parse(result.json);
    };
    for (let round = 0; round < 3; round += 1) {
      const told = await Promise.all([...stores, ...stores].map(tell));
      expect(told).toEqual(Array(4).fill([{ papel: 'gateway', zona: 'UTC', prazo: '20s' }]));
    }
    const next = async () => {
      const client = await connectToPrimary(readDatabaseUrl(pooled), { connectionTimeoutMillis: 20_000 });
      // So long that each has a session to itself.
      const { rows } = await client.query(
        `select current_user as role, current_setting('statement_timeout') as timeout from pg_sleep(0.2)`,
      );
      await client.end();
      return rows[0];
    };
    expect(await Promise.all([1, 2, 3, 4].map(next))).toEqual(Array(4).fill({ role: login, timeout: '0' }));
  });

  test('passes the check, answers all reads of one batch, and keeps creations', async () => {
    const store = open(await pool(loginUrl(database.adminUrl, 'gateway_test'), mode), 2);
    expect([await check(store), store.batch]).toEqual([undefined, 1]);
    const batch = {};
    const reads = Array.from({ length: 20 }, () => store.call(LIST, AbortSignal.timeout(20_000), undefined, batch));
    expect(await Promise.all(reads)).toEqual(Array(20).fill({ json: expect.stringContaining('+00:00'), count: 1 }));
    const nome = `Ana ${mode}`;
    const created = await store.call(createCall({ p_nome: nome }), AbortSignal.timeout(20_000));
    expect(created).toEqual({ json: expect.stringContaining(nome), count: 1 });
    expect(await database.query('select from private.alunos where nome = $1', [nome])).toHaveLength(1);
  });

  test('fails the check with the remedy for a login that may not become gateway', async () => {
    const { url } = await createLogin();
    expect(await check(open(await pool(url, mode)))).toContain('grant gateway to the login');
  });
});
