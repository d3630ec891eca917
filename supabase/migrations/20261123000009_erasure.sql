-- What a store has of one student, its erasure, and the end of a tenant. For administrators: no role is granted these functions.

create function private.tenant_tables()
returns table (name regclass, place integer)
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
  with recursive tables as (
    select c.oid
      from pg_class c
      join pg_attribute a on a.attrelid = c.oid and a.attname = 'tenant_id' and not a.attisdropped
     where c.relnamespace = 'private'::regnamespace
       and c.relkind in ('r', 'p')
       and exists (select from pg_policy p where p.polrelid = c.oid and p.polname = 'administration')
  ),
  placed as (
    select t.oid, 0 as place from tables t
    union
    select k.confrelid, p.place + 1
      from placed p
      join pg_constraint k on k.conrelid = p.oid and k.contype = 'f' and k.confrelid <> k.conrelid
      join tables t on t.oid = k.confrelid
     -- Tables that refer to each other have no order.
     where p.place < 100
  )
  select p.oid::regclass, max(p.place) from placed p group by p.oid order by 2, p.oid::regclass::text;
$$;
comment on function private.tenant_tables() is
  'The tables with rows of tenants, each after those that refer to it, which is the order to delete in';

create function private.delete_tenant(p_tenant_id uuid)
returns table (name text, deleted bigint)
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
as $$
declare
  v_table regclass;
begin
  perform private.require_tenant(p_tenant_id);
  -- A batch of usage holds keys while it asks for their tenant.
  perform from private.api_keys k where k.tenant_id = p_tenant_id order by k.id for update;
  -- A request that creates something for the tenant waits, and fails once the tenant is gone.
  perform from private.tenants t where t.id = p_tenant_id for update;
  for v_table in select t.name from private.tenant_tables() t loop
    execute format('delete from %s where tenant_id = $1', v_table) using p_tenant_id;
    get diagnostics deleted = row_count;
    name := v_table::text;
    return next;
  end loop;
  delete from private.tenants t where t.id = p_tenant_id;
end;
$$;
comment on function private.delete_tenant(uuid) is
  'Deletes a tenant, its keys and all its rows, and returns the number of rows of each table';

create function private.student_tables()
returns table (name regclass, student_column name)
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
  select t.name, case when t.name = 'private.alunos'::regclass then 'id' else a.attname end
    from private.tenant_tables() t
    left join pg_constraint k on k.conrelid = t.name and k.contype = 'f' and k.confrelid = 'private.alunos'::regclass
    left join pg_attribute a on a.attrelid = t.name and a.attnum = any (k.conkey) and a.attname <> 'tenant_id'
   where t.name = 'private.alunos'::regclass
      or a.attname is not null
   order by t.place, t.name::text;
$$;
comment on function private.student_tables() is
  'The tables with rows about students, in the order to delete in, each with the column that has the student''s id';

create function private.require_student(p_tenant_id uuid, p_aluno_id uuid)
returns void
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
begin
  perform private.require_tenant(p_tenant_id);
  if not exists (select from private.alunos a where a.tenant_id = p_tenant_id and a.id = p_aluno_id) then
    raise exception using
      errcode = 'no_data_found', message = format('the tenant has no student %s', p_aluno_id);
  end if;
end;
$$;
comment on function private.require_student(uuid, uuid) is 'Raises no_data_found unless the tenant has the student';

create function private.student_data(p_tenant_id uuid, p_aluno_id uuid)
returns jsonb
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
  v_table record;
  v_rows jsonb;
  v_data jsonb;
begin
  perform private.require_student(p_tenant_id, p_aluno_id);
  -- A kept response is a copy of the student.
  select jsonb_build_object('idempotency_keys', coalesce(jsonb_agg(to_jsonb(i) - 'tenant_id'), jsonb '[]'))
    into v_data
    from private.idempotency_keys i
   where i.tenant_id = p_tenant_id and i.response ->> 'id' = p_aluno_id::text;
  for v_table in select t.name, t.student_column from private.student_tables() t loop
    execute format(
      'select coalesce(jsonb_agg(to_jsonb(r) - ''tenant_id''), ''[]'') from %s r where r.tenant_id = $1 and r.%I = $2',
      v_table.name, v_table.student_column
    ) into v_rows using p_tenant_id, p_aluno_id;
    v_data := v_data || jsonb_build_object(replace(v_table.name::text, 'private.', ''), v_rows);
  end loop;
  return v_data;
end;
$$;
comment on function private.student_data(uuid, uuid) is
  'All rows about a student, by table: the student, what refers to it, and kept responses';

create function private.erase_student(p_tenant_id uuid, p_aluno_id uuid)
returns table (name text, deleted bigint)
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
as $$
declare
  v_table record;
begin
  perform private.require_student(p_tenant_id, p_aluno_id);
  delete from private.idempotency_keys i
   where i.tenant_id = p_tenant_id and i.response ->> 'id' = p_aluno_id::text;
  get diagnostics deleted = row_count;
  name := 'private.idempotency_keys';
  return next;
  for v_table in select t.name, t.student_column from private.student_tables() t loop
    execute format('delete from %s r where r.tenant_id = $1 and r.%I = $2', v_table.name, v_table.student_column)
      using p_tenant_id, p_aluno_id;
    get diagnostics deleted = row_count;
    name := v_table.name::text;
    return next;
  end loop;
end;
$$;
comment on function private.erase_student(uuid, uuid) is
  'Deletes all rows about a student and returns the number of rows of each table; afterwards the id is as one that never was';
