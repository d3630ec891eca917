-- Students: the table, the list with its search by name, and the creation.

-- In a schema of its own, as a Supabase project has it: public holds the gateway's functions alone.
create schema if not exists extensions;
create extension if not exists pg_trgm with schema extensions;

create table private.alunos (
  tenant_id uuid not null references private.tenants (id),
  id uuid not null default gen_random_uuid(),
  nome text not null check (nome <> '' and char_length(nome) <= 255),
  email text not null,
  telefone text,
  sexo text,
  data_nascimento date,
  academia_id uuid,
  modalidade text,
  personal_id uuid,
  ativo boolean not null default true,
  criado_em timestamptz not null default clock_timestamp(),
  nome_busca text not null generated always as (lower(nome collate "und-x-icu")) stored,
  primary key (tenant_id, id),
  foreign key (tenant_id, academia_id) references private.academias (tenant_id, id),
  foreign key (tenant_id, personal_id) references private.personais (tenant_id, id)
);
comment on table private.alunos is 'Students of a tenant';
comment on column private.alunos.academia_id is 'The gym; null for a student without one';
comment on column private.alunos.personal_id is 'The trainer; null for a student without one';
comment on column private.alunos.nome_busca is
  'The name in lower case by the rules of Unicode, which lower() alone follows only where the database''s locale does: what a search by name compares';

create index alunos_in_order on private.alunos (tenant_id, criado_em, id);
create index alunos_by_ativo on private.alunos (tenant_id, ativo, criado_em, id);
create index alunos_by_academia on private.alunos (tenant_id, academia_id, criado_em, id);
create index alunos_by_personal on private.alunos (tenant_id, personal_id, criado_em, id);
-- The extension may have been there before, in another schema.
do $$
begin
  execute format(
    'create index alunos_by_nome on private.alunos using gin (nome_busca %I.gin_trgm_ops)',
    (select n.nspname from pg_extension e join pg_namespace n on n.oid = e.extnamespace where e.extname = 'pg_trgm')
  );
end;
$$;

alter table private.alunos enable row level security;
alter table private.alunos force row level security;
create policy administration on private.alunos
  to current_user
  using (true);
create policy tenant_isolation on private.alunos
  to gateway_functions
  using (tenant_id = (select private.current_tenant()));
grant select on private.alunos to gateway_functions;
grant insert (tenant_id, nome, email, telefone, sexo, data_nascimento, academia_id, modalidade)
  on private.alunos to gateway_functions;

-- LIKE is not leakproof, so under row security it is tested after the tenant and can use no index: a search
-- would read every student of the tenant. This role sees all rows, of the columns that a search needs, and the
-- one function that it owns gives ids alone; listar_alunos reads the students by these under row security.
create policy search on private.alunos
  for select to gateway_search
  using (true);
grant select (tenant_id, id, ativo, academia_id, personal_id, criado_em, nome_busca)
  on private.alunos to gateway_search;

-- Executable by gateway_functions alone, which has verified the key.
create function private.search_alunos(
  p_tenant uuid,
  p_nome text,
  p_ativo boolean,
  p_academia_id uuid,
  p_any_personal boolean,
  p_personal uuid,
  p_limit integer,
  p_offset integer
)
returns table (id uuid)
language plpgsql
stable
rows 100
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_custom_plan
as $$
declare
  -- %, _ and \ stand for themselves.
  v_pattern constant text :=
    '%' || regexp_replace(lower(p_nome collate "und-x-icu"), '([\\%_])', '\\\1', 'g') || '%';
begin
  return query
    select a.id
      from private.alunos a
     where a.tenant_id = p_tenant
       and a.nome_busca like v_pattern
       and (p_ativo is null or a.ativo = p_ativo)
       and (p_academia_id is null or a.academia_id = p_academia_id)
       and (p_any_personal or a.personal_id = p_personal)
     order by a.criado_em, a.id
     limit p_limit
    offset p_offset;
end;
$$;
comment on function private.search_alunos(uuid, text, boolean, uuid, boolean, uuid, integer, integer) is
  'Ids of one page of a tenant''s students whose name contains a text, whatever its case';
revoke all on function private.search_alunos(uuid, text, boolean, uuid, boolean, uuid, integer, integer) from public;
grant execute on function private.search_alunos(uuid, text, boolean, uuid, boolean, uuid, integer, integer)
  to gateway_functions;
grant create on schema private to gateway_search;
alter function private.search_alunos(uuid, text, boolean, uuid, boolean, uuid, integer, integer)
  owner to gateway_search;
revoke create on schema private from gateway_search;

-- Callable with any key that has the permission: the key proves the tenant.
create function public.listar_alunos(
  p_api_key text,
  p_ativo boolean default null,
  p_limit integer default 100,
  p_offset integer default 0,
  p_academia_id uuid default null,
  p_id_personal text default null,
  p_nome text default null
)
returns table (id uuid, nome text, email text, ativo boolean, academia_id uuid, criado_em timestamptz)
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_custom_plan
as $$
declare
  v_tenant constant uuid := private.verify_key(p_api_key, 'listar_alunos');
  v_personal constant uuid := private.to_uuid(p_id_personal);
begin
  if p_nome is not null then
    return query
      select a.id, a.nome, a.email, a.ativo, a.academia_id, a.criado_em
        from private.search_alunos(
               v_tenant, p_nome, p_ativo, p_academia_id, p_id_personal is null, v_personal, p_limit, p_offset
             ) s
        join private.alunos a on a.tenant_id = v_tenant and a.id = s.id
       order by a.criado_em, a.id;
    return;
  end if;

  return query
    select a.id, a.nome, a.email, a.ativo, a.academia_id, a.criado_em
      from private.alunos a
     where a.tenant_id = v_tenant
       and (p_ativo is null or a.ativo = p_ativo)
       and (p_academia_id is null or a.academia_id = p_academia_id)
       and (p_id_personal is null or a.personal_id = v_personal)
     order by a.criado_em, a.id
     limit p_limit
    offset p_offset;
end;
$$;
comment on function public.listar_alunos(text, boolean, integer, integer, uuid, text, text) is
  'Students of the tenant of the key, oldest first';
select private.publish('public.listar_alunos');

create function private.to_birth_date(p_text text)
returns date
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
as $$
begin
  if p_text is null then
    return null;
  elsif p_text ~ '^[0-9]{4}-[0-9]{2}-[0-9]{2}$' then
    return make_date(left(p_text, 4)::integer, substr(p_text, 6, 2)::integer, right(p_text, 2)::integer);
  elsif p_text ~ '^[0-9]{2}/[0-9]{2}/[0-9]{4}$' then
    return make_date(right(p_text, 4)::integer, substr(p_text, 4, 2)::integer, left(p_text, 2)::integer);
  end if;
  raise datetime_field_overflow;
exception
  when datetime_field_overflow then
    raise exception using
      errcode = 'PT422',
      message = 'must be a date that exists, as YYYY-MM-DD or DD/MM/YYYY',
      detail = 'p_data_nascimento';
end;
$$;
comment on function private.to_birth_date(text) is
  'The date that a text spells, YYYY-MM-DD or DD/MM/YYYY, null for null; raises PT422 for any other text';
grant execute on function private.to_birth_date(text) to gateway_functions;

-- Callable with any key that has the permission: the key proves the tenant.
create function public.criar_aluno(
  p_api_key text,
  p_nome text,
  p_email text,
  p_telefone text default null,
  p_sexo text default null,
  p_data_nascimento text default null,
  p_academia_id uuid default null,
  p_modalidade text default null
)
returns table (id uuid, nome text, email text, ativo boolean, academia_id uuid, criado_em timestamptz)
language plpgsql
volatile
rows 1
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_tenant constant uuid := private.verify_key(p_api_key, 'criar_aluno');
  v_data_nascimento constant date := private.to_birth_date(p_data_nascimento);
begin
  -- The same for a gym of another tenant and for none: an answer must not tell that a foreign id exists.
  if p_academia_id is not null and not exists (
    select from private.academias g where g.tenant_id = v_tenant and g.id = p_academia_id
  ) then
    raise exception using
      errcode = 'PT422',
      message = 'must be the id of a gym of the tenant',
      detail = 'p_academia_id';
  end if;

  return query
    insert into private.alunos as a
      (tenant_id, nome, email, telefone, sexo, data_nascimento, academia_id, modalidade)
    values
      (v_tenant, p_nome, p_email, p_telefone, p_sexo, v_data_nascimento, p_academia_id, p_modalidade)
    returning a.id, a.nome, a.email, a.ativo, a.academia_id, a.criado_em;
end;
$$;
comment on function public.criar_aluno(text, text, text, text, text, text, uuid, text) is
  'Creates a student in the tenant of the key and gives it back; raises PT422 on p_data_nascimento and p_academia_id';
select private.publish('public.criar_aluno');
