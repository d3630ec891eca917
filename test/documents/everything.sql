-- The functions of everything.yaml.

create function public.eco(
  p_api_key text, p_pet_id bigint, p_ids bigint[] default null, p_tags text[] default null, p_dias date[] default null,
  p_cor text default 'nenhuma', p_fator numeric default null, p_simular boolean default null
) returns jsonb language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform private.verify_key(p_api_key, 'eco');
  return jsonb_build_object('pet', p_pet_id, 'ids', p_ids, 'tags', p_tags, 'dias', p_dias, 'cor', p_cor,
    'fator', p_fator, 'simular', p_simular);
end $$;
select private.publish('public.eco');

-- The PATCH of the documentation: absent leaves, null clears.
create function public.alterar(p_api_key text, p_pet_id bigint, p_body jsonb) returns jsonb
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform private.verify_key(p_api_key, 'alterar');
  return jsonb_build_object('body', p_body, 'telefone', p_body ? 'telefone', 'texto', p_body::text);
end $$;
select private.publish('public.alterar');

create function public.receber(p_api_key text, p_body jsonb default null) returns jsonb
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform private.verify_key(p_api_key, 'receber');
  return jsonb_build_object('tipo', jsonb_typeof(p_body), 'body', p_body);
end $$;
select private.publish('public.receber');

-- PostgREST names the types of arguments, and has no rights in private.
create type public.situacao as enum ('ativa', 'suspensa');
create domain public.nota as integer check (value >= 0);
create function public.tipos(
  p_api_key text, p_situacao public.situacao, p_hora time default null, p_quando timestamp default null,
  p_duracao interval default null, p_ip inet default null, p_arquivo bytea default null, p_cores text[] default null,
  p_livre jsonb default null, p_escolha jsonb default null, p_nota public.nota default null
) returns table (
  situacao public.situacao, hora time, quando timestamp, duracao text, ip inet, arquivo text, cores text[], livre jsonb,
  escolha jsonb, nota public.nota
) language plpgsql rows 1 security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform private.verify_key(p_api_key, 'tipos');
  return query select p_situacao, p_hora, p_quando, extract(epoch from p_duracao)::text, p_ip,
    translate(encode(p_arquivo, 'base64'), E'\n', ''), p_cores, p_livre, p_escolha, p_nota;
end $$;
select private.publish('public.tipos');

create table private.cabides (
  tenant_id uuid not null references private.tenants (id),
  id uuid not null default gen_random_uuid(),
  academia_id uuid,
  numero integer not null,
  situacao public.situacao not null default 'ativa',
  desde date not null default '2024-01-01',
  preco double precision not null default 0,
  atributos jsonb not null default '{}',
  etiquetas text[] not null default '{}',
  primary key (tenant_id, id),
  constraint cabides_numero unique (tenant_id, numero)
);
select private.isolate('private.cabides');
alter table private.cabides
  add constraint cabides_academia foreign key (tenant_id, academia_id) references private.academias (tenant_id, id);
grant select, insert, update, delete on private.cabides to gateway_functions;

create function public.listar_cabides(p_api_key text, p_situacao public.situacao default null, p_desde date default null)
returns table (data jsonb, links jsonb)
language plpgsql stable rows 1 security definer set search_path = pg_catalog, pg_temp
as $$
declare
  v_tenant constant uuid := private.verify_key(p_api_key, 'listar_cabides');
begin
  return query
    select coalesce(jsonb_agg(jsonb_build_object('id', c.id, 'numero', c.numero) order by c.numero), '[]'), '{}'::jsonb
      from private.cabides c
     where c.tenant_id = v_tenant
       and (p_situacao is null or c.situacao = p_situacao)
       and (p_desde is null or c.desde >= p_desde);
end;
$$;
select private.publish('public.listar_cabides');

create function public.criar_cabide(p_api_key text, p_numero integer, p_academia_id uuid default null)
returns table (id uuid, numero integer)
language plpgsql rows 1 security definer set search_path = pg_catalog, pg_temp
as $$
declare
  v_tenant constant uuid := private.verify_key(p_api_key, 'criar_cabide');
begin
  if p_numero = 13 then
    raise sqlstate 'PT403' using message = 'Nobody may have the number 13';
  elsif p_numero = 14 then
    raise sqlstate 'PT410' using message = 'The number 14 is gone';
  elsif p_numero = 15 then
    raise sqlstate 'PT422' using message = 'no field', detail = '{}';
  elsif p_numero = 16 and not exists (select from pg_locks l where l.locktype = 'advisory' and l.objid = 16) then
    -- The lock of a session stays when its transaction is rolled back.
    perform pg_advisory_lock(16);
    raise sqlstate '40P01' using message = 'deadlock detected';
  end if;
  -- As functions do that were written for PostgREST.
  perform set_config('response.status', '201', true);
  return query
    insert into private.cabides as c (tenant_id, numero, academia_id) values (v_tenant, p_numero, p_academia_id)
    returning c.id, c.numero;
end;
$$;
select private.publish('public.criar_cabide');

create function public.obter_cabide(p_api_key text, p_id uuid)
returns table (id uuid, numero integer, situacao public.situacao, desde date, preco double precision, atributos jsonb)
language plpgsql stable rows 1 security definer set search_path = pg_catalog, pg_temp
as $$
declare
  v_tenant constant uuid := private.verify_key(p_api_key, 'obter_cabide');
begin
  return query
    select c.id, c.numero, c.situacao, c.desde, c.preco, c.atributos
      from private.cabides c where c.tenant_id = v_tenant and c.id = p_id;
end;
$$;
select private.publish('public.obter_cabide');

create function public.alterar_cabide(p_api_key text, p_id uuid, p_body jsonb)
returns table (id uuid, numero integer, situacao public.situacao, desde date, preco double precision, atributos jsonb)
language plpgsql rows 1 security definer set search_path = pg_catalog, pg_temp
as $$
declare
  v_tenant constant uuid := private.verify_key(p_api_key, 'alterar_cabide');
begin
  return query
    update private.cabides c
       set situacao = coalesce((p_body ->> 'situacao')::public.situacao, c.situacao),
           desde = coalesce((p_body ->> 'desde')::date, c.desde),
           preco = coalesce((p_body ->> 'preco')::double precision, c.preco),
           atributos = coalesce(p_body -> 'atributos', c.atributos)
     where c.tenant_id = v_tenant and c.id = p_id
    returning c.id, c.numero, c.situacao, c.desde, c.preco, c.atributos;
end;
$$;
select private.publish('public.alterar_cabide');

create function public.apagar_cabide(p_api_key text, p_id uuid)
returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
  v_tenant constant uuid := private.verify_key(p_api_key, 'apagar_cabide');
begin
  delete from private.cabides c where c.tenant_id = v_tenant and c.id = p_id;
  if not found then
    raise sqlstate 'PT404' using message = 'There is no such peg';
  end if;
end;
$$;
select private.publish('public.apagar_cabide');

create function public.etiquetar(p_api_key text, p_id uuid, p_body jsonb)
returns text[]
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
  v_tenant constant uuid := private.verify_key(p_api_key, 'etiquetar');
  v_etiquetas text[] := array(select jsonb_array_elements_text(p_body));
begin
  update private.cabides c set etiquetas = v_etiquetas where c.tenant_id = v_tenant and c.id = p_id
  returning c.etiquetas into v_etiquetas;
  return v_etiquetas;
end;
$$;
select private.publish('public.etiquetar');

create function public.buscar(p_api_key text, p_body jsonb)
returns table (id uuid, numero integer)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
as $$
declare
  v_tenant constant uuid := private.verify_key(p_api_key, 'buscar');
begin
  return query
    select c.id, c.numero from private.cabides c
     where c.tenant_id = v_tenant
       and (p_body -> 'numeros' is null or p_body -> 'numeros' @> to_jsonb(c.numero))
       and (p_body -> 'abaixo' is null or c.preco < (p_body ->> 'abaixo')::double precision)
     order by c.numero;
end;
$$;
select private.publish('public.buscar');

create function public.listar_numeros(p_api_key text)
returns integer[]
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
as $$
declare
  v_tenant constant uuid := private.verify_key(p_api_key, 'listar_numeros');
begin
  return array(select c.numero from private.cabides c where c.tenant_id = v_tenant order by 1);
end;
$$;
select private.publish('public.listar_numeros');

create function public.renumerar(p_api_key text)
returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
  perform private.verify_key(p_api_key, 'renumerar');
end;
$$;
select private.publish('public.renumerar');
