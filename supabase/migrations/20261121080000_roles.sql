-- Roles, schemas and the one procedure that opens a function to the gateway.
--
-- public   holds only the functions that the gateway calls.
-- private  holds the tables and helpers, and is exposed to nobody.
--
-- Roles belong to the whole server, so another database on it may have made them already.

do $$
declare
  v_role record;
begin
  for v_role in
    select *
      from (values
        ('gateway', 'What the gateway is when it calls: may execute the published functions, and nothing else'),
        ('gateway_functions', 'Owns the published functions; owns no table, so row security holds for it'),
        ('gateway_keys', 'Owns the verification of keys; reads api_keys alone'),
        ('gateway_search', 'Owns the search by name; sees the columns that a search needs, returns ids alone')
      ) as r (name, purpose)
  loop
    begin
      execute format('create role %I nologin noinherit', v_role.name);
      execute format('comment on role %I is %L', v_role.name, v_role.purpose);
    exception
      when duplicate_object or unique_violation then null;
    end;

    -- Whoever runs the migrations hands functions over to these roles, which takes membership, a superuser's or one
    -- that is granted. That of a role's creator is not enough: since Postgres 16 it allows to administer the role,
    -- not to be it.
    if not pg_has_role(current_user, v_role.name, 'usage') then
      begin
        execute format('grant %I to %I', v_role.name, current_user);
      exception
        when insufficient_privilege then
          raise exception using
            errcode = 'insufficient_privilege',
            message = format('%s may not become the role %s, which another role of this server has made',
                             current_user, v_role.name),
            hint = format('As that role or as a superuser: grant %I to %I with admin option', v_role.name, current_user);
      end;
    end if;
  end loop;

  -- PostgREST logs in as authenticator and switches to the role that the key names.
  if exists (select from pg_roles where rolname = 'authenticator') then
    grant gateway to authenticator;
  end if;
end;
$$;

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

  -- PostgREST makes a function's own timeout that of the statement that calls it, and does not cancel a query that
  -- nobody waits for any more. It is the gateway's deadline unless that is configured otherwise.
  if not coalesce(array_to_string(v_function.proconfig, ' ') ~ 'statement_timeout=', false) then
    execute format('alter function %s set statement_timeout = %L', v_signature, '5s');
  end if;

  -- The new owner of a function must be allowed to create in its schema, for the moment of the change.
  grant create on schema public to gateway_functions;
  execute format('alter function %s owner to gateway_functions', v_signature);
  revoke create on schema public from gateway_functions;
end;
$$;
comment on function private.publish(regproc) is
  'Opens a function in public to the gateway: owner, grants, timeout; refuses one without security definer and its path';
