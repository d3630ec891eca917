-- Holds the rows that are there to the new bounds. Where some are longer, they stay, and a warning says which.

-- On a large table this takes longer than a server may give to a statement.
select set_config('statement_timeout', '0', true);

-- A row that is longer can be read and deleted, but not changed. A key must stay revocable, and its use is recorded.
update private.api_keys
   set name = left(regexp_replace(name, '^\s+', ''), 255)
 where char_length(name) > 255;

do $$
declare
  v_bound record;
  v_rows bigint;
begin
  for v_bound in
    select c.conrelid::regclass::text as table_name, c.conname as name, pg_get_expr(c.conbin, c.conrelid) as condition
      from pg_constraint c
     where c.connamespace = 'private'::regnamespace
       and c.conname ~ '_length$'
       and not c.convalidated
     order by 1, 2
  loop
    begin
      execute format('alter table %s validate constraint %I', v_bound.table_name, v_bound.name);
    exception
      when check_violation then
        execute format('select count(*) from %s where not %s', v_bound.table_name, v_bound.condition) into v_rows;
        raise warning 'rows of % that are longer than the bound %: %', v_bound.table_name, v_bound.condition, v_rows
          using hint = format(
            'They cannot be changed until they are shortened. Find them: select * from %1$s where not %2$s; '
            'shorten them, then: alter table %1$s validate constraint %3$I',
            v_bound.table_name, v_bound.condition, v_bound.name
          );
    end;
  end loop;
end;
$$;
