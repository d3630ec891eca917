-- Roles belong to the whole server: whoever administers another database on it may become the roles that own the
-- functions there, and these are the roles that read the tables here. What keeps them out is that they cannot connect.
-- So nobody may connect by default any more. The logins that can now still can, such as those of gateways and backups.

do $$
declare
  v_owners constant text[] := array['gateway_functions', 'gateway_keys', 'gateway_search', 'gateway_retention'];
  v_owner oid;
  v_logins text;
  v_statements text;
begin
  -- A Supabase project has one administrator for all of its databases, and its platform's own roles connect by default.
  if to_regrole('supabase_admin') is not null then
    return;
  end if;

  select d.datdba into strict v_owner from pg_database d where d.datname = current_database();
  select string_agg(quote_ident(l.rolname), ', ' order by l.rolname)
    into v_logins
    from pg_roles l
   where l.rolcanlogin
     and not l.rolsuper
     and has_database_privilege(l.oid, current_database(), 'connect')
     and (
       -- The administrators of this database.
       pg_has_role(l.oid, v_owner, 'member')
       or pg_has_role(l.oid, current_user, 'member')
       -- Those of another one may be owners of functions, or can become them once they migrate theirs, which takes
       -- CREATEROLE. A login that is the gateway already is no administrator, even where it has that.
       or not exists (
         select
           from pg_roles o
          where pg_has_role(l.oid, o.oid, 'member')
            and (
              o.rolname = any (v_owners)
              or (o.rolcreaterole and not o.rolsuper and not pg_has_role(l.oid, 'gateway', 'member'))
            )
       )
     );
  -- To each login and not to gateway, from which the administrators of other databases would inherit it.
  v_statements := concat_ws(
    '; ',
    format('grant connect on database %I to ', current_database()) || v_logins,
    format('revoke connect, temporary on database %I from public', current_database())
  );

  if pg_has_role(current_user, v_owner, 'usage') then
    execute v_statements;
  else
    raise warning 'administrators of other databases on this server can read this one'
      using hint = format('As a superuser or as %s: %s', v_owner::regrole, v_statements);
  end if;
end;
$$;
