-- The fields that only the database can check, and what the client reads.

begin;
\ir setup.psql

select plan(27);

insert into private.tenants (id, name) values
  ('e0000000-0000-4000-8000-000000000001', 'Academia Um'),
  ('e0000000-0000-4000-8000-000000000002', 'Academia Dois');
insert into private.api_keys (tenant_id, name, key_hash) values
  ('e0000000-0000-4000-8000-000000000001', 'Um', sha256('test_um'));
insert into private.academias (tenant_id, id, nome, ativo) values
  ('e0000000-0000-4000-8000-000000000001', 'e1000000-0000-4000-8000-000000000001', 'Um', true),
  ('e0000000-0000-4000-8000-000000000001', 'e1000000-0000-4000-8000-000000000002', 'Inativa', false),
  ('e0000000-0000-4000-8000-000000000002', 'e1000000-0000-4000-8000-000000000003', 'Dois', true);

-- The fields that a creation refuses, with their messages; null if it refuses none.
create function pg_temp.refused(p_data_nascimento text, p_academia_id uuid default null)
returns jsonb
language plpgsql
as $$
declare
  v_detail text;
begin
  perform public.criar_aluno(
    'test_um', 'Ana', 'a@um.example', p_data_nascimento => p_data_nascimento, p_academia_id => p_academia_id
  );
  return null;
exception
  when sqlstate 'PT422' then
    get stacked diagnostics v_detail = pg_exception_detail;
    return v_detail;
end;
$$;
grant execute on function pg_temp.refused(text, uuid) to public;

set local role gateway;

-- p_data_nascimento.

select lives_ok(
  format('select public.criar_aluno(%L, %L, %L, p_data_nascimento => %L)', 'test_um', 'Ana', 'a@um.example', d.text),
  format('the date of birth %s is accepted', coalesce(to_json(d.text)::text, 'null'))
)
  from (values (null), ('2000-02-29'), ('29/02/2000'), ('0001-01-01')) as d (text);
select is(
  pg_temp.refused(d.text),
  '{"p_data_nascimento": ["must be a date that exists, as YYYY-MM-DD or DD/MM/YYYY"]}',
  format('the date of birth %s is refused', to_json(d.text))
)
  from (values
    (''), ('2001-02-29'), ('29/02/2001'), ('2001-13-01'), ('13/13/2001'), ('0000-01-01'), ('01/02/01'), ('2001-2-3'),
    ('2001/02/03'), ('03-02-2001'), ('20010203'), ('today'), ('infinity'), (' 2001-02-03'), (E'2001-02-03\n')
  ) as d (text);
-- p_academia_id.

select lives_ok(
  format('select public.criar_aluno(%L, %L, %L, p_academia_id => %L)', 'test_um', 'Ana', 'a@um.example', a.id),
  format('the id is accepted of %s', a.purpose)
)
  from (values
    (null, 'no gym'),
    ('e1000000-0000-4000-8000-000000000001', 'a gym of the tenant'),
    ('e1000000-0000-4000-8000-000000000002', 'a gym of the tenant that is inactive')
  ) as a (id, purpose);
select is(
  pg_temp.refused(null, a.id::uuid),
  '{"p_academia_id": ["must be the id of a gym of the tenant"]}',
  format('the id is refused of %s', a.purpose)
)
  from (values
    ('e1000000-0000-4000-8000-000000000003', 'a gym of another tenant'),
    ('e1000000-0000-4000-8000-00000000000f', 'a gym that is not there')
  ) as a (id, purpose);
-- Both.

select is(
  pg_temp.refused('', 'e1000000-0000-4000-8000-00000000000f'),
  '{"p_data_nascimento": ["must be a date that exists, as YYYY-MM-DD or DD/MM/YYYY"],
    "p_academia_id": ["must be the id of a gym of the tenant"]}',
  'both fields are refused at once'
);
select throws_ok(
  $$ select public.criar_aluno('test_um', 'Ana', 'a@um.example', p_data_nascimento => '') $$,
  'PT422', 'invalid fields',
  'the error is PT422'
);

reset role;
select results_eq(
  $$
    select t.line, i.*
      from (values (1, '2001-02-28', null::uuid),
                   (2, '2001-02-29', null),
                   (3, null, 'e1000000-0000-4000-8000-00000000000f'),
                   (4, 'ontem', 'e1000000-0000-4000-8000-00000000000f')) t (line, data, gym)
     cross join lateral private.find_invalid_fields('e0000000-0000-4000-8000-000000000001', t.data, t.gym) i
  $$,
  $$
    values (2, 'p_data_nascimento', 'must be a date that exists, as YYYY-MM-DD or DD/MM/YYYY'),
           (3, 'p_academia_id', 'must be the id of a gym of the tenant'),
           (4, 'p_data_nascimento', 'must be a date that exists, as YYYY-MM-DD or DD/MM/YYYY'),
           (4, 'p_academia_id', 'must be the id of a gym of the tenant')
  $$,
  'every invalid field is returned, with its message'
);

select * from finish();
rollback;
