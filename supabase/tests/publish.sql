-- private.publish and private.ensure_role: what they do for a migration, and how they fail.

begin;
\ir setup.psql
select plan(18);

-- private.publish.

create function public.nova() returns integer language sql
security definer set search_path = pg_catalog, pg_temp
as 'select 1';
grant execute on function public.nova() to public;
do $$
declare
  v_role name;
begin
  for v_role in select rolname from pg_roles where rolname in ('anon', 'authenticated') loop
    execute format('grant execute on function public.nova() to %I', v_role);
  end loop;
end;
$$;
select private.publish('public.nova');

select function_owner_is('public', 'nova', '{}'::name[], 'gateway_functions', 'publish gives a function its owner');
select is(has_function_privilege('gateway', 'public.nova()', 'execute'), true, 'publish lets gateway execute it');
select is(
  has_function_privilege('public', 'public.nova()', 'execute'),
  false,
  'publish takes from everybody the right to execute it'
);
select case when to_regrole(r.name) is null then
  skip(format('this server has no role %s, which a Supabase project has', r.name), 1)
else
  is(
    has_function_privilege(r.name, 'public.nova()', 'execute'),
    r.is_allowed,
    format('publish %s %s execute it', case when r.is_allowed then 'lets' else 'does not let' end, r.name)
  )
end
  from (values ('anon', false), ('authenticated', false), ('service_role', true)) as r (name, is_allowed);
select is(
  (select proconfig from pg_proc where oid = 'public.nova()'::regprocedure),
  array['search_path=pg_catalog, pg_temp', 'statement_timeout=5s'],
  'publish gives it a timeout'
);
select is(
  has_schema_privilege('gateway_functions', 'public', 'create'),
  false,
  'publish lets its owner create no other'
);

create function public.lenta() returns integer language sql
security definer set search_path = pg_catalog, pg_temp set statement_timeout = '1min'
as 'select 1';
select private.publish('public.lenta');
select is(
  (select proconfig from pg_proc where oid = 'public.lenta()'::regprocedure),
  array['search_path=pg_catalog, pg_temp', 'statement_timeout=1min'],
  'publish leaves a function the timeout that it has'
);
select lives_ok($$ select private.publish('public.lenta') $$, 'a function can be published twice');

create function public.solta() returns integer language sql set search_path = pg_catalog, pg_temp as 'select 1';
create function public.sem_caminho() returns integer language sql security definer as 'select 1';
create function public.mal_guiada() returns integer language sql
security definer set search_path = public, pg_temp
as 'select 1';
select throws_ok(
  format('select private.publish(%L)', 'public.' || f.name),
  '42P13', format('public.%s() cannot be published: it lacks "security definer" or the search path', f.name),
  format('a function is not published that lacks %s', f.lack)
)
  from (values
    ('solta', '"security definer"'),
    ('sem_caminho', 'the search path'),
    ('mal_guiada', 'the right search path')
  ) as f (name, lack);
create function private.nova() returns integer language sql
security definer set search_path = pg_catalog, pg_temp
as 'select 1';
select throws_ok(
  $$ select private.publish('private.nova') $$,
  '42P13', 'private.nova() cannot be published: it is in schema private',
  'a function of another schema is not published'
);

-- private.ensure_role.

select private.ensure_role('test_owner', 'Owns a function of a test');
select is(
  (select r.rolcanlogin or r.rolinherit or r.rolsuper or r.rolbypassrls from pg_roles r where r.rolname = 'test_owner'),
  false,
  'ensure_role makes a role that cannot log in'
);
select is(pg_has_role('test_owner', 'usage'), true, 'ensure_role lets whoever calls it be the role');
select lives_ok($$ select private.ensure_role('test_owner', 'Another') $$, 'ensure_role leaves a role that is there');

-- The roles of the migrations, for a role that did not create them.

create role test_stranger createrole;
grant test_stranger to current_user;
grant usage on schema private to test_stranger;
grant execute on function private.ensure_role(text, text) to test_stranger;
set local role test_stranger;
select case when current_setting('server_version_num')::integer < 160000 then
  skip('until Postgres 15 a role with CREATEROLE may become every role', 1)
else
  throws_ok(
    $$ select private.ensure_role('gateway_retention', '') $$,
    '42501', 'test_stranger may not become the role gateway_retention, which another role of this server has made',
    'ensure_role fails if another role has created the role'
  )
end;
reset role;

select * from finish();
rollback;
