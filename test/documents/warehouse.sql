-- The functions of warehouse.yaml.

create table private.stock (
  tenant_id uuid not null references private.tenants (id),
  warehouse text not null,
  article text not null,
  level jsonb not null,
  primary key (tenant_id, warehouse, article)
);
select private.isolate('private.stock');
grant select, insert, delete on private.stock to gateway_functions;

create function public.get_inventory(p_api_key text) returns jsonb
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_tenant constant uuid := private.verify_key(p_api_key, 'get_inventory');
begin
  return (
    select coalesce(jsonb_object_agg(a.article, a.available), '{}')
      from (select s.article, sum((s.level ->> 'available')::integer) as available
              from private.stock s where s.tenant_id = v_tenant group by s.article) a
  );
end $$;
select private.publish('public.get_inventory');

create function public.get_stock(p_api_key text, p_code text) returns jsonb
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_tenant constant uuid := private.verify_key(p_api_key, 'get_stock');
begin
  return (
    select coalesce(jsonb_object_agg(s.article, s.level), '{}')
      from private.stock s where s.tenant_id = v_tenant and s.warehouse = p_code
  );
end $$;
select private.publish('public.get_stock');

create function public.put_stock(p_api_key text, p_code text, p_body jsonb) returns jsonb
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_tenant constant uuid := private.verify_key(p_api_key, 'put_stock');
begin
  delete from private.stock s where s.tenant_id = v_tenant and s.warehouse = p_code;
  insert into private.stock (tenant_id, warehouse, article, level)
  select v_tenant, p_code, b.key, b.value from jsonb_each(p_body) b;
  return p_body;
end $$;
select private.publish('public.put_stock');

create function public.list_warehouses(p_api_key text) returns setof jsonb
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_tenant constant uuid := private.verify_key(p_api_key, 'list_warehouses');
begin
  return query
    select jsonb_build_object(s.warehouse, jsonb_agg(s.article order by s.article))
      from private.stock s where s.tenant_id = v_tenant group by s.warehouse order by s.warehouse;
end $$;
select private.publish('public.list_warehouses');
