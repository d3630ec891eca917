-- What has changed: what is recorded and when, who reads it, and how long it is kept.

begin;
\ir setup.psql

select plan(27);

insert into private.tenants (id, name) values
  ('e0000000-0000-4000-8000-000000000001', 'Academia Um'),
  ('e0000000-0000-4000-8000-000000000002', 'Academia Dois');
insert into private.api_keys (tenant_id, id, name, key_hash, permissions)
select k.tenant_id::uuid, k.id::uuid, k.key, sha256(convert_to(k.key, 'UTF8')), k.permissions
  from (values
    ('e0000000-0000-4000-8000-000000000001', 'e9000000-0000-4000-8000-000000000001', 'test_um', null::text[]),
    ('e0000000-0000-4000-8000-000000000001', 'e9000000-0000-4000-8000-000000000002', 'test_leitura', array['listar_alunos']),
    ('e0000000-0000-4000-8000-000000000002', 'e9000000-0000-4000-8000-000000000003', 'test_dois', null)
  ) as k (tenant_id, id, key, permissions);

create temporary view recorded as
select c.tenant_id, c.id, c.resource, r.record, c.kind, c.key, c.request, c.occurred_at
  from private.changes c, unnest(c.records) as r (record)
 where c.tenant_id::text like 'e0000000%';

-- What is recorded.

insert into private.academias (tenant_id, id, nome) values
  ('e0000000-0000-4000-8000-000000000001', 'e1000000-0000-4000-8000-000000000001', 'Centro'),
  ('e0000000-0000-4000-8000-000000000002', 'e1000000-0000-4000-8000-000000000001', 'Praia');
update private.academias set nome = 'Sul' where tenant_id = 'e0000000-0000-4000-8000-000000000001';
select is_empty($$ select from recorded where id > '00000001-0000-0000-0000-000000000000' $$, 'nothing has a position before the commit');
set constraints all immediate;
select results_eq(
  $$ select resource, record, kind, key, request from recorded
      where tenant_id = 'e0000000-0000-4000-8000-000000000001' order by id $$,
  $$ values ('academias', 'e1000000-0000-4000-8000-000000000001', 'criado', null::uuid, null::text),
            ('academias', 'e1000000-0000-4000-8000-000000000001', 'alterado', null, null) $$,
  'then each change has one, in its order, without a key for an administrator'
);
select is(
  (select count(*) from recorded where tenant_id = 'e0000000-0000-4000-8000-000000000002'), 1::bigint,
  'a change is of the tenant of its record alone'
);
select set_config('application_name', 'wellness-gateway pedido-1', true);
set local role gateway;
select lives_ok($$ select public.criar_aluno('test_um', 'Ana', 'ana@um.example') $$, 'a key creates a student');
reset role;
select results_eq(
  $$ select c.resource, c.kind, c.key, c.request from recorded c
       join private.alunos a on a.tenant_id = c.tenant_id and a.id::text = c.record $$,
  $$ values ('alunos', 'criado', 'e9000000-0000-4000-8000-000000000001'::uuid, 'pedido-1') $$,
  'the change has the key and the request'
);
select set_config('request.headers', '{"x-request-id": "pedido-2"}', true);
set local role gateway;
select lives_ok($$ select public.criar_aluno('test_dois', 'Eva', 'eva@dois.example') $$, 'another key creates another');
reset role;
select results_eq(
  $$ select key, request from recorded where resource = 'alunos' and tenant_id = 'e0000000-0000-4000-8000-000000000002' $$,
  $$ values ('e9000000-0000-4000-8000-000000000003'::uuid, 'pedido-2') $$,
  'the request is that of the header, where PostgREST calls'
);
select set_config('wellness.key_id', '', true);

update private.academias set id = 'e1000000-0000-4000-8000-000000000002'
 where tenant_id = 'e0000000-0000-4000-8000-000000000001';
delete from private.academias where tenant_id = 'e0000000-0000-4000-8000-000000000001';
select results_eq(
  $$ select record, kind from recorded
      where tenant_id = 'e0000000-0000-4000-8000-000000000001' and resource = 'academias' order by id offset 2 $$,
  $$ values ('e1000000-0000-4000-8000-000000000001', 'excluido'), ('e1000000-0000-4000-8000-000000000002', 'criado'),
            ('e1000000-0000-4000-8000-000000000002', 'excluido') $$,
  'another id is another record, and a deletion is a change'
);
create table private.fichas (
  tenant_id uuid not null references private.tenants (id), id integer not null, primary key (tenant_id, id)
);
select private.isolate('private.fichas');
insert into private.fichas values ('e0000000-0000-4000-8000-000000000001', 7);
select results_eq(
  $$ select record, kind from recorded where resource = 'fichas' $$, $$ values ('7', 'criado') $$,
  'a table of later is recorded too'
);

-- The order.

select is_empty(
  $$ select from recorded c where abs(extract(epoch from c.occurred_at) * 1000000
       - ('x' || left(replace(c.id::text, '-', ''), 12) || substr(c.id::text, 16, 3))::bit(60)::bigint) > 1000000 $$,
  'a position begins with the time of the commit'
);
select is_empty($$ select from recorded where id::text !~ '^.{14}8.{4}[89ab]' $$, 'it is a UUID of version 8');
insert into private.changes (tenant_id, id, resource, records, kind)
values ('e0000000-0000-4000-8000-000000000002', '0fffffff-ffff-8fff-bfff-fffffffff000', 'alunos', '{x}', 'criado');
update private.alunos set nome = 'Iva' where email = 'eva@dois.example';
select results_eq(
  $$ select left(id::text, 18) from recorded where tenant_id = 'e0000000-0000-4000-8000-000000000002'
      order by id desc limit 1 $$,
  array['10000000-0000-8000'],
  'it comes after the last one if the clock has gone back'
);

-- Who reads it.

create temporary table place as
select (left(id::text, 33) || '001')::uuid as id
  from recorded
 where tenant_id = 'e0000000-0000-4000-8000-000000000001'
 order by recorded.id
offset 4
 limit 1;
grant select on place to gateway;
set local role gateway;
select results_eq(
  $$ select recurso, tipo from public.listar_alteracoes('test_um') $$,
  $$ values ('academias', 'criado'), ('academias', 'alterado'), ('alunos', 'criado'), ('academias', 'excluido'),
            ('academias', 'criado'), ('academias', 'excluido'), ('fichas', 'criado') $$,
  'a key reads the changes of its tenant'
);
select results_eq(
  $$ select recurso from place, public.listar_alteracoes('test_um', p_after => place.id) $$,
  array['academias', 'fichas'],
  'and those after one'
);
select results_eq(
  $$ select tipo from place, public.listar_alteracoes('test_um', p_after => place.id, p_recurso => 'academias') $$,
  array['excluido'],
  'of a resource'
);
select throws_ok(
  $$ select place.id, l.* from place, public.listar_alteracoes('test_dois', p_after => place.id) l $$,
  'PT422', 'must be the id of a change that is still kept: read everything again, and then the changes without after',
  'a change of another tenant is no place'
);
select throws_ok(
  $$ select * from public.listar_alteracoes('test_leitura') $$,
  'PT401', 'API Key sem permissão para listar_alteracoes',
  'a key needs the permission'
);
reset role;
set local role gateway_functions;
set local wellness.tenant_id = 'e0000000-0000-4000-8000-000000000002';
select results_eq(
  $$ select distinct tenant_id from private.changes $$,
  array['e0000000-0000-4000-8000-000000000002'::uuid],
  'row security shows the functions the changes of the verified tenant'
);
select throws_ok(
  $$ delete from private.changes $$, '42501', null, 'the functions of the gateway change none themselves'
);
reset role;

-- An erasure, by an administrator.

select set_config('wellness.key_id', '', true);

select is(
  (select jsonb_array_length(private.student_data(a.tenant_id, a.id) -> 'changes')
     from private.alunos a where a.email = 'ana@um.example'),
  1,
  'the data of a student has the changes of it'
);
select private.erase_student(a.tenant_id, a.id) from private.alunos a where a.email = 'ana@um.example';
set local role gateway;
select results_eq(
  $$ select tipo from public.listar_alteracoes('test_um', p_recurso => 'alunos') $$, array['excluido'],
  'only that it is gone is told of an erased student'
);
reset role;

-- The end of changes.

-- A position of 2001.
update private.changes set id = ('00038d7e-a4c6-8800' || right(id::text, 18))::uuid, occurred_at = '2001-01-01' where resource = 'fichas';
set local role gateway;
select public.record_usage('e1000000-0000-4000-8000-000000000001', null, '2026-11-30', 400, '[]');
reset role;
select is_empty($$ select from recorded where resource = 'fichas' $$, 'what is older than 90 days is deleted with the usage');
select isnt_empty($$ select from recorded where resource = 'academias' $$, 'and nothing else');
update private.tenants set changes_kept = '1 day' where id = 'e0000000-0000-4000-8000-000000000001';
update private.changes
   set id = overlay(lpad(to_hex((extract(epoch from now() - interval '25 hours') * 1000000)::bigint), 15, '0') || substr(replace(id::text, '-', ''), 17)
                    placing '8' from 13 for 0)::uuid,
       occurred_at = now() - interval '25 hours'
 where tenant_id = 'e0000000-0000-4000-8000-000000000001' and resource = 'academias';
set local role gateway;
select public.record_usage('e1000000-0000-4000-8000-000000000001', null, '2026-11-30', 400, '[]');
reset role;
select set_eq(
  $$ select resource from recorded where tenant_id = 'e0000000-0000-4000-8000-000000000001' $$, array['alunos'],
  'or than the tenant has set'
);

-- The end of a tenant.

select set_config('wellness.key_id', '', true);

set constraints all deferred;
select private.delete_tenant('e0000000-0000-4000-8000-000000000001');
set constraints all immediate;
select is_empty(
  $$ select from recorded where tenant_id = 'e0000000-0000-4000-8000-000000000001' $$, 'nothing is recorded of a tenant that is gone'
);

select is_empty(
  $$ select t.name from private.data_tables() t
      where exists (select from pg_attribute a where a.attrelid = t.name and a.attname = 'id' and not a.attisdropped)
        and not exists (select from pg_trigger g where g.tgrelid = t.name and g.tgname = 'record_change') $$,
  'the changes of each table are recorded'
);
insert into private.academias (tenant_id, nome)
select 'e0000000-0000-4000-8000-000000000002', n::text from generate_series(1, 2001) n;
select results_eq(
  $$ select cardinality(c.records) from private.changes c
      where c.tenant_id = 'e0000000-0000-4000-8000-000000000002' and cardinality(c.records) > 1 or c.records[1] =
            (select a.id::text from private.academias a where a.nome = '2001')
      order by 1 desc $$,
  array[1000, 1000, 1],
  'the changes of one statement are recorded by the thousand'
);

select * from finish();
rollback;
