/** The roles that a Supabase project has before its first migration, but for its superuser supabase_admin. */
export const SUPABASE_ROLES = `
  create role anon nologin;
  create role authenticated nologin;
  create role service_role nologin bypassrls;
  create role authenticator login noinherit;
  create role supabase_storage_admin login noinherit createrole;
  create role dashboard_user createrole createdb;
  grant anon, authenticated, service_role to authenticator;`;

/** What a Supabase project lets these roles do with the things that its owner, the current user, makes later. */
export const SUPABASE_GRANTS = `
  alter default privileges in schema public grant all on tables to anon, authenticated, service_role;
  alter default privileges in schema public grant all on sequences to anon, authenticated, service_role;
  alter default privileges in schema public grant all on functions to anon, authenticated, service_role;`;
