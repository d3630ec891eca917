// Finds mistakes in the bodies of the functions, such as a misspelt column, with the extension plpgsql_check. Postgres itself finds
// them only when the statement runs.

import type pg from 'pg';
import { connect } from '../src/admin/database.ts';

/** Selects the findings in schemas public and private; `line` counts from the start of the body. */
export const FINDINGS = `
select c.level, p.oid::regprocedure::text as function, c.lineno as line, c.message
  from pg_proc p
  join pg_language l on l.oid = p.prolang and l.lanname = 'plpgsql'
 cross join plpgsql_check_function_tb(p.oid, fatal_errors => false, all_warnings => true,
                                      use_incomment_options => false) c
 where p.pronamespace in ('public'::regnamespace, 'private'::regnamespace)
   -- A function of a trigger cannot be checked without its table.
   and p.prorettype not in ('trigger'::regtype, 'event_trigger'::regtype)
   and not exists (
     select from pg_depend d where d.classid = 'pg_proc'::regclass and d.objid = p.oid and d.deptype = 'e'
   )
 order by p.oid::regprocedure::text, c.lineno`;

export type Finding = {
  readonly level: string;
  readonly function: string;
  readonly line: number | null;
  readonly message: string;
};

/** The errors, one line each, or why the bodies cannot be checked on this database. */
type Bodies = { readonly errors: readonly string[] } | { readonly obstacle: string };

/** Finds the errors in the bodies of the functions. */
export async function checkBodies(url: string): Promise<Bodies> {
  const db = await connect(url, 'check-contract');
  try {
    // The end of the connection rolls this back, with the extension.
    await db.query('begin');
    const obstacle = await prepare(db);
    if (obstacle) return { obstacle };
    const { rows } = await db.query<Finding>(FINDINGS);
    const errors = rows.filter(({ level }) => level === 'error');
    return {
      errors: errors.map((one) => `${one.function}${one.line === null ? '' : `, line ${one.line}`}: ${one.message}`),
    };
  } finally {
    await db.end();
  }
}

/** Creates the extension if necessary, and puts it on the search path. Gives the reason if it cannot. */
async function prepare(db: pg.Client): Promise<string | undefined> {
  const { rows } = await db.query(
    `select coalesce(has_schema_privilege(to_regnamespace('private'), 'usage'), false) as "isAdmin", current_user as role,
            exists (select from pg_available_extensions where name = 'plpgsql_check') as "isAvailable"`,
  );
  const [{ isAdmin, role, isAvailable }] = rows;
  if (!isAdmin) return `${role} may not use schema private; use the role that applied the migrations`;
  if (!isAvailable) return 'the server has no extension plpgsql_check';
  try {
    await db.query('create extension if not exists plpgsql_check');
  } catch {
    return 'as a superuser, run "create extension plpgsql_check"';
  }
  await db.query(`
    select set_config('search_path', format('pg_catalog, %I', n.nspname), true)
      from pg_extension e
      join pg_namespace n on n.oid = e.extnamespace
     where e.extname = 'plpgsql_check'`);
  return undefined;
}
