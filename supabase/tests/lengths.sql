-- Every text that is stored has a bound, by a constraint that is named after its column: a text of that length is taken,
-- and one that is longer by one is refused.

begin;
\ir setup.psql

select plan(41);

insert into private.tenants (id, name) values ('e0000000-0000-4000-8000-000000000001', 'Academia');
insert into private.api_keys (tenant_id, name, key_hash)
values ('e0000000-0000-4000-8000-000000000001', 'Chave', sha256('test'));
insert into private.academias (tenant_id, id, nome)
values ('e0000000-0000-4000-8000-000000000001', 'e1000000-0000-4000-8000-000000000001', 'Centro');
insert into private.personais (tenant_id, id, nome, email, academia_id)
values ('e0000000-0000-4000-8000-000000000001', 'e2000000-0000-4000-8000-000000000001', 'Bruno', 'b@um.example',
        'e1000000-0000-4000-8000-000000000001');
insert into private.alunos (tenant_id, id, nome, email)
values ('e0000000-0000-4000-8000-000000000001', 'e3000000-0000-4000-8000-000000000001', 'Ana', 'a@um.example');
insert into private.treinos (tenant_id, nome, aluno_id, personal_id, data_inicio)
values ('e0000000-0000-4000-8000-000000000001', 'Força', 'e3000000-0000-4000-8000-000000000001',
        'e2000000-0000-4000-8000-000000000001', '2026-01-01');
insert into private.anamneses (tenant_id, aluno_id, status)
values ('e0000000-0000-4000-8000-000000000001', 'e3000000-0000-4000-8000-000000000001', 'pendente');
insert into private.anamnese_secoes (tenant_id, titulo, ordem)
values ('e0000000-0000-4000-8000-000000000001', 'Objetivos', 1);
insert into private.usage (tenant_id, key_id, day, operation, class, calls)
select k.tenant_id, k.id, '2026-01-01', 'listarAlunos', '2xx', 1 from private.api_keys k where k.name = 'Chave';
insert into private.idempotency_keys (tenant_id, key, request_hash)
values ('e0000000-0000-4000-8000-000000000001', 'k', sha256('test'));

-- Characters and not bytes: this one takes four.
create temporary view texts as
select b.table_name, b.column_name, b.most, format('repeat(''😀'', %s)', b.most) as longest,
       format('repeat(''😀'', %s)', b.most + 1) as longer
  from (values
    ('tenants', 'name', 255),
    ('api_keys', 'name', 255),
    ('api_keys', 'prefix', 50),
    ('api_keys', 'successor', 50),
    ('academias', 'nome', 255),
    ('personais', 'nome', 255),
    ('personais', 'email', 254),
    ('alunos', 'email', 254),
    ('alunos', 'telefone', 40),
    ('alunos', 'sexo', 50),
    ('alunos', 'modalidade', 100),
    ('treinos', 'nome', 255),
    ('anamneses', 'status', 100),
    ('anamnese_secoes', 'titulo', 255),
    ('usage', 'operation', 255),
    ('idempotency_keys', 'key', 255)
  ) as b (table_name, column_name, most)
union all
-- {"a": ""} has 9 bytes.
select 'anamneses', 'resposta', 65536, 'jsonb_build_object(''a'', repeat(''x'', 65527))',
       'jsonb_build_object(''a'', repeat(''x'', 65528))'
union all
select b.table_name, 'limits', 200, 'jsonb_build_object(''a'', repeat(''x'', 191))', 'jsonb_build_object(''a'', repeat(''x'', 192))'
  from (values ('tenants'), ('api_keys')) as b (table_name);

create function pg_temp.set_text(p_table text, p_column text, p_value text)
returns text
language sql
as $$
  select format('update private.%I set %I = %s where %s = ''e0000000-0000-4000-8000-000000000001''',
                p_table, p_column, p_value, case p_table when 'tenants' then 'id' else 'tenant_id' end);
$$;

select lives_ok(
  pg_temp.set_text(t.table_name, t.column_name, t.longest),
  format('%s.%s takes %s', t.table_name, t.column_name, t.most)
)
  from texts t;
select throws_ok(
  pg_temp.set_text(t.table_name, t.column_name, t.longer),
  '23514',
  format('new row for relation "%1$s" violates check constraint "%1$s_%2$s_length"', t.table_name, t.column_name),
  format('%s.%s takes no more than %s', t.table_name, t.column_name, t.most)
)
  from texts t;
-- The check of this column has another name: it refuses an empty text too.
select throws_ok(
  pg_temp.set_text('alunos', 'nome', 'repeat(''😀'', 256)'), '23514', null, 'alunos.nome takes no more than 255'
);

select set_eq(
  $$
    select k.conname::text
      from pg_constraint k
     where k.connamespace = 'private'::regnamespace
       and k.conname ~ '_length$'
       and k.conrelid::regclass::text in (select 'private.' || table_name from texts)
       -- Has a list of values.
       and k.conname <> 'usage_class_length'
  $$,
  $$ select format('%s_%s_length', table_name, column_name) from texts $$,
  'every bound of these tables is tested here'
);
select is_empty(
  $$ select conname from pg_constraint where connamespace = 'private'::regnamespace and not convalidated $$,
  'every row holds to every bound'
);

select * from finish();
rollback;
