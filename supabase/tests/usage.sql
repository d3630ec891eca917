-- The usage of keys, which the gateway records, and their limits.

begin;
\ir setup.psql

select plan(33);

insert into private.tenants (id, name) values
  ('e0000000-0000-4000-8000-000000000001', 'Academia Um'),
  ('e0000000-0000-4000-8000-000000000002', 'Academia Dois');
insert into private.api_keys (tenant_id, id, name, key_hash, permissions, active)
select k.tenant_id::uuid, k.id::uuid, k.key, sha256(convert_to(k.key, 'UTF8')), k.permissions, k.active
  from (values
    ('e0000000-0000-4000-8000-000000000001', 'e9000000-0000-4000-8000-000000000001', 'test_um', null::text[], true),
    ('e0000000-0000-4000-8000-000000000001', 'e9000000-0000-4000-8000-000000000002', 'test_outra', null, true),
    ('e0000000-0000-4000-8000-000000000001', 'e9000000-0000-4000-8000-000000000003', 'test_leitura', array['listar_alunos'], true),
    ('e0000000-0000-4000-8000-000000000002', 'e9000000-0000-4000-8000-000000000004', 'test_dois', null, true)
  ) as k (tenant_id, id, key, permissions, active);

create function pg_temp.row_of(p_key text, p_class text, p_calls integer, p_day date default '2026-11-30')
returns jsonb
language sql
as $$
  select jsonb_build_object(
    'key', encode(sha256(convert_to(p_key, 'UTF8')), 'hex'),
    'day', p_day, 'operation', 'listarAlunos', 'class', p_class, 'calls', p_calls
  );
$$;
create function pg_temp.report(p_sequence integer, variadic p_rows jsonb[])
returns bigint
language sql
as $$
  select count(*)
    from public.record_usage('e1000000-0000-4000-8000-000000000001', p_sequence, '2026-11-30', 400, to_jsonb(p_rows));
$$;
create temporary view counted as
select k.name, u.day, u.class, u.calls from private.usage u join private.api_keys k on k.id = u.key_id;
grant execute on all functions in schema pg_temp to gateway;

-- What counts.

set local role gateway;
select lives_ok(
  $$ select pg_temp.report(1, pg_temp.row_of('test_um', '2xx', 2), pg_temp.row_of('test_dois', '5xx', 1),
                              pg_temp.row_of('test_nada', '2xx', 9), pg_temp.row_of('test_leitura', '4xx', 1)) $$,
  'the gateway records calls of several keys'
);
select lives_ok($$ select pg_temp.report(1, pg_temp.row_of('test_um', '2xx', 2)) $$, 'a batch may be sent again');
select lives_ok($$ select pg_temp.report(0, pg_temp.row_of('test_um', '2xx', 2)) $$, 'an earlier one too');
select lives_ok($$ select pg_temp.report(null, pg_temp.row_of('test_um', '2xx', 2)) $$, 'and one without a number');
reset role;
select set_eq(
  $$ select name, class, calls from counted where day = '2026-11-30' $$,
  $$ values ('test_um', '2xx', 2::bigint), ('test_dois', '5xx', 1), ('test_leitura', '4xx', 1) $$,
  'a batch counts once, each row for the key of its hash, and for nobody if there is none'
);
select set_eq(
  $$ select name from private.api_keys where last_used_at = now() $$,
  array['test_um'],
  'a key is used when a call with it succeeds'
);

update private.api_keys k
   set last_used_at = now() - l.ago
  from (values
    ('test_um', interval '59 seconds'),
    ('test_leitura', interval '1 minute'),
    ('test_dois', interval '1 hour')
  ) as l (name, ago)
 where k.name = l.name;
set local role gateway;
select lives_ok(
  $$ select pg_temp.report(2, pg_temp.row_of('test_um', '2xx', 3), pg_temp.row_of('test_um', '429', 4),
                              pg_temp.row_of('test_leitura', '2xx', 1), pg_temp.row_of('test_dois', '429', 1)) $$,
  'the next batch is recorded'
);
reset role;
select set_eq(
  $$ select class, calls from counted where name = 'test_um' $$,
  $$ values ('2xx', 5::bigint), ('429', 4) $$,
  'and its counts are added'
);
select set_eq(
  $$ select name, now() - last_used_at from private.api_keys where name like 'test%' and last_used_at is not null $$,
  $$ values ('test_um', interval '59 seconds'), ('test_leitura', '0'), ('test_dois', '1 hour') $$,
  'a use is recorded for its own key alone, whatever its permissions are, and only a minute after the last one'
);

-- Who reads it.

set local role gateway;
select results_eq(
  $$ select dia, operacao, classe, chamadas from public.consultar_uso('test_um') $$,
  $$ values (date '2026-11-30', 'listarAlunos', '2xx', 5::bigint), ('2026-11-30', 'listarAlunos', '429', 4) $$,
  'a key reads its own usage'
);
select is_empty($$ select * from public.consultar_uso('test_outra') $$, 'another key of the tenant does not');
select throws_ok(
  $$ select * from public.consultar_uso('test_leitura') $$,
  'PT401', 'API Key sem permissão para consultar_uso',
  'a key needs the permission'
);
select throws_ok(
  $$ select * from private.usage $$, '42501', 'permission denied for schema private', 'the gateway reads no table'
);
reset role;
set local role gateway_functions;
set local wellness.tenant_id = 'e0000000-0000-4000-8000-000000000002';
select results_eq(
  $$ select distinct tenant_id from private.usage $$,
  array['e0000000-0000-4000-8000-000000000002'::uuid],
  'row security shows the functions the usage of the verified tenant'
);
select throws_ok(
  $$ update private.usage set calls = 0 $$, '42501', null, 'the functions of the gateway change no usage themselves'
);
reset role;

-- Limits.

select private.set_tenant_limits('e0000000-0000-4000-8000-000000000001', '{"per_minute": 60}');
select private.set_key_limits('e9000000-0000-4000-8000-000000000001', '{"per_day": 10}');
create temporary view answers as
select a.name, r.limits, r.today, r.month
  from private.api_keys a
 cross join lateral public.record_usage(
         'e1000000-0000-4000-8000-000000000001', null, '2026-11-30', 400, jsonb_build_array(pg_temp.row_of(a.name, '2xx', 1))
       ) r
 where a.tenant_id::text like 'e0000000%';
select set_eq(
  $$ select name, limits from answers $$,
  $$ values ('test_um', jsonb '{"per_day": 10}'), ('test_outra', '{"per_minute": 60}'), ('test_leitura', '{"per_minute": 60}'),
            ('test_dois', '{}') $$,
  'a key has its own limits, or those of its tenant, or none'
);
select pg_temp.report(3, pg_temp.row_of('test_um', '2xx', 7, '2026-11-01'), pg_temp.row_of('test_um', '2xx', 9, '2026-10-31'));
select results_eq(
  $$ select today, month from answers where name = 'test_um' $$,
  $$ values (5::bigint, 12::bigint) $$,
  'of a key with a quota the calls of the day and of the month are told, without the refused ones'
);
select private.set_key_limits('e9000000-0000-4000-8000-000000000001', '{}');
select is((select limits from answers where name = 'test_um'), '{}', 'a key may have no limit where its tenant has some');
select private.set_key_limits('e9000000-0000-4000-8000-000000000001', null);
select is((select limits from answers where name = 'test_um'), '{"per_minute": 60}', 'or those of its tenant again');
select throws_ok(
  format('select private.set_key_limits(%L, %L)', 'e9000000-0000-4000-8000-000000000001', l.limits),
  '22023', format('limits are per_minute, burst, per_day and per_month, from 1 to 999999999999, and not %s', l.wrong),
  format('no limits are %s', l.limits)
)
  from (values
    ('{"per_minute": 0}', 'per_minute 0'),
    ('{"per_minute": 1.5}', 'per_minute 1.5'),
    ('{"per_day": "9"}', 'per_day "9"'),
    ('{"per_hour": 1}', 'per_hour 1')
  ) as l (limits, wrong);
select throws_ok(
  $$ select private.set_tenant_limits('e0000000-0000-4000-8000-000000000001', '{"burst": 5}') $$,
  '22023', 'a burst needs a limit per minute', 'no burst is a limit by itself'
);
select throws_ok(
  $$ select private.set_tenant_limits('e0000000-0000-4000-8000-00000000000f', '{}') $$,
  'P0002', 'there is no tenant e0000000-0000-4000-8000-00000000000f', 'a tenant that is not there has no limits'
);

-- Rotation.

select private.set_key_limits('e9000000-0000-4000-8000-000000000001', '{"per_day": 20}');
create temporary table successor as select * from private.rotate_key('e9000000-0000-4000-8000-000000000001');
create temporary table last as select l.* from successor s, private.rotate_key(s.id) l;
grant select on successor, last to gateway;
set local role gateway;
select pg_temp.report(4, pg_temp.row_of(l.key, '2xx', 1)) from last l;
select is(
  (select sum(u.chamadas) from last l, public.consultar_uso(l.key) u where u.classe = '2xx'), 22::numeric,
  'a successor counts with the keys that it replaced'
);
select is((select sum(u.chamadas) from public.consultar_uso('test_um') u where u.classe = '2xx'), 22::numeric, 'as they do with it');
reset role;
select private.set_key_limits(l.id, '{"per_day": 30}') from last l;
select is((select limits from answers where name = 'test_um' limit 1), '{"per_day": 30}', 'they have the same limits, which each of them may be named for');
select is(
  (select count(*) from private.list_usage(null, (select id from successor), '2026-11-30', '2026-11-30')), 2::bigint,
  'an administrator may name any of them too'
);

-- The end of days.

update private.usage set day = now()::date - 31 where day = '2026-11-01';
update private.usage set day = now()::date - 33 where day = '2026-10-31';
set local role gateway;
select is_empty(
  $$ select * from public.record_usage('e1000000-0000-4000-8000-000000000001', null, '2026-11-30', 1, '[]') $$,
  'an empty batch has no answer'
);
reset role;
select is_empty($$ select from counted where day = now()::date - 33 $$, 'days that are older than those to keep are deleted');
select isnt_empty($$ select from counted where day = now()::date - 31 $$, 'but none that a quota may count');

-- The end of a tenant.

select isnt_empty(
  $$ select from private.delete_tenant('e0000000-0000-4000-8000-000000000001') d where d.name = 'private.usage' and d.deleted > 0 $$,
  'the usage ends with its tenant'
);

select * from finish();
rollback;
