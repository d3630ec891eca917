// Supabase's tool and ours, each after the other, on databases like those of its projects.

import { execFile } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { readMigrations } from '../../src/store/migrations.ts';
import { canTestOnDebian, startBareDebianPostgres } from '../helpers/debian-postgres.ts';
import { MIGRATIONS } from '../helpers/gateway.ts';
import { runMigrate } from '../helpers/run.ts';
import { asAdmin, databaseUrl, loginUrl, PASSWORD, runSql, startEmbeddedPostgres } from '../helpers/servers.ts';
import { SUPABASE_GRANTS, SUPABASE_ROLES } from '../helpers/supabase-project.ts';

const CLI = 'supabase@3.1.0';
const OWNER = 'postgres';

type Ran = { readonly code: number; readonly output: string };

const folder = mkdtempSync(join(tmpdir(), 'supabase-'));

/** Runs a program in the folder of the project. */
async function run(program: string, args: readonly string[], env: NodeJS.ProcessEnv): Promise<Ran> {
  return promisify(execFile)(program, args, { cwd: folder, env: { ...process.env, ...env } }).then(
    ({ stdout, stderr }) => ({ code: 0, output: stdout + stderr }),
    ({ code, stdout, stderr }) => ({ code, output: stdout + stderr }),
  );
}

const supabase = (url: string, ...args: string[]) =>
  run(join(folder, 'node_modules/.bin/supabase'), [...args, `--db-url=${url}?sslmode=disable`], {
    HOME: folder,
    SUPABASE_TELEMETRY_DISABLED: '1',
  });

async function migrate(url: string): Promise<string> {
  const { code, output, errors } = await runMigrate([], { DATABASE_URL: url });
  expect(code, errors).toBe(0);
  return output + errors;
}

const APPLIED = readMigrations(MIGRATIONS).map(({ version }) => version);
const countTenants = (url: string) => runSql(url, 'select count(*)::integer as count from private.tenants');

beforeAll(async () => {
  writeFileSync(join(folder, 'package.json'), '{}');
  cpSync('supabase', join(folder, 'supabase'), { recursive: true });
  const installed = await run('npm', ['install', '--no-audit', '--no-fund', '--prefer-offline', CLI], {});
  expect(installed.code, installed.output).toBe(0);
});

afterAll(() => rmSync(folder, { recursive: true }));

const SERVERS = {
  'Postgres 15': () => startBareDebianPostgres('supabase_admin'),
  'Postgres 18': () => startEmbeddedPostgres(),
};
/** Since October 2026 a new project grants nothing on what its owner creates. */
const GRANTS = { 'with the grants of older projects': SUPABASE_GRANTS, 'without grants': '' };

describe.each(Object.keys(SERVERS) as (keyof typeof SERVERS)[])('on %s', (version) => {
  const isHere = version !== 'Postgres 15' || canTestOnDebian('plpgsql_check');
  let server: { readonly adminUrl: string; stop(): Promise<void> };
  let projects = 0;

  beforeAll(async () => {
    if (!isHere) return;
    server = await SERVERS[version]();
    await asAdmin(server.adminUrl, async (db) => {
      await db.query(SUPABASE_ROLES);
      const { rowCount } = await db.query('select from pg_roles where rolname = $1', [OWNER]);
      if (!rowCount) await db.query(`create role ${OWNER} login createrole password '${PASSWORD}'`);
      await db.query(`grant anon, authenticated, service_role to ${OWNER}`);
    });
  });

  afterAll(() => server?.stop());

  /** A database like that of a project, which already has a schema `private`. */
  async function newProject(grants: string): Promise<string> {
    projects += 1;
    const name = `project_${projects}`;
    await runSql(server.adminUrl, `create database ${name} template template0 owner ${OWNER}`);
    const superuserUrl = databaseUrl(server.adminUrl, name);
    if (version === 'Postgres 15') await runSql(superuserUrl, 'create extension plpgsql_check');
    const url = loginUrl(superuserUrl, OWNER);
    await runSql(
      url,
      `create schema extensions; create schema private; create table private.notes (text text); ${grants}`,
    );
    return url;
  }

  async function expectAgreement(url: string): Promise<void> {
    const { output } = await supabase(url, 'migration', 'list');
    const pairs = [...output.matchAll(/`(\d*)` *\| `(\d*)`/g)].map(([, local, remote]) => [local, remote]);
    expect(pairs, output).toEqual(APPLIED.map((applied) => [applied, applied]));
  }

  describe.each(Object.entries(GRANTS))('%s', (_name, grants) => {
    test.runIf(isHere)('what `db push` has applied counts as applied for `npm run migrate`', async () => {
      const url = await newProject(grants);
      const pushed = await supabase(url, 'db', 'push', '--yes', '--include-seed');
      expect(pushed.code, pushed.output).toBe(0);
      expect(await migrate(url)).toBe('nothing to do\n');
      await expectAgreement(url);
      // The demo data is left out, because everybody knows its keys.
      expect(await countTenants(url)).toEqual([{ count: 0 }]);
      expect(await runSql(url, 'select * from private.notes')).toEqual([]);
      const open = `select proname from pg_proc join pg_roles on rolname in ('anon', 'authenticated')
        where pronamespace = 'public'::regnamespace and prosecdef and has_function_privilege(rolname, pg_proc.oid, 'execute')`;
      expect(await runSql(url, open)).toEqual([]);
    });

    test.runIf(isHere)('what `npm run migrate` has applied counts as applied for `db push`', async () => {
      const url = await newProject(grants);
      expect((await migrate(url)).match(/^applied /gm)).toHaveLength(APPLIED.length);
      const pushed = await supabase(url, 'db', 'push', '--yes');
      expect(pushed).toMatchObject({ code: 0, output: expect.stringContaining('up to date') });
      await expectAgreement(url);
    });
  });

  test.runIf(isHere)('the demo data comes with `db push` if somebody turns the seed on', async () => {
    const config = join(folder, 'supabase/config.toml');
    const text = readFileSync(config, 'utf8');
    writeFileSync(
      config,
      text.replace('enabled = false\nsql_paths = []', 'enabled = true\nsql_paths = ["./seed.sql"]'),
    );
    const url = await newProject('');
    const pushed = await supabase(url, 'db', 'push', '--yes', '--include-seed');
    writeFileSync(config, text);
    expect(pushed.code, pushed.output).toBe(0);
    expect(await countTenants(url)).toEqual([{ count: 2 }]);
    expect(await migrate(url)).toBe('nothing to do\n');
  });

  test.runIf(version === 'Postgres 15' && isHere)('`db lint` finds no error', async () => {
    const url = await newProject('');
    await migrate(url);
    const linted = await supabase(url, 'db', 'lint', '--schema=public,private', '--level=error', '--fail-on=error');
    expect(linted.code, linted.output).toBe(0);
  });
});
