-- The functions of tasks.json.

create table private.tasks (
  tenant_id uuid not null references private.tenants (id),
  id bigint not null,
  title text not null,
  tags text[] not null,
  due date,
  estimate numeric,
  extra jsonb,
  primary key (tenant_id, id)
);
select private.isolate('private.tasks');
grant select, insert, delete on private.tasks to gateway_functions;

create function public.read_tasks(p_api_key text, p_done boolean default null, p_tag text[] default '{}')
returns table (items jsonb, next integer)
language plpgsql stable rows 1 security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_tenant constant uuid := private.verify_key(p_api_key, 'read_tasks');
begin
  return query
    select coalesce(jsonb_agg(jsonb_build_object(
             'id', t.id, 'title', t.title, 'tags', t.tags, 'due', t.due, 'estimate', t.estimate::text
           ) order by t.id), '[]'), null::integer
      from private.tasks t
     where t.tenant_id = v_tenant and t.tags @> p_tag and (p_done is null or (t.due is not null) = p_done);
end $$;
select private.publish('public.read_tasks');

create function public.save_task(p_api_key text, p_task_id bigint, p_body jsonb)
returns table (id bigint, title text, tags text[], due date, estimate text, extra jsonb)
language plpgsql rows 1 security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_tenant constant uuid := private.verify_key(p_api_key, 'save_task');
begin
  return query
    insert into private.tasks as t (tenant_id, id, title, tags, due, estimate, extra)
    select v_tenant, p_task_id, b.title, coalesce(b.tags, '{}'), b.due, b.estimate, b.extra
      from jsonb_to_record(p_body) as b (title text, tags text[], due date, estimate numeric, extra jsonb)
    returning t.id, t.title, t.tags, t.due, t.estimate::text, t.extra;
end $$;
select private.publish('public.save_task');

create function public.delete_task(p_api_key text, p_task_id bigint) returns setof bigint
language plpgsql rows 1 security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_tenant constant uuid := private.verify_key(p_api_key, 'delete_task');
begin
  return query delete from private.tasks t where t.tenant_id = v_tenant and t.id = p_task_id returning t.id;
end $$;
select private.publish('public.delete_task');
