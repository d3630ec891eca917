-- Row security, the wall behind the tenant that every query asks for: what the functions' owner sees and writes.

begin;
\ir setup.psql

select no_plan();

insert into private.tenants (id, name) values
  ('e0000000-0000-4000-8000-000000000001', 'Academia Um'),
  ('e0000000-0000-4000-8000-000000000002', 'Academia Dois');
insert into private.academias (tenant_id, id, nome)
select t.id, ('e1' || right(t.id::text, -2))::uuid, t.name from private.tenants t where t.id::text like 'e0%';
insert into private.personais (tenant_id, id, nome, email, academia_id)
select a.tenant_id, ('e2' || right(a.id::text, -2))::uuid, 'Bruno', 'bruno@example.com', a.id
  from private.academias a where a.id::text like 'e1%';
insert into private.alunos (tenant_id, id, nome, email, academia_id, personal_id)
select p.tenant_id, ('e3' || right(p.id::text, -2))::uuid, 'Ana', 'ana@example.com', p.academia_id, p.id
  from private.personais p where p.id::text like 'e2%';
insert into private.treinos (tenant_id, nome, aluno_id, personal_id, data_inicio)
select a.tenant_id, 'Força', a.id, a.personal_id, '2024-01-01' from private.alunos a where a.id::text like 'e3%';
insert into private.anamneses (tenant_id, aluno_id, status, resposta)
select a.tenant_id, a.id, 'completa', '{"n": 1}' from private.alunos a where a.id::text like 'e3%';
insert into private.anamnese_secoes (tenant_id, titulo, ordem)
select t.id, 'Saúde', 1 from private.tenants t where t.id::text like 'e0%';
insert into private.idempotency_keys (tenant_id, key, request_hash)
select t.id, 'k', sha256('') from private.tenants t where t.id::text like 'e0%';

create temporary table readable as
select c.relname as name
  from pg_class c
 where c.relnamespace = 'private'::regnamespace
   and c.relkind = 'r'
   and has_table_privilege('gateway_functions', c.oid, 'select');
grant select on readable to public;

select set_has(
  'select name::text from readable',
  $$ values ('academias'), ('alunos'), ('anamnese_secoes'), ('anamneses'), ('idempotency_keys'), ('personais'), ('treinos') $$,
  'the functions'' owner reads the tables of the tenants'
);

set local role gateway_functions;
select is_empty(format('select from private.%I', name), format('no row of %s is seen without a tenant', name))
  from readable order by name;
select set_config('wellness.tenant_id', '', true);
select is_empty(format('select from private.%I', name), format('no row of %s is seen with an empty tenant', name))
  from readable order by name;

select set_config('wellness.tenant_id', 'e0000000-0000-4000-8000-000000000002', true);
select results_eq(
  format('select tenant_id from private.%I', name),
  array['e0000000-0000-4000-8000-000000000002'::uuid],
  format('the row of %s is seen that is the tenant''s', name)
)
  from readable
 where name in ('academias', 'alunos', 'anamnese_secoes', 'anamneses', 'idempotency_keys', 'personais', 'treinos')
 order by name;
select is_empty(
  format('select from private.%I where tenant_id <> %L', name, 'e0000000-0000-4000-8000-000000000002'),
  format('no row of %s is seen that is another tenant''s', name)
)
  from readable order by name;

-- Writing.

select lives_ok(
  $$
    insert into private.alunos (tenant_id, nome, email)
    values ('e0000000-0000-4000-8000-000000000002', 'Eva', 'eva@example.com')
  $$,
  'a student is written into the tenant'
);
select throws_ok(
  $$
    insert into private.alunos (tenant_id, nome, email)
    values ('e0000000-0000-4000-8000-000000000001', 'Eva', 'eva@example.com')
  $$,
  '42501', 'new row violates row-level security policy for table "alunos"',
  'no student is written into another tenant'
);
select throws_ok(
  format('update private.%I set tenant_id = tenant_id', name),
  '42501', format('permission denied for table %s', name),
  format('no row of %s is given to another tenant', name)
)
  from readable order by name;
select throws_ok(
  format('delete from private.%I', name),
  '42501', format('permission denied for table %s', name),
  format('no row of %s is deleted', name)
)
  from readable
 where not has_table_privilege('gateway_functions', format('private.%I', name), 'delete')
 order by name;
reset role;

-- The administrator: a dump has only the rows that a policy shows the role, and a restore only writes what one allows.

select is_empty(
  $$
    select c.relname
      from pg_class c
     where c.relnamespace = 'private'::regnamespace
       and c.relkind in ('r', 'p')
       and not exists (
         select
           from pg_policy p
          where p.polrelid = c.oid
            and p.polroles = array[c.relowner]
            and p.polcmd = '*'
            and p.polpermissive
            and pg_get_expr(p.polqual, p.polrelid) = 'true'
            and p.polwithcheck is null
       )
  $$,
  'the owner of a table sees and writes all of its rows, so that a dump lacks none'
);

-- The keys of the tables, which hold for administrators too.

select throws_ok(
  $$
    insert into private.alunos (tenant_id, nome, email, academia_id)
    select 'e0000000-0000-4000-8000-000000000002', 'Eva', 'eva@example.com', a.id
      from private.academias a
     where a.tenant_id = 'e0000000-0000-4000-8000-000000000001'
  $$,
  '23503', null,
  'no student is at a gym of another tenant'
);
select throws_ok(
  $$
    insert into private.treinos (tenant_id, nome, aluno_id, personal_id, data_inicio)
    select 'e0000000-0000-4000-8000-000000000002', 'Força', t.aluno_id, t.personal_id, '2024-01-01'
      from private.treinos t
     where t.tenant_id = 'e0000000-0000-4000-8000-000000000001'
  $$,
  '23503', null,
  'no workout is of a student of another tenant'
);

-- What a caller may do to the session before it calls.

insert into private.api_keys (tenant_id, name, key_hash) values
  ('e0000000-0000-4000-8000-000000000001', 'Um', sha256('test_um')),
  ('e0000000-0000-4000-8000-000000000002', 'Dois', sha256('test_dois'));
-- What nobody but a caller in a Supabase project may do by default.
do $$
begin
  execute format('grant temporary on database %I to gateway', current_database());
end;
$$;
set local role gateway;
select set_config('wellness.tenant_id', 'e0000000-0000-4000-8000-000000000001', true);
select results_eq(
  $$ select id from public.listar_academias('test_dois') $$,
  array['e1000000-0000-4000-8000-000000000002'::uuid],
  'a tenant that was set before leads no function astray'
);
create temporary table api_keys (
  tenant_id uuid, key_hash bytea, permissions text[], active boolean, expires_at timestamptz
);
insert into api_keys values ('e0000000-0000-4000-8000-000000000001', sha256('test_dois'), null, true, null);
create temporary table academias (tenant_id uuid, id uuid, nome text, ativo boolean, criado_em timestamptz);
create function pg_temp.sha256(bytea) returns bytea language sql as $$ select sha256('test_um'::bytea) $$;
select results_eq(
  $$ select id from public.listar_academias('test_dois') $$,
  array['e1000000-0000-4000-8000-000000000002'::uuid],
  'temporary tables and functions in front of the real ones lead no function astray'
);
reset role;

select * from finish();
rollback;
