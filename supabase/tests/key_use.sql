-- The record of a key's last use, which the gateway makes.

begin;
\ir setup.psql

select plan(14);

insert into private.tenants (id, name) values
  ('e0000000-0000-4000-8000-000000000001', 'Academia Um');
insert into private.api_keys (tenant_id, name, key_hash, permissions, active, expires_at)
select 'e0000000-0000-4000-8000-000000000001', k.key, sha256(convert_to(k.key, 'UTF8')),
       k.permissions, k.active, k.expires_at
  from (values
    ('test_um',       null::text[],           true,  null::timestamptz),
    ('test_dois',     null,                   true,  now() + interval '1 hour'),
    ('test_leitura',  array['listar_alunos'], true,  null),
    ('test_inativa',  null,                   false, null),
    ('test_expirada', null,                   true,  now())
  ) as k (key, permissions, active, expires_at);

-- Acts as the gateway, and as an administrator in between, who sees the keys and lets time pass.

set local role gateway;
select is((select recorded from public.record_key_use('test_um')), true, 'the first use of a key is recorded');
select is(
  (select recorded from public.record_key_use('test_um')),
  false,
  'a use of a key that follows at once is not recorded'
);
reset role;
select is(
  (select last_used_at from private.api_keys where name = 'test_um'),
  now(),
  'the record says when the key was used'
);

update private.api_keys set last_used_at = now() - interval '59 seconds' where name = 'test_um';
set local role gateway;
select is(
  (select recorded from public.record_key_use('test_um')),
  false,
  'a use of a key is not recorded within a minute of the last record'
);
reset role;
select is(
  (select last_used_at from private.api_keys where name = 'test_um'),
  now() - interval '59 seconds',
  'a use that is not recorded leaves the last record'
);

update private.api_keys set last_used_at = now() - interval '1 minute' where name = 'test_um';
set local role gateway;
select is(
  (select recorded from public.record_key_use('test_um')),
  true,
  'a use of a key is recorded a minute after the last record'
);
select is(
  (select recorded from public.record_key_use('test_leitura')),
  true,
  'the use of a key is recorded whatever its permissions are'
);
select is(
  (select recorded from public.record_key_use('test_dois')),
  true,
  'the use of a key is recorded before it expires'
);
select is(
  (select recorded from public.record_key_use(k.key)),
  false,
  format('no use is recorded of a key that is %s', k.purpose)
)
  from (values
    ('test_inativa', 'inactive'),
    ('test_expirada', 'expired'),
    ('test_tres', 'not there'),
    (null, 'null')
  ) as k (key, purpose);
reset role;

select is_empty(
  $$ select name from private.api_keys where name in ('test_inativa', 'test_expirada') and last_used_at is not null $$,
  'a refused key has no last use'
);
select is(
  (select count(*) from private.api_keys where last_used_at = now()),
  3::bigint,
  'a use is recorded for its own key alone'
);

select * from finish();
rollback;
