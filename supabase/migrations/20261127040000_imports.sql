-- A default with the text $2, such as 'R$20,00', was changed where an import left its column empty. And an import no longer alters the
-- indexes of searches: until its end, that locked all creations and most lists of every tenant out. Its messages name the column whose
-- type cannot read a text. What a trigger refuses is a bad line too. A line that changes nothing is no change.

-- Postgres does not name that column.
create function private.find_unreadable(p_table regclass, p_fields jsonb)
returns text
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
  v_column record;
begin
  for v_column in
    select a.attname::text as name, format_type(a.atttypid, a.atttypmod) as type
      from pg_attribute a
     where a.attrelid = p_table and p_fields ? a.attname
     order by a.attnum
  loop
    begin
      execute format('select ($1 ->> %L)::%s', v_column.name, v_column.type) using p_fields;
    exception
      -- The rule of a domain is a constraint.
      when data_exception or integrity_constraint_violation then
        return v_column.name;
    end;
  end loop;
  return null;
end;
$$;
comment on function private.find_unreadable(regclass, jsonb) is
  'The first column of a table whose type cannot read its text of an import; null for none';

create function private.find_unchanged(p_tenant_id uuid, p_table regclass, p_lines jsonb)
returns table (line integer)
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
  v_condition text;
begin
  select string_agg(
           format(
             -- Types such as json have no equality of their own, and that of others ignores a part, such as the case of letters.
             '(not l.value -> ''fields'' ? %1$L or to_jsonb(r.%1$I) is not distinct from to_jsonb((l.value -> ''fields'' ->> %1$L)::%2$s))',
             c.name, c.type
           ),
           ' and '
         )
    into v_condition
    from private.data_columns(p_table) c
   where c.name <> 'id';
  return query execute format(
    'select (l.value ->> ''line'')::integer
       from jsonb_array_elements($2) l
       join %s r on r.tenant_id = $1 and r.id = (l.value ->> ''id'')::uuid and %s',
    p_table, v_condition
  ) using p_tenant_id, p_lines;
exception
  when integrity_constraint_violation or data_exception or raise_exception or sqlstate 'PT422' then
    return; -- A value that no row can have: private.import_rows tells its line.
end;
$$;
comment on function private.find_unchanged(uuid, regclass, jsonb) is
  'The lines of the elements for private.import_rows that would change no field of the row that their id names';

create or replace function private.import_rows(
  p_tenant_id uuid, p_table regclass, p_lines jsonb, p_is_update boolean default false
)
returns table (line integer, field text, message text)
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now constant timestamptz := clock_timestamp();
  -- Stands for the line: a default may contain any other text.
  v_mark constant text := chr(1);
  v_columns text;
  v_values text;
  v_changes text;
  v_many text;
  v_one text;
  v_line jsonb;
  v_message text;
  v_constraint text;
  v_code text;
  v_detail text;
  v_rule record;
begin
  perform private.require_tenant(p_tenant_id);
  -- Each line is one microsecond later than the one before, because lists are in order of creation and the clock of the
  -- embedded Postgres counts milliseconds.
  select string_agg(quote_ident(c.name), ', '),
         string_agg(
           format(
             'coalesce((%s -> ''fields'' ->> %L)::%s, %s)', v_mark, c.name, c.type,
             case
               when c.name = 'criado_em' then
                 format('$3 + (%s ->> ''line'')::integer * interval ''1 microsecond''', v_mark)
               else coalesce(c.column_default, 'null')
             end
           ),
           ', '
         ),
         string_agg(
           format(
             '%1$I = case when l.value -> ''fields'' ? %1$L then (l.value -> ''fields'' ->> %1$L)::%2$s else r.%1$I end',
             c.name, c.type
           ),
           ', '
         ) filter (where c.name <> 'id')
    into v_columns, v_values, v_changes
    from private.data_columns(p_table) c;
  if p_is_update then
    v_many := format(
      'update %s r set %s from jsonb_array_elements($2) l where r.tenant_id = $1 and r.id = (l.value ->> ''id'')::uuid',
      p_table, v_changes
    );
  else
    v_one := format('insert into %s (tenant_id, %s) values ($1, %s)', p_table, v_columns, replace(v_values, v_mark, '$2'));
    v_many := format(
      'insert into %s (tenant_id, %s) select $1, %s from jsonb_array_elements($2) l',
      p_table, v_columns, replace(v_values, v_mark, 'l.value')
    );
  end if;

  -- Citus copies the rows of a query, which row security forbids.
  if current_setting('citus.propagate_set_commands', true) is null then
    begin
      execute v_many using p_tenant_id, p_lines, v_now;
      return;
    exception
      when integrity_constraint_violation or data_exception or raise_exception or sqlstate 'PT422' then
        null; -- One by one, each line tells its own.
    end;
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
      when integrity_constraint_violation or data_exception or raise_exception or sqlstate 'PT422' then
        get stacked diagnostics
          v_message = message_text, v_constraint = constraint_name, v_code = returned_sqlstate, v_detail = pg_exception_detail;
        select a.attname::text as field,
               case
                 when k.contype = 'c' then 'must satisfy ' || pg_get_expr(k.conbin, k.conrelid)
                 when k.contype in ('p', 'u') then 'must not be that of another record'
               end as message
          into v_rule
          from pg_constraint k
          left join pg_attribute a on a.attrelid = k.conrelid and a.attnum = any (k.conkey) and a.attname <> 'tenant_id'
         -- Citus leaves it empty, and the message has to do.
         where k.conname = v_constraint
           and (
             k.conrelid = p_table
             or k.contypid in (select d.atttypid from pg_attribute d where d.attrelid = p_table and d.attnum > 0)
           )
         order by a.attnum
         limit 1;
        return query
          select (v_line ->> 'line')::integer,
                 case v_code
                   when 'PT422' then v_detail
                   else coalesce(v_rule.field, private.find_unreadable(p_table, v_line -> 'fields'))
                 end,
                 coalesce(v_rule.message, v_message);
    end;
  end loop;
end;
$$;
