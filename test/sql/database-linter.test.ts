import type pg from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { canTestOnDebian } from '../helpers/debian-postgres.ts';
import { readScript, runTap, startSupabase } from '../helpers/tap.ts';

// What supabase/tests/database_linter.sql reports, for each of its rules.

const TABLE = `
  create table private.visitas (
    tenant_id uuid not null references private.tenants (id), id uuid not null, academia_id uuid,
    primary key (tenant_id, id)
  );
  comment on table private.visitas is 'Visits';
  alter table private.visitas enable row level security, force row level security;
  create policy administration on private.visitas to current_user using (true);`;
const USERS = 'create schema auth; create table auth.users (tenant_id uuid, id uuid, unique (tenant_id, id));';
const VIEW_COMMENT = `comment on view private.vista is 'A view'`;
const BODY = `language sql set search_path = pg_catalog, pg_temp as 'select null::uuid';`;

const OFFENCES: readonly { readonly rule: string; readonly also?: string[]; readonly sql: string }[] = [
  {
    rule: '0001_unindexed_foreign_keys',
    sql: `${TABLE} alter table private.visitas add foreign key (tenant_id, academia_id) references private.academias`,
  },
  {
    rule: '0002_auth_users_exposed',
    sql: `${USERS} create view private.vista with (security_invoker) as select id from auth.users; ${VIEW_COMMENT}`,
  },
  {
    rule: '0003_auth_rls_initplan',
    sql: `${TABLE} create policy slow on private.visitas to gateway using (id = private.to_uuid(id::text))`,
  },
  {
    rule: '0003_auth_rls_initplan',
    sql: `${TABLE} create policy slow on private.visitas to gateway
              using (tenant_id = private.current_tenant() and id::text = lower(current_setting('a.b')))`,
  },
  {
    rule: '0004_no_primary_key',
    sql: `${TABLE} alter table private.visitas drop constraint visitas_tenant_id_fkey, drop constraint visitas_pkey`,
  },
  {
    rule: '0006_multiple_permissive_policies',
    sql: `${TABLE} create policy too on private.visitas for delete to current_user using (academia_id is not null)`,
  },
  {
    rule: '0007_policy_exists_rls_disabled',
    also: ['0013_rls_disabled_in_public'],
    sql: `${TABLE} alter table private.visitas disable row level security`,
  },
  { rule: '0008_rls_enabled_no_policy', sql: `${TABLE} drop policy administration on private.visitas` },
  { rule: '0009_duplicate_index', sql: 'create index again on private.alunos (tenant_id, ativo, criado_em, id)' },
  { rule: '0010_security_definer_view', sql: `create view private.vista as select 1 as n; ${VIEW_COMMENT}` },
  {
    rule: '0011_function_search_path_mutable',
    sql: `create function private.f() returns integer language sql as 'select 1'; comment on function private.f is 'f'`,
  },
  {
    rule: '0012_auth_allow_anonymous_sign_ins',
    sql: `${TABLE} create policy anybody on private.visitas to authenticated using (false)`,
  },
  {
    rule: '0013_rls_disabled_in_public',
    sql: `${TABLE} drop policy administration on private.visitas;
            alter table private.visitas disable row level security`,
  },
  { rule: '0014_extension_in_public', sql: 'create extension citext schema public' },
  {
    rule: '0015_rls_references_user_metadata',
    sql: `${TABLE} create policy trusting on private.visitas to gateway using (
              id = (select (current_setting('request.jwt.claims')::json -> 'user_metadata' ->> 'id')::uuid))`,
  },
  {
    rule: '0016_materialized_view_in_api',
    sql: `create materialized view private.m as select 1 as n; comment on materialized view private.m is 'm'`,
  },
  {
    rule: '0017_foreign_table_in_api',
    sql: `create foreign data wrapper w; create server s foreign data wrapper w;
            create foreign table private.f (n integer) server s; comment on foreign table private.f is 'f'`,
  },
  { rule: '0018_unsupported_reg_types', sql: `${TABLE} alter table private.visitas add column kind regproc` },
  {
    rule: '0021_fkey_to_auth_unique',
    sql: `${USERS} ${TABLE}
            alter table private.visitas add foreign key (tenant_id, id) references auth.users (tenant_id, id)`,
  },
  {
    rule: '0024_rls_policy_always_true',
    sql: `${TABLE} create policy open on private.visitas for select to gateway using (true)`,
  },
  { rule: '0026_pg_graphql_anon_table_exposed', sql: 'grant select (id) on private.tenants to anon' },
  { rule: '0027_pg_graphql_authenticated_table_exposed', sql: 'grant select on private.tenants to authenticated' },
  {
    rule: '0028_anon_security_definer_function_executable',
    sql: 'grant execute on function private.verify_key to anon',
  },
  {
    rule: '0029_authenticated_security_definer_function_executable',
    sql: 'grant execute on function private.verify_key to authenticated',
  },
  { rule: '0030_autovacuum_disabled', sql: 'alter table private.tenants set (autovacuum_enabled = off)' },
  {
    rule: '0030_invalid_index',
    sql: `update pg_index set indisvalid = false where indexrelid = 'private.alunos_in_order'::regclass`,
  },
  {
    rule: '0030_rls_policy_null_auth_disjunct',
    sql: `${TABLE} create policy unproven on private.visitas to gateway
              using ((select private.current_tenant()) is null or tenant_id = (select private.current_tenant()))`,
  },
  { rule: 'no_relation_in_public', sql: `create sequence public.s; comment on sequence public.s is 's'` },
  {
    rule: 'definer_in_public',
    sql: `create function public.f() returns uuid set statement_timeout = '5s' ${BODY} comment on function public.f is 'f'`,
  },
  { rule: 'forced_row_security', sql: `${TABLE} alter table private.visitas no force row level security` },
  {
    rule: 'tenant_in_keys',
    sql: `${TABLE} alter table private.visitas drop constraint visitas_tenant_id_fkey, drop constraint visitas_pkey,
              add primary key (id)`,
  },
  {
    rule: 'undeferred_self_reference',
    sql: `${TABLE} alter table private.visitas add foreign key (tenant_id, id) references private.visitas (tenant_id, id)`,
  },
  { rule: 'unbounded_text', sql: `${TABLE} alter table private.visitas add column nota text check (nota <> '')` },
  {
    rule: 'overloaded_function',
    sql: `create function private.to_uuid() returns uuid ${BODY} comment on function private.to_uuid() is 'f'`,
  },
  {
    rule: 'no_timeout',
    sql: `create function public.f() returns uuid security definer ${BODY} comment on function public.f is 'f'`,
  },
  { rule: 'no_comment', sql: `create function private.f() returns uuid ${BODY}` },
];

describe.skipIf(!canTestOnDebian('pgtap'))('the linter', () => {
  let db: pg.Client;
  let stop: () => Promise<void>;

  beforeAll(async () => {
    ({ db, stop } = await startSupabase());
  });

  afterAll(() => stop());

  const lint = (sql = '') => runTap(db, readScript('database_linter.sql', sql));
  const rulesOf = (texts: readonly string[]) => texts.map((text) => text.slice(0, text.indexOf(':')));

  test.each(OFFENCES)('reports $rule', async ({ rule, also = [], sql }) => {
    const { failed } = await lint(sql);
    expect(rulesOf(failed)).toEqual([rule, ...also]);
  });

  test('accepts a table that keeps every rule', async () => {
    const { failed } = await lint(TABLE);
    expect(failed).toEqual([]);
  });

  test('has an offence for every rule', async () => {
    const { passed } = await lint();
    expect([...new Set(OFFENCES.map(({ rule }) => rule))].sort()).toEqual(rulesOf(passed).sort());
  });
});
