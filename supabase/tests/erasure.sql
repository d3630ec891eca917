-- What is deleted with a student and with a tenant, and what stays.

begin;
\ir setup.psql

select plan(28);

insert into private.tenants (id, name) values
  ('e0000000-0000-4000-8000-000000000001', 'Academia Um'),
  ('e0000000-0000-4000-8000-000000000002', 'Academia Dois');
insert into private.api_keys (tenant_id, name, key_hash) values
  ('e0000000-0000-4000-8000-000000000001', 'Um', sha256('test_um')),
  ('e0000000-0000-4000-8000-000000000002', 'Dois', sha256('test_dois'));
-- Both tenants have the same ids.
insert into private.academias (tenant_id, id, nome)
select t.id, 'e1000000-0000-4000-8000-000000000001', 'Centro' from private.tenants t where t.name like 'Academia %';
insert into private.personais (tenant_id, id, nome, email, academia_id)
select a.tenant_id, 'e2000000-0000-4000-8000-000000000001', 'Bruno', 'b@um.example', a.id from private.academias a
 where a.id = 'e1000000-0000-4000-8000-000000000001';
insert into private.alunos (tenant_id, id, nome, email)
select p.tenant_id, n.id::uuid, n.nome, 'a@um.example'
  from private.personais p,
       (values ('e3000000-0000-4000-8000-000000000001', 'Ana'), ('e3000000-0000-4000-8000-000000000002', 'Eva')) n (id, nome)
 where p.id = 'e2000000-0000-4000-8000-000000000001';
insert into private.treinos (tenant_id, nome, aluno_id, personal_id, data_inicio)
select a.tenant_id, 'Força', a.id, 'e2000000-0000-4000-8000-000000000001', '2026-01-01'
  from private.alunos a where a.email = 'a@um.example';
insert into private.anamneses (tenant_id, aluno_id, status)
select a.tenant_id, a.id, 'pendente' from private.alunos a where a.email = 'a@um.example';
insert into private.anamnese_secoes (tenant_id, titulo, ordem)
select t.id, 'Objetivos', 1 from private.tenants t where t.name like 'Academia %';
insert into private.idempotency_keys (tenant_id, key, request_hash, response)
select a.tenant_id, a.nome, sha256('test'), to_jsonb(a) from private.alunos a where a.email = 'a@um.example'
union all
select t.tenant_id, t.id::text, sha256('test'), to_jsonb(t) from private.treinos t where t.nome = 'Força';

create function pg_temp.counts(p_tenant uuid)
returns text
language plpgsql
as $$
declare
  v_table regclass;
  v_count bigint;
  v_counts text := '';
begin
  for v_table in select t.name from private.tenant_tables() t order by t.name::text loop
    execute format('select count(*) from %s where tenant_id = $1', v_table) into v_count using p_tenant;
    -- This test writes nothing into tables that were added, and changes have a test of their own.
    continue when v_count = 0 or v_table = 'private.changes'::regclass;
    v_counts := v_counts || replace(v_table::text, 'private.', ' ') || ' ' || v_count;
  end loop;
  return v_counts;
end;
$$;

select results_eq(
  $$ select key, jsonb_array_length(value) from
       jsonb_each(private.student_data('e0000000-0000-4000-8000-000000000001', 'e3000000-0000-4000-8000-000000000001'))
      order by key $$,
  $$ values ('alunos', 1), ('anamneses', 1), ('changes', 3), ('idempotency_keys', 2), ('treinos', 1) $$,
  'the data of a student is of every table that refers to it, and the kept responses of all its rows'
);
select is(
  (private.student_data('e0000000-0000-4000-8000-000000000001', 'e3000000-0000-4000-8000-000000000001')
    #>> '{treinos,0,aluno_id}'),
  'e3000000-0000-4000-8000-000000000001',
  'it is of this student alone'
);
select results_eq(
  $$ select name, deleted from
       private.erase_student('e0000000-0000-4000-8000-000000000001', 'e3000000-0000-4000-8000-000000000001') $$,
  $$ values ('private.anamneses', 1::bigint), ('private.treinos', 1), ('private.alunos', 1), ('private.idempotency_keys', 2) $$,
  'an erasure deletes the student after what refers to it, and the kept responses of all these rows'
);
select is(
  pg_temp.counts('e0000000-0000-4000-8000-000000000001'),
  ' academias 1 alunos 1 anamnese_secoes 1 anamneses 1 api_keys 1 idempotency_keys 2 personais 1 treinos 1',
  'the tenant keeps everything else'
);
select is(
  pg_temp.counts('e0000000-0000-4000-8000-000000000002'),
  ' academias 1 alunos 2 anamnese_secoes 1 anamneses 2 api_keys 1 idempotency_keys 4 personais 1 treinos 2',
  'another tenant keeps a student of the same id'
);
select throws_ok(
  $$ select private.erase_student('e0000000-0000-4000-8000-000000000001', 'e3000000-0000-4000-8000-000000000001') $$,
  'P0002', 'the tenant has no student e3000000-0000-4000-8000-000000000001',
  'a student is erased once'
);
select private.repeat_erasures(jsonb_build_array(jsonb_build_object(
  'tenant', 'e0000000-0000-4000-8000-000000000001', 'student', 'e3000000-0000-4000-8000-000000000001', 'erased_at', t.erased_at
))) from (values ('2001-01-01'), ('2100-01-01'), ('2002-01-01')) as t (erased_at);
select results_eq(
  $$ select e.erased_at from private.erasures e where e.student = 'e3000000-0000-4000-8000-000000000001' $$,
  $$ values (timestamptz '2100-01-01') $$,
  'and recorded with the time of the last erasure, whichever list was repeated'
);
select throws_ok(
  $$ select private.student_data('e0000000-0000-4000-8000-000000000001', 'e3000000-0000-4000-8000-000000000001') $$,
  'P0002', 'the tenant has no student e3000000-0000-4000-8000-000000000001',
  'nothing is left to show'
);
select is_empty(
  $$ select from public.listar_treinos('test_um', p_id_aluno => 'e3000000-0000-4000-8000-000000000001') $$,
  'a filter by the id finds what a filter by no id finds'
);
select throws_ok(
  $$ select public.listar_alunos('test_um', p_after => 'e3000000-0000-4000-8000-000000000001') $$,
  'PT422', 'must be the id of a record of the tenant',
  'and after refuses it like one that never was'
);

-- A table that an administrator has added, with a column of the name that rows have in the functions.
create table private.fichas (
  tenant_id uuid not null references private.tenants (id),
  id uuid not null default gen_random_uuid(),
  aluno_id uuid not null,
  parceiro_id uuid,
  r integer,
  primary key (tenant_id, id)
);
select private.isolate('private.fichas');
alter table private.fichas add foreign key (tenant_id, aluno_id) references private.alunos (tenant_id, id);
alter table private.fichas add foreign key (tenant_id, parceiro_id) references private.alunos (tenant_id, id);
insert into private.fichas (tenant_id, id, aluno_id)
select a.tenant_id, a.id, a.id from private.alunos a where a.tenant_id = 'e0000000-0000-4000-8000-000000000002';
-- Rows of rows: of a row itself too, and one that outlives the row that it refers to.
create table private.medidas (
  tenant_id uuid not null references private.tenants (id),
  id uuid not null default gen_random_uuid(),
  ficha_id uuid,
  anterior_id uuid,
  primary key (tenant_id, id),
  foreign key (tenant_id, ficha_id) references private.fichas (tenant_id, id),
  foreign key (tenant_id, anterior_id) references private.medidas (tenant_id, id)
);
create table private.avisos (
  tenant_id uuid not null references private.tenants (id),
  id uuid not null default gen_random_uuid(),
  ficha_id uuid,
  aluno_id uuid,
  primary key (tenant_id, id),
  foreign key (tenant_id, ficha_id) references private.fichas (tenant_id, id) on delete set null (ficha_id)
);
select private.isolate('private.medidas');
select private.isolate('private.avisos');
alter table private.avisos
  add foreign key (tenant_id, aluno_id) references private.alunos (tenant_id, id) on delete set null (aluno_id);
insert into private.medidas (tenant_id, ficha_id) select f.tenant_id, f.id from private.fichas f;
insert into private.avisos (tenant_id, ficha_id, aluno_id) select f.tenant_id, f.id, f.aluno_id from private.fichas f;
insert into private.fichas (tenant_id, aluno_id, parceiro_id)
values ('e0000000-0000-4000-8000-000000000002', 'e3000000-0000-4000-8000-000000000002', 'e3000000-0000-4000-8000-000000000001');
-- A table with numbers for ids, and a response with one of them.
create table private.senhas (
  tenant_id uuid not null references private.tenants (id),
  id integer not null,
  aluno_id uuid not null,
  primary key (tenant_id, id)
);
select private.isolate('private.senhas');
alter table private.senhas add foreign key (tenant_id, aluno_id) references private.alunos (tenant_id, id);
insert into private.senhas
values ('e0000000-0000-4000-8000-000000000002', 7, 'e3000000-0000-4000-8000-000000000001');
insert into private.idempotency_keys (tenant_id, key, request_hash, response)
values
  ('e0000000-0000-4000-8000-000000000002', 'sete', sha256('test'), '{"id": 7}'),
  ('e0000000-0000-4000-8000-000000000002', 'outro', sha256('test'), '{"id": 8, "ordem": 7}'),
  ('e0000000-0000-4000-8000-000000000002', 'aluno', sha256('test'), '{"alunos": [{"aluno_id": "e3000000-0000-4000-8000-000000000001"}]}');
select is(
  (select array_agg(k.value ->> 'key' order by k.value ->> 'key')
     from jsonb_array_elements(
            private.student_data('e0000000-0000-4000-8000-000000000002', 'e3000000-0000-4000-8000-000000000001') -> 'idempotency_keys'
          ) k
    where k.value ->> 'key' in ('Ana', 'sete')),
  array['Ana'],
  'the data of a student has no response that may be of somebody else'
);
select results_eq(
  $$ select key, jsonb_array_length(value) from
       jsonb_each(private.student_data('e0000000-0000-4000-8000-000000000002', 'e3000000-0000-4000-8000-000000000001'))
      where key in ('fichas', 'medidas', 'avisos') order by key $$,
  $$ values ('fichas', 2), ('medidas', 1) $$,
  'the data of a student has the rows of both columns, and rows of its rows'
);
select is(
  (private.student_data('e0000000-0000-4000-8000-000000000002', 'e3000000-0000-4000-8000-000000000001')
    #>> '{fichas,0,aluno_id}'),
  'e3000000-0000-4000-8000-000000000001',
  'the data of a student has whole rows'
);
select is(
  (select e.deleted
     from private.erase_student('e0000000-0000-4000-8000-000000000002', 'e3000000-0000-4000-8000-000000000001') e
    where e.name = 'private.fichas'),
  2::bigint,
  'a table of later is erased from too'
);
select results_eq(
  $$ select i.key from private.idempotency_keys i
      where i.tenant_id = 'e0000000-0000-4000-8000-000000000002' and i.key in ('Ana', 'sete', 'outro', 'aluno') $$,
  array['outro'],
  'and no kept response is left that may be of its rows, or names one of them'
);
select is(
  (select count(*) from private.medidas m where m.tenant_id = 'e0000000-0000-4000-8000-000000000002'),
  1::bigint,
  'and so is one that refers to it'
);
select is(
  (select array_agg(a.ficha_id order by a.ficha_id) from private.avisos a where a.tenant_id = 'e0000000-0000-4000-8000-000000000002'),
  array['e3000000-0000-4000-8000-000000000002', null]::uuid[],
  'but rows that outlive those that they refer to stay'
);
select is(
  (select array_agg(a.aluno_id order by a.aluno_id) from private.avisos a where a.tenant_id = 'e0000000-0000-4000-8000-000000000002'),
  array['e3000000-0000-4000-8000-000000000002', null]::uuid[],
  'also those that referred to the student'
);
select is_empty(
  $$ select from private.changes c
      where c.resource = 'fichas' and c.kind = 'criado' and c.records @> array['e3000000-0000-4000-8000-000000000001'] $$,
  'and its changes forget the id'
);
-- Rows of others that refer to those of a student, in the same table.
create table private.indicacoes (
  tenant_id uuid not null references private.tenants (id),
  id uuid not null default gen_random_uuid(),
  aluno_id uuid not null,
  indicada_por uuid,
  primary key (tenant_id, id),
  foreign key (tenant_id, indicada_por) references private.indicacoes (tenant_id, id) deferrable initially deferred
);
select private.isolate('private.indicacoes');
alter table private.indicacoes add foreign key (tenant_id, aluno_id) references private.alunos (tenant_id, id);
insert into private.alunos (tenant_id, id, nome, email)
select 'e0000000-0000-4000-8000-000000000002', ('e3000000-0000-4000-8000-00000000001' || n)::uuid, 'Rui', 'r@um.example'
  from generate_series(1, 2) n;
insert into private.indicacoes (tenant_id, id, aluno_id, indicada_por)
select a.tenant_id, a.id, a.id, n.id::uuid
  from private.alunos a
  cross join (values ('e3000000-0000-4000-8000-000000000011')) n (id)
 where a.email = 'r@um.example';
set constraints all immediate;
set constraints all deferred;
savepoint before_erasure;
select private.erase_student('e0000000-0000-4000-8000-000000000002', 'e3000000-0000-4000-8000-000000000011');
set constraints all immediate;
select results_eq(
  $$ select id, indicada_por from private.indicacoes where tenant_id = 'e0000000-0000-4000-8000-000000000002' $$,
  $$ values ('e3000000-0000-4000-8000-000000000012'::uuid, null::uuid) $$,
  'a row of another that refers to an erased row of its table stays, without the reference'
);
rollback to before_erasure;
alter table private.indicacoes alter column indicada_por set not null;
select throws_ok(
  $$ select private.erase_student('e0000000-0000-4000-8000-000000000002', 'e3000000-0000-4000-8000-000000000011') $$,
  '55000', 'rows of others in private.indicacoes refer by indicada_por to those of student e3000000-0000-4000-8000-000000000011',
  'unless the column takes no null'
);
select lives_ok(
  $$ select private.erase_student('e0000000-0000-4000-8000-000000000002', 'e3000000-0000-4000-8000-000000000012') $$,
  'which is nothing to a student to whose rows no others refer'
);
-- A table that is none of a tenant's keeps the student.
create table private.recados (
  tenant_id uuid,
  aluno_id uuid,
  foreign key (tenant_id, aluno_id) references private.alunos (tenant_id, id)
);
insert into private.recados
values ('e0000000-0000-4000-8000-000000000002', 'e3000000-0000-4000-8000-000000000011');
select throws_ok(
  $$ select private.repeat_erasures(jsonb_build_array(
       jsonb_build_object('tenant', 'e0000000-0000-4000-8000-000000000002', 'student', 'e3000000-0000-4000-8000-000000000011',
                          'erased_at', now()))) $$,
  '55000', 'student e3000000-0000-4000-8000-000000000011 of tenant e0000000-0000-4000-8000-000000000002 cannot be erased: update or delete on table "alunos" violates foreign key constraint "recados_tenant_id_aluno_id_fkey" on table "recados"',
  'a list that is repeated says which student cannot be erased'
);
drop table private.recados;
set constraints all immediate;
set constraints all deferred;
-- Tables that refer to each other have an order by the key that is not deferred.
alter table private.fichas add ultima_id uuid;
alter table private.fichas
  add foreign key (tenant_id, ultima_id) references private.medidas (tenant_id, id) deferrable initially deferred;
select is(
  (select sum(d.deleted) from private.delete_tenant('e0000000-0000-4000-8000-000000000002') d where d.name <> 'private.changes'),
  16::numeric,
  'a tenant is deleted with all its rows'
);
select is(
  pg_temp.counts('e0000000-0000-4000-8000-000000000002'),
  '',
  'nothing is left of it'
);
select is_empty(
  $$ select from private.tenants t where t.id = 'e0000000-0000-4000-8000-000000000002' $$,
  'not even the tenant'
);
select throws_ok(
  $$ select public.listar_alunos('test_dois') $$, 'PT401', 'API Key inválida', 'its keys are unknown'
);
select throws_ok(
  $$ select private.delete_tenant('e0000000-0000-4000-8000-000000000002') $$,
  'P0002', 'there is no tenant e0000000-0000-4000-8000-000000000002',
  'a tenant is deleted once'
);

select * from finish();
rollback;
