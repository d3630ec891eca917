-- The functions of contacts.yaml.

create table private.contacts (
  tenant_id uuid not null references private.tenants (id),
  slug text not null,
  name text not null,
  phone text,
  born date,
  kind text,
  address jsonb,
  score numeric,
  note text,
  nickname text,
  primary key (tenant_id, slug)
);
select private.isolate('private.contacts');
grant select, insert, update on private.contacts to gateway_functions;

create function public.get_contact(p_api_key text, p_slug text) returns table (
  name text, phone text, born date, kind text, address jsonb, score numeric, note text, nickname text
) language plpgsql stable rows 1 security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_tenant constant uuid := private.verify_key(p_api_key, 'get_contact');
begin
  return query
    select c.name, c.phone, c.born, c.kind, c.address, c.score, c.note, c.nickname
      from private.contacts c where c.tenant_id = v_tenant and c.slug = p_slug;
end $$;
select private.publish('public.get_contact');

create function public.put_contact(p_api_key text, p_slug text, p_body jsonb) returns table (
  name text, phone text, born date, kind text, address jsonb, score numeric, note text, nickname text
) language plpgsql rows 1 security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_tenant constant uuid := private.verify_key(p_api_key, 'put_contact');
begin
  return query
    insert into private.contacts as c (tenant_id, slug, name, phone, born, kind, address, score, note, nickname)
    select v_tenant, p_slug, b.name, b.phone, b.born, b.kind, nullif(b.address, 'null'), b.score, b.note, b.nickname
      from jsonb_populate_record(null::private.contacts, p_body) b
    returning c.name, c.phone, c.born, c.kind, c.address, c.score, c.note, c.nickname;
end $$;
select private.publish('public.put_contact');

create function public.patch_contact(p_api_key text, p_slug text, p_body jsonb) returns table (
  name text, phone text, born date, kind text, address jsonb, score numeric, note text, nickname text
) language plpgsql rows 1 security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_tenant constant uuid := private.verify_key(p_api_key, 'patch_contact');
begin
  return query
    update private.contacts c
       set (name, phone, address) =
           (select b.name, b.phone, nullif(b.address, 'null') from jsonb_populate_record(c, p_body) b)
     where c.tenant_id = v_tenant and c.slug = p_slug
    returning c.name, c.phone, c.born, c.kind, c.address, c.score, c.note, c.nickname;
end $$;
select private.publish('public.patch_contact');
