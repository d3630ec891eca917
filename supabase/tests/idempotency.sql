-- Creation that may be sent twice: the answer to a request with an idempotency key is kept for 24 hours.

begin;
\ir setup.psql

select plan(37);

insert into private.tenants (id, name) values
  ('e0000000-0000-4000-8000-000000000001', 'Academia Um'),
  ('e0000000-0000-4000-8000-000000000002', 'Academia Dois');
insert into private.api_keys (tenant_id, name, key_hash) values
  ('e0000000-0000-4000-8000-000000000001', 'Um', sha256('test_um')),
  ('e0000000-0000-4000-8000-000000000002', 'Dois', sha256('test_dois'));
insert into private.api_keys (tenant_id, name, key_hash, permissions) values
  ('e0000000-0000-4000-8000-000000000001', 'Leitura', sha256('test_leitura'), array['listar_alunos']);

create temporary view kept as
select i.key, t.name as tenant, i.request_hash, i.response, i.created_at
  from private.idempotency_keys i
  join private.tenants t on t.id = i.tenant_id
 where t.name in ('Academia Um', 'Academia Dois');
create temporary view created as
select a.nome, t.name as tenant
  from private.alunos a
  join private.tenants t on t.id = a.tenant_id
 where t.name in ('Academia Um', 'Academia Dois');

-- What the gateway was answered, by a name for the request.
create temporary table answers (
  name text, id uuid, nome text, email text, ativo boolean, academia_id uuid, criado_em timestamptz
);
grant select, insert on answers to gateway;

create function pg_temp.detail_of(p_sql text)
returns text
language plpgsql
as $$
declare
  v_detail text;
begin
  execute p_sql;
  return null;
exception
  when others then
    get stacked diagnostics v_detail = pg_exception_detail;
    return v_detail;
end;
$$;
grant execute on function pg_temp.detail_of(text) to public;

-- The same request.

set local role gateway;
insert into answers
select 'first', a.* from public.criar_aluno('test_um', 'Ana', 'ana@um.example', p_idempotency_key => 'k1') a;
select is(nullif(current_setting('response.headers', true), ''), null, 'a first answer has no mark');
insert into answers
select 'again', a.* from public.criar_aluno('test_um', 'Ana', 'ana@um.example', p_idempotency_key => 'k1') a;
select results_eq(
  $$ select id, nome, email, ativo, academia_id, criado_em from answers where name = 'again' $$,
  $$ select id, nome, email, ativo, academia_id, criado_em from answers where name = 'first' $$,
  'the same request with the same key gives the answer that was given before'
);
select throws_ok(
  $$ select public.criar_aluno('test_leitura', 'Ana', 'ana@um.example', p_idempotency_key => 'k1') $$,
  'PT401',
  'API Key sem permissão para criar_aluno',
  'an API key without the permission does not get it'
);
select is(
  current_setting('response.headers', true),
  '[{"Idempotent-Replayed": "true"}]',
  'the answer that is given again is marked for PostgREST and the gateway'
);
reset role;
select results_eq(
  'select nome, tenant from created',
  $$ values ('Ana', 'Academia Um') $$,
  'the same request with the same key creates one student'
);

-- Another request, another key, another tenant, no key.

set local role gateway;
select throws_ok(
  r.sql, 'PT422', 'was used for another request in the last 24 hours',
  format('the same key is refused for a request with another %s', r.difference)
)
  from (values
    ('p_nome', $$ select public.criar_aluno('test_um', 'Eva', 'ana@um.example', p_idempotency_key => 'k1') $$),
    ('p_email', $$ select public.criar_aluno('test_um', 'Ana', 'eva@um.example', p_idempotency_key => 'k1') $$),
    ('p_telefone', $$ select public.criar_aluno('test_um', 'Ana', 'ana@um.example', '1', p_idempotency_key => 'k1') $$),
    ('p_sexo', $$
      select public.criar_aluno('test_um', 'Ana', 'ana@um.example', p_sexo => 'x', p_idempotency_key => 'k1') $$),
    ('p_modalidade', $$
      select public.criar_aluno('test_um', 'Ana', 'ana@um.example', p_modalidade => 'x', p_idempotency_key => 'k1') $$),
    ('p_data_nascimento', $$
      select public.criar_aluno(
        'test_um', 'Ana', 'ana@um.example', p_data_nascimento => '2001-02-28', p_idempotency_key => 'k1') $$),
    ('p_academia_id', $$
      select public.criar_aluno(
        'test_um', 'Ana', 'ana@um.example', p_academia_id => gen_random_uuid(), p_idempotency_key => 'k1') $$)
  ) as r (difference, sql);
select is(
  pg_temp.detail_of($$ select public.criar_aluno('test_um', 'Eva', 'ana@um.example', p_idempotency_key => 'k1') $$),
  'Idempotency-Key',
  'the refusal is on Idempotency-Key'
);
insert into answers
select 'other key', a.* from public.criar_aluno('test_um', 'Ana', 'ana@um.example', p_idempotency_key => 'k2') a;
insert into answers
select 'other tenant', a.* from public.criar_aluno('test_dois', 'Ana', 'ana@um.example', p_idempotency_key => 'k1') a;
insert into answers
select 'no key', a.* from public.criar_aluno('test_um', 'Ana', 'ana@um.example') a;
insert into answers
select 'no key again', a.* from public.criar_aluno('test_um', 'Ana', 'ana@um.example') a;
select is(
  (select count(distinct id) from answers),
  5::bigint,
  'another key, another tenant and each request without a key creates a student'
);
reset role;
select results_eq(
  'select tenant, count(*) from created group by tenant order by tenant',
  $$ values ('Academia Dois', 1::bigint), ('Academia Um', 4) $$,
  'every student is in the tenant of the key'
);
select results_eq(
  'select tenant, key from kept order by tenant, key',
  $$ values ('Academia Dois', 'k1'), ('Academia Um', 'k1'), ('Academia Um', 'k2') $$,
  'nothing is kept for a request without a key'
);

-- A request that fails.

set local role gateway;
select throws_ok(
  $$
    select public.criar_aluno('test_um', 'Ana', 'ana@um.example', p_data_nascimento => '2001-02-29',
                              p_idempotency_key => 'k3')
  $$,
  'PT422', 'invalid fields',
  'a request that is refused is not kept'
);
select lives_ok(
  $$
    select public.criar_aluno('test_um', 'Ana', 'ana@um.example', p_data_nascimento => '2001-02-28',
                              p_idempotency_key => 'k3')
  $$,
  'its key may be used for the request that puts it right'
);
reset role;

-- After 24 hours.

update private.idempotency_keys set created_at = now() - interval '23:59:59' where key = 'k1';
set local role gateway;
select throws_ok(
  $$ select public.criar_aluno('test_um', 'Eva', 'eva@um.example', p_idempotency_key => 'k1') $$,
  'PT422', 'was used for another request in the last 24 hours',
  'a key is kept for almost 24 hours'
);
reset role;

update private.idempotency_keys set created_at = now() - interval '24 hours' where key = 'k1';
set local role gateway;
select lives_ok(
  $$ select public.criar_aluno('test_um', 'Eva', 'eva@um.example', p_idempotency_key => 'k1') $$,
  'a key may be used for another request after 24 hours'
);
reset role;
select is((select count(*) from created where nome = 'Eva'), 1::bigint, 'which creates a student');
set local role gateway;
select is_empty(
  $$ select * from public.record_usage('e1000000-0000-4000-8000-000000000001', null, '2026-11-30', 400, '[]') $$,
  'the gateway deletes what has expired'
);
reset role;
select results_eq(
  'select tenant, key, created_at, response ->> ''nome'' from kept order by tenant, key',
  $$
    values ('Academia Um', 'k1', now(), 'Eva'),
           ('Academia Um', 'k2', now(), 'Ana'),
           ('Academia Um', 'k3', now(), 'Ana')
  $$,
  'and its answer is kept, while the answers of others that are 24 hours old are gone'
);

-- The functions in private that every idempotent function calls.

set local role gateway_functions;
select set_config('wellness.tenant_id', 'e0000000-0000-4000-8000-000000000002', true);
select is(
  private.recall_response('e0000000-0000-4000-8000-000000000002', null, '["f"]'),
  null,
  'without a key nothing is recalled'
);
select lives_ok(
  $$ select private.keep_response('e0000000-0000-4000-8000-000000000002', null, '{"n": 1}') $$,
  'without a key nothing is kept'
);
select is(
  private.recall_response('e0000000-0000-4000-8000-000000000002', 'k', '["f", 1]'),
  null,
  'for the first request nothing is recalled'
);
select lives_ok(
  $$ select private.keep_response('e0000000-0000-4000-8000-000000000002', 'k', '{"n": 1}') $$,
  'its answer is kept'
);
select is(
  private.recall_response('e0000000-0000-4000-8000-000000000002', 'k', '["f", 1]'),
  '{"n": 1}',
  'the answer is recalled for the same request'
);
select throws_ok(
  $$ select private.recall_response('e0000000-0000-4000-8000-000000000002', 'k', '["g", 1]') $$,
  'PT422', 'was used for another request in the last 24 hours',
  'a request to another function is another request'
);
select throws_ok(
  $$ select private.recall_response('e0000000-0000-4000-8000-000000000001', 'k9', '["f"]') $$,
  '42501', 'new row violates row-level security policy for table "idempotency_keys"',
  'row security keeps nothing for another tenant'
);
select results_eq(
  'select i.key from private.idempotency_keys i',
  array['k'],
  'row security shows no answer of another tenant'
);
reset role;

-- The deletion of what was kept for 24 hours.

insert into private.idempotency_keys (tenant_id, key, request_hash, created_at)
select 'e0000000-0000-4000-8000-000000000001', format('old %s', n), sha256(''),
       now() - interval '24 hours' - n * interval '1 hour'
  from generate_series(0, 10004) n;
set local role gateway_retention;
select is(
  (select count(*) from private.idempotency_keys),
  (select count(*) from private.idempotency_keys where created_at <= now() - interval '24 hours'),
  'the role that deletes sees what was kept for 24 hours, and nothing else'
);
reset role;
set local role gateway_functions;
select lives_ok('select private.forget_responses()', 'what was kept for 24 hours is deleted');
reset role;
select set_eq(
  $$ select key from kept where key like 'old %' $$,
  array['old 0', 'old 1', 'old 2', 'old 3', 'old 4'],
  'the 10,000 oldest are deleted, of every tenant'
);
set local role gateway_functions;
select lives_ok('select private.forget_responses()', 'the next time follow the others');
reset role;
select is_empty($$ select key from kept where key like 'old %' $$, 'until none is left');
select set_eq('select key from kept', array['k1', 'k2', 'k3', 'k'], 'what is younger stays');

select * from finish();
rollback;
