// The upgrade of a store that version 0.2.0 has made and filled: release-0.2.0.json.br has its migrations and its demo data.

import { mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { brotliDecompressSync } from 'node:zlib';
import { PGlite } from '@electric-sql/pglite';
import { pg_trgm } from '@electric-sql/pglite/contrib/pg_trgm';
import pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { openEmbedded } from '../../src/store/embedded/store.ts';
import { applyMigrations, type Database, type Migration, readMigrations } from '../../src/store/migrations.ts';
import { openPostgres } from '../../src/store/postgres/store.ts';
import { createCall } from '../helpers/calls.ts';
import { MIGRATIONS } from '../helpers/gateway.ts';
import { asAdmin, databaseUrl, type PostgresServer, runSql, startEmbeddedPostgres } from '../helpers/servers.ts';

const RELEASE: { migrations: readonly Migration[]; seed: string } = JSON.parse(
  brotliDecompressSync(readFileSync(join(import.meta.dirname, '../helpers/release-0.2.0.json.br'))).toString(),
);
const TABLES = [
  ...['tenants', 'api_keys', 'idempotency_keys', 'academias', 'personais', 'alunos', 'treinos'],
  ...['anamnese_secoes', 'anamneses'],
];
const CREATE = 'select to_jsonb(c) as created from public.criar_aluno($1, $2, $3, p_idempotency_key => $2) c';
const KEY = 'wms_demo_aurora';
const folder = mkdtempSync(join(tmpdir(), 'upgrade-'));
let server: PostgresServer;
let databases = 0;

beforeAll(async () => {
  server = await startEmbeddedPostgres();
  await runSql(server.adminUrl, `create role dona login createrole password 'only-for-tests'`);
});

afterAll(async () => {
  await server.stop();
  rmSync(folder, { recursive: true });
});

/** Makes a store of 0.2.0 with its demo data, an issued key, and a creation that can be repeated. */
async function fill(db: Database): Promise<void> {
  const run = (sql: string) => (db.exec ? db.exec(sql) : db.query(sql));
  await run('create schema supabase_migrations');
  await run(
    'create table supabase_migrations.schema_migrations (version text primary key, statements text[], name text)',
  );
  for (const { version, name, sql } of RELEASE.migrations) {
    await run(`begin; ${sql}; commit`);
    await db.query('insert into supabase_migrations.schema_migrations values ($1, array[$2], $3)', [
      version,
      sql,
      name,
    ]);
  }
  await run(RELEASE.seed);
  await db.query(`select private.issue_key(id, 'parceiro', array['listar_alunos']) from private.tenants`);
  await db.query(CREATE, [KEY, 'Antes', 'antes@aurora.example']);
}

type Hashes = readonly { readonly table: string; readonly columns: readonly string[]; readonly hash: string }[];

/** What is in each table of 0.2.0: a hash of its rows, in the columns that it has, or in those that it had before. */
async function readRows(db: Database, before: Hashes = []): Promise<Hashes> {
  const hashes: Hashes[number][] = [];
  for (const table of TABLES) {
    const columns =
      before.find((one) => one.table === table)?.columns ??
      (await query<{ name: string }>(db, COLUMNS, [table])).map(({ name }) => name);
    const row = `array_to_string(array[${columns.map((name) => `${name}::text`)}], '|', 'null')`;
    const sql = `select md5(string_agg(${row}, chr(10) order by ${row})) as hash from private.${table}`;
    const [{ hash } = { hash: '' }] = await query<{ hash: string }>(db, sql);
    hashes.push({ table, columns, hash });
  }
  return hashes;
}

/** Without what a call or a new rule of search changes. */
const COLUMNS = `
select attname as name from pg_attribute
 where attrelid = format('private.%I', $1::text)::regclass and attnum > 0 and attname not in ('last_used_at', 'nome_busca')
 order by attnum`;

async function query<T>(db: Database, sql: string, values: unknown[] = []): Promise<T[]> {
  return (await db.query(sql, values)).rows as T[];
}

/** A database of 0.2.0: the URL for the role that owns it and is no superuser. */
async function createOldDatabase(): Promise<string> {
  databases += 1;
  await runSql(server.adminUrl, `create database velha${databases} owner dona`);
  const url = new URL(databaseUrl(server.adminUrl, `velha${databases}`));
  url.username = 'dona';
  await asAdmin(url.href, fill);
  return url.href;
}

const REPEATED = createCall({ p_nome: 'Antes', p_email: 'antes@aurora.example', p_idempotency_key: 'Antes' });
const never = new AbortController().signal;

test('a Postgres keeps all rows and keys, answers every read meanwhile, and loses no creation', async () => {
  const url = await createOldDatabase();
  const before = await asAdmin(url, readRows);
  const served = new pg.Pool({ connectionString: url, max: 4, options: '-c role=gateway' });
  let isUpgraded = false;
  const acknowledged: string[] = [];
  const read = async () => {
    for (; !isUpgraded; ) {
      const { rows } = await served.query('select nome from public.listar_alunos($1, p_limit => 3)', [KEY]);
      expect(rows).toHaveLength(3);
    }
  };
  const create = async (letter: string) => {
    for (let n = 0; !isUpgraded; n += 1) {
      const name = `${letter}${n}`;
      // What waited for the upgrade fails, as the gateway's 502, and is sent again.
      while (!(await served.query(CREATE, [KEY, name, 'durante@aurora.example']).catch(() => undefined)))
        await delay(20);
      acknowledged.push(name);
    }
  };
  const load = [read(), read(), create('a'), create('b')];
  while (acknowledged.length < 10) await delay(10);
  const applied = await asAdmin(url, (db) => applyMigrations(db, readMigrations(MIGRATIONS))).finally(() => {
    isUpgraded = true;
  });
  await Promise.all(load);
  await served.end();

  expect(applied).toEqual(readMigrations(MIGRATIONS));
  await asAdmin(url, async (db) => {
    const { rows } = await db.query(`select nome from private.alunos where email = 'durante@aurora.example'`);
    expect(rows.map(({ nome }) => nome).toSorted()).toEqual(acknowledged.toSorted());
    await db.query(`delete from private.alunos where email = 'durante@aurora.example'`);
    await db.query(`delete from private.idempotency_keys where key <> 'Antes'`);
    expect(await readRows(db, before)).toEqual(before);
    const schemas = await db.query(`select nspname from pg_namespace where nspname like 'private%'`);
    expect(schemas.rows).toEqual([{ nspname: 'private' }]);
    expect(await applyMigrations(db, readMigrations(MIGRATIONS))).toEqual([]);
  });
  const store = openPostgres({
    url: databaseUrl(server.adminUrl, `velha${databases}`),
    connections: 1,
    prepare: true,
    deadlineMs: 20_000,
  });
  expect(await store.call(REPEATED, never)).toMatchObject({ json: expect.stringContaining('"nome":"Antes"') });
  await store.close();
  await asAdmin(url, async (db) => expect(await readRows(db, before)).toEqual(before));
});

test('an embedded store is upgraded when it is opened', async () => {
  const dataDir = join(folder, 'embedded');
  mkdirSync(dataDir);
  const old = new PGlite(join(dataDir, 'postgres'), { extensions: { pg_trgm } });
  await fill(old);
  const before = await readRows(old);
  await old.close();
  const store = await openEmbedded({ dataDir, migrationsDir: MIGRATIONS, statementLimitMs: 20_000 });
  expect(await store.call(REPEATED, never)).toMatchObject({ json: expect.stringContaining('"nome":"Antes"') });
  await store.close();
  const upgraded = new PGlite(join(dataDir, 'postgres'));
  expect(await readRows(upgraded, before)).toEqual(before);
  await upgraded.close();
});

test.each([
  [
    'a table that no migration creates',
    'create table private.cofres (id integer)',
    'no migration creates the table cofres of version 0.2.0',
  ],
  [
    'a row that the new schema refuses',
    `update private.academias set nome = repeat('a', 1000)`,
    'violates check constraint "academias_nome_length"',
  ],
])('%s ends the upgrade, and changes nothing', async (_what, sql, message) => {
  const url = await createOldDatabase();
  await asAdmin(url, async (db) => {
    await db.query(sql);
    const before = await readRows(db);
    await expect(applyMigrations(db, readMigrations(MIGRATIONS))).rejects.toThrow(message);
    expect(await readRows(db, before)).toEqual(before);
    const { rows } = await db.query('select version from supabase_migrations.schema_migrations order by 1');
    expect(rows.map(({ version }) => version)).toEqual(RELEASE.migrations.map(({ version }) => version));
  });
});
