-- The functions of orders.yaml.

create table private.orders (
  tenant_id uuid not null references private.tenants (id),
  id integer generated always as identity,
  data jsonb not null,
  primary key (tenant_id, id)
);
select private.isolate('private.orders');
grant select, insert on private.orders to gateway_functions;

create function public.get_order(p_shop_key text, p_order_no integer) returns table (
  "orderNo" integer, billing jsonb, shipping jsonb, pickup jsonb, others jsonb, "byName" jsonb, category jsonb
) language plpgsql stable rows 1 security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_tenant constant uuid := private.verify_key(p_shop_key, 'get_order');
begin
  return query
    select o.id, o.data -> 'billing', nullif(o.data -> 'shipping', 'null'), o.data -> 'pickup', o.data -> 'others',
           o.data -> 'byName', o.data -> 'category'
      from private.orders o where o.tenant_id = v_tenant and o.id = p_order_no;
end $$;
select private.publish('public.get_order');

create function public.place_order(p_shop_key text, p_body jsonb) returns table (
  "orderNo" integer, billing jsonb, shipping jsonb, pickup jsonb, others jsonb, "byName" jsonb, category jsonb
) language plpgsql rows 1 security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_tenant constant uuid := private.verify_key(p_shop_key, 'place_order');
begin
  return query
    insert into private.orders as o (tenant_id, data) values (v_tenant, p_body)
    returning o.id, o.data -> 'billing', nullif(o.data -> 'shipping', 'null'), o.data -> 'pickup', o.data -> 'others',
              o.data -> 'byName', o.data -> 'category';
end $$;
select private.publish('public.place_order');

create function public.check_address(p_shop_key text, p_body jsonb) returns table (street text, country text)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform private.verify_key(p_shop_key, 'check_address');
  return query select p_body ->> 'street', c.* from unnest(array['PT', 'BR', null]) c;
end $$;
select private.publish('public.check_address');
