-- What reads few changes reads no others. Once a minute the end of changes read all of them; from about a million on it took longer
-- than a statement may, and none was deleted any more. The list of one resource read all changes of the tenant.

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
begin
  -- As private.forget_responses.
  if not pg_try_advisory_xact_lock(hashtext('private.forget_changes')) then
    return;
  end if;
  -- By position: what is left of a tenant is the end of its changes, without a gap.
  with kept as materialized (
    -- Apart, because row security lets an index compare only values that are computed before.
    select t.id as tenant_id,
           overlay(
             lpad(to_hex((extract(epoch from now() - t.changes_kept) * 1000000)::bigint), 15, '0') || repeat('0', 16)
             placing '8' from 13 for 0
           )::uuid as first
      from private.tenants t
  )
  delete from private.changes
   where (tenant_id, id) in (
     select c.tenant_id, c.id
       from kept k
       join private.changes c
         on c.tenant_id = k.tenant_id
        and c.id < k.first
        and c.id > '00000001-0000-0000-0000-000000000000'
      order by c.id
      limit 10000
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
