-- Lists of a tenant that has very many rows: two filters at once, and the pages behind the first. And the first page of a
-- list without a filter, which is what most requests ask for: its plan is the same for every tenant, as that of the
-- verification of the key is, so they are made once for a connection. To make them for each request took three times as
-- long as all else. Lists with filters are planned for each, as before.

-- The index of one filter finds the rows of two as long as many of them have the other value too. In a gym that was
-- closed nobody is active: there it would read all students that the gym has had.
create index alunos_by_academia_and_ativo on private.alunos (tenant_id, academia_id, ativo, criado_em, id);
create index alunos_by_academia_and_personal on private.alunos (tenant_id, academia_id, personal_id, criado_em, id);
create index alunos_by_personal_and_ativo on private.alunos (tenant_id, personal_id, ativo, criado_em, id);
create index treinos_by_personal_and_ativo on private.treinos (tenant_id, personal_id, ativo, criado_em, id);
-- With all that puts a workout in its place, so that those from a date on are put in order without being read.
create index treinos_from_data_inicio on private.treinos (tenant_id, data_inicio, criado_em, id);
drop index private.treinos_by_data_inicio;

-- Callable with any key that has the permission: the key proves the tenant.
create or replace function public.listar_alunos(
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
set plan_cache_mode = force_generic_plan
as $$
declare
  v_tenant constant uuid := private.verify_key(p_api_key, 'listar_alunos');
  v_personal uuid;
begin
  if p_offset = 0 and p_ativo is null and p_academia_id is null and p_id_personal is null and p_nome is null then
    return query
      select a.id, a.nome, a.email, a.ativo, a.academia_id, a.criado_em
        from private.alunos a
       where a.tenant_id = v_tenant
       order by a.criado_em, a.id
       limit p_limit;
    return;
  end if;

  v_personal := private.to_uuid(p_id_personal);
  -- A filter that is not given leaves the plan only when the plan knows the arguments. It holds until the function ends.
  perform set_config('plan_cache_mode', 'force_custom_plan', true);
  if p_nome is not null then
    return query
      select a.id, a.nome, a.email, a.ativo, a.academia_id, a.criado_em
        from private.search_alunos(
               v_tenant, p_nome, p_ativo, p_academia_id, p_id_personal is null, v_personal, p_limit, p_offset
             ) s
        join private.alunos a on a.tenant_id = v_tenant and a.id = s.id
       order by a.criado_em, a.id;
  elsif p_offset > 0 then
    -- What a page skips is counted in an index, which has no more of a row than its place in the list.
    return query
      select a.id, a.nome, a.email, a.ativo, a.academia_id, a.criado_em
        from (
          select i.id
            from private.alunos i
           where i.tenant_id = v_tenant
             and (p_ativo is null or i.ativo = p_ativo)
             and (p_academia_id is null or i.academia_id = p_academia_id)
             and (p_id_personal is null or i.personal_id = v_personal)
           order by i.criado_em, i.id
           limit p_limit
          offset p_offset
        ) page
        join private.alunos a on a.tenant_id = v_tenant and a.id = page.id
       order by a.criado_em, a.id;
  else
    return query
      select a.id, a.nome, a.email, a.ativo, a.academia_id, a.criado_em
        from private.alunos a
       where a.tenant_id = v_tenant
         and (p_ativo is null or a.ativo = p_ativo)
         and (p_academia_id is null or a.academia_id = p_academia_id)
         and (p_id_personal is null or a.personal_id = v_personal)
       order by a.criado_em, a.id
       limit p_limit;
  end if;
end;
$$;
select private.publish('public.listar_alunos');

-- Callable with any key that has the permission: the key proves the tenant.
create or replace function public.listar_treinos(
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
set plan_cache_mode = force_generic_plan
as $$
declare
  v_tenant constant uuid := private.verify_key(p_api_key, 'listar_treinos');
  v_aluno uuid;
  v_personal uuid;
  v_page uuid[];
begin
  if p_offset = 0 and p_ativo is null and p_id_aluno is null and p_id_personal is null and p_data_inicio_gte is null then
    return query
      select t.id, t.nome, t.aluno_id::text,
             -- Without hyphens, as the filter id_personal of the students' list takes it.
             replace(t.personal_id::text, '-', ''),
             t.ativo, t.data_inicio, t.criado_em
        from private.treinos t
       where t.tenant_id = v_tenant
       order by t.criado_em, t.id
       limit p_limit;
    return;
  end if;

  v_aluno := private.to_uuid(p_id_aluno);
  v_personal := private.to_uuid(p_id_personal);
  -- A filter that is not given leaves the plan only when the plan knows the arguments. It holds until the function ends.
  perform set_config('plan_cache_mode', 'force_custom_plan', true);
  if p_offset = 0 and p_data_inicio_gte is null then
    return query
      select t.id, t.nome, t.aluno_id::text, replace(t.personal_id::text, '-', ''), t.ativo, t.data_inicio, t.criado_em
        from private.treinos t
       where t.tenant_id = v_tenant
         and (p_ativo is null or t.ativo = p_ativo)
         and (p_id_aluno is null or t.aluno_id = v_aluno)
         and (p_id_personal is null or t.personal_id = v_personal)
       order by t.criado_em, t.id
       limit p_limit;
    return;
  end if;

  if p_data_inicio_gte is null then
    -- What a page skips is counted in an index, which has no more of a row than its place in the list.
    v_page := array(
      select i.id
        from private.treinos i
       where i.tenant_id = v_tenant
         and (p_ativo is null or i.ativo = p_ativo)
         and (p_id_aluno is null or i.aluno_id = v_aluno)
         and (p_id_personal is null or i.personal_id = v_personal)
       order by i.criado_em, i.id
       limit p_limit
      offset p_offset
    );
  else
    -- Workouts begin about when they are made: a page of those from a date on is among the first in order, or behind
    -- all from before that date, which the planner does not know.
    v_page := array(
      select f.id
        from (
          select i.id, i.criado_em, i.data_inicio
            from private.treinos i
           where i.tenant_id = v_tenant
             and (p_ativo is null or i.ativo = p_ativo)
             and (p_id_aluno is null or i.aluno_id = v_aluno)
             and (p_id_personal is null or i.personal_id = v_personal)
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
         -- No index has this order: with one the planner would look through all in order again.
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
select private.publish('public.listar_treinos');

-- Callable with any key that has the permission: the key proves the tenant.
create or replace function public.listar_anamneses(
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
set plan_cache_mode = force_generic_plan
as $$
declare
  v_tenant constant uuid := private.verify_key(p_api_key, 'listar_anamneses');
  v_aluno uuid;
begin
  if p_offset = 0 and p_id_aluno is null and p_status is null then
    return query
      select n.id, n.aluno_id::text, n.status, n.resposta, n.criado_em
        from private.anamneses n
       where n.tenant_id = v_tenant
         and n.preenchida
       order by n.criado_em, n.id
       limit p_limit;
    return;
  end if;

  v_aluno := private.to_uuid(p_id_aluno);
  -- A filter that is not given leaves the plan only when the plan knows the arguments. It holds until the function ends.
  perform set_config('plan_cache_mode', 'force_custom_plan', true);
  if p_offset > 0 then
    -- What a page skips is counted in an index, which has no more of a row than its place in the list.
    return query
      select n.id, n.aluno_id::text, n.status, n.resposta, n.criado_em
        from (
          select i.id
            from private.anamneses i
           where i.tenant_id = v_tenant
             and i.preenchida
             and (p_id_aluno is null or i.aluno_id = v_aluno)
             and (p_status is null or i.status = p_status)
           order by i.criado_em, i.id
           limit p_limit
          offset p_offset
        ) page
        join private.anamneses n on n.tenant_id = v_tenant and n.id = page.id
       order by n.criado_em, n.id;
  else
    return query
      select n.id, n.aluno_id::text, n.status, n.resposta, n.criado_em
        from private.anamneses n
       where n.tenant_id = v_tenant
         and n.preenchida
         and (p_id_aluno is null or n.aluno_id = v_aluno)
         and (p_status is null or n.status = p_status)
       order by n.criado_em, n.id
       limit p_limit;
  end if;
end;
$$;
select private.publish('public.listar_anamneses');

-- Callable with any key that has the permission: the key proves the tenant.
create or replace function public.listar_academias(
  p_api_key text,
  p_ativo boolean default null,
  p_limit integer default 100,
  p_offset integer default 0
)
returns table (id uuid, nome text, ativo boolean, criado_em timestamptz)
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
as $$
declare
  v_tenant constant uuid := private.verify_key(p_api_key, 'listar_academias');
begin
  if p_ativo is null then
    return query
      select a.id, a.nome, a.ativo, a.criado_em
        from private.academias a
       where a.tenant_id = v_tenant
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
     order by a.criado_em, a.id
     limit p_limit
    offset p_offset;
end;
$$;
select private.publish('public.listar_academias');

-- Callable with any key that has the permission: the key proves the tenant.
create or replace function public.listar_personais(
  p_api_key text,
  p_limit integer default 100,
  p_offset integer default 0,
  p_academia_id uuid default null
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
begin
  if p_academia_id is null then
    return query
      select p.id, p.nome, p.email, p.ativo, p.academia_id
        from private.personais p
       where p.tenant_id = v_tenant
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
     order by p.criado_em, p.id
     limit p_limit
    offset p_offset;
end;
$$;
select private.publish('public.listar_personais');

-- It has no filter at all.
alter function public.listar_secoes(text, integer, integer) set plan_cache_mode = force_generic_plan;
