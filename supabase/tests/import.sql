-- The import and the export, which are in the hands of administrators.

begin;
\ir setup.psql

select plan(23);

insert into private.tenants (id, name) values
  ('e0000000-0000-4000-8000-000000000001', 'Academia Um'),
  ('e0000000-0000-4000-8000-000000000002', 'Academia Dois');
insert into private.academias (tenant_id, id, nome) values
  ('e0000000-0000-4000-8000-000000000001', 'e1000000-0000-4000-8000-000000000001', 'Um'),
  ('e0000000-0000-4000-8000-000000000001', 'e1000000-0000-4000-8000-000000000003', 'Gêmea'),
  ('e0000000-0000-4000-8000-000000000001', 'e1000000-0000-4000-8000-000000000004', 'GÊMEA'),
  ('e0000000-0000-4000-8000-000000000002', 'e1000000-0000-4000-8000-000000000002', 'Dois');

-- What an administrator may add.
create table private.planos (
  tenant_id uuid not null references private.tenants (id),
  id uuid not null default gen_random_uuid(),
  nome text not null unique constraint planos_nome_length check (char_length(nome) <= 100),
  preco numeric(8, 2) not null check (preco >= 0),
  primary key (tenant_id, id)
);
select private.isolate('private.planos');
create table private.contratos (
  tenant_id uuid not null references private.tenants (id),
  id uuid not null default gen_random_uuid(),
  plano_id uuid not null,
  numero integer generated always as identity,
  primary key (tenant_id, id)
);
select private.isolate('private.contratos');
alter table private.contratos add foreign key (tenant_id, plano_id) references private.planos (tenant_id, id);

create temporary view imported as
select a.tenant_id, a.nome, a.email, a.telefone, a.data_nascimento, a.academia_id, a.ativo, a.criado_em
  from private.alunos a
 where a.tenant_id in ('e0000000-0000-4000-8000-000000000001', 'e0000000-0000-4000-8000-000000000002');

select results_eq(
  -- Tables that were added are elsewhere in the order.
  $$
    select t.name::text
      from private.data_tables() t
     where t.name::text in ('private.academias', 'private.personais', 'private.alunos', 'private.planos', 'private.anamnese_secoes',
                            'private.anamneses', 'private.contratos', 'private.treinos', 'private.api_keys')
  $$,
  $$
    values ('private.academias'), ('private.personais'), ('private.alunos'), ('private.planos'),
           ('private.anamnese_secoes'), ('private.anamneses'), ('private.contratos'), ('private.treinos')
  $$,
  'each table is after those that it refers to, also those of an administrator; keys are none of a tenant''s data'
);
select results_eq(
  $$ select name, type, required, max_length, refers_to::text, known_by from private.data_columns('private.treinos') $$,
  $$
    values ('id', 'uuid', false, null::integer, null, null),
           ('nome', 'text', true, 255, null, null),
           ('aluno_id', 'uuid', true, null, 'private.alunos', 'email'),
           ('personal_id', 'uuid', true, null, 'private.personais', 'email'),
           ('ativo', 'boolean', false, null, null, null),
           ('data_inicio', 'date', true, null, null, null),
           ('criado_em', 'timestamp with time zone', false, null, null, null)
  $$,
  'a column has what a line needs to be checked'
);
select results_eq(
  $$ select name, refers_to::text, known_by from private.data_columns('private.contratos') $$,
  $$ values ('id', null, null), ('plano_id', 'private.planos', 'nome') $$,
  'a column that Postgres fills in is none of a file'
);

select results_eq(
  $$
    select value, id from private.find_records(
      'e0000000-0000-4000-8000-000000000001', 'private.academias', 'nome',
      '["UM", "Dois", "gêmea", "e1000000-0000-4000-8000-000000000001", "e1000000000040008000000000000001",
        "e1000000-0000-4000-8000-000000000002"]'
    ) order by value collate "C", id
  $$,
  $$
    values ('UM', 'e1000000-0000-4000-8000-000000000001'::uuid),
           ('e1000000-0000-4000-8000-000000000001', 'e1000000-0000-4000-8000-000000000001'),
           ('e1000000000040008000000000000001', 'e1000000-0000-4000-8000-000000000001'),
           ('gêmea', 'e1000000-0000-4000-8000-000000000003'),
           ('gêmea', 'e1000000-0000-4000-8000-000000000004')
  $$,
  'a record is found by its id and by its name, in any case, and never in another tenant'
);

select is_empty(
  $$
    select * from private.import_rows('e0000000-0000-4000-8000-000000000001', 'private.alunos', '[
      {"line": 2, "fields": {"nome": "Ana", "email": "ana@um.example", "telefone": "1", "data_nascimento": "2001-02-28",
                             "academia_id": "e1000000-0000-4000-8000-000000000001", "ativo": "false"}},
      {"line": 3, "fields": {"nome": "Caio", "email": "caio@um.example"}},
      {"line": 4, "fields": {"nome": "Bia", "email": "bia@um.example", "criado_em": "2024-05-01T10:00:00Z"}}
    ]')
  $$,
  'lines that are good are not returned'
);
select results_eq(
  'select nome, email, telefone, data_nascimento, academia_id, ativo from imported order by nome',
  $$
    values ('Ana', 'ana@um.example', '1', date '2001-02-28', 'e1000000-0000-4000-8000-000000000001'::uuid, false),
           ('Bia', 'bia@um.example', null, null, null, true),
           ('Caio', 'caio@um.example', null, null, null, true)
  $$,
  'each becomes a row with its fields, and the defaults of the table'
);
select results_eq(
  'select nome from imported order by criado_em',
  $$ values ('Bia'), ('Ana'), ('Caio') $$,
  'the rows are in the order of their lines, except for those that name the time of their creation'
);
select ok(
  exists (select from pg_class where relname = 'alunos_by_name_parts' and 'fastupdate=off' = any (reloptions)),
  'the index of names is as before'
);
select is_empty(
  $$ select * from private.import_rows('e0000000-0000-4000-8000-000000000001', 'private.alunos', '[]') $$,
  'no lines are good'
);

select results_eq(
  $$
    select * from private.import_rows('e0000000-0000-4000-8000-000000000002', 'private.alunos', jsonb_build_array(
      jsonb_build_object('line', 2, 'fields', jsonb_build_object('nome', 'Boa', 'email', 'boa@dois.example')),
      jsonb_build_object('line', 3, 'fields',
                         jsonb_build_object('nome', 'Longa', 'email', 'b@dois.example', 'telefone', repeat('9', 41))),
      jsonb_build_object('line', 4, 'fields', jsonb_build_object('nome', 'Data', 'email', 'd@dois.example',
                                                                 'data_nascimento', '2001-02-29')),
      jsonb_build_object('line', 6, 'fields', jsonb_build_object('nome', 'Alheia', 'email', 'a@dois.example',
                                                                 'academia_id', 'e1000000-0000-4000-8000-000000000001'))
    ))
  $$,
  $$
    values (3, 'telefone', 'must satisfy (char_length(telefone) <= 40)'),
           (4, 'data_nascimento', 'date/time field value out of range: "2001-02-29"'),
           (6, 'academia_id',
            'insert or update on table "alunos" violates foreign key constraint "alunos_tenant_id_academia_id_fkey"')
  $$,
  'every line that the table refuses is returned, with the reason'
);
select results_eq(
  $$
    select * from private.import_rows('e0000000-0000-4000-8000-000000000001', 'private.planos', '[
      {"line": 2, "fields": {"id": "e2000000-0000-4000-8000-000000000001", "nome": "Mensal", "preco": "99.90"}},
      {"line": 3, "fields": {"id": "e2000000-0000-4000-8000-000000000001", "nome": "Anual", "preco": "999.00"}},
      {"line": 4, "fields": {"nome": "Mensal", "preco": "1"}},
      {"line": 5, "fields": {"nome": "Grátis", "preco": "-1"}},
      {"line": 6, "fields": {"nome": "Caro", "preco": "9999999"}}
    ]')
  $$,
  $$
    values (3, 'id', 'must not be that of another record'),
           (4, 'nome', 'must not be that of another record'),
           (5, 'preco', 'must satisfy (preco >= (0)::numeric)'),
           (6, 'preco', 'numeric field overflow')
  $$,
  'the rules of an administrator''s table are kept too'
);
select results_eq(
  $$
    select f.line, p.nome
      from private.find_rows('e0000000-0000-4000-8000-000000000001', 'private.planos', array['nome', 'preco'], '[
        {"line": 2, "fields": {"nome": "MENSAL", "preco": "99.9"}},
        {"line": 3, "fields": {"nome": "Mensal", "preco": "99.91"}}
      ]') f
      join private.planos p on p.id = f.id
  $$,
  $$ values (2, 'Mensal') $$,
  'a record is found by columns of several types, in any case'
);
create domain private.placa as text check (value ~ '^[A-Z]{3}$');
create table private.pesagens (
  tenant_id uuid not null references private.tenants (id),
  id uuid not null default gen_random_uuid(),
  dia date not null,
  nota text check (char_length(nota) <= 100),
  peso numeric(5, 2) default 10.5,
  dados json check (octet_length(dados::text) <= 100),
  lugar point,
  placa private.placa,
  marcas text[] check (cardinality(marcas) <= 10),
  visto boolean not null default ('a(' = 'b'),
  criado_em timestamptz not null default now(),
  primary key (tenant_id, id)
);
select private.isolate('private.pesagens');
insert into private.pesagens (tenant_id, dia, nota, peso) values
  ('e0000000-0000-4000-8000-000000000001', '2026-01-01', 'Jejum', 10.5),
  ('e0000000-0000-4000-8000-000000000001', '2026-01-01', null, 20);
select results_eq(
  $$
    select f.line, p.peso
      from private.find_rows(
             'e0000000-0000-4000-8000-000000000001', 'private.pesagens', array['id', 'dia', 'nota', 'peso', 'visto', 'criado_em'], '[
        {"line": 2, "fields": {"dia": "2026-01-01"}},
        {"line": 3, "fields": {"dia": "2026-01-01", "nota": "JEJUM"}},
        {"line": 4, "fields": {"dia": "2026-01-01", "peso": "20", "visto": "false"}},
        {"line": 5, "fields": {"dia": "2026-01-01", "nota": "Jejum", "peso": "20"}},
        {"line": 6, "fields": {"dia": "2026-01-01", "nota": "Jejum", "visto": "true"}}
      ]') f
      join private.pesagens p on p.id = f.id
     order by f.line
  $$,
  $$ values (3, 10.5), (4, 20) $$,
  'an empty value is a null or the default, or nothing where the default is computed'
);
select results_eq(
  $$
    select * from private.import_rows('e0000000-0000-4000-8000-000000000001', 'private.pesagens', '[
      {"line": 2, "fields": {"dia": "2026-01-01", "placa": "abc"}}
    ]')
  $$,
  $$ values (2, 'placa', 'must satisfy (VALUE ~ ''^[A-Z]{3}$''::text)') $$,
  'the rule of a domain names its column'
);
insert into private.pesagens (tenant_id, dia, dados, lugar, marcas)
values ('e0000000-0000-4000-8000-000000000001', '2026-01-02', '{"a": 1}', '(1,2)', '{a}');
select results_eq(
  $$
    select f.line
      from private.find_rows(
             'e0000000-0000-4000-8000-000000000001', 'private.pesagens', array['dia', 'dados', 'lugar', 'marcas'], '[
        {"line": 2, "fields": {"dia": "2026-01-02", "dados": "{\"a\":1}", "lugar": "(1.0,2)", "marcas": "{a}"}},
        {"line": 3, "fields": {"dia": "2026-01-02", "dados": "{\"a\":2}", "lugar": "(1,2)", "marcas": "{a}"}},
        {"line": 4, "fields": {"dia": "2026-01-02", "dados": "{\"a\":1}", "lugar": "(1,3)", "marcas": "{a}"}},
        {"line": 5, "fields": {"dia": "2026-01-02", "dados": "{\"a\":1}", "lugar": "(1,2)", "marcas": "{a,b}"}}
      ]') f
  $$,
  $$ values (2) $$,
  'also by columns whose types have no equality'
);
select is_empty(
  $$
    select * from private.find_rows('e0000000-0000-4000-8000-000000000002', 'private.alunos', array['email'], '[
      {"line": 2, "fields": {"email": "ana@um.example"}}
    ]')
  $$,
  'a record of another tenant is never found'
);
select private.import_rows('e0000000-0000-4000-8000-000000000002', 'private.alunos', jsonb_build_array(
         jsonb_build_object('line', 2, 'id', a.id, 'fields', jsonb_build_object('nome', 'Alheia'))
       ), true)
  from private.alunos a
 where a.email = 'ana@um.example';
select is_empty(
  $$ select from private.alunos where nome = 'Alheia' $$,
  'a record of another tenant is never changed'
);
select throws_ok(
  $$ select private.import_rows('e0000000-0000-4000-8000-00000000000f', 'private.alunos', '[]') $$,
  'P0002', 'there is no tenant e0000000-0000-4000-8000-00000000000f',
  'nothing is imported for a tenant that is not there'
);

-- Runs the query of an export.
create function pg_temp.exported(p_tenant_id uuid, p_table regclass)
returns setof text
language plpgsql
as $$
begin
  return query execute private.export_query(p_tenant_id, p_table);
end;
$$;
insert into private.anamneses (tenant_id, id, aluno_id, status, resposta, criado_em)
select a.tenant_id, 'e5000000-0000-4000-8000-000000000001', a.id, 'concluida',
       '{"peso": 61.50, "n": 12345678901234567890, "texto": "á \"b\""}', '2026-01-01T10:00:00.123456Z'
  from private.alunos a
 where a.nome = 'Ana' and a.tenant_id = 'e0000000-0000-4000-8000-000000000001';
update private.alunos set id = id; -- Leaves the order of the table to chance.
select results_eq(
  $$
    select t::json ->> 1, t::json ->> 9 from pg_temp.exported('e0000000-0000-4000-8000-000000000001', 'private.alunos') t
  $$,
  $$ values ('Bia', 'true'), ('Ana', 'false'), ('Caio', 'true') $$,
  'an export has the rows of the tenant in order of creation, with all columns as texts'
);
select set_config('timezone', 'America/Sao_Paulo', true);
select results_eq(
  $$ select pg_temp.exported('e0000000-0000-4000-8000-000000000001', 'private.anamneses')::jsonb - 1 $$,
  $$
    values (jsonb_build_array(
      'e5000000-0000-4000-8000-000000000001', 'concluida',
      '{"n": 12345678901234567890, "peso": 61.50, "texto": "á \"b\""}', '2026-01-01T07:00:00.123456-03:00'
    ))
  $$,
  'a number and a time lose no digit'
);
select is_empty(
  $$ select pg_temp.exported('e0000000-0000-4000-8000-000000000002', 'private.anamneses') $$,
  'an export has no rows of another tenant'
);
select lives_ok(
  $$ select pg_temp.exported('e0000000-0000-4000-8000-000000000001', 'private.planos') $$,
  'a table without a time of creation is exported'
);
select ok(
  not has_function_privilege('gateway_functions', 'private.import_rows(uuid, regclass, jsonb, boolean)', 'execute'),
  'no role but the administrator imports'
);

select * from finish();
rollback;
