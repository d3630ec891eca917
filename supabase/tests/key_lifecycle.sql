-- The life of tenants and keys, which are in the hands of administrators.

begin;
\ir setup.psql

select plan(76);

create temporary table tenant as
select private.create_tenant('Academia Um') as id;
-- What private.issue_key and private.rotate_key gave, by a name for it.
create temporary table issued (name text primary key, id uuid, key text, prefix text, expires_at timestamptz);
grant select on tenant, issued to public;

create function pg_temp.key(p_name text)
returns text
language sql
as $$
  select i.key from issued i where i.name = p_name;
$$;

create function pg_temp.id(p_name text)
returns uuid
language sql
as $$
  select i.id from issued i where i.name = p_name;
$$;

-- What the gateway is told when a key calls a function: nothing, or why the key is refused.
create function pg_temp.refusal(p_name text, p_function text default 'listar_alunos')
returns text
language plpgsql
as $$
begin
  perform private.verify_key(pg_temp.key(p_name), p_function);
  return null;
exception
  when sqlstate 'PT401' then
    return sqlerrm;
end;
$$;

-- Tenants.

select is(
  (select name from private.tenants t join tenant using (id)),
  'Academia Um',
  'create_tenant gives the id of a tenant with the name'
);
select throws_ok(
  $$ select private.create_tenant(' ') $$,
  '23514', null,
  'create_tenant refuses a blank name'
);
select results_eq(
  'select l.name, l.active_keys, l.created_at = t.created_at
     from private.list_tenants() l join private.tenants t using (id) join tenant using (id)',
  $$ values ('Academia Um', 0::bigint, true) $$,
  'list_tenants has a new tenant, without keys'
);

-- The parts of a key.

select is(private.to_base62(0, 1), '0', 'the first digit to the base 62 is 0');
select is(private.to_base62(61, 1), 'z', 'the last digit to the base 62 is z');
select is(private.to_base62(62, 2), '10', '62 is 10 to the base 62');
select is(private.to_base62(4294967295, 6), '4gfFC3', 'the greatest number of 32 bits has 6 digits to the base 62');
select is(
  private.key_checksum('wms_live_00000000000000000000000000000000'),
  '3jU7kV',
  'the checksum of a text is what other programs compute'
);
select matches(private.random_base62(100), '^[0-9A-Za-z]{100}$', 'random digits are as many as were asked for');
select is(
  (select count(distinct digit) from regexp_split_to_table(private.random_base62(5000), '') digit),
  62::bigint,
  'random digits are of all kinds'
);

-- issue_key.

insert into issued
select 'plain', k.* from tenant t, private.issue_key(t.id, 'Site') k;

select matches(
  pg_temp.key('plain'),
  '^wms_live_[0-9A-Za-z]{38}$',
  'a key has wms_, its environment, 32 random characters and 6 more'
);
select is(
  right(pg_temp.key('plain'), 6),
  private.key_checksum(left(pg_temp.key('plain'), -6)),
  'a key ends in the checksum of what stands before it'
);
select is(
  (select prefix from issued where name = 'plain'),
  left(pg_temp.key('plain'), length('wms_live_') + 8),
  'the prefix of a key shows 8 of its random characters'
);
select results_eq(
  $$
    select k.tenant_id, k.name, k.prefix, k.key_hash, k.permissions, k.active, k.expires_at, k.last_used_at
      from private.api_keys k
     where k.id = pg_temp.id('plain')
  $$,
  $$
    select t.id, 'Site', i.prefix, sha256(convert_to(i.key, 'UTF8')), null::text[], true, null::timestamptz,
           null::timestamptz
      from tenant t, issued i
     where i.name = 'plain'
  $$,
  'a key that is issued has every permission, is active, never expires and was never used'
);
select is_empty(
  $$ select from private.api_keys k, issued i where strpos(k::text, substr(i.key, length(i.prefix) + 1)) > 0 $$,
  'of a key the prefix and the hash are stored, and nothing else'
);
select is(pg_temp.refusal('plain'), null, 'a key that is issued works');
select is(
  (select count(distinct k.key) from tenant t, generate_series(1, 50) n, private.issue_key(t.id, 'Many ' || n) k),
  50::bigint,
  'no two keys are the same'
);

insert into issued
select 'test', k.*
  from tenant t, private.issue_key(t.id, 'Test', array['listar_alunos'], now() + interval '1 hour', 'test') k;

select matches(pg_temp.key('test'), '^wms_test_[0-9A-Za-z]{38}$', 'a key says for which environment it is');
select is(pg_temp.refusal('test'), null, 'a key works for a function that it has the permission for');
select is(
  pg_temp.refusal('test', 'criar_aluno'),
  'API Key sem permissão para criar_aluno',
  'a key does not work for another function'
);
select is(
  (select expires_at from issued where name = 'test'),
  now() + interval '1 hour',
  'a key expires when it was told to'
);

select lives_ok(
  format('select private.issue_key(%L, %L, p_environment => %L)', t.id, 'Many', e.environment),
  format('a key is issued for the environment %s', e.environment)
)
  from tenant t, (values ('a'), ('abcdefghij')) as e (environment);
select throws_ok(
  format('select private.issue_key(%L, %L, p_environment => %L)', t.id, 'Site', e.environment),
  '22023', format('the environment of a key is 1 to 10 letters of a-z, and not %L', e.environment),
  format('a key is not issued for the environment %s', coalesce(to_json(e.environment)::text, 'null'))
)
  from tenant t, (values (null), (''), ('Live'), ('li_ve'), ('abcdefghijk'), (E'live\n')) as e (environment);
select throws_ok(
  format('select private.issue_key(%L, %L, p_expires_at => now() - %L::interval)', t.id, 'Site', e.ago),
  '22023', format('a key cannot expire at %s, which has passed', now() - e.ago),
  format('a key is not issued that expired %s ago', e.ago)
)
  from tenant t, (values (interval '0'), (interval '1 day')) as e (ago);
select throws_ok(
  $$ select private.issue_key('e0000000-0000-4000-8000-00000000000f', 'Site') $$,
  'P0002', 'there is no tenant e0000000-0000-4000-8000-00000000000f',
  'a key is not issued for a tenant that is not there'
);
select throws_ok(
  format('select private.issue_key(%L, %L, %L)', t.id, 'Site', p.permissions),
  '22023', 'a key needs the permission for at least one function, and none of them is null',
  format('a key is not issued with the permissions %s', p.permissions)
)
  from tenant t, (values ('{}'), ('{null}'), ('{listar_alunos,null}')) as p (permissions);
select throws_ok(
  format('select private.issue_key(%L, %L, %L)', t.id, 'Site', '{verify_key,listar_alunos,apagar_aluno}'),
  '42883', 'no published function is named apagar_aluno, verify_key',
  'a key is not issued with the permission for what is no published function'
)
  from tenant t;
create function public.nao_publicada() returns integer language sql as 'select 1';
select throws_ok(
  format('select private.issue_key(%L, %L, %L)', t.id, 'Site', '{nao_publicada}'),
  '42883', 'no published function is named nao_publicada',
  'a key is not issued with the permission for a function in public that is not published'
)
  from tenant t;
select throws_ok(
  format('select private.issue_key(%L, %L, %L)', t.id, 'Site', '{record_usage}'),
  '42883', 'no published function is named record_usage',
  'a key is not issued with the permission for what no client can call'
)
  from tenant t;
select throws_ok(
  format('select private.issue_key(%L, %L)', t.id, ' '),
  '23514', null,
  'a key is not issued with a blank name'
)
  from tenant t;

-- list_keys.

select results_eq(
  $$
    select l.tenant, l.id, l.prefix, l.name, l.permissions, l.state, l.expires_at, l.last_used_at
      from tenant t, private.list_keys(t.id) l
     where l.name in ('Site', 'Test')
  $$,
  $$
    select 'Academia Um', i.id, i.prefix, x.name, x.permissions, 'active', i.expires_at, null::timestamptz
      from (values
        (1, 'plain', 'Site', null::text[]),
        (2, 'test', 'Test', '{listar_alunos}')
      ) as x (n, key, name, permissions)
      join issued i on i.name = x.key
     order by x.n
  $$,
  'list_keys has the keys of a tenant, oldest first'
);
select is_empty(
  $$
    select from private.list_keys() l, issued i
     where strpos(l::text, substr(i.key, length(i.prefix) + 1)) > 0
        or strpos(l::text, encode(sha256(convert_to(i.key, 'UTF8')), 'hex')) > 0
  $$,
  'list_keys has neither a key nor its hash'
);
select is_empty(
  $$ select from private.list_keys(private.create_tenant('Academia Dois')) $$,
  'list_keys has no key of another tenant'
);
select set_has(
  'select tenant_id from private.list_keys()',
  'select id from tenant',
  'list_keys has the keys of all tenants when it is asked for none'
);

-- set_key_permissions.

select private.set_key_permissions(pg_temp.id('test'), '{criar_aluno}');
select is(
  pg_temp.refusal('test'),
  'API Key sem permissão para listar_alunos',
  'a key does not work for a function whose permission it has lost'
);
select is(pg_temp.refusal('test', 'criar_aluno'), null, 'a key works for a function whose permission it was given');
select private.set_key_permissions(pg_temp.id('test'), null);
select is(pg_temp.refusal('test'), null, 'a key without a list of permissions has all of them');
select throws_ok(
  format('select private.set_key_permissions(%L, %L)', pg_temp.id('test'), '{}'),
  '22023', 'a key needs the permission for at least one function, and none of them is null',
  'a key cannot lose its last permission'
);
select throws_ok(
  format('select private.set_key_permissions(%L, %L)', pg_temp.id('test'), '{apagar_aluno}'),
  '42883', 'no published function is named apagar_aluno',
  'a key cannot have the permission for what is no published function'
);
select throws_ok(
  $$ select private.set_key_permissions('e0000000-0000-4000-8000-00000000000f', null) $$,
  'P0002', 'there is no key e0000000-0000-4000-8000-00000000000f',
  'a key that is not there has no permissions'
);

-- rotate_key.

select private.set_key_permissions(pg_temp.id('test'), '{listar_alunos}');
insert into issued
select 'next', k.* from private.rotate_key(pg_temp.id('test')) k;

select matches(pg_temp.key('next'), '^wms_test_[0-9A-Za-z]{38}$', 'a rotated key is for the same environment');
select results_eq(
  $$ select k.tenant_id, k.name, k.permissions, k.expires_at from private.api_keys k where k.id = pg_temp.id('next') $$,
  $$ select t.id, 'Test', '{listar_alunos}'::text[], now() + interval '1 hour' from tenant t $$,
  'a rotated key has the tenant, the name, the permissions and the expiry of the old one'
);
select is(pg_temp.refusal('test'), null, 'the old key works during the overlap');
select is(pg_temp.refusal('next'), null, 'the new key works during the overlap');
select is(
  (select expires_at from private.api_keys where id = pg_temp.id('test')),
  now() + interval '1 hour',
  'the overlap does not prolong an old key that expires before'
);

insert into issued
select 'later', k.* from private.rotate_key(pg_temp.id('plain'), interval '10 minutes', now() + interval '1 year') k;

select is(
  (select expires_at from private.api_keys where id = pg_temp.id('plain')),
  now() + interval '10 minutes',
  'the old key expires when the overlap is over'
);
select is(
  (select expires_at from issued where name = 'later'),
  now() + interval '1 year',
  'a rotated key expires when it was told to'
);
-- Time stands still in a transaction: what passes is the expiry.
update private.api_keys set expires_at = expires_at - interval '10 minutes' where id = pg_temp.id('plain');
select is(pg_temp.refusal('plain'), 'API Key expirada', 'the old key does not work after the overlap');
select is(pg_temp.refusal('later'), null, 'the new key works after the overlap');

insert into issued
select 'at once', k.* from private.rotate_key(pg_temp.id('later'), interval '0') k;

select is(pg_temp.refusal('later'), 'API Key expirada', 'an overlap of 0 ends the old key now');
select is(pg_temp.refusal('at once'), null, 'an overlap of 0 ends the old key alone');

select throws_ok(
  format('select private.rotate_key(%L, %L)', pg_temp.id('at once'), o.overlap),
  '22023', format('the overlap of two keys cannot be %s', coalesce(o.overlap, 'null')),
  format('a key cannot be rotated with an overlap of %L', o.overlap)
)
  from (values (null), ('-00:00:01')) as o (overlap);
select throws_ok(
  format('select private.rotate_key(%L, p_expires_at => now())', pg_temp.id('at once')),
  '22023', format('a key cannot expire at %s, which has passed', now()),
  'a key cannot be rotated to one that has expired'
);
select throws_ok(
  format('select private.rotate_key(%L)', pg_temp.id('later')),
  '55000', format('key %s cannot be rotated: it is revoked or expired', pg_temp.id('later')),
  'a key that has expired cannot be rotated'
);
select throws_ok(
  $$ select private.rotate_key('e0000000-0000-4000-8000-00000000000f') $$,
  'P0002', 'there is no key e0000000-0000-4000-8000-00000000000f',
  'a key that is not there cannot be rotated'
);

insert into private.api_keys (tenant_id, id, name, key_hash)
select t.id, 'e9000000-0000-4000-8000-000000000001', 'Own', sha256('own') from tenant t;
insert into issued
select 'own', k.* from private.rotate_key('e9000000-0000-4000-8000-000000000001') k;
select matches(
  pg_temp.key('own'),
  '^wms_live_',
  'a key that issue_key did not make is rotated to one for the environment live'
);

-- A successor was lost, so it is revoked and its predecessor is rotated again.
insert into issued
select 'lost', k.* from private.rotate_key(pg_temp.id('own'), interval '1 hour') k;
select throws_ok(
  format('select private.rotate_key(%L)', pg_temp.id('own')),
  '55000', format('key %s was replaced by %s already', pg_temp.id('own'), (select prefix from issued where name = 'lost')),
  'a key has one successor'
);
select private.revoke_key(pg_temp.id('lost'));
insert into issued
select 'found', k.* from private.rotate_key(pg_temp.id('own'), interval '2 hours') k;
select is(
  (select expires_at from private.api_keys where id = pg_temp.id('found')),
  null,
  'a key that is rotated again gives its own expiry on, and not the end of its overlap'
);
select is(
  (select expires_at from private.api_keys where id = pg_temp.id('own')),
  now() + interval '1 hour',
  'a key that is rotated again does not live longer by it'
);

-- revoke_key.

select private.revoke_key(pg_temp.id('next'));
select is(pg_temp.refusal('next'), 'API Key inativa', 'a key that is revoked does not work');
select lives_ok(
  format('select private.revoke_key(%L)', pg_temp.id('next')),
  'a key can be revoked twice'
);
select is(pg_temp.refusal('next'), 'API Key inativa', 'a key that is revoked twice stays so');
select throws_ok(
  format('select private.rotate_key(%L)', pg_temp.id('next')),
  '55000', format('key %s cannot be rotated: it is revoked or expired', pg_temp.id('next')),
  'a key that is revoked cannot be rotated'
);
select throws_ok(
  $$ select private.revoke_key('e0000000-0000-4000-8000-00000000000f') $$,
  'P0002', 'there is no key e0000000-0000-4000-8000-00000000000f',
  'a key that is not there cannot be revoked'
);
select results_eq(
  $$
    select l.state
      from issued i
      join private.list_keys() l using (id)
     where i.name in ('plain', 'test', 'next')
     order by i.name
  $$,
  array['revoked', 'expired', 'active'],
  'list_keys tells the state of each key'
);
select is(
  (select l.active_keys from private.list_tenants() l join tenant using (id)),
  (select count(*) from tenant t, private.list_keys(t.id) l where l.state = 'active'),
  'list_tenants counts the keys that work now'
);

select * from finish();
rollback;
