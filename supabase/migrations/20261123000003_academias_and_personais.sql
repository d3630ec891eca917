-- Gyms and their personal trainers.

create table private.academias (
  tenant_id uuid not null references private.tenants (id),
  id uuid not null default gen_random_uuid(),
  nome text not null constraint academias_nome_length check (char_length(nome) <= 255),
  ativo boolean not null default true,
  criado_em timestamptz not null default clock_timestamp(),
  primary key (tenant_id, id)
);
comment on table private.academias is 'Gyms of a tenant';

create table private.personais (
  tenant_id uuid not null references private.tenants (id),
  id uuid not null default gen_random_uuid(),
  nome text not null constraint personais_nome_length check (char_length(nome) <= 255),
  email text not null constraint personais_email_length check (char_length(email) <= 254),
  ativo boolean not null default true,
  academia_id uuid not null,
  criado_em timestamptz not null default clock_timestamp(),
  primary key (tenant_id, id)
);
comment on table private.personais is 'Personal trainers of a tenant';

create index academias_in_order on private.academias (tenant_id, criado_em, id);
create index academias_by_ativo on private.academias (tenant_id, ativo, criado_em, id);
create index personais_in_order on private.personais (tenant_id, criado_em, id);
create index personais_by_academia on private.personais (tenant_id, academia_id, criado_em, id);

select private.isolate('private.academias');
grant select on private.academias to gateway_functions;

select private.isolate('private.personais');
-- Foreign keys carry tenant_id, so no row can reference another tenant.
alter table private.personais add foreign key (tenant_id, academia_id) references private.academias (tenant_id, id);
grant select on private.personais to gateway_functions;

create function private.to_uuid(p_text text)
returns uuid
language sql
immutable
set search_path = pg_catalog, pg_temp
as $$
  select case
    when p_text ~* '^[0-9a-f]{32}$|^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' then p_text::uuid
  end;
$$;
comment on function private.to_uuid(text) is
  'Converts a text to a uuid, with or without hyphens; null for any other text, so a filter by it finds nothing';
grant execute on function private.to_uuid(text) to gateway_functions;

create function private.require_record(p_found boolean, p_field text)
returns void
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
as $$
begin
  if not p_found then
    raise exception using
      errcode = 'PT422', message = 'must be the id of a record of the tenant', detail = p_field;
  end if;
end;
$$;
comment on function private.require_record(boolean, text) is
  'Refuses a field of the request, such as after, unless the record that it names was found';
grant execute on function private.require_record(boolean, text) to gateway_functions;

-- Callable with a key that has the permission: the key proves the tenant.
create function public.listar_academias(
  p_api_key text,
  p_ativo boolean default null,
  p_limit integer default 100,
  p_offset integer default 0,
  p_after uuid default null
)
returns table (id uuid, nome text, ativo boolean, criado_em timestamptz)
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
-- One plan for all tenants: planning takes longer than the query.
set plan_cache_mode = force_generic_plan
as $$
declare
  v_tenant constant uuid := private.verify_key(p_api_key, 'listar_academias');
  v_after timestamptz := timestamptz '-infinity';
  v_after_id constant uuid := coalesce(p_after, '00000000-0000-0000-0000-000000000000');
begin
  if p_after is not null then
    select a.criado_em into v_after from private.academias a where a.tenant_id = v_tenant and a.id = p_after;
    perform private.require_record(found, 'after');
  end if;
  if p_ativo is null then
    return query
      select a.id, a.nome, a.ativo, a.criado_em
        from private.academias a
       where a.tenant_id = v_tenant
         and (a.criado_em, a.id) > (v_after, v_after_id)
       order by a.criado_em, a.id
       limit p_limit
      offset p_offset;
    return;
  end if;

  return query
    select a.id, a.nome, a.ativo, a.criado_em
      from private.academias a
     where a.tenant_id = v_tenant
       and a.ativo = p_ativo
       and (a.criado_em, a.id) > (v_after, v_after_id)
     order by a.criado_em, a.id
     limit p_limit
    offset p_offset;
end;
$$;
comment on function public.listar_academias(text, boolean, integer, integer, uuid) is
  'Gyms of the key''s tenant, oldest first';
select private.publish('public.listar_academias');

-- Callable with a key that has the permission: the key proves the tenant.
create function public.listar_personais(
  p_api_key text,
  p_limit integer default 100,
  p_offset integer default 0,
  p_academia_id uuid default null,
  p_after uuid default null
)
returns table (id uuid, nome text, email text, ativo boolean, academia_id uuid)
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
as $$
declare
  v_tenant constant uuid := private.verify_key(p_api_key, 'listar_personais');
  v_after timestamptz := timestamptz '-infinity';
  v_after_id constant uuid := coalesce(p_after, '00000000-0000-0000-0000-000000000000');
begin
  if p_after is not null then
    select p.criado_em into v_after from private.personais p where p.tenant_id = v_tenant and p.id = p_after;
    perform private.require_record(found, 'after');
  end if;
  if p_academia_id is null then
    return query
      select p.id, p.nome, p.email, p.ativo, p.academia_id
        from private.personais p
       where p.tenant_id = v_tenant
         and (p.criado_em, p.id) > (v_after, v_after_id)
       order by p.criado_em, p.id
       limit p_limit
      offset p_offset;
    return;
  end if;

  return query
    select p.id, p.nome, p.email, p.ativo, p.academia_id
      from private.personais p
     where p.tenant_id = v_tenant
       and p.academia_id = p_academia_id
       and (p.criado_em, p.id) > (v_after, v_after_id)
     order by p.criado_em, p.id
     limit p_limit
    offset p_offset;
end;
$$;
comment on function public.listar_personais(text, integer, integer, uuid, uuid) is
  'Personal trainers of the key''s tenant, oldest first';
select private.publish('public.listar_personais');
