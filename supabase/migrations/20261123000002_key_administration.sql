-- Administration of tenants and keys. Only the role that applied the migrations may execute these functions: no role is
-- granted them.

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
  'The last p_length digits of a number in base 62; the digits are 0-9, A-Z, a-z';

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
    -- Cryptographic randomness without an extension. Bytes 6 and 8 hold the version and the variant of the uuid.
    v_bytes := uuid_send(gen_random_uuid());
    for v_at in 0..15 loop
      v_byte := get_byte(v_bytes, v_at);
      -- 248 is four times 62: larger bytes would make the first digits more likely.
      if v_at not in (6, 8) and v_byte < 248 then
        v_text := v_text || private.to_base62(v_byte % 62, 1);
      end if;
    end loop;
  end loop;
  return left(v_text, p_length);
end;
$$;
comment on function private.random_base62(integer) is
  'p_length cryptographically random digits in base 62';

create function private.key_checksum(p_text text)
returns text
language sql
immutable
set search_path = pg_catalog, pg_temp
as $$
  select private.to_base62(('x' || encode(substr(sha256(convert_to(p_text, 'UTF8')), 1, 4), 'hex'))::bit(32)::bigint, 6);
$$;
comment on function private.key_checksum(text) is
  'The checksum at the end of a key: the first 4 bytes of the SHA-256 of what precedes it, as 6 digits in base 62. Secret scanners use it to tell a key from a similar text';

create function private.create_tenant(p_name text)
returns uuid
language sql
volatile
set search_path = pg_catalog, pg_temp
as $$
  insert into private.tenants (name) values (p_name) returning id;
$$;
comment on function private.create_tenant(text) is 'Creates a tenant and returns its id';

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
comment on function private.list_tenants() is 'All tenants, oldest first, with the number of their usable keys';

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
comment on function private.require_tenant(uuid) is 'Raises no_data_found unless the tenant exists';

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
       and p.proname not in ('record_key_use', 'record_usage')
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
  'Raises an error unless the permissions are null or names of published functions';

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
  v_hash constant bytea := sha256(convert_to(v_key, 'UTF8'));
  -- The prefix leaves 24 of the 32 random characters secret: 142 bits.
  v_prefix constant text := left(v_unsigned, -24);
  v_id uuid;
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

  -- Without the key itself: Citus sends the statement to every node, with its values in the text, and nodes may log it.
  insert into private.api_keys as k (tenant_id, name, prefix, key_hash, permissions, expires_at)
  values (p_tenant_id, p_name, v_prefix, v_hash, p_permissions, p_expires_at)
  returning k.id into v_id;
  return query select v_id, v_key, v_prefix, p_expires_at;
end;
$$;
comment on function private.issue_key(uuid, text, text[], timestamptz, text) is
  'Issues a key and returns it, this once: wms_, the environment, _, 32 random characters and a checksum. Permissions are names of functions, null means all; a null expiry means never';

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
  'The keys of a tenant, or of all tenants for null, without the key itself. Null permissions mean all functions; state is active, expired or revoked';

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
comment on function private.require_key(uuid) is 'Returns a key by its id and locks it; raises no_data_found if there is none';

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
  -- A key that private.issue_key did not create has no prefix, and so no environment.
  v_environment constant text := coalesce(split_part(v_old.prefix, '_', 2), 'live');
  -- A key whose successor was lost is rotated again. Its rotation brought its expiry forward, so the successor takes over the
  -- original one.
  v_expires_at constant timestamptz :=
    case when v_old.rotated_at is null then v_old.expires_at else v_old.expires_unrotated_at end;
  v_new record;
begin
  -- The clock and not now(), which does not advance while this call waits for another rotation.
  if not v_old.active or v_old.expires_at <= clock_timestamp() then
    raise exception using
      errcode = 'object_not_in_prerequisite_state',
      message = format('key %s cannot be rotated: it is revoked or expired', p_key_id),
      hint = 'Issue a new key.';
  end if;
  if exists (
    select from private.api_keys k
     where k.prefix = v_old.successor and k.active and coalesce(k.expires_at, 'infinity') > clock_timestamp()
  ) then
    raise exception using
      errcode = 'object_not_in_prerequisite_state',
      message = format('key %s was replaced by %s already', p_key_id, v_old.successor),
      hint = 'Rotate that one. If it was lost, revoke it and rotate this one again.';
  end if;
  if p_overlap is null or p_overlap < interval '0' then
    raise exception using
      errcode = 'invalid_parameter_value',
      message = format('the overlap of two keys cannot be %s', coalesce(p_overlap::text, 'null'));
  end if;

  select i.* into v_new
    from private.issue_key(
           v_old.tenant_id, v_old.name, v_old.permissions, coalesce(p_expires_at, v_expires_at), v_environment
         ) i;
  update private.api_keys k
     set original_id = coalesce(v_old.original_id, v_old.id)
   where k.id = v_new.id;
  update private.api_keys k
     set expires_at = least(k.expires_at, now() + p_overlap),
         rotated_at = now(),
         expires_unrotated_at = v_expires_at,
         successor = v_new.prefix
   where k.id = p_key_id;
  return query select v_new.id, v_new.key, v_new.prefix, v_new.expires_at;
end;
$$;
comment on function private.rotate_key(uuid, interval, timestamptz) is
  'Issues a key that replaces another: same tenant, name, permissions and, unless given, expiry. The old key works for the overlap, 24 hours by default; 0 ends it now';

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
comment on function private.revoke_key(uuid) is 'Revokes a key, now and permanently';

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
  'Sets the functions that a key may call; null means all';
