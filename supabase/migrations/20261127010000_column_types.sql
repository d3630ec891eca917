-- Columns of a domain, and of varchar and char, are checked and read as the type below: dates of a spreadsheet were taken for
-- those of another order, and long texts were cut.

create or replace function private.data_columns(p_table regclass)
returns table (
  name text, type text, column_default text, required boolean, max_length integer, refers_to regclass, known_by text
)
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
  with recursive base (attnum, type, modifier) as (
    select a.attnum, a.atttypid, a.atttypmod from pg_attribute a where a.attrelid = p_table
    union all
    -- A domain may be over another domain.
    select b.attnum, y.typbasetype, y.typtypmod from base b join pg_type y on y.oid = b.type where y.typtype = 'd'
  )
  select a.attname,
         -- An assignment refuses a text that is too long for the column; a conversion to its type would cut it.
         case when y.typcategory = 'S' then 'text' else format_type(b.type, b.modifier) end,
         pg_get_expr(d.adbin, d.adrelid),
         a.attnotnull and d.oid is null,
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
