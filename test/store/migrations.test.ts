import { symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, describe, expect, test } from 'vitest';
import { applyMigrations, readMigrations, runScript } from '../../src/store/migrations.ts';
import { rows, useConnection } from '../helpers/database.ts';
import { copyMigrations, SEED } from '../helpers/gateway.ts';

const db = useConnection();

/** Applies the product's migrations and more. */
async function apply(more: Parameters<typeof copyMigrations>[0]) {
  const folder = copyMigrations(more);
  // Emacs leaves such a link beside a file that is being edited.
  symlinkSync('nobody@host.1', join(folder, '.#20260101000000_edited.sql'));
  return applyMigrations(db, readMigrations(folder));
}

describe('migrations', () => {
  afterEach(() =>
    db.exec(`drop table if exists private.a, private.half;
      delete from supabase_migrations.schema_migrations where version like '2199%'`),
  );

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
    [
      'what is deferred to the commit',
      'create table private.n (n integer unique deferrable initially deferred); insert into private.n values (1), (1);',
      /_broken\.sql: duplicate key .* \(23505\)\n {2}detail: Key \(n\)=\(1\) already exists\.$/,
    ],
  ])('that fail name the place of %s and leave nothing behind', async (_what, sql, message) => {
    const broken = { '21991231000000_broken.sql': `create table private.half (n integer);${sql}` };
    await expect(apply(broken)).rejects.toThrow(message);
    await apply({ '21991231000000_broken.sql': 'create table private.half (n integer);' });
  });

  test('are refused when an applied one has changed, except in white space, semicolons and whether a schema may exist', async () => {
    await apply({ '21991231000000_a.sql': 'create schema b; drop schema b; create table private.a (n integer);\n' });
    const same = 'create schema if not exists b; drop schema b; create table private.a (n\n  integer)  ;;\n\n';
    await apply({ '21991231000000_a.sql': same });
    await expect(apply({ '21991231000000_a.sql': 'create table private.a (n bigint);' })).rejects.toThrow(
      /_a\.sql: has changed since it was applied/,
    );
    // As the Supabase CLI records it.
    const statements = ['create schema b', 'drop schema b', 'create table private.a (n integer)'];
    await rows(
      db,
      `update supabase_migrations.schema_migrations set statements = $1 where version = '21991231000000'`,
      [statements],
    );
    await apply({ '21991231000000_a.sql': same });
  });

  test.each(['commit', 'rollback', 'commit; begin', 'end; create table private.half ()', 'rollback and chain'])(
    'are not recorded if they end their transaction by %s',
    async (end) => {
      const broken = { '21991231000000_broken.sql': `select 1;\n${end};` };
      await expect(apply(broken)).rejects.toThrow(/_broken\.sql: ends the transaction that it runs in/);
      await apply({});
    },
  );

  test.each(['commit', 'commit; begin'])('that fail after %s say that something was committed', async (end) => {
    const broken = { '21991231000000_broken.sql': `create table private.half ();\n${end};\nselect 1 / 0;` };
    await expect(apply(broken)).rejects.toThrow(
      /_broken\.sql: division by zero \(22012\)\n {2}It has also ended the transaction .*: remove its commit, and undo what/,
    );
    await apply({ '21991231000000_broken.sql': 'drop table private.half;' });
  });

  test('are refused when an applied one is older than the first one', async () => {
    await db.exec(`insert into supabase_migrations.schema_migrations (version) values ('20261121080000')`);
    await expect(apply({})).rejects.toThrow(
      /^The database has migration 20261121080000, which is older than the first one, .*Upgrade it with version 1.0 first/,
    );
    await db.exec(`delete from supabase_migrations.schema_migrations where version = '20261121080000'`);
  });

  test.each([
    ['one comes before an applied one', ['20000101000000_late.sql'], /_late\.sql: comes before \d+, which is applied/],
    ['two have one version', ['21991231000000_a.sql', '21991231000000_b.sql'], /_b\.sql: has the version of .*_a\.sql/],
    ['a name has no version', ['topic.sql'], /topic\.sql: expected a name like/],
    ['an ending has capitals', ['21991231000000_A.SQL'], /_A\.SQL: expected a name like/],
  ])('are refused when %s', async (_what, names, message) => {
    const files = Object.fromEntries(names.map((name) => [name, 'select 1;']));
    await expect(apply(files)).rejects.toThrow(message);
  });

  test('are refused when an applied one is gone', async () => {
    await apply({ '21991231000000_a.sql': 'select 1;' });
    await expect(apply({})).rejects.toThrow('has migration 21991231000000, and there is no file for it');
  });

  test('are refused in another encoding than UTF-8, and may begin with a byte order mark', async () => {
    const latin1 = Buffer.from("select 'ação';", 'latin1');
    await expect(apply({ '21991231000000_a.sql': latin1 })).rejects.toThrow(/_a\.sql: is not in UTF-8: save it in/);
    await apply({ '21991231000000_a.sql': "\ufeffselect 'ação';" });
    await apply({ '21991231000000_a.sql': "select 'ação';" });
  });

  test('leave no setting or role to the next one', async () => {
    const sql = "set role gateway; set client_encoding = 'latin1'; set statement_timeout = 300;";
    await apply({ '21991231000000_a.sql': sql, '21991231000001_b.sql': 'select pg_sleep(0.4);' });
    expect(await rows(db, 'select current_user as name')).toEqual([{ name: 'postgres' }]);
  });

  test.each([
    ...['-- nothing yet\n', 'select 1;\n-- the end\n', 'select 1; select 2', '/* a */ select 1;;\n\n;', ''],
    '-- nothing\nselect 1; ; select $$;$$, 1;;\n-- the end',
  ])('are unchanged at the next start: %j', async (sql) => {
    await apply({ '21991231000000_a.sql': sql });
    await apply({ '21991231000000_a.sql': sql });
  });
});

test('the seed makes the same rows each time', async () => {
  const names = await rows<{ name: string }>(
    db,
    `select oid::regclass as name from pg_class where relnamespace = 'private'::regnamespace and relkind in ('r', 'p')
        and relname <> 'changes'`, // Changes have the time of the commit.
  );
  const started = Date.now();
  /** The rows, with the same text for every time that is a default. */
  const seed = async () => {
    await db.exec('truncate private.tenants cascade');
    await runScript(db, SEED);
    const queries = names.map(({ name }) => `(select json_agg(t order by t::text) from ${name} t) as "${name}"`);
    const isNow = (value: unknown) =>
      typeof value === 'string' && Date.parse(value) >= started && Date.parse(value) <= Date.now();
    const [found] = await rows(db, `select ${queries.join(', ')}`);
    return JSON.stringify(found, (_name, value) => (isNow(value) ? 'now' : value), 1);
  };
  expect(await seed()).toBe(await seed());
});

test('the changes of the seed, which examples name, are kept', async () => {
  const read = () => rows(db, 'select id from private.changes order by id');
  const before = await read();
  await db.exec('select private.forget_changes()');
  expect(await read()).toEqual(before);
});
