import { spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { administer } from '../../src/admin/main.ts';
import { lockFolder } from '../../src/store/embedded/folder.ts';
import { openServer } from '../../src/store/embedded/store.ts';
import { readMigrations } from '../../src/store/migrations.ts';
import { AURORA, BOSQUE, useAdmin } from '../helpers/admin.ts';
import { call, operations } from '../helpers/api.ts';
import { MIGRATIONS, startConfigured } from '../helpers/gateway.ts';
import { runCommand } from '../helpers/run.ts';
import { asAdmin, createDatabase, databaseUrl, loginUrl } from '../helpers/servers.ts';
import { waitForBlocked } from '../helpers/wait-for.ts';

const NOBODY = '00000000-0000-4000-8000-000000000000';
const WHOLE_KEY = /^wms_[a-z]+_[0-9A-Za-z]{38}$/;
const DAY_MS = 24 * 3_600_000;
const FUNCTIONS = operations
  .map(({ rpc }) => rpc)
  .sort()
  .join(', ');

const root = mkdtempSync(join(tmpdir(), 'admin-'));
const { admin, database, failure, json, printed, rows } = useAdmin();

type Issued = { id: string; key: string; prefix: string; expires_at: string | null };

const issue = (...args: string[]): Promise<Issued> =>
  json(['key', 'issue', '--tenant', AURORA, '--name', 'Teste', ...args]);

async function listed(id: string): Promise<Record<string, unknown>> {
  const keys: { id: string }[] = await json(['key', 'list']);
  return keys.find((key) => key.id === id) ?? {};
}

test('tenant create gives its id and the command for its first key, and list shows it', async () => {
  const output = await printed('tenant', 'create', 'Academia São João');
  const [, id = ''] = /^Tenant (\S+) was created\.\n/.exec(output) ?? [];
  expect(output).toContain(`npm run admin -- key issue --tenant ${id} --name NAME\n`);

  await json(['key', 'issue', '--tenant', id, '--name', 'Site']);
  const tenants: { id: string }[] = await json(['tenant', 'list']);
  expect(tenants.find((tenant) => tenant.id === id)).toEqual({
    id,
    name: 'Academia São João',
    active_keys: 1,
    created_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
  });
  const table = (await admin(['tenant', 'list'])).output.split('\n');
  expect(table[0]).toBe('ID                                    NAME               ACTIVE KEYS  CREATED');
  expect(table).toContainEqual(
    expect.stringMatching(new RegExp(`^${id}  Academia São João  1            [-\\d]{10}T[:\\d]{5}Z$`)),
  );
});

test.each([
  ...['key list --tenant', 'key issue --name x --tenant', 'key usage --tenant', 'tenant usage', 'tenant limit'],
  ...['tenant delete', 'find alunos x --tenant', 'student data x --tenant'],
  ...['import alunos openapi.yaml --tenant', 'export /none --tenant'],
])('%s refuses a tenant that does not exist, and names the command that lists them', async (command) => {
  expect(await failure([...command.split(' '), NOBODY])).toEqual({
    code: 1,
    error: `there is no tenant ${NOBODY}`,
    hint: '`npm run admin -- tenant list` has them all.',
  });
});

// supabase/tests/key_lifecycle.sql tests the effects of issuing, rotating, limiting and revoking a key.

describe('key issue', () => {
  test('shows the key once, and says so', async () => {
    const output = await printed('key', 'issue', '--tenant', AURORA, '--name', 'Site');
    const [, key = '', prefix = '', id = ''] =
      /^Key {6}(\S+)\nPrefix {3}(\S+)\nId {7}(\S+)\nExpires {2}never\n\nSave the key now: [^\n]* not shown again\.\n$/.exec(
        output,
      ) ?? [];
    expect(key).toMatch(WHOLE_KEY);
    expect(prefix).toBe(key.slice(0, 'wms_live_'.length + 8));
    expect(await rows('select id from private.api_keys where key_hash = sha256($1)', [Buffer.from(key)])).toEqual([
      { id },
    ]);

    const secret = key.slice(prefix.length);
    const table = (await admin(['key', 'list'])).output;
    expect(table).toMatch(new RegExp(`^Academia Aurora +${prefix} +Site +all +active .* ${id}$`, 'm'));
    expect(table).not.toContain(secret);
    expect((await admin(['key', 'list', '--json'])).output).not.toContain(secret);
  });

  test('has the alias "create", and its help says what it needs', async () => {
    expect((await json(['key', 'create', '--tenant', AURORA, '--name', 'Site'])).key).toMatch(WHOLE_KEY);
    const { output } = await admin(['key', 'create', '--help']);
    expect(output).toMatch(/--tenant <ID> .* \(required\)\n.*--name <NAME> .* \(required\)\n/);
    expect(output.match(/\(required\)/g)).toHaveLength(2);
  });

  test('takes permissions, however they are given, an end and an environment', async () => {
    const permissions = ['--permission', 'listar_alunos', 'listar_treinos', '--permission', 'listar_alunos'];
    const { id, prefix } = await issue(...permissions, '--expires', '2099-12-31', '--environment', 'test');
    expect(prefix).toMatch(/^wms_test_/);
    expect(await listed(id)).toMatchObject({
      permissions: ['listar_alunos', 'listar_treinos'],
      expires_at: '2099-12-31T00:00:00.000Z',
      state: 'active',
    });
  });

  test('refuses unknown permissions, and lists the known ones', async () => {
    const args = ['key', 'issue', '--tenant', AURORA, '--name', 'x', '--permission', 'listar_aluno', 'apagar'];
    const errors = `no published function is named apagar, listar_aluno\nPublished are: ${FUNCTIONS}.\n`;
    expect(await admin(args)).toEqual({ code: 1, output: '', errors });
  });
});

test.skipIf(!existsSync('/dev/full'))('output that cannot be written is a failure', async () => {
  const args = ['-c', 'exec "$0" src/admin/main.ts "$@" > /dev/full', process.execPath, 'tenant', 'list', '--json'];
  const env = { ...process.env, DATABASE_URL: database().adminUrl };
  const { status, stderr } = spawnSync('sh', args, { env, encoding: 'utf8' });
  expect([status, JSON.parse(stderr)]).toEqual([1, { error: 'ENOSPC: no space left on device, write' }]);
});

describe('key list', () => {
  test('shows the keys of one tenant, with times to the minute and a line for each permission', async () => {
    await rows(
      `insert into private.api_keys (tenant_id, id, name, key_hash, permissions, created_at, last_used_at) values
         ($1, $2, 'De antes', sha256('de antes'), '{listar_alunos,listar_treinos}', '2024-02-01Z', '2024-03-01 12:34:56-03')`,
      [BOSQUE, NOBODY],
    );
    expect(await printed('key', 'list', '--tenant', BOSQUE)).toBe(
      [
        'PREFIX        NAME      PERMISSIONS     STATE   CREATED            EXPIRES  LAST USED          ID',
        'wms_demo_bos  Bosque    all             active  2024-01-01T09:00Z  never    never              b9000000-0000-4000-8000-000000000001',
        `-             De antes  listar_alunos   active  2024-02-01T00:00Z  never    2024-03-01T15:34Z  ${NOBODY}`,
        '                        listar_treinos',
        '',
      ].join('\n'),
    );
  });

  test('says how to issue the first one, and gives scripts an empty list', async () => {
    const { id } = await json(['tenant', 'create', 'Vazia']);
    const none = `There are no keys yet: npm run admin -- key issue --tenant ${id} --name NAME\n`;
    expect(await printed('key', 'list', '--tenant', id)).toBe(none);
    expect(await json(['key', 'list', '--tenant', id])).toEqual([]);
  });
});

test('key rotate issues a key like the old one, which still works for a day or the given time', async () => {
  const old = await issue('--permission', 'listar_alunos', '--expires', '2099-12-31');
  const before = Date.now();
  const output = await printed('key', 'rotate', old.prefix);
  const [, id = ''] = /^Id +(\S+)$/m.exec(output) ?? [];
  const expires_at = '2099-12-31T00:00:00.000Z';
  expect(await listed(id)).toMatchObject({ name: 'Teste', permissions: ['listar_alunos'], expires_at });
  const end = String((await listed(old.id)).expires_at);
  expect(output).toContain(`The old key, ${old.prefix}, works until ${end.slice(0, 16)}Z.\n`);
  expect(Date.parse(end) - DAY_MS).toBeGreaterThanOrEqual(before);
  expect(Date.parse(end) - DAY_MS).toBeLessThanOrEqual(Date.now());

  const second = await json(['key', 'rotate', id, '--overlap', '0s', '--expires', 'never']);
  expect(second).toMatchObject({ expires_at: null, replaced: { id, expires_at: expect.any(String) } });
  expect(await listed(id)).toMatchObject({ state: 'expired' });
  expect(await failure(['key', 'rotate', id])).toEqual({
    code: 1,
    error: `key ${id} cannot be rotated: it is revoked or expired`,
    hint: 'Issue a new key.',
  });
});

test('key permit limits a key to functions, and lifts the limit; key revoke ends it, and may be repeated', async () => {
  const { prefix, id } = await issue();
  const args = ['key', 'permit', prefix, '--permission', 'listar_treinos'];
  expect(await printed(...args)).toBe(`Key ${prefix} may call listar_treinos.\n`);
  expect(await listed(id)).toMatchObject({ permissions: ['listar_treinos'] });
  expect(await json(['key', 'permit', id, '--all'])).toEqual({ id, prefix, permissions: null });
  expect(await listed(id)).toMatchObject({ permissions: null, state: 'active' });
  const revoked = `Key ${prefix} is revoked: requests with it are refused.\n`;
  expect(await printed('key', 'revoke', prefix, '--yes')).toBe(revoked);
  expect(await json(['key', 'revoke', id])).toEqual({ id, prefix, state: 'revoked' });
  expect(await listed(id)).toMatchObject({ state: 'revoked' });
});

test('an unknown KEY is refused without repeating it, and a whole key with its prefix alone', async () => {
  expect(await failure(['key', 'revoke', 'a-secret-of-mine'])).toEqual({
    code: 1,
    error: 'there is no key with this id or prefix',
    hint: 'List them: npm run admin -- key list',
  });
  const { key, prefix } = await issue();
  expect(await failure(['key', 'revoke', key])).toMatchObject({
    code: 2,
    error: `KEY is a key's id or prefix, not the key itself: expected ${prefix}`,
  });
});

/** The notes of a command, which are neither its output nor its errors. */
async function noted(env: Record<string, string>, ...args: string[]): Promise<string> {
  let notes = '';
  const note = (text: string) => {
    notes += text;
  };
  await administer(args, { env, print: () => {}, printError: () => {}, note });
  return notes;
}

describe('the store', () => {
  test('that a command works on is named in a line, without the password', async () => {
    const { hostname, port } = new URL(database().adminUrl);
    const env = { DATABASE_URL: database().adminUrl };
    expect(await noted(env, 'tenant', 'list')).toBe(`Store: Postgres at ${hostname}:${port}/${database().name}\n`);
    expect(await noted(env, 'tenant', 'list', '--json')).toBe('');
    expect(await noted({ DATA_DIR: ':memory:' }, 'tenant', 'list')).toBe(
      'Store: embedded Postgres, data in a temporary folder\n',
    );
    expect(await noted({ SUPABASE_URL: 'https://p.supabase.co', SUPABASE_KEY: 'k' }, 'tenant', 'list')).toBe(
      'Store: the Data API of p.supabase.co\n',
    );
    expect(await noted({}, 'copy', 'none')).toBe(
      'Store: embedded Postgres, data in .data, because neither DATABASE_URL nor DATA_DIR is set\n',
    );
  });

  test('is named on standard error', async () => {
    const env = { DATA_DIR: ':memory:' };
    const errors = expect.stringMatching(/^Store: embedded Postgres, data in a temporary folder\n/);
    expect(await runCommand('src/admin/main.ts', ['tenant', 'list'], { env })).toEqual({ code: 1, output: '', errors });
  });
});

describe('a store that cannot be used', () => {
  test('is created, with a note, if it is an embedded one that does not exist', async () => {
    const own = { DATA_DIR: join(root, 'own'), DEMO_DATA: 'off' };
    const store = `Store: embedded Postgres, data in ${own.DATA_DIR}\n`;
    expect(await noted(own, 'tenant', 'list')).toBe(`${store}Creating a store in ${own.DATA_DIR}\n`);
    expect(await noted(own, 'tenant', 'list')).toBe(store);
  });

  type Remedy = [env: () => Record<string, string>, error: string, hint?: string];
  const REMEDIES: Readonly<Record<string, Remedy>> = {
    'one in memory': [
      () => ({ DATA_DIR: ':memory:' }),
      'DATA_DIR=:memory: keeps no store: set it to the folder of a store',
    ],
    'the Data API of a Supabase project': [
      () => ({ SUPABASE_URL: 'https://project.supabase.co', SUPABASE_KEY: 'hunter2-0123' }),
      "A Supabase project's Data API cannot do this: set DATABASE_URL to the project's connection string instead of SUPABASE_URL",
    ],
    'a database without the migrations': [
      () => ({ DATABASE_URL: databaseUrl(database().adminUrl, 'postgres') }),
      'schema "private" does not exist (3F000)',
      'A migration is missing in the database: run `npm run migrate` with the same DATABASE_URL, or restart the gateway of an embedded store.',
    ],
    'one whose role may not administer': [
      () => ({ DATABASE_URL: loginUrl(database().adminUrl, 'gateway_test') }),
      'permission denied for schema private (42501)',
      "Use the role that ran `npm run migrate`; the gateway's role may not administer.",
    ],
    'one of a configuration with mistakes': [() => ({ DEMO_DATA: 'yes' }), 'DEMO_DATA="yes": expected on or off'],
  };

  test.each(Object.entries(REMEDIES))('is %s, and the error names the remedy', async (_what, [toEnv, error, hint]) => {
    expect(await failure(['tenant', 'list'], toEnv())).toEqual({ code: 1, error, hint });
  });

  test('is one of an older version, and the error names the command that applies the migrations', async () => {
    const older = await createDatabase();
    await older.query('drop function private.revoke_key(uuid)');
    const { id } = await json(['key', 'issue', '--tenant', AURORA, '--name', 'x'], { DATABASE_URL: older.adminUrl });
    expect(await failure(['key', 'revoke', id, '--yes'], { DATABASE_URL: older.adminUrl })).toMatchObject({
      code: 1,
      error: expect.stringMatching(/^function private\.revoke_key\(.*\) does not exist \(42883\)$/),
      hint: expect.stringContaining('npm run migrate'),
    });
    await older.drop();
  });
});

describe('an embedded store', () => {
  const dataDir = join(root, 'data');
  const env = { DATA_DIR: dataDir };

  test('is brought up to date', async () => {
    const older = join(root, 'migrations');
    mkdirSync(older);
    for (const { file } of readMigrations(MIGRATIONS).slice(0, 6))
      cpSync(file, join(older, file.slice(MIGRATIONS.length)));
    await (await openServer({ dataDir, fsync: false }, { migrationsDir: older })).close();
    const { id } = await json(['tenant', 'create', 'Aurora'], env);
    // The command needs a later migration.
    expect(await failure(['student', 'data', AURORA, '--tenant', id], env)).toMatchObject({
      error: `the tenant has no ${AURORA} in alunos`,
    });
  });

  test('that a process locks without serving it is refused with the name of the process', async () => {
    const unlock = lockFolder(dataDir);
    expect(await failure(['tenant', 'list'], env)).toEqual({
      code: 1,
      error: expect.stringContaining(`${dataDir} is in use by process ${process.pid} on `),
      hint: 'Stop the process, or wait until it ends.',
    });
    unlock();
  });

  test('is administered while a gateway serves it', async () => {
    const { url, close } = await startConfigured({ DATA_DIR: dataDir });
    try {
      const tenant = await json(['tenant', 'create', 'Bosque'], env);
      const { id, key }: Issued = await json(['key', 'issue', '--tenant', tenant.id, '--name', 'Site'], env);
      expect(await call('/alunos', { url, key })).toMatchObject({ status: 200 });
      await json(['key', 'revoke', id, '--yes'], env);
      expect(await call('/alunos', { url, key })).toMatchObject({ status: 401 });
    } finally {
      await close();
    }
  });
});

test('student erase waits for a transaction that writes about the student, and erases what it wrote', async () => {
  const [student] = await rows(
    `insert into private.alunos (tenant_id, nome, email) values ('${AURORA}', 'Rita', 'rita@aurora.example') returning id`,
  );
  const id = String(student?.id);
  await asAdmin(database().adminUrl, async (writer) => {
    await writer.query('begin');
    await writer.query(
      `insert into private.anamneses (tenant_id, aluno_id, status) values ('${AURORA}', $1, 'pendente')`,
      [id],
    );
    const erased = printed('student', 'erase', id, '--tenant', AURORA, '--yes');
    await Promise.race([waitForBlocked(database().adminUrl, 1), erased]);
    await writer.query('commit');
    expect(await erased).toContain('anamneses 1');
  });
});
