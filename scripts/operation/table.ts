// Reads a table of tenants from the catalog, with the schemas of its columns.

import { readTables } from '../../src/admin/tables.ts';
import { OperatorError } from '../../src/errors.ts';
import { readPrecision } from '../../src/openapi/postgres-types.ts';
import type { Schema } from '../../src/openapi/schema.ts';
import type { Database } from '../../src/store/migrations.ts';
import {
  type Check,
  DATES,
  describeCheck,
  INTEGERS,
  mayFail,
  meet,
  NUMBERS,
  type Rule,
  readCheck,
  TEXTS,
} from './checks.ts';

/** Thrown if the command refuses to write an operation. */
export class RefusedError extends OperatorError {}

export type Column = {
  readonly name: string;
  /** The name in SQL, quoted if necessary. */
  readonly identifier: string;
  /** Postgres's name of the type, such as `character varying(40)`. */
  readonly type: string;
  /** The type without a length; for a domain, its base type. */
  readonly base: string;
  /** The modifier of the base type: a length, or precision and scale; negative for none. */
  readonly modifier: number;
  readonly schema: Schema & Omit<Rule, 'enum'> & { readonly multipleOf?: number };
  readonly isNullable: boolean;
  readonly comment: string | null;
  /** The default, as SQL. */
  readonly default: string | null;
  /** Whether the database sets it, such as an id or a creation time. */
  readonly isGenerated: boolean;
  /** Whether it is in a B-tree index, which limits the length of a text. */
  readonly isIndexed: boolean;
  /** The columns that it is computed from (`generated always as`); null if it is not computed. */
  readonly sources: readonly string[] | null;
  /** Whether its values come from a sequence. */
  readonly isCounted: boolean;
  /** The values of an enumerated type. */
  readonly labels: readonly string[] | null;
  /** The foreign key that it is part of. */
  readonly reference?: ForeignKey | undefined;
};

export type Table = {
  /** Without the schema. */
  readonly name: string;
  /** The reasons why it can have no operations, such as missing row security. */
  readonly reasons: readonly string[];
  readonly comment: string | null;
  readonly columns: readonly Column[];
  /** The columns of each index, without tenant_id. */
  readonly indexes: readonly (readonly string[])[];
  /** The unique constraints, with their columns without tenant_id. */
  readonly uniques: readonly Key[];
  /** The foreign keys that prevent the deletion of a record. */
  readonly incoming: readonly ForeignKey[];
  /** Check constraints that a schema cannot express, and computed columns and index expressions whose computation may fail. */
  readonly otherChecks: readonly OtherCheck[];
};

/** A check constraint with its condition as a text for clients, or a computed column or an index, which have an empty name. */
type OtherCheck = {
  readonly name: string;
  readonly columns: readonly string[];
  readonly text: string;
  /** Whether computing it may fail for some values. */
  readonly mayFail: boolean;
};

/** A constraint with its columns. */
type Key = {
  readonly name: string;
  readonly columns: readonly string[];
  /** Whether it is an exclusion constraint, which may refuse more than equal values, such as overlaps. */
  readonly isExclusion?: boolean;
};

/** A foreign key of the table, or one that refers to it or to records that are deleted with its own. */
type ForeignKey = Key & {
  readonly table: string;
  /** The table that it refers to. */
  readonly target: string;
  readonly targets: readonly string[];
  readonly isOwn: boolean;
  /** Whether it prevents the deletion of a record of the table, or of a record that is deleted with that. */
  readonly isIncoming: boolean;
  /** Whether one of its actions would clear tenant_id. */
  readonly isClearing: boolean;
  /** Whether row security limits the target to the tenant. */
  readonly isIsolated: boolean;
};

type CatalogColumn = Omit<Column, 'schema' | 'reference'>;
type Catalog = Pick<Table, 'comment' | 'indexes' | 'uniques'> & {
  readonly isIsolated: boolean;
  readonly key: readonly string[] | null;
  readonly columns: readonly CatalogColumn[];
  readonly checks: readonly Check[];
  /** The expressions of each index. */
  readonly expressions: readonly string[];
  readonly foreignKeys: readonly ForeignKey[];
};

const NAMES = (numbers: string, table: string) =>
  `array(select a.attname::text from unnest(${numbers}) with ordinality o (number, n)
           join pg_attribute a on a.attrelid = ${table} and a.attnum = o.number order by o.n)`;

const ISOLATED = (table: string) =>
  `(select c.relforcerowsecurity and exists (select from pg_policy p where p.polrelid = c.oid and p.polname = 'tenant_isolation')
      from pg_class c where c.oid = ${table})`;

const CATALOG = `
select json_build_object(
  'comment', obj_description(t.oid, 'pg_class'),
  'isIsolated', ${ISOLATED('t.oid')},
  'key', (select ${NAMES('k.conkey', 't.oid')} from pg_constraint k where k.conrelid = t.oid and k.contype = 'p'),
  'columns', (
    select json_agg(json_build_object(
             'name', a.attname, 'identifier', quote_ident(a.attname),
             'type', replace(format_type(a.atttypid, a.atttypmod), 'timestamp with time zone', 'timestamptz'),
             'base', format_type(coalesce(nullif(y.typbasetype, 0), y.oid), null),
             'modifier', case when y.typbasetype = 0 then a.atttypmod else y.typtypmod end,
             'isNullable', not (a.attnotnull or y.typnotnull), 'comment', col_description(t.oid, a.attnum),
             'default', case when a.attgenerated = '' then coalesce(pg_get_expr(d.adbin, d.adrelid), y.typdefault) end,
             'isGenerated', a.attgenerated <> '',
             'isCounted', a.attidentity <> '' or coalesce(pg_get_expr(d.adbin, d.adrelid) like '%nextval(%', false),
             'sources', case when a.attgenerated <> '' then array(
               select s.attname from pg_depend p join pg_attribute s on s.attrelid = p.refobjid and s.attnum = p.refobjsubid
                where p.classid = 'pg_attrdef'::regclass and p.objid = d.oid and s.attrelid = t.oid and s.attnum <> a.attnum) end,
             'isIndexed', exists (
               select from pg_index i join pg_class c on c.oid = i.indexrelid join pg_am m on m.oid = c.relam
                where i.indrelid = t.oid and m.amname = 'btree' and a.attnum = any (i.indkey)),
             'labels', (select json_agg(e.enumlabel order by e.enumsortorder)
                          from pg_enum e where e.enumtypid in (y.oid, y.typbasetype))
           ) order by a.attnum)
      from pg_attribute a
      join pg_type y on y.oid = a.atttypid
      left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
     where a.attrelid = t.oid and a.attnum > 0 and not a.attisdropped),
  'checks', (
    select coalesce(json_agg(json_build_object(
             'name', k.conname, 'columns', ${NAMES('k.conkey', 't.oid')}, 'expression', pg_get_expr(k.conbin, t.oid, true))), '[]')
      from (select conbin, conname, conkey, conrelid from pg_constraint where contype = 'c'
             union all
            -- A domain's check counts for each column of that type.
            select k.conbin, k.conname, array[a.attnum], a.attrelid
              from pg_constraint k join pg_attribute a on a.atttypid = k.contypid
             where k.contype = 'c' and a.attnum > 0 and not a.attisdropped) k
     where k.conrelid = t.oid),
  'indexes', (
    select coalesce(json_agg(${NAMES('(i.indkey::int2[])[0:i.indnkeyatts - 1]', 't.oid')}), '[]')
      from pg_index i where i.indrelid = t.oid and i.indpred is null and i.indexprs is null),
  'expressions', (
    select coalesce(json_agg(pg_get_expr(i.indexprs, t.oid, true)), '[]')
      from pg_index i where i.indrelid = t.oid and i.indexprs is not null),
  'uniques', (
    select coalesce(json_agg(json_build_object(
             'name', c.relname, 'isExclusion', i.indisexclusion,
             'columns', ${NAMES('(i.indkey::int2[])[0:i.indnkeyatts - 1] || e.sources', 't.oid')}
           ) order by c.relname), '[]')
      from pg_index i join pg_class c on c.oid = i.indexrelid
      -- An expression has the number 0 in indkey: add the columns that it and the index's condition depend on.
     cross join lateral (select array(
             select distinct p.refobjsubid::int2 from pg_depend p
              where p.classid = 'pg_class'::regclass and p.objid = i.indexrelid and p.refobjid = t.oid
                and i.indexprs is not null and p.refobjsubid <> all (i.indkey)) as sources) e
     where i.indrelid = t.oid and (i.indisunique or i.indisexclusion) and not i.indisprimary),
  'foreignKeys', (
    -- The table, and every table to which a deletion cascades.
    with recursive deleted (oid) as (
      select t.oid
       union
      select k.conrelid from deleted d join pg_constraint k on k.confrelid = d.oid and k.contype = 'f' and k.confdeltype = 'c')
    select coalesce(json_agg(json_build_object(
             'name', k.conname, 'table', k.conrelid::regclass, 'columns', ${NAMES('k.conkey', 'k.conrelid')},
             'target', k.confrelid::regclass, 'targets', ${NAMES('k.confkey', 'k.confrelid')},
             'isOwn', k.conrelid = t.oid, 'isIncoming', k.confrelid in (select oid from deleted) and k.confdeltype in ('a', 'r'),
             'isClearing', exists (
               select from pg_attribute a
                where a.attrelid = k.conrelid and a.attname = 'tenant_id' and a.attnum = any (k.conkey)
                  -- Without a list of columns, an action clears all of them.
                  and (k.confupdtype in ('n', 'd')
                       or k.confdeltype in ('n', 'd') and a.attnum = any (coalesce(k.confdelsetcols, k.conkey)))),
             'isIsolated', ${ISOLATED('k.confrelid')}
           ) order by k.conname), '[]')
      from pg_constraint k
     where k.contype = 'f' and (k.conrelid = t.oid or k.confrelid in (select oid from deleted)))
)::text as json
  from pg_class t
 where t.relnamespace = 'private'::regnamespace and t.relkind in ('r', 'p') and t.relname = $1`;

/** Reads a table. Throws RefusedError if there is none of this name. */
export async function readTable(db: Database, name: string): Promise<Table> {
  // With this search path, Postgres qualifies names in types, defaults and checks, as the functions with the same path need them.
  await db.query('set search_path = pg_catalog');
  const { rows } = await db.query(CATALOG, [name]);
  await db.query('reset search_path');
  const [{ json = '' } = {}] = rows as { json?: string }[];
  if (!json) {
    const names = (await readTables(db)).map((table) => table.name).sort();
    throw new RefusedError(`there is no table private.${name}: expected one of ${names.join(', ')}`);
  }
  const catalog: Catalog = JSON.parse(json);
  const readings = catalog.checks.map((check) => {
    const { base = '' } = catalog.columns.find((column) => column.name === check.columns[0]) ?? {};
    return { check, ...readCheck(check, base) };
  });
  // A sequence counts the records of all tenants: its numbers would reveal how many the others create.
  const counted = catalog.columns.filter(({ isCounted }) => isCounted).map((column) => column.name);
  const isOpen = (column: CatalogColumn) =>
    [column.name, ...(column.sources ?? [])].every((one) => !counted.includes(one));
  const columns = catalog.columns
    .filter((column) => column.name !== 'tenant_id' && isOpen(column))
    .map((column) => {
      const rules = readings.filter(({ check }) => check.columns[0] === column.name).map(({ rule }) => rule);
      return {
        ...column,
        schema: toSchema(column, meet(rules)),
        isGenerated: column.isGenerated || /[a-z]/i.test((column.default ?? '').replace(CONSTANT, '')),
        reference: catalog.foreignKeys.find((one) => one.isOwn && one.columns.includes(column.name)),
      };
    });
  const addSources = (names: readonly string[]) =>
    names.concat(columns.flatMap((column) => (names.includes(column.name) && column.sources) || []));
  const checks = readings.flatMap(({ check, isWhole }) => {
    const all = addSources(check.columns);
    if (isWhole && all.length === check.columns.length) return [];
    return [{ name: check.name, columns: all, text: describeCheck(check), mayFail: mayFail(check.expression) }];
  });
  const computed = columns.flatMap(({ name, sources }) => {
    return sources ? [{ name: '', columns: [name, ...sources], text: `${name} can be computed`, mayFail: true }] : [];
  });
  const indexed = catalog.expressions.filter(mayFail).map((expression) => {
    const text = describeCheck({ name: '', columns: [], expression });
    const names = columns.map(({ name }) => name).filter((name) => text.match(/\w+/g)?.includes(name));
    return { name: '', columns: addSources(names), text: `${text} can be computed`, mayFail: true };
  });
  return {
    name,
    reasons: [...findTableReasons(name, catalog)],
    comment: catalog.comment,
    columns,
    indexes: catalog.indexes.filter(([first]) => first === 'tenant_id').map(([, ...others]) => others),
    uniques: catalog.uniques.map((key) => ({ ...key, columns: key.columns.filter((one) => one !== 'tenant_id') })),
    incoming: catalog.foreignKeys.filter(({ isIncoming }) => isIncoming),
    otherChecks: [...checks, ...computed, ...indexed],
  };
}

/** Finds the reasons, other than its columns, why a table can have no operations. */
function* findTableReasons(name: string, catalog: Catalog): Generator<string> {
  const id = catalog.columns.find((column) => column.name === 'id');
  if (!catalog.isIsolated) yield describeOpenTable(`private.${name}`);
  if (catalog.key?.join() !== 'tenant_id,id' || id?.base !== 'uuid') {
    const rename = id ? `alter table private.${name} rename column id to numero; ` : '';
    // The old primary key may be a business rule: keep it as a unique constraint.
    const once = (catalog.key ?? [])
      .filter((column) => column !== 'tenant_id')
      .map((column) => (column === 'id' ? 'numero' : column));
    const unique = once.length > 0 ? `, add unique (${['tenant_id', ...once].join(', ')})` : '';
    // private.isolate watches only a table that has an id.
    const watch = id || !catalog.isIsolated ? '' : `; select private.watch('private.${name}')`;
    yield `the primary key of private.${name} is not (tenant_id, id) with a uuid, which tells nobody how many records there are: correct it in a migration, such as ${rename}alter table private.${name} drop constraint if exists ${name}_pkey, add column id uuid not null default gen_random_uuid(), add primary key (tenant_id, id)${unique}${watch}`;
  }
  for (const open of catalog.uniques.filter(({ columns }) => !columns.includes('tenant_id'))) {
    yield `${open.name} of private.${name} is unique without tenant_id, and so tells what another tenant has: create it with tenant_id as its first column`;
  }
  for (const key of catalog.foreignKeys) {
    const column = key.columns.find((one) => one !== 'tenant_id');
    // tenant_id is never null, so such an action always fails.
    if (key.isClearing) {
      const remedy = column ? `with the column alone, as in on delete set null (${column})` : 'without the action';
      yield `${key.name} of ${key.table} would clear tenant_id too, and so refuses every deletion: create it ${remedy}`;
    }
    if (key.isOwn && column && key.targets.join() !== 'tenant_id,id') {
      yield `${column} of private.${name} refers to something else than the id of a record`;
    }
  }
}

/** How to isolate a table without row security. */
export function describeOpenTable(table: string): string {
  return `${table} has no row security: add select private.isolate('${table}'); to its migration (supabase/README.md, "Add a table")`;
}

/** Matches texts, types and constants in a default, as in private.find_rows. If the rest has letters, it computes a value each time. */
const CONSTANT = /e?'(''|[^'])*'|::[\w ."]+(\([\d,]+\))?(\[\])*|\b(true|false|null|array)\b/gi;

const FORMATS: Readonly<Record<string, readonly [format: string, maxLength: number]>> = {
  uuid: ['uuid', 36],
  date: ['date', 10],
  'timestamp with time zone': ['date-time', 32],
  'timestamp without time zone': ['date-time-local', 26],
  'time without time zone': ['time-local', 15],
};
/** Maximum lengths of arrays and texts without a bound in Postgres; the author of the operation may edit them. */
const MAX_ITEMS = 100;
const MAX_LENGTH = 255;

/** Adds a maximum length to the schema of a string without one. */
export function boundText(schema: Column['schema']): Column['schema'] {
  return schema.type === 'string' && !schema.enum ? { ...schema, maxLength: schema.maxLength ?? MAX_LENGTH } : schema;
}

/** The schema of a column's values other than null; `{}` for a type that a person has to describe. */
export function toSchema(
  column: Pick<CatalogColumn, 'name' | 'base' | 'modifier' | 'labels'> & Partial<Pick<Column, 'sources'>>,
  rule: Rule,
): Column['schema'] {
  const { name, base, modifier, labels } = column;
  const { minLength, minItems, maxItems = MAX_ITEMS, minimum, exclusiveMinimum: from = minimum } = rule;
  const { maximum, exclusiveMaximum: to = maximum } = rule;
  if (base.endsWith('[]')) {
    const items = toSchema({ ...column, name: '', base: base.slice(0, -2) }, {});
    return items.type ? omitUndefined({ type: 'array', minItems, maxItems, items: boundText(items) }) : {};
  }
  const format = FORMATS[base];
  // A computed date may be one that the format cannot express, such as 10000-01-01; only a check refuses it.
  if (format && column.sources && DATES.test(base) && (from === undefined || to === undefined)) {
    return { type: 'string', format: format[0] };
  }
  if (format) return { type: 'string', format: format[0], maxLength: format[1] };
  const integer = INTEGERS[base];
  if (integer) {
    const [format, minimum, maximum] = integer;
    // A computed bigint may be too large for a number in JSON; only a check refuses it.
    const bounds = base === 'bigint' && column.sources ? {} : { minimum, maximum };
    return { type: 'integer', format, ...meet([bounds, rule]) };
  }
  if (base === 'boolean') return { type: 'boolean' };
  if (NUMBERS.includes(base)) {
    if (base !== 'numeric' || modifier < 4) return { type: 'number', ...rule };
    const [most, multipleOf] = readPrecision(modifier);
    return { type: 'number', ...meet([{ minimum: -most, maximum: most }, rule]), multipleOf };
  }
  const values = labels ?? rule.enum;
  if (values) return { type: 'string', ...rule, enum: [...values] };
  if (!TEXTS.includes(base)) return {};
  const { maxLength } = meet([rule, modifier > 4 ? { maxLength: modifier - 4 } : {}]);
  const email = name === 'email' ? 'email' : undefined;
  return omitUndefined({ type: 'string', format: email, minLength, maxLength, pattern: rule.pattern });
}

function omitUndefined(value: object): Column['schema'] {
  return JSON.parse(JSON.stringify(value));
}
