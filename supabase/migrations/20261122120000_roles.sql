-- Roles, schemas, settings of the database, and private.publish, which opens a function to the gateway.
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

create schema private;
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
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
  -- After a commit the setting is '' and not null.
  select nullif(current_setting('wellness.tenant_id', true), '')::uuid;
$$;
comment on function private.current_tenant() is
  'The tenant that private.verify_key has set for this transaction, or null; row security reads it';
grant execute on function private.current_tenant() to gateway_functions, gateway_search;

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
        raise warning 'API keys can appear in the log of Postgres, as parameters of logged statements'
          using hint = format('As a superuser: alter database %I set %I = 0', current_database(), v_setting);
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
