/** The roles that a Supabase project has before its first migration, except its superuser supabase_admin. */
export const SUPABASE_ROLES = `
  create role anon nologin;
  create role authenticated nologin;
  create role service_role nologin bypassrls;
  create role authenticator login noinherit;
  create role supabase_storage_admin login noinherit createrole;
  create role dashboard_user createrole createdb;
  grant anon, authenticated, service_role to authenticator;`;

/** The default privileges of these roles in a Supabase project, on objects that its owner, the current user, creates later. */
export const SUPABASE_GRANTS = `
  alter default privileges in schema public grant all on tables to anon, authenticated, service_role;
  alter default privileges in schema public grant all on sequences to anon, authenticated, service_role;
  alter default privileges in schema public grant all on functions to anon, authenticated, service_role;`;
