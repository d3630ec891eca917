-- The functions of agenda.yaml.

create table private.compromissos (
  tenant_id uuid not null references private.tenants (id),
  id bigint generated always as identity,
  dia date not null,
  estado text,
  responsavel jsonb,
  sala jsonb,
  duracao numeric,
  convidados text[],
  nota text,
  primary key (tenant_id, id)
);
select private.isolate('private.compromissos');
grant select, insert on private.compromissos to gateway_functions;

create function public.compromissos_listar(
  p_chave text, p_de date default null, p_estado text default null, p_duracao numeric default null, p_dias date[] default null,
  p_convidado text default null, p_limit integer default 2, p_offset integer default 0
) returns table (dia date, estado text, responsavel jsonb, sala jsonb, duracao numeric, convidados text[], nota text)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_tenant constant uuid := private.verify_key(p_chave, 'compromissos_listar');
begin
  return query
    select c.dia, c.estado, c.responsavel, c.sala, c.duracao, c.convidados, c.nota
      from private.compromissos c
     where c.tenant_id = v_tenant and (p_de is null or c.dia >= p_de) and (p_estado is null or c.estado = p_estado)
       and (p_duracao is null or c.duracao = p_duracao) and (p_dias is null or c.dia = any (p_dias))
       and (p_convidado is null or p_convidado = any (c.convidados))
     order by c.dia, c.id limit p_limit offset p_offset;
end $$;
select private.publish('public.compromissos_listar');

create function public.compromissos_criar(p_chave text, p_body jsonb)
returns table (dia date, estado text, responsavel jsonb, sala jsonb, duracao numeric, convidados text[], nota text)
language plpgsql rows 1 security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_tenant constant uuid := private.verify_key(p_chave, 'compromissos_criar');
begin
  return query
    insert into private.compromissos as c (tenant_id, dia, estado, responsavel, sala, duracao, convidados, nota)
    select v_tenant, b.dia, b.estado, nullif(b.responsavel, 'null'), nullif(b.sala, 'null'), b.duracao, b.convidados, b.nota
      from jsonb_to_record(p_body) as b (
             dia date, estado text, responsavel jsonb, sala jsonb, duracao numeric, convidados text[], nota text)
    returning c.dia, c.estado, c.responsavel, c.sala, c.duracao, c.convidados, c.nota;
end $$;
select private.publish('public.compromissos_criar');
