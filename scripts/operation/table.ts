// A table of tenants as the catalog describes it, with the schemas of its columns.

import { OperatorError } from '../../src/errors.ts';
import { EXACT, type Schema } from '../../src/openapi/schema.ts';
import type { Database } from '../../src/store/migrations.ts';

/** An operation that the command does not write; the message says why. */
export class RefusedError extends OperatorError {}

export type Column = {
  readonly name: string;
  /** As Postgres writes it, such as `character varying(40)`. */
  readonly type: string;
  readonly schema: Schema & { readonly maxLength?: number };
  readonly isNullable: boolean;
  readonly comment: string | null;
  /** The constant that a client's record gets without the field. */
  readonly default: string | null;
  /** Whether the database sets it, such as an id or the time of the creation. */
  readonly isGenerated: boolean;
  /** The table whose record it names. */
  readonly reference?: string;
};

export type Table = {
  /** Without its schema. */
  readonly name: string;
  readonly comment: string | null;
  readonly columns: readonly Column[];
  /** The columns of each index, without tenant_id. */
  readonly indexes: readonly (readonly string[])[];
  /** The unique constraints, with their columns without tenant_id. */
  readonly uniques: readonly Key[];
  /** The foreign keys of other records that keep one from being deleted. */
  readonly incoming: readonly Key[];
  /** What gateway_functions may do with it already, such as `select` and `insert numero`. */
  readonly granted: readonly string[];
  /** The checks that a schema cannot express. */
  readonly otherChecks: readonly string[];
};

/** A constraint with its columns, and for a foreign key the table that has it. */
export type Key = { readonly name: string; readonly columns: readonly string[]; readonly table: string };

type CatalogColumn = Pick<Column, 'name' | 'type' | 'isNullable' | 'comment' | 'default'> & {
  readonly base: string;
  /** The type modifier: a length, or precision and scale. */
  readonly modifier: number;
  readonly isGenerated: boolean;
  readonly labels: string[] | null;
};
type Check = { readonly name: string; readonly columns: readonly string[]; readonly definition: string };
type Reference = Key & { readonly targets: readonly string[] };
type Catalog = Pick<Table, 'comment' | 'indexes' | 'uniques' | 'incoming' | 'granted'> & {
  readonly isIsolated: boolean;
  readonly key: readonly string[] | null;
  readonly columns: readonly CatalogColumn[];
  readonly checks: readonly Check[];
  readonly references: readonly Reference[];
};

const NAMES = (numbers: string, table: string) =>
  `array(select a.attname::text from unnest(${numbers}) with ordinality o (number, n)
           join pg_attribute a on a.attrelid = ${table} and a.attnum = o.number order by o.n)`;

const CATALOG = `
select json_build_object(
  'comment', obj_description(t.oid, 'pg_class'),
  'isIsolated', t.relforcerowsecurity and exists (
    select from pg_policy p where p.polrelid = t.oid and p.polname = 'tenant_isolation'),
  'key', (select ${NAMES('k.conkey', 't.oid')} from pg_constraint k where k.conrelid = t.oid and k.contype = 'p'),
  'columns', (
    select json_agg(json_build_object(
             'name', a.attname,
             'type', replace(format_type(a.atttypid, a.atttypmod), 'timestamp with time zone', 'timestamptz'),
             'base', format_type(coalesce(nullif(y.typbasetype, 0), y.oid), null),
             'modifier', case when y.typbasetype = 0 then a.atttypmod else y.typtypmod end,
             'isNullable', not a.attnotnull, 'comment', col_description(t.oid, a.attnum),
             'default', pg_get_expr(d.adbin, d.adrelid), 'isGenerated', a.attidentity <> '',
             'labels', (select json_agg(e.enumlabel order by e.enumsortorder) from pg_enum e where e.enumtypid = y.oid)
           ) order by a.attnum)
      from pg_attribute a
      join pg_type y on y.oid = a.atttypid
      left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
     where a.attrelid = t.oid and a.attnum > 0 and not a.attisdropped and a.attgenerated = ''),
  'checks', (
    select coalesce(json_agg(json_build_object(
             'name', k.conname, 'columns', ${NAMES('k.conkey', 't.oid')}, 'definition', pg_get_constraintdef(k.oid))), '[]')
      from pg_constraint k where k.conrelid = t.oid and k.contype = 'c'),
  'indexes', (
    select coalesce(json_agg(${NAMES('(i.indkey::int2[])[0:i.indnkeyatts - 1]', 't.oid')}), '[]')
      from pg_index i where i.indrelid = t.oid and i.indpred is null and i.indexprs is null),
  'uniques', (
    select coalesce(json_agg(json_build_object(
             'name', c.relname, 'table', t.oid::regclass,
             'columns', ${NAMES('(i.indkey::int2[])[0:i.indnkeyatts - 1]', 't.oid')}) order by c.relname), '[]')
      from pg_index i join pg_class c on c.oid = i.indexrelid
     where i.indrelid = t.oid and i.indisunique and not i.indisprimary),
  'references', (
    select coalesce(json_agg(json_build_object(
             'name', k.conname, 'table', k.confrelid::regclass, 'columns', ${NAMES('k.conkey', 't.oid')},
             'targets', ${NAMES('k.confkey', 'k.confrelid')})), '[]')
      from pg_constraint k where k.conrelid = t.oid and k.contype = 'f'),
  'incoming', (
    select coalesce(json_agg(json_build_object(
             'name', k.conname, 'table', k.conrelid::regclass, 'columns', ${NAMES('k.conkey', 'k.conrelid')}
           ) order by k.conname), '[]')
      from pg_constraint k where k.confrelid = t.oid and k.contype = 'f' and k.confdeltype in ('a', 'r')),
  'granted', (
    select array(
      select privilege from unnest(array['select', 'delete']) privilege
       where has_table_privilege('gateway_functions', t.oid, privilege)
      union all
      select privilege || ' ' || a.attname from unnest(array['insert', 'update']) privilege, pg_attribute a
       where a.attrelid = t.oid and a.attnum > 0 and not a.attisdropped
         and has_column_privilege('gateway_functions', t.oid, a.attnum, privilege)))
)::text as json
  from pg_class t
 where t.relnamespace = 'private'::regnamespace and t.relkind in ('r', 'p') and t.relname = $1`;

/** Reads a table. Throws RefusedError for one that is not a table of tenants as the others are. */
export async function readTable(db: Database, name: string): Promise<Table> {
  const { rows } = await db.query(CATALOG, [name]);
  const [{ json = '' } = {}] = rows as { json?: string }[];
  if (!json) {
    const { rows: tables } = await db.query(
      `select replace(polrelid::regclass::text, 'private.', '') as name
         from pg_policy p
         join pg_attribute a on a.attrelid = p.polrelid and a.attname = 'tenant_id'
         join pg_attribute i on i.attrelid = p.polrelid and i.attname = 'id'
        where p.polname = 'tenant_isolation' order by 1`,
    );
    const names = (tables as { name: string }[]).map((table) => table.name);
    throw new RefusedError(`there is no table private.${name}: expected one of ${names.join(', ')}`);
  }
  const catalog: Catalog = JSON.parse(json);
  const id = catalog.columns.find((column) => column.name === 'id');
  if (!catalog.isIsolated) {
    throw new RefusedError(`private.${name} has no row security: see supabase/README.md, "Add a table"`);
  }
  if (catalog.key?.join() !== 'tenant_id,id' || id?.base !== 'uuid') {
    throw new RefusedError(`the primary key of private.${name} is not (tenant_id, id) with a uuid`);
  }
  const rules = catalog.checks.map((check) => {
    const { base = '' } = catalog.columns.find((column) => column.name === check.columns[0]) ?? {};
    return { check, rule: readCheck(check, base in INTEGERS) };
  });
  const columns = catalog.columns.filter((column) => column.name !== 'tenant_id');
  return {
    name,
    comment: catalog.comment,
    columns: columns.map((column) => {
      const bounds = rules.flatMap(({ check, rule }) => (rule && check.columns[0] === column.name ? [rule] : []));
      const reference = catalog.references.find((one) => one.columns.includes(column.name));
      if (reference && reference.targets.join() !== 'tenant_id,id') {
        throw new RefusedError(`${column.name} of private.${name} refers to something else than the id of a record`);
      }
      return {
        ...{ name: column.name, type: column.type, isNullable: column.isNullable, comment: column.comment },
        schema: toSchema(column, Object.assign({}, ...bounds)),
        // A default that calls something is the database's own.
        isGenerated: column.isGenerated || /\w\(|^CURRENT_/.test(column.default ?? ''),
        default: column.default,
        ...(reference ? { reference: reference.table } : {}),
      };
    }),
    indexes: catalog.indexes.filter(([first]) => first === 'tenant_id').map(([, ...others]) => others),
    uniques: catalog.uniques.map((key) => ({ ...key, columns: key.columns.filter((one) => one !== 'tenant_id') })),
    incoming: catalog.incoming,
    granted: catalog.granted,
    otherChecks: rules.flatMap(({ check, rule }) => (rule ? [] : [`${check.name} ${check.definition}`])),
  };
}

type Rule = Partial<Record<'minLength' | 'maxLength' | 'minimum' | 'maximum', number>> & { readonly enum?: string[] };

/**
 * The bounds or the values that a check of one column demands; undefined for any other check, also for one that a schema says
 * of integers alone, such as more than 0.
 */
function readCheck({ columns, definition }: Check, isInteger: boolean): Rule | undefined {
  const [column] = columns;
  if (columns.length !== 1) return undefined;
  const expression = definition.replace(/^CHECK \((.*)\)( NOT VALID)?$/s, '$1');
  const [, list] = /^\(*\w+\)*(?:::[a-z ]+)? = ANY \(+ARRAY\[([^\]]*)\](?:::[a-z ]+\[\])?\)*$/.exec(expression) ?? [];
  if (list) return { enum: [...list.matchAll(/'((?:[^']|'')*)'/g)].map(([, one = '']) => one.replaceAll("''", "'")) };
  const plain = expression.replace(/::[a-z]+( [a-z]+)*/g, '').replace(/(?<!\w)\((\w+|'-?[\d.]+')\)/g, '$1');
  const rules = plain
    .split(' AND ')
    .map((part) => readCondition(part.replace(/^\(+|(?<!_length\(\w+)\)+$/g, ''), column ?? '', isInteger));
  return rules.includes(undefined) ? undefined : Object.assign({}, ...rules);
}

function readCondition(text: string, column: string, isInteger: boolean): Rule | undefined {
  const [, what = '', operator = '', quoted = ''] = /^(\S+) (<=|<|>=|>|<>) ('.*'|-?[\d.]+)$/.exec(text) ?? [];
  if (what === column && operator === '<>' && quoted === "''") return { minLength: 1 };
  const value = quoted.replaceAll("'", '');
  if (operator === '' || operator === '<>' || value === '' || Number.isNaN(Number(value))) return undefined;
  const isLength = [`char_length(${column})`, `length(${column})`].includes(what);
  if (isLength) return toBound(operator, Number(value), 'minLength', 'maxLength');
  const isBound = what === column && (isInteger || operator.endsWith('='));
  return isBound ? toBound(operator, Number(value), 'minimum', 'maximum') : undefined;
}

function toBound(operator: string, value: number, least: keyof Rule, most: keyof Rule): Rule {
  const step = operator.length === 1 ? 1 : 0;
  return operator.startsWith('<') ? { [most]: value - step } : { [least]: value + step };
}

const FORMATS: Readonly<Record<string, readonly [format: string, maxLength: number]>> = {
  uuid: ['uuid', 36],
  date: ['date', 10],
  'timestamp with time zone': ['date-time', 32],
  'timestamp without time zone': ['date-time-local', 26],
  'time without time zone': ['time-local', 15],
};
const INTEGERS: Readonly<Record<string, readonly [format: string, minimum: number, maximum: number]>> = {
  smallint: ['int32', -(2 ** 15), 2 ** 15 - 1],
  integer: ['int32', -(2 ** 31), 2 ** 31 - 1],
  bigint: ['int64', ...EXACT],
};

/** The schema of a column's values, null aside. `{}` for a type that the document has to describe by hand. */
function toSchema({ name, base, modifier, labels }: CatalogColumn, rule: Rule): Column['schema'] {
  const { minimum, maximum, minLength } = rule;
  const values = labels ?? rule.enum;
  if (values) return { type: 'string', enum: values };
  const format = FORMATS[base];
  if (format) return { type: 'string', format: format[0], maxLength: format[1] };
  const integer = INTEGERS[base];
  if (integer) {
    const [format, least, most] = integer;
    return { type: 'integer', format, minimum: minimum ?? least, maximum: maximum ?? most };
  }
  if (base === 'boolean') return { type: 'boolean' };
  if (base === 'numeric' || base === 'double precision') {
    // The modifier has the precision in its upper half and the scale in its lower one, and is 4 more.
    const [precision, scale] = [(modifier - 4) >> 16, (modifier - 4) & 0x7ff];
    const most = modifier < 4 ? undefined : Number(`${'9'.repeat(precision - scale) || 0}.${'9'.repeat(scale) || 0}`);
    const bounds = { minimum: minimum ?? (most && -most), maximum: maximum ?? most };
    return { type: 'number', ...JSON.parse(JSON.stringify(bounds)) };
  }
  if (base !== 'text' && base !== 'character varying') return {};
  const maxLength = rule.maxLength ?? (modifier > 4 ? modifier - 4 : undefined);
  return {
    type: 'string',
    ...(name === 'email' ? { format: 'email' } : {}),
    ...(minLength === undefined ? {} : { minLength }),
    ...(maxLength === undefined ? {} : { maxLength }),
  };
}
