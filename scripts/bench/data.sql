-- The data of the benchmark: bench.tenants tenants with bench.students students each, the same in every run. Ids contain the
-- numbers of their tenant and row, so that references need no lookup.

-- The generated foreign keys are valid: checking them would take as long as inserting the rows.
set session_replication_role = replica;

-- The indexes are created again at the end, which is faster than updating them for every row.
create temporary table index_to_make as
select format('drop index %s', i.indexrelid::regclass) as drop, pg_get_indexdef(i.indexrelid) as make
  from pg_index i
  join pg_class c on c.oid = i.indrelid
 where c.relnamespace = 'private'::regnamespace
   and not i.indisunique;

create function pg_temp.run(p_sql text)
returns void
language plpgsql
as $$
begin
  execute p_sql;
end;
$$;
select pg_temp.run(drop) from index_to_make;

create function pg_temp.id(p_kind integer, p_tenant integer, p_row integer)
returns uuid
language sql
immutable
return (lpad(to_hex(p_kind), 8, '0') || '-0000-4000-8000-' || lpad(to_hex(p_tenant), 5, '0')
        || lpad(to_hex(p_row), 7, '0'))::uuid;

create temporary table tenant as
select n as number, pg_temp.id(1, n, 0) as id
  from generate_series(1, current_setting('bench.tenants')::integer) n;

insert into private.tenants (id, name, created_at)
select id, 'Academia ' || number, timestamptz '2024-01-01 09:00:00+00' + number * interval '1 minute'
  from tenant;

insert into private.api_keys (tenant_id, id, name, prefix, key_hash, created_at)
select t.id, pg_temp.id(2, t.number, 0), 'Painel', left(k.key, 17), sha256(convert_to(k.key, 'UTF8')), '2024-01-01 09:00:00+00'
  from tenant t
 -- The same key as toKey in data.ts.
 cross join lateral (select 'wms_live_' || left(encode(sha256(convert_to('tenant ' || t.number, 'UTF8')), 'hex'), 38)) k (key);

insert into private.academias (tenant_id, id, nome, ativo, criado_em)
select t.id, pg_temp.id(3, t.number, n), 'Unidade ' || n, n < 3, timestamptz '2024-01-02 09:00:00+00' + n * interval '1 hour'
  from tenant t, generate_series(0, 3) n;

insert into private.personais (tenant_id, id, nome, email, ativo, academia_id, criado_em)
select t.id, pg_temp.id(4, t.number, n), 'Personal ' || n, 'personal' || n || '@bench.example', n % 7 <> 6,
       pg_temp.id(3, t.number, n % 4), timestamptz '2024-01-03 09:00:00+00' + n * interval '1 hour'
  from tenant t, generate_series(0, 19) n;

-- Each name is one of 25 first names and two of 50 last names. A search for the first two finds 14 or 15 of 5,000 students, or none.
insert into private.alunos
  (tenant_id, id, nome, email, telefone, sexo, data_nascimento, academia_id, modalidade, personal_id, ativo, criado_em)
select t.id, pg_temp.id(5, t.number, n),
       (array['Ana', 'Antônio', 'Beatriz', 'Caio', 'Cecília', 'Davi', 'Eduarda', 'Érica', 'Felipe', 'Flávia',
              'Gustavo', 'Heloísa', 'Inês', 'João', 'Júlia', 'Luís', 'Mônica', 'Nuno', 'Olívia', 'Patrícia',
              'Ruy', 'Sônia', 'Tomás', 'Úrsula', 'Vítor'])[1 + n % 25]
         || ' ' || l.names[1 + n / 7 % 50] || ' ' || l.names[1 + n / 25 % 50],
       'aluno' || n || '@tenant' || t.number || '.example',
       '+55 11 9' || lpad(n::text, 8, '0'),
       (array['feminino', 'masculino', null])[1 + n % 3],
       date '1960-01-01' + n % 18000,
       case when n % 8 <> 0 then pg_temp.id(3, t.number, n % 4) end,
       (array['musculação', 'natação', 'pilates', null])[1 + n % 4],
       case when n % 5 <> 0 then pg_temp.id(4, t.number, n % 20) end,
       n % 10 <> 0,
       timestamptz '2024-02-01 08:00:00+00' + n * interval '1 minute'
  from tenant t
 cross join (select array['Alves', 'Amaral', 'Araújo', 'Assunção', 'Azevedo', 'Barbosa', 'Barros', 'Brandão', 'Brito',
                          'Cardoso', 'Carvalho', 'Castro', 'Conceição', 'Correia', 'Costa', 'Cunha', 'Dias', 'Duarte',
                          'Esteves', 'Faria', 'Fernandes', 'Figueira', 'Fonseca', 'Freitas', 'Gomes', 'Gonçalves',
                          'Leão', 'Lima', 'Lopes', 'Macedo', 'Magalhães', 'Marques', 'Martins', 'Matos', 'Melo',
                          'Mendes', 'Moraes', 'Moura', 'Nogueira', 'Oliveira', 'Pacheco', 'Peixoto', 'Pinto', 'Ramos',
                          'Ribeiro', 'Rocha', 'Santana', 'Simões', 'Teixeira', 'Vieira']) l (names)
 cross join generate_series(0, current_setting('bench.students')::integer - 1) n;

-- A workout for each student, and an anamnesis for every fifth.
insert into private.treinos (tenant_id, id, nome, aluno_id, personal_id, ativo, data_inicio, criado_em)
select t.id, pg_temp.id(6, t.number, n), 'Treino ' || chr(65 + n % 26), pg_temp.id(5, t.number, n), pg_temp.id(4, t.number, n % 20),
       n % 4 <> 0, date '2024-03-01' + n % 365, timestamptz '2024-03-01 08:00:00+00' + n * interval '1 minute'
  from tenant t, generate_series(0, current_setting('bench.students')::integer - 1) n;

insert into private.anamneses (tenant_id, id, aluno_id, status, resposta, criado_em)
select t.id, pg_temp.id(7, t.number, n), pg_temp.id(5, t.number, n), case when n % 3 = 0 then 'pendente' else 'concluida' end,
       jsonb_build_object('objetivo', 'saúde', 'fumante', n % 7 = 0, 'horas_de_sono', 5 + n % 5),
       timestamptz '2024-04-01 08:00:00+00' + n * interval '1 minute'
  from tenant t, generate_series(0, current_setting('bench.students')::integer - 1, 5) n;

insert into private.anamnese_secoes (tenant_id, id, titulo, ordem, ativo)
select t.id, pg_temp.id(8, t.number, n), 'Seção ' || n, n, n <> 4
  from tenant t, generate_series(1, 8) n;

select pg_temp.run(make) from index_to_make;

set session_replication_role = default;
