-- What has changed: a row for each change of a record, in the order of commits, the operation that lists them, and their end.

create table private.changes (
  tenant_id uuid not null references private.tenants (id),
  id uuid not null,
  resource text not null constraint changes_resource_length check (char_length(resource) <= 63),
  kind text not null check (kind in ('criado', 'alterado', 'excluido'))
    constraint changes_kind_length check (char_length(kind) <= 8),
  records text[] not null constraint changes_records_length check (cardinality(records) <= 1000),
  occurred_at timestamptz not null default now(),
  key uuid,
  request text constraint changes_request_length check (char_length(request) <= 128),
  primary key (tenant_id, id)
);
comment on table private.changes is
  'Changes of records, without their content, in the order of commits: a row for those of one statement, up to 1,000';
comment on column private.changes.id is
  'The position: a UUID of version 8 (RFC 9562) that begins with the microseconds since 1970 at the commit and ends with 12 zero bits for a place in records. Within a tenant each is greater than those that were committed before; before the commit it is one near zero';
comment on column private.changes.resource is 'The table without its schema';
comment on column private.changes.records is 'The ids of the records; null in place of that of a student who has been erased';
comment on column private.changes.key is 'The id of the API key that made the change; null for an administrator';
comment on column private.changes.request is 'The id of the request in the log of the gateway; null for an administrator';

create index changes_by_resource on private.changes (tenant_id, resource, id);

alter table private.tenants
  add column changes_kept interval not null default '90 days'
  constraint tenants_changes_kept check (changes_kept between interval '1 day' and interval '50 years');
comment on column private.tenants.changes_kept is 'How long changes of its records are kept';

-- By the role that records usage: it sees every tenant, because a change of an administrator has no key.
create policy recording on private.changes
  to gateway_keys
  using (true);
grant select, insert, update on private.changes to gateway_keys;
-- Those of the last day are never deleted.
create policy retention_select on private.changes
  for select to gateway_retention
  using (occurred_at < now() - interval '1 day');
create policy retention_delete on private.changes
  for delete to gateway_retention
  using (occurred_at < now() - interval '1 day');
grant select (tenant_id, id, occurred_at), delete on private.changes to gateway_retention;
create policy retention on private.tenants
  for select to gateway_retention
  using (true);
grant select (id, changes_kept) on private.tenants to gateway_retention;
grant select on private.changes to gateway_functions;

create function private.request_id()
returns text
language sql
stable
-- As private.to_searchable.
return left(
  coalesce(
    nullif(current_setting('wellness.request_id', true), ''),
    nullif(current_setting('request.headers', true), '')::json ->> 'x-request-id',
    substring(current_setting('application_name') from ' (\S+)$')
  ),
  128
);
comment on function private.request_id() is
  'The id of the request for which the gateway calls: PostgREST passes on its header, otherwise it is behind the name of the application';

-- Executable by gateway_functions only. The key proves the tenant; nothing else does.
create or replace function private.verify_key(p_api_key text, p_function text)
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
  select k.tenant_id, k.id, k.permissions, k.active, k.expires_at
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
    raise exception using
      errcode = 'PT401',
      message = format('API Key sem permissão para %s', p_function),
      detail = 'permission';
  end if;

  if current_setting('citus.propagate_set_commands', true) is null then
    perform
      set_config('wellness.tenant_id', v_key.tenant_id::text, true),
      set_config('wellness.key_id', v_key.id::text, true);
  else
    -- Citus takes only this form to other nodes, and only in a transaction block. What records a change runs there.
    perform set_config('citus.propagate_set_commands', 'local', true);
    execute format('set local wellness.tenant_id = %L', v_key.tenant_id);
    execute format('set local wellness.key_id = %L', v_key.id);
    execute format('set local wellness.request_id = %L', coalesce(private.request_id(), ''));
  end if;
  return v_key.tenant_id;
end;
$$;
comment on function private.verify_key(text, text) is
  'Returns the tenant of a key that may call the named function now, and sets it for row security, and the key for changes, in this transaction; raises PT401 for any other key';

-- Called at commit. Positions are given out one transaction after the other: whoever waits for the lock finds what was committed
-- before, and a reader of that finds all that came before it. Only commits wait for each other, and only those of one tenant:
-- what comes before a commit, such as an import, holds no lock.
create function private.next_position(p_tenant uuid)
returns uuid
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
-- A plan of a time when the table was small would read more with each change.
set enable_seqscan = off
as $$
declare
  -- An assignment, because Postgres plans and runs a query for a "perform".
  v_locked constant text := pg_advisory_xact_lock(hashtextextended('private.changes ' || p_tenant, 0))::text;
  v_last constant text := (select c.id::text from private.changes c where c.tenant_id = p_tenant order by c.id desc limit 1);
  v_micros bigint := (extract(epoch from clock_timestamp()) * 1000000)::bigint;
  v_id text;
begin
  loop
    -- 48 bits of the time, the version, 12 bits of the time, the variant, 50 random bits and 12 for a place in the records. After
    -- a restore of an older backup a position that was read is not that of another change.
    v_id := lpad(to_hex(v_micros), 15, '0');
    v_id := left(v_id, 8) || '-' || substr(v_id, 9, 4) || '-8' || right(v_id, 3) || '-' || substr(gen_random_uuid()::text, 20, 14) || '000';
    exit when v_last is null or v_id > v_last collate "C";
    -- The clock has gone back.
    v_micros := 1 + ('x' || left(v_last, 8) || substr(v_last, 10, 4) || substr(v_last, 16, 3))::bit(60)::bigint;
  end loop;
  return v_id::uuid;
end;
$$;
comment on function private.next_position(uuid) is
  'Makes the other commits of a tenant wait for this one, and returns a position after those that were committed before';

-- Called at commit, by a deferred trigger, for a row that a key has changed.
create function private.record_change()
returns trigger
language plpgsql
volatile
-- At commit the functions of the gateway are done, and the role is that of its login.
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_is_same constant boolean := tg_op = 'UPDATE' and (old.tenant_id, old.id) = (new.tenant_id, new.id);
  v_key constant uuid := current_setting('wellness.key_id');
  v_request constant text := private.request_id();
  v_id uuid;
begin
  if old.id is not null and not v_is_same then
    v_id := private.next_position(old.tenant_id);
    insert into private.changes (tenant_id, id, resource, kind, records, key, request, occurred_at)
    values (old.tenant_id, v_id, tg_argv[0], 'excluido', array[old.id::text], v_key, v_request, clock_timestamp());
  end if;
  if new.id is not null then
    v_id := private.next_position(new.tenant_id);
    insert into private.changes (tenant_id, id, resource, kind, records, key, request, occurred_at)
    values (
      new.tenant_id, v_id, tg_argv[0], case when v_is_same then 'alterado' else 'criado' end, array[new.id::text], v_key,
      v_request, clock_timestamp()
    );
  end if;
  return null;
end;
$$;
comment on function private.record_change() is 'Adds the change of a row by a key to private.changes; its argument is the resource';

-- Called after a statement of an administrator: row by row, an import of 100,000 students would take twice as long.
create function private.record_changes()
returns trigger
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_changes record;
begin
  for v_changes in execute case
    when tg_op = 'UPDATE' then
      'select tenant_id, case when o.id is null then ''criado'' when n.id is null then ''excluido'' else ''alterado'' end as kind,
              array_agg(id::text) as records
         from changed n full join previous o using (tenant_id, id)
        group by 1, 2 order by 2 desc'
    else
      format('select n.tenant_id, %L as kind, array_agg(n.id::text) as records from changed n group by 1', tg_argv[1])
  end loop
    for v_from in 1 .. cardinality(v_changes.records) by 1000 loop
      insert into private.changes (tenant_id, id, resource, kind, records)
      values (
        v_changes.tenant_id, ('00000000-0000-8000-' || right(gen_random_uuid()::text, 17))::uuid, tg_argv[0],
        v_changes.kind, v_changes.records[v_from:v_from + 999]
      );
    end loop;
  end loop;
  return null;
end;
$$;
comment on function private.record_changes() is
  'Adds the changes of a statement to private.changes, without a position; its arguments are the resource and the kind';

create function private.place_change()
returns trigger
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_id constant uuid := private.next_position(new.tenant_id);
  -- Citus takes no clock_timestamp() in an update.
  v_now constant timestamptz := clock_timestamp();
begin
  update private.changes c set id = v_id, occurred_at = v_now where c.tenant_id = new.tenant_id and c.id = new.id;
  return null;
end;
$$;
comment on function private.place_change() is 'Gives the changes of a statement their position';

create constraint trigger place_change
  after insert on private.changes
  deferrable initially deferred
  for each row
  -- Rows that a restore brings have theirs.
  when (new.id < '00000001-0000-0000-0000-000000000000')
  execute function private.place_change();

create function private.forget_changes()
returns void
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  -- As private.forget_responses.
  if not pg_try_advisory_xact_lock(hashtext('private.forget_changes')) then
    return;
  end if;
  -- By position: what is left of a tenant is the end of its changes, without a gap.
  delete from private.changes
   where (tenant_id, id) in (
     select c.tenant_id, c.id
       from private.tenants t
       join private.changes c
         on c.tenant_id = t.id
        and c.id < overlay(
              lpad(to_hex((extract(epoch from now() - t.changes_kept) * 1000000)::bigint), 15, '0') || repeat('0', 16)
              placing '8' from 13 for 0
            )::uuid
        and c.id > '00000001-0000-0000-0000-000000000000'
      order by c.id
      limit 10000
   );
end;
$$;
comment on function private.forget_changes() is 'Deletes up to 10,000 changes, of any tenant, that are not kept any longer';

revoke all on function
  private.request_id(), private.next_position(uuid), private.record_change(), private.record_changes(), private.place_change(),
  private.forget_changes()
  from public;
grant execute on function private.request_id(), private.next_position(uuid) to gateway_keys;
grant execute on function private.forget_changes() to gateway_functions;
grant create on schema private to gateway_keys, gateway_retention;
alter function private.record_change() owner to gateway_keys;
alter function private.record_changes() owner to gateway_keys;
alter function private.place_change() owner to gateway_keys;
-- As the others that record_usage calls beside it: on Citus the rows that one role has changed are closed to others.
alter function private.forget_changes() owner to gateway_retention;
revoke create on schema private from gateway_keys, gateway_retention;

create or replace function private.distribute()
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_steps constant text[] := array(select private.distribution_steps());
  v_step text;
  -- To distribute a table copies its rows, which is no change.
  v_watched constant regclass[] := array(
    select t.tgrelid::regclass
      from pg_trigger t
     where t.tgname = 'record_change'
       and exists (
         select from unnest(v_steps) s where starts_with(s, format('select create_distributed_table(%L,', t.tgrelid::regclass))
       )
  );
  v_table regclass;
begin
  if v_steps = '{}' then
    return;
  end if;
  foreach v_table in array v_watched loop
    execute format(
      'drop trigger record_change on %1$s; drop trigger record_insert on %1$s; drop trigger record_update on %1$s;
       drop trigger record_delete on %1$s',
      v_table
    );
  end loop;
  -- Citus refuses to change tables with foreign keys over several connections at once.
  perform set_config('citus.multi_shard_modify_mode', 'sequential', true);
  perform set_config('citus.enable_unsafe_triggers', 'on', true);
  foreach v_step in array v_steps loop
    execute v_step;
  end loop;
  foreach v_table in array v_watched loop
    perform private.watch(v_table);
  end loop;
  -- As the functions in public.
  alter function private.next_position(uuid) set plan_cache_mode = force_custom_plan;
  alter function private.record_change() set plan_cache_mode = force_custom_plan;
  alter function private.record_changes() set plan_cache_mode = force_custom_plan;
  alter function private.place_change() set plan_cache_mode = force_custom_plan;
end;
$$;

select private.isolate('private.changes');

create function private.watch(p_table regclass)
returns void
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
as $$
declare
  v_resource constant name := (select c.relname from pg_class c where c.oid = p_table);
  v_event record;
begin
  -- Citus calls a trigger unsafe, because it could ask another node. These stay with the tenant, which is on one.
  perform set_config('citus.enable_unsafe_triggers', 'on', true);
  execute format(
    'create constraint trigger record_change after insert or update or delete on %s
     deferrable initially deferred for each row when (current_setting(''wellness.key_id'', true) <> '''')
     execute function private.record_change(%L)',
    p_table, v_resource
  );
  for v_event in
    select *
      from (values
        ('insert', 'new table as changed', 'criado'),
        ('update', 'old table as previous new table as changed', 'alterado'),
        ('delete', 'old table as changed', 'excluido')
      ) as e (name, tables, kind)
  loop
    execute format(
      'create trigger record_%1$s after %1$s on %2$s referencing %3$s
       for each statement when (coalesce(current_setting(''wellness.key_id'', true), '''') = '''')
       execute function private.record_changes(%4$L, %5$L)',
      v_event.name, p_table, v_event.tables, v_resource, v_event.kind
    );
  end loop;
end;
$$;
comment on function private.watch(regclass) is 'Records the changes of a table, which has tenant_id and id, in private.changes';

create or replace function private.isolate(p_table regclass)
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
  perform private.watch(p_table)
    from pg_attribute a
   where a.attrelid = p_table and a.attname = 'id' and not a.attisdropped;
end;
$$;
comment on function private.isolate(regclass) is
  'Shows the rows of a table only to their tenant, by tenant_id, records their changes, and on Citus distributes the table; only after it can foreign keys refer to tables of tenants';

create or replace function private.data_tables()
returns table (name regclass)
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
  select t.name
    from private.tenant_tables() t
   where t.name not in (
           'private.api_keys'::regclass, 'private.idempotency_keys'::regclass, 'private.usage'::regclass,
           'private.changes'::regclass
         )
   order by t.place desc, t.name::text;
$$;

-- Those that are there, also of a deployment's own.
do $$
declare
  v_tables constant regclass[] := array(
    select t.name
      from private.data_tables() t
      join pg_attribute a on a.attrelid = t.name and a.attname = 'id' and not a.attisdropped
  );
  v_table regclass;
begin
  foreach v_table in array v_tables loop
    perform private.watch(v_table);
  end loop;
end;
$$;

-- Callable with a key that has the permission: the key proves the tenant.
create function public.listar_alteracoes(
  p_api_key text,
  p_limit integer default 100,
  p_offset integer default 0,
  p_recurso text default null,
  p_after uuid default null
)
returns table (id uuid, recurso text, registro_id text, tipo text, ocorrido_em timestamptz)
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
as $$
declare
  v_tenant constant uuid := private.verify_key(p_api_key, 'listar_alteracoes');
  v_after constant text := coalesce(p_after::text, '00000000-0000-0000-0000-000000000000');
  v_id constant uuid := (left(v_after, 33) || '000')::uuid;
  v_place constant integer := ('x' || right(v_after, 3))::bit(12)::integer;
begin
  -- Also one that a restored backup has not: what came between it and the backup is not known.
  if p_after is not null and not exists (
    select
      from private.changes c
     where c.tenant_id = v_tenant
       and c.id = v_id
       and v_place between 1 and cardinality(c.records)
  ) then
    raise exception using
      errcode = 'PT422',
      message = 'must be the id of a change that is still kept: read everything again, and then the changes without after',
      detail = 'after';
  end if;
  if p_recurso is null then
    return query
      select (left(c.id::text, 33) || lpad(to_hex(r.place), 3, '0'))::uuid, c.resource, r.id, c.kind, c.occurred_at
        from private.changes c
       cross join lateral unnest(c.records) with ordinality r (id, place)
       where c.tenant_id = v_tenant
         and c.id >= v_id
         and (c.id > v_id or r.place > v_place)
         and r.id is not null
       order by c.id, r.place
       limit p_limit
      offset p_offset;
    return;
  end if;

  return query
    select (left(c.id::text, 33) || lpad(to_hex(r.place), 3, '0'))::uuid, c.resource, r.id, c.kind, c.occurred_at
      from private.changes c
     cross join lateral unnest(c.records) with ordinality r (id, place)
     where c.tenant_id = v_tenant
       and c.resource = p_recurso
       and c.id >= v_id
       and (c.id > v_id or r.place > v_place)
       and r.id is not null
     order by c.id, r.place
     limit p_limit
    offset p_offset;
end;
$$;
comment on function public.listar_alteracoes(text, integer, integer, text, uuid) is
  'Changes of records of the key''s tenant, in the order of their commits';
select private.publish('public.listar_alteracoes');

-- Callable by the gateway, which no client can make call it: it belongs to no operation. A gateway reports what it has verified,
-- by the hashes of keys, and only for these it learns something. An unknown hash changes nothing.
create or replace function public.record_usage(
  p_writer uuid, p_sequence integer, p_day date, p_keep_days integer, p_rows jsonb
)
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
    perform private.forget_changes();
  elsif p_sequence is not null then
    perform private.add_usage(p_writer, p_sequence, p_rows);
  end if;
  return query select l.* from private.find_limits(p_day, p_rows) l;
end;
$$;
select private.publish('public.record_usage');

create or replace function private.student_data(p_tenant_id uuid, p_aluno_id uuid)
returns jsonb
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
  v_table record;
  v_rows jsonb;
  v_changes jsonb;
  v_all_changes jsonb := jsonb '[]';
  v_data jsonb;
begin
  perform private.require_student(p_tenant_id, p_aluno_id);
  -- A kept response is a copy of the student.
  select jsonb_build_object('idempotency_keys', coalesce(jsonb_agg(to_jsonb(i) - 'tenant_id'), jsonb '[]'))
    into v_data
    from private.idempotency_keys i
   where i.tenant_id = p_tenant_id and i.response ->> 'id' = p_aluno_id::text;
  for v_table in
    select t.name, replace(t.name::text, 'private.', '') as resource, t.student_column from private.student_tables() t
  loop
    execute format(
      'select coalesce(jsonb_agg(to_jsonb(r) - ''tenant_id''), ''[]'') from %s r where r.tenant_id = $1 and r.%I = $2',
      v_table.name, v_table.student_column
    ) into v_rows using p_tenant_id, p_aluno_id;
    -- Without the ids of others that one statement has changed.
    select coalesce(jsonb_agg(to_jsonb(c) - array['tenant_id', 'records'] order by c.id), jsonb '[]')
      into v_changes
      from private.changes c
     where c.tenant_id = p_tenant_id
       and c.resource = v_table.resource
       and c.records && array(select r.value ->> 'id' from jsonb_array_elements(v_rows) r);
    v_data := v_data || jsonb_build_object(v_table.resource, v_rows);
    v_all_changes := v_all_changes || v_changes;
  end loop;
  return v_data || jsonb_build_object('changes', v_all_changes);
end;
$$;
comment on function private.student_data(uuid, uuid) is
  'All rows about a student, by table: the student, what refers to it, the changes of these, and kept responses';

create or replace function private.erase_student(p_tenant_id uuid, p_aluno_id uuid)
returns table (name text, deleted bigint)
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now constant timestamptz := now();
  v_table record;
  v_ids text[];
  v_id text;
begin
  perform private.require_student(p_tenant_id, p_aluno_id);
  insert into private.erasures (tenant, student, erased_at) values (p_tenant_id, p_aluno_id, v_now) on conflict do nothing;
  delete from private.idempotency_keys i
   where i.tenant_id = p_tenant_id and i.response ->> 'id' = p_aluno_id::text;
  get diagnostics deleted = row_count;
  name := 'private.idempotency_keys';
  return next;
  for v_table in
    select t.name, replace(t.name::text, 'private.', '') as resource, t.student_column from private.student_tables() t
  loop
    execute format(
      'select array_agg(r.row ->> ''id'')
         from (select to_jsonb(r) as row from %s r where r.tenant_id = $1 and r.%I = $2 for update) r',
      v_table.name, v_table.student_column
    ) into v_ids using p_tenant_id, p_aluno_id;
    execute format('delete from %s r where r.tenant_id = $1 and r.%I = $2', v_table.name, v_table.student_column)
      using p_tenant_id, p_aluno_id;
    get diagnostics deleted = row_count;
    -- The change that tells of the deletion keeps the id: copies of the record have to end too.
    foreach v_id in array coalesce(v_ids, '{}') loop
      update private.changes c
         set records = array_replace(c.records, v_id, null)
       where c.tenant_id = p_tenant_id
         and c.resource = v_table.resource
         and c.records @> array[v_id]
         and c.kind <> 'excluido';
    end loop;
    name := v_table.name::text;
    return next;
  end loop;
end;
$$;
comment on function private.erase_student(uuid, uuid) is
  'Deletes all rows about a student and returns the number of rows of each table; afterwards the id is only in private.erasures, and in the changes that tell of the deletion as long as they are kept';

create or replace function private.delete_tenant(p_tenant_id uuid)
returns table (name text, deleted bigint)
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
as $$
declare
  -- Citus takes no now() in the parts of an insert.
  v_now constant timestamptz := now();
  v_table regclass;
begin
  perform private.require_tenant(p_tenant_id);
  -- A batch of usage holds keys while it asks for their tenant.
  perform from private.api_keys k where k.tenant_id = p_tenant_id order by k.id for update;
  -- A request that creates something for the tenant waits, and fails once the tenant is gone.
  perform from private.tenants t where t.id = p_tenant_id for update;
  insert into private.erasures (tenant, student, erased_at) values (p_tenant_id, null, v_now) on conflict do nothing;
  for v_table in select t.name from private.tenant_tables() t loop
    execute format('delete from %s where tenant_id = $1', v_table) using p_tenant_id;
    get diagnostics deleted = row_count;
    name := v_table::text;
    return next;
  end loop;
  -- Those that this has made.
  delete from private.changes c where c.tenant_id = p_tenant_id;
  delete from private.tenants t where t.id = p_tenant_id;
end;
$$;

-- Asks less of the database than before, which pays for the change that it records.
-- Callable with a key that has the permission: the key proves the tenant.
create or replace function public.criar_aluno(
  p_api_key text,
  p_nome text,
  p_email text,
  p_telefone text default null,
  p_sexo text default null,
  p_data_nascimento text default null,
  p_academia_id uuid default null,
  p_modalidade text default null,
  p_idempotency_key text default null
)
returns table (id uuid, nome text, email text, ativo boolean, academia_id uuid, criado_em timestamptz)
language plpgsql
volatile
rows 1
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_tenant constant uuid := private.verify_key(p_api_key, 'criar_aluno');
  v_first constant jsonb := case
    when p_idempotency_key is not null then private.recall_response(
      v_tenant,
      p_idempotency_key,
      jsonb_build_array(
        'criar_aluno', p_nome, p_email, p_telefone, p_sexo, p_data_nascimento, p_academia_id, p_modalidade
      )
    )
  end;
  v_nascimento constant date := case when p_data_nascimento is not null then private.to_birth_date(p_data_nascimento) end;
  v_invalid json;
  v_aluno record;
begin
  if v_first is not null then
    return query
      select f.*
        from jsonb_to_record(v_first) as f (
               id uuid, nome text, email text, ativo boolean, academia_id uuid, criado_em timestamptz
             );
    return;
  end if;

  if p_academia_id is not null or (v_nascimento is null and p_data_nascimento is not null) then
    select json_object_agg(i.field, json_build_array(i.message))
      into v_invalid
      from private.find_invalid_fields(v_tenant, p_data_nascimento, p_academia_id) i;
    if v_invalid is not null then
      raise exception using errcode = 'PT422', message = 'invalid fields', detail = v_invalid::text;
    end if;
  end if;

  insert into private.alunos as a
    (tenant_id, nome, email, telefone, sexo, data_nascimento, academia_id, modalidade)
  values
    (v_tenant, p_nome, p_email, p_telefone, p_sexo, v_nascimento, p_academia_id, p_modalidade)
  returning a.id, a.nome, a.email, a.ativo, a.academia_id, a.criado_em into v_aluno;
  if p_idempotency_key is not null then
    perform private.keep_response(v_tenant, p_idempotency_key, to_jsonb(v_aluno));
  end if;
  return query
    select v_aluno.id, v_aluno.nome, v_aluno.email, v_aluno.ativo, v_aluno.academia_id, v_aluno.criado_em;
end;
$$;
select private.publish('public.criar_aluno');
