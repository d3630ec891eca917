-- The functions of livraria.yaml.

create table private.livros (
  tenant_id uuid not null references private.tenants (id),
  id bigint generated always as identity,
  criado_em timestamptz not null default '2024-05-01',
  titulo text not null,
  isbn text,
  preco numeric(10, 2) not null,
  autores text[] not null,
  primary key (tenant_id, id),
  constraint livros_isbn unique (tenant_id, isbn)
);
select private.isolate('private.livros');
grant select, insert, update on private.livros to gateway_functions;

create function public.listar_livros(p_api_key text, p_preco_maximo numeric default null)
returns table (itens jsonb, total bigint)
language plpgsql stable rows 1 security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_tenant constant uuid := private.verify_key(p_api_key, 'listar_livros');
begin
  return query
    select coalesce(jsonb_agg(jsonb_build_object(
             'id', l.id, 'criadoEm', l.criado_em, 'titulo', l.titulo, 'preco', l.preco, 'autores', l.autores
           ) order by l.titulo), '[]'), count(*)
      from private.livros l
     where l.tenant_id = v_tenant and (p_preco_maximo is null or l.preco <= p_preco_maximo);
end $$;
select private.publish('public.listar_livros');

create function public.cadastrar_livro(p_api_key text, p_body jsonb)
returns table (id bigint, "criadoEm" timestamptz, titulo text, isbn text, preco numeric, autores text[])
language plpgsql rows 1 security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_tenant constant uuid := private.verify_key(p_api_key, 'cadastrar_livro');
begin
  return query
    insert into private.livros as l (tenant_id, titulo, isbn, preco, autores)
    select v_tenant, b.titulo, b.isbn, b.preco, b.autores
      from jsonb_to_record(p_body) as b (titulo text, isbn text, preco numeric, autores text[])
    returning l.id, l.criado_em, l.titulo, l.isbn, l.preco, l.autores;
end $$;
select private.publish('public.cadastrar_livro');

create function public.trocar_livro(p_api_key text, p_livro_id bigint, p_body jsonb)
returns table (id bigint, "criadoEm" timestamptz, titulo text, isbn text, preco numeric, autores text[])
language plpgsql rows 1 security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_tenant constant uuid := private.verify_key(p_api_key, 'trocar_livro');
begin
  return query
    update private.livros l set titulo = b.titulo, isbn = b.isbn, preco = b.preco, autores = b.autores
      from jsonb_to_record(p_body) as b (titulo text, isbn text, preco numeric, autores text[])
     where l.tenant_id = v_tenant and l.id = p_livro_id
    returning l.id, l.criado_em, l.titulo, l.isbn, l.preco, l.autores;
end $$;
select private.publish('public.trocar_livro');
