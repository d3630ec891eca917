-- The anamnesis form's sections, and the students' anamneses.

create table private.anamnese_secoes (
  tenant_id uuid not null references private.tenants (id),
  id uuid not null default gen_random_uuid(),
  titulo text not null,
  ordem integer not null,
  ativo boolean not null default true,
  primary key (tenant_id, id)
);
comment on table private.anamnese_secoes is 'Sections of a tenant''s anamnesis form';
comment on column private.anamnese_secoes.ordem is 'Place in the form; sections with the same one follow by id';

create table private.anamneses (
  tenant_id uuid not null references private.tenants (id),
  id uuid not null default gen_random_uuid(),
  aluno_id uuid not null,
  status text not null,
  resposta jsonb check (jsonb_typeof(resposta) = 'object'),
  criado_em timestamptz not null default clock_timestamp(),
  preenchida boolean not null generated always as (coalesce(resposta <> '{}', false)) stored,
  primary key (tenant_id, id),
  foreign key (tenant_id, aluno_id) references private.alunos (tenant_id, id)
);
comment on table private.anamneses is 'Anamneses of a tenant''s students';
comment on column private.anamneses.resposta is 'The answers, free-form; null or empty until it is filled in';
comment on column private.anamneses.preenchida is 'Filled in: the answers are there and not empty';

create index anamnese_secoes_in_order on private.anamnese_secoes (tenant_id, ordem, id) where ativo;
create index anamneses_in_order on private.anamneses (tenant_id, criado_em, id) where preenchida;
create index anamneses_by_aluno on private.anamneses (tenant_id, aluno_id, criado_em, id);
create index anamneses_by_status on private.anamneses (tenant_id, status, criado_em, id) where preenchida;

alter table private.anamnese_secoes enable row level security;
alter table private.anamnese_secoes force row level security;
create policy administration on private.anamnese_secoes
  to current_user
  using (true);
create policy tenant_isolation on private.anamnese_secoes
  to gateway_functions
  using (tenant_id = (select private.current_tenant()));
grant select on private.anamnese_secoes to gateway_functions;

alter table private.anamneses enable row level security;
alter table private.anamneses force row level security;
create policy administration on private.anamneses
  to current_user
  using (true);
create policy tenant_isolation on private.anamneses
  to gateway_functions
  using (tenant_id = (select private.current_tenant()));
grant select on private.anamneses to gateway_functions;

-- Callable with any key that has the permission: the key proves the tenant.
create function public.listar_anamneses(
  p_api_key text,
  p_limit integer default 100,
  p_offset integer default 0,
  p_id_aluno text default null,
  p_status text default null
)
returns table (id uuid, id_aluno text, status text, resposta jsonb, criado_em timestamptz)
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_custom_plan
as $$
declare
  v_tenant constant uuid := private.verify_key(p_api_key, 'listar_anamneses');
  v_aluno constant uuid := private.to_uuid(p_id_aluno);
begin
  return query
    select n.id, n.aluno_id::text, n.status, n.resposta, n.criado_em
      from private.anamneses n
     where n.tenant_id = v_tenant
       and n.preenchida
       and (p_id_aluno is null or n.aluno_id = v_aluno)
       and (p_status is null or n.status = p_status)
     order by n.criado_em, n.id
     limit p_limit
    offset p_offset;
end;
$$;
comment on function public.listar_anamneses(text, integer, integer, text, text) is
  'Filled-in anamneses of the tenant of the key, oldest first';
select private.publish('public.listar_anamneses');

-- Callable with any key that has the permission: the key proves the tenant.
create function public.listar_secoes(
  p_api_key text,
  p_limit integer default 100,
  p_offset integer default 0
)
returns table (id uuid, titulo text, ordem integer, ativo boolean)
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_custom_plan
as $$
declare
  v_tenant constant uuid := private.verify_key(p_api_key, 'listar_secoes');
begin
  return query
    select s.id, s.titulo, s.ordem, s.ativo
      from private.anamnese_secoes s
     where s.tenant_id = v_tenant
       and s.ativo
     order by s.ordem, s.id
     limit p_limit
    offset p_offset;
end;
$$;
comment on function public.listar_secoes(text, integer, integer) is
  'Active sections of the anamnesis form of the tenant of the key, in their order';
select private.publish('public.listar_secoes');
