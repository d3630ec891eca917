-- Roles, schemas, settings of the database, and what later migrations call: private.isolate for a table of tenants' rows, and
-- private.publish for a function of the gateway.
--
-- public   holds the functions that the gateway calls, and nothing else.
-- private  holds the tables and helpers. No API exposes it.

-- Only without "in schema" does this take effect: otherwise everybody may execute every new function.
alter default privileges revoke execute on functions from public;

-- A Supabase project grants new functions in public to its API roles.
do $$
declare
  v_role text;
begin
  for v_role in select rolname from pg_roles where rolname in ('anon', 'authenticated', 'service_role') loop
    execute format('alter default privileges in schema public revoke execute on functions from %I', v_role);
  end loop;
end;
$$;

create schema if not exists private;
comment on schema private is 'Tables and helpers of the wellness platform; no API exposes it';

create function private.ensure_role(p_name text, p_purpose text)
returns void
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
as $$
begin
  begin
    execute format('create role %I nologin noinherit', p_name);
    execute format('comment on role %I is %L', p_name, p_purpose);
  exception
    -- Roles belong to the whole server: another database on it may have created this one.
    when duplicate_object or unique_violation then null;
  end;

  -- Only a member of a role can make it the owner of a function. Since Postgres 16 the creator of a role can administer
  -- it but is not a member.
  if not pg_has_role(current_user, p_name, 'usage') then
    begin
      execute format('grant %I to %I', p_name, current_user);
    exception
      when insufficient_privilege then
        raise exception using
          errcode = 'insufficient_privilege',
          message = format('%s may not become the role %s, which another role of this server has made',
                           current_user, p_name),
          hint = format('As that role or as a superuser: grant %I to %I with admin option', p_name, current_user);
    end;
  end if;
end;
$$;
comment on function private.ensure_role(text, text) is
  'Creates a role without login unless it exists, and makes the current user a member, who can then give functions to it';

select private.ensure_role(
  'gateway', 'The role of the gateway when it calls: may execute the published functions, and nothing else'
);
select private.ensure_role(
  'gateway_functions', 'Owns the published functions; owns no table, so row security applies to it'
);
select private.ensure_role('gateway_keys', 'Owns the verification of keys; reads only api_keys');
select private.ensure_role(
  'gateway_search', 'Owns the search by name; reads the columns that a search needs, and returns only ids'
);
select private.ensure_role('gateway_retention', 'Deletes expired idempotency keys; sees nothing else');

grant usage on schema private to gateway_functions, gateway_keys, gateway_search, gateway_retention;
grant usage on schema public to gateway, gateway_functions;
alter default privileges for role gateway_functions revoke execute on functions from public;

-- PostgREST logs in as authenticator and switches to the role that its API key names.
do $$
begin
  if to_regrole('authenticator') is not null then
    grant gateway to authenticator;
  end if;
end;
$$;

create function private.current_tenant()
returns uuid
-- PL/pgSQL, so that it stays a call: Citus plans a query several times, and each time it took apart what a body in SQL put in.
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
  -- After a commit the setting is '' and not null.
  v_tenant constant uuid := nullif(current_setting('wellness.tenant_id', true), '')::uuid;
begin
  -- Citus could lose the setting on the way to another node, which must not look like an empty list.
  if v_tenant is null
     and current_user in ('gateway_functions', 'gateway_search')
     and current_setting('citus.propagate_set_commands', true) is not null then
    raise exception using
      errcode = 'object_not_in_prerequisite_state',
      message = 'the tenant of this transaction is not set on this node';
  end if;
  return v_tenant;
end;
$$;
comment on function private.current_tenant() is
  'The tenant that private.verify_key has set for this transaction, or null; on Citus an error for the functions if it is lost; row security reads it';
grant execute on function private.current_tenant() to gateway_functions, gateway_search;

-- On Citus every table with rows of tenants is distributed by tenant_id, and the others are copied to every node. Citus
-- takes no foreign key between tables while only one of them is distributed, grants no single columns on other nodes, and
-- connects to these as the owner of the function that asks.
create function private.distribution_steps()
returns setof text
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
  v_schema constant regnamespace := (select e.extnamespace::regnamespace from pg_extension e where e.extname = 'citus');
begin
  if v_schema is null then
    return;
  end if;
  -- The migrations keep PUBLIC from executing functions that come after them.
  if not has_function_privilege('gateway', 'pg_catalog.assign_distributed_transaction_id(integer, bigint, timestamptz)', 'execute') then
    raise exception using
      errcode = 'object_not_in_prerequisite_state',
      message = 'the functions of Citus cannot be executed by PUBLIC, because the extension came after the migrations',
      hint = 'Create it again: drop extension citus; alter default privileges grant execute on functions to public; '
             'create extension citus; alter default privileges revoke execute on functions from public';
  end if;

  return query execute replace($steps$
    -- A node that is added lets PUBLIC connect and execute functions. What is said here again, Citus says to all nodes.
    with is_open as (
      select coalesce(bool_or(n.result = '0'), false) as is_open
        from run_command_on_workers(
               'select count(*) from pg_default_acl
                 where defaclrole = current_user::regrole and defaclnamespace = 0 and defaclobjtype = ''f'''
             ) n
    ),
    functions as (
      select p.oid, p.oid::regprocedure as name,
             p.pronamespace = 'public'::regnamespace
               and not coalesce('plan_cache_mode=force_custom_plan' = any (p.proconfig), false) as keeps_plans,
             exists (
               select from citus_schema.pg_dist_object o where o.classid = 'pg_proc'::regclass and o.objid = p.oid
             ) as is_known
        from pg_proc p
       where p.pronamespace in ('public'::regnamespace, 'private'::regnamespace)
         and not exists (
           select from pg_depend d where d.classid = 'pg_proc'::regclass and d.objid = p.oid and d.deptype = 'e'
         )
    ),
    owners as (
      select r.oid, r.rolname, r.rolcanlogin
        from pg_roles r
       where r.rolname in ('gateway_functions', 'gateway_keys', 'gateway_search', 'gateway_retention')
    ),
    tables as (
      select c.oid, c.oid::regclass as name, c.relforcerowsecurity as is_forced, d.logicalrelid is null as is_new,
             exists (
               select
                 from pg_policy p
                where p.polrelid = c.oid
                  and pg_get_expr(p.polqual, c.oid) like '%tenant_id = private.current_tenant()%'
             ) as is_isolated
        from pg_class c
        left join citus_schema.pg_dist_partition d on d.logicalrelid = c.oid and d.colocationid > 0
       where c.relnamespace = 'private'::regnamespace
         and c.relkind = 'r'
         and exists (select from pg_policy p where p.polrelid = c.oid and p.polname = 'administration')
    ),
    first as (
      select t.oid, t.name from tables t where t.is_isolated order by t.is_new, t.oid limit 1
    ),
    keys as (
      select k.conrelid::regclass as name, k.conname, pg_get_constraintdef(k.oid) as definition
        from pg_constraint k
       where k.contype = 'f'
         and exists (select from tables t where t.is_new and t.oid in (k.conrelid, k.confrelid))
    ),
    steps (place, part, command) as (
      select 0, 0, 'select run_command_on_workers(''alter default privileges revoke execute on functions from public'')'
        from is_open o
       where o.is_open
      union all
      select 1, 0, format('alter table %s drop constraint %I', k.name, k.conname) from keys k
      union all
      -- Citus moves rows between nodes, while they are used, by logical replication as a member of the tables' owner, which
      -- forced row security stops. The owner loses nothing by it that the policy "administration" does not give.
      select 1, 1, format('alter table %s no force row level security', t.name) from tables t where t.is_forced
      union all
      select case when t.is_isolated then 3 else 2 end, t.oid::bigint,
             case
               when not t.is_isolated then format('select create_reference_table(%L)', t.name)
               else format(
                 'select create_distributed_table(%L, ''tenant_id'', colocate_with => %L)',
                 t.name, case when t.oid = f.oid then 'none' else f.name::text end
               )
             end
        from tables t
        left join first f on true
       where t.is_new
      union all
      -- The rows that were there have been copied.
      select 4, t.oid::bigint, format('select truncate_local_data_after_distributing_table(%L)', t.name)
        from tables t
       where t.is_new
      union all
      select 5, 0, format('alter table %s add constraint %I %s', k.name, k.conname, k.definition) from keys k
      union all
      select distinct 6, 0, format('grant %s on table %s to %s', g.privilege_type, t.name, g.grantee::regrole)
        from tables t
        join pg_attribute a on a.attrelid = t.oid
       cross join lateral aclexplode(a.attacl) g
       where not has_table_privilege(g.grantee, t.oid, g.privilege_type)
      union all
      -- An update of api_keys locks the tenants that its foreign key refers to. Row security shows none of them.
      select 6, 1, 'grant update on table private.tenants to gateway_keys'
        from tables t
       where t.oid = to_regclass('private.api_keys')
         and not has_table_privilege('gateway_keys', 'private.tenants', 'update')
      union all
      -- Citus 13.2.2 never frees a plan that it keeps for a node's own rows, and makes one in each call.
      select 7, 0, format('alter function %s set plan_cache_mode = force_custom_plan', f.name)
        from functions f
       where f.keeps_plans
      union all
      select 7, f.oid::bigint, format('select create_distributed_function(%L)', f.name) from functions f where not f.is_known
      union all
      select 7, f.oid::bigint, format('revoke all on function %s from public', f.name)
        from functions f, is_open o
       where o.is_open
         and f.is_known
      union all
      -- Citus has made the roles on the other nodes by now.
      select 8, 0, format('alter role %I login', r.rolname) from owners r where not r.rolcanlogin
      union all
      select 8, 1, format('grant connect on database %I to %I', current_database(), r.rolname)
        from owners r
       where not has_database_privilege(r.oid, current_database(), 'connect')
      union all
      select 8, 2, format('grant %s on database %I to %I', g.privilege_type, d.datname, g.grantee::regrole)
        from is_open o
       cross join pg_database d
       cross join lateral aclexplode(d.datacl) g
       where o.is_open
         and d.datname = current_database()
         and g.grantee <> 0
      union all
      select 8, 3, format('revoke connect, temporary on database %I from public', current_database())
        from is_open o
       where o.is_open
         and not exists (
           select
             from pg_database d, aclexplode(coalesce(d.datacl, acldefault('d', d.datdba))) g
            where d.datname = current_database() and g.grantee = 0
         )
    )
    select s.command from steps s order by s.place, s.part, s.command
  $steps$, 'citus_schema', v_schema::text);
end;
$$;
comment on function private.distribution_steps() is
  'The statements that private.distribute executes, in their order; none where Citus is not installed';

create function private.distribute()
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_steps constant text[] := array(select private.distribution_steps());
  v_step text;
begin
  -- Citus refuses to change tables with foreign keys over several connections at once.
  perform set_config('citus.multi_shard_modify_mode', 'sequential', true) where cardinality(v_steps) > 0;
  foreach v_step in array v_steps loop
    execute v_step;
  end loop;
end;
$$;
comment on function private.distribute() is
  'Distributes what is new over the nodes of Citus, with the rows that are there; does nothing where Citus is not installed';

create function private.isolate(p_table regclass)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
  execute format('alter table %s enable row level security', p_table);
  -- Forced row security applies to the owner of the table too, who therefore needs a policy.
  execute format('alter table %s force row level security', p_table);
  execute format('create policy administration on %s to current_user using (true)', p_table);
  execute format(
    'create policy tenant_isolation on %s to gateway_functions using (tenant_id = private.current_tenant())', p_table
  );
  perform private.distribute();
end;
$$;
comment on function private.isolate(regclass) is
  'Shows the rows of a table only to their tenant, by tenant_id, and on Citus distributes the table; only after it can foreign keys refer to tables of tenants';

create function private.publish(p_function regproc)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_signature constant text := p_function::oid::regprocedure::text;
  v_function record;
  v_role text;
begin
  select p.prosecdef, p.proconfig, n.nspname
    into strict v_function
    from pg_proc p
    join pg_namespace n on n.oid = p.pronamespace
   where p.oid = p_function;

  if v_function.nspname <> 'public' then
    raise exception using
      errcode = 'invalid_function_definition',
      message = format('%s cannot be published: it is in schema %s', v_signature, v_function.nspname),
      hint = 'The gateway calls only functions in schema public.';
  end if;
  if not v_function.prosecdef
     or not coalesce('search_path=pg_catalog, pg_temp' = any (v_function.proconfig), false) then
    raise exception using
      errcode = 'invalid_function_definition',
      message = format('%s cannot be published: it lacks "security definer" or the search path', v_signature),
      hint = 'Add "security definer" and "set search_path = pg_catalog, pg_temp" to the function.';
  end if;

  execute format('revoke all on function %s from public', v_signature);
  execute format('grant execute on function %s to gateway', v_signature);
  for v_role in select rolname from pg_roles where rolname in ('anon', 'authenticated') loop
    execute format('revoke all on function %s from %I', v_signature, v_role);
  end loop;
  -- The role of a Supabase project's secret key.
  if exists (select from pg_roles where rolname = 'service_role') then
    execute format('grant execute on function %s to service_role', v_signature);
  end if;

  -- PostgREST applies a function's own timeout to the statement that calls it, and does not cancel a query when its
  -- client disconnects. 5 s is the gateway's default deadline.
  if not coalesce(array_to_string(v_function.proconfig, ' ') ~ 'statement_timeout=', false) then
    execute format('alter function %s set statement_timeout = %L', v_signature, '5s');
  end if;

  -- The new owner of a function needs CREATE on its schema during the change.
  grant create on schema public to gateway_functions;
  execute format('alter function %s owner to gateway_functions', v_signature);
  revoke create on schema public from gateway_functions;
end;
$$;
comment on function private.publish(regproc) is
  'Opens a function in public to the gateway: sets its owner, grants and timeout; refuses a function without security definer or the search path';

-- API keys are parameters of statements, and Postgres logs parameters with the statements that it logs.
do $$
declare
  v_setting text;
begin
  foreach v_setting in array array['log_parameter_max_length', 'log_parameter_max_length_on_error'] loop
    begin
      execute format('alter database %I set %I = 0', current_database(), v_setting);
    exception
      when insufficient_privilege then
        -- A superuser may have set it before.
        if current_setting(v_setting) <> '0' then
          raise warning 'API keys can appear in the log of Postgres, as parameters of logged statements'
            using hint = format('As a superuser: alter database %I set %I = 0', current_database(), v_setting);
        end if;
    end;
  end loop;
end;
$$;

-- Roles belong to the whole server: the administrator of another database on it can become the owners of functions, and
-- these can read the tables here. Only the lack of CONNECT keeps that administrator out, so CONNECT is taken from PUBLIC.
-- Existing logins, such as those of gateways and backups, keep it.
do $$
declare
  v_owners constant text[] := array['gateway_functions', 'gateway_keys', 'gateway_search', 'gateway_retention'];
  v_owner oid;
  v_logins text;
  v_statements text;
begin
  -- A Supabase project has one administrator for all databases, and its platform's roles connect through PUBLIC.
  if to_regrole('supabase_admin') is not null then
    return;
  end if;

  select d.datdba into strict v_owner from pg_database d where d.datname = current_database();
  select string_agg(quote_ident(l.rolname), ', ' order by l.rolname)
    into v_logins
    from pg_roles l
   where l.rolcanlogin
     and not l.rolsuper
     and has_database_privilege(l.oid, current_database(), 'connect')
     and (
       -- Administrators of this database.
       pg_has_role(l.oid, v_owner, 'member')
       or pg_has_role(l.oid, current_user, 'member')
       -- Everybody but administrators of other databases: these own functions, or have CREATEROLE and can own functions
       -- once they migrate. A login of a gateway is no administrator, even with CREATEROLE.
       or not exists (
         select
           from pg_roles o
          where pg_has_role(l.oid, o.oid, 'member')
            and (
              o.rolname = any (v_owners)
              or (o.rolcreaterole and not o.rolsuper and not pg_has_role(l.oid, 'gateway', 'member'))
            )
       )
     );
  -- To each login and not to gateway, from which administrators of other databases would inherit it.
  v_statements := concat_ws(
    '; ',
    format('grant connect on database %I to ', current_database()) || v_logins,
    format('revoke connect, temporary on database %I from public', current_database())
  );

  if pg_has_role(current_user, v_owner, 'usage') then
    execute v_statements;
  else
    raise warning 'administrators of other databases on this server can read this one'
      using hint = format('As a superuser or as %s: %s', v_owner::regrole, v_statements);
  end if;
end;
$$;
