-- Students: the table, the search by name and the list.

create function private.to_searchable(p_text text)
returns text
language sql
immutable
-- Lets Postgres 18 build the index in parallel.
parallel safe
-- Without a search path, so that Postgres makes it part of the insert, which halves its time; what a body without quotes
-- calls is found when the function is created.
-- By the rules of Unicode, whatever the locale of the database: lower case, then letters apart from their accents, without
-- these, and put together again, because some scripts write a letter as several.
return normalize(regexp_replace(normalize(lower(p_text collate "und-x-icu"), nfd), '[\u0300-\u036f]', '', 'g'), nfc);
comment on function private.to_searchable(text) is 'A text without accents and in lower case, for a search that ignores both';

create table private.alunos (
  tenant_id uuid not null references private.tenants (id),
  id uuid not null default gen_random_uuid(),
  nome text not null check (nome <> '' and char_length(nome) <= 255),
  email text not null constraint alunos_email_length check (char_length(email) <= 254),
  telefone text constraint alunos_telefone_length check (char_length(telefone) <= 40),
  sexo text constraint alunos_sexo_length check (char_length(sexo) <= 50),
  data_nascimento date,
  academia_id uuid,
  modalidade text constraint alunos_modalidade_length check (char_length(modalidade) <= 100),
  personal_id uuid,
  ativo boolean not null default true,
  criado_em timestamptz not null default clock_timestamp(),
  nome_busca text not null generated always as (private.to_searchable(nome)) stored,
  primary key (tenant_id, id)
);
comment on table private.alunos is 'Students of a tenant';
comment on column private.alunos.academia_id is 'The gym; null for a student without one';
comment on column private.alunos.personal_id is 'The trainer; null for a student without one';
comment on column private.alunos.nome_busca is 'The name without accents and in lower case, for the search';

-- nome_busca is included so that a search in list order reads the index alone.
create index alunos_in_order on private.alunos (tenant_id, criado_em, id) include (nome_busca);
create index alunos_by_ativo on private.alunos (tenant_id, ativo, criado_em, id);
create index alunos_by_academia on private.alunos (tenant_id, academia_id, criado_em, id);
create index alunos_by_personal on private.alunos (tenant_id, personal_id, criado_em, id);
-- For pairs of filters that few rows pass together, such as the active students of a closed gym.
create index alunos_by_academia_and_ativo on private.alunos (tenant_id, academia_id, ativo, criado_em, id);
create index alunos_by_academia_and_personal on private.alunos (tenant_id, academia_id, personal_id, criado_em, id);
create index alunos_by_personal_and_ativo on private.alunos (tenant_id, personal_id, ativo, criado_em, id);

select private.isolate('private.alunos');
alter table private.alunos add foreign key (tenant_id, academia_id) references private.academias (tenant_id, id);
alter table private.alunos add foreign key (tenant_id, personal_id) references private.personais (tenant_id, id);
grant select on private.alunos to gateway_functions;

-- LIKE is not leakproof: under row security it is evaluated after the policy and can use no index, so a search would read
-- every student of the tenant. This role sees all rows, but only the columns that a search needs. Its one function asks
-- for the current tenant itself and returns only ids; listar_alunos reads the students by these under row security.
create policy search on private.alunos
  for select to gateway_search
  using (true);
grant select (tenant_id, id, ativo, academia_id, personal_id, criado_em, nome_busca)
  on private.alunos to gateway_search;

create function private.name_parts(p_tenant uuid, p_text text)
returns tsvector
language plpgsql
immutable
-- Lets Postgres 18 build the index in parallel.
parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
  -- Keeps the parts of tenants apart. Two tenants that share it only make a search slower.
  v_tenant constant text := left(p_tenant::text, 8);
  v_parts text[] := array[]::text[];
begin
  for v_begin in 1 .. char_length(p_text) loop
    v_parts := v_parts || (v_tenant || substr(p_text, v_begin, 3));
  end loop;
  return array_to_tsvector(v_parts);
end;
$$;
comment on function private.name_parts(uuid, text) is
  'The three characters from each character of a text on, different for each tenant; the content of the index of names';
revoke all on function private.name_parts(uuid, text) from public;
-- An insert computes the column and the index, so the writing role needs both functions too.
grant execute on function private.to_searchable(text), private.name_parts(uuid, text)
  to gateway_functions, gateway_search;

-- Without fastupdate: every search would read the list of pending entries.
create index alunos_by_name_parts on private.alunos using gin (private.name_parts(tenant_id, nome_busca))
  with (fastupdate = off);

-- Executable by gateway_functions only. The query demands the tenant that private.verify_key has set.
create function private.search_alunos(
  p_tenant uuid,
  p_nome text,
  p_ativo boolean,
  p_academia_id uuid,
  p_any_personal boolean,
  p_personal uuid,
  p_after timestamptz,
  p_after_id uuid,
  p_limit integer,
  p_offset integer
)
returns uuid[]
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_custom_plan
as $$
declare
  v_part constant text := private.to_searchable(p_nome);
  -- %, _ and \ are ordinary characters.
  v_pattern constant text := '%' || regexp_replace(v_part, '([\\%_])', '\\\1', 'g') || '%';
  v_length constant integer := least(3, char_length(v_part));
  v_query tsquery;
  v_wanted constant bigint := p_offset::bigint + p_limit;
  v_look_at bigint := least(bigint '1000', greatest(bigint '200', v_wanted * 10));
  v_looked_at bigint;
  v_found uuid[];
  v_matches bigint;
  v_is_enough boolean;
begin
  -- A common part: read the students in list order until a page is full. As long as at least one in 300 matches, the
  -- next round reads as many rows as the page is likely to need.
  loop
    select count(*), coalesce(array_agg(s.id order by s.criado_em, s.id) filter (where s.nome_busca like v_pattern), '{}')
      into v_looked_at, v_found
      from (
        select a.id, a.criado_em, a.nome_busca
          from private.alunos a
         where a.tenant_id = p_tenant
           and a.tenant_id = private.current_tenant()
           and (p_ativo is null or a.ativo = p_ativo)
           and (p_academia_id is null or a.academia_id = p_academia_id)
           and (p_any_personal or a.personal_id = p_personal)
           and (a.criado_em, a.id) > (p_after, p_after_id)
         order by a.criado_em, a.id
         limit v_look_at
      ) s;
    v_matches := cardinality(v_found)::bigint;
    v_is_enough := v_looked_at < v_look_at or v_matches >= v_wanted;
    exit when v_is_enough or v_matches * 300 < v_looked_at;
    v_look_at := least(v_looked_at * 8, v_looked_at * v_wanted / v_matches * 5 / 4);
  end loop;

  -- A rare part: use the index of name parts, which has no order. "materialized" forces it: row security hides the
  -- statistics, so the planner expects one row in 200 to match and would read all students of the tenant.
  if not v_is_enough then
    -- Fewer than three characters are the beginning of a part.
    select string_agg(array_to_tsvector(array[p.lexeme])::text || case when v_length < 3 then ':*' else '' end, ' & ')::tsquery
      into v_query
      from unnest(private.name_parts(p_tenant, v_part)) p
     where char_length(p.lexeme) = 8 + v_length;

    with matches as materialized (
      select a.tenant_id, a.id, a.criado_em, a.nome_busca, a.ativo, a.academia_id, a.personal_id
        from private.alunos a
       where private.name_parts(a.tenant_id, a.nome_busca) @@ v_query
    )
    select coalesce(array_agg(m.id order by m.criado_em, m.id), '{}')
      into v_found
      from matches m
     where m.tenant_id = p_tenant
       and m.tenant_id = private.current_tenant()
       and m.nome_busca like v_pattern
       and (p_ativo is null or m.ativo = p_ativo)
       and (p_academia_id is null or m.academia_id = p_academia_id)
       and (p_any_personal or m.personal_id = p_personal)
       and (m.criado_em, m.id) > (p_after, p_after_id);
  end if;

  return array(
    select f.id from unnest(v_found) with ordinality f (id, place) order by f.place limit p_limit offset p_offset
  );
end;
$$;
comment on function private.search_alunos(uuid, text, boolean, uuid, boolean, uuid, timestamptz, uuid, integer, integer) is
  'Ids of one page of a tenant''s students whose name contains a text, ignoring case and accents';
revoke all on function private.search_alunos(uuid, text, boolean, uuid, boolean, uuid, timestamptz, uuid, integer, integer) from public;
grant execute on function private.search_alunos(uuid, text, boolean, uuid, boolean, uuid, timestamptz, uuid, integer, integer)
  to gateway_functions;
grant create on schema private to gateway_search;
alter function private.search_alunos(uuid, text, boolean, uuid, boolean, uuid, timestamptz, uuid, integer, integer)
  owner to gateway_search;
revoke create on schema private from gateway_search;

-- Callable with a key that has the permission: the key proves the tenant.
create function public.listar_alunos(
  p_api_key text,
  p_ativo boolean default null,
  p_limit integer default 100,
  p_offset integer default 0,
  p_academia_id uuid default null,
  p_id_personal text default null,
  p_nome text default null,
  p_after uuid default null
)
returns table (id uuid, nome text, email text, ativo boolean, academia_id uuid, criado_em timestamptz)
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
-- The first page without filters is the most frequent request and its plan is the same for every tenant: planning it for
-- each request took three times as long as the rest.
set plan_cache_mode = force_generic_plan
as $$
declare
  v_tenant constant uuid := private.verify_key(p_api_key, 'listar_alunos');
  v_personal uuid;
  v_after timestamptz := timestamptz '-infinity';
  v_after_id constant uuid := coalesce(p_after, '00000000-0000-0000-0000-000000000000');
  v_page uuid[];
begin
  if p_after is not null then
    select a.criado_em into v_after from private.alunos a where a.tenant_id = v_tenant and a.id = p_after;
    perform private.require_record(found, 'after');
  end if;
  if p_offset = 0 and p_ativo is null and p_academia_id is null and p_id_personal is null and p_nome is null then
    return query
      select a.id, a.nome, a.email, a.ativo, a.academia_id, a.criado_em
        from private.alunos a
       where a.tenant_id = v_tenant
         and (a.criado_em, a.id) > (v_after, v_after_id)
       order by a.criado_em, a.id
       limit p_limit;
    return;
  end if;

  v_personal := private.to_uuid(p_id_personal);
  -- A plan that knows the arguments leaves out the filters that are null. The setting ends with the function.
  perform set_config('plan_cache_mode', 'force_custom_plan', true);
  if p_nome is not null then
    -- On Citus a query of a table cannot contain a function with another one.
    v_page := private.search_alunos(
      v_tenant, p_nome, p_ativo, p_academia_id, p_id_personal is null, v_personal, v_after, v_after_id, p_limit, p_offset
    );
    return query
      select a.id, a.nome, a.email, a.ativo, a.academia_id, a.criado_em
        from private.alunos a
       where a.tenant_id = v_tenant
         and a.id = any (v_page)
       order by a.criado_em, a.id;
  elsif p_offset > 0 then
    -- The inner query skips rows in an index alone, without reading them from the table.
    return query
      select a.id, a.nome, a.email, a.ativo, a.academia_id, a.criado_em
        from (
          select i.id
            from private.alunos i
           where i.tenant_id = v_tenant
             and (p_ativo is null or i.ativo = p_ativo)
             and (p_academia_id is null or i.academia_id = p_academia_id)
             and (p_id_personal is null or i.personal_id = v_personal)
             and (i.criado_em, i.id) > (v_after, v_after_id)
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
         and (a.criado_em, a.id) > (v_after, v_after_id)
       order by a.criado_em, a.id
       limit p_limit;
  end if;
end;
$$;
comment on function public.listar_alunos(text, boolean, integer, integer, uuid, text, text, uuid) is
  'Students of the key''s tenant, oldest first';
select private.publish('public.listar_alunos');
