-- The import of students, which is in the hands of administrators.

begin;
set local client_min_messages = warning;
create extension if not exists pgtap with schema extensions;
set local search_path = extensions;

select plan(11);

insert into private.tenants (id, name) values
  ('e0000000-0000-4000-8000-000000000001', 'Academia Um'),
  ('e0000000-0000-4000-8000-000000000002', 'Academia Dois');
insert into private.academias (tenant_id, id, nome) values
  ('e0000000-0000-4000-8000-000000000001', 'e1000000-0000-4000-8000-000000000001', 'Um'),
  ('e0000000-0000-4000-8000-000000000002', 'e1000000-0000-4000-8000-000000000002', 'Dois');

create temporary view imported as
select a.tenant_id, a.nome, a.email, a.telefone, a.sexo, a.data_nascimento, a.academia_id, a.modalidade, a.ativo
  from private.alunos a
 where a.tenant_id in ('e0000000-0000-4000-8000-000000000001', 'e0000000-0000-4000-8000-000000000002');

select is_empty(
  $$
    select * from private.import_alunos('e0000000-0000-4000-8000-000000000001', '[
      {"line": 2, "p_nome": "Ana", "p_email": "ana@um.example", "p_telefone": "1", "p_sexo": "feminino",
       "p_data_nascimento": "28/02/2001", "p_academia_id": "e1000000-0000-4000-8000-000000000001",
       "p_modalidade": "pilates"},
      {"line": 3, "p_nome": "Caio", "p_email": "caio@um.example"}
    ]')
  $$,
  'lines without a mistake are not given back'
);
select results_eq(
  'select * from imported order by nome',
  $$
    values ('e0000000-0000-4000-8000-000000000001'::uuid, 'Ana', 'ana@um.example', '1', 'feminino',
            date '2001-02-28', 'e1000000-0000-4000-8000-000000000001'::uuid, 'pilates', true),
           ('e0000000-0000-4000-8000-000000000001', 'Caio', 'caio@um.example', null, null, null, null, null, true)
  $$,
  'each of them makes a student with all of its fields'
);
select results_eq(
  'select a.nome from private.alunos a where a.tenant_id = ''e0000000-0000-4000-8000-000000000001'' order by a.criado_em',
  $$ values ('Ana'), ('Caio') $$,
  'the students have the order of their lines'
);
select is_empty(
  $$
    select * from private.import_alunos('e0000000-0000-4000-8000-000000000001', '[
      {"line": 2, "p_nome": "Davi", "p_email": "davi@um.example"}
    ]', true);
  $$,
  'lines may be checked alone'
);
select is_empty(
  $$ select * from private.import_alunos('e0000000-0000-4000-8000-000000000001', '[]') $$,
  'of no lines nothing is given back'
);

select results_eq(
  $$
    select * from private.import_alunos('e0000000-0000-4000-8000-000000000002', '[
      {"line": 2, "p_nome": "Boa", "p_email": "boa@dois.example"},
      {"line": 3, "p_nome": "Data", "p_email": "data@dois.example", "p_data_nascimento": "2001-02-29"},
      {"line": 4, "p_nome": "Alheia", "p_email": "alheia@dois.example",
       "p_academia_id": "e1000000-0000-4000-8000-000000000001"},
      {"line": 5, "p_nome": "Ambas", "p_email": "ambas@dois.example", "p_data_nascimento": "ontem",
       "p_academia_id": "e1000000-0000-4000-8000-00000000000f"},
      {"line": 6, "p_nome": "Sua", "p_email": "sua@dois.example",
       "p_academia_id": "e1000000-0000-4000-8000-000000000002"}
    ]')
  $$,
  $$
    values (3, 'p_data_nascimento', 'must be a date that exists, as YYYY-MM-DD or DD/MM/YYYY'),
           (4, 'p_academia_id', 'must be the id of a gym of the tenant'),
           (5, 'p_data_nascimento', 'must be a date that exists, as YYYY-MM-DD or DD/MM/YYYY'),
           (5, 'p_academia_id', 'must be the id of a gym of the tenant')
  $$,
  'every mistake is given back, with its line and field'
);
select results_eq(
  $$
    select line, field from private.import_alunos('e0000000-0000-4000-8000-000000000002', '[
      {"line": 2, "p_nome": "Boa", "p_email": "boa@dois.example"},
      {"line": 3, "p_nome": "Ruim", "p_email": "ruim@dois.example", "p_data_nascimento": ""}
    ]')
  $$,
  $$ values (3, 'p_data_nascimento') $$,
  'a mistake in a date of birth is given back'
);
select results_eq(
  $$
    select line, field from private.import_alunos('e0000000-0000-4000-8000-000000000002', '[
      {"line": 2, "p_nome": "Boa", "p_email": "boa@dois.example"},
      {"line": 3, "p_nome": "Ruim", "p_email": "ruim@dois.example",
       "p_academia_id": "e1000000-0000-4000-8000-000000000001"}
    ]')
  $$,
  $$ values (3, 'p_academia_id') $$,
  'a mistake in the id of a gym is given back'
);
select is_empty(
  $$ select from imported where tenant_id = 'e0000000-0000-4000-8000-000000000002' $$,
  'no line makes a student where one has a mistake'
);
select throws_ok(
  $$
    select private.import_alunos('e0000000-0000-4000-8000-000000000002',
                                 '[{"line": 2, "p_nome": "", "p_email": "a@dois.example"}]')
  $$,
  '23514', null,
  'a student without a name is refused by its table'
);
select throws_ok(
  $$ select private.import_alunos('e0000000-0000-4000-8000-00000000000f', '[]') $$,
  'P0002', 'there is no tenant e0000000-0000-4000-8000-00000000000f',
  'nothing is imported for a tenant that is not there'
);

select * from finish();
rollback;
