// What the database's own catalog has to say for the two walls to stand. New tables and functions have to keep to it
// as the old ones do; whatever only some of them may do is listed by name.

import { readFileSync } from 'node:fs';
import { type Db, rows } from '../helpers/database.ts';
import { LOGIN_NAMES } from '../helpers/servers.ts';
import { type Check, column, differences } from './check.ts';
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
const DEFINERS = inPairs(expectedBy('only these functions in private have the rights of an owner, who has few')).map(
  ([name, owner]) => `${name} defines rights, owned by ${owner}`,
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

/** The tables on which the published functions do not see the rows of the tenant alone. */
const NOT_ISOLATED = ['api_keys', 'erasures', 'usage_writers'];
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
export const OUR_SCHEMAS = `('public', 'private')`;
export const OUR_TABLES = `c.relnamespace = 'private'::regnamespace and c.relkind in ('r', 'p')`;
const OUR_FUNCTIONS = `pg_proc p join pg_namespace n on n.oid = p.pronamespace and n.nspname in ${OUR_SCHEMAS}`;

/** Rules for the catalog. */
export const catalogChecks: readonly Check[] = [
  rule(
    'every function runs with the rights it needs and no others',
    // Those of public define the rights of gateway_functions, and of private most take their caller's.
    `select format('%s.%s %s rights, owned by %s', n.nspname, p.proname,
                   case when p.prosecdef then 'defines' else 'takes' end, p.proowner::regrole)
       from ${OUR_FUNCTIONS}
      where (p.prosecdef, p.proowner::regrole::text) is distinct from
            (n.nspname = 'public', case n.nspname when 'public' then 'gateway_functions' else session_user end)`,
    DEFINERS,
  ),
  rule(
    'every function resolves names in pg_catalog only',
    `select format('%s.%s has %s', n.nspname, p.proname, coalesce(p.proconfig::text, 'no path'))
       from ${OUR_FUNCTIONS}
        -- The body of a function without one was resolved when it was created.
      where p.prosqlbody is null
        and not coalesce(p.proconfig @> '{"search_path=pg_catalog, pg_temp"}', false)`,
  ),
  rule(
    'only the gateway may execute published functions, and only these may execute their helpers',
    `select format('%s: %s.%s', ${GRANTEE}, n.nspname, p.proname) || ${MAY_PASS_ON}
       from ${OUR_FUNCTIONS} cross join aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a
      where a.grantee <> p.proowner`,
    async (db) => [
      ...(await column(
        db,
        `select 'gateway: public.' || proname from pg_proc where pronamespace = 'public'::regnamespace`,
      )),
      ...EXECUTED,
    ],
  ),
  rule(
    'every role has the table and column rights that its functions need and no others',
    `select format('%s: %s on %s', ${GRANTEE}, lower(a.privilege_type), c.relname) || ${MAY_PASS_ON}
       from pg_class c, aclexplode(c.relacl) a
      where c.relnamespace::regnamespace::text in ${OUR_SCHEMAS} and a.grantee <> c.relowner
      union all
     select format('%s: %s on %s (%s)', ${GRANTEE}, lower(a.privilege_type), c.relname,
                   string_agg(t.attname, ', ' order by t.attname)) || ${MAY_PASS_ON}
       from pg_class c join pg_attribute t on t.attrelid = c.oid, aclexplode(t.attacl) a
      where c.relnamespace::regnamespace::text in ${OUR_SCHEMAS} and a.grantee <> c.relowner
      group by a.grantee, a.privilege_type, c.relname, a.is_grantable`,
    async (db) => [...TABLE_GRANTS, ...(await readNeeds(db))],
  ),
  rule(
    'every role may use only the schemas it needs, and create in none',
    `select format('%s: %s on %s', ${GRANTEE}, lower(a.privilege_type), n.nspname) || ${MAY_PASS_ON}
       from pg_namespace n, aclexplode(n.nspacl) a
      where n.nspname in ${OUR_SCHEMAS} and a.grantee <> n.nspowner`,
    SCHEMA_GRANTS,
  ),
  rule(
    'objects created later are closed to everybody',
    `select format('what %s creates is open to %s', case when d.defaclrole = session_user::regrole
                   then 'the administrator' else d.defaclrole::regrole::text end,
                   coalesce(string_agg(${GRANTEE}, ', '), 'nobody'))
       from pg_default_acl d
       left join aclexplode(d.defaclacl) a on a.grantee <> d.defaclrole
      group by d.oid, d.defaclrole`,
    ['what the administrator creates is open to nobody', 'what gateway_functions creates is open to nobody'],
  ),
  rule(
    'row security holds on every table, for its owner too',
    `select relname from pg_class c where ${OUR_TABLES} and not (relrowsecurity and relforcerowsecurity)`,
  ),
  rule(
    'row security shows published functions only rows of their tenant, and other roles only what they need',
    `select format('%s.%s: %s, %s to %s using %s', tablename, policyname, lower(permissive), lower(cmd),
                   array_to_string(roles, ', '), qual) || coalesce(' with check ' || with_check, '')
       from pg_policies where schemaname in ${OUR_SCHEMAS}`,
    async (db) => {
      const tables = await rows<{ name: string; admin: string }>(
        db,
        `select relname as name, relowner::regrole::text as admin from pg_class c where ${OUR_TABLES}`,
      );
      return [
        ...tables.map(({ name, admin }) => `${name}.administration: permissive, all to ${admin} using true`),
        ...tables.filter(({ name }) => !NOT_ISOLATED.includes(name)).map(({ name }) => isolationOf(name)),
        ...OTHER_POLICIES,
      ];
    },
  ),
  rule(
    'the administrator owns every table and the schema of the tables',
    `select format('%s is owned by %s', relname, relowner::regrole) from pg_class
      where relnamespace = 'private'::regnamespace and relowner <> session_user::regrole
      union all
     select format('schema private is owned by %s', nspowner::regrole) from pg_namespace
      where nspname = 'private' and nspowner <> session_user::regrole`,
  ),
  rule(
    'no gateway role can log in, has privileged attributes, or can become another role',
    `select format('%s has %s', rolname, key)
       from pg_roles r, json_each_text(row_to_json(r))
      where rolname like 'gateway%' and value = 'true' and rolname not in (${TEST_LOGINS})
      union all
     select format('%s is %s', member::regrole, roleid::regrole) from pg_auth_members
      where (member::regrole::text like 'gateway%' or roleid::regrole::text like 'gateway%')
        and (member::regrole::text not in (${TEST_LOGINS}) or roleid::regrole <> 'gateway'::regrole)`,
  ),
  rule(
    'every key includes the tenant, and every reference stays within the tenant',
    `select format('%s has no key that begins with tenant_id', c.relname)
       from pg_class c
      where ${OUR_TABLES}
        and c.relname not in ('tenants', 'usage_writers', 'erasures')
        and not exists (select from pg_constraint k where k.conrelid = c.oid and k.contype = 'p'
                           and pg_get_constraintdef(k.oid) ~ '^PRIMARY KEY \\(tenant_id, ')
      union all
     select format('%s.%s refers to nothing of its tenant', c.relname, t.attname)
       from pg_class c join pg_attribute t on t.attrelid = c.oid
      where ${OUR_TABLES} and t.attname ~ '_id$'
        and not exists (select from pg_constraint k where k.conrelid = c.oid and k.contype = 'f'
                           and t.attnum = any (k.conkey) and k.convalidated
                           and pg_get_constraintdef(k.oid) ~ ('^FOREIGN KEY \\(' || case t.attname
                                 when 'tenant_id' then 'tenant_id\\) REFERENCES private.tenants\\(id\\)'
                                 else 'tenant_id, \\w+\\) REFERENCES private.\\w+\\(tenant_id, id\\)' end))`,
  ),
  rule(
    'no reference clears the tenant',
    `select format('%s of %s clears tenant_id: write on delete set null (COLUMN)', k.conname, k.conrelid::regclass)
       from pg_constraint k join pg_attribute t on t.attrelid = k.conrelid and t.attname = 'tenant_id'
      where k.connamespace = 'private'::regnamespace and k.contype = 'f'
        and (k.confupdtype in ('n', 'd')
             or k.confdeltype in ('n', 'd') and t.attnum = any (coalesce(k.confdelsetcols, k.conkey)))`,
  ),
];

/** That a query of one column finds these texts, by default none. */
function rule(name: string, sql: string, expected: readonly string[] | ((db: Db) => Promise<string[]>) = []): Check {
  const find = async (db: Db) =>
    differences(await column(db, sql), typeof expected === 'function' ? await expected(db) : expected);
  return { name, find };
}

function isolationOf(table: string): string {
  const column = table === 'tenants' ? 'id' : 'tenant_id';
  return `${table}.tenant_isolation: permissive, all to gateway_functions using (${column} = private.current_tenant())`;
}
