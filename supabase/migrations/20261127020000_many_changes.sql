-- What reads few changes reads no others. Once a minute the end of changes read all of them; from about a million on it took longer
-- than a statement may, and none was deleted any more. The list of one resource read all changes of the tenant.
--
-- A transaction that changes very many tenants, such as a restore, took a lock for each of them, for which Postgres has no memory beyond some
-- 8,000. Expired changes were read all at once to delete the first of them: beside millions no call ended in time, and none was deleted.
--
-- Each thousand of the records of one statement was cut from the array of all of them, which was read for each: a million took 16 s.

create or replace function private.next_position(p_tenant uuid)
returns uuid
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
-- A plan of a time when the table was small would read more with each change.
set enable_seqscan = off
as $$
declare
  -- An assignment, because Postgres plans and runs a query for a "perform". Tenants share 1,024 locks.
  v_locked constant text := pg_advisory_xact_lock(hashtext('private.changes'), hashtext(p_tenant::text) & 1023)::text;
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

create or replace function private.record_changes()
returns trigger
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_changes record;
  v_records text[];
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
    for v_records in
      select array_agg(r.id order by r.place)
        from unnest(v_changes.records) with ordinality r (id, place)
       group by (r.place - 1) / 1000
       order by (r.place - 1) / 1000
    loop
      insert into private.changes (tenant_id, id, resource, kind, records)
      values (
        v_changes.tenant_id, ('00000000-0000-8000-' || right(gen_random_uuid()::text, 17))::uuid, tg_argv[0],
        v_changes.kind, v_records
      );
    end loop;
  end loop;
  return null;
end;
$$;

create or replace function private.forget_changes()
returns void
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
-- One index scan for each tenant, also with a plan of a time when the table was small.
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
declare
  -- The place of a change in its tenant, where it has one.
  v_expired constant text := 'c.tenant_id = k.tenant_id and c.id < k.first and c.id > ''00000001-0000-0000-0000-000000000000''';
begin
  -- As private.forget_responses.
  if not pg_try_advisory_xact_lock(hashtext('private.forget_changes')) then
    return;
  end if;
  execute format(
    -- Apart, because row security lets an index compare only values that are computed before.
    'with kept as materialized (
       select t.id as tenant_id,
              overlay(
                lpad(to_hex((extract(epoch from now() - t.changes_kept) * 1000000)::bigint), 15, ''0'') || repeat(''0'', 16)
                placing ''8'' from 13 for 0
              )::uuid as first
         from private.tenants t
     )
     delete from private.changes where (tenant_id, id) in (%s)',
    -- By position: what is left of a tenant is the end of its changes, without a gap.
    case
      when current_setting('citus.propagate_set_commands', true) is null then
        format(
          'select e.tenant_id, e.id
             from kept k
            cross join lateral (
              select c.tenant_id, c.id from private.changes c where %s order by c.id limit 10000
            ) e
            limit 10000',
          v_expired
        )
      -- Citus takes no limit in a lateral subquery.
      else
        format(
          'select c.tenant_id, c.id from kept k join private.changes c on %s order by c.id limit 10000', v_expired
        )
    end
  );
end;
$$;

-- Callable with a key that has the permission: the key proves the tenant.
create or replace function public.listar_alteracoes(
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
       -- Without an equality, and in this order, so that only the index by resource fits: on another a resource that changes
       -- seldom is looked for among all changes.
       and (c.resource, c.id) >= (p_recurso, v_id)
       and c.resource <= p_recurso
       and (c.id > v_id or r.place > v_place)
       and r.id is not null
     order by c.resource, c.id, r.place
     limit p_limit
    offset p_offset;
end;
$$;
select private.publish('public.listar_alteracoes');
