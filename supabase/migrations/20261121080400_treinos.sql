-- Workouts.

create table private.treinos (
  tenant_id uuid not null references private.tenants (id),
  id uuid not null default gen_random_uuid(),
  nome text not null,
  aluno_id uuid not null,
  personal_id uuid not null,
  ativo boolean not null default true,
  data_inicio date not null,
  criado_em timestamptz not null default clock_timestamp(),
  primary key (tenant_id, id),
  foreign key (tenant_id, aluno_id) references private.alunos (tenant_id, id),
  foreign key (tenant_id, personal_id) references private.personais (tenant_id, id)
);
comment on table private.treinos is 'Workouts of a tenant''s students';

create index treinos_in_order on private.treinos (tenant_id, criado_em, id);
create index treinos_by_ativo on private.treinos (tenant_id, ativo, criado_em, id);
create index treinos_by_aluno on private.treinos (tenant_id, aluno_id, criado_em, id);
create index treinos_by_personal on private.treinos (tenant_id, personal_id, criado_em, id);
create index treinos_by_data_inicio on private.treinos (tenant_id, data_inicio);

alter table private.treinos enable row level security;
alter table private.treinos force row level security;
create policy administration on private.treinos
  to current_user
  using (true);
create policy tenant_isolation on private.treinos
  to gateway_functions
  using (tenant_id = (select private.current_tenant()));
grant select on private.treinos to gateway_functions;

-- Callable with any key that has the permission: the key proves the tenant.
create function public.listar_treinos(
  p_api_key text,
  p_ativo boolean default null,
  p_limit integer default 100,
  p_offset integer default 0,
  p_id_aluno text default null,
  p_id_personal text default null,
  p_data_inicio_gte date default null
)
returns table (
  id uuid, nome text, id_aluno text, id_personal text, ativo boolean, data_inicio date, criado_em timestamptz
)
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_custom_plan
as $$
declare
  v_tenant constant uuid := private.verify_key(p_api_key, 'listar_treinos');
  v_aluno constant uuid := private.to_uuid(p_id_aluno);
  v_personal constant uuid := private.to_uuid(p_id_personal);
begin
  return query
    select t.id, t.nome, t.aluno_id::text,
           -- Without hyphens, as the filter id_personal of the students' list takes it.
           replace(t.personal_id::text, '-', ''),
           t.ativo, t.data_inicio, t.criado_em
      from private.treinos t
     where t.tenant_id = v_tenant
       and (p_ativo is null or t.ativo = p_ativo)
       and (p_id_aluno is null or t.aluno_id = v_aluno)
       and (p_id_personal is null or t.personal_id = v_personal)
       and (p_data_inicio_gte is null or t.data_inicio >= p_data_inicio_gte)
     order by t.criado_em, t.id
     limit p_limit
    offset p_offset;
end;
$$;
comment on function public.listar_treinos(text, boolean, integer, integer, text, text, date) is
  'Workouts of the tenant of the key, oldest first';
select private.publish('public.listar_treinos');
