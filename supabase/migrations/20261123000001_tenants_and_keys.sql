-- Tenants, their API keys, the verification that every published function begins with, and the record of a key's use.

create table private.tenants (
  id uuid primary key default gen_random_uuid(),
  name text not null check (name ~ '\S') constraint tenants_name_length check (char_length(name) <= 255),
  created_at timestamptz not null default clock_timestamp(),
  limits jsonb constraint tenants_limits_length check (octet_length(limits::text) <= 200)
);
comment on table private.tenants is 'A customer of the platform: a gym or a chain of gyms';
comment on column private.tenants.limits is 'The limits of each key that has none of its own; null means none';

create table private.api_keys (
  tenant_id uuid not null references private.tenants (id),
  id uuid not null default gen_random_uuid(),
  name text not null check (name ~ '\S') constraint api_keys_name_length check (char_length(name) <= 255),
  key_hash bytea not null unique check (octet_length(key_hash) = 32),
  permissions text[],
  active boolean not null default true,
  expires_at timestamptz,
  created_at timestamptz not null default clock_timestamp(),
  prefix text constraint api_keys_prefix_length check (char_length(prefix) <= 50),
  last_used_at timestamptz,
  rotated_at timestamptz,
  expires_unrotated_at timestamptz,
  successor text constraint api_keys_successor_length check (char_length(successor) <= 50),
  original_id uuid,
  limits jsonb constraint api_keys_limits_length check (octet_length(limits::text) <= 200),
  primary key (tenant_id, id),
  -- Deferred for the restore of a dump, which may insert a key before its original.
  constraint api_keys_original foreign key (tenant_id, original_id)
    references private.api_keys (tenant_id, id) deferrable initially deferred
);
comment on table private.api_keys is 'API keys; the key itself is never stored';
comment on column private.api_keys.key_hash is 'SHA-256 of the key in UTF-8';
comment on column private.api_keys.permissions is 'Names of the functions that the key may call; null means all functions';
comment on column private.api_keys.active is 'False once the key is revoked';
comment on column private.api_keys.expires_at is 'The key is refused from this time on; null means never';
comment on column private.api_keys.prefix is
  'The first characters of the key, shown to people; null for a key that private.issue_key did not create';
comment on column private.api_keys.last_used_at is 'Time of the last use, to the minute; null if never used';
comment on column private.api_keys.rotated_at is 'When another key replaced it; null if none did';
comment on column private.api_keys.expires_unrotated_at is
  'Expiry of a rotated key before its rotation, which its successor takes over';
comment on column private.api_keys.successor is
  'The prefix of the key that replaced it at its last rotation; null if none did';
comment on column private.api_keys.original_id is
  'The first key of its rotations, which has the limits and the usage of all of them; null for that one';
comment on column private.api_keys.limits is
  'per_minute, burst, per_day and per_month, each a positive integer or left out; null means those of the tenant';

create unique index api_keys_by_prefix on private.api_keys (prefix);
create unique index api_keys_by_id on private.api_keys (id);
create index api_keys_by_original on private.api_keys (tenant_id, original_id);

-- Not isolated by tenant_id: a tenant is found by its key, so every node needs all keys. Forced row security applies to the
-- owner of the tables too, so each has a policy for its administrator.
alter table private.tenants enable row level security;
alter table private.tenants force row level security;
create policy administration on private.tenants
  to current_user
  using (true);
create policy tenant_isolation on private.tenants
  to gateway_functions
  using (id = private.current_tenant());

alter table private.api_keys enable row level security;
alter table private.api_keys force row level security;
create policy administration on private.api_keys
  to current_user
  using (true);
-- The look-up of a key finds the tenant, so it cannot be restricted to one.
create policy verification on private.api_keys
  for select to gateway_keys
  using (true);
create policy recording on private.api_keys
  for update to gateway_keys
  using (true);
grant select (tenant_id, key_hash, permissions, active, expires_at, last_used_at), update (last_used_at)
  on private.api_keys to gateway_keys;

select private.distribute();

-- Executable by gateway_functions only. The key proves the tenant; nothing else does.
create function private.verify_key(p_api_key text, p_function text)
returns uuid
language plpgsql
-- Volatile, because only such a function may use SET.
volatile
security definer
set search_path = pg_catalog, pg_temp
-- One plan is right for every key. On Citus the functions that call this one have their own plans made anew.
set plan_cache_mode = force_generic_plan
as $$
declare
  v_key record;
begin
  select k.tenant_id, k.permissions, k.active, k.expires_at
    into v_key
    from private.api_keys k
   where k.key_hash = sha256(convert_to(p_api_key, 'UTF8'));

  -- Without this check an unknown key would pass: null makes every comparison below null.
  if not found then
    raise exception using errcode = 'PT401', message = 'API Key inválida';
  end if;
  if not v_key.active then
    raise exception using errcode = 'PT401', message = 'API Key inativa';
  end if;
  if v_key.expires_at <= now() then
    raise exception using errcode = 'PT401', message = 'API Key expirada';
  end if;
  if not (v_key.permissions is null or p_function = any (v_key.permissions)) then
    raise exception using errcode = 'PT401', message = format('API Key sem permissão para %s', p_function);
  end if;

  if current_setting('citus.propagate_set_commands', true) is null then
    perform set_config('wellness.tenant_id', v_key.tenant_id::text, true);
  else
    -- Citus takes only this form to other nodes, and only in a transaction block.
    perform set_config('citus.propagate_set_commands', 'local', true);
    execute format('set local wellness.tenant_id = %L', v_key.tenant_id);
  end if;
  return v_key.tenant_id;
end;
$$;
comment on function private.verify_key(text, text) is
  'Returns the tenant of a key that may call the named function now, and sets it for row security in this transaction; raises PT401 for any other key';

-- Executable by gateway_functions only. The key proves itself; an unknown, inactive or expired one changes nothing.
create function private.touch_key(p_api_key text)
returns boolean
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  update private.api_keys k
     set last_used_at = now()
   where k.key_hash = sha256(convert_to(p_api_key, 'UTF8'))
     and k.active
     and (k.expires_at is null or k.expires_at > now())
     and (k.last_used_at is null or k.last_used_at <= now() - interval '1 minute');
  return found;
end;
$$;
comment on function private.touch_key(text) is
  'Records the use of a key, at most once a minute; returns whether it recorded it';

revoke all on function private.verify_key(text, text), private.touch_key(text) from public;
grant execute on function private.verify_key(text, text), private.touch_key(text) to gateway_functions;
-- The new owner of a function needs CREATE on its schema during the change.
grant create on schema private to gateway_keys;
alter function private.verify_key(text, text) owner to gateway_keys;
alter function private.touch_key(text) owner to gateway_keys;
revoke create on schema private from gateway_keys;

-- Callable with any key: it records only that key's own use. A function of its own because lists cannot write: they are
-- stable, PostgREST runs them in a read-only transaction, and a write would cost more than the read.
create function public.record_key_use(p_api_key text)
returns table (recorded boolean)
language plpgsql
volatile
rows 1
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_recorded constant boolean := private.touch_key(p_api_key);
begin
  -- Here and not where responses are kept: on Citus the rows that one role has changed are closed to others until the
  -- transaction ends.
  if v_recorded then
    perform private.forget_responses();
  end if;
  return query select v_recorded;
end;
$$;
comment on function public.record_key_use(text) is
  'Records the use of a key, at most once a minute; the gateway calls it after a key was accepted';
select private.publish('public.record_key_use');
