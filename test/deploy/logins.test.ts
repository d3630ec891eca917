import { execFile, spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { promisify } from 'node:util';
import { beforeAll, describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { openPostgres } from '../../src/store/postgres/store.ts';
import { listCall } from '../helpers/calls.ts';
import { useDatabase, useOpened } from '../helpers/database.ts';
import { isPresent } from '../helpers/requirement.ts';
import { runCommand } from '../helpers/run.ts';
import { createDatabase, loginUrl, PASSWORD, startLoggingPostgres } from '../helpers/servers.ts';
import { waitFor } from '../helpers/wait-for.ts';

const SCRIPT = 'scripts/deploy/logins.sql';
/** The command of compose.yaml, with the path of the script. */
const [PSQL = '', ...ARGS] = (
  parse(readFileSync('compose.yaml', 'utf8'), { merge: true }).services.logins.command as string[]
).map((arg) => arg.replace('/logins.sql', SCRIPT));

/** The result for a login that is refused. */
const REFUSED = 'storeError';

const { stdout } = spawnSync('psql', ['--version'], { encoding: 'utf8' });
const hasPsql = isPresent(
  Number(/\d+/.exec(stdout ?? '')?.[0] ?? 0) >= 15,
  'psql 15 or later is not installed: the tests of the login roles cannot run',
);

describe.skipIf(!hasPsql)(SCRIPT, () => {
  let log = '';
  const onLog = (text: string) => {
    log += text;
  };
  const server = useOpened(
    () => startLoggingPostgres(onLog),
    ({ stop }) => stop(),
  );
  const database = useDatabase({ create: () => createDatabase(server.adminUrl) });

  beforeAll(async () => {
    await database.query('alter role authenticator password null');
    // The migrations leave it so. A copy of a database has the default again.
    await database.query(`revoke connect on database ${database.name} from public`);
  });

  async function makeLogins(passwords: Record<string, string>, adminUrl = database.adminUrl): Promise<void> {
    const { hostname, port, username, password } = new URL(adminUrl);
    const connection = { PGHOST: hostname, PGPORT: port, PGUSER: username, PGPASSWORD: password };
    const env = { PATH: process.env.PATH, ...connection, PGDATABASE: database.name, ...passwords };
    const { stderr } = await promisify(execFile)(PSQL, ARGS, { env });
    // The second time the server notes that the role has already been granted.
    expect(stderr.replace(/^.*NOTICE: {2}role .* has already been granted .*\n/gm, '')).toBe('');
  }

  /** The number of rows or the kind of failure that a gateway gets with this password. */
  async function callAs(login: string, password: string): Promise<unknown> {
    const url = loginUrl(database.adminUrl, login, password);
    const store = openPostgres({ url, connections: 1, deadlineMs: 5_000 });
    const result = await store.call(listCall({ p_limit: 1 }), AbortSignal.timeout(5_000));
    await store.close();
    return 'failure' in result ? result.failure.kind : JSON.parse(result.json).length;
  }

  test('creates the roles, changes passwords, and skips roles without a password', async () => {
    await makeLogins({ GATEWAY_PASSWORD: `it's "one"` });
    expect(await callAs('gateway_login', `it's "one"`)).toBe(1);
    expect(await callAs('authenticator', 'two')).toBe(REFUSED);

    await makeLogins({ GATEWAY_PASSWORD: 'new-one', AUTHENTICATOR_PASSWORD: 'two' });
    expect(await callAs('gateway_login', `it's "one"`)).toBe(REFUSED);
    expect(await callAs('gateway_login', 'new-one')).toBe(1);

    await makeLogins({ GATEWAY_PASSWORD: '', AUTHENTICATOR_PASSWORD: 'two' });
    expect(await callAs('gateway_login', 'new-one')).toBe(1);
    expect(await callAs('authenticator', 'two')).toBe(1);
  });

  test.each([
    ['without a password', 'gateway', '', 'GATEWAY_PASSWORD is not set'],
    ['before the migrations', 'absent', 'one', 'the role gateway does not exist: run npm run migrate first'],
  ])('fails %s, and says what is missing', async (_when, role, GATEWAY_PASSWORD, message) => {
    const rename = (from: string, to: string) => from === to || database.query(`alter role ${from} rename to ${to}`);
    await rename('gateway', role);
    const failure = await makeLogins({ GATEWAY_PASSWORD }).catch((error) => error);
    await rename(role, 'gateway');
    expect(failure).toMatchObject({ code: 3, stderr: expect.stringContaining(`ERROR:  ${message}\n`) });
  });

  test('lets the role only become the gateway, and leaves it what it inherits', async () => {
    const readRole = () =>
      database.query(`select rolcanlogin, rolinherit, rolsuper, rolcreaterole, rolcreatedb, rolbypassrls,
        array(select roleid::regrole::text from pg_auth_members where member = r.oid) as roles
        from pg_roles r where rolname = 'gateway_login'`);
    await makeLogins({ GATEWAY_PASSWORD: 'new-one' });
    const nothing = { rolsuper: false, rolcreaterole: false, rolcreatedb: false, rolbypassrls: false };
    const role = { rolcanlogin: true, rolinherit: false, ...nothing, roles: ['gateway'] };
    expect(await readRole()).toEqual([role]);
    await database.query('alter role gateway_login inherit');
    await makeLogins({ GATEWAY_PASSWORD: 'new-one' });
    expect(await readRole()).toEqual([{ ...role, rolinherit: true }]);
    await database.query('alter role gateway_login noinherit');
  });

  test('fails with instructions if the administrator may not grant CONNECT', async () => {
    await database.query(`create role no_owner login createrole password '${PASSWORD}';
      grant connect on database ${database.name} to no_owner;
      grant gateway, gateway_login to no_owner with admin option;
      revoke connect on database ${database.name} from gateway_login`);
    const url = loginUrl(database.adminUrl, 'no_owner');
    await expect(makeLogins({ GATEWAY_PASSWORD: 'new-one' }, url)).rejects.toMatchObject({
      code: 3,
      stderr: expect.stringMatching(
        `gateway_login may not connect to the database ${database.name}\nHINT:  As a superuser or as postgres: ` +
          `grant connect on database ${database.name} to gateway_login\n`,
      ),
    });
    await makeLogins({ GATEWAY_PASSWORD: 'new-one' });
    expect(await callAs('gateway_login', 'new-one')).toBe(1);
  });

  test('keeps the passwords out of the log of a server that logs every statement', async () => {
    await makeLogins({ GATEWAY_PASSWORD: 'not-in-the-log' });
    await database.query(`select 'the log is read'`);
    await waitFor(() => expect(log).toContain('the log is read'));
    expect(log).not.toContain('not-in-the-log');
  });
});

// The tests of the Supabase store use a key that the script has printed.
test('scripts/deploy/jwt.ts takes no secret that PostgREST refuses', async () => {
  expect(await runCommand('scripts/deploy/jwt.ts', [], { env: { POSTGREST_JWT_SECRET: 'short' } })).toEqual({
    ...{ code: 1, output: '' },
    errors: "POSTGREST_JWT_SECRET: expected PostgREST's secret, at least 32 characters\n",
  });
});
