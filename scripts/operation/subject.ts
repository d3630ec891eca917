// The names and parts of a table's operations, in the document and in SQL.

import type { OpenAPIV3 } from 'openapi-types';
import { type Column, describeOpenTable, RefusedError, type Table } from './table.ts';

const METHODS = { list: 'get', get: 'get', create: 'post', update: 'patch', delete: 'delete' } as const;

export type Kind = keyof typeof METHODS;
export const KINDS = Object.keys(METHODS) as Kind[];

export type Request = {
  readonly kinds: readonly Kind[];
  readonly singular?: string | undefined;
  /** The columns of JSON whose values are objects. */
  readonly objects?: readonly string[] | undefined;
};

/** Describes the operations to write. Throws RefusedError for a table or column that they cannot serve. */
export function readSubject(
  document: OpenAPIV3.Document,
  found: Table,
  { kinds, singular, objects = [] }: Request,
  keyArgument: string,
): Subject {
  const isObject = ({ name, base }: Column) => objects.includes(name) && /^jsonb?$/.test(base);
  const unknown = objects.find((name) => !found.columns.some((one) => one.name === name && isObject(one)));
  if (unknown) throw new RefusedError(`--object ${unknown}: private.${found.name} has no such column of JSON`);
  const columns = found.columns.map((one): Column => (isObject(one) ? { ...one, schema: { type: 'object' } } : one));
  const table = { ...found, columns };
  const one = singular ?? toSingular(table.name) ?? '';
  const reasons = [...table.reasons];
  if (!one) reasons.push(`the singular of ${table.name} is unknown: give it with --singular`);
  const unfit = [table.name, one].find((name) => name && !NAME.test(name));
  if (unfit) reasons.push(`${unfit} cannot be in the name of a function: use a-z, 0-9 and _`);
  // A deletion has no content: it needs only the id.
  const isDeletion = kinds.every((kind) => kind === 'delete');
  const shown = isDeletion
    ? columns.filter(({ name }) => name === 'id')
    : readColumns(document, table, toPascal(one), reasons);
  const subject = describeSubject(document, { table, columns: shown, one, kinds, keyArgument });
  reasons.push(...findReasons(document, subject));
  if (reasons.length > 0) throw new RefusedError(reasons.join('\n'));
  return subject;
}

/** The operations to write, and what they share. */
export type Subject = ReturnType<typeof describeSubject>;

type Given = {
  readonly table: Table;
  /** The columns of a record, in the order of the answer. */
  readonly columns: readonly Column[];
  /** The singular name of a record. */
  readonly one: string;
  readonly kinds: readonly Kind[];
  /** The argument of functions that receives the key. */
  readonly keyArgument: string;
};

function describeSubject(document: OpenAPIV3.Document, { one, ...given }: Given) {
  const { table, columns, kinds } = given;
  const order = findOrder(table);
  const noun = readNoun(table, one);
  const path = `/${table.name.replaceAll('_', '-')}`;
  const record = toPascal(one);
  return {
    ...given,
    openapi: document.openapi,
    /** The names of the functions, in Portuguese like the rest of the API. */
    names: {
      list: `listar_${table.name}`,
      get: `obter_${one}`,
      create: `criar_${one}`,
      update: `atualizar_${one}`,
      delete: `excluir_${one}`,
    },
    noun,
    /** What the functions return or do. */
    sentences: {
      list: `${noun.many} of the key's tenant, ${order === 'criado_em' ? 'oldest first' : `by ${order}`}`,
      get: `${noun.one} of the key's tenant`,
      create: `creates ${noun.one} in the key's tenant`,
      update: `changes ${noun.one} of the key's tenant`,
      delete: `deletes ${noun.one} of the key's tenant`,
    },
    tag: toPascal(table.name),
    path,
    schemas: {
      record,
      created: `${/(a|cao|dade|gem)$/.test(one) ? 'Nova' : 'Novo'}${record}`,
      changed: `AlteracaoDe${record}`,
    },
    /** The columns that clients set. */
    written: columns.filter(({ name, isGenerated }) => name !== 'id' && !isGenerated),
    /** Whether an operation sets them. */
    writes: kinds.includes('create') || kinds.includes('update'),
    /** The column that lists are sorted by, before the id. */
    order,
    /** The columns with an index that supports a filtered list in this order. */
    filters: columns.filter(
      ({ name, schema }) =>
        !['array', 'object'].includes(String(schema.type)) &&
        table.indexes.some((index) => index.join() === [name, ...(order === 'id' ? [] : [order]), 'id'].join()),
    ),
    /** Whether an operation reads a single record, whose URL Location can then be. */
    hasGet: kinds.includes('get') || document.paths[`${path}/{id}`]?.get !== undefined,
  };
}

/** The path and the method of an operation. */
export function placeOf({ path }: Subject, kind: Kind) {
  return { path: kind === 'list' || kind === 'create' ? path : `${path}/{id}`, method: METHODS[kind] };
}

/** Finds the reasons why the operations cannot be written. */
function* findReasons(document: OpenAPIV3.Document, subject: Subject): Generator<string> {
  const { table, kinds, columns, written, writes, names, order, filters } = subject;
  const name = `private.${table.name}`;
  const operations = Object.values(document.paths).flatMap((item) => Object.values(item ?? {}));
  const rpcs = operations.map((one) => (one as { 'x-rpc'?: string } | null)?.['x-rpc']);
  for (const kind of kinds) {
    const { path, method } = placeOf(subject, kind);
    const existing = document.paths[path]?.[method];
    if (existing) yield `the document has ${method.toUpperCase()} ${path} already: ${existing.operationId}`;
    const own = names[kind];
    if (rpcs.includes(own)) yield `the document has an operation with the function ${own} already`;
  }
  yield* columns.flatMap((column) => findUnfit(column, name) ?? []);
  if (writes) {
    for (const { name: text, identifier, schema } of written.filter((one) => one.isIndexed)) {
      if ((schema.maxLength ?? 0) <= MAX_INDEXED) continue;
      const check = `check (char_length(${identifier}) <= ${MAX_INDEXED})`;
      yield `${text} of ${name} is in an index, which takes no text of ${schema.maxLength} characters: add a constraint in a migration, such as ${check}, or drop the index`;
    }
    const isShort = ({ base, modifier }: Column) => base.startsWith('time') && modifier >= 0 && modifier < 6;
    for (const column of written.filter((one) => one.base === 'real' || isShort(one))) {
      const type = column.base === 'real' ? 'double precision' : column.base;
      yield `${column.name} of ${name} is ${column.type}, to which Postgres rounds what clients send: let it have more digits, with alter column ${column.identifier} type ${type}`;
    }
    // The functions look up the records that a row refers to: row security must limit these tables to the tenant too.
    const open = written.flatMap(({ reference }) => (reference && !reference.isIsolated ? [reference.target] : []));
    yield* [...new Set(open)].map(describeOpenTable);
    if (written.length === 0) yield `${name} has no column that a client could set`;
  }
  if (kinds.includes('list')) {
    for (const { name: filter } of filters.filter((one) => PAGE.includes(one.name))) {
      yield `${filter} of ${name} would be a filter with the name of a parameter of pages: rename the column`;
    }
    // PostgREST's role has no access to that schema.
    for (const { name: filter, base } of filters.filter((one) => one.base.startsWith('private.'))) {
      yield `${filter} of ${name} would be a filter of type ${base}, which the store Supabase cannot use: create the type in schema public`;
    }
    const index = `create index ${table.name}_in_order on ${name} (tenant_id, criado_em, id)`;
    if (order === '') yield `no index has ${name} in the order of a list: create one in a migration, such as ${index}`;
  }
  const required = table.columns.find(
    (column) => !columns.includes(column) && !column.isNullable && column.default === null && !column.isGenerated,
  );
  if (kinds.includes('create') && required) {
    yield `${required.name} of ${name} is required, and the schema of the answer does not have it`;
  }
}

/** The maximum length of an indexed text: an entry of an index has less than 2704 bytes, and a character up to 4. */
const MAX_INDEXED = 600;

/** The paging parameters. */
const PAGE = ['limit', 'offset', 'after'];
const NAME = /^[a-z_][a-z0-9_]*$/;
/** Names that functions give to their arguments and variables. */
const TAKEN = /^(p_.*|v_(tenant|after|first|record|constraint))$/;

/** Why a column cannot be served; undefined if it can. */
function findUnfit({ name, identifier, type, schema, base }: Column, table: string): string | undefined {
  const column = `${name} of ${table}`;
  if (!NAME.test(name) || TAKEN.test(name)) {
    return `${column} cannot be the name of a field, or is one of a function's own: rename the column`;
  }
  if (/^jsonb?$/.test(base) && schema.type === undefined) {
    const remedy = `if every value is an object, add --object ${name}, or else write the operation by hand`;
    return `${column} is ${type}, and only you know what is in it: ${remedy}, and describe it in the document`;
  }
  if (schema.type === undefined)
    return `${column} is ${type}, which no schema is known for: write the operation by hand`;
  if (schema.type === 'string' && schema.maxLength === undefined && !schema.enum) {
    const bounds = schema.format?.startsWith('date') ? "between '2000-01-01' and '2100-01-01'" : undefined;
    const check = bounds ? `check (${identifier} ${bounds})` : `check (char_length(${identifier}) <= 255)`;
    return `${column} has no limit: add a constraint in a migration, such as ${check}`;
  }
  const number: Column['schema'] = schema.items ?? schema;
  const { minimum, maximum, exclusiveMinimum: above = minimum, exclusiveMaximum: below = maximum } = number;
  const isBound = number.type === 'integer' ? Number.isSafeInteger : Number.isFinite;
  if (!/^(number|integer)$/.test(String(number.type)) || (isBound(above) && isBound(below))) return undefined;
  if (schema.items) return `${column} has no bounds: declare a precision in a migration, as in numeric(8, 2)[]`;
  const check = `check (${identifier} between 0 and 500)`;
  return `${column} has no bounds, or too wide ones: add a constraint in a migration, such as ${check}`;
}

/** Reads the columns of a record: those in its schema in the document, or all if it has none. Adds a reason for each missing column. */
function readColumns(
  document: OpenAPIV3.Document,
  { name, columns }: Table,
  record: string,
  reasons: string[],
): readonly Column[] {
  const schema = document.components?.schemas?.[record] as OpenAPIV3.SchemaObject | undefined;
  if (!schema) return columns;
  return Object.keys(schema.properties ?? {}).flatMap((property) => {
    const column = columns.find((one) => one.name === property);
    if (!column) {
      reasons.push(
        `the schema ${record} has ${property}, and private.${name} has no such column: write the operation by hand`,
      );
    }
    return column ?? [];
  });
}

/** Finds the column that lists are sorted by; empty if the table lacks an index for it. */
function findOrder({ columns, indexes }: Table): string {
  const ordered = indexes.filter((index) => index.length === 2 && index[1] === 'id').map(([first = '']) => first);
  const total = ordered.filter((name) => columns.some((column) => column.name === name && !column.isNullable));
  return total.includes('criado_em')
    ? 'criado_em'
    : (total[0] ?? (columns.some((c) => c.name === 'criado_em') ? '' : 'id'));
}

/** The records in English, `a locker` and `lockers`, from the table's comment, such as "Lockers of a tenant's gyms". */
function readNoun({ comment, name }: Table, one: string): { readonly one: string; readonly many: string } {
  const plain = name.replaceAll('_', ' ');
  const [, many = plain] = /^(.+?) of (?:a|the) tenant/.exec(comment ?? '') ?? [];
  const plural = many.charAt(0).toLowerCase() + many.slice(1);
  const english = plural
    .replace(/ies$/, 'y')
    .replace(/(ss|x|ch|sh)es$/, '$1')
    .replace(/(?<!s)s$/, '');
  const singular = plural === plain ? one.replaceAll('_', ' ') : english;
  return { one: `${/^[aeiou]/.test(singular) ? 'an' : 'a'} ${singular}`, many: plural };
}

const SINGULARS: readonly (readonly [RegExp, string])[] = [
  [/(o|a)es$/, 'ao'],
  [/ais$/, 'al'],
  [/eis$/, 'el'],
  [/ois$/, 'ol'],
  [/ns$/, 'm'],
  [/(?<=[aeo]r|z)es$/, ''],
  [/s$/, ''],
];

/** The singular of a Portuguese word; undefined if its ending is not that of a plural. */
function toSingular(name: string): string | undefined {
  const rule = SINGULARS.find(([ending]) => ending.test(name));
  return rule && name.replace(...rule);
}

export function toCamel(name: string): string {
  return name.replace(/_([a-z0-9])/g, (_whole, letter) => letter.toUpperCase());
}

export function toPascal(name: string): string {
  return toUpper(toCamel(name));
}

/** Capitalizes the first letter. */
export function toUpper(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
