// Changes to the database that would weaken a wall, taken from its own catalog: what is there is taken away or turned
// round, and what is not there is given.

import { type Db, rows } from '../helpers/database.ts';
import { OUR_SCHEMAS, OUR_TABLES } from './catalog.ts';
import { editFunctions, PASSED_ON, PERMISSION, PREDICATES, RECORD, TENANT, VERIFICATION } from './edits.ts';

/** One change to the database, as SQL for the administrator. */
export type Mutation = { readonly name: string; readonly sql: string };

/** A kind of change, and how to find all of that kind. */
type Kind = { readonly kind: string; readonly derive: (db: Db) => Promise<Mutation[]> };

/** A role that has nothing to do with the gateway, such as Supabase's anon. */
const STRANGER = 'stranger';
/** The roles that the migrations make. */
const OUR_ROLES = ['gateway', 'gateway_functions', 'gateway_keys', 'gateway_retention', 'gateway_search'];
/** Everybody who could be granted something. */
const GRANTEES = ['public', STRANGER, ...OUR_ROLES];

/** A subquery for the rights that an ACL gives, as `privilege role`. */
const rightsIn = (acl: string) =>
  `array(select lower(a.privilege_type) || ' ' || case when a.grantee = 0 then 'public' else a.grantee::regrole::text end
           from aclexplode(${acl}) a) as rights`;

/** A function as its grants and rights are. */
type OwnFunction = {
  readonly signature: string;
  /** Whether its names were resolved when it was created. */
  readonly isResolved: boolean;
  readonly definer: boolean;
  readonly owner: string;
  readonly rights: readonly string[];
};
const FUNCTIONS = `
  select format('%s.%s(%s)', n.nspname, p.proname, pg_get_function_identity_arguments(p.oid)) as signature,
         p.prosqlbody is not null as "isResolved", p.prosecdef as definer, p.proowner::regrole::text as owner,
         ${rightsIn("coalesce(p.proacl, acldefault('f', p.proowner))")}
    from pg_proc p join pg_namespace n on n.oid = p.pronamespace
   where n.nspname in ${OUR_SCHEMAS}`;

/** Something with rights, of which perhaps only a part is granted, and to these roles alone. */
type Granted = {
  readonly on: string;
  readonly columns?: string;
  readonly rights: readonly string[];
  readonly roles?: readonly string[];
};
const TABLES = `select 'private.' || c.relname as on, ${rightsIn('c.relacl')} from pg_class c where ${OUR_TABLES}`;
const SCHEMAS = `select 'schema ' || nspname as on, ${rightsIn('nspacl')} from pg_namespace where nspname in ${OUR_SCHEMAS}`;
/** The columns of tables of which a role may read or write some. */
const COLUMNS = `
  select 'private.' || c.relname as on, format(' (%s)', t.attname) as columns, ${rightsIn('t.attacl')},
         array(select distinct a.grantee::regrole::text
                 from pg_attribute o, aclexplode(o.attacl) a where o.attrelid = c.oid) as roles
    from pg_class c join pg_attribute t on t.attrelid = c.oid
   where ${OUR_TABLES} and t.attnum > 0 and not t.attisdropped`;

type Policy = { readonly on: string; readonly using: string; readonly writes: boolean; readonly bound: boolean };
const POLICIES = `
  select format('%I on private.%I', policyname, tablename) as on, qual as using,
         cmd in ('ALL', 'INSERT', 'UPDATE') as writes, qual <> 'true' as bound
    from pg_policies where schemaname = 'private'`;

const KEYS = `
  select format('alter table %s drop constraint %I cascade', conrelid::regclass, conname) as sql
    from pg_constraint where connamespace = 'private'::regnamespace and contype in ('p', 'f')`;
// Not valid, because the shadow has references to no row.
const CLEARING_KEY = `alter table private.treinos add foreign key (tenant_id, personal_id)
    references private.personais (tenant_id, id) on delete set null not valid`;

const ABILITIES = ['superuser', 'bypassrls', 'login', 'inherit', 'createrole', 'createdb', 'replication'];

/** Every kind of change that the checks have to catch. */
export const kinds: readonly Kind[] = [
  { kind: 'a tenant predicate of a function', derive: (db) => editFunctions(db, /./, PREDICATES) },
  { kind: 'the tenant that a function passes on', derive: (db) => editFunctions(db, /./, PASSED_ON) },
  { kind: 'a part of the verification of a key', derive: (db) => editFunctions(db, /^verify_key$/, VERIFICATION) },
  { kind: "a part of the record of a key's use", derive: (db) => editFunctions(db, /^add_usage$/, RECORD) },
  { kind: 'the permission that a function asks for', derive: (db) => editFunctions(db, /./, PERMISSION) },
  { kind: 'the tenant that row security reads', derive: (db) => editFunctions(db, /^current_tenant$/, TENANT) },
  changesOf<OwnFunction>('whose rights a function has', FUNCTIONS, ({ signature, definer, owner }, admin) => [
    `alter function ${signature} security ${definer ? 'invoker' : 'definer'}`,
    ...[admin, ...OUR_ROLES].filter((one) => one !== owner).map((one) => `alter function ${signature} owner to ${one}`),
  ]),
  changesOf<OwnFunction>('the path of a function', FUNCTIONS, ({ signature, isResolved }) =>
    isResolved
      ? []
      : ['reset search_path', 'set search_path = public, pg_catalog'].map(
          (path) => `alter function ${signature} ${path}`,
        ),
  ),
  changesOf<OwnFunction>('who may execute a function', FUNCTIONS, ({ signature, owner, rights }) => {
    const on = `function ${signature}`;
    // What an owner has it can give to itself.
    const roles = GRANTEES.filter((role) => role !== owner);
    const executors = roles.filter((role) => rights.includes(`execute ${role}`));
    return [
      ...changeGrants({ on, rights, roles }, ['execute']),
      ...executors.map((role) => `grant execute on ${on} to ${role} with grant option`),
    ];
  }),
  changesOf<Granted>('who may do what with a table', TABLES, (table) =>
    changeGrants(table, ['select', 'insert', 'update', 'delete', 'truncate']),
  ),
  changesOf<Granted>('who may do what with a column', COLUMNS, (column) =>
    changeGrants(column, ['select', 'insert', 'update']),
  ),
  changesOf<Granted>('who may do what with a schema', SCHEMAS, (schema) => changeGrants(schema, ['usage', 'create'])),
  changesOf('who may do what with things to come', 'select', () => [
    'alter default privileges grant execute on functions to public',
    'alter default privileges for role gateway_functions grant execute on functions to public',
    `alter default privileges in schema public grant execute on functions to ${STRANGER}`,
    'alter default privileges in schema private grant select on tables to gateway',
  ]),
  changesOf<Granted>('the row security of a table', TABLES, ({ on }) =>
    ['disable', 'no force'].map((what) => `alter table ${on} ${what} row level security`),
  ),
  changesOf<Policy>('a policy', POLICIES, ({ on, using, writes, bound }) => [
    `drop policy ${on}`,
    `alter policy ${on} to public`,
    `alter policy ${on} using (not ${using})`,
    ...(bound ? [`alter policy ${on} using (true)`] : []),
    ...(bound && writes ? [`alter policy ${on} with check (true)`] : []),
  ]),
  changesOf<Granted>('the policies of a table', TABLES, ({ on }) =>
    ['public', ...OUR_ROLES].map((role) => `create policy opening on ${on} to ${role} using (true)`),
  ),
  changesOf<Granted>('the owner of a table', TABLES, ({ on }) =>
    OUR_ROLES.map((role) => `alter table ${on} owner to ${role}`),
  ),
  changesOf<{ sql: string }>('a key of a table', KEYS, ({ sql }) => [sql]),
  changesOf('what a key clears', 'select', () => [CLEARING_KEY]),
  changesOf('what a role is', 'select', (_none, admin) =>
    OUR_ROLES.flatMap((role) => [
      ...ABILITIES.map((ability) => `alter role ${role} ${ability}`),
      ...[admin, 'pg_read_all_data', ...OUR_ROLES]
        .filter((one) => one !== role)
        .map((one) => `grant ${one} to ${role}`),
      `grant ${role} to ${STRANGER}`,
      `alter schema private owner to ${role}`,
    ]),
  ),
];

/** The changes, named by their SQL, of each of the things that a query finds. The stranger may occur in it. */
function changesOf<T extends object>(kind: string, query: string, toSql: (thing: T, admin: string) => string[]): Kind {
  const derive = async (db: Db) => {
    const [{ admin } = { admin: '' }] = await rows<{ admin: string }>(db, 'select session_user::text as admin');
    const statements = (await rows<T>(db, query)).flatMap((thing) => toSql(thing, admin));
    return statements.map((sql) => ({
      name: sql,
      sql: sql.includes(STRANGER) ? `create role ${STRANGER}; ${sql}` : sql,
    }));
  };
  return { kind, derive };
}

/** Each right taken away that is there, and each one given that is not, of these privileges. */
function changeGrants(
  { on, columns = '', rights, roles = GRANTEES }: Granted,
  privileges: readonly string[],
): string[] {
  return roles.flatMap((role) =>
    privileges.map((privilege) =>
      rights.includes(`${privilege} ${role}`)
        ? `revoke ${privilege}${columns} on ${on} from ${role}`
        : `grant ${privilege}${columns} on ${on} to ${role}`,
    ),
  );
}
