-- The life of tenants and keys: functions for administrators, who alone may execute what nobody is granted, and the
-- record of a key's last use, which the gateway makes.

alter table private.api_keys
  add column prefix text,
  add column last_used_at timestamptz,
  add column rotated_at timestamptz,
  add column expires_unrotated_at timestamptz;
comment on column private.api_keys.prefix is
  'The first characters of the key, by which people tell keys apart; null for a key that private.issue_key did not make';
comment on column private.api_keys.last_used_at is 'When the key was last used, to the minute; null for never';
comment on column private.api_keys.rotated_at is 'When another key took its place; null for a key that none did';
comment on column private.api_keys.expires_unrotated_at is
  'Of a rotated key the expiry that it had before, which its successor takes over';

create unique index api_keys_by_prefix on private.api_keys (prefix);
create unique index api_keys_by_id on private.api_keys (id);

create function private.to_base62(p_number bigint, p_length integer)
returns text
language sql
immutable
set search_path = pg_catalog, pg_temp
as $$
  select string_agg(
           substr(
             '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz',
             1 + (p_number / (62 ^ n)::bigint % 62)::integer,
             1
           ),
           '' order by n desc
         )
    from generate_series(0, p_length - 1) n;
$$;
comment on function private.to_base62(bigint, integer) is
  'The last digits of a number to the base 62, as many as are asked for; the digits are 0-9, A-Z, a-z';

create function private.random_base62(p_length integer)
returns text
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
as $$
declare
  v_text text := '';
  v_bytes bytea;
  v_byte integer;
begin
  while length(v_text) < p_length loop
    -- Cryptographic randomness without an extension. Bytes 6 and 8 hold the version and the variant.
    v_bytes := uuid_send(gen_random_uuid());
    for v_at in 0..15 loop
      v_byte := get_byte(v_bytes, v_at);
      -- 248 is four times 62: the bytes beyond it would make the first digits likelier.
      if v_at not in (6, 8) and v_byte < 248 then
        v_text := v_text || private.to_base62(v_byte % 62, 1);
      end if;
    end loop;
  end loop;
  return left(v_text, p_length);
end;
$$;
comment on function private.random_base62(integer) is
  'So many digits to the base 62, each of them cryptographically random';

create function private.key_checksum(p_text text)
returns text
language sql
immutable
set search_path = pg_catalog, pg_temp
as $$
  select private.to_base62(('x' || encode(substr(sha256(convert_to(p_text, 'UTF8')), 1, 4), 'hex'))::bit(32)::bigint, 6);
$$;
comment on function private.key_checksum(text) is
  'The checksum that a key ends in, of what stands before it: the first 4 bytes of its SHA-256, a number, as 6 digits to the base 62. A scanner for secrets tells a key by it from a text that only looks like one';

create function private.create_tenant(p_name text)
returns uuid
language sql
volatile
set search_path = pg_catalog, pg_temp
as $$
  insert into private.tenants (name) values (p_name) returning id;
$$;
comment on function private.create_tenant(text) is 'Creates a tenant and gives its id';

create function private.list_tenants()
returns table (id uuid, name text, active_keys bigint, created_at timestamptz)
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
  select t.id, t.name,
         (select count(*) from private.api_keys k
           where k.tenant_id = t.id and k.active and (k.expires_at is null or k.expires_at > now())),
         t.created_at
    from private.tenants t
   order by t.created_at, t.id;
$$;
comment on function private.list_tenants() is 'All tenants, oldest first, with the number of their keys that work now';

create function private.require_tenant(p_tenant_id uuid)
returns void
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
begin
  if not exists (select from private.tenants t where t.id = p_tenant_id) then
    raise exception using
      errcode = 'no_data_found',
      message = format('there is no tenant %s', p_tenant_id),
      hint = 'private.list_tenants() has them all.';
  end if;
end;
$$;
comment on function private.require_tenant(uuid) is 'Raises no_data_found unless there is the tenant';

create function private.check_permissions(p_permissions text[])
returns void
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
  v_known constant text[] := array(
    select p.proname::text
      from pg_proc p
     where p.pronamespace = 'public'::regnamespace
       and has_function_privilege('gateway', p.oid, 'execute')
       and p.proname <> 'record_key_use'
     order by 1
  );
  v_unknown constant text[] := array(select unnest(p_permissions) except select unnest(v_known) order by 1);
begin
  if cardinality(p_permissions) = 0 or array_position(p_permissions, null) is not null then
    raise exception using
      errcode = 'invalid_parameter_value',
      message = 'a key needs the permission for at least one function, and none of them is null',
      hint = 'null instead of the array means all functions; private.revoke_key ends a key.';
  end if;
  if v_unknown <> '{}' then
    raise exception using
      errcode = 'undefined_function',
      message = format('no published function is named %s', array_to_string(v_unknown, ', ')),
      hint = format('Published are: %s.', array_to_string(v_known, ', '));
  end if;
end;
$$;
comment on function private.check_permissions(text[]) is
  'Raises an error unless a key can have these permissions: null, or names of published functions';

create function private.issue_key(
  p_tenant_id uuid,
  p_name text,
  p_permissions text[] default null,
  p_expires_at timestamptz default null,
  p_environment text default 'live'
)
returns table (id uuid, key text, prefix text, expires_at timestamptz)
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
as $$
declare
  v_unsigned constant text := format('wms_%s_%s', p_environment, private.random_base62(32));
  v_key constant text := v_unsigned || private.key_checksum(v_unsigned);
  -- 24 of the 32 random characters stay unknown, which are 142 bits.
  v_prefix constant text := left(v_unsigned, -24);
begin
  if p_environment is null or p_environment !~ '^[a-z]{1,10}$' then
    raise exception using
      errcode = 'invalid_parameter_value',
      message = format('the environment of a key is 1 to 10 letters of a-z, and not %L', p_environment);
  end if;
  if p_expires_at <= now() then
    raise exception using
      errcode = 'invalid_parameter_value',
      message = format('a key cannot expire at %s, which has passed', p_expires_at);
  end if;
  perform private.require_tenant(p_tenant_id);
  perform private.check_permissions(p_permissions);

  return query
    insert into private.api_keys as k (tenant_id, name, prefix, key_hash, permissions, expires_at)
    values (p_tenant_id, p_name, v_prefix, sha256(convert_to(v_key, 'UTF8')), p_permissions, p_expires_at)
    returning k.id, v_key, k.prefix, k.expires_at;
end;
$$;
comment on function private.issue_key(uuid, text, text[], timestamptz, text) is
  'Issues a key and gives it, this once: wms_, the environment, _, 32 random characters and their checksum. Permissions are names of functions, null means all; without an expiry it never expires';

create function private.list_keys(p_tenant_id uuid default null)
returns table (
  tenant_id uuid, tenant text, id uuid, prefix text, name text, permissions text[], state text,
  created_at timestamptz, expires_at timestamptz, last_used_at timestamptz
)
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
  select k.tenant_id, t.name, k.id, k.prefix, k.name, k.permissions,
         case
           when not k.active then 'revoked'
           when k.expires_at <= now() then 'expired'
           else 'active'
         end,
         k.created_at, k.expires_at, k.last_used_at
    from private.api_keys k
    join private.tenants t on t.id = k.tenant_id
   where p_tenant_id is null or k.tenant_id = p_tenant_id
   order by t.created_at, t.id, k.created_at, k.id;
$$;
comment on function private.list_keys(uuid) is
  'The keys of a tenant, or of all for null: everything but the key itself. Permissions are null for all functions; state is active, expired or revoked';

create function private.require_key(p_key_id uuid)
returns private.api_keys
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
as $$
declare
  v_key private.api_keys;
begin
  select * into v_key from private.api_keys k where k.id = p_key_id for update;
  if not found then
    raise exception using
      errcode = 'no_data_found',
      message = format('there is no key %s', p_key_id),
      hint = 'private.list_keys() has them all.';
  end if;
  return v_key;
end;
$$;
comment on function private.require_key(uuid) is 'A key by its id, locked for a change; raises no_data_found where there is none';

create function private.rotate_key(
  p_key_id uuid,
  p_overlap interval default interval '24 hours',
  p_expires_at timestamptz default null
)
returns table (id uuid, key text, prefix text, expires_at timestamptz)
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
as $$
declare
  v_old constant private.api_keys := private.require_key(p_key_id);
  -- A key that private.issue_key did not make has no prefix, and so no environment.
  v_environment constant text := coalesce(split_part(v_old.prefix, '_', 2), 'live');
  -- A key whose successor was lost may be rotated again, and only its own expiry has come nearer.
  v_expires_at constant timestamptz :=
    case when v_old.rotated_at is null then v_old.expires_at else v_old.expires_unrotated_at end;
begin
  -- The clock and not now(), which stood still while another rotation held the key.
  if not v_old.active or v_old.expires_at <= clock_timestamp() then
    raise exception using
      errcode = 'object_not_in_prerequisite_state',
      message = format('key %s cannot be rotated: it is revoked or expired', p_key_id),
      hint = 'Issue a new key.';
  end if;
  if p_overlap is null or p_overlap < interval '0' then
    raise exception using
      errcode = 'invalid_parameter_value',
      message = format('the overlap of two keys cannot be %s', coalesce(p_overlap::text, 'null'));
  end if;

  update private.api_keys k
     set expires_at = least(k.expires_at, now() + p_overlap),
         rotated_at = now(),
         expires_unrotated_at = v_expires_at
   where k.id = p_key_id;
  return query
    select i.*
      from private.issue_key(
             v_old.tenant_id, v_old.name, v_old.permissions, coalesce(p_expires_at, v_expires_at), v_environment
           ) i;
end;
$$;
comment on function private.rotate_key(uuid, interval, timestamptz) is
  'Issues a key in the place of another: same tenant, name, permissions and, unless it is given, expiry. The old key works on for the overlap, by default 24 hours, and 0 ends it now';

create function private.revoke_key(p_key_id uuid)
returns void
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
as $$
begin
  perform private.require_key(p_key_id);
  update private.api_keys k set active = false where k.id = p_key_id;
end;
$$;
comment on function private.revoke_key(uuid) is 'Ends a key, now and for good; a key that is revoked already stays so';

create function private.set_key_permissions(p_key_id uuid, p_permissions text[])
returns void
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
as $$
begin
  perform private.check_permissions(p_permissions);
  perform private.require_key(p_key_id);
  update private.api_keys k set permissions = p_permissions where k.id = p_key_id;
end;
$$;
comment on function private.set_key_permissions(uuid, text[]) is
  'Lets a key call these functions and no others; null means all';

-- Row security shows gateway_keys every key, which is what its one other function needs; of a key's columns it may
-- change this one alone.
create policy recording on private.api_keys
  for update to gateway_keys
  using (true);
grant select (last_used_at), update (last_used_at) on private.api_keys to gateway_keys;

-- Executable by gateway_functions alone. A key proves itself; one that is unknown, inactive or expired changes nothing.
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
  'Records that a key is used now, unless that was recorded within the last minute; whether it was recorded';
revoke all on function private.touch_key(text) from public;
grant execute on function private.touch_key(text) to gateway_functions;
grant create on schema private to gateway_keys;
alter function private.touch_key(text) owner to gateway_keys;
revoke create on schema private from gateway_keys;

-- Callable with any key. Not a part of each read: those are stable, PostgREST gives them a transaction that cannot
-- write, and a write to disk for a read would cost more than the read.
create function public.record_key_use(p_api_key text)
returns table (recorded boolean)
language plpgsql
volatile
rows 1
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  return query select private.touch_key(p_api_key);
end;
$$;
comment on function public.record_key_use(text) is
  'Records the last use of a key, at most once a minute; the gateway calls it after a key was accepted';
select private.publish('public.record_key_use');
