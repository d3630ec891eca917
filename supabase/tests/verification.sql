-- The verification that every published function begins with: which keys are refused, and what they are told.

begin;
\ir setup.psql

select plan(26);

insert into private.tenants (id, name) values
  ('e0000000-0000-4000-8000-000000000001', 'Academia Um'),
  ('e0000000-0000-4000-8000-000000000002', 'Academia Dois');
insert into private.api_keys (tenant_id, name, key_hash, permissions, active, expires_at)
select ('e0000000-0000-4000-8000-00000000000' || k.tenant)::uuid, k.key, sha256(convert_to(k.key, 'UTF8')),
       k.permissions, k.active, k.expires_at
  from (values
    (1, 'test_um',        null::text[],           true,  null::timestamptz),
    (2, 'test_dois',      null,                   true,  null),
    (1, 'test_ação',      null,                   true,  null),
    (1, 'test_leitura',   array['listar_alunos'], true,  null),
    (1, 'test_inativa',   null,                   false, null),
    (1, 'test_expirada',  null,                   true,  now() - interval '1 day'),
    (1, 'test_agora',     null,                   true,  now()),
    (1, 'test_depois',    null,                   true,  now() + interval '1 second'),
    (1, 'test_inativa_expirada', '{}',            false, now() - interval '1 day'),
    (1, 'test_expirada_leitura', '{}',            true,  now() - interval '1 day')
  ) as k (tenant, key, permissions, active, expires_at);

set local role gateway_functions;

-- Accepted.

select is(
  private.verify_key('test_um', 'listar_alunos'),
  'e0000000-0000-4000-8000-000000000001',
  'a key gives its tenant'
);
select is(
  private.current_tenant(),
  'e0000000-0000-4000-8000-000000000001',
  'the tenant of the key is set for row security'
);
select is(
  private.verify_key('test_dois', 'listar_alunos'),
  'e0000000-0000-4000-8000-000000000002',
  'another key gives another tenant'
);
select is(
  private.current_tenant(),
  'e0000000-0000-4000-8000-000000000002',
  'the tenant of the last key is set for row security'
);
select lives_ok(
  format('select private.verify_key(%L, %L)', k.key, 'listar_alunos'),
  format('a key is accepted that %s', k.purpose)
)
  from (values
    ('test_ação', 'has letters beyond ASCII'),
    ('test_leitura', 'has the permission for the function'),
    ('test_depois', 'expires in a second')
  ) as k (key, purpose);

-- Refused.

select throws_ok(
  format('select private.verify_key(%L, %L)', k.key, 'listar_alunos'),
  'PT401', 'API Key inválida',
  format('a key is refused that is %s', k.purpose)
)
  from (values
    (null, 'null'),
    ('', 'empty'),
    ('test_tres', 'not there'),
    ('test_um ', 'another by a space'),
    ('TEST_UM', 'another by its case'),
    ('test_%', 'a pattern')
  ) as k (key, purpose);
select throws_ok(
  $$ select private.verify_key('test_inativa', 'listar_alunos') $$,
  'PT401', 'API Key inativa',
  'a key is refused that is inactive'
);
select throws_ok(
  format('select private.verify_key(%L, %L)', k.key, 'listar_alunos'),
  'PT401', 'API Key expirada',
  format('a key is refused that %s', k.purpose)
)
  from (values
    ('test_expirada', 'has expired'),
    ('test_agora', 'expires at this moment')
  ) as k (key, purpose);
select throws_ok(
  $$ select private.verify_key('test_leitura', 'criar_aluno') $$,
  'PT401', 'API Key sem permissão para criar_aluno',
  'a key is refused that lacks the permission for the function'
);
select throws_ok(
  $$ select private.verify_key('test_inativa_expirada', 'listar_alunos') $$,
  'PT401', 'API Key inativa',
  'a key that is inactive and expired and lacks the permission is told the first of it'
);
select throws_ok(
  $$ select private.verify_key('test_expirada_leitura', 'listar_alunos') $$,
  'PT401', 'API Key expirada',
  'a key that is expired and lacks the permission is told the first of it'
);
select is(
  private.current_tenant(),
  'e0000000-0000-4000-8000-000000000001',
  'a refused key changes nothing for row security'
);

-- Through the functions that the gateway calls.

set local role gateway;
select throws_ok(
  $$ select * from public.listar_academias('test_tres') $$,
  'PT401', 'API Key inválida',
  'a function refuses a key that is refused'
);
select throws_ok(
  $$ select * from public.criar_aluno('test_leitura', 'Ana', 'ana@um.example') $$,
  'PT401', 'API Key sem permissão para criar_aluno',
  'a function asks for the permission by its own name'
);
select lives_ok(
  $$ select * from public.listar_alunos('test_leitura') $$,
  'a function accepts a key that is accepted'
);
reset role;
select is_empty(
  $$
    select p.proname
      from pg_proc p
     where p.pronamespace = 'public'::regnamespace
       and p.proname <> 'record_usage'
       and strpos(p.prosrc, format('private.verify_key(p_api_key, %L)', p.proname)) = 0
  $$,
  'every function verifies the key for its own name'
);

-- A tenant that is lost. Last, because a setting of Citus stays for the rest of the session.

set local role gateway_functions;
set local wellness.tenant_id = '';
set local citus.propagate_set_commands = 'none';
select throws_ok(
  'select private.current_tenant()',
  '55000', 'the tenant of this transaction is not set on this node',
  'where Citus is, a lost tenant is an error for the functions'
);
reset role;
select is(private.current_tenant(), null::uuid, 'for an administrator it is null');

select * from finish();
rollback;
