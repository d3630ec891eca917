-- Rows that refer to others, and copies of them.
--
-- The responses that an erasure deletes are those of all its rows. A creation of another table was repeated from a kept response,
-- with the data of a student who had been erased. Rows of others that refer to one in the same table end that reference, which kept
-- the student from being erased. Rows that refer to the student `on delete set null` outlive the student too: they were deleted.
-- The data of a student and its erasure cover rows that refer to a row about the student, such as the exercises of a workout. Tables
-- that refer to each other have an order by a deferred key. Only a reference to an id stands for a record in an import.

create or replace function private.tenant_tables()
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
       and not k.condeferred
      join tables t on t.oid = k.confrelid
     -- Tables that refer to each other have no order, except by a deferred key.
     where p.place < 100
  )
  select p.oid::regclass, max(p.place) from placed p group by p.oid order by 2, p.oid::regclass::text;
$$;

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
     where k.confdeltype not in ('n', 'd')
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
  v_ids text[];
  v_all_ids text[] := array[]::text[];
  v_changes jsonb;
  v_all_changes jsonb := jsonb '[]';
  v_data jsonb := jsonb '{}';
begin
  perform private.require_student(p_tenant_id, p_aluno_id);
  for v_table in
    select t.name, (select c.relname::text from pg_class c where c.oid = t.name) as resource, t.condition
      from private.student_rows() t
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
   where i.tenant_id = p_tenant_id
     and i.response ->> 'id' = any (v_all_ids)
     -- A number may be the id of somebody else's row in another table. An erasure deletes such a response too.
     and private.to_uuid(i.response ->> 'id') is not null;
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
  v_reference record;
  v_others text;
  v_is_kept boolean;
begin
  perform private.require_student(p_tenant_id, p_aluno_id);
  -- First, as whoever writes a row that refers to the student does: that one ends before, or finds no student.
  perform from private.alunos a where a.tenant_id = p_tenant_id and a.id = p_aluno_id for update;
  -- An import may have brought the student back since an earlier erasure. Only by its time a restore can tell whether its backup is
  -- of before or after the last one.
  insert into private.erasures (tenant, student, erased_at)
  values (p_tenant_id, p_aluno_id, v_now)
  on conflict (tenant, student) do update set erased_at = excluded.erased_at;
  for v_table in
    -- A join could change the order, in which rows come before those that they refer to.
    select t.name, (select c.relname::text from pg_class c where c.oid = t.name) as resource, t.condition
      from private.student_rows() t
  loop
    execute format(
      'select array_agg(r.row ->> ''id'') filter (where r.row ->> ''id'' is not null)
         from (select to_jsonb(r.*) as row from %s r where r.tenant_id = $1 and (%s) for update) r',
      v_table.name, v_table.condition
    ) into v_ids using p_tenant_id, p_aluno_id;
    v_all_ids := v_all_ids || v_ids;
    for v_reference in
      select string_agg(o.attname, ', ' order by n.place) as names,
             string_agg(format('r.%I', o.attname), ', ' order by n.place) as own,
             string_agg(format('r.%I', t.attname), ', ' order by n.place) as referred,
             string_agg(format('%I = null', o.attname), ', ' order by n.place) filter (where not o.attnotnull) as cleared
        from pg_constraint k
       cross join unnest(k.conkey, k.confkey) with ordinality n (own, referred, place)
        join pg_attribute o on o.attrelid = k.conrelid and o.attnum = n.own and o.attname <> 'tenant_id'
        join pg_attribute t on t.attrelid = k.confrelid and t.attnum = n.referred
       where k.contype = 'f' and k.conrelid = v_table.name and k.confrelid = v_table.name
         -- Postgres does what the others say.
         and k.confdeltype in ('a', 'r')
       group by k.oid
    loop
      v_others := format(
        'r.tenant_id = $1 and (%2$s) is not true and (%3$s) in (select %4$s from %1$s r where r.tenant_id = $1 and (%2$s))',
        v_table.name, v_table.condition, v_reference.own, v_reference.referred
      );
      if v_reference.cleared is not null then
        execute format('update %s r set %s where %s', v_table.name, v_reference.cleared, v_others)
          using p_tenant_id, p_aluno_id;
      else
        execute format('select exists (select from %s r where %s)', v_table.name, v_others)
          into v_is_kept using p_tenant_id, p_aluno_id;
        if v_is_kept then
          raise exception using
            errcode = 'object_not_in_prerequisite_state',
            message = format('rows of others in %s refer by %s to those of student %s', v_table.name, v_reference.names, p_aluno_id),
            hint = 'Change or delete these rows first, or let the column take null.';
        end if;
      end if;
    end loop;
    execute format('delete from %s r where r.tenant_id = $1 and (%s)', v_table.name, v_table.condition)
      using p_tenant_id, p_aluno_id;
    get diagnostics deleted = row_count;
    -- The change that tells of the deletion keeps the id: copies of the record have to end too. Sets are hashed; arrays would be
    -- compared id by id.
    update private.changes c
       set records = array(
             select case when r.id not in (select unnest(v_ids)) then r.id end
               from unnest(c.records) with ordinality r (id, place)
              order by r.place
           )
     where c.tenant_id = p_tenant_id
       and c.resource = v_table.resource
       and exists (select unnest(c.records) intersect select unnest(v_ids))
       and c.kind <> 'excluido';
    name := v_table.name::text;
    return next;
  end loop;
  -- A response need not have the row's id as its "id". Only of a uuid it is sure that it is one.
  delete from private.idempotency_keys i
   where i.tenant_id = p_tenant_id
     and (
       i.response ->> 'id' = any (v_all_ids)
       or exists (
         select from jsonb_path_query(i.response, '$.** ? (@.type() == "string")') v (value)
          where v.value #>> '{}' = any (v_all_ids) and private.to_uuid(v.value #>> '{}') is not null
       )
     );
  get diagnostics deleted = row_count;
  name := 'private.idempotency_keys';
  return next;
end;
$$;

drop function private.student_tables();

create or replace function private.repeat_erasures(p_erasures jsonb)
returns setof private.erasures
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
as $$
declare
  v_erasure private.erasures;
  v_erased_at timestamptz;
begin
  for v_erasure in select e.* from jsonb_populate_recordset(null::private.erasures, p_erasures) e loop
    -- Also where nothing came back: the next list has to be as long as this one.
    insert into private.erasures as k (tenant, student, erased_at)
    values (v_erasure.tenant, v_erasure.student, v_erasure.erased_at)
    on conflict (tenant, student) do update set erased_at = greatest(k.erased_at, excluded.erased_at)
    returning k.erased_at into v_erased_at;
    if v_erasure.student is null then
      continue when not exists (select from private.tenants t where t.id = v_erasure.tenant);
      perform private.delete_tenant(v_erasure.tenant);
    else
      continue when not exists (
        select from private.alunos a where a.tenant_id = v_erasure.tenant and a.id = v_erasure.student
      );
      begin
        perform private.erase_student(v_erasure.tenant, v_erasure.student);
      exception
        when integrity_constraint_violation then
          -- The message of Postgres does not say whose erasure it is.
          raise exception using
            errcode = 'object_not_in_prerequisite_state',
            message = format('student %s of tenant %s cannot be erased: %s', v_erasure.student, v_erasure.tenant, sqlerrm),
            hint = 'Nothing of the list was erased. Change what keeps the student, and repeat the list.';
      end;
      -- A repetition is no later erasure.
      update private.erasures k
         set erased_at = v_erased_at
       where k.tenant = v_erasure.tenant and k.student = v_erasure.student;
    end if;
    return next v_erasure;
  end loop;
end;
$$;

create or replace function private.export_query(p_tenant_id uuid, p_table regclass)
returns text
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
  select format(
           'select json_build_array(%s)::text as texts from %s r where r.tenant_id = %L order by %s',
           -- In JSON a time is the same whatever the style of dates. Other types only read their own text, and so do arrays.
           string_agg(
             format(case when c.type ~ '^(date|time)[^[]*$' then 'to_jsonb(r.%I) #>> ''{}''' else 'r.%I::text' end, c.name), ', '
           ),
           p_table, p_tenant_id,
           coalesce(string_agg(quote_ident(c.name), ', ' order by c.name) filter (where c.name in ('criado_em', 'id')), '1')
         )
    from private.data_columns(p_table) c;
$$;

-- An empty value is what an import makes of it. It was equal to any value, so that lines were taken for records that they are not.
create or replace function private.find_rows(p_tenant_id uuid, p_table regclass, p_columns text[], p_lines jsonb)
returns table (line integer, id uuid)
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
  v_condition text;
begin
  select string_agg(
           format(
             -- Only an equality alone can be hashed: otherwise each line would be compared with each row.
             case
               when c.required or cardinality(p_columns) = 1 or f.fixed is not null then '%1$s'
               when c.column_default is not null or c.name = 'criado_em' then '(%2$s is null or %1$s)'
               else '(%2$s is null and r.%3$I is null or %1$s)'
             end,
             format(
               case
                 when c.type = 'text' then 'lower(r.%1$I collate "und-x-icu") = lower(%2$s collate "und-x-icu")'
                 when to_regoperator(format('=(%1$s,%1$s)', c.type)) is not null then 'r.%1$I = %2$s'
                 -- Types such as json and point have no equality of their own.
                 else 'to_jsonb(r.%1$I) = to_jsonb(%2$s)'
               end,
               c.name, case when f.fixed is null then f.value else format('coalesce(%s, %s)', f.value, f.fixed) end
             ),
             f.value, c.name
           ),
           ' and '
         )
    into v_condition
    from private.data_columns(p_table) c
   cross join lateral (
     select format('(l.value -> ''fields'' ->> %L)::%s', c.name, c.type) as value,
            case
              -- Without its literals, types and constants the default calls nothing: it is the same for every row. What a default
              -- computes, such as an id or a time, is another one each time, and an empty value says nothing about it.
              when regexp_replace(
                c.column_default, $re$'(''|[^'])*'|::[\w ."]+(\([\d,]+\))?(\[\])*|\m(true|false|null|array)\M$re$, '', 'gi'
              ) !~ '[[:alpha:]]' then c.column_default
            end as fixed
   ) f
   where c.name = any (p_columns);
  return query execute format(
    'select (l.value ->> ''line'')::integer, r.id from jsonb_array_elements($2) l join %s r on r.tenant_id = $1 and %s',
    p_table, v_condition
  ) using p_tenant_id, p_lines;
exception
  when data_exception then
    return; -- A value that no row can have: private.import_rows tells its line.
end;
$$;
comment on function private.find_rows(uuid, regclass, text[], jsonb) is
  'The ids of a tenant''s records that are as the elements of an array in some columns, ignoring capitals, each with the line of its element; a field that an element lacks is null or the default of its column, and is not compared if that is computed';

-- A domain may have the default of its columns, and take no null.
create or replace function private.data_columns(p_table regclass)
returns table (
  name text, type text, column_default text, required boolean, max_length integer, refers_to regclass, known_by text
)
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
  with recursive base (attnum, type, modifier, required, column_default) as (
    select a.attnum, a.atttypid, a.atttypmod, a.attnotnull, pg_get_expr(d.adbin, d.adrelid)
      from pg_attribute a
      left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
     where a.attrelid = p_table
    union all
    -- A domain may be over another domain.
    select b.attnum, y.typbasetype, y.typtypmod, b.required or y.typnotnull,
           coalesce(b.column_default, pg_get_expr(y.typdefaultbin, 0))
      from base b
      join pg_type y on y.oid = b.type
     where y.typtype = 'd'
  )
  select a.attname,
         -- An assignment refuses a text that is too long for the column; a conversion to its type would cut it.
         case when y.typcategory = 'S' then 'text' else format_type(b.type, b.modifier) end,
         b.column_default,
         b.required and b.column_default is null,
         least(
           (select min((regexp_match(pg_get_constraintdef(k.oid), 'char_length\(\w+\) <= (\d+)'))[1]::integer)
              from pg_constraint k
             where k.conrelid = a.attrelid and k.contype = 'c' and k.conkey = array[a.attnum]),
           case when b.type in ('varchar'::regtype, 'bpchar'::regtype) and b.modifier > 4 then b.modifier - 4 end
         ),
         r.name, r.known_by
    from pg_attribute a
    join base b on b.attnum = a.attnum
    join pg_type y on y.oid = b.type and y.typtype <> 'd'
    left join lateral (
      select k.confrelid::regclass as name,
             (select l.attname
                from pg_attribute l
               where l.attrelid = k.confrelid and l.attname in ('email', 'nome', 'titulo')
               order by l.attname
               limit 1) as known_by
        from pg_constraint k
        join unnest(k.conkey, k.confkey) n (own, referred) on n.own = a.attnum
        join pg_attribute l on l.attrelid = k.confrelid and l.attnum = n.referred and l.attname = 'id'
       where k.conrelid = a.attrelid and k.contype = 'f' and l.atttypid = 'uuid'::regtype
       limit 1
    ) r on true
   where a.attrelid = p_table
     and a.attnum > 0
     and not a.attisdropped
     and a.attgenerated = ''
     and a.attidentity = ''
     and a.attname <> 'tenant_id'
   order by a.attnum;
$$;
