-- The use of keys, which gateways record in batches, and the limits of keys. A rotated key and its successors share both: they
-- are kept under the first of them.

create table private.usage_writers (
  writer uuid primary key,
  sequence integer not null,
  applied_at timestamptz not null
);
comment on table private.usage_writers is 'The last batch of each process that records usage, so that none counts twice';
alter table private.usage_writers enable row level security;
alter table private.usage_writers force row level security;
create policy administration on private.usage_writers
  to current_user
  using (true);
create policy recording on private.usage_writers
  to gateway_keys
  using (true);
grant select, insert, update, delete on private.usage_writers to gateway_keys;

create table private.usage (
  tenant_id uuid not null references private.tenants (id),
  id uuid not null default gen_random_uuid(),
  key_id uuid not null,
  day date not null,
  operation text not null constraint usage_operation_length check (char_length(operation) <= 255),
  class text not null check (class in ('2xx', '4xx', '429', '5xx')) constraint usage_class_length check (char_length(class) <= 3),
  calls bigint not null,
  created_at timestamptz not null default clock_timestamp(),
  primary key (tenant_id, id),
  constraint usage_of_key unique (tenant_id, key_id, day, operation, class)
);
comment on table private.usage is 'Calls per key, day, operation and class of status';
comment on column private.usage.key_id is 'The first key of its rotations';
comment on column private.usage.day is 'In the time zone of the gateway';
comment on column private.usage.operation is 'The operationId of the document';

create index usage_in_order on private.usage (tenant_id, key_id, day, created_at, id);
create index usage_by_day on private.usage (day);

select private.isolate('private.usage');
alter table private.usage add foreign key (tenant_id, key_id) references private.api_keys (tenant_id, id);
grant select on private.usage to gateway_functions;
-- A batch has keys of any tenant.
create policy recording on private.usage
  to gateway_keys
  using (true);
grant select, insert, update on private.usage to gateway_keys;
-- Days that a quota may count are never deleted.
create policy retention_select on private.usage
  for select to gateway_retention
  using (day < (now() - interval '31 days')::date);
create policy retention_delete on private.usage
  for delete to gateway_retention
  using (day < (now() - interval '31 days')::date);
grant select (tenant_id, id, day), delete on private.usage to gateway_retention;

create policy limits on private.tenants
  for select to gateway_keys
  using (true);
grant select (id, limits) on private.tenants to gateway_keys;
grant select (id, original_id, limits) on private.api_keys to gateway_keys;

-- Executable by gateway_functions only. A row counts for the key whose hash it has, and for nobody if there is none.
create function private.add_usage(p_writer uuid, p_sequence integer, p_rows jsonb)
returns void
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  -- Citus takes no now() in the parts of an insert.
  v_now constant timestamptz := now();
  v_hashes constant bytea[] := array(
    select distinct decode(r.key, 'hex') from jsonb_to_recordset(p_rows) as r (key text)
  );
  v_used constant bytea[] := array(
    select distinct decode(r.key, 'hex') from jsonb_to_recordset(p_rows) as r (key text, class text) where r.class = '2xx'
  );
begin
  -- A batch that is repeated waits here for the first attempt, and finds it applied.
  insert into private.usage_writers as w (writer, sequence, applied_at)
  values (p_writer, p_sequence, v_now)
  on conflict (writer) do update
    set sequence = excluded.sequence, applied_at = excluded.applied_at
    where w.sequence < excluded.sequence;
  if not found then
    return;
  end if;
  delete from private.usage_writers w where w.applied_at < v_now - interval '31 days';

  -- In one order, so that no two batches wait for each other.
  perform from private.api_keys k where k.key_hash = any (v_hashes) order by k.id for no key update;
  -- Before the usage: on Citus nothing that is on every node changes after what is distributed.
  update private.api_keys k
     set last_used_at = v_now
   where k.key_hash = any (v_used)
     and (k.last_used_at is null or k.last_used_at <= v_now - interval '1 minute');
  insert into private.usage as u (tenant_id, key_id, day, operation, class, calls)
  select k.tenant_id, coalesce(k.original_id, k.id), r.day, left(r.operation, 255), r.class, sum(r.calls)
    from jsonb_to_recordset(p_rows) as r (key text, day date, operation text, class text, calls bigint)
    join private.api_keys k on k.key_hash = decode(r.key, 'hex')
   group by 1, 2, 3, 4, 5
   order by 1, 2, 3, 4, 5
  on conflict (tenant_id, key_id, day, operation, class) do update
    set calls = u.calls + excluded.calls;
end;
$$;
comment on function private.add_usage(uuid, integer, jsonb) is
  'Adds a batch of a writer to the usage of keys, once for each sequence, and to their last use';

-- Executable by gateway_functions only, for the keys whose hashes it is given.
create function private.find_limits(p_day date, p_rows jsonb)
returns table (key text, original_id uuid, limits jsonb, today bigint, month bigint)
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_tenant uuid;
begin
  for v_tenant, key, original_id, limits in
    select k.tenant_id, encode(k.key_hash, 'hex'), o.id, coalesce(o.limits, t.limits, '{}')
      from private.api_keys k
      join private.api_keys o on o.tenant_id = k.tenant_id and o.id = coalesce(k.original_id, k.id)
      join private.tenants t on t.id = k.tenant_id
     where k.key_hash = any (array(select decode(r.key, 'hex') from jsonb_to_recordset(p_rows) as r (key text)))
  loop
    select coalesce(sum(u.calls) filter (where u.day = p_day), 0)::bigint, coalesce(sum(u.calls), 0)::bigint
      into today, month
      from private.usage u
     where u.tenant_id = v_tenant
       and u.key_id = original_id
       and u.day between date_trunc('month', p_day)::date and p_day
       and u.class <> '429'
       -- Nobody asks for it otherwise.
       and limits ?| array['per_day', 'per_month'];
    return next;
  end loop;
end;
$$;
comment on function private.find_limits(date, jsonb) is
  'The limits of keys, and the calls of the day and of its month so far, refused ones left out; both 0 for a key without a quota';

-- Executable by gateway_functions only. Only who has the key gets an answer.
create function private.original_key(p_api_key text)
returns uuid
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
  select coalesce(k.original_id, k.id)
    from private.api_keys k
   where k.key_hash = sha256(convert_to(p_api_key, 'UTF8'));
$$;
comment on function private.original_key(text) is 'The key under which the usage of a key is kept: the first of its rotations';

-- Executable by gateway_functions only. Row security shows the owner only days of any tenant that no quota counts any more.
create function private.forget_usage(p_keep_days integer)
returns void
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_first constant date := (now() - make_interval(days => p_keep_days))::date;
begin
  -- As private.forget_responses.
  if not pg_try_advisory_xact_lock(hashtext('private.forget_usage')) then
    return;
  end if;
  delete from private.usage
   where (tenant_id, id) in (
     select u.tenant_id, u.id
       from private.usage u
      where u.day < v_first
      order by u.day
      limit 10000
   );
end;
$$;
comment on function private.forget_usage(integer) is
  'Deletes up to 10,000 rows of usage, of any tenant, that are older than so many days, which are at least 31';

revoke all on function
  private.add_usage(uuid, integer, jsonb), private.find_limits(date, jsonb), private.original_key(text),
  private.forget_usage(integer)
  from public;
grant execute on function
  private.add_usage(uuid, integer, jsonb), private.find_limits(date, jsonb), private.original_key(text),
  private.forget_usage(integer)
  to gateway_functions;
grant create on schema private to gateway_keys, gateway_retention;
alter function private.add_usage(uuid, integer, jsonb) owner to gateway_keys;
alter function private.find_limits(date, jsonb) owner to gateway_keys;
alter function private.original_key(text) owner to gateway_keys;
alter function private.forget_usage(integer) owner to gateway_retention;
revoke create on schema private from gateway_keys, gateway_retention;

-- Callable by the gateway, which no client can make call it: it belongs to no operation. A gateway reports what it has verified,
-- by the hashes of keys, and only for these it learns something. An unknown hash changes nothing.
create function public.record_usage(p_writer uuid, p_sequence integer, p_day date, p_keep_days integer, p_rows jsonb)
returns table (key text, original_id uuid, limits jsonb, today bigint, month bigint)
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  if p_rows = '[]' then
    -- By themselves: on Citus the rows that one role has changed are closed to others until the transaction ends.
    perform private.forget_responses();
    perform private.forget_usage(p_keep_days);
  elsif p_sequence is not null then
    perform private.add_usage(p_writer, p_sequence, p_rows);
  end if;
  return query select l.* from private.find_limits(p_day, p_rows) l;
end;
$$;
comment on function public.record_usage(uuid, integer, date, integer, jsonb) is
  'Adds a batch of calls to the usage of their keys, once for each writer and sequence, and returns the keys'' limits and the calls of the day and its month. Without a sequence it adds nothing; an empty batch deletes expired rows';
select private.publish('public.record_usage');

-- Callable with a key that has the permission: the key proves the tenant, and whose usage it is.
create function public.consultar_uso(
  p_api_key text,
  p_limit integer default 100,
  p_offset integer default 0,
  p_dia_gte date default null,
  p_after uuid default null
)
returns table (id uuid, dia date, operacao text, classe text, chamadas bigint)
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_tenant constant uuid := private.verify_key(p_api_key, 'consultar_uso');
  v_key constant uuid := private.original_key(p_api_key);
  v_day date := coalesce(p_dia_gte, date '-infinity');
  v_after timestamptz := timestamptz '-infinity';
  v_after_id constant uuid := coalesce(p_after, '00000000-0000-0000-0000-000000000000');
begin
  if p_after is not null then
    select greatest(u.day, v_day), case when u.day >= v_day then u.created_at else v_after end
      into v_day, v_after
      from private.usage u
     where u.tenant_id = v_tenant and u.key_id = v_key and u.id = p_after;
    perform private.require_record(found, 'after');
  end if;
  return query
    select u.id, u.day, u.operation, u.class, u.calls
      from private.usage u
     where u.tenant_id = v_tenant
       and u.key_id = v_key
       and (u.day, u.created_at, u.id) > (v_day, v_after, v_after_id)
     order by u.day, u.created_at, u.id
     limit p_limit
    offset p_offset;
end;
$$;
comment on function public.consultar_uso(text, integer, integer, date, uuid) is
  'The calls of the key and of those that it replaced, by day, operation and class of status, oldest first';
select private.publish('public.consultar_uso');

-- For administrators: no role is granted the functions below.

create function private.check_limits(p_limits jsonb)
returns void
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
as $$
declare
  v_wrong constant text := (
    select string_agg(format('%s %s', l.key, l.value), ', ' order by l.key)
      from jsonb_each(p_limits) l
     where l.key not in ('per_minute', 'burst', 'per_day', 'per_month')
        or l.value::text !~ '^[1-9][0-9]{0,11}$'
  );
begin
  if v_wrong is not null then
    raise exception using
      errcode = 'invalid_parameter_value',
      message = format('limits are per_minute, burst, per_day and per_month, from 1 to 999999999999, and not %s', v_wrong);
  end if;
  if p_limits ? 'burst' and not p_limits ? 'per_minute' then
    raise exception using errcode = 'invalid_parameter_value', message = 'a burst needs a limit per minute';
  end if;
end;
$$;
comment on function private.check_limits(jsonb) is 'Raises an error unless the limits are null or an object of limits';

create function private.set_key_limits(p_key_id uuid, p_limits jsonb)
returns void
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
as $$
declare
  v_key constant private.api_keys := private.require_key(p_key_id);
begin
  perform private.check_limits(p_limits);
  update private.api_keys k
     set limits = p_limits
   where k.tenant_id = v_key.tenant_id and k.id = coalesce(v_key.original_id, v_key.id);
end;
$$;
comment on function private.set_key_limits(uuid, jsonb) is
  'Sets the limits of a key and of those that it replaced or that replace it; an empty object means none, null those of the tenant';

create function private.set_tenant_limits(p_tenant_id uuid, p_limits jsonb)
returns void
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
as $$
begin
  perform private.require_tenant(p_tenant_id);
  perform private.check_limits(p_limits);
  update private.tenants t set limits = p_limits where t.id = p_tenant_id;
end;
$$;
comment on function private.set_tenant_limits(uuid, jsonb) is
  'Sets the limits of each key of a tenant that has none of its own; null means none';

create function private.list_usage(p_tenant_id uuid, p_key_id uuid, p_first date, p_last date)
returns table (
  tenant_id uuid, tenant text, key_id uuid, prefix text, name text, day date, operation text, class text, calls bigint
)
-- PL/pgSQL: Citus cannot plan a query with the arguments of a function in SQL.
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
  v_key constant uuid := (select coalesce(k.original_id, k.id) from private.api_keys k where k.id = p_key_id);
begin
  return query
    select k.tenant_id, t.name, k.id, k.prefix, k.name, u.day, u.operation, u.class, u.calls
      from private.usage u
      join private.api_keys k on k.tenant_id = u.tenant_id and k.id = u.key_id
      join private.tenants t on t.id = u.tenant_id
     where (p_tenant_id is null or u.tenant_id = p_tenant_id)
       and (p_key_id is null or u.key_id = v_key)
       and u.day between p_first and p_last
     order by t.created_at, t.id, k.created_at, k.id, u.day, u.operation, u.class;
end;
$$;
comment on function private.list_usage(uuid, uuid, date, date) is
  'The usage of a key, of a tenant''s keys, or of all keys for null, from one day to another; of rotated keys under the first of them';
