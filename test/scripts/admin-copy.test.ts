import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { openEmbedded } from '../../src/store/embedded/store.ts';
import { applyMigrations, readMigrations } from '../../src/store/migrations.ts';
import { openPostgres } from '../../src/store/postgres/store.ts';
import type { Call, Result, Store } from '../../src/store/store.ts';
import { copyDataDir, MIGRATIONS } from '../helpers/gateway.ts';
import { runAdmin } from '../helpers/run.ts';
import { asAdmin, databaseUrl, type PostgresServer, startEmbeddedPostgres } from '../helpers/servers.ts';

const never = new AbortController().signal;
const PASSWORD = 'only-for-tests';
let server: PostgresServer;
let adminUrl: string;
/** Of the role that owns the database, and is no superuser. */
let ownerUrl: string;
const dataDir = copyDataDir(inject('dataDir'));

const call = (name: string, args: Call['args'] = {}, returns: Call['returns'] = 'rows'): Call => ({
  function: name,
  args: { p_api_key: 'wms_demo_aurora', ...args },
  returns,
  readOnly: returns === 'rows',
});
const creation = call('criar_aluno', { p_nome: 'Antes', p_email: 'a@b.co', p_idempotency_key: 'Antes' }, 'row');
const rowsOf = (result: Result): unknown => ('json' in result ? JSON.parse(result.json) : result);

const copy = (DATABASE_URL: string, folder = dataDir) => runAdmin(['copy', folder], { DATABASE_URL });
const openFolder = (): Promise<Store> => openEmbedded({ dataDir, migrationsDir: MIGRATIONS, statementLimitMs: 20_000 });

beforeAll(async () => {
  server = await startEmbeddedPostgres();
  adminUrl = databaseUrl(server.adminUrl, 'nova');
  ownerUrl = Object.assign(new URL(adminUrl), { username: 'dona', password: PASSWORD }).href;
  await asAdmin(server.adminUrl, async (db) => {
    await db.query(`create role dona login createrole password '${PASSWORD}'`);
    await db.query('create database nova owner dona');
  });
});

afterAll(() => server.stop());

test('an embedded store goes to Postgres with its rows and its keys, once, while no gateway serves it', async () => {
  const embedded = await openFolder();
  const created = rowsOf(await embedded.call(creation, never));
  expect(await copy(ownerUrl)).toMatchObject({ code: 1, errors: expect.stringMatching(/^A gateway serves the store/) });
  const names = ['listar_alunos', 'listar_treinos', 'listar_anamneses', 'listar_personais', 'listar_academias'];
  const lists = names.map((name) => call(name, { p_limit: 1000 }));
  const before = [];
  for (const list of lists) before.push(rowsOf(await embedded.call(list, never)));
  await embedded.close();

  expect(await copy(ownerUrl)).toMatchObject({ code: 1, errors: expect.stringContaining('npm run migrate') });
  await asAdmin(ownerUrl, (db) => applyMigrations(db, readMigrations(MIGRATIONS)));
  const done = await copy(ownerUrl);
  expect(done).toEqual({
    code: 0,
    output: `Copied ${dataDir}: tenants 2, usage_writers 0, academias 4, anamnese_secoes 11, api_keys 5, idempotency_keys 1, personais 5, usage 4, alunos 256, anamneses 62, treinos 405.\n`,
    errors: '',
  });
  expect(await copy(ownerUrl)).toMatchObject({
    code: 1,
    errors: expect.stringMatching(/^private\.\w+ has rows already: nothing was copied\n/),
  });

  const postgres = openPostgres({ url: adminUrl, connections: 2, prepare: true, deadlineMs: 20_000 });
  const after = [];
  for (const list of lists) after.push(rowsOf(await postgres.call(list, never)));
  expect(after).toEqual(before);
  expect(rowsOf(await postgres.call(creation, never))).toEqual(created);
  expect(
    await postgres.call({ ...creation, args: { ...creation.args, p_api_key: 'wms_demo_inativa' } }, never),
  ).toEqual({
    failure: { kind: 'refusedKey', text: 'API Key inativa' },
  });
  await postgres.close();
});

test('a folder without a store is not copied, and creates none', async () => {
  expect(await copy(ownerUrl, '/nowhere')).toEqual({ code: 1, output: '', errors: 'There is no store in /nowhere\n' });
});
