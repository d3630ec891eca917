// Takes one of the two walls between the tenants away, to see that the other one holds.

import { rows, type Sql } from '../helpers/database.ts';
import { column } from './check.ts';

/** A tenant predicate in the query of a function that the gateway calls, itself or through another one. */
const PREDICATE = /\b\w+\.tenant_id\s*(?:=|<>)\s*[pv]_tenant\b/g;

/** What row security would say where a role sees all rows, in the query of its function. */
const POLICY_BY_HAND = /\band \w+\.tenant_id\s*(?:=|<>)\s*private\.current_tenant\(\)/g;

/** One wall that is left, and how the other one is removed. What is shown with both walls is shown with each of them alone. */
export const ONE_WALL = [
  { walls: 'the functions alone', remove: removeRowSecurity },
  { walls: 'row security alone', remove: removePredicates },
];

/** Lets every query of the functions look at all tenants; gives the function of each predicate that there was. */
export function removePredicates(db: Sql, functions?: RegExp): Promise<string[]> {
  return removeFromFunctions(db, PREDICATE, 'true', functions);
}

/** Lets every role see all rows of the tables that it may read; gives the tables, and the functions with a policy's words. */
export async function removeRowSecurity(db: Sql): Promise<string[]> {
  const tables = await findTables(db);
  // Within the transaction of a test a table does not change while a deferred constraint of it is to be checked.
  await db.query('set constraints all immediate');
  for (const name of tables) {
    await db.query(`alter table ${name} disable row level security`);
    await db.query(`alter table ${name} no force row level security`);
  }
  const inFunctions = await removeFromFunctions(db, POLICY_BY_HAND, '');
  return [...tables, ...inFunctions];
}

/** The tables of schema private: one before those that it refers to, and the changes after the tables whose changes they are. */
export function findTables(db: Sql): Promise<string[]> {
  return column(
    db,
    `with recursive tables (oid, level) as (
       select oid, 0 from pg_class where relnamespace = 'private'::regnamespace and relkind in ('r', 'p')
       union all
       select c.conrelid, t.level + 1
         from tables t
         join pg_constraint c on c.confrelid = t.oid and c.contype = 'f' and c.conrelid <> c.confrelid
     )
     select oid::regclass::text as name from tables group by oid order by max(level) desc, oid = 'private.changes'::regclass, 1`,
  );
}

/** The functions that the gateway calls, itself or through another one, and that query a table of tenants. */
export function findReaders(db: Sql): Promise<string[]> {
  return column(
    db,
    `select p.proname
       from pg_proc p
      where (p.pronamespace = 'public'::regnamespace or p.pronamespace = 'private'::regnamespace and not p.prosecdef)
        and (p.proowner = 'gateway_functions'::regrole or has_function_privilege('gateway_functions', p.oid, 'execute'))
        and exists (
          select from pg_policy o
           where o.polname = 'tenant_isolation'
             and p.prosrc ~ ('\\m(from|join|update)\\s+' || o.polrelid::regclass || '\\M')
        )`,
  );
}

async function removeFromFunctions(db: Sql, pattern: RegExp, replacement: string, functions = /./): Promise<string[]> {
  const removed: string[] = [];
  for (const { name, definition } of await functionsOf(db)) {
    const places = definition.match(pattern) ?? [];
    if (places.length === 0 || !functions.test(name)) continue;
    await db.query(definition.replaceAll(pattern, replacement));
    removed.push(...places.map(() => name));
  }
  return removed;
}

/** Every function of ours with its definition, which aggregates, such as those of citext, do not have. */
export function functionsOf(db: Sql): Promise<{ name: string; definition: string }[]> {
  return rows(
    db,
    `select p.proname as name, pg_get_functiondef(p.oid) as definition
       from pg_proc p
      where p.pronamespace in ('public'::regnamespace, 'private'::regnamespace) and p.prokind <> 'a' order by 1`,
  );
}
