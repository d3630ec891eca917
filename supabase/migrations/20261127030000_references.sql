-- The responses that an erasure deletes are those of all its rows. A creation of another table was repeated from a kept response,
-- with the data of a student who had been erased.

create or replace function private.student_data(p_tenant_id uuid, p_aluno_id uuid)
returns jsonb
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
  v_table record;
  v_rows jsonb;
  v_ids text[];
  v_all_ids text[] := array[]::text[];
  v_changes jsonb;
  v_all_changes jsonb := jsonb '[]';
  v_data jsonb := jsonb '{}';
begin
  perform private.require_student(p_tenant_id, p_aluno_id);
  for v_table in
    select t.name, replace(t.name::text, 'private.', '') as resource, t.condition from private.student_rows() t
  loop
    execute format(
      'select coalesce(jsonb_agg(to_jsonb(r.*) - ''tenant_id''), ''[]'') from %s r where r.tenant_id = $1 and (%s)',
      v_table.name, v_table.condition
    ) into v_rows using p_tenant_id, p_aluno_id;
    v_ids := array(select r.value ->> 'id' from jsonb_array_elements(v_rows) r);
    v_all_ids := v_all_ids || v_ids;
    -- Without the ids of others that one statement has changed.
    select coalesce(jsonb_agg(to_jsonb(c) - array['tenant_id', 'records'] order by c.id), jsonb '[]')
      into v_changes
      from private.changes c
     where c.tenant_id = p_tenant_id
       and c.resource = v_table.resource
       and c.records && v_ids;
    v_data := v_data || jsonb_build_object(v_table.resource, v_rows);
    v_all_changes := v_all_changes || v_changes;
  end loop;
  -- A kept response is a copy of the row that its request created.
  select v_data || jsonb_build_object('idempotency_keys', coalesce(jsonb_agg(to_jsonb(i) - 'tenant_id'), jsonb '[]'))
    into v_data
    from private.idempotency_keys i
   where i.tenant_id = p_tenant_id and i.response ->> 'id' = any (v_all_ids);
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
  v_all_ids text[] := array[]::text[];
begin
  perform private.require_student(p_tenant_id, p_aluno_id);
  insert into private.erasures (tenant, student, erased_at) values (p_tenant_id, p_aluno_id, v_now) on conflict do nothing;
  for v_table in
    select t.name, replace(t.name::text, 'private.', '') as resource, t.condition from private.student_rows() t
  loop
    execute format(
      'select array_agg(r.row ->> ''id'')
         from (select to_jsonb(r.*) as row from %s r where r.tenant_id = $1 and (%s) for update) r',
      v_table.name, v_table.condition
    ) into v_ids using p_tenant_id, p_aluno_id;
    v_all_ids := v_all_ids || v_ids;
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
  delete from private.idempotency_keys i
   where i.tenant_id = p_tenant_id and i.response ->> 'id' = any (v_all_ids);
  get diagnostics deleted = row_count;
  name := 'private.idempotency_keys';
  return next;
end;
$$;
