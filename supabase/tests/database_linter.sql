-- The rules of Supabase's database linter that hold for a schema, by its names for them, and this project's own without
-- a number. Each is a query for what offends against it. The linter's other rules are about the state of a server
-- (0005, 0020, 0022, unused_replication_slot), about things that this project does not have (0019, 0025), or follow
-- from no_relation_in_public (0023).

begin;
\ir setup.psql

select plan(36);

create temporary view our_schemas as
select n.oid, n.nspname as name
  from pg_namespace n
 where n.nspname !~ '^pg_'
   and n.nspname not in (
     'information_schema', 'supabase_migrations',
     'auth', 'cron', 'extensions', 'graphql', 'graphql_public', 'net', 'pgbouncer', 'pgmq', 'pgsodium',
     'pgsodium_masks', 'realtime', 'storage', 'supabase_functions', 'vault', '_analytics', '_realtime', '_supavisor'
   );

create temporary view our_relations as
select c.oid, format('%s.%s', s.name, c.relname) as name, s.name as schema, c.relkind as kind, c.relowner as owner,
       c.relrowsecurity as has_row_security, c.relforcerowsecurity as has_forced_row_security,
       coalesce(c.reloptions, '{}') as options
  from pg_class c
  join our_schemas s on s.oid = c.relnamespace
 where c.relkind in ('r', 'p', 'v', 'm', 'f', 'S');

create temporary view our_tables as
select * from our_relations where kind in ('r', 'p');

create temporary view our_functions as
select p.oid, format('%s.%s', s.name, p.proname) as name, s.name as schema, p.prosecdef as is_definer,
       coalesce(p.proconfig, '{}') as settings, p.prosqlbody is not null as is_resolved
  from pg_proc p
  join our_schemas s on s.oid = p.pronamespace
 where not exists (
         select from pg_depend d where d.classid = 'pg_proc'::regclass and d.objid = p.oid and d.deptype = 'e'
       );

create temporary view our_policies as
select p.polname as name, t.name as table_name, t.owner, p.polcmd as command, p.polpermissive as is_permissive,
       p.polroles as roles,
       concat_ws(' ', pg_get_expr(p.polqual, p.polrelid), pg_get_expr(p.polwithcheck, p.polrelid)) as condition
  from pg_policy p
  join our_tables t on t.oid = p.polrelid;

-- The roles that anybody on the internet can have in a Supabase project; 0 is everybody.
create temporary view roles_of_strangers as
select 0::oid as oid, 'public' as name
union all
select r.oid, r.rolname from pg_roles r where r.rolname in ('anon', 'authenticated');

create function pg_temp.is_on(p_options text[], p_name text)
returns boolean
language sql
as $$
  select o.option_value::boolean from pg_options_to_table(p_options) o where o.option_name = p_name;
$$;

-- What is left of a condition without its sub-selects, which are evaluated once; round brackets become others.
create function pg_temp.for_each_row(p_condition text)
returns text
language plpgsql
as $$
declare
  v_rest text := p_condition;
  v_before text;
begin
  loop
    v_before := v_rest;
    v_rest := regexp_replace(v_rest, '\( SELECT [^()]*\)', '', 'g');
    v_rest := regexp_replace(v_rest, '\(([^()]*)\)', '[\1]', 'g');
    exit when v_rest = v_before;
  end loop;
  return v_rest;
end;
$$;

select is_empty(
  $$
    select t.name, c.conname
      from pg_constraint c
      join our_tables t on t.oid = c.conrelid
     where c.contype = 'f'
       and not exists (
         select from pg_index i
          where i.indrelid = c.conrelid
            and i.indpred is null
            and (i.indkey::smallint[])[0:cardinality(c.conkey) - 1] = c.conkey
       )
  $$,
  '0001_unindexed_foreign_keys: an index leads with the columns of every foreign key'
);

select is_empty(
  $$
    select c.name
      from our_relations c
      join pg_rewrite w on w.ev_class = c.oid
      join pg_depend d on d.objid = w.oid and d.classid = 'pg_rewrite'::regclass
     where d.refobjid = to_regclass('auth.users')
  $$,
  '0002_auth_users_exposed: no view reads auth.users'
);

select is_empty(
  $$
    select p.table_name, p.name, p.condition
      from our_policies p
     -- Equal to what the query asks for, the tenant is a condition of the whole query, evaluated once.
     where pg_temp.for_each_row(regexp_replace(p.condition, '^\((tenant_id|id) = private\.current_tenant\(\)\)$', 'true'))
           ~ '\m([a-z_]+\.[a-z_]+|current_setting)\['
  $$,
  '0003_auth_rls_initplan: no policy calls a function for each row'
);

select is_empty(
  $$
    select t.name
      from our_tables t
     where not exists (select from pg_constraint c where c.conrelid = t.oid and c.contype = 'p')
  $$,
  '0004_no_primary_key: every table has a primary key'
);

select is_empty(
  $$
    select p.table_name, r.role, c.command, array_agg(p.name)
      from our_policies p
     cross join unnest(p.roles) as r (role)
      join unnest(array['r', 'a', 'w', 'd']) as c (command) on p.command in (c.command::"char", '*')
     where p.is_permissive
     group by p.table_name, r.role, c.command
    having count(*) > 1
  $$,
  '0006_multiple_permissive_policies: no role has two policies for a command on a table'
);

select is_empty(
  $$
    select p.table_name, p.name
      from our_policies p
      join our_tables t on t.name = p.table_name
     where not t.has_row_security
  $$,
  '0007_policy_exists_rls_disabled: no table has policies without row security'
);

select is_empty(
  $$
    select t.name
      from our_tables t
     where t.has_row_security
       and not exists (select from our_policies p where p.table_name = t.name)
  $$,
  '0008_rls_enabled_no_policy: no table has row security without a policy'
);

select is_empty(
  $$
    select t.name, array_agg(i.indexrelid::regclass)
      from pg_index i
      join pg_class c on c.oid = i.indexrelid
      join our_tables t on t.oid = i.indrelid
     group by t.name, c.relam, i.indkey::text, i.indclass::text, i.indcollation::text, i.indoption::text,
              pg_get_expr(i.indexprs, i.indrelid), pg_get_expr(i.indpred, i.indrelid)
    having count(*) > 1
  $$,
  '0009_duplicate_index: no two indexes are the same'
);

select is_empty(
  $$
    select c.name
      from our_relations c
     where c.kind = 'v'
       and pg_temp.is_on(c.options, 'security_invoker') is not true
  $$,
  '0010_security_definer_view: no view reads with the rights of its owner'
);

select is_empty(
  $$
    select f.name
      from our_functions f
     -- The body of the others was resolved when they were created.
     where not f.is_resolved
       and not 'search_path=pg_catalog, pg_temp' = any (f.settings)
  $$,
  '0011_function_search_path_mutable: every function has the search path pg_catalog, pg_temp'
);

select is_empty(
  $$
    select p.table_name, p.name
      from our_policies p
     where p.roles && array(select s.oid from roles_of_strangers s)
  $$,
  '0012_auth_allow_anonymous_sign_ins: no policy is for everybody, anon or authenticated'
);

select is_empty(
  $$
    select t.name
      from our_tables t
     where not t.has_row_security
  $$,
  '0013_rls_disabled_in_public: every table, in whatever schema, has row security'
);

select is_empty(
  $$
    select e.extname
      from pg_extension e
     where e.extnamespace in (select s.oid from our_schemas s)
  $$,
  '0014_extension_in_public: no extension is in a schema of this project'
);

select is_empty(
  $$
    select p.table_name, p.name
      from our_policies p
     where p.condition ~ 'user_metadata'
  $$,
  '0015_rls_references_user_metadata: no policy trusts what a user can change'
);

select is_empty(
  $$ select c.name from our_relations c where c.kind = 'm' $$,
  '0016_materialized_view_in_api: there is no materialized view'
);

select is_empty(
  $$ select c.name from our_relations c where c.kind = 'f' $$,
  '0017_foreign_table_in_api: there is no foreign table'
);

select is_empty(
  $$
    select t.name, a.attname, a.atttypid::regtype
      from our_tables t
      join pg_attribute a on a.attrelid = t.oid
     where a.atttypid in (
       'regcollation'::regtype, 'regconfig'::regtype, 'regdictionary'::regtype, 'regnamespace'::regtype,
       'regoper'::regtype, 'regoperator'::regtype, 'regproc'::regtype, 'regprocedure'::regtype
     )
  $$,
  '0018_unsupported_reg_types: no column has a type that pg_upgrade refuses'
);

select is_empty(
  $$
    select t.name, c.conname
      from pg_constraint c
      join our_tables t on t.oid = c.conrelid
      join pg_class r on r.oid = c.confrelid
     where r.relnamespace = to_regnamespace('auth')
  $$,
  '0021_fkey_to_auth_unique: no foreign key points into the schema auth'
);

select set_eq(
  $$
    select format('%s on %s', p.name, p.table_name)
      from our_policies p
     where p.condition ~ '\mtrue\M'
       and not (p.name = 'administration' and p.roles = array[p.owner])
  $$,
  array[
    'verification on private.api_keys',
    'recording on private.api_keys',
    'limits on private.tenants',
    'recording on private.changes',
    'recording on private.usage',
    'recording on private.usage_writers',
    'retention on private.tenants',
    'search on private.alunos'
  ],
  '0024_rls_policy_always_true: eight policies let a role see all rows, beside those for the owner of a table'
);

select is_empty(
  $$
    select c.name, s.name
      from our_relations c
      join roles_of_strangers s on s.name in ('public', 'anon')
     where c.kind <> 'S'
       and has_any_column_privilege(s.name, c.oid, 'select')
  $$,
  '0026_pg_graphql_anon_table_exposed: anon reads no table'
);

select is_empty(
  $$
    select c.name, s.name
      from our_relations c
      join roles_of_strangers s on s.name in ('public', 'authenticated')
     where c.kind <> 'S'
       and has_any_column_privilege(s.name, c.oid, 'select')
  $$,
  '0027_pg_graphql_authenticated_table_exposed: authenticated reads no table'
);

select is_empty(
  $$
    select f.name, s.name
      from our_functions f
      join roles_of_strangers s on s.name in ('public', 'anon')
     where f.is_definer
       and has_function_privilege(s.name, f.oid, 'execute')
  $$,
  '0028_anon_security_definer_function_executable: anon executes no function that has its owner''s rights'
);

select is_empty(
  $$
    select f.name, s.name
      from our_functions f
      join roles_of_strangers s on s.name in ('public', 'authenticated')
     where f.is_definer
       and has_function_privilege(s.name, f.oid, 'execute')
  $$,
  '0029_authenticated_security_definer_function_executable: '
    'authenticated executes no function that has its owner''s rights'
);

select is_empty(
  $$ select t.name from our_tables t where not pg_temp.is_on(t.options, 'autovacuum_enabled') $$,
  '0030_autovacuum_disabled: every table is vacuumed'
);

select is_empty(
  $$
    select i.indexrelid::regclass
      from pg_index i
      join our_tables t on t.oid = i.indrelid
     where not i.indisvalid
  $$,
  '0030_invalid_index: every index is valid'
);

select is_empty(
  $$
    select p.table_name, p.name
      from our_policies p
     where p.condition ~* '\mis null\M'
  $$,
  '0030_rls_policy_null_auth_disjunct: no policy holds where nobody has proved who they are'
);

select is_empty(
  $$ select c.name from our_relations c where c.schema = 'public' $$,
  'no_relation_in_public: the schema that the Data API exposes has no table, view or sequence'
);

select is_empty(
  $$
    select f.name
      from our_functions f
     where f.schema = 'public'
       and not f.is_definer
  $$,
  'definer_in_public: every function that the Data API exposes has its owner''s rights, and the caller needs none'
);

select is_empty(
  $$
    select f.name
      from our_functions f
     where f.schema = 'public'
       and array_to_string(f.settings, ' ') !~ '\mstatement_timeout='
  $$,
  'no_timeout: every function that the Data API exposes has a timeout, since PostgREST cancels none'
);

select is_empty(
  $$ select t.name from our_tables t where not t.has_forced_row_security $$,
  'forced_row_security: row security holds for the owner of every table too'
);

select is_empty(
  $$
    select t.name, pg_get_constraintdef(c.oid)
      from pg_constraint c
      join our_tables t on t.oid = c.conrelid
     where c.contype in ('p', 'f')
       -- These are not of one tenant.
       and t.name not in ('private.tenants', 'private.usage_writers', 'private.erasures')
       and pg_get_constraintdef(c.oid) !~ '^(PRIMARY|FOREIGN) KEY \(tenant_id\M'
  $$,
  'tenant_in_keys: every primary and foreign key begins with the tenant, so that no row points into another one'
);

select is_empty(
  $$
    select t.name, i.indexrelid::regclass
      from pg_index i
      join our_tables t on t.oid = i.indrelid
     where (i.indisunique or i.indisexclusion) and not i.indisprimary
       and t.name not in ('private.tenants', 'private.usage_writers', 'private.erasures', 'private.api_keys')
       and not exists (
         select from pg_attribute a
          where a.attrelid = i.indrelid and a.attname = 'tenant_id' and a.attnum = any (i.indkey)
       )
  $$,
  'tenant_in_uniques: what must be unique is so in one tenant, so that a refusal tells nothing of another one'
);

select is_empty(
  $$
    select t.name, c.conname
      from pg_constraint c
      join our_tables t on t.oid = c.conrelid
     where c.contype = 'f'
       and c.confrelid = c.conrelid
       and not c.condeferred
  $$,
  'undeferred_self_reference: a table that refers to itself does so "deferrable initially deferred", or a dump may not be restored'
);

select set_eq(
  $$
    select format('%s.%s', t.name, a.attname)
      from our_tables t
      join pg_attribute a on a.attrelid = t.oid
     where a.attnum > 0
       and not a.attisdropped
       and a.attgenerated = ''
       and a.atttypid::regtype::text ~ '^(text|character varying|bytea|jsonb?|xml)(\[\])?$'
       and not exists (
         select from pg_constraint c
          where c.conrelid = t.oid
            and a.attnum = any (c.conkey)
            and pg_get_constraintdef(c.oid) ~ '\m(char|octet)_length\('
       )
  $$,
  array[
    -- Names of functions, by private.check_permissions.
    'private.api_keys.permissions',
    -- Ids of rows, up to 1,000.
    'private.changes.records',
    -- Made of rows whose texts have bounds.
    'private.idempotency_keys.response'
  ],
  'unbounded_text: every text that is stored has a bound, but for three that are made of what has one'
);

select is_empty(
  $$
    select f.name
      from our_functions f
     group by f.name
    having count(*) > 1
  $$,
  'overloaded_function: no two functions have the same name, of which a call could mean either'
);

select is_empty(
  $$
    select f.name from our_functions f where obj_description(f.oid, 'pg_proc') is null
    union all
    select c.name from our_relations c where obj_description(c.oid, 'pg_class') is null
  $$,
  'no_comment: every function and table says what it is for'
);

select * from finish();
rollback;
