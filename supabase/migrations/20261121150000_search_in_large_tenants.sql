-- The search by name in a tenant that has very many students. Row security keeps the planner from the statistics of the
-- names, since LIKE is not leakproof: it cannot tell a part that every sixth name has from one that nobody has, and so
-- not whether the index of the names is the way to the first page, or the students in their order. The search finds
-- out by itself.

create function private.short_parts(p_text text)
returns text[]
language plpgsql
immutable
-- So that all processors make the index, where there are students already.
parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
  v_letters constant text[] := string_to_array(p_text, null);
  v_parts text[] := v_letters;
begin
  for i in 2 .. cardinality(v_letters) loop
    v_parts := v_parts || (v_letters[i - 1] || v_letters[i]);
  end loop;
  return v_parts;
end;
$$;
comment on function private.short_parts(text) is
  'The letters of a text and its pairs of letters, which pg_trgm has no index for';
revoke all on function private.short_parts(text) from public;
-- Whoever writes a student computes what the index has of it.
grant execute on function private.short_parts(text) to gateway_functions, gateway_search;

create index alunos_by_short_part on private.alunos using gin (private.short_parts(nome_busca)) with (fastupdate = off);

-- What is written is in the indexes at once: a list of what is yet to be put there is read by every search.
alter index private.alunos_by_nome set (fastupdate = off);
select gin_clean_pending_list('private.alunos_by_nome');

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
  -- The index of pg_trgm finds a part that has three letters or digits in a row, of those that are letters everywhere.
  v_is_short constant boolean := v_part !~ '[a-z0-9]{3}';
  v_wanted constant bigint := p_offset::bigint + p_limit;
  v_look_at bigint := bigint '1000';
  v_looked_at bigint;
  v_found uuid[];
  v_matches bigint;
begin
  -- What many have is found among the first in order: as long as one in 300 has it, as many more are looked at as a page
  -- is likely to take. What few have is found by an index, which has no order; then v_look_at is null, for all.
  loop
    select count(*), coalesce(array_agg(s.id order by s.criado_em, s.id) filter (where s.nome_busca like v_pattern), '{}')
      into v_looked_at, v_found
      from (
        select a.id, a.criado_em, a.nome_busca
          from private.alunos a
         where a.tenant_id = p_tenant
           and a.tenant_id = (select private.current_tenant())
           and (v_look_at is not null or a.nome_busca like v_pattern)
           and (v_look_at is not null or not v_is_short
                or private.short_parts(a.nome_busca) @> private.short_parts(v_part))
           and (p_ativo is null or a.ativo = p_ativo)
           and (p_academia_id is null or a.academia_id = p_academia_id)
           and (p_any_personal or a.personal_id = p_personal)
         order by a.criado_em, a.id
         limit v_look_at
      ) s;
    v_matches := cardinality(v_found)::bigint;
    exit when v_look_at is null or v_looked_at < v_look_at or v_matches >= v_wanted;
    v_look_at := case
      when v_matches * 300 >= v_looked_at then least(v_looked_at * 8, v_looked_at * v_wanted / v_matches * 5 / 4)
    end;
  end loop;

  return query
    select f.id from unnest(v_found) with ordinality f (id, place) order by f.place limit p_limit offset p_offset;
end;
$$;
