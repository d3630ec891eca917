-- The functions of cidades.yaml.

create table private.cidades (
  tenant_id uuid not null references private.tenants (id),
  uf text not null,
  codigo integer not null,
  dados jsonb not null,
  primary key (tenant_id, codigo)
);
select private.isolate('private.cidades');
grant select, insert on private.cidades to gateway_functions;

create function public.listar_cidades(p_token text, p_uf text, p_capital boolean default false)
returns table (codigo integer, nome text, capital boolean, regiao jsonb)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_tenant constant uuid := private.verify_key(p_token, 'listar_cidades');
begin
  return query
    select c.codigo, c.dados ->> 'nome', (c.dados ->> 'capital')::boolean, c.dados -> 'regiao'
      from private.cidades c
     where c.tenant_id = v_tenant and c.uf = p_uf and (not p_capital or c.dados -> 'capital' = 'true')
     order by c.codigo;
end $$;
select private.publish('public.listar_cidades');

create function public.incluir_cidade(p_token text, p_uf text, p_body jsonb)
returns table (codigo integer, nome text, capital boolean, regiao jsonb)
language plpgsql rows 1 security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_tenant constant uuid := private.verify_key(p_token, 'incluir_cidade');
begin
  insert into private.cidades (tenant_id, uf, codigo, dados) values (v_tenant, p_uf, (p_body ->> 'codigo')::integer, p_body);
  return query
    select b.codigo, b.nome, b.capital, b.regiao
      from jsonb_to_record(p_body) as b (codigo integer, nome text, capital boolean, regiao jsonb);
end $$;
select private.publish('public.incluir_cidade');

create function public.obter_cidade(p_token text, p_uf text, p_codigo integer)
returns table (codigo integer, nome text, capital boolean, regiao jsonb)
language plpgsql stable rows 1 security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_tenant constant uuid := private.verify_key(p_token, 'obter_cidade');
begin
  return query
    select c.codigo, c.dados ->> 'nome', (c.dados ->> 'capital')::boolean, c.dados -> 'regiao'
      from private.cidades c where c.tenant_id = v_tenant and c.uf = p_uf and c.codigo = p_codigo;
end $$;
select private.publish('public.obter_cidade');

create function public.listar_regioes(p_token text)
returns table (sigla text, maior jsonb)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform private.verify_key(p_token, 'listar_regioes');
  return query
    select r.* from (values ('SE', '{"codigo": 3550308, "nome": "São Paulo"}'::jsonb), ('N', null)) as r (sigla, maior);
end $$;
select private.publish('public.listar_regioes');
