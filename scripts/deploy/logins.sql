-- Creates the login roles that become `gateway`, or sets the passwords of existing ones. Run it with psql 15 or later
-- as the role that applied the migrations:
--
--   GATEWAY_PASSWORD=… psql --no-psqlrc --set=ON_ERROR_STOP=1 --file=scripts/deploy/logins.sql "$ADMIN_URL"
--
-- gateway_login  GATEWAY_PASSWORD        the user in the gateway's DATABASE_URL
-- authenticator  AUTHENTICATOR_PASSWORD  the user of PostgREST; not for Supabase, which has its own
--
-- A role without a password here is not changed. The passwords come from the environment, because every user of a
-- machine can list the arguments of its processes.

\set gateway_password ''
\set authenticator_password ''
\getenv gateway_password GATEWAY_PASSWORD
\getenv authenticator_password AUTHENTICATOR_PASSWORD

-- The statements below contain the passwords: keep them out of the server's log and statistics. Only a superuser may
-- set this. If you are none, make sure that the server does not log such statements.
select set_config(name, value, false) as "not kept"
  from (values
    ('log_statement', 'none'),
    ('log_min_duration_statement', '-1'),
    ('log_min_error_statement', 'panic'),
    ('pg_stat_statements.track_utility', 'off')
  ) as s (name, value)
  join pg_settings using (name)
 where has_parameter_privilege(name, 'set')
\g /dev/null

select format('do $do$ begin raise exception %L; end $do$', message)
  from (values
         (:'gateway_password' = '' and :'authenticator_password' = '', 'GATEWAY_PASSWORD is not set'),
         (to_regrole('gateway') is null, 'the role gateway does not exist: run npm run migrate first')
       ) as m (is_wrong, message)
 where is_wrong
\gexec

select statement
  from (values
         ('gateway_login', :'gateway_password'),
         ('authenticator', :'authenticator_password')
       ) as l (login, password)
 cross join lateral (values
         -- Has the rights of `gateway` only after `set role`. An existing role keeps its choice.
         (1, case when to_regrole(login) is null then format('create role %I noinherit', login) end),
         (2, format('alter role %I login password %L', login, password)),
         (3, format('grant gateway to %I', login))
       ) as s (step, statement)
 where password <> ''
   and statement is not null
 order by login, step
\gexec

-- The migrations granted connect only to the logins that existed then. Only the owner of the database can grant it.
select case
         when pg_has_role(d.datdba, 'usage') then format('grant connect on database %I to %I', d.datname, login)
         else format(
           'do $do$ begin raise exception using message = %L, hint = %L; end $do$',
           format('%I may not connect to the database %I', login, d.datname),
           format('As a superuser or as %s: grant connect on database %I to %I', d.datdba::regrole, d.datname, login)
         )
       end
  from (values
         ('gateway_login', :'gateway_password'),
         ('authenticator', :'authenticator_password')
       ) as l (login, password)
  join pg_database d on d.datname = current_database()
 where password <> ''
   and not has_database_privilege(to_regrole(login), d.oid, 'connect')
\gexec
