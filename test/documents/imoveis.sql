-- The functions of imoveis.yaml: what they were called with.

create function public.buscar_imoveis(
  p_app_key text, p_bairro text[] default null, p_tipo text[] default null, p_quartos bigint[] default null,
  p_preco numeric[] default null, p_palavras text[] default null, p_novo boolean default null, p_corretores uuid[] default null
) returns table (
  bairros text[], tipos text[], quartos bigint[], preco numeric[], palavras text[], novo boolean, corretores uuid[]
) language plpgsql stable rows 1 security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform private.verify_key(p_app_key, 'buscar_imoveis');
  return query select p_bairro, p_tipo, p_quartos, p_preco, p_palavras, p_novo, p_corretores;
end $$;
select private.publish('public.buscar_imoveis');

create function public.buscar_lote(p_app_key text, p_codigos integer[]) returns integer[]
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform private.verify_key(p_app_key, 'buscar_lote');
  return array(select c from unnest(p_codigos) c where c < 100);
end $$;
select private.publish('public.buscar_lote');
