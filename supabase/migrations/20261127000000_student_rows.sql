-- The data of a student and its erasure also cover rows that refer to a row about the student, such as the exercises of a
-- workout. Of a table with two columns for students the data had the rows of one, and one with a column r failed.

create function private.student_rows()
returns table (name regclass, condition text)
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
  with recursive found as (
    -- The collation of names in the catalog.
    select 'private.alunos'::regclass::oid as oid, 'r.id = $2' collate "C" as condition, array['private.alunos'::regclass::oid] as path
    union all
    select k.conrelid,
           format('(%s) in (select %s from %s r where r.tenant_id = $1 and (%s))', c.own, c.referred, f.oid::regclass, f.condition),
           f.path || k.conrelid
      from found f
      join pg_constraint k on k.confrelid = f.oid and k.contype = 'f' and k.conrelid <> all (f.path)
     cross join lateral (
       select string_agg(format('r.%I', o.attname), ', ' order by n.place) as own,
              string_agg(format('r.%I', t.attname), ', ' order by n.place) as referred
         from unnest(k.conkey, k.confkey) with ordinality n (own, referred, place)
         join pg_attribute o on o.attrelid = k.conrelid and o.attnum = n.own and o.attname <> 'tenant_id'
         join pg_attribute t on t.attrelid = k.confrelid and t.attnum = n.referred
     ) c
     -- A row that outlives the one that it refers to is not about the student.
     where cardinality(f.path) = 1 or k.confdeltype not in ('n', 'd')
  )
  select t.name, string_agg(distinct f.condition, ' or ')
    from private.tenant_tables() t
    join found f on f.oid = t.name
   group by t.name, t.place
   order by t.place, t.name::text;
$$;
comment on function private.student_rows() is
  'The tables with rows about students, in the order to delete in, each with the condition of its rows r of tenant $1 about student $2';

create or replace function private.student_data(p_tenant_id uuid, p_aluno_id uuid)
returns jsonb
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
  v_table record;
  v_rows jsonb;
  v_changes jsonb;
  v_all_changes jsonb := jsonb '[]';
  v_data jsonb;
begin
  perform private.require_student(p_tenant_id, p_aluno_id);
  -- A kept response is a copy of the student.
  select jsonb_build_object('idempotency_keys', coalesce(jsonb_agg(to_jsonb(i) - 'tenant_id'), jsonb '[]'))
    into v_data
    from private.idempotency_keys i
   where i.tenant_id = p_tenant_id and i.response ->> 'id' = p_aluno_id::text;
  for v_table in
    select t.name, replace(t.name::text, 'private.', '') as resource, t.condition from private.student_rows() t
  loop
    execute format(
      'select coalesce(jsonb_agg(to_jsonb(r.*) - ''tenant_id''), ''[]'') from %s r where r.tenant_id = $1 and (%s)',
      v_table.name, v_table.condition
    ) into v_rows using p_tenant_id, p_aluno_id;
    -- Without the ids of others that one statement has changed.
    select coalesce(jsonb_agg(to_jsonb(c) - array['tenant_id', 'records'] order by c.id), jsonb '[]')
      into v_changes
      from private.changes c
     where c.tenant_id = p_tenant_id
       and c.resource = v_table.resource
       and c.records && array(select r.value ->> 'id' from jsonb_array_elements(v_rows) r);
    v_data := v_data || jsonb_build_object(v_table.resource, v_rows);
    v_all_changes := v_all_changes || v_changes;
  end loop;
  return v_data || jsonb_build_object('changes', v_all_changes);
end;
$$;

create or replace function private.erase_student(p_tenant_id uuid, p_aluno_id uuid)
returns table (name text, deleted bigint)
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now constant timestamptz := now();
  v_table record;
  v_ids text[];
begin
  perform private.require_student(p_tenant_id, p_aluno_id);
  insert into private.erasures (tenant, student, erased_at) values (p_tenant_id, p_aluno_id, v_now) on conflict do nothing;
  delete from private.idempotency_keys i
   where i.tenant_id = p_tenant_id and i.response ->> 'id' = p_aluno_id::text;
  get diagnostics deleted = row_count;
  name := 'private.idempotency_keys';
  return next;
  for v_table in
    select t.name, replace(t.name::text, 'private.', '') as resource, t.condition from private.student_rows() t
  loop
    execute format(
      'select array_agg(r.row ->> ''id'')
         from (select to_jsonb(r.*) as row from %s r where r.tenant_id = $1 and (%s) for update) r',
      v_table.name, v_table.condition
    ) into v_ids using p_tenant_id, p_aluno_id;
    execute format('delete from %s r where r.tenant_id = $1 and (%s)', v_table.name, v_table.condition)
      using p_tenant_id, p_aluno_id;
    get diagnostics deleted = row_count;
    -- The change that tells of the deletion keeps the id: copies of the record have to end too.
    update private.changes c
       set records = array(
             select case when r.id <> all (v_ids) then r.id end
               from unnest(c.records) with ordinality r (id, place)
              order by r.place
           )
     where c.tenant_id = p_tenant_id
       and c.resource = v_table.resource
       and c.records && v_ids
       and c.kind <> 'excluido';
    name := v_table.name::text;
    return next;
  end loop;
end;
$$;

drop function private.student_tables();
