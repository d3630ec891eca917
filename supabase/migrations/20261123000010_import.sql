-- The import and the export of a tenant's data, for every table that has some. For administrators: no role is granted these
-- functions.

create function private.data_tables()
returns table (name regclass)
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
  select t.name
    from private.tenant_tables() t
   where t.name not in ('private.api_keys'::regclass, 'private.idempotency_keys'::regclass, 'private.usage'::regclass)
   order by t.place desc, t.name::text;
$$;
comment on function private.data_tables() is
  'The tables with the data of tenants, each after those that it refers to, which is the order to import in';

create function private.data_columns(p_table regclass)
returns table (
  name text, type text, column_default text, required boolean, max_length integer, refers_to regclass, known_by text
)
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
  select a.attname, format_type(a.atttypid, a.atttypmod), pg_get_expr(d.adbin, d.adrelid),
         a.attnotnull and d.oid is null,
         (select min((regexp_match(pg_get_constraintdef(k.oid), 'char_length\(\w+\) <= (\d+)'))[1]::integer)
            from pg_constraint k
           where k.conrelid = a.attrelid and k.contype = 'c' and k.conkey = array[a.attnum]),
         r.name, r.known_by
    from pg_attribute a
    left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
    left join lateral (
      select k.confrelid::regclass as name,
             (select l.attname
                from pg_attribute l
               where l.attrelid = k.confrelid and l.attname in ('email', 'nome', 'titulo')
               order by l.attname
               limit 1) as known_by
        from pg_constraint k
       where k.conrelid = a.attrelid and k.contype = 'f' and a.attnum = any (k.conkey)
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
comment on function private.data_columns(regclass) is
  'The columns of a table that a file may have. One that refers to another table names it, and the column by which people know its records';

create function private.find_records(p_tenant_id uuid, p_table regclass, p_known_by text, p_values jsonb)
returns table (value text, id uuid)
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
begin
  return query execute format(
    'select v.value, r.id from jsonb_array_elements_text($2) v join %s r on r.tenant_id = $1 and r.id = private.to_uuid(v.value)',
    p_table
  ) using p_tenant_id, p_values;
  if p_known_by is not null then
    return query execute format(
      'select v.value, r.id from jsonb_array_elements_text($2) v join %s r on r.tenant_id = $1 and lower(r.%I collate "und-x-icu") = lower(v.value collate "und-x-icu")',
      p_table, p_known_by
    ) using p_tenant_id, p_values;
  end if;
end;
$$;
comment on function private.find_records(uuid, regclass, text, jsonb) is
  'The ids of a tenant''s records that an array of texts names, each by its id or by the column that people know it by';

create function private.find_rows(p_tenant_id uuid, p_table regclass, p_columns text[], p_lines jsonb)
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
               when c.required or cardinality(p_columns) = 1 then '%1$s'
               else '(l.value -> ''fields'' ->> %2$L is null or %1$s)'
             end,
             format(
               case
                 when c.type = 'text' then
                   'lower(r.%1$I collate "und-x-icu") = lower((l.value -> ''fields'' ->> %1$L) collate "und-x-icu")'
                 else 'r.%1$I = (l.value -> ''fields'' ->> %1$L)::%2$s'
               end,
               c.name, c.type
             ),
             c.name
           ),
           ' and '
         )
    into v_condition
    from private.data_columns(p_table) c
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
  'The ids of a tenant''s records that are as the elements of an array in some columns, ignoring capitals, each with the line of its element; a field that an element lacks is not compared';

create function private.import_rows(
  p_tenant_id uuid, p_table regclass, p_lines jsonb, p_is_update boolean default false
)
returns table (line integer, field text, message text)
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now constant timestamptz := clock_timestamp();
  v_columns text;
  v_values text;
  v_changes text;
  v_many text;
  v_one text;
  -- Indexes whose entries are collected and then added together: one by one took three times as long.
  v_indexes constant regclass[] := array(
    select i.indexrelid::regclass
      from pg_index i
      join pg_class c on c.oid = i.indexrelid
      join pg_am m on m.oid = c.relam
     where i.indrelid = p_table and m.amname = 'gin' and 'fastupdate=off' = any (c.reloptions)
  );
  v_index regclass;
  v_is_done boolean;
  v_line jsonb;
  v_message text;
  v_constraint text;
  v_rule record;
begin
  perform private.require_tenant(p_tenant_id);
  -- Each line is one microsecond later than the one before, because lists are in order of creation and the clock of the
  -- embedded Postgres counts milliseconds.
  select string_agg(quote_ident(c.name), ', '),
         string_agg(
           format(
             'coalesce(($2 -> ''fields'' ->> %L)::%s, %s)', c.name, c.type,
             case
               when c.name = 'criado_em' then '$3 + ($2 ->> ''line'')::integer * interval ''1 microsecond'''
               else coalesce(c.column_default, 'null')
             end
           ),
           ', '
         ),
         string_agg(
           format(
             '%1$I = case when $2 -> ''fields'' ? %1$L then ($2 -> ''fields'' ->> %1$L)::%2$s else r.%1$I end',
             c.name, c.type
           ),
           ', '
         ) filter (where c.name <> 'id')
    into v_columns, v_values, v_changes
    from private.data_columns(p_table) c;
  if p_is_update then
    v_many := format(
      'update %s r set %s from jsonb_array_elements($2) l where r.tenant_id = $1 and r.id = (l.value ->> ''id'')::uuid',
      p_table, replace(v_changes, '$2', 'l.value')
    );
  else
    v_one := format('insert into %s (tenant_id, %s) values ($1, %s)', p_table, v_columns, v_values);
    v_many := format(
      'insert into %s (tenant_id, %s) select $1, %s from jsonb_array_elements($2) l',
      p_table, v_columns, replace(v_values, '$2', 'l.value')
    );
  end if;

  -- Citus copies the rows of a query, which row security forbids.
  if current_setting('citus.propagate_set_commands', true) is null then
    foreach v_index in array v_indexes loop
      execute format('alter index %s set (fastupdate = on)', v_index);
    end loop;
    begin
      execute v_many using p_tenant_id, p_lines, v_now;
      v_is_done := true;
    exception
      when integrity_constraint_violation or data_exception then
        v_is_done := false; -- One by one, each line tells its own.
    end;
    -- Searches read what is collected, also of an import that failed.
    foreach v_index in array v_indexes loop
      perform gin_clean_pending_list(v_index);
      execute format('alter index %s set (fastupdate = off)', v_index);
    end loop;
    if v_is_done then
      return;
    end if;
  end if;

  for v_line in select l.value from jsonb_array_elements(p_lines) l loop
    if p_is_update then
      -- Citus takes no case with a conversion that depends on settings, such as that of a time.
      select string_agg(format('%1$I = ($2 -> ''fields'' ->> %1$L)::%2$s', c.name, c.type), ', ')
        into v_changes
        from private.data_columns(p_table) c
       where c.name <> 'id' and v_line -> 'fields' ? c.name;
      continue when v_changes is null;
      v_one := format('update %s r set %s where r.tenant_id = $1 and r.id = ($2 ->> ''id'')::uuid', p_table, v_changes);
    end if;
    begin
      execute v_one using p_tenant_id, v_line, v_now;
    exception
      when integrity_constraint_violation or data_exception then
        get stacked diagnostics v_message = message_text, v_constraint = constraint_name;
        select a.attname::text as field,
               case
                 when k.contype = 'c' then 'must satisfy ' || pg_get_expr(k.conbin, k.conrelid)
                 when k.contype in ('p', 'u') then 'must not be that of another record'
               end as message
          into v_rule
          from pg_constraint k
          join pg_attribute a on a.attrelid = k.conrelid and a.attnum = any (k.conkey) and a.attname <> 'tenant_id'
         -- Citus leaves it empty, and the message has to do.
         where k.conrelid = p_table and k.conname = v_constraint
         order by a.attnum
         limit 1;
        return query select (v_line ->> 'line')::integer, v_rule.field, coalesce(v_rule.message, v_message);
    end;
  end loop;
end;
$$;
comment on function private.import_rows(uuid, regclass, jsonb, boolean) is
  'Creates a row from each element of an array, which has its line and the texts of its fields, or changes these fields of the row that its id names; returns the line, field and message of each that a rule of the table refuses';

create function private.export_query(p_tenant_id uuid, p_table regclass)
returns text
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
  select format(
           'select json_build_array(%s)::text as texts from %s r where r.tenant_id = %L order by %s',
           -- In JSON a time is the same whatever the style of dates. Other types only read their own text.
           string_agg(
             format(case when c.type ~ '^(date|time)' then 'to_jsonb(r.%I) #>> ''{}''' else 'r.%I::text' end, c.name), ', '
           ),
           p_table, p_tenant_id,
           coalesce(string_agg(quote_ident(c.name), ', ' order by c.name) filter (where c.name in ('criado_em', 'id')), '1')
         )
    from private.data_columns(p_table) c;
$$;
comment on function private.export_query(uuid, regclass) is
  'A query of a tenant''s rows in a table: the texts of their columns as a JSON array, which private.import_rows takes again';
