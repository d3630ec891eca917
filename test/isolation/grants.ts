import { type Db, rows } from '../helpers/database.ts';
import { change, functions, GRANTEES, type Mutation, OUR_SCHEMAS, STRANGER } from './mutation.ts';

/** Who may execute each function. */
export async function changeExecutors(db: Db): Promise<Mutation[]> {
  return (await functions(db)).flatMap(({ signature, owner, executors }) =>
    // What an owner has it can give to itself.
    GRANTEES.filter((role) => role !== owner).flatMap((role) =>
      executors.includes(role)
        ? [
            change(`revoke execute on function ${signature} from ${role}`),
            change(`grant execute on function ${signature} to ${role} with grant option`),
          ]
        : [change(`grant execute on function ${signature} to ${role}`)],
    ),
  );
}

/** Something with rights, of which perhaps only a part is granted, and to these roles alone. */
type Granted = {
  readonly on: string;
  readonly columns?: string;
  readonly rights: readonly string[];
  readonly roles?: readonly string[];
};

/** Each right taken away that is there, and each one given that is not, of these. */
function changeGrants(things: readonly Granted[], privileges: readonly string[]): Mutation[] {
  return things.flatMap(({ on, columns = '', rights, roles = GRANTEES }) =>
    roles.flatMap((role) =>
      privileges.map((privilege) =>
        rights.includes(`${privilege} ${role}`)
          ? change(`revoke ${privilege}${columns} on ${on} from ${role}`)
          : change(`grant ${privilege}${columns} on ${on} to ${role}`),
      ),
    ),
  );
}

/** A subquery for the rights that an ACL gives, as `privilege role`. */
function rightsIn(acl: string): string {
  const role = `case when a.grantee = 0 then 'public' else a.grantee::regrole::text end`;
  return `array(select lower(a.privilege_type) || ' ' || ${role} from aclexplode(${acl}) a)`;
}

/** What everybody may do with each table as a whole. */
export async function changeTableGrants(db: Db): Promise<Mutation[]> {
  const tables = await rows<Granted>(
    db,
    `select 'private.' || relname as on, ${rightsIn('relacl')} as rights
       from pg_class where relnamespace = 'private'::regnamespace and relkind in ('r', 'p') order by 1`,
  );
  return changeGrants(tables, ['select', 'insert', 'update', 'delete', 'truncate']);
}

/** What a role that may read or write some columns of a table may do with each of them. */
export async function changeColumnGrants(db: Db): Promise<Mutation[]> {
  const columns = await rows<Granted>(
    db,
    `select 'private.' || c.relname as on, format(' (%s)', t.attname) as columns, ${rightsIn('t.attacl')} as rights,
            array(select distinct a.grantee::regrole::text
                    from pg_attribute o, aclexplode(o.attacl) a where o.attrelid = c.oid) as roles
       from pg_class c join pg_attribute t on t.attrelid = c.oid
      where c.relnamespace = 'private'::regnamespace and c.relkind in ('r', 'p')
        and t.attnum > 0 and not t.attisdropped order by c.relname, t.attnum`,
  );
  return changeGrants(columns, ['select', 'insert', 'update']);
}

/** Who sees a schema, and who creates in it. */
export async function changeSchemaGrants(db: Db): Promise<Mutation[]> {
  const schemas = await rows<Granted>(
    db,
    `select 'schema ' || nspname as on, ${rightsIn('nspacl')} as rights
       from pg_namespace where nspname in ${OUR_SCHEMAS} order by 1`,
  );
  return changeGrants(schemas, ['usage', 'create']);
}

/** Who is granted what is created later. */
export async function changeDefaults(): Promise<Mutation[]> {
  return [
    change('alter default privileges grant execute on functions to public'),
    change('alter default privileges for role gateway_functions grant execute on functions to public'),
    change(`alter default privileges in schema public grant execute on functions to ${STRANGER}`),
    change('alter default privileges in schema private grant select on tables to gateway'),
  ];
}
