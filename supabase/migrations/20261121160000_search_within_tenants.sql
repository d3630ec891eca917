-- The search by name reads what is of its tenant alone. In the index of pg_trgm the parts of one tenant's names stood
-- among those of all others: a first and a last name took as long as all tenants have students of these names.

-- On a large table an index takes longer than a server may give to a statement.
select set_config('statement_timeout', '0', true);

-- With the names, so that to look at students in their order is to read an index, and not a page for each of them. It
-- takes the place of alunos_in_order in the next migration: to drop that one here would hold up all who read until this
-- one is done.
create index alunos_in_order_with_names on private.alunos (tenant_id, criado_em, id) include (nome_busca);

create function private.name_parts(p_tenant uuid, p_text text, p_least integer, p_most integer)
returns bigint[]
language plpgsql
immutable
-- So that all processors make the index, where there are students already and Postgres is 18.
parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
  -- So that no part of a tenant's is that of another's.
  v_seed constant bigint := hashtextextended(p_tenant::text, 0);
  v_parts bigint[] := array[]::bigint[];
begin
  for v_length in p_least .. p_most loop
    for v_begin in 1 .. char_length(p_text) - v_length + 1 loop
      v_parts := v_parts || hashtextextended(substr(p_text, v_begin, v_length), v_seed);
    end loop;
  end loop;
  return v_parts;
end;
$$;
comment on function private.name_parts(uuid, text, integer, integer) is
  'What the index of names has of a text of a tenant: the hashes of its parts of that many letters';
revoke all on function private.name_parts(uuid, text, integer, integer) from public;
-- Whoever writes a student computes what the index has of it.
grant execute on function private.name_parts(uuid, text, integer, integer) to gateway_functions, gateway_search;

-- What is written is in the index at once: a list of what is yet to be put there is read by every search.
create index alunos_by_name_parts on private.alunos using gin (private.name_parts(tenant_id, nome_busca, 1, 3))
  with (fastupdate = off);

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
  v_part constant text := lower(p_nome collate "und-x-icu");
  -- %, _ and \ stand for themselves.
  v_pattern constant text := '%' || regexp_replace(v_part, '([\\%_])', '\\\1', 'g') || '%';
  -- The longest that the index has.
  v_length constant integer := greatest(1, least(3, char_length(v_part)));
  v_wanted constant bigint := p_offset::bigint + p_limit;
  v_look_at bigint := least(bigint '1000', greatest(bigint '200', v_wanted * 10));
  v_looked_at bigint;
  v_found uuid[];
  v_matches bigint;
  v_is_enough boolean;
begin
  -- What many have is found among the first in order: as long as one in 300 has it, as many more are looked at as a page
  -- is likely to take.
  loop
    select count(*), coalesce(array_agg(s.id order by s.criado_em, s.id) filter (where s.nome_busca like v_pattern), '{}')
      into v_looked_at, v_found
      from (
        select a.id, a.criado_em, a.nome_busca
          from private.alunos a
         where a.tenant_id = p_tenant
           and a.tenant_id = (select private.current_tenant())
           and (p_ativo is null or a.ativo = p_ativo)
           and (p_academia_id is null or a.academia_id = p_academia_id)
           and (p_any_personal or a.personal_id = p_personal)
         order by a.criado_em, a.id
         limit v_look_at
      ) s;
    v_matches := cardinality(v_found)::bigint;
    v_is_enough := v_looked_at < v_look_at or v_matches >= v_wanted;
    exit when v_is_enough or v_matches * 300 < v_looked_at;
    v_look_at := least(v_looked_at * 8, v_looked_at * v_wanted / v_matches * 5 / 4);
  end loop;

  -- What few have is found by the index, which has no order. By itself, because the planner, who does not see the
  -- statistics, takes it to find one in 200 of all rows, and would rather look at all students of the tenant.
  if not v_is_enough then
    with matches as materialized (
      select a.tenant_id, a.id, a.criado_em, a.nome_busca, a.ativo, a.academia_id, a.personal_id
        from private.alunos a
       where private.name_parts(a.tenant_id, a.nome_busca, 1, 3)
             @> private.name_parts(p_tenant, v_part, v_length, v_length)
    )
    select coalesce(array_agg(m.id order by m.criado_em, m.id), '{}')
      into v_found
      from matches m
     where m.tenant_id = p_tenant
       and m.tenant_id = (select private.current_tenant())
       and m.nome_busca like v_pattern
       and (p_ativo is null or m.ativo = p_ativo)
       and (p_academia_id is null or m.academia_id = p_academia_id)
       and (p_any_personal or m.personal_id = p_personal);
  end if;

  return query
    select f.id from unnest(v_found) with ordinality f (id, place) order by f.place limit p_limit offset p_offset;
end;
$$;
