-- The tables and functions of the documents in this folder.

create table private.pets (
  tenant_id uuid not null references private.tenants (id),
  id bigint generated always as identity,
  name text not null,
  tag text,
  primary key (tenant_id, id)
);
select private.isolate('private.pets');
grant select, insert (tenant_id, name, tag), delete on private.pets to gateway_functions;

create function public.find_pets(p_api_key text, p_tags text[] default null, p_limit integer default null)
returns table (id bigint, name text, tag text)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
as $$
declare
  v_tenant constant uuid := private.verify_key(p_api_key, 'find_pets');
begin
  return query
    select p.id, p.name, p.tag from private.pets p
     where p.tenant_id = v_tenant and (p_tags is null or p.tag = any (p_tags))
     order by p.id limit greatest(p_limit, 0);
end;
$$;
select private.publish('public.find_pets');

create function public.add_pet(p_api_key text, p_body jsonb)
returns table (id bigint, name text, tag text)
language plpgsql rows 1 security definer set search_path = pg_catalog, pg_temp
as $$
declare
  v_tenant constant uuid := private.verify_key(p_api_key, 'add_pet');
begin
  return query
    insert into private.pets as p (tenant_id, name, tag) values (v_tenant, p_body ->> 'name', p_body ->> 'tag')
    returning p.id, p.name, p.tag;
end;
$$;
select private.publish('public.add_pet');

create function public.find_pet(p_api_key text, p_id bigint)
returns table (id bigint, name text, tag text)
language plpgsql stable rows 1 security definer set search_path = pg_catalog, pg_temp
as $$
declare
  v_tenant constant uuid := private.verify_key(p_api_key, 'find_pet');
begin
  return query select p.id, p.name, p.tag from private.pets p where p.tenant_id = v_tenant and p.id = p_id;
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

create table private.events (
  tenant_id uuid not null references private.tenants (id),
  id uuid not null default gen_random_uuid(),
  name text not null,
  dates date[] not null,
  price double precision not null,
  primary key (tenant_id, id)
);
select private.isolate('private.events');
grant select, insert (tenant_id, name, dates, price), update (name, dates, price), delete on private.events to gateway_functions;

create function public.get_museum_hours(
  p_api_key text, p_page integer, p_limit integer, p_start_date date default '2024-01-01'
)
returns table ("date" date, "timeOpen" text, "timeClose" text)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
as $$
begin
  perform private.verify_key(p_api_key, 'get_museum_hours');
  return query
    select p_start_date, '09:00', '18:00'
      from generate_series(1, 7) n
     where p_start_date < '9999-01-01'
     limit p_limit
    offset (p_page - 1) * p_limit;
end;
$$;
select private.publish('public.get_museum_hours');

create function public.create_special_event(p_api_key text, p_body jsonb)
returns table ("eventId" uuid, name text, dates date[], price double precision)
language plpgsql rows 1 security definer set search_path = pg_catalog, pg_temp
as $$
declare
  v_tenant constant uuid := private.verify_key(p_api_key, 'create_special_event');
begin
  return query
    insert into private.events as e (tenant_id, name, dates, price)
    select v_tenant, b.name, b.dates, b.price
      from jsonb_to_record(p_body) as b (name text, dates date[], price double precision)
    returning e.id, e.name, e.dates, e.price;
end;
$$;
select private.publish('public.create_special_event');

create function public.get_special_event(p_api_key text, p_event_id uuid)
returns table ("eventId" uuid, name text, dates date[], price double precision)
language plpgsql stable rows 1 security definer set search_path = pg_catalog, pg_temp
as $$
declare
  v_tenant constant uuid := private.verify_key(p_api_key, 'get_special_event');
begin
  return query
    select e.id, e.name, e.dates, e.price from private.events e where e.tenant_id = v_tenant and e.id = p_event_id;
end;
$$;
select private.publish('public.get_special_event');

create function public.update_special_event(p_api_key text, p_event_id uuid, p_body jsonb)
returns table ("eventId" uuid, name text, dates date[], price double precision)
language plpgsql rows 1 security definer set search_path = pg_catalog, pg_temp
as $$
declare
  v_tenant constant uuid := private.verify_key(p_api_key, 'update_special_event');
begin
  return query
    update private.events e
       set (name, dates, price) = (select b.name, b.dates, b.price from jsonb_populate_record(e, p_body) b)
     where e.tenant_id = v_tenant and e.id = p_event_id
    returning e.id, e.name, e.dates, e.price;
end;
$$;
select private.publish('public.update_special_event');

create function public.delete_special_event(p_api_key text, p_event_id uuid)
returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
  v_tenant constant uuid := private.verify_key(p_api_key, 'delete_special_event');
begin
  delete from private.events e where e.tenant_id = v_tenant and e.id = p_event_id;
  if not found then
    raise sqlstate 'PT404' using message = 'There is no such event';
  end if;
end;
$$;
select private.publish('public.delete_special_event');

create table private.bookings (
  tenant_id uuid not null references private.tenants (id),
  id uuid not null default gen_random_uuid(),
  trip_id uuid not null,
  passenger_name text not null,
  has_bicycle boolean not null,
  has_dog boolean not null,
  primary key (tenant_id, id)
);
select private.isolate('private.bookings');
grant select, insert (tenant_id, trip_id, passenger_name, has_bicycle, has_dog), delete on private.bookings to gateway_functions;

create function public.get_stations(p_api_key text, p_search text default null, p_country text default null)
returns table (data jsonb, links jsonb)
language plpgsql stable rows 1 security definer set search_path = pg_catalog, pg_temp
as $$
begin
  perform private.verify_key(p_api_key, 'get_stations');
  return query
    select coalesce(jsonb_agg(s), '[]'), '{}'::jsonb
      from (values ('c0000000-0000-4000-8000-000000000001'::uuid, 'Milano Centrale', 'IT'),
                   ('c0000000-0000-4000-8000-000000000002', 'Berlin Hauptbahnhof', 'DE')) s (id, name, country_code)
     where (p_search is null or position(lower(p_search) in lower(s.name)) > 0)
       and (p_country is null or s.country_code = p_country);
end;
$$;
select private.publish('public.get_stations');

create function public.create_booking(p_api_key text, p_body jsonb)
returns table (id uuid, trip_id uuid, passenger_name text, has_bicycle boolean, has_dog boolean, links jsonb)
language plpgsql rows 1 security definer set search_path = pg_catalog, pg_temp
as $$
declare
  v_tenant constant uuid := private.verify_key(p_api_key, 'create_booking');
begin
  return query
    insert into private.bookings as k (tenant_id, trip_id, passenger_name, has_bicycle, has_dog)
    select v_tenant, b.trip_id, b.passenger_name, coalesce(b.has_bicycle, false), coalesce(b.has_dog, false)
      from jsonb_to_record(p_body) as b (trip_id uuid, passenger_name text, has_bicycle boolean, has_dog boolean)
    returning k.id, k.trip_id, k.passenger_name, k.has_bicycle, k.has_dog,
              jsonb_build_object('self', '/bookings/' || k.id);
end;
$$;
select private.publish('public.create_booking');

create function public.get_booking(p_api_key text, p_booking_id uuid)
returns table (id uuid, trip_id uuid, passenger_name text, has_bicycle boolean, has_dog boolean, links jsonb)
language plpgsql stable rows 1 security definer set search_path = pg_catalog, pg_temp
as $$
declare
  v_tenant constant uuid := private.verify_key(p_api_key, 'get_booking');
begin
  return query
    select k.id, k.trip_id, k.passenger_name, k.has_bicycle, k.has_dog, jsonb_build_object('self', '/bookings/' || k.id)
      from private.bookings k
     where k.tenant_id = v_tenant and k.id = p_booking_id;
end;
$$;
select private.publish('public.get_booking');

create function public.delete_booking(p_api_key text, p_booking_id uuid)
returns setof uuid
language plpgsql rows 1 security definer set search_path = pg_catalog, pg_temp
as $$
declare
  v_tenant constant uuid := private.verify_key(p_api_key, 'delete_booking');
begin
  return query delete from private.bookings k where k.tenant_id = v_tenant and k.id = p_booking_id returning k.id;
end;
$$;
select private.publish('public.delete_booking');

create type public.issue_status as enum ('open', 'closed');
create table private.issues (
  tenant_id uuid not null references private.tenants (id),
  id integer generated always as identity,
  title text not null,
  body text,
  status public.issue_status not null,
  labels text[] not null default '{}',
  primary key (tenant_id, id)
);
select private.isolate('private.issues');
grant select, insert (tenant_id, title, body, status), update (labels) on private.issues to gateway_functions;

create function public.read_issues(p_api_key text, p_skip integer, p_status public.issue_status default null)
returns table (id integer, title text, body text, status public.issue_status)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
as $$
declare
  v_tenant constant uuid := private.verify_key(p_api_key, 'read_issues');
begin
  return query
    select i.id, i.title, i.body, i.status from private.issues i
     where i.tenant_id = v_tenant and (p_status is null or i.status = p_status)
     order by i.id limit 100 offset p_skip;
end;
$$;
select private.publish('public.read_issues');

create function public.create_issue(p_api_key text, p_body jsonb)
returns table (id integer, title text, body text, status public.issue_status)
language plpgsql rows 1 security definer set search_path = pg_catalog, pg_temp
as $$
declare
  v_tenant constant uuid := private.verify_key(p_api_key, 'create_issue');
begin
  return query
    insert into private.issues as i (tenant_id, title, body, status)
    select v_tenant, b.title, b.body, coalesce(b.status, 'open')
      from jsonb_to_record(p_body) as b (title text, body text, status public.issue_status)
    returning i.id, i.title, i.body, i.status;
end;
$$;
select private.publish('public.create_issue');

create function public.set_labels(p_api_key text, p_issue_id bigint, p_body jsonb)
returns text[]
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
  v_tenant constant uuid := private.verify_key(p_api_key, 'set_labels');
  v_labels text[];
begin
  update private.issues i
     set labels = array(select jsonb_array_elements_text(p_body))
   where i.tenant_id = v_tenant and i.id = p_issue_id
  returning i.labels into v_labels;
  return v_labels;
end;
$$;
select private.publish('public.set_labels');

create table private.products (
  tenant_id uuid not null references private.tenants (id),
  id bigint not null,
  name text not null,
  price numeric not null,
  category text,
  attributes jsonb not null,
  primary key (tenant_id, id)
);
select private.isolate('private.products');
grant select, insert (tenant_id, id, name, price, category, attributes), update (name, price, category, attributes)
  on private.products to gateway_functions;

create function public.get_product(p_api_key text, p_product_id bigint)
returns table (id bigint, name text, price numeric, category text, attributes jsonb)
language plpgsql stable rows 1 security definer set search_path = pg_catalog, pg_temp
as $$
declare
  v_tenant constant uuid := private.verify_key(p_api_key, 'get_product');
begin
  return query
    select p.id, p.name, p.price, p.category, p.attributes from private.products p
     where p.tenant_id = v_tenant and p.id = p_product_id;
end;
$$;
select private.publish('public.get_product');

create function public.put_product(p_api_key text, p_product_id bigint, p_body jsonb)
returns table (id bigint, name text, price numeric, category text, attributes jsonb)
language plpgsql rows 1 security definer set search_path = pg_catalog, pg_temp
as $$
declare
  v_tenant constant uuid := private.verify_key(p_api_key, 'put_product');
begin
  return query
    insert into private.products as p (tenant_id, id, name, price, category, attributes)
    select v_tenant, p_product_id, b.name, b.price, b.category, coalesce(b.attributes, '{}')
      from jsonb_to_record(p_body) as b (name text, price numeric, category text, attributes jsonb)
    on conflict on constraint products_pkey do update
      set name = excluded.name, price = excluded.price, category = excluded.category, attributes = excluded.attributes
    returning p.id, p.name, p.price, p.category, p.attributes;
end;
$$;
select private.publish('public.put_product');

create function public.search_products(p_api_key text, p_body jsonb)
returns table (id bigint, name text, price numeric, category text, attributes jsonb)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
as $$
declare
  v_tenant constant uuid := private.verify_key(p_api_key, 'search_products');
begin
  return query
    select p.id, p.name, p.price, p.category, p.attributes from private.products p
     where p.tenant_id = v_tenant
       and (p_body -> 'names' is null or p_body -> 'names' ? p.name)
       and (p_body -> 'below' is null or p.price < (p_body ->> 'below')::numeric)
     order by p.id limit 100;
end;
$$;
select private.publish('public.search_products');
