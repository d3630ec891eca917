// Reads the functions in schema public from Postgres's catalog, which every role may read.

import { isFault } from '../errors.ts';
import type { Statement } from './statement.ts';
import type { Description, Result } from './store.ts';

/** Returns one row with one column, `json`: an array of DatabaseFunction as text. */
export const DESCRIPTION: Statement = {
  values: [],
  text: `
with recursive base as (
  -- The type that a domain is based on, and its precision. Domains may be nested.
  select oid, oid as base, true as nullable, -1 as modifier from pg_type where typtype <> 'd'
  union all
  select d.oid, b.base, b.nullable and not d.typnotnull, greatest(d.typtypmod, b.modifier)
    from pg_type d join base b on b.oid = d.typbasetype where d.typtype = 'd'
), type as (
  -- An array has the name and the labels of its item type.
  select b.oid, b.nullable, greatest(b.modifier, i.modifier) as modifier, n.name || l.suffix as name,
         -- As JSON a row is an object, whatever its type.
         case when e.typtype = 'c' then 'record' else n.name end || l.suffix as written,
         (select json_agg(enumlabel order by enumsortorder) from pg_enum where enumtypid = i.base) as labels
    from base b
    join pg_type a on a.oid = b.base
    join base i on i.oid = case when a.typcategory = 'A' then a.typelem else a.oid end
    join pg_type e on e.oid = i.base
    -- format_type may write the schema of the extension too.
   cross join lateral (select case when e.typname = 'citext' then 'citext' else format_type(i.base, null) end as name) n
   cross join lateral (select case when a.typcategory = 'A' then '[]' else '' end as suffix) l
), function as (
  -- row is the table of a row type, 0 for other types. Postgres expands a single output column of a row type to its columns.
  select p.*, r.typrelid as row
    from pg_proc p join base b on b.oid = p.prorettype join pg_type r on r.oid = b.base
   where p.pronamespace = 'public'::regnamespace and p.prokind = 'f'
), argument as (
  select p.oid as function, a.name, case a.mode when 'v' then 'variadic ' else '' end || t.name as type, t.written, t.labels,
         t.modifier, coalesce(a.mode, 'i') as mode, a.n,
         count(*) filter (where coalesce(a.mode, 'i') in ('i', 'b', 'v')) over (partition by p.oid order by a.n)
           > p.pronargs - p.pronargdefaults as has_default
    from function p
   cross join unnest(
           coalesce(p.proallargtypes, p.proargtypes::oid[]), p.proargnames, p.proargmodes
         ) with ordinality a (type, name, mode, n)
    join type t on t.oid = a.type
), stored as (
  select c.relname as table, '\\mprivate\\."?' || regexp_replace(c.relname, '\\W', '\\\\\\&', 'g') || '"?(?!\\w)' as pattern,
         a.attname as name, b.nullable and not a.attnotnull as nullable
    from pg_class c
    join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
    join base b on b.oid = a.atttypid
   where c.relnamespace = to_regnamespace('private') and c.relkind in ('r', 'p')
), violable as (
  -- A unique or exclusion constraint has the name of its index. A unique index may have no constraint.
  select coalesce(json_agg(v.name order by v.name), '[]') as names
    from (select k.conname as name from pg_constraint k
           where k.connamespace = to_regnamespace('private') and k.contype = 'f' and k.conparentid = 0
          union
          select c.relname from pg_index i join pg_class c on c.oid = i.indexrelid
           where c.relnamespace = to_regnamespace('private') and (i.indisunique or i.indisexclusion)) v
), result as (
  select a.function, a.name, a.written as type, a.labels, a.n,
         -- Postgres does not know whether a function's result may be null: this reads the columns of the same name in the
         -- tables that the function's source names. Null if there is none.
         (select bool_and(s.nullable) from stored s where s.name = a.name
            -- Without this condition, 200 functions and 100 tables take seconds.
            and strpos(p.prosrc, s.table) > 0 and p.prosrc ~ s.pattern) as nullable
    from argument a
    join function p on p.oid = a.function
   where a.mode in ('t', 'o', 'b') and p.row = 0
  union all
  select p.oid, a.attname, t.written, t.labels, a.attnum, t.nullable and not a.attnotnull
    from function p
    join pg_attribute a on p.row <> 0 and a.attrelid = p.row and a.attnum > 0 and not a.attisdropped
    join type t on t.oid = a.atttypid
)
select coalesce(json_agg(json_build_object(
         'name', p.proname,
         'arguments', coalesce((
           select json_agg(json_build_object('name', name, 'type', type, 'hasDefault', has_default, 'labels', labels,
                           'modifier', modifier) order by n)
             from argument where function = p.oid and mode in ('i', 'b', 'v')), '[]'),
         'volatility', case p.provolatile when 'v' then 'volatile' when 's' then 'stable' else 'immutable' end,
         'raises', (
           select coalesce(json_agg(distinct m.code[1]::integer), '[]')
             -- Comments are removed. Quoted texts stay as they are, because they may contain comment signs.
             from regexp_replace(p.prosrc, $re$('[^']*')|--[^\\n]*|/\\*([^*]|\\*+[^*/])*\\*+/$re$, '\\1', 'g') s (code),
                  regexp_matches(s.code, 'PT(4[0-9][0-9])', 'g') m (code)),
         'constraints', (select names from violable),
         'result', json_build_object(
           'type', (select written from type where oid = p.prorettype),
           'columns', coalesce((
             select json_agg(json_build_object('name', name, 'type', type, 'labels', labels, 'isNullable', nullable)
                             order by n)
               from result where function = p.oid), '[]'),
           'isSet', p.proretset,
           'isSingle', not p.proretset or p.prorows = 1),
         'security', json_build_object(
           'owner', o.rolname,
           -- On Citus the owner may log in: a node logs in to the others as the owner.
           'ownerIsAble', o.rolsuper or o.rolbypassrls
             or o.rolcanlogin and not exists (select from pg_extension where extname = 'citus')
             or exists (select from pg_class where relowner = o.oid and relkind in ('r', 'p')),
           'definer', p.prosecdef,
           'isStrict', p.proisstrict,
           'path', (select substr(c, length('search_path=') + 1) from unnest(p.proconfig) c where c like 'search_path=%'),
           'executors', (
             select coalesce(json_agg(coalesce(r.rolname, 'public') order by r.rolname), '[]')
               from (select distinct grantee from aclexplode(coalesce(p.proacl, acldefault('f', p.proowner)))
                      where grantee <> p.proowner) e
               left join pg_roles r on r.oid = e.grantee))
       ) order by p.proname, p.oid), '[]')::text as json
  from function p
  join pg_roles o on o.oid = p.proowner`,
};

/** Reads the result of the statement. */
export function toDescription(result: Result): Description {
  if ('json' in result) return { functions: JSON.parse(result.json) };
  const { failure } = result;
  return { failure: isFault(failure) ? failure : { kind: 'storeError', cause: failure } };
}
