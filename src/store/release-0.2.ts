// The upgrade of a database of version 0.2.0, whose migrations were folded into the present ones; 2.0.0 drops it.
// One transaction renames the old schema, applies the present migrations, and copies the rows. Meanwhile reads go on, and creations
// wait. Another transaction drops the old schema: until then a read that began before may still hold a table.
//
// A stable function sees what was there when its call began. One that is running when the new tables appear would find them empty.
// A volatile one has a new snapshot for each of its queries: it finds the old tables with their rows, or the new ones with theirs.

/** The versions of its migrations. */
export const RELEASE_02 = [
  '20261121080000',
  '20261121080100',
  '20261121080200',
  '20261121080300',
  '20261121080400',
  '20261121080500',
  '20261121120000',
  '20261121120100',
  '20261121120200',
  '20261121120300',
  '20261121130000',
];

/** Whether the applied migrations, oldest first, begin with all of 0.2.0's. */
export function isRelease02(applied: readonly { readonly version: string }[]): boolean {
  return RELEASE_02.every((version, index) => applied[index]?.version === version);
}

/** Makes all functions of 0.2.0 volatile; in a transaction of its own before all others. */
export const MAKE_VOLATILE = `
do $$
declare
  v_name text;
begin
  for v_name in
    select oid::regprocedure from pg_proc
     where provolatile = 's'
       and (pronamespace = 'private'::regnamespace
            or pronamespace = 'public'::regnamespace and has_function_privilege('gateway', oid, 'execute'))
       and not exists (select from pg_depend where objid = pg_proc.oid and deptype = 'e')
  loop
    execute format('alter function %s volatile', v_name);
  end loop;
end;
$$`;

/** Renames the schema of the tables, and removes the gateway's functions and the history, so that all migrations are applied again. */
export const RENAME_OLD_SCHEMA = `
do $$
declare
  v_name text;
begin
  -- Newest first, as creations lock them: a table before those that it refers to.
  for v_name in
    select oid::regclass from pg_class where relnamespace = 'private'::regnamespace and relkind = 'r' order by oid desc
  loop
    execute format('lock table %s in exclusive mode', v_name);
  end loop;
  alter schema private rename to private_0_2;
  for v_name in
    select oid::regprocedure from pg_proc
     where pronamespace = 'public'::regnamespace and has_function_privilege('gateway', oid, 'execute')
       and not exists (select from pg_depend where objid = pg_proc.oid and deptype = 'e')
  loop
    execute format('drop function %s', v_name);
  end loop;
  delete from supabase_migrations.schema_migrations;
end;
$$`;

/** Copies all rows into the tables of the same names, each table after those that it refers to. */
export const COPY_ROWS = `
do $$
declare
  v_left oid[] := array(select oid from pg_class where relnamespace = 'private_0_2'::regnamespace and relkind = 'r');
  v_table oid;
  v_name text;
  v_columns text;
begin
  while v_left <> '{}' loop
    select t into strict v_table
      from unnest(v_left) t
     where not exists (
             select from pg_constraint where conrelid = t and confrelid = any (v_left) and confrelid <> t
           )
     limit 1;
    v_left := array_remove(v_left, v_table);
    select quote_ident(relname) into v_name from pg_class where oid = v_table;
    select string_agg(quote_ident(attname), ', ') into v_columns
      from pg_attribute where attrelid = v_table and attnum > 0 and not attisdropped and attgenerated = '';
    if to_regclass('private.' || v_name) is null then
      raise exception using
        message = format('no migration creates the table %s of version 0.2.0', v_name),
        hint = 'Give the migration that creates it a later timestamp than those of the new version';
    end if;
    execute format('insert into private.%1$s (%2$s) select %2$s from private_0_2.%1$s', v_name, v_columns);
    execute format('analyze private.%s', v_name);
  end loop;
end;
$$`;

/** Drops the renamed schema, if there is one. */
export const DROP_OLD = `
do $$
begin
  if to_regnamespace('private_0_2') is not null then
    drop schema private_0_2 cascade;
  end if;
end;
$$`;
