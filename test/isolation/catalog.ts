// What the database's own catalog has to say for the two walls to stand. New tables and functions have to keep to it
// as the old ones do; whatever only some of them may do is listed by name.

import { readFileSync } from 'node:fs';
import { type Db, rows } from '../helpers/database.ts';
import { LOGIN_NAMES } from '../helpers/servers.ts';
import { type Check, differences } from './check.ts';
import { readNeeds } from './needs.ts';

/** The roles that the tests log in as. */
const TEST_LOGINS = LOGIN_NAMES.map((name) => `'${name}'`).join(', ');

const PRIVILEGES = readFileSync('supabase/tests/privileges.sql', 'utf8');

/** The texts that a test of privileges.sql expects, which has this description. */
function expectedBy(description: string): string[] {
  const [before = '', after] = PRIVILEGES.split(`  '${description}'`);
  const list = before.split(/array\[|values \(|not in \(\n/).at(-1) ?? '';
  if (after === undefined) throw new Error(`privileges.sql has no test "${description}"`);
  return [...list.matchAll(/'([^']*)'/g)].map(([, text = '']) => text);
}

function inPairs(texts: readonly string[]): [string, string][] {
  return texts.flatMap((text, index) => (index % 2 === 0 ? [[text, texts[index + 1] ?? '']] : []));
}

/** The private functions that act with other rights than their caller's, and whose rights these are. */
const DEFINERS = new Map(
  inPairs(expectedBy('only these functions in private have the rights of an owner, who has few')),
);

/** Who executes private functions: the published functions, and three owners those of others. */
const EXECUTED = [
  ...expectedBy('gateway_functions executes what the functions in public call, and what an index is of').map(
    (name) => `gateway_functions: ${name}`,
  ),
  ...inPairs(expectedBy('no other role is granted a function')).map(([name, role]) => `${role}: ${name}`),
];

/** Those of gateway_functions are what its functions need. */
const TABLE_GRANTS = expectedBy(
  'the owners of functions have what these need of a table, and nobody else has anything',
);

const SCHEMA_GRANTS = [
  ...expectedBy('the owners of functions use private, and nobody else').map((grant) => `${grant} on private`),
  ...['everybody', 'gateway', 'gateway_functions'].map((role) => `${role}: usage on public`),
];

/** The tables on which the published functions see the rows of the tenant, and the column that says whose they are. */
const ISOLATED = {
  by: 'tenant_id',
  but: { tenants: 'id' } as Record<string, string>,
  not: ['api_keys', 'erasures', 'usage_writers'],
};
const IS_PAST = `(day < ((now() - '31 days'::interval))::date)`;
const IS_YESTERDAY = `(occurred_at < (now() - '1 day'::interval))`;
const IS_OLD = `(created_at <= (now() - '24:00:00'::interval))`;

const OTHER_POLICIES = [
  'alunos.search: permissive, select to gateway_search using true',
  'api_keys.recording: permissive, update to gateway_keys using true',
  'api_keys.verification: permissive, select to gateway_keys using true',
  'changes.recording: permissive, all to gateway_keys using true',
  `changes.retention_delete: permissive, delete to gateway_retention using ${IS_YESTERDAY}`,
  `changes.retention_select: permissive, select to gateway_retention using ${IS_YESTERDAY}`,
  `idempotency_keys.retention_delete: permissive, delete to gateway_retention using ${IS_OLD}`,
  `idempotency_keys.retention_select: permissive, select to gateway_retention using ${IS_OLD}`,
  'tenants.limits: permissive, select to gateway_keys using true',
  'tenants.retention: permissive, select to gateway_retention using true',
  'usage.recording: permissive, all to gateway_keys using true',
  `usage.retention_delete: permissive, delete to gateway_retention using ${IS_PAST}`,
  `usage.retention_select: permissive, select to gateway_retention using ${IS_PAST}`,
  'usage_writers.recording: permissive, all to gateway_keys using true',
];

const GRANTEE = `case when a.grantee = 0 then 'everybody' else a.grantee::regrole::text end`;
const MAY_PASS_ON = `case when a.is_grantable then ' with grant option' else '' end`;
const OUR_SCHEMAS = `('public', 'private')`;

/** Rules for the catalog. */
export const catalogChecks: readonly Check[] = [
  {
    name: 'every function runs with the rights it needs and no others',
    find: async (db) => {
      const functions = await rows<{ schema: string; name: string; definer: boolean; owner: string; admin: string }>(
        db,
        `select n.nspname as schema, p.proname as name, p.prosecdef as definer, p.proowner::regrole::text as owner,
                session_user as admin
           from pg_proc p join pg_namespace n on n.oid = p.pronamespace where n.nspname in ${OUR_SCHEMAS}`,
      );
      return functions.flatMap(({ schema, name, definer, owner, admin }) => {
        const rights = schema === 'public' ? 'gateway_functions' : DEFINERS.get(`private.${name}`);
        return differences(
          [`${schema}.${name} ${definer ? 'defines rights' : 'takes rights'}, owned by ${owner}`],
          [`${schema}.${name} ${rights ? 'defines rights' : 'takes rights'}, owned by ${rights ?? admin}`],
        );
      });
    },
  },
  {
    name: 'every function resolves names in pg_catalog only',
    find: (db) =>
      column(
        db,
        `select format('%s.%s has %s', n.nspname, p.proname, coalesce(p.proconfig::text, 'no path'))
           from pg_proc p join pg_namespace n on n.oid = p.pronamespace
          where n.nspname in ${OUR_SCHEMAS}
            -- The body of a function without one was resolved when it was created.
            and p.prosqlbody is null
            and not coalesce(p.proconfig @> '{"search_path=pg_catalog, pg_temp"}', false)`,
      ),
  },
  {
    name: 'only the gateway may execute published functions, and only these may execute their helpers',
    find: async (db) => {
      const published = await column(db, `select proname from pg_proc where pronamespace = 'public'::regnamespace`);
      const granted = await column(
        db,
        `select format('%s: %s.%s', ${GRANTEE}, n.nspname, p.proname) || ${MAY_PASS_ON}
           from pg_proc p
           join pg_namespace n on n.oid = p.pronamespace,
                aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a
          where n.nspname in ${OUR_SCHEMAS} and a.grantee <> p.proowner`,
      );
      return differences(granted, [...published.map((name) => `gateway: public.${name}`), ...EXECUTED]);
    },
  },
  {
    name: 'every role has the table and column rights that its functions need and no others',
    find: async (db) =>
      differences(
        await column(
          db,
          `select format('%s: %s on %s', ${GRANTEE}, lower(a.privilege_type), c.relname) || ${MAY_PASS_ON}
             from pg_class c, aclexplode(c.relacl) a
            where c.relnamespace::regnamespace::text in ${OUR_SCHEMAS} and a.grantee <> c.relowner
            union all
           select format('%s: %s on %s (%s)', ${GRANTEE}, lower(a.privilege_type), c.relname,
                         string_agg(t.attname, ', ' order by t.attname)) || ${MAY_PASS_ON}
             from pg_class c join pg_attribute t on t.attrelid = c.oid, aclexplode(t.attacl) a
            where c.relnamespace::regnamespace::text in ${OUR_SCHEMAS} and a.grantee <> c.relowner
            group by a.grantee, a.privilege_type, c.relname, a.is_grantable`,
        ),
        [...TABLE_GRANTS, ...(await readNeeds(db))],
      ),
  },
  {
    name: 'every role may use only the schemas it needs, and create in none',
    find: async (db) =>
      differences(
        await column(
          db,
          `select format('%s: %s on %s', ${GRANTEE}, lower(a.privilege_type), n.nspname) || ${MAY_PASS_ON}
             from pg_namespace n, aclexplode(n.nspacl) a
            where n.nspname in ${OUR_SCHEMAS} and a.grantee <> n.nspowner`,
        ),
        SCHEMA_GRANTS,
      ),
  },
  {
    name: 'objects created later are closed to everybody',
    find: async (db) =>
      differences(
        await column(
          db,
          `select format('what %s creates is open to %s', case when d.defaclrole = session_user::regrole
                         then 'the administrator' else d.defaclrole::regrole::text end,
                         coalesce(string_agg(${GRANTEE}, ', '), 'nobody'))
             from pg_default_acl d
             left join aclexplode(d.defaclacl) a on a.grantee <> d.defaclrole
            group by d.oid, d.defaclrole`,
        ),
        ['what the administrator creates is open to nobody', 'what gateway_functions creates is open to nobody'],
      ),
  },
  {
    name: 'row security holds on every table, for its owner too',
    find: (db) =>
      column(
        db,
        `select relname from pg_class
          where relnamespace = 'private'::regnamespace and relkind in ('r', 'p')
            and not (relrowsecurity and relforcerowsecurity)`,
      ),
  },
  {
    name: 'row security shows published functions only rows of their tenant, and other roles only what they need',
    find: async (db) => {
      const tables = await rows<{ name: string; admin: string }>(
        db,
        `select relname as name, relowner::regrole::text as admin
           from pg_class where relnamespace = 'private'::regnamespace and relkind in ('r', 'p')`,
      );
      const found = await column(
        db,
        `select format('%s.%s: %s, %s to %s using %s', tablename, policyname, lower(permissive), lower(cmd),
                       array_to_string(roles, ', '), qual) || coalesce(' with check ' || with_check, '')
           from pg_policies where schemaname in ${OUR_SCHEMAS}`,
      );
      return differences(found, [
        ...tables.map(({ name, admin }) => `${name}.administration: permissive, all to ${admin} using true`),
        ...tables.filter(({ name }) => !ISOLATED.not.includes(name)).map(({ name }) => isolationOf(name)),
        ...OTHER_POLICIES,
      ]);
    },
  },
  {
    name: 'the administrator owns every table and the schema of the tables',
    find: (db) =>
      column(
        db,
        `select format('%s is owned by %s', relname, relowner::regrole) from pg_class
          where relnamespace = 'private'::regnamespace and relowner <> session_user::regrole
          union all
         select format('schema private is owned by %s', nspowner::regrole) from pg_namespace
          where nspname = 'private' and nspowner <> session_user::regrole`,
      ),
  },
  {
    name: 'no gateway role can log in, has privileged attributes, or can become another role',
    find: (db) =>
      column(
        db,
        `select format('%s has %s', rolname, key)
           from pg_roles r, json_each_text(row_to_json(r))
          where rolname like 'gateway%' and value = 'true' and rolname not in (${TEST_LOGINS})
          union all
         select format('%s is %s', member::regrole, roleid::regrole) from pg_auth_members
          where (member::regrole::text like 'gateway%' or roleid::regrole::text like 'gateway%')
            and (member::regrole::text not in (${TEST_LOGINS}) or roleid::regrole <> 'gateway'::regrole)`,
      ),
  },
  {
    name: 'every key includes the tenant, and every reference stays within the tenant',
    find: (db) =>
      column(
        db,
        `select format('%s has no key that begins with tenant_id', c.relname)
           from pg_class c
          where c.relnamespace = 'private'::regnamespace and c.relkind in ('r', 'p')
            and c.relname not in ('tenants', 'usage_writers', 'erasures')
            and not exists (select from pg_constraint k where k.conrelid = c.oid and k.contype = 'p'
                               and pg_get_constraintdef(k.oid) ~ '^PRIMARY KEY \\(tenant_id, ')
          union all
         select format('%s.%s refers to nothing of its tenant', c.relname, t.attname)
           from pg_class c join pg_attribute t on t.attrelid = c.oid
          where c.relnamespace = 'private'::regnamespace and c.relkind in ('r', 'p') and t.attname ~ '_id$'
            and not exists (select from pg_constraint k where k.conrelid = c.oid and k.contype = 'f'
                               and t.attnum = any (k.conkey) and k.convalidated
                               and pg_get_constraintdef(k.oid) ~ ('^FOREIGN KEY \\(' || case t.attname
                                     when 'tenant_id' then 'tenant_id\\) REFERENCES private.tenants\\(id\\)'
                                     else 'tenant_id, \\w+\\) REFERENCES private.\\w+\\(tenant_id, id\\)' end))`,
      ),
  },
  {
    name: 'no reference clears the tenant',
    find: (db) =>
      column(
        db,
        `select format('%s of %s clears tenant_id: write on delete set null (COLUMN)', k.conname, k.conrelid::regclass)
           from pg_constraint k join pg_attribute t on t.attrelid = k.conrelid and t.attname = 'tenant_id'
          where k.connamespace = 'private'::regnamespace and k.contype = 'f'
            and (k.confupdtype in ('n', 'd')
                 or k.confdeltype in ('n', 'd') and t.attnum = any (coalesce(k.confdelsetcols, k.conkey)))`,
      ),
  },
];

function isolationOf(table: string): string {
  const column = ISOLATED.but[table] ?? ISOLATED.by;
  return `${table}.tenant_isolation: permissive, all to gateway_functions using (${column} = private.current_tenant())`;
}

/** The texts that a query of one column gives. */
async function column(db: Db, sql: string): Promise<string[]> {
  const found = await rows<Record<string, string>>(db, sql);
  return found.map((row) => String(Object.values(row)[0]));
}
