-- The search by name sees the students of every tenant, for the sake of its index, so that one condition alone stood
-- between a page and another tenant's names. Here is the second one, that of the other tables' policies: as a policy
-- it would come before LIKE and keep it from the index, and as a condition of the query it does not.

grant execute on function private.current_tenant() to gateway_search;

-- Executable by gateway_functions alone, which has verified the key.
create or replace function private.search_alunos(
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
       and a.tenant_id = (select private.current_tenant())
       and a.nome_busca like v_pattern
       and (p_ativo is null or a.ativo = p_ativo)
       and (p_academia_id is null or a.academia_id = p_academia_id)
       and (p_any_personal or a.personal_id = p_personal)
     order by a.criado_em, a.id
     limit p_limit
    offset p_offset;
end;
$$;
