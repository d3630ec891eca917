import { type Db, rows } from '../helpers/database.ts';

/** One change to the database, as SQL for the administrator. */
export type Mutation = { readonly name: string; readonly sql: string };

/** A role that has nothing to do with the gateway, such as Supabase's anon. */
export const STRANGER = 'stranger';

/** The roles that the migrations make. */
export const OUR_ROLES = ['gateway', 'gateway_functions', 'gateway_keys', 'gateway_retention', 'gateway_search'];

/** Everybody who could be granted something. */
export const GRANTEES = ['public', STRANGER, ...OUR_ROLES];

/** For a condition on a schema's name. */
export const OUR_SCHEMAS = `('public', 'private')`;

/** A change, named by its SQL, in which the stranger may occur. */
export function change(sql: string): Mutation {
  return { name: sql, sql: sql.includes(STRANGER) ? `create role ${STRANGER}; ${sql}` : sql };
}

/** A function of ours as its grants and rights are. */
export type OwnFunction = {
  readonly signature: string;
  /** Whether its names were resolved when it was created. */
  readonly isResolved: boolean;
  readonly definer: boolean;
  readonly owner: string;
  readonly admin: string;
  readonly executors: readonly string[];
};

/** Every function of ours. */
export function functions(db: Db): Promise<OwnFunction[]> {
  return rows(
    db,
    `select format('%s.%s(%s)', n.nspname, p.proname, pg_get_function_identity_arguments(p.oid)) as signature,
            p.prosqlbody is not null as "isResolved", p.prosecdef as definer, p.proowner::regrole::text as owner, session_user::text as admin,
            array(select case when a.grantee = 0 then 'public' else a.grantee::regrole::text end
                    from aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a) as executors
       from pg_proc p join pg_namespace n on n.oid = p.pronamespace
      where n.nspname in ${OUR_SCHEMAS} order by 1`,
  );
}

/** Every table of ours. */
export function tables(db: Db): Promise<{ name: string; owner: string }[]> {
  return rows(
    db,
    `select 'private.' || relname as name, relowner::regrole::text as owner
       from pg_class where relnamespace = 'private'::regnamespace and relkind in ('r', 'p') order by 1`,
  );
}
