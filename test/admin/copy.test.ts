import { mkdirSync, mkdtempSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { ADMINISTRATOR } from '../../src/store/embedded/server.ts';
import { openServer, toUrl } from '../../src/store/embedded/store.ts';
import { applyMigrations, readMigrations } from '../../src/store/migrations.ts';
import { openPostgres } from '../../src/store/postgres/store.ts';
import type { Call, Result } from '../../src/store/store.ts';
import { copyDataDir, MIGRATIONS, startConfigured } from '../helpers/gateway.ts';
import { runAdmin } from '../helpers/run.ts';
import {
  asAdmin,
  databaseUrl,
  loginUrl,
  PASSWORD,
  type PostgresServer,
  runSql,
  startEmbeddedPostgres,
} from '../helpers/servers.ts';

const never = new AbortController().signal;
const root = mkdtempSync(join(tmpdir(), 'copy-'));
let server: PostgresServer;
let adminUrl: string;
/** The URL of the role that owns the database and is not a superuser. */
let ownerUrl: string;
const dataDir = copyDataDir(inject('dataDir'));

const call = (name: string, args: Call['args'] = {}, returns: Call['returns'] = 'rows'): Call => ({
  function: name,
  args: { p_api_key: 'wms_demo_aurora', ...args },
  returns,
  readOnly: returns === 'rows',
});
const creation = call('criar_aluno', { p_nome: 'Antes', p_email: 'a@b.co', p_idempotency_key: 'Antes' }, 'row');
const names = ['listar_alunos', 'listar_treinos', 'listar_anamneses', 'listar_personais', 'listar_academias'];
const lists = names.map((name) => call(name, { p_limit: 1000 }));
const revoked = { ...creation, args: { ...creation.args, p_api_key: 'wms_demo_inativa' } };
const rowsOf = (result: Result): unknown => ('json' in result ? JSON.parse(result.json) : result);

/** The results of the gateway's calls on a database. The repeated creation always has the same result. */
async function read(url: string): Promise<unknown[]> {
  const store = openPostgres({ url, connections: 2, deadlineMs: 20_000 });
  const results = [];
  for (const one of [creation, ...lists, revoked]) results.push(rowsOf(await store.call(one, never)));
  await store.close();
  return results;
}

/** The numbers of rows of the demo data and of the creation. The output also has the tables that somebody has added. */
const COUNTS = [
  ...['tenants 2', 'usage_writers 0', 'academias 4', 'anamnese_secoes 11', 'api_keys 5', 'idempotency_keys 1'],
  ...['personais 5', 'usage 4', 'alunos 256', 'anamneses 62', 'treinos 405'],
];

const copy = (env: Record<string, string>, folder = dataDir) => runAdmin(['copy', folder], env);
const copied = (folder: string) => {
  const all = COUNTS.map((count) => `(?=.* ${count}[,.])`).join('');
  return { code: 0, output: expect.stringMatching(`^${all}Copied ${folder}: .*\\.\n$`), errors: '' };
};
const refused = (errors: string | RegExp) => ({ code: 1, output: '', errors: expect.stringMatching(errors) });

beforeAll(async () => {
  server = await startEmbeddedPostgres();
  adminUrl = databaseUrl(server.adminUrl, 'nova');
  ownerUrl = loginUrl(adminUrl, 'dona');
  await asAdmin(server.adminUrl, async (db) => {
    await db.query(`create role dona login createrole password '${PASSWORD}'`);
    await db.query('create database nova owner dona');
  });
});

afterAll(() => server.stop());

const FORGET_NEWEST = `delete from supabase_migrations.schema_migrations
  where version = (select max(version) from supabase_migrations.schema_migrations)`;

/** A table with a column that is named like one in the command's own SQL. */
const OWN = `create table private.notas (
  tenant_id uuid not null references private.tenants (id), id integer not null, t integer, primary key (tenant_id, id)
)`;
const NOTES = `insert into private.notas select id, 1, 7 from private.tenants`;

test('an embedded store is copied to Postgres with its rows and keys, once, while no gateway serves it', async () => {
  const gateway = await startConfigured({ DATA_DIR: dataDir });
  await runSql(toUrl(dataDir, ADMINISTRATOR), `${OWN}; ${NOTES}`);
  const before = await read(toUrl(dataDir));
  expect(before.at(-1)).toEqual({ failure: { kind: 'refusedKey', text: 'API Key inativa' } });
  expect(await copy({ DATABASE_URL: ownerUrl })).toEqual(refused(/^A gateway serves the store: stop it first/));
  await gateway.close();

  expect(await copy({ DATABASE_URL: ownerUrl })).toEqual(refused('npm run migrate'));
  await asAdmin(ownerUrl, async (db) => {
    await applyMigrations(db, readMigrations(MIGRATIONS));
    await db.query(OWN);
  });
  expect(await copy({ DATABASE_URL: ownerUrl })).toEqual(copied(dataDir));
  expect(await copy({ DATABASE_URL: ownerUrl })).toEqual(
    refused(/^private\.\w+ has rows already: nothing was copied\n/),
  );
  expect(await read(adminUrl)).toEqual(before);
  await asAdmin(adminUrl, async (db) => {
    expect((await db.query('select distinct t from private.notas')).rows).toEqual([{ t: 7 }]);
  });
});

test('a store that lacks migrations of the database is not copied, and stays as it is', async () => {
  const work = async (sql: string) => {
    const served = await openServer({ dataDir, fsync: false });
    return runSql(toUrl(dataDir, ADMINISTRATOR), sql).finally(served.close);
  };
  await work(FORGET_NEWEST);
  expect(await copy({ DATABASE_URL: ownerUrl })).toEqual(
    refused(/^The store lacks migrations of the database\nStart the gateway of this version /),
  );
  const count = 'select count(*)::integer as count from supabase_migrations.schema_migrations';
  expect(await work(count)).toEqual([{ count: readMigrations(MIGRATIONS).length - 1 }]);
});

test('a folder without a store is not copied', async () => {
  expect(await copy({ DATABASE_URL: ownerUrl }, '/nowhere')).toEqual(refused(/^There is no store in \/nowhere\n$/));
});

test('a store of version 1 is copied only while its own gateway serves it, to a folder without demo data', async () => {
  const folder = join(root, 'version-1');
  mkdirSync(join(folder, 'postgres'), { recursive: true });
  writeFileSync(join(folder, 'lock.json'), '{}');
  const DATA_DIR = join(root, 'from-version-1');
  expect(await copy({ DATA_DIR }, folder)).toEqual(
    refused(
      new RegExp(
        `^${folder} has a store of version 1, and no gateway of version 1 serves it: connect ENOENT .*\nStart one on a port that no client uses, such as PORT=3999 npm start, and copy again\\.\n$`,
      ),
    ),
  );

  // A store of version 1 has its socket in the same place.
  const served = await openServer({ dataDir, fsync: false });
  await runSql(toUrl(dataDir, ADMINISTRATOR), 'drop table private.notas');
  const before = await read(toUrl(dataDir));
  symlinkSync(join(dataDir, 'socket'), join(folder, 'socket'));
  // A store of version 1 lacks the newest migration.
  await runSql(toUrl(dataDir, ADMINISTRATOR), FORGET_NEWEST);
  expect(await copy({ DATA_DIR }, folder)).toEqual(copied(folder));
  await served.close();
  const target = await openServer({ dataDir: DATA_DIR, fsync: false });
  expect(await read(toUrl(DATA_DIR))).toEqual(before);
  await target.close();
});
