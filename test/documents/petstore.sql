-- The functions of petstore.yaml.

create table private.pets (
  tenant_id uuid not null references private.tenants (id),
  id bigint generated always as identity,
  name text not null,
  tag text,
  kind text,
  weight numeric,
  primary key (tenant_id, id)
);
select private.isolate('private.pets');
grant select, insert (tenant_id, name, tag, kind, weight), delete on private.pets to gateway_functions;

create function public.find_pets(p_api_key text, p_tags text[] default null, p_limit integer default null)
returns table (id bigint, name text, tag text, kind text, weight numeric)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
as $$
declare
  v_tenant constant uuid := private.verify_key(p_api_key, 'find_pets');
begin
  return query
    select p.id, p.name, p.tag, p.kind, p.weight from private.pets p
     where p.tenant_id = v_tenant and (p_tags is null or p.tag = any (p_tags))
     order by p.id limit greatest(p_limit, 0);
end;
$$;
select private.publish('public.find_pets');

create function public.add_pet(p_api_key text, p_body jsonb)
returns table (id bigint, name text, tag text, kind text, weight numeric)
language plpgsql rows 1 security definer set search_path = pg_catalog, pg_temp
as $$
declare
  v_tenant constant uuid := private.verify_key(p_api_key, 'add_pet');
begin
  return query
    insert into private.pets as p (tenant_id, name, tag, kind, weight)
    values (v_tenant, p_body ->> 'name', p_body ->> 'tag', p_body ->> 'kind', (p_body ->> 'weight')::numeric)
    returning p.id, p.name, p.tag, p.kind, p.weight;
end;
$$;
select private.publish('public.add_pet');

create function public.find_pet(p_api_key text, p_id bigint)
returns table (id bigint, name text, tag text, kind text, weight numeric)
language plpgsql stable rows 1 security definer set search_path = pg_catalog, pg_temp
as $$
declare
  v_tenant constant uuid := private.verify_key(p_api_key, 'find_pet');
begin
  return query select p.id, p.name, p.tag, p.kind, p.weight from private.pets p where p.tenant_id = v_tenant and p.id = p_id;
end;
$$;
select private.publish('public.find_pet');

create function public.delete_pet(p_api_key text, p_id bigint)
returns setof bigint
language plpgsql rows 1 security definer set search_path = pg_catalog, pg_temp
as $$
declare
  v_tenant constant uuid := private.verify_key(p_api_key, 'delete_pet');
begin
  return query delete from private.pets p where p.tenant_id = v_tenant and p.id = p_id returning p.id;
end;
$$;
select private.publish('public.delete_pet');
