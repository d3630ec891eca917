-- Tenants, their API keys, and the verification that every published function begins with.

create table private.tenants (
  id uuid primary key default gen_random_uuid(),
  name text not null check (name ~ '\S'),
  created_at timestamptz not null default clock_timestamp()
);
comment on table private.tenants is 'A customer of the platform: an academy or a network of them';

create table private.api_keys (
  tenant_id uuid not null references private.tenants (id),
  id uuid not null default gen_random_uuid(),
  name text not null check (name ~ '\S'),
  key_hash bytea not null unique check (octet_length(key_hash) = 32),
  permissions text[],
  active boolean not null default true,
  expires_at timestamptz,
  created_at timestamptz not null default clock_timestamp(),
  primary key (tenant_id, id)
);
comment on table private.api_keys is 'API keys; a key itself is never stored';
comment on column private.api_keys.key_hash is 'SHA-256 of the key in UTF-8';
comment on column private.api_keys.permissions is 'Names of the functions that the key may call; null means all of them';
comment on column private.api_keys.active is 'False once the key is revoked';
comment on column private.api_keys.expires_at is 'From this moment on the key is refused; null means never';

-- Forced row security holds for the tables' owner too, who administrates them and needs a policy for it.
alter table private.tenants enable row level security;
alter table private.tenants force row level security;
create policy administration on private.tenants
  to current_user
  using (true);
alter table private.api_keys enable row level security;
alter table private.api_keys force row level security;
create policy administration on private.api_keys
  to current_user
  using (true);

create policy tenant_isolation on private.tenants
  to gateway_functions
  using (id = (select private.current_tenant()));

-- The tenant is what a look-up of the key finds, so it cannot be asked for before. The role does nothing else.
create policy verification on private.api_keys
  for select to gateway_keys
  using (true);
grant select (tenant_id, key_hash, permissions, active, expires_at) on private.api_keys to gateway_keys;

-- Executable by gateway_functions alone: a caller proves its tenant with the key, and in no other way.
create function private.verify_key(p_api_key text, p_function text)
returns uuid
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_key record;
begin
  select k.tenant_id, k.permissions, k.active, k.expires_at
    into v_key
    from private.api_keys k
   where k.key_hash = sha256(convert_to(p_api_key, 'UTF8'));

  -- Without this check a missing key would compare to null below, raise nothing, and pass.
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

  perform set_config('wellness.tenant_id', v_key.tenant_id::text, true);
  return v_key.tenant_id;
end;
$$;
comment on function private.verify_key(text, text) is
  'The tenant of a key that may call the named function now; raises PT401 for every other key. Sets the tenant that row security reads, for this transaction';

revoke all on function private.verify_key(text, text) from public;
grant execute on function private.verify_key(text, text) to gateway_functions;
-- The new owner of a function must be allowed to create in its schema, for the moment of the change.
grant create on schema private to gateway_keys;
alter function private.verify_key(text, text) owner to gateway_keys;
revoke create on schema private from gateway_keys;
