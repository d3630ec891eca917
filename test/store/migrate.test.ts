import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readdirSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join, resolve } from 'node:path';
import type pg from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { migrate as migrateDatabase } from '../../scripts/migrate.ts';
import { readMigrations } from '../../src/store/migrations.ts';
import { useDatabase } from '../helpers/database.ts';
import { MIGRATIONS, startConfigured } from '../helpers/gateway.ts';
import { runCommand } from '../helpers/run.ts';
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
const APPLIED = FILES.map((file) => `applied ${file}`);
const NOTHING = { code: 0, lines: ['nothing to do'], errors: '' };
const ROLES = ['gateway', 'gateway_functions', 'gateway_keys', 'gateway_retention', 'gateway_search'];
/** What one who is no superuser is told. */
const LOG_WARNING =
  /^warning: API keys can appear in the log of Postgres, .*\n {2}hint: As a superuser: alter database \w+ set log_parameter_max_length = 0\n$/;

const root = mkdtempSync(join(tmpdir(), 'migrate-'));
const databases: string[] = [];
let folders = 0;
let server: PostgresServer | undefined;
/** For the server's administrator, in a database that no test changes. */
let adminUrl: string;

beforeAll(async () => {
  // A Supabase project has no role of the gateway before it is migrated: neither has a server of these tests' own.
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

/** A project's folder with these migrations in it. */
function projectWith(files: Record<string, string>): string {
  folders += 1;
  const project = join(root, `project-${folders}`);
  mkdirSync(join(project, MIGRATIONS), { recursive: true });
  for (const [name, sql] of Object.entries(files)) writeFileSync(join(project, MIGRATIONS, name), sql);
  return project;
}

type Run = { readonly code: number; readonly lines: string[]; readonly errors: string };

/** What `npm run migrate` runs, in this process. */
async function run(env: Record<string, string>, args: string[] = [], project = '.'): Promise<Run> {
  const lines: string[] = [];
  const errors: string[] = [];
  const code = await migrateDatabase(args, {
    ...{ env, folder: join(project, MIGRATIONS) },
    print: (line) => void lines.push(line),
    printError: (line) => void errors.push(`${line.replaceAll(`${project}/`, '')}\n`),
  });
  return { code, lines, errors: errors.join('') };
}

const migrate = (url: string, project?: string) => run({ DATABASE_URL: url }, [], project);
const dryRun = (url: string, project?: string) => run({ DATABASE_URL: url }, ['--dry-run'], project);

/** The rows of the bookkeeping; none if there is no table. */
const bookkeeping = async (url: string): Promise<{ version: string; name: string; statements: string[] }[]> => {
  const [table] = await runSql(url, `select to_regclass('supabase_migrations.schema_migrations') as name`);
  if (!table?.name) return [];
  return runSql(url, 'select version, name, statements from supabase_migrations.schema_migrations order by version');
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
    // A server that another role has migrated before has the gateway's roles, which that role or a superuser hands on.
    const found = await admin.query('select rolname from pg_roles where rolname = any ($1)', [ROLES]);
    for (const { rolname } of found.rows) await admin.query(`grant ${rolname} to migrate_owner with admin option`);
  });
  expect(await migrate(url)).toEqual({ code: 0, lines: APPLIED, errors: expect.stringMatching(LOG_WARNING) });
  expect(await migrate(url)).toEqual(NOTHING);
});

describe('a run', () => {
  test('lists what it would apply, and changes nothing, when it is dry', async () => {
    const url = await newDatabase();
    const pending = { code: 0, lines: FILES.map((file) => `pending ${file}`), errors: '' };
    expect(await dryRun(url)).toEqual(pending);
    expect(await dryRun(url)).toEqual(pending);
    const schemas = `select nspname from pg_namespace where nspname !~ '^pg_' order by 1`;
    expect(await runSql(url, schemas)).toEqual([{ nspname: 'information_schema' }, { nspname: 'public' }]);
  });

  /** Does something of which PostgREST has to be told. */
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
        ...{ code: 0, output: APPLIED.map((line) => `${line}\n`).join('') },
        errors: '',
      }),
    );
    expect(await migrate(url)).toEqual(NOTHING);
    expect(await dryRun(url)).toEqual(NOTHING);
    const names = (await bookkeeping(url)).map(({ version, name }) => `${version}_${name}.sql`);
    expect(names).toEqual(FILES);
  });

  test('shares the migrations with another at the same time', async () => {
    const url = await newDatabase();
    const project = projectWith({
      '20260101000000_waits.sql': 'select pg_advisory_xact_lock(1);\ncreate table public.one ();',
      '20260101000001_two.sql': 'create table public.two ();',
      '20260101000002_three.sql': 'create table public.three ();',
    });
    const runs = await asAdmin(url, async (db) => {
      await db.query('select pg_advisory_lock(1)');
      const both = Promise.all([migrate(url, project), migrate(url, project)]);
      // One waits for the lock here, and the other one for it.
      await waitForBlocked(url, 2);
      await db.query('select pg_advisory_unlock(1)');
      return both;
    });
    expect(runs).toMatchObject([
      { code: 0, errors: '' },
      { code: 0, errors: '' },
    ]);
    const applied = runs.flatMap(({ lines }) => lines).filter((line) => line !== 'nothing to do');
    expect(applied.sort()).toEqual(readdirSync(join(project, MIGRATIONS)).map((file) => `applied ${file}`));
  });

  test('that fails names the place, keeps the migrations before, and tells PostgREST of them', async () => {
    const url = await newDatabase();
    const good = { '20260101000000_one.sql': 'create table public.one ();' };
    const broken = 'create table public.half ();\nselect *\n  from nada;\n';
    const project = projectWith({ ...good, '20260101000001_broken.sql': broken });
    await tellingPostgrest(url, async () =>
      expect(await migrate(url, project)).toEqual({
        code: 1,
        lines: ['applied 20260101000000_one.sql'],
        errors: 'supabase/migrations/20260101000001_broken.sql:3:8: relation "nada" does not exist (42P01)\n',
      }),
    );
    expect(await bookkeeping(url)).toMatchObject([{ version: '20260101000000' }]);
    expect(await runSql(url, `select relname from pg_class where relnamespace = 'public'::regnamespace`)).toEqual([
      { relname: 'one' },
    ]);
    expect(await migrate(url, projectWith(good))).toEqual(NOTHING);
  });

  test('whose connection is cut says so in a line', async () => {
    const url = await newDatabase();
    const project = projectWith({ '20260101000000_cut.sql': 'select pg_terminate_backend(pg_backend_pid());' });
    expect(await migrate(url, project)).toEqual({
      code: 1,
      lines: [],
      errors: expect.stringMatching(/^supabase\/migrations\/20260101000000_cut\.sql: [^\n]*terminat[^\n]*\n$/),
    });
    expect(await bookkeeping(url)).toEqual([]);
  });
});

test('migrations that the Supabase CLI has applied are applied', async () => {
  const one = `-- One.
create table public.one (name text default ';');

/* A function; with a semicolon. */
create function public.f() returns integer language sql return 1;
select public.f()  ;
-- The end.
`;
  /** As the CLI cuts it: comments stay with the statement after them, white space and semicolons at the ends go. */
  const statements = [
    `-- One.\ncreate table public.one (name text default ';')`,
    `/* A function; with a semicolon. */\ncreate function public.f() returns integer language sql return 1`,
    'select public.f()',
    '-- The end.',
  ];
  const url = await newDatabase();
  const table = 'supabase_migrations.schema_migrations';
  await runSql(
    url,
    `create schema supabase_migrations; create table ${table} (version text not null primary key);
     alter table ${table} add statements text[], add name text`,
  );
  await runSql(url, `insert into ${table} values ('20260101000000', $1, 'one')`, [statements]);
  const files = { '20260101000000_one.sql': one, '20260101000001_two.sql': 'create table public.two ();' };
  const project = projectWith(files);
  expect(await dryRun(url, project)).toMatchObject({ code: 0, lines: ['pending 20260101000001_two.sql'] });
  expect(await migrate(url, project)).toEqual({ code: 0, lines: ['applied 20260101000001_two.sql'], errors: '' });
  expect(await migrate(url, project)).toEqual(NOTHING);
});

test('the files that the Supabase CLI makes of the bookkeeping are the migrations', async () => {
  const url = await newDatabase();
  await migrate(url);
  // What `supabase migration fetch` writes.
  const fetched = (await bookkeeping(url)).map(({ version, name, statements }) => [
    ...[`${version}_${name}.sql`, `${statements.join(';\n')};\n`],
  ]);
  const project = projectWith(Object.fromEntries(fetched));
  expect(await dryRun(url, project)).toEqual(NOTHING);
  expect(await migrate(await newDatabase(), project)).toMatchObject({ code: 0, lines: APPLIED });
});

describe('a mistake is told in one line without the password', () => {
  const SECRET = 'hunter2';

  async function mistake(env: Record<string, string>, args: string[] = []): Promise<string> {
    const { code, lines, errors } = await run(env, args);
    expect([code, lines]).toEqual([1, []]);
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

  test('a host, a server, a database, a user and a right that is not there', async () => {
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
  let gateway: Awaited<ReturnType<typeof startConfigured>>;
  let serving: string;
  let url: string;

  /** The migrations that are applied, and one more. */
  const projectAfter = (sql: string) => {
    const applied = readMigrations(MIGRATIONS).map(({ file, sql }) => [basename(file), sql]);
    return projectWith({ ...Object.fromEntries(applied), '20991231000000_next.sql': sql });
  };

  beforeAll(async () => {
    url = database.adminUrl;
    gateway = await startConfigured({ DATABASE_URL: url });
    serving = new URL(gateway.url).origin;
  });

  afterAll(() => gateway.close());

  test('is not broken by a migration, which is refused as a whole', async () => {
    const args = ['--serving', serving];
    const { code, lines, errors } = await run({ DATABASE_URL: url }, args, projectAfter(`${MORE}\n${LESS}`));
    expect([code, lines]).toEqual([1, []]);
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
    const { code, lines } = await run({ DATABASE_URL: url }, ['--serving', serving], projectAfter(MORE));
    expect([code, lines]).toEqual([0, ['applied 20991231000000_next.sql']]);
  });

  test('is named if it does not give its document', async () => {
    const origin = `http://127.0.0.1:${await findPort()}`;
    const { code, errors } = await run({ DATABASE_URL: url }, ['--serving', origin]);
    expect([code, errors]).toEqual([
      1,
      `The gateway at ${origin} does not give its document: connect ECONNREFUSED ${origin.slice('http://'.length)}\n`,
    ]);
  });
});
