-- The sections of the anamnesis form, and the students' anamneses.

create table private.anamnese_secoes (
  tenant_id uuid not null references private.tenants (id),
  id uuid not null default gen_random_uuid(),
  titulo text not null constraint anamnese_secoes_titulo_length check (char_length(titulo) <= 255),
  ordem integer not null,
  ativo boolean not null default true,
  primary key (tenant_id, id)
);
comment on table private.anamnese_secoes is 'Sections of a tenant''s anamnesis form';
comment on column private.anamnese_secoes.ordem is 'Position in the form; sections with the same one are ordered by id';

create table private.anamneses (
  tenant_id uuid not null references private.tenants (id),
  id uuid not null default gen_random_uuid(),
  aluno_id uuid not null,
  status text not null constraint anamneses_status_length check (char_length(status) <= 100),
  resposta jsonb check (jsonb_typeof(resposta) = 'object')
    constraint anamneses_resposta_length check (octet_length(resposta::text) <= 65536),
  criado_em timestamptz not null default clock_timestamp(),
  preenchida boolean not null generated always as (coalesce(resposta <> '{}', false)) stored,
  primary key (tenant_id, id)
);
comment on table private.anamneses is 'Anamneses of a tenant''s students';
comment on column private.anamneses.resposta is 'The answers, free-form; null or empty until the form is filled in';
comment on column private.anamneses.preenchida is 'Filled in: resposta is present and not empty';

create index anamnese_secoes_in_order on private.anamnese_secoes (tenant_id, ordem, id) where ativo;
create index anamneses_in_order on private.anamneses (tenant_id, criado_em, id) where preenchida;
create index anamneses_by_aluno on private.anamneses (tenant_id, aluno_id, criado_em, id);
create index anamneses_by_status on private.anamneses (tenant_id, status, criado_em, id) where preenchida;

select private.isolate('private.anamnese_secoes');
grant select on private.anamnese_secoes to gateway_functions;

select private.isolate('private.anamneses');
alter table private.anamneses add foreign key (tenant_id, aluno_id) references private.alunos (tenant_id, id);
grant select on private.anamneses to gateway_functions;

-- Callable with a key that has the permission: the key proves the tenant.
create function public.listar_anamneses(
  p_api_key text,
  p_limit integer default 100,
  p_offset integer default 0,
  p_id_aluno text default null,
  p_status text default null,
  p_after uuid default null
)
returns table (id uuid, id_aluno text, status text, resposta jsonb, criado_em timestamptz)
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
-- As listar_alunos: the first page without filters has one plan for all tenants.
set plan_cache_mode = force_generic_plan
as $$
declare
  v_tenant constant uuid := private.verify_key(p_api_key, 'listar_anamneses');
  v_aluno uuid;
  v_after timestamptz := timestamptz '-infinity';
  v_after_id constant uuid := coalesce(p_after, '00000000-0000-0000-0000-000000000000');
begin
  if p_after is not null then
    select n.criado_em into v_after from private.anamneses n where n.tenant_id = v_tenant and n.id = p_after;
    perform private.require_record(found, 'after');
  end if;
  if p_offset = 0 and p_id_aluno is null and p_status is null then
    return query
      select n.id, n.aluno_id::text, n.status, n.resposta, n.criado_em
        from private.anamneses n
       where n.tenant_id = v_tenant
         and n.preenchida
         and (n.criado_em, n.id) > (v_after, v_after_id)
       order by n.criado_em, n.id
       limit p_limit;
    return;
  end if;

  v_aluno := private.to_uuid(p_id_aluno);
  -- A plan that knows the arguments leaves out the filters that are null. The setting ends with the function.
  perform set_config('plan_cache_mode', 'force_custom_plan', true);
  if p_offset > 0 then
    -- The inner query skips rows in an index alone, without reading them from the table.
    return query
      select n.id, n.aluno_id::text, n.status, n.resposta, n.criado_em
        from (
          select i.id
            from private.anamneses i
           where i.tenant_id = v_tenant
             and i.preenchida
             and (p_id_aluno is null or i.aluno_id = v_aluno)
             and (p_status is null or i.status = p_status)
             and (i.criado_em, i.id) > (v_after, v_after_id)
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
         and (n.criado_em, n.id) > (v_after, v_after_id)
       order by n.criado_em, n.id
       limit p_limit;
  end if;
end;
$$;
comment on function public.listar_anamneses(text, integer, integer, text, text, uuid) is
  'Filled-in anamneses of the key''s tenant, oldest first';
select private.publish('public.listar_anamneses');

-- Callable with a key that has the permission: the key proves the tenant.
create function public.listar_secoes(
  p_api_key text,
  p_limit integer default 100,
  p_offset integer default 0,
  p_after uuid default null
)
returns table (id uuid, titulo text, ordem integer, ativo boolean)
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
as $$
declare
  v_tenant constant uuid := private.verify_key(p_api_key, 'listar_secoes');
  v_after integer := -2147483648;
  v_after_id constant uuid := coalesce(p_after, '00000000-0000-0000-0000-000000000000');
begin
  if p_after is not null then
    select s.ordem into v_after from private.anamnese_secoes s where s.tenant_id = v_tenant and s.id = p_after;
    perform private.require_record(found, 'after');
  end if;
  return query
    select s.id, s.titulo, s.ordem, s.ativo
      from private.anamnese_secoes s
     where s.tenant_id = v_tenant
       and s.ativo
       and (s.ordem, s.id) > (v_after, v_after_id)
     order by s.ordem, s.id
     limit p_limit
    offset p_offset;
end;
$$;
comment on function public.listar_secoes(text, integer, integer, uuid) is
  'Active sections of the anamnesis form of the key''s tenant, in their order';
select private.publish('public.listar_secoes');
