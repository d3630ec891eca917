-- The functions of sensores.yaml.

create table private.sondas (
  tenant_id uuid not null references private.tenants (id),
  id bigint generated always as identity,
  sensor bigint not null,
  em timestamptz not null,
  valor numeric not null,
  primary key (tenant_id, id)
);
select private.isolate('private.sondas');
grant select, insert on private.sondas to gateway_functions;

create function public.enviar_sondas(p_sensor_key text, p_sensor bigint, p_body jsonb, p_unidade text default 'C')
returns integer
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_tenant constant uuid := private.verify_key(p_sensor_key, 'enviar_sondas');
begin
  insert into private.sondas (tenant_id, sensor, em, valor)
  select v_tenant, p_sensor, b.em, case p_unidade when 'F' then (b.valor - 32) / 1.8 else b.valor end
    from jsonb_to_recordset(p_body) as b (em timestamptz, valor numeric);
  return jsonb_array_length(p_body);
end $$;
select private.publish('public.enviar_sondas');

create function public.resumir_sondas(
  p_sensor_key text, p_sensor bigint, p_unidade text default 'C', p_desde timestamptz default null, p_acima numeric default null
) returns table (sensor bigint, unidade text, total integer, media double precision, ultima timestamptz)
language plpgsql stable rows 1 security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_tenant constant uuid := private.verify_key(p_sensor_key, 'resumir_sondas');
begin
  return query
    select p_sensor, p_unidade, count(*)::integer, avg(m.valor)::double precision, max(m.em)
      from private.sondas m
     where m.tenant_id = v_tenant and m.sensor = p_sensor
       and (p_desde is null or m.em >= p_desde) and (p_acima is null or m.valor > p_acima);
end $$;
select private.publish('public.resumir_sondas');

create function public.calibrar(p_sensor_key text, p_sensor bigint, p_body jsonb) returns jsonb
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform private.verify_key(p_sensor_key, 'calibrar');
  return jsonb_build_array(
    jsonb_build_array(p_body #> '{0,0}', p_body #> '{1,0}'), jsonb_build_array(p_body #> '{0,1}', p_body #> '{1,1}')
  );
end $$;
select private.publish('public.calibrar');
