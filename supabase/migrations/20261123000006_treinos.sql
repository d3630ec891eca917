-- Workouts.

create table private.treinos (
  tenant_id uuid not null references private.tenants (id),
  id uuid not null default gen_random_uuid(),
  nome text not null constraint treinos_nome_length check (char_length(nome) <= 255),
  aluno_id uuid not null,
  personal_id uuid not null,
  ativo boolean not null default true,
  data_inicio date not null,
  criado_em timestamptz not null default clock_timestamp(),
  primary key (tenant_id, id)
);
comment on table private.treinos is 'Workouts of a tenant''s students';

create index treinos_in_order on private.treinos (tenant_id, criado_em, id);
create index treinos_by_ativo on private.treinos (tenant_id, ativo, criado_em, id);
create index treinos_by_aluno on private.treinos (tenant_id, aluno_id, criado_em, id);
create index treinos_by_personal on private.treinos (tenant_id, personal_id, criado_em, id);
create index treinos_by_personal_and_ativo on private.treinos (tenant_id, personal_id, ativo, criado_em, id);
-- With the columns of the list order, so that workouts from a date on are sorted without reading the table.
create index treinos_from_data_inicio on private.treinos (tenant_id, data_inicio, criado_em, id);

select private.isolate('private.treinos');
alter table private.treinos add foreign key (tenant_id, aluno_id) references private.alunos (tenant_id, id);
alter table private.treinos add foreign key (tenant_id, personal_id) references private.personais (tenant_id, id);
grant select on private.treinos to gateway_functions;

-- Callable with a key that has the permission: the key proves the tenant.
create function public.listar_treinos(
  p_api_key text,
  p_ativo boolean default null,
  p_limit integer default 100,
  p_offset integer default 0,
  p_id_aluno text default null,
  p_id_personal text default null,
  p_data_inicio_gte date default null,
  p_after uuid default null
)
returns table (
  id uuid, nome text, id_aluno text, id_personal text, ativo boolean, data_inicio date, criado_em timestamptz
)
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
-- As listar_alunos: the first page without filters has one plan for all tenants.
set plan_cache_mode = force_generic_plan
as $$
declare
  v_tenant constant uuid := private.verify_key(p_api_key, 'listar_treinos');
  v_aluno uuid;
  v_personal uuid;
  v_after timestamptz := timestamptz '-infinity';
  v_after_id constant uuid := coalesce(p_after, '00000000-0000-0000-0000-000000000000');
  v_page uuid[];
begin
  if p_after is not null then
    select t.criado_em into v_after from private.treinos t where t.tenant_id = v_tenant and t.id = p_after;
    perform private.require_record(found, 'after');
  end if;
  if p_offset = 0 and p_ativo is null and p_id_aluno is null and p_id_personal is null and p_data_inicio_gte is null then
    return query
      select t.id, t.nome, t.aluno_id::text,
             -- Without hyphens, as the filter id_personal of GET /alunos takes it.
             replace(t.personal_id::text, '-', ''),
             t.ativo, t.data_inicio, t.criado_em
        from private.treinos t
       where t.tenant_id = v_tenant
         and (t.criado_em, t.id) > (v_after, v_after_id)
       order by t.criado_em, t.id
       limit p_limit;
    return;
  end if;

  v_aluno := private.to_uuid(p_id_aluno);
  v_personal := private.to_uuid(p_id_personal);
  -- A plan that knows the arguments leaves out the filters that are null. The setting ends with the function.
  perform set_config('plan_cache_mode', 'force_custom_plan', true);
  if p_offset = 0 and p_data_inicio_gte is null then
    return query
      select t.id, t.nome, t.aluno_id::text, replace(t.personal_id::text, '-', ''), t.ativo, t.data_inicio, t.criado_em
        from private.treinos t
       where t.tenant_id = v_tenant
         and (p_ativo is null or t.ativo = p_ativo)
         and (p_id_aluno is null or t.aluno_id = v_aluno)
         and (p_id_personal is null or t.personal_id = v_personal)
         and (t.criado_em, t.id) > (v_after, v_after_id)
       order by t.criado_em, t.id
       limit p_limit;
    return;
  end if;

  if p_data_inicio_gte is null then
    -- The inner query skips rows in an index alone, without reading them from the table.
    v_page := array(
      select i.id
        from private.treinos i
       where i.tenant_id = v_tenant
         and (p_ativo is null or i.ativo = p_ativo)
         and (p_id_aluno is null or i.aluno_id = v_aluno)
         and (p_id_personal is null or i.personal_id = v_personal)
         and (i.criado_em, i.id) > (v_after, v_after_id)
       order by i.criado_em, i.id
       limit p_limit
      offset p_offset
    );
  else
    -- Workouts begin about when they are created, which the planner does not know: a page from a date on is either among
    -- the next 1000 in list order, or behind all workouts from before that date.
    v_page := array(
      select f.id
        from (
          select i.id, i.criado_em, i.data_inicio
            from private.treinos i
           where i.tenant_id = v_tenant
             and (p_ativo is null or i.ativo = p_ativo)
             and (p_id_aluno is null or i.aluno_id = v_aluno)
             and (p_id_personal is null or i.personal_id = v_personal)
             and (i.criado_em, i.id) > (v_after, v_after_id)
           order by i.criado_em, i.id
           limit 1000
        ) f
       where f.data_inicio >= p_data_inicio_gte
       order by f.criado_em, f.id
       limit p_limit
      offset p_offset
    );
    if cardinality(v_page) < p_limit then
      v_page := array(
        select i.id
          from private.treinos i
         where i.tenant_id = v_tenant
           and (p_ativo is null or i.ativo = p_ativo)
           and (p_id_aluno is null or i.aluno_id = v_aluno)
           and (p_id_personal is null or i.personal_id = v_personal)
           and i.data_inicio >= p_data_inicio_gte
           and (i.criado_em, i.id) > (v_after, v_after_id)
         -- greatest() matches no index: otherwise the planner would read all workouts in list order again.
         order by greatest(i.criado_em, '-infinity'), i.id
         limit p_limit
        offset p_offset
      );
    end if;
  end if;
  return query
    select t.id, t.nome, t.aluno_id::text, replace(t.personal_id::text, '-', ''), t.ativo, t.data_inicio, t.criado_em
      from private.treinos t
     where t.tenant_id = v_tenant
       and t.id = any (v_page)
     order by t.criado_em, t.id;
end;
$$;
comment on function public.listar_treinos(text, boolean, integer, integer, text, text, date, uuid) is
  'Workouts of the key''s tenant, oldest first';
select private.publish('public.listar_treinos');
