import { once } from 'node:events';
import { mkdtempSync, readdirSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join, resolve } from 'node:path';
import type pg from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { readMigrations } from '../../src/store/migrations.ts';
import { useDatabase, useOpened } from '../helpers/database.ts';
import { copyMigrations, MIGRATIONS, startConfigured } from '../helpers/gateway.ts';
import { runCommand, runMigrate } from '../helpers/run.ts';
import {
  asAdmin,
  databaseUrl,
  findPort,
  loginUrl,
  PASSWORD,
  type PostgresServer,
  runSql,
  startEmbeddedPostgres,
} from '../helpers/servers.ts';
import { waitForBlocked } from '../helpers/wait-for.ts';

const SCRIPT = resolve('scripts/migrate.ts');
const FILES = readMigrations(MIGRATIONS).map(({ file }) => basename(file));
const APPLIED = FILES.map((file) => `applied ${file}\n`).join('');
const NOTHING = { code: 0, output: 'nothing to do\n', errors: '' };
const ROLES = ['gateway', 'gateway_functions', 'gateway_keys', 'gateway_retention', 'gateway_search'];
/** The warning for a role that is not a superuser. */
const LOG_WARNING =
  /^warning: API keys can appear in the log of Postgres, .*\n {2}hint: As a superuser: alter database \w+ set log_parameter_max_length = 0\n$/;

const databases: string[] = [];
let server: PostgresServer | undefined;
/** The URL of the server's administrator, for a database that no test changes. */
let adminUrl: string;

beforeAll(async () => {
  // Before its migration a Supabase project has no role of the gateway, and a server of these tests' own has none either.
  server = process.env.TEST_DATABASE_URL ? undefined : await startEmbeddedPostgres();
  adminUrl = process.env.TEST_DATABASE_URL ?? server?.adminUrl ?? '';
});

afterAll(async () => {
  for (const name of databases) await runSql(adminUrl, `drop database ${name} with (force)`);
  await server?.stop();
});

async function newDatabase(): Promise<string> {
  const name = `migrate_test_${process.pid}_${databases.length}`;
  databases.push(name);
  await runSql(adminUrl, `create database ${name} template template0`);
  return databaseUrl(adminUrl, name);
}

/** A folder with these migrations alone. */
function folderWith(files: Record<string, string>): string {
  const folder = mkdtempSync(join(tmpdir(), 'migrate-'));
  for (const [name, sql] of Object.entries(files)) writeFileSync(join(folder, name), sql);
  return folder;
}

const migrate = (url: string, folder?: string) => runMigrate([], { DATABASE_URL: url }, folder);
const dryRun = (url: string, folder?: string) => runMigrate(['--dry-run'], { DATABASE_URL: url }, folder);

/** The rows of the bookkeeping; none if there is no table. */
const bookkeeping = async (url: string): Promise<{ version: string; name: string }[]> => {
  const [table] = await runSql(url, `select to_regclass('supabase_migrations.schema_migrations') as name`);
  if (!table?.name) return [];
  return runSql(url, 'select version, name from supabase_migrations.schema_migrations order by version');
};

async function createRole(admin: pg.Client, name: string, attributes: string): Promise<void> {
  const { rowCount } = await admin.query('select from pg_roles where rolname = $1', [name]);
  await admin.query(`${rowCount ? 'alter' : 'create'} role ${name} ${attributes} password '${PASSWORD}'`);
}

test('a role that is no superuser migrates the database that it owns, and is told what only a superuser may do', async () => {
  const url = loginUrl(await newDatabase(), 'migrate_owner');
  await asAdmin(adminUrl, async (admin) => {
    await createRole(admin, 'migrate_owner', 'login nosuperuser createrole bypassrls');
    await admin.query(`alter database ${new URL(url).pathname.slice(1)} owner to migrate_owner`);
    // If another role has migrated on this server, that role or a superuser has to grant the gateway's roles.
    const found = await admin.query('select rolname from pg_roles where rolname = any ($1)', [ROLES]);
    for (const { rolname } of found.rows) await admin.query(`grant ${rolname} to migrate_owner with admin option`);
  });
  expect(await migrate(url)).toEqual({ code: 0, output: APPLIED, errors: expect.stringMatching(LOG_WARNING) });
  expect(await migrate(url)).toEqual(NOTHING);
});

describe('a run', () => {
  test('lists what it would apply, and changes nothing, when it is dry', async () => {
    const url = await newDatabase();
    const pending = { code: 0, output: FILES.map((file) => `pending ${file}\n`).join(''), errors: '' };
    expect(await dryRun(url)).toEqual(pending);
    expect(await dryRun(url)).toEqual(pending);
    const schemas = `select nspname from pg_namespace where nspname !~ '^pg_' order by 1`;
    expect(await runSql(url, schemas)).toEqual([{ nspname: 'information_schema' }, { nspname: 'public' }]);
  });

  /** Does something that has to notify PostgREST. */
  const tellingPostgrest = (url: string, work: () => Promise<void>) =>
    asAdmin(url, async (db) => {
      await db.query('listen pgrst');
      const notified = once(db, 'notification');
      await work();
      expect((await notified)[0]).toMatchObject({ channel: 'pgrst', payload: 'reload schema' });
    });

  test('applies every migration once, and tells PostgREST to reload its schema', async () => {
    const url = await newDatabase();
    await tellingPostgrest(url, async () =>
      expect(await runCommand(SCRIPT, [], { env: { DATABASE_URL: url } })).toEqual({
        ...{ code: 0, output: APPLIED, errors: '' },
      }),
    );
    expect(await migrate(url)).toEqual(NOTHING);
    expect(await dryRun(url)).toEqual(NOTHING);
    const names = (await bookkeeping(url)).map(({ version, name }) => `${version}_${name}.sql`);
    expect(names).toEqual(FILES);
  });

  test('shares the migrations with another run at the same time', async () => {
    const url = await newDatabase();
    const folder = folderWith({
      '20260101000000_waits.sql': 'select pg_advisory_xact_lock(1);\ncreate table public.one ();',
      '20260101000001_two.sql': 'create table public.two ();',
      '20260101000002_three.sql': 'create table public.three ();',
    });
    const runs = await asAdmin(url, async (db) => {
      await db.query('select pg_advisory_lock(1)');
      const both = Promise.all([migrate(url, folder), migrate(url, folder)]);
      // One waits for this lock, and the other one waits for the first.
      await waitForBlocked(url, 2);
      await db.query('select pg_advisory_unlock(1)');
      return both;
    });
    expect(runs).toMatchObject([
      { code: 0, errors: '' },
      { code: 0, errors: '' },
    ]);
    const applied = runs.flatMap(({ output }) => output.match(/^applied .*$/gm) ?? []);
    expect(applied.sort()).toEqual(readdirSync(folder).map((file) => `applied ${file}`));
  });

  test('that fails names the place, keeps the migrations before, and tells PostgREST of them', async () => {
    const url = await newDatabase();
    const good = { '20260101000000_one.sql': 'create table public.one ();' };
    const broken = 'create table public.half ();\nselect *\n  from nada;\n';
    const folder = folderWith({ ...good, '20260101000001_broken.sql': broken });
    await tellingPostgrest(url, async () =>
      expect(await migrate(url, folder)).toEqual({
        code: 1,
        output: 'applied 20260101000000_one.sql\n',
        errors: `${folder}/20260101000001_broken.sql:3:8: relation "nada" does not exist (42P01)\n`,
      }),
    );
    expect(await bookkeeping(url)).toMatchObject([{ version: '20260101000000' }]);
    expect(await runSql(url, `select relname from pg_class where relnamespace = 'public'::regnamespace`)).toEqual([
      { relname: 'one' },
    ]);
    expect(await migrate(url, folderWith(good))).toEqual(NOTHING);
  });

  test('whose connection is cut says so in a line', async () => {
    const url = await newDatabase();
    const folder = folderWith({ '20260101000000_cut.sql': 'select pg_terminate_backend(pg_backend_pid());' });
    expect(await migrate(url, folder)).toEqual({
      code: 1,
      output: '',
      errors: expect.stringMatching(/^\S+\/20260101000000_cut\.sql: [^\n]*terminat[^\n]*\n$/),
    });
    expect(await bookkeeping(url)).toEqual([]);
  });
});

describe('a mistake is told in one line without the password', () => {
  const SECRET = 'hunter2';

  async function mistake(env: Record<string, string>, args: string[] = []): Promise<string> {
    const { code, output, errors } = await runMigrate(args, env);
    expect([code, output]).toEqual([1, '']);
    expect(errors).toMatch(/^[^\n]+\n$/);
    expect(errors).not.toContain(SECRET);
    return errors;
  }

  test('no URL, also with a Supabase project instead, and an unknown option', async () => {
    const project = { SUPABASE_URL: 'https://project.supabase.co', SUPABASE_KEY: `${SECRET}-0123` };
    for (const env of [{}, project]) {
      expect(await mistake(env)).toMatch(/^DATABASE_URL is not set: expected the database to migrate/);
    }
    expect(await mistake({}, ['--dry'])).toBe("error: unknown option '--dry'\n");
  });

  test('a missing host, server, database, user or right', async () => {
    await asAdmin(adminUrl, (admin) => createRole(admin, 'migrate_guest', 'login nosuperuser'));
    const port = await findPort();
    const at = (host: string) => `postgres://u:${SECRET}@${host}/d`;
    const mistakes: [string, RegExp][] = [
      [at('nowhere.invalid'), /^Cannot connect to nowhere\.invalid:5432: getaddrinfo/],
      [
        at(`127.0.0.1:${port}`),
        /^Cannot connect to (\S+): connect ECONNREFUSED \1; check that the server runs, and the host and port in DATABASE_URL$/m,
      ],
      [at(`localhost:${port}`), /^Cannot connect to localhost:\d+: .*ECONNREFUSED.*; check that the server runs/],
      [loginUrl(adminUrl, 'stranger', SECRET), /^Cannot connect to .*"stranger".*; check the user/],
      [databaseUrl(adminUrl, 'nada'), /^Cannot connect to .*database "nada" does not exist; create the database/],
      [
        loginUrl(await newDatabase(), 'migrate_guest'),
        /^permission denied for database \S+ \(42501\); connect as the database's owner, not with the gateway's login$/m,
      ],
    ];
    for (const [url, message] of mistakes) expect(await mistake({ DATABASE_URL: url }), url).toMatch(message);
  });
});

describe('a gateway that serves', () => {
  const MORE = `create or replace function public.listar_secoes_novas() returns integer language sql return 1;`;
  const LESS = 'alter function public.listar_secoes(text, integer, integer, uuid) rename to listar_outras;';
  const database = useDatabase();
  const gateway = useOpened(
    () => startConfigured({ DATABASE_URL: database.adminUrl }),
    ({ close }) => close(),
  );
  let serving: string;
  let url: string;

  /** Applies one more migration, if the gateway that serves can go on with it. */
  const migrateBy = (sql: string) =>
    runMigrate(['--serving', serving], { DATABASE_URL: url }, copyMigrations({ '20991231000000_next.sql': sql }));

  beforeAll(() => {
    url = database.adminUrl;
    serving = new URL(gateway.url).origin;
  });

  test('is not broken by a migration, which is refused as a whole', async () => {
    const { code, output, errors } = await migrateBy(`${MORE}\n${LESS}`);
    expect([code, output]).toEqual([1, '']);
    expect(errors).toBe(
      '20991231000000_next.sql: is not applied, because it breaks a gateway that runs:\n' +
        `${serving}: listarSecoes → listar_secoes: in the document x-rpc names the function; in the database there is none of that name in schema public\n` +
        'Add beside what it uses, and drop that when no gateway uses it any more (docs/deployment.md, Upgrade)\n',
    );
    expect(await runSql(url, `select from pg_proc where proname in ('listar_secoes_novas', 'listar_outras')`)).toEqual(
      [],
    );
    expect((await fetch(`${serving}/readyz`)).status).toBe(200);
  });

  test('lets an addition pass', async () => {
    expect(await migrateBy(MORE)).toMatchObject({ code: 0, output: 'applied 20991231000000_next.sql\n' });
  });

  test('is named if it does not give its document', async () => {
    const origin = `http://127.0.0.1:${await findPort()}`;
    const { code, errors } = await runMigrate(['--serving', origin], { DATABASE_URL: url });
    expect([code, errors]).toEqual([
      1,
      `The gateway at ${origin} does not give its document: connect ECONNREFUSED ${origin.slice('http://'.length)}\n`,
    ]);
  });
});
