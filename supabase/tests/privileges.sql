-- Who may do what: every function, table and schema, exactly. A new function in public needs nothing here, since each
-- of them is to be executable by the same roles; whatever else is granted has to be added.

begin;
\ir setup.psql

select plan(54);

create temporary view functions as
select p.oid, format('%s.%s', n.nspname, p.proname) as name, n.nspname as schema, p.proowner as owner,
       p.prosecdef as is_definer, p.proacl as acl
  from pg_proc p
  join pg_namespace n on n.oid = p.pronamespace
 where n.nspname in ('public', 'private');

create function pg_temp.executable_by(p_role text)
returns setof text
language sql
as $$
  select f.name from functions f where has_function_privilege(p_role, f.oid, 'execute');
$$;

create function pg_temp.skip_without(p_role text, p_tests integer default 1)
returns text
language sql
as $$
  select skip(format('this server has no role %s, which a Supabase project has', p_role), p_tests);
$$;
grant execute on function pg_temp.skip_without(text, integer) to public;

-- Functions in public.

select isnt_empty($$ select from functions where schema = 'public' $$, 'public has functions');
select set_eq(
  $$ select f from pg_temp.executable_by('gateway') f $$,
  $$ select name from functions where schema = 'public' $$,
  'gateway executes every function in public alone'
);
select case when to_regrole('service_role') is null then pg_temp.skip_without('service_role') else
  set_eq(
    $$ select f from pg_temp.executable_by('service_role') f $$,
    $$ select name from functions where schema = 'public' $$,
    'service_role executes every function in public alone'
  )
end;
select is_empty(
  $$ select f from pg_temp.executable_by('public') f $$,
  'role public, which is everybody, executes no function'
);
select case when to_regrole(r.name) is null then pg_temp.skip_without(r.name) else
  is_empty(
    format('select f from pg_temp.executable_by(%L) f', r.name),
    format('%s executes no function', r.name)
  )
end
  from (values ('anon'), ('authenticated'), ('authenticator')) as r (name);
select is_empty(
  $$ select name, owner::regrole from functions where schema = 'public' and owner <> 'gateway_functions'::regrole $$,
  'gateway_functions owns every function in public'
);

-- Functions in private.

select set_eq(
  $$
    select f.name, f.owner::regrole::text
      from functions f
     where f.schema = 'private'
       and f.is_definer
  $$,
  $$
    values ('private.verify_key', 'gateway_keys'),
           ('private.add_usage', 'gateway_keys'),
           ('private.find_limits', 'gateway_keys'),
           ('private.original_key', 'gateway_keys'),
           ('private.record_change', 'gateway_keys'),
           ('private.record_changes', 'gateway_keys'),
           ('private.place_change', 'gateway_keys'),
           ('private.forget_usage', 'gateway_retention'),
           ('private.forget_changes', 'gateway_retention'),
           ('private.search_alunos', 'gateway_search'),
           ('private.forget_responses', 'gateway_retention')
  $$,
  'only these functions in private have the rights of an owner, who has few'
);
select set_eq(
  $$ select f from pg_temp.executable_by('gateway_functions') f where f like 'private.%' $$,
  array[
    'private.current_tenant', 'private.to_uuid', 'private.require_record', 'private.to_birth_date', 'private.find_invalid_fields',
    'private.verify_key', 'private.search_alunos', 'private.add_usage', 'private.find_limits', 'private.original_key',
    'private.forget_usage', 'private.forget_changes',
    'private.recall_response', 'private.keep_response', 'private.forget_responses', 'private.name_parts',
    'private.to_searchable'
  ],
  'gateway_functions executes what the functions in public call, and what an index is of'
);
select set_eq(
  $$ select f from pg_temp.executable_by('gateway_keys') f $$,
  array[
    'private.verify_key', 'private.add_usage', 'private.find_limits', 'private.original_key', 'private.record_change',
    'private.record_changes', 'private.place_change', 'private.next_position', 'private.request_id'
  ],
  'gateway_keys executes its own functions, and asks for the request'
);
select set_eq(
  $$ select f from pg_temp.executable_by('gateway_search') f $$,
  array['private.search_alunos', 'private.current_tenant', 'private.name_parts', 'private.to_searchable'],
  'gateway_search executes its own function, asks for the tenant, and uses the index of parts of names'
);
select set_eq(
  $$ select f from pg_temp.executable_by('gateway_retention') f $$,
  array['private.forget_responses', 'private.forget_usage', 'private.forget_changes'],
  'gateway_retention executes its own functions alone'
);
select is_empty(
  $$
    select f.name, a.grantee::regrole
      from functions f
     cross join aclexplode(coalesce(f.acl, acldefault('f', f.owner))) a
     where a.grantee <> f.owner
       and a.grantee::regrole::text not in ('gateway', 'service_role', 'gateway_functions')
       and (f.name, a.grantee::regrole::text) not in (
             ('private.request_id', 'gateway_keys'), ('private.next_position', 'gateway_keys'), ('private.current_tenant', 'gateway_search'), ('private.name_parts', 'gateway_search'),
             ('private.to_searchable', 'gateway_search')
           )
  $$,
  'no other role is granted a function'
);

-- Tables: the privileges that somebody other than the owner has, on a whole table and on columns.

create temporary view granted as
select format('%s: %s on %s', a.grantee::regrole, lower(a.privilege_type), c.relname) as privilege
  from pg_class c
 cross join aclexplode(c.relacl) a
 where c.relnamespace in ('public'::regnamespace, 'private'::regnamespace)
   and a.grantee <> c.relowner
union all
select format('%s: %s on %s (%s)', a.grantee::regrole, lower(a.privilege_type), c.relname,
              string_agg(t.attname, ', ' order by t.attname))
  from pg_class c
  join pg_attribute t on t.attrelid = c.oid
 cross join aclexplode(t.attacl) a
 where c.relnamespace in ('public'::regnamespace, 'private'::regnamespace)
 group by a.grantee, a.privilege_type, c.relname;

select set_eq(
  $$ select privilege from granted where privilege not like 'gateway_functions: %' $$,
  array[
    'gateway_keys: select on api_keys (active, expires_at, id, key_hash, last_used_at, limits, original_id, permissions, tenant_id)',
    'gateway_keys: update on api_keys (last_used_at)',
    'gateway_keys: select on tenants (id, limits)',
    'gateway_keys: select on changes', 'gateway_keys: insert on changes', 'gateway_keys: update on changes',
    'gateway_keys: select on usage', 'gateway_keys: insert on usage', 'gateway_keys: update on usage',
    'gateway_keys: select on usage_writers', 'gateway_keys: insert on usage_writers',
    'gateway_keys: update on usage_writers', 'gateway_keys: delete on usage_writers',
    'gateway_retention: select on tenants (changes_kept, id)',
    'gateway_retention: select on changes (id, occurred_at, tenant_id)',
    'gateway_retention: delete on changes',
    'gateway_retention: select on usage (day, id, tenant_id)',
    'gateway_retention: delete on usage',
    'gateway_retention: select on idempotency_keys (created_at, key, tenant_id)',
    'gateway_retention: delete on idempotency_keys',
    'gateway_search: select on alunos (academia_id, ativo, criado_em, id, nome_busca, personal_id, tenant_id)'
  ],
  'the owners of functions have what these need of a table, and nobody else has anything'
);
-- What its functions need of each of these tables, test/isolation/catalog.ts reads from them.
select is_empty(
  $$
    select g.privilege
      from granted g
     where g.privilege like 'gateway_functions: %'
       and not exists (
         select
           from pg_policy p
          where p.polname = 'tenant_isolation'
            and g.privilege ~ (' on ' || replace(p.polrelid::regclass::text, 'private.', '') || '\M')
       )
  $$,
  'the functions reach only tables of tenants'
);

-- Schemas.

select set_eq(
  $$
    select format('%s: %s', a.grantee::regrole, lower(a.privilege_type))
      from pg_namespace n
     cross join aclexplode(n.nspacl) a
     where n.nspname = 'private'
       and a.grantee <> n.nspowner
  $$,
  array['gateway_functions: usage', 'gateway_keys: usage', 'gateway_retention: usage', 'gateway_search: usage'],
  'the owners of functions use private, and nobody else'
);
select ok(has_schema_privilege(r.name, 'public', 'usage'), format('%s uses public', r.name))
  from (values ('gateway'), ('gateway_functions')) as r (name);
select case when r.name <> 'public' and to_regrole(r.name) is null then pg_temp.skip_without(r.name) else
  ok(
    not has_schema_privilege(r.name, s.name, 'create'),
    format('role %s creates nothing in schema %s', r.name, s.name)
  )
end
  from (values ('public'), ('private')) as s (name)
 cross join (values ('public'), ('anon'), ('authenticated'), ('service_role'), ('gateway'), ('gateway_functions'))
         as r (name);

-- Roles.

select is_empty(
  $$
    select r.rolname
      from pg_roles r
     where r.rolname in ('gateway', 'gateway_functions', 'gateway_keys', 'gateway_search', 'gateway_retention')
       and (r.rolcanlogin or r.rolinherit or r.rolsuper or r.rolbypassrls or r.rolcreaterole or r.rolcreatedb
            or r.rolreplication)
  $$,
  'no role of the gateway logs in, inherits, or is above a rule'
);
select is_empty(
  $$
    select c.oid::regclass
      from pg_class c
     where c.relowner::regrole::text in ('gateway', 'gateway_functions', 'gateway_keys', 'gateway_search',
                                         'gateway_retention')
  $$,
  'no role of the gateway owns a table'
);
select is_empty(
  $$
    select m.roleid::regrole, m.member::regrole
      from pg_auth_members m
     where m.member::regrole::text in ('gateway', 'gateway_functions', 'gateway_keys', 'gateway_search',
                                       'gateway_retention')
  $$,
  'no role of the gateway is a member of another'
);
select is_empty(
  $$
    select m.roleid::regrole, m.member::regrole
      from pg_auth_members m
     where m.roleid::regrole::text in ('gateway_functions', 'gateway_keys', 'gateway_search', 'gateway_retention')
       and m.member <> (select n.nspowner from pg_namespace n where n.nspname = 'private')
  $$,
  'nobody but the owner of private becomes a role that owns functions'
);
select case when to_regrole('authenticator') is null then pg_temp.skip_without('authenticator') else
  ok(
    pg_has_role('authenticator', 'gateway', 'member') and not pg_has_role('authenticator', 'gateway', 'usage'),
    'authenticator becomes gateway and is not it by itself'
  )
end;

-- The database.

select is(
  has_database_privilege('public', current_database(), 'connect'),
  to_regrole('supabase_admin') is not null,
  'everybody may connect in a Supabase project alone'
);

-- Things to come.

create function public.later() returns integer language sql as 'select 1';
create function private.later() returns integer language sql as 'select 1';
select case when r.name <> 'public' and to_regrole(r.name) is null then pg_temp.skip_without(r.name) else
  is_empty(
    format('select f from pg_temp.executable_by(%L) f where f like ''%%.later''', r.name),
    format('role %s executes no function that is created later', r.name)
  )
end
  from (values ('public'), ('anon'), ('authenticated'), ('service_role'), ('gateway'), ('gateway_functions'))
    as r (name);

-- What they are told.

set local role gateway;
select throws_ok(d.sql, '42501', d.message, format('gateway may not: %s', d.sql))
  from (values
    ('select * from private.alunos', 'permission denied for schema private'),
    ('select * from private.api_keys', 'permission denied for schema private'),
    ('select private.verify_key(''any'', ''listar_alunos'')', 'permission denied for schema private'),
    ('select * from private.list_keys()', 'permission denied for schema private'),
    ('create table public.mine (id integer)', 'permission denied for schema public'),
    ('create function public.mine() returns integer return 1', 'permission denied for schema public')
  ) as d (sql, message);
select case when to_regnamespace('supabase_migrations') is null then
  skip('this database has not recorded its migrations', 1)
else
  throws_ok(
    'select * from supabase_migrations.schema_migrations',
    '42501', 'permission denied for schema supabase_migrations',
    'gateway does not see the migrations'
  )
end;
reset role;

select set_config('role', 'service_role', true) where to_regrole('service_role') is not null;
select case when current_user <> 'service_role' then pg_temp.skip_without('service_role', 2) else
  throws_ok(
    'select * from private.alunos',
    '42501', 'permission denied for schema private',
    'service_role reads no table'
  ) || E'\n' ||
  throws_ok(
    $$ select * from public.listar_alunos('any') $$,
    'PT401', 'API Key inválida',
    'service_role calls a published function, which asks for a key'
  )
end;
reset role;

select set_config('role', 'anon', true) where to_regrole('anon') is not null;
select case when current_user <> 'anon' then pg_temp.skip_without('anon') else
  throws_ok(
    $$ select * from public.listar_alunos('any') $$,
    '42501', 'permission denied for function listar_alunos',
    'anon calls no function'
  )
end;
reset role;

select set_config('role', 'authenticated', true) where to_regrole('authenticated') is not null;
select case when current_user <> 'authenticated' then pg_temp.skip_without('authenticated') else
  throws_ok(
    $$ select * from public.listar_alunos('any') $$,
    '42501', 'permission denied for function listar_alunos',
    'authenticated calls no function'
  )
end;
reset role;

select * from finish();
rollback;
