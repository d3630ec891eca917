-- Pages that begin after a record: nothing is skipped or repeated while others create and delete records.

begin;
\ir setup.psql

select plan(8);

insert into private.tenants (id, name) values
  ('e0000000-0000-4000-8000-000000000001', 'Academia Um'),
  ('e0000000-0000-4000-8000-000000000002', 'Academia Dois');
insert into private.api_keys (tenant_id, name, key_hash) values
  ('e0000000-0000-4000-8000-000000000001', 'Um', sha256('test_um'));
-- Three at a time have the same time of creation: only their ids order them.
insert into private.alunos (tenant_id, id, nome, email, criado_em)
select 'e0000000-0000-4000-8000-000000000001', ('e3000000-0000-4000-8000-00000000000' || n)::uuid, 'Aluna ' || n,
       'a@um.example', timestamptz '2026-01-01 09:00:00+00' + (n / 3) * interval '1 day'
  from generate_series(1, 9) n;
insert into private.alunos (tenant_id, id, nome, email) values
  ('e0000000-0000-4000-8000-000000000002', 'e3000000-0000-4000-8000-00000000000a', 'Aluna', 'a@dois.example');

create function pg_temp.page(p_after integer, p_nome text default null)
returns text
language sql
as $$
  select string_agg(right(a.id::text, 1), '' order by a.place)
    from public.listar_alunos(
           'test_um', p_limit => 4, p_nome => p_nome, p_after => ('e3000000-0000-4000-8000-00000000000' || p_after)::uuid
         ) with ordinality a (id, nome, email, ativo, academia_id, criado_em, place)
$$;

select is(pg_temp.page(null), '1234', 'the first page begins after nothing');
select is(pg_temp.page(4), '5678', 'the next one begins after its last record');
select is(pg_temp.page(4, 'aluna'), '5678', 'the same in a search');

delete from private.alunos where id = 'e3000000-0000-4000-8000-000000000002';
select is(pg_temp.page(4), '5678', 'a record that was deleted from the page before makes it skip none');
insert into private.alunos (tenant_id, id, nome, email, criado_em)
values ('e0000000-0000-4000-8000-000000000001', 'e3000000-0000-4000-8000-000000000000', 'Aluna 0', 'a@um.example',
        '2025-12-31 09:00:00+00');
select is(pg_temp.page(4), '5678', 'a record that comes before makes it repeat none');
select is(pg_temp.page(9), null, 'after the last record there is none');

select throws_ok(
  $$ select public.listar_alunos('test_um', p_after => 'e3000000-0000-4000-8000-000000000002') $$,
  'PT422', 'must be the id of a record of the tenant',
  'a page cannot begin after a record that was deleted'
);
select throws_ok(
  $$ select public.listar_alunos('test_um', p_after => 'e3000000-0000-4000-8000-00000000000a') $$,
  'PT422', 'must be the id of a record of the tenant',
  'nor after one of another tenant'
);

select * from finish();
rollback;
