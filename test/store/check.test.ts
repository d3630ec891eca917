import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { readDatabaseUrl } from '../../src/database-url.ts';
import { compileFile } from '../../src/openapi/compile.ts';
import { describeDrift } from '../../src/openapi/drift.ts';
import { connectToPrimary } from '../../src/store/postgres/servers.ts';
import { openPostgres } from '../../src/store/postgres/store.ts';
import type { Store } from '../../src/store/store.ts';
import { openSupabase } from '../../src/store/supabase/store.ts';
import { listCall } from '../helpers/calls.ts';
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

// What the check of the store says of a connection on which calls would fail, now or later.

const LIST = listCall({ p_limit: 1 });
const POOLED = 'DATABASE_URL goes through a pooler in transaction mode: set PREPARE=off';

const database = useDatabase();
let postgrest: PostgrestServer | undefined;

beforeAll(async () => {
  postgrest = hasPostgrest ? await startPostgrest(database) : undefined;
});

afterAll(() => postgrest?.stop());

function open(url: string, prepare: boolean, connections = 1): Store {
  const store = openPostgres({ url, connections, prepare, deadlineMs: 20_000 });
  onTestFinished(() => store.close());
  return store;
}

const pool = async (login: Parameters<typeof loginUrl>[1], mode: 'session' | 'transaction'): Promise<string> => {
  const pooler = await startPgbouncer(loginUrl(database.adminUrl, login), mode);
  onTestFinished(pooler.stop);
  return pooler.url;
};

/** Creates a login that may connect, for as long as the test runs, and gives its name and URL. */
async function createLogin(attributes = ''): Promise<{ login: string; url: string }> {
  const login = `um_login_${process.pid}`;
  await database.query(`create role ${login} login ${attributes} password '${PASSWORD}';
    grant connect on database ${database.name} to ${login}`);
  onTestFinished(async () => void (await database.query(`drop owned by ${login}; drop role ${login}`)));
  return { login, url: loginUrl(database.adminUrl, login) };
}

/** What the check says: the cause of a fault. */
async function check(store: Store): Promise<string | undefined> {
  const fault = await store.check(AbortSignal.timeout(20_000));
  return fault && (fault.cause as Error).message;
}

const call = async (store: Store) => {
  const result = await store.call(LIST, new AbortController().signal);
  return 'failure' in result ? result.failure.kind : result.count;
};

test('without prepared statements a login that inherits nothing fails the check, until the remedy is applied', async () => {
  const { login, url } = await createLogin('noinherit');
  await database.query(`grant gateway to ${login}`);
  const [without, prepared] = [open(url, false), open(url, true)];
  expect([await check(prepared), await call(prepared)]).toEqual([undefined, 1]);
  expect(await call(without)).toBe('storeError');
  const message = (await check(without)) ?? '';
  const [, remedy = ''] =
    /^the login \w+ inherits nothing from gateway: (grant .*), or without a pooler set PREPARE=on$/.exec(message) ?? [];
  await database.query(remedy);
  expect([await check(without), await call(without)]).toEqual([undefined, 1]);
});

test('a login that may not become gateway leaves no connection behind', async () => {
  const { login, url } = await createLogin();
  const store = open(url, true);
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

test('a login with a time zone, in which times would be answered without prepared statements, is a risk then alone', async () => {
  const { login, url } = await createLogin('inherit');
  await database.query(`grant gateway to ${login}; alter role ${login} set timezone = 'America/Sao_Paulo'`);
  const inspect = (prepare: boolean) => open(url, prepare).inspectLogin?.(AbortSignal.timeout(20_000));
  expect(await inspect(false)).toContain(`The login ${login} has the time zone America/Sao_Paulo`);
  expect(await inspect(true)).toBe(undefined);
  await database.query(`alter role ${login} set timezone = 'UTC'`);
  expect(await inspect(false)).toBe(undefined);
});

test('a login that owns the tables is a risk', async () => {
  const { login, url } = await createLogin('noinherit');
  await database.query(`grant gateway to ${login}; alter table private.treinos owner to ${login}`);
  onTestFinished(async () => void (await database.query(`reassign owned by ${login} to current_user`)));
  const store = open(url, true);
  expect(await check(store)).toBeUndefined();
  expect(await store.inspectLogin?.(AbortSignal.timeout(20_000))).toBe(
    `The login ${login} owns the tables: use one that is only a member of gateway, as scripts/deploy/logins.sql creates`,
  );
});

describe.skipIf(!canTestPgbouncer())('PgBouncer', () => {
  test('in transaction mode fails calls with a cause that names the remedy', async () => {
    const url = await pool('gateway_pooled', 'transaction');
    const [one, other] = [open(url, true), open(url, true)];
    expect(await call(one)).toBe(1);
    const result = await other.call(LIST, new AbortController().signal);
    expect(result).toMatchObject({ failure: { kind: 'storeError', cause: { message: POOLED } } });
  });

  test('in transaction mode is checked alike in either order, because a check undoes what it set', async () => {
    // It inherits nothing: without prepared statements it can call nothing.
    const url = await pool('gateway_test', 'transaction');
    const tell = async (prepare: boolean) => {
      const store = openPostgres({ url, connections: 1, prepare, deadlineMs: 20_000 });
      return check(store).finally(() => store.close());
    };
    const without = await tell(false);
    expect(without).toMatch(/^the login gateway_test inherits nothing from gateway: grant/);
    expect([await tell(true), await tell(false), await tell(true)]).toEqual([POOLED, without, POOLED]);
    const client = await connectToPrimary(readDatabaseUrl(url), { connectionTimeoutMillis: 20_000 });
    const { rows } = await client.query(`select current_user as role, current_setting('statement_timeout') as timeout`);
    await client.end();
    expect(rows).toEqual([{ role: 'gateway_test', timeout: '0' }]);
  });

  test('in session mode passes the check with prepared statements', async () => {
    const store = open(await pool('gateway_test', 'session'), true, 2);
    for (let n = 0; n < 3; n += 1) expect(await Promise.all([check(store), call(store)])).toEqual([undefined, 1]);
  });
});
