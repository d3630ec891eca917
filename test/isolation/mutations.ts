// Changes to the database that would weaken a wall, taken from its own catalog: what is there is taken away or turned
// round, and what is not there is given.

import { type Db, rows } from '../helpers/database.ts';
import { editFunctions, PASSED_ON, PERMISSION, PREDICATES, RECORD, TENANT, VERIFICATION } from './edits.ts';
import {
  changeColumnGrants,
  changeDefaults,
  changeExecutors,
  changeSchemaGrants,
  changeTableGrants,
} from './grants.ts';
import { change, functions, type Mutation, OUR_ROLES, STRANGER, tables } from './mutation.ts';

/** A kind of change, and how to find all of that kind. */
export type Kind = { readonly kind: string; readonly derive: (db: Db) => Promise<Mutation[]> };

/** Every kind of change that the checks have to catch. */
export const kinds: readonly Kind[] = [
  { kind: 'a tenant predicate of a function', derive: (db) => editFunctions(db, /./, PREDICATES) },
  { kind: 'the tenant that a function passes on', derive: (db) => editFunctions(db, /./, PASSED_ON) },
  { kind: 'a part of the verification of a key', derive: (db) => editFunctions(db, /^verify_key$/, VERIFICATION) },
  { kind: "a part of the record of a key's use", derive: (db) => editFunctions(db, /^add_usage$/, RECORD) },
  { kind: 'the permission that a function asks for', derive: (db) => editFunctions(db, /./, PERMISSION) },
  { kind: 'the tenant that row security reads', derive: (db) => editFunctions(db, /^current_tenant$/, TENANT) },
  { kind: 'whose rights a function has', derive: changeRights },
  { kind: 'the path of a function', derive: changePaths },
  { kind: 'who may execute a function', derive: changeExecutors },
  { kind: 'who may do what with a table', derive: changeTableGrants },
  { kind: 'who may do what with a column', derive: changeColumnGrants },
  { kind: 'who may do what with a schema', derive: changeSchemaGrants },
  { kind: 'who may do what with things to come', derive: changeDefaults },
  { kind: 'the row security of a table', derive: dropRowSecurity },
  { kind: 'a policy', derive: changePolicies },
  { kind: 'the owner of a table', derive: changeTableOwners },
  { kind: 'a key of a table', derive: dropKeys },
  { kind: 'what a role is', derive: changeRoles },
];

async function changeRights(db: Db): Promise<Mutation[]> {
  return (await functions(db)).flatMap(({ signature, definer, owner, admin }) => [
    change(`alter function ${signature} security ${definer ? 'invoker' : 'definer'}`),
    ...[admin, ...OUR_ROLES]
      .filter((other) => other !== owner)
      .map((other) => change(`alter function ${signature} owner to ${other}`)),
  ]);
}

async function changePaths(db: Db): Promise<Mutation[]> {
  const withPath = (await functions(db)).filter(({ isResolved }) => !isResolved);
  return withPath.flatMap(({ signature }) => [
    change(`alter function ${signature} reset search_path`),
    change(`alter function ${signature} set search_path = public, pg_catalog`),
  ]);
}

async function dropRowSecurity(db: Db): Promise<Mutation[]> {
  return (await tables(db)).flatMap(({ name }) => [
    change(`alter table ${name} disable row level security`),
    change(`alter table ${name} no force row level security`),
  ]);
}

async function changePolicies(db: Db): Promise<Mutation[]> {
  const policies = await rows<{ on: string; using: string; writes: boolean; bound: boolean }>(
    db,
    `select format('%I on private.%I', policyname, tablename) as on, qual as using,
            cmd in ('ALL', 'INSERT', 'UPDATE') as writes, qual <> 'true' as bound
       from pg_policies where schemaname = 'private' order by 1`,
  );
  const changed = policies.flatMap(({ on, using, writes, bound }) => [
    change(`drop policy ${on}`),
    change(`alter policy ${on} to public`),
    change(`alter policy ${on} using (not ${using})`),
    ...(bound ? [change(`alter policy ${on} using (true)`)] : []),
    ...(bound && writes ? [change(`alter policy ${on} with check (true)`)] : []),
  ]);
  const added = (await tables(db)).flatMap(({ name }) =>
    ['public', ...OUR_ROLES].map((role) => change(`create policy opening on ${name} to ${role} using (true)`)),
  );
  return [...changed, ...added];
}

async function changeTableOwners(db: Db): Promise<Mutation[]> {
  const owned = await tables(db);
  return OUR_ROLES.flatMap((role) => [
    change(`alter schema private owner to ${role}`),
    ...owned.map(({ name }) => change(`alter table ${name} owner to ${role}`)),
  ]);
}

async function dropKeys(db: Db): Promise<Mutation[]> {
  const keys = await rows<{ sql: string }>(
    db,
    `select format('alter table %s drop constraint %I cascade', conrelid::regclass, conname) as sql
       from pg_constraint
      where connamespace = 'private'::regnamespace and contype in ('p', 'f') order by 1`,
  );
  const clearing = `alter table private.treinos add foreign key (tenant_id, personal_id)
    references private.personais (tenant_id, id) on delete set null`;
  return [...keys.map(({ sql }) => change(sql)), change(clearing)];
}

async function changeRoles(db: Db): Promise<Mutation[]> {
  const [{ admin } = { admin: '' }] = await rows<{ admin: string }>(db, 'select session_user::text as admin');
  const abilities = ['superuser', 'bypassrls', 'login', 'inherit', 'createrole', 'createdb', 'replication'];
  return OUR_ROLES.flatMap((role) => [
    ...abilities.map((ability) => change(`alter role ${role} ${ability}`)),
    ...[admin, 'pg_read_all_data', ...OUR_ROLES]
      .filter((other) => other !== role)
      .map((other) => change(`grant ${other} to ${role}`)),
    change(`grant ${role} to ${STRANGER}`),
  ]);
}
