import { cpSync, mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { PGlite } from '@electric-sql/pglite';
import { afterAll, afterEach, beforeAll, describe, expect, inject, onTestFinished, test } from 'vitest';
import { type EmbeddedOptions, type EmbeddedStore, openEmbedded } from '../../src/store/embedded/store.ts';
import { applyMigrations, readMigrations } from '../../src/store/migrations.ts';
import type { Call, Result, Store } from '../../src/store/store.ts';
import { createCall, listCall } from '../helpers/calls.ts';
import { copyDataDir, MIGRATIONS, openDemoStore, SEED } from '../helpers/gateway.ts';
import { waitFor } from '../helpers/wait-for.ts';

const root = mkdtempSync(join(tmpdir(), 'embedded-'));
const template = inject('dataDir');
let folders = 0;

const SLOW = `create function public.slow(p_seconds float8) returns table (ok boolean)
  language sql stable security definer set search_path = pg_catalog, pg_temp
  as $$ select true from pg_sleep(p_seconds) $$;
select private.publish('public.slow');
create function public.fail() returns table (ok boolean)
  language plpgsql stable security definer set search_path = pg_catalog, pg_temp
  as $$ begin raise exception using errcode = '22012', message = 'no', hint = 'do not'; end $$;
select private.publish('public.fail');`;

afterAll(() => rmSync(root, { recursive: true }));

function open(options: Partial<EmbeddedOptions>): Promise<EmbeddedStore> {
  return openEmbedded({ migrationsDir: MIGRATIONS, statementLimitMs: 5_000, ...options });
}

function newFolder(): string {
  folders += 1;
  return join(root, `data-${folders}`);
}

const copyOfTemplate = () => copyDataDir(template);

/** The product's migrations and more, in a folder of their own. */
function migrationsWith(files: Record<string, string>): string {
  const folder = newFolder();
  cpSync(MIGRATIONS, folder, { recursive: true });
  for (const [name, sql] of Object.entries(files)) writeFileSync(join(folder, name), sql);
  return folder;
}

/** Opens a store with the functions above. */
const openSlow = (options: Partial<EmbeddedOptions> = {}) =>
  open({
    dataDir: copyOfTemplate(),
    migrationsDir: migrationsWith({ '20991231000000_slow.sql': SLOW }),
    ...options,
  });

const create = (p_nome: string) => createCall({ p_nome });
const slow = (seconds: number): Call => ({
  function: 'slow',
  args: { p_seconds: seconds },
  returns: 'rows',
  readOnly: true,
});
const never = new AbortController().signal;
const rowsOf = (result: Result) => ('json' in result ? JSON.parse(result.json) : result);

describe('data', () => {
  test('is there again after a restart, and not doubled by a second start with the seed', async () => {
    const dataDir = copyOfTemplate();
    const first = await open({ dataDir });
    const created = rowsOf(await first.call(create('Zélia'), never));
    await first.close();
    expect(await first.call(listCall(), never)).toMatchObject({ failure: { kind: 'storeUnavailable' } });

    const second = await open({ dataDir, seed: SEED, fsync: false });
    expect(second.description).toBe(
      `embedded Postgres, data in ${dataDir}, which a loss of power may destroy (FSYNC=off)`,
    );
    expect(rowsOf(await second.call(listCall({ p_nome: 'zélia' }), never))).toEqual([created]);
    expect(rowsOf(await second.call(listCall({ p_limit: 1000 }), never))).toHaveLength(251);
    await second.close();
  });

  test('is loaded into a store that is new, and only then; one whose first start did not come to its end is made anew', async () => {
    const dataDir = newFolder();
    cpSync(join(template, 'postgres', 'base'), join(dataDir, 'postgres.new', 'base'), { recursive: true });
    const empty = await open({ dataDir });
    expect(await empty.call(listCall(), never)).toEqual({ failure: { kind: 'refusedKey', text: 'API Key inválida' } });
    await empty.close();

    const again = await open({ dataDir, seed: SEED });
    expect(await again.call(listCall(), never)).toEqual({ failure: { kind: 'refusedKey', text: 'API Key inválida' } });
    await again.close();
  });
});

test('a store that an interrupted restore was about to replace is there again', async () => {
  const dataDir = copyOfTemplate();
  renameSync(join(dataDir, 'postgres'), join(dataDir, 'postgres.old'));
  const store = await open({ dataDir, seed: SEED });
  expect(rowsOf(await store.call(listCall({ p_limit: 1000 }), never))).toHaveLength(250);
  expect(readdirSync(dataDir)).not.toContain('postgres.old');
  await store.close();
});

test('the WAL is cut while the store serves, so that it does not fill the disk', async () => {
  const dataDir = copyOfTemplate();
  const write = `select pg_logical_emit_message(false, '', repeat('x', 1000000)) from generate_series(1, 80)`;
  const store = await open({ dataDir, migrationsDir: migrationsWith({ '20991231000000_fill.sql': write }) });
  const findFirst = () => readdirSync(join(dataDir, 'postgres/pg_wal')).sort()[0] ?? '';
  const before = findFirst();
  await waitFor(() => expect(findFirst() > before).toBe(true));
  expect(rowsOf(await store.call(listCall({ p_limit: 1 }), never))).toHaveLength(1);
  await store.close();
});

describe('a call', () => {
  let store: Store;

  beforeAll(async () => {
    store = await openSlow({ statementLimitMs: 2_000 });
  });

  afterAll(() => store.close());

  test('that fails inside of a function has its place and hint', async () => {
    const call: Call = { ...listCall(), function: 'fail', args: {} };
    expect(await store.call(call, never)).toMatchObject({
      failure: {
        cause: { message: 'no', hint: 'do not', where: expect.stringContaining('function public.fail() line') },
      },
    });
  });

  test('that runs too long is ended, and the next ones are served', async () => {
    const before = rowsOf(await store.call(create('Antes'), never));
    const [ended, next] = await Promise.all([
      store.call(slow(60), never),
      store.call(listCall({ p_nome: 'Antes' }), never),
    ]);
    expect(ended).toMatchObject({ failure: { kind: 'storeTimeout' } });
    expect(rowsOf(next)).toEqual([before]);
  });

  test('that is aborted before it starts never runs, even after it was sent to the thread', async () => {
    const controller = new AbortController();
    const busy = store.call(slow(0.2), never);
    const abandoned = ['Nunca 1', 'Nunca 2', 'Nunca 3'].map((nome) => store.call(create(nome), controller.signal));
    const wanted = store.call(create('Sempre'), never);
    controller.abort(new Error('gone'));
    for (const result of await Promise.all(abandoned)) {
      expect(result).toMatchObject({ failure: { kind: 'storeTimeout', cause: new Error('gone') } });
    }
    expect(rowsOf(await busy)).toEqual([{ ok: true }]);
    const created = rowsOf(await wanted);
    expect(rowsOf(await store.call(listCall({ p_nome: 'Nunca' }), never))).toEqual([]);
    expect(rowsOf(await store.call(listCall({ p_nome: 'Sempre' }), never))).toEqual([created]);
  });

  test('that is under way at its abort comes to its end', async () => {
    const controller = new AbortController();
    const busy = store.call(slow(0.2), controller.signal);
    const next = store.call(listCall({ p_limit: 1 }), never);
    await delay(100);
    controller.abort(new Error('gone'));
    expect(rowsOf(await busy)).toEqual([{ ok: true }]);
    expect(rowsOf(await next)).toHaveLength(1);
  });

  test('has its own timeout, which excludes the calls before it', async () => {
    const results = await Promise.all(Array.from({ length: 4 }, () => store.call(slow(0.8), never)));
    expect(results.map(rowsOf)).toEqual(Array.from({ length: 4 }, () => [{ ok: true }]));
  });

  test('that ended in time is not cut because the gateway was too busy to see it', async () => {
    const results = [store.call(slow(0.1), never), store.call(create('Durante'), never)];
    await delay(50);
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 2_500);
    const [ended, created] = (await Promise.all(results)).map(rowsOf);
    expect(ended).toEqual([{ ok: true }]);
    expect(rowsOf(await store.call(listCall({ p_nome: 'Durante' }), never))).toEqual([created]);
  });

  test('that was sent before a thread was ended goes to the next, once and in order', async () => {
    const ended = store.call(slow(60), never);
    const names = ['Depois 1', 'Depois 2', 'Depois 3'];
    const created = await Promise.all(names.map((nome) => store.call(create(nome), never)));
    expect(await ended).toMatchObject({ failure: { kind: 'storeTimeout' } });
    expect(created.map(rowsOf)).toMatchObject(names.map((nome) => ({ nome })));
    expect(rowsOf(await store.call(listCall({ p_nome: 'Depois' }), never))).toEqual(created.map(rowsOf));
  });
});

describe('a close', () => {
  test('while a new thread starts waits for its end, and frees the folder only then', async () => {
    const store = await openSlow({ statementLimitMs: 100 });
    expect(await store.call(slow(60), never)).toMatchObject({ failure: { kind: 'storeTimeout' } });
    const restarting = store.call(listCall(), never);
    await store.close();
    expect(await restarting).toMatchObject({ failure: { kind: 'storeUnavailable' } });
    expect(await store.call(listCall(), never)).toMatchObject({ failure: { kind: 'storeUnavailable' } });
  });

  test('is not held up by a statement that does not end', async () => {
    const store = await openSlow();
    const running = store.call(slow(3_600), never);
    await store.close();
    expect(await running).toMatchObject({ failure: { kind: 'storeUnavailable' } });
  });
});

describe('a folder', () => {
  test('with files of something else is refused, and left as it is', async () => {
    const dataDir = newFolder();
    mkdirSync(dataDir);
    writeFileSync(join(dataDir, 'hosts'), '');
    await expect(open({ dataDir })).rejects.toThrow(
      `${dataDir} has files of something else, such as hosts: set DATA_DIR`,
    );
    expect(readdirSync(dataDir)).toEqual(['hosts']);
  });

  test('that is in use is refused with the name of the user, and is free after it, and after a start that failed', async () => {
    const dataDir = copyOfTemplate();
    const first = await open({ dataDir });
    await expect(open({ dataDir })).rejects.toThrow(
      new RegExp(`^${dataDir} is in use by process ${process.pid} on \\S+, since \\d{4}-`),
    );
    await first.close();
    const migrationsDir = migrationsWith({ '20991231000000_broken.sql': 'nonsense' });
    await expect(open({ dataDir, migrationsDir })).rejects.toThrow(
      /_broken\.sql:1:1: syntax error at or near "nonsense"/,
    );
    const second = await open({ dataDir });
    await second.close();
  });
});

describe('migrations', () => {
  let db: PGlite;
  const apply = async (files: Record<string, string>) => applyMigrations(db, readMigrations(migrationsWith(files)));

  beforeAll(async () => {
    db = await PGlite.create({ dataDir: join(copyOfTemplate(), 'postgres') });
  });

  afterEach(() =>
    db.exec(`drop table if exists private.a, private.half;
      delete from supabase_migrations.schema_migrations where version like '2099%'`),
  );

  afterAll(() => db.close());

  test('are applied once, in order', async () => {
    const files = {
      '20991231000000_a.sql': 'create table private.a (n integer); insert into private.a values (1);',
      '20991231000001_b.sql': 'insert into private.a select n + 1 from private.a;',
    };
    await apply(files);
    await apply(files);
    const more = {
      ...files,
      '20991231000002_c.sql': `do $$ begin assert (select array_agg(n order by n) = '{1,2}' from private.a); end $$;`,
    };
    await apply(more);
  });

  test('can redefine a function with other types while the store serves', async () => {
    const define = (type: string) => `drop function if exists public.echo;
      create function public.echo(p_value ${type}) returns table (value ${type}) language sql stable security definer
        set search_path = pg_catalog, pg_temp as 'select p_value';
      select private.publish('public.echo');`;
    const migrationsDir = migrationsWith({ '20991231000000_a.sql': define('integer') });
    const store = await open({ dataDir: copyOfTemplate(), migrationsDir });
    onTestFinished(() => store.close());
    const echo = async (value: string): Promise<unknown> =>
      rowsOf(await store.call({ function: 'echo', args: { p_value: value }, returns: 'rows', readOnly: true }, never));
    expect([await echo('1'), await echo('2')]).toEqual([[{ value: 1 }], [{ value: 2 }]]);
    expect(await echo('dois')).toMatchObject({ failure: { kind: 'storeError', cause: { code: '22P02' } } });
    writeFileSync(join(migrationsDir, '20991231000001_b.sql'), define('text'));
    expect(await store.migrate()).toEqual([expect.stringContaining('_b.sql')]);
    expect(await echo('dois')).toEqual([{ value: 'dois' }]);
  });

  test('pass on the warnings of Postgres', async () => {
    const warnings: string[] = [];
    const migrationsDir = migrationsWith({
      '20991231000000_a.sql': `do $$ begin raise notice 'heard by nobody'; raise warning 'look' using hint = 'here'; end $$;`,
    });
    const store = await open({ dataDir: copyOfTemplate(), migrationsDir, onWarning: (text) => warnings.push(text) });
    await store.close();
    expect(warnings).toEqual(['look\n  hint: here']);
  });

  test.each([
    ['a syntax error', 'select 1;\n  selec 2;', /_broken\.sql:2:3: syntax error at or near "selec"/],
    [
      'a missing table',
      '-- ação\nselect 1;\n\nselect *\n  from nada;',
      /_broken\.sql:5:8: relation "nada" does not exist \(42P01\)/,
    ],
    [
      'a column, in characters',
      `select 1;\nselect '😀', nada;`,
      /_broken\.sql:2:13: column "nada" does not exist \(42703\)/,
    ],
    ['an error at run time', 'select 1;\nselect 1 / 0;', /_broken\.sql: division by zero \(22012\)/],
    [
      'an error in a body',
      "do $$\nbegin\n  raise exception 'no' using detail = 'because', hint = 'do not';\nend $$;",
      /_broken\.sql: no \(P0001\)\n {2}detail: because\n {2}hint: do not\n {2}where: PL\/pgSQL function/,
    ],
  ])('that fail name the place of %s and leave nothing behind', async (_what, sql, message) => {
    const broken = { '20991231000000_broken.sql': `create table private.half (n integer);${sql}` };
    await expect(apply(broken)).rejects.toThrow(message);
    await apply({ '20991231000000_broken.sql': 'create table private.half (n integer);' });
  });

  test('are refused when an applied one has changed, except in white space and semicolons', async () => {
    await apply({ '20991231000000_a.sql': 'create table private.a (n integer);\n' });
    await apply({ '20991231000000_a.sql': 'create table private.a (n\n  integer)  ;\n\n' });
    await expect(apply({ '20991231000000_a.sql': 'create table private.a (n bigint);' })).rejects.toThrow(
      /_a\.sql: has changed since it was applied/,
    );
  });

  test.each(['commit', 'rollback', 'commit; begin', 'end; create table private.half ()', 'rollback and chain'])(
    'are not recorded if they end their transaction by %s',
    async (end) => {
      const broken = { '20991231000000_broken.sql': `select 1;\n${end};` };
      await expect(apply(broken)).rejects.toThrow(/_broken\.sql: ends the transaction that it runs in/);
      await apply({});
    },
  );

  test('are refused when an applied one is older than the first one', async () => {
    await db.exec(`insert into supabase_migrations.schema_migrations (version) values ('20261121080000')`);
    await expect(apply({})).rejects.toThrow(
      /^The database has migration 20261121080000, which is older than the first one, .*Upgrade it with version 1.0 first/,
    );
    await db.exec(`delete from supabase_migrations.schema_migrations where version = '20261121080000'`);
  });

  test('are refused when an applied one is gone', async () => {
    await apply({ '20991231000000_a.sql': 'select 1;' });
    await expect(apply({})).rejects.toThrow('has migration 20991231000000, and there is no file for it');
  });

  test('are refused when one comes before an applied one', async () => {
    await expect(apply({ '20000101000000_late.sql': 'select 1;' })).rejects.toThrow(
      /20000101000000_late\.sql: comes before \d+, which is applied/,
    );
  });

  test('are refused when two have one version', async () => {
    const twins = { '20991231000000_a.sql': 'select 1;', '20991231000000_b.sql': 'select 1;' };
    await expect(apply(twins)).rejects.toThrow(/_b\.sql: has the version of .*_a\.sql/);
  });

  test('are refused when a name has no version', async () => {
    await expect(apply({ 'topic.sql': 'select 1;' })).rejects.toThrow(/topic\.sql: expected a name like/);
  });

  test.each([
    ...['-- nothing yet\n', 'select 1;\n-- the end\n', 'select 1; select 2', '/* a */ select 1;;\n\n;', ''],
    '-- nothing\nselect 1; ; select $$;$$, 1;;\n-- the end',
  ])('are the same at the next start: %j', async (sql) => {
    await apply({ '20991231000000_a.sql': sql });
    await apply({ '20991231000000_a.sql': sql });
  });
});

test('the seed makes the same rows at every start', async () => {
  const templates = { adminUrl: inject('adminUrl'), dataDir: template };
  const [one, other] = await Promise.all([openDemoStore('postgres', templates), openDemoStore('embedded', templates)]);
  for (const name of ['listar_alunos', 'listar_treinos', 'listar_anamneses', 'listar_personais', 'listar_secoes']) {
    const call: Call = { ...listCall({ p_limit: 1000 }), function: name };
    expect(await one.call(call, never)).toEqual(await other.call(call, never));
  }
  await Promise.all([one.close(), other.close()]);
});
