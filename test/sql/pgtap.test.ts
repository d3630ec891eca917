import { readFileSync } from 'node:fs';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { applyMigrations, readMigrations, runScript } from '../../src/store/migrations.ts';
import { reachServer } from '../../src/store/open.ts';
import { canTestOnDebian, startDebianPostgres } from '../helpers/debian-postgres.ts';
import { copyDataDir, MIGRATIONS, SEED } from '../helpers/gateway.ts';
import { startEmbeddedPostgres } from '../helpers/servers.ts';
import { SUPABASE_GRANTS, SUPABASE_ROLES } from '../helpers/supabase-project.ts';
import { addPgtap, readScript, runTap, scripts } from '../helpers/tap.ts';

const TABLES = 'the owners of functions have what these need of a table, and nobody else has anything';

const TABLE = `
  create table private.visitas# (
    tenant_id uuid not null references private.tenants (id), id uuid not null, academia_id uuid,
    primary key (tenant_id, id)
  );
  comment on table private.visitas# is 'Visits';
  alter table private.visitas# enable row level security, force row level security;
  create policy administration on private.visitas# to current_user using (true);`;
const USERS =
  'create schema if not exists auth; create table if not exists auth.users (tenant_id uuid, id uuid, unique (tenant_id, id));';
const VIEW_COMMENT = `comment on view private.vista# is 'A view'`;
const BODY = `language sql set search_path = pg_catalog, pg_temp as 'select null::uuid';`;
const DEFINER = `create function private.f#() returns uuid security definer ${BODY} comment on function private.f# is 'f';`;

/** SQL that violates privileges.sql, the test that reports it, and the role that the test names if others fail it too. */
const PRIVILEGES: Readonly<Record<string, string | readonly [test: string, role: string]>> = {
  'grant execute on function public.listar_alunos to public': 'role public, which is everybody, executes no function',
  'grant execute on function private.verify_key to gateway': 'gateway executes every function in public alone',
  'revoke execute on function public.listar_treinos from service_role':
    'service_role executes every function in public alone',
  'alter function public.listar_alunos owner to current_user': 'gateway_functions owns every function in public',
  'alter function private.to_uuid security definer':
    'only these functions in private have the rights of an owner, who has few',
  'create role other; grant execute on function private.to_uuid to other': [
    'no other role is granted a function',
    'other',
  ],
  'grant select on private.api_keys to gateway_functions': 'the functions reach only tables of tenants',
  'grant select on private.tenants to other': TABLES,
  'grant usage on schema private to gateway': 'the owners of functions use private, and nobody else',
  'grant create on schema public to gateway_functions': 'role gateway_functions creates nothing in schema public',
  'alter role gateway_functions bypassrls': 'no role of the gateway logs in, inherits, or is above a rule',
  'alter table private.alunos owner to gateway_functions': 'no role of the gateway owns a table',
  'grant gateway_keys to gateway_functions': 'no role of the gateway is a member of another',
  'grant gateway_keys to anon': ['nobody but the owner of private becomes a role that owns functions', 'anon'],
  'alter role authenticator inherit; revoke gateway from authenticator; grant gateway to authenticator':
    'authenticator becomes gateway and is not it by itself',
  'revoke connect on database postgres from public': 'everybody may connect in a Supabase project alone',
  'alter default privileges grant execute on functions to public':
    'role anon executes no function that is created later',
};

/** The number of a table that keeps every rule. The violations have the numbers after it. */
const FIRST = 100;

/** SQL that violates the rules of database_linter.sql, all of it run at once. */
const OFFENCES: Readonly<Record<string, string | readonly string[]>> = {
  '0001_unindexed_foreign_keys': `${TABLE}
    alter table private.visitas# add foreign key (tenant_id, academia_id) references private.academias`,
  '0002_auth_users_exposed': `${USERS} create view private.vista# with (security_invoker) as select id from auth.users;
    ${VIEW_COMMENT}`,
  '0003_auth_rls_initplan': [
    `${TABLE} create policy slow on private.visitas# to gateway using (id = private.to_uuid(id::text))`,
    `${TABLE} create policy slow on private.visitas# to gateway
    using (tenant_id = private.current_tenant() and id::text = lower(current_setting('a.b')))`,
  ],
  '0004_no_primary_key': `${TABLE}
    alter table private.visitas# drop constraint visitas#_tenant_id_fkey, drop constraint visitas#_pkey`,
  '0006_multiple_permissive_policies': `${TABLE}
    create policy too on private.visitas# for delete to current_user using (academia_id is not null)`,
  '0007_policy_exists_rls_disabled': `${TABLE} alter table private.visitas# disable row level security`,
  '0008_rls_enabled_no_policy': `${TABLE} drop policy administration on private.visitas#`,
  '0009_duplicate_index': 'create index again# on private.alunos (tenant_id, ativo, criado_em, id)',
  '0010_security_definer_view': `create view private.vista# as select 1 as n; ${VIEW_COMMENT}`,
  '0011_function_search_path_mutable': `create function private.f#() returns integer language sql as 'select 1';
    comment on function private.f# is 'f'`,
  '0012_auth_allow_anonymous_sign_ins': `${TABLE}
    create policy anybody on private.visitas# to authenticated using (false)`,
  '0013_rls_disabled_in_public': `${TABLE} drop policy administration on private.visitas#;
    alter table private.visitas# disable row level security`,
  '0014_extension_in_public': 'create extension citext schema public',
  '0015_rls_references_user_metadata': `${TABLE} create policy trusting on private.visitas# to gateway using (
    id = (select (current_setting('request.jwt.claims')::json -> 'user_metadata' ->> 'id')::uuid))`,
  '0016_materialized_view_in_api': `create materialized view private.m# as select 1 as n;
    comment on materialized view private.m# is 'm'`,
  '0017_foreign_table_in_api': `create foreign data wrapper w#; create server s# foreign data wrapper w#;
    create foreign table private.f# (n integer) server s#; comment on foreign table private.f# is 'f'`,
  '0018_unsupported_reg_types': `${TABLE} alter table private.visitas# add column kind regproc`,
  '0021_fkey_to_auth_unique': `${USERS} ${TABLE}
    alter table private.visitas# add foreign key (tenant_id, id) references auth.users (tenant_id, id)`,
  '0024_rls_policy_always_true': `${TABLE} create policy open on private.visitas# for select to gateway using (true)`,
  '0026_pg_graphql_anon_table_exposed': `${TABLE} grant select (id) on private.visitas# to anon`,
  '0027_pg_graphql_authenticated_table_exposed': `${TABLE} grant select on private.visitas# to authenticated`,
  '0028_anon_security_definer_function_executable': `${DEFINER} grant execute on function private.f# to anon`,
  '0029_authenticated_security_definer_function_executable': `${DEFINER}
    grant execute on function private.f# to authenticated`,
  '0030_autovacuum_disabled': `${TABLE} alter table private.visitas# set (autovacuum_enabled = off)`,
  '0030_invalid_index': `${TABLE} create index broken# on private.visitas# (academia_id);
    update pg_index set indisvalid = false where indexrelid = 'private.broken#'::regclass`,
  '0030_rls_policy_null_auth_disjunct': `${TABLE} create policy unproven on private.visitas# to gateway
    using ((select private.current_tenant()) is null or tenant_id = (select private.current_tenant()))`,
  no_relation_in_public: `create sequence public.s#; comment on sequence public.s# is 's'`,
  definer_in_public: `create function public.f#() returns uuid set statement_timeout = '5s' ${BODY}
    comment on function public.f# is 'f'`,
  forced_row_security: `${TABLE} alter table private.visitas# no force row level security`,
  tenant_in_keys: `${TABLE}
    alter table private.visitas# drop constraint visitas#_tenant_id_fkey, drop constraint visitas#_pkey,
    add primary key (id)`,
  tenant_in_uniques: `${TABLE} alter table private.visitas# add column numero integer unique`,
  undeferred_self_reference: `${TABLE}
    alter table private.visitas# add foreign key (tenant_id, id) references private.visitas# (tenant_id, id)`,
  unbounded_text: `${TABLE} alter table private.visitas# add column nota text check (nota <> '')`,
  overloaded_function: `create function private.f#() returns uuid ${BODY} comment on function private.f#() is 'f';
    create function private.f#(integer) returns uuid ${BODY} comment on function private.f#(integer) is 'f'`,
  no_timeout: `create function public.f#() returns uuid security definer ${BODY} comment on function public.f# is 'f'`,
  no_comment: `create function private.f#() returns uuid ${BODY}`,
};
/** The rules that report a violation too, and the objects without a number. */
const ALSO: Readonly<Record<string, string>> = { '0007_policy_exists_rls_disabled': '0013_rls_disabled_in_public' };
const OBJECTS: Readonly<Record<string, string>> = { '0014_extension_in_public': 'citext' };

type Server = { readonly url: string; prepare(db: pg.Client): Promise<unknown>; stop(): Promise<void> };

/** `npm test` leaves out the last of them. */
const SERVERS = [
  {
    name: 'Postgres 18 with the roles of a Supabase project',
    start: async (): Promise<Server> => {
      const { adminUrl: url, stop } = await startEmbeddedPostgres();
      const prepare = async (db: pg.Client) => {
        await db.query(`create role supabase_admin superuser login; ${SUPABASE_ROLES} ${SUPABASE_GRANTS}`);
        await applyMigrations(db, readMigrations(MIGRATIONS));
        await addPgtap(db);
      };
      return { url, prepare, stop };
    },
    mayBeSkipped: /^$/,
  },
  {
    name: 'Postgres 15 as the owner of a Supabase project, with demo data',
    start: async (): Promise<Server> => {
      const { ownerUrl: url, stop } = await startDebianPostgres();
      return { url, prepare: (db) => runScript(db, SEED), stop };
    },
    mayBeSkipped: /^until Postgres 15 a role with CREATEROLE may become every role$/,
  },
  {
    name: 'an embedded store, which lacks these roles, with demo data',
    start: async (): Promise<Server> => {
      const dataDir = copyDataDir(inject('dataDir'));
      const config = { kind: 'embedded', dataDir, programs: undefined, fsync: false, demoData: true } as const;
      const { url, close: stop } = await reachServer(config);
      return { url, prepare: addPgtap, stop };
    },
    mayBeSkipped: /^this server has no role \w+, which a Supabase project has$/,
  },
];

const servers = inject('isLong') ? SERVERS : SERVERS.slice(0, -1);

describe.skipIf(!canTestOnDebian('pgtap')).each(servers)('on $name', ({ name, start, mayBeSkipped }) => {
  let server: Server;
  let db: pg.Client;

  beforeAll(async () => {
    server = await start();
    db = new pg.Client(server.url);
    await db.connect();
    await server.prepare(db);
  });

  afterAll(() => db.end().finally(server.stop));

  test.each(scripts)('%s passes, and skips no test but what the server lacks', async (script) => {
    const { failed, skipped } = await runTap(db, readScript(script));
    expect(failed).toEqual([]);
    for (const reason of skipped) expect(reason).toMatch(mayBeSkipped);
  });

  test.runIf(name === SERVERS[0]?.name)('privileges.sql reports each privilege too many or too few', async () => {
    const sql = Object.keys(PRIVILEGES).join(';\n');
    const { failed } = await runTap(db, readScript('privileges.sql', sql));
    const isReported = (told: (typeof PRIVILEGES)[string]) => {
      const [description, role = ''] = [told].flat();
      return failed.some((text) => text.startsWith(`${description}\n`) && text.includes(role));
    };
    expect(Object.entries(PRIVILEGES).filter(([, told]) => !isReported(told))).toEqual([]);
  });

  test.runIf(name === SERVERS[0]?.name)('database_linter.sql reports each offence, and nothing else', async () => {
    const offences = Object.entries(OFFENCES).flatMap(([rule, all]) => [all].flat().map((sql) => ({ rule, sql })));
    const numbered = [{ rule: '', sql: TABLE }, ...offences].map(({ rule, sql }, index) => ({
      rule,
      sql: sql.replaceAll('#', String(FIRST + index)),
      pattern: new RegExp(OBJECTS[rule] ?? `[a-z]${FIRST + index}\\b`),
    }));
    const script = readScript('database_linter.sql', numbered.map(({ sql }) => sql).join(';\n'));
    const { failed, passed } = await runTap(db, script);
    const found = numbered.map(({ pattern, sql }) => {
      const rules = failed.filter((text) => pattern.test(text)).map((text) => text.slice(0, text.indexOf(':')));
      return { sql, rules };
    });
    const expected = numbered.map(({ sql, rule }) => ({ sql, rules: [rule, ALSO[rule]].filter(Boolean) }));
    expect(found).toEqual(expected);
    expect(passed).toEqual([]);
  });
});

test.each([
  ['fewer tests', ['1..1']],
  ['fewer tests and a comment', ['1..1', '# Looks like you planned 1 test but ran 0']],
  ['one test more', ['1..1', 'ok 1 - a', 'not ok 2 - b', '# why']],
])('a script that runs %s than it has planned fails', async (_what, lines) => {
  const db = { query: async () => [{ rows: lines.map((line) => ({ line })) }] } as unknown as pg.Client;
  await expect(runTap(db, { file: 'a.sql', sql: '' })).rejects.toThrow('a.sql: 1 tests are planned, and ');
});

describe('error-codes.md', () => {
  const SQLSTATES: Readonly<Record<string, string>> = {
    insufficient_privilege: '42501',
    invalid_function_definition: '42P13',
    invalid_parameter_value: '22023',
    no_data_found: 'P0002',
    object_not_in_prerequisite_state: '55000',
    undefined_function: '42883',
  };
  const table = readFileSync('supabase/error-codes.md', 'utf8');
  // The error of private.distribution_steps needs Citus: test/citus/schema.test.ts provokes it.
  const rows = table.matchAll(/^\| `(\w+)` \| `([^`]+)` \| (?!`private\.distribution_steps`)/gm);
  const errors = [...rows].map(([, code = '', text = '']) => [code, text]);
  const sql = scripts.map((name) => readScript(name).sql).join('\n');
  const provoked = [...sql.matchAll(/ '(\w{5}|p_\w+)', (?:format\()?'([^']+)'/g)].map(
    ([, code, text]) => `${code} ${text}`,
  );

  test.each(errors)('%s %s is provoked by a script', (code = '', text = '') => {
    const message = text.replace(/[().]/g, '\\$&').replaceAll(/%[sL]/g, '.+');
    expect(provoked).toContainEqual(expect.stringMatching(`^${SQLSTATES[code] ?? code} ${message}$`));
  });
});
