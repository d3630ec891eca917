-- Roles, schemas and the one procedure that opens a function to the gateway.
--
-- public   holds only the functions that the gateway calls.
-- private  holds the tables and helpers, and is exposed to nobody.
--
-- Roles belong to the whole server, so another database on it may have made them already.

do $$
declare
  v_role text;
begin
  foreach v_role in array array['gateway', 'gateway_functions', 'gateway_keys', 'gateway_search'] loop
    begin
      execute format('create role %I nologin noinherit', v_role);
    exception
      when duplicate_object or unique_violation then null;
    end;
  end loop;

  -- Whoever runs the migrations hands functions over to these roles, which takes membership. That of a role's
  -- creator is not enough: since Postgres 16 it allows to administer the role, not to become it.
  if not (select rolsuper from pg_roles where rolname = current_user) then
    foreach v_role in array array['gateway_functions', 'gateway_keys', 'gateway_search'] loop
      execute format('grant %I to %I', v_role, current_user);
    end loop;
  end if;

  -- PostgREST logs in as authenticator and switches to the role that the key names.
  if exists (select from pg_roles where rolname = 'authenticator') then
    grant gateway to authenticator;
  end if;
end;
$$;

comment on role gateway is 'What the gateway is when it calls: may execute the published functions, and nothing else';
comment on role gateway_functions is 'Owns the published functions; owns no table, so row security holds for it';
comment on role gateway_keys is 'Owns the verification of keys; reads api_keys alone';
comment on role gateway_search is 'Owns the search by name; sees the columns that a search needs, returns ids alone';

create schema private;
comment on schema private is 'Tables and helpers of the wellness platform; exposed to nobody';

grant usage on schema private to gateway_functions, gateway_keys, gateway_search;
grant usage on schema public to gateway, gateway_functions;

-- A function is executable by everybody unless this is said, and it has no effect with "in schema".
alter default privileges revoke execute on functions from public;
alter default privileges for role gateway_functions revoke execute on functions from public;

-- A Supabase project grants new functions in public to its API roles; there it has to be taken back.
do $$
declare
  v_role text;
begin
  for v_role in select rolname from pg_roles where rolname in ('anon', 'authenticated', 'service_role') loop
    execute format('alter default privileges in schema public revoke execute on functions from %I', v_role);
  end loop;
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
  'The tenant that private.verify_key found for this transaction, or null; row security reads it';
grant execute on function private.current_tenant() to gateway_functions;

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
      hint = 'The gateway calls functions in schema public alone.';
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
  -- What a Supabase secret key is.
  if exists (select from pg_roles where rolname = 'service_role') then
    execute format('grant execute on function %s to service_role', v_signature);
  end if;

  -- The new owner of a function must be allowed to create in its schema, for the moment of the change.
  grant create on schema public to gateway_functions;
  execute format('alter function %s owner to gateway_functions', v_signature);
  revoke create on schema public from gateway_functions;
end;
$$;
comment on function private.publish(regproc) is
  'Opens a function in public to the gateway: owner, grants; refuses one without security definer and its path';
