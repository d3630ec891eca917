// Schemas in one form, whichever version of OpenAPI they are written in: nullable instead of a type null, enum instead of
// const, exclusive bounds as numbers, no references.

/** A schema of the document in that form. It may contain itself. */
export type Schema = {
  readonly type?: string | readonly string[];
  readonly nullable?: boolean;
  readonly format?: string;
  readonly enum?: readonly unknown[];
  readonly default?: unknown;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly additionalProperties?: boolean | Schema;
  readonly items?: Schema;
  readonly allOf?: readonly Schema[];
  readonly anyOf?: readonly Schema[];
  readonly oneOf?: readonly Schema[];
};

/** A type of JSON whose values a URL can carry. */
export type Scalar = 'string' | 'integer' | 'number' | 'boolean';

/** How values of a schema become an argument: as their text, as bytes, as an SQL array, or as JSON. */
export type Form = 'text' | 'bytes' | 'array' | 'json';

/** The keywords whose values are schemas: one, a list, or a map of them. */
export const SUBSCHEMAS: Readonly<Record<'one' | 'list' | 'map', readonly string[]>> = {
  one: `additionalItems additionalProperties contains contentSchema else if items not propertyNames then unevaluatedItems
    unevaluatedProperties`.split(/\s+/),
  list: ['allOf', 'anyOf', 'oneOf', 'prefixItems'],
  map: ['$defs', 'definitions', 'dependentSchemas', 'patternProperties', 'properties'],
};

/** Integers beyond these are rounded by JSON readers (RFC 8259, 6). */
export const EXACT: readonly [number, number] = [Number.MIN_SAFE_INTEGER, Number.MAX_SAFE_INTEGER];
const INT32: readonly [number, number] = [-(2 ** 31), 2 ** 31 - 1];

/** Of a property that only answers have: a request with it is refused, with the message. */
const RESPONSE_ONLY: Schema = { not: {}, 'x-not-message': 'is read-only' } as object;

/**
 * Creates the function that brings the schemas of requests, or those of answers, into the one form. An integer of a request
 * without bounds gets those of its format, or those that JSON readers agree on, so that none is rounded.
 */
export function createConverter(use: 'request' | 'answer'): (schema: unknown) => Schema {
  const converted = new Map<object, Schema>();
  const hidden = use === 'request' ? 'readOnly' : 'writeOnly';

  function convert(source: unknown): Schema {
    if (source === true || source === undefined || source === null) return {};
    if (source === false) return { not: {} } as Schema;
    const known = converted.get(source as object);
    if (known) return known;
    const schema: Record<string, unknown> = {};
    // Before its parts, which may contain it.
    converted.set(source as object, schema);
    Object.assign(schema, source);
    for (const name of SUBSCHEMAS.one) {
      const part = schema[name];
      if (typeof part === 'object' && part !== null && !Array.isArray(part)) schema[name] = convert(part);
    }
    for (const name of SUBSCHEMAS.list) {
      if (Array.isArray(schema[name])) schema[name] = schema[name].map(convert);
    }
    for (const name of SUBSCHEMAS.map) {
      const parts = schema[name];
      if (typeof parts === 'object' && parts !== null) {
        schema[name] = Object.fromEntries(Object.entries(parts).map(([key, part]) => [key, convert(part)]));
      }
    }
    hideProperties(schema);
    unifyNull(schema);
    if ('const' in schema) {
      schema.enum = [schema.const];
      delete schema.const;
    }
    unifyBounds(schema);
    if (use === 'request') boundInteger(schema);
    return schema;
  }

  function hideProperties(schema: Record<string, unknown>): void {
    const properties = schema.properties as Record<string, Record<string, unknown>> | undefined;
    const names = Object.keys(properties ?? {}).filter((name) => properties?.[name]?.[hidden] === true);
    if (!properties || names.length === 0) return;
    const others = Object.entries(properties).filter(([name]) => !names.includes(name));
    const refused = use === 'request' ? names.map((name) => [name, RESPONSE_ONLY] as const) : [];
    schema.properties = Object.fromEntries([...others, ...refused]);
    if (Array.isArray(schema.required)) schema.required = schema.required.filter((name) => !names.includes(name));
  }

  return convert;
}

/** A list of types with null, and a choice between a schema and null, become `nullable`. */
function unifyNull(schema: Record<string, unknown>): void {
  const { type } = schema;
  if (type === 'null') {
    delete schema.type;
    schema.enum = [null];
  }
  if (Array.isArray(type)) {
    const others = type.filter((name) => name !== 'null');
    if (others.length < type.length) schema.nullable = true;
    schema.type = others.length === 1 ? others[0] : others;
  }
  for (const name of ['anyOf', 'oneOf']) {
    const choices = schema[name] as Schema[] | undefined;
    const [choice, ...more] = choices?.filter((part) => !isNull(part)) ?? [];
    if (!choice?.type || more.length > 0 || choices?.length !== 2) continue;
    const { [name]: _choices, ...own } = schema;
    for (const key of Object.keys(schema)) delete schema[key];
    Object.assign(schema, choice, own, { nullable: true });
  }
}

function isNull(schema: Schema): boolean {
  return schema.enum?.length === 1 && schema.enum[0] === null;
}

/** In OpenAPI 3.0 an exclusive bound is a flag beside the bound. */
function unifyBounds(schema: Record<string, unknown>): void {
  for (const [flag, bound] of [
    ['exclusiveMinimum', 'minimum'],
    ['exclusiveMaximum', 'maximum'],
  ] as const) {
    if (typeof schema[flag] !== 'boolean') continue;
    const isExclusive = schema[flag];
    delete schema[flag];
    if (!isExclusive || schema[bound] === undefined) continue;
    schema[flag] = schema[bound];
    delete schema[bound];
  }
}

function boundInteger(schema: Record<string, unknown>): void {
  if (schema.type !== 'integer' || schema.enum !== undefined) return;
  const [least, greatest] = schema.format === 'int32' ? INT32 : EXACT;
  schema.minimum ??= least;
  schema.maximum ??= greatest;
}

/** The types of JSON Schema. */
export const TYPES: readonly string[] = ['array', 'boolean', 'integer', 'null', 'number', 'object', 'string'];
/** Schemas nested deeper in allOf, anyOf and oneOf are taken for schemas of any type: they may contain themselves. */
const MAX_NESTING = 16;

/** The types of JSON that a schema allows. */
export function typesOf(schema: Schema, nesting = 0): readonly string[] {
  if (nesting > MAX_NESTING) return TYPES;
  const own = readTypes(schema);
  const parts = (schema.allOf ?? []).map((part) => typesOf(part, nesting + 1));
  const choices = [schema.anyOf, schema.oneOf].flatMap((list) =>
    list ? [list.flatMap((part) => typesOf(part, nesting + 1))] : [],
  );
  return [own, ...parts, ...choices].reduce((types, others) => types.filter((type) => others.includes(type)));
}

function readTypes({ type, nullable, enum: values }: Schema): readonly string[] {
  if (type === undefined) return values ? [...new Set(values.map(typeOf))] : TYPES;
  const types = [type].flat() as string[];
  const all = types.includes('number') ? [...types, 'integer'] : types;
  return nullable ? [...all, 'null'] : all;
}

/** The type of a JSON value. */
export function typeOf(value: unknown): string {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'array';
  return Number.isInteger(value) ? 'integer' : typeof value;
}

/** Whether a schema allows null. */
export function isNullable(schema: Schema): boolean {
  return typesOf(schema).includes('null');
}

/** The one scalar type of a schema, null aside; undefined for any other schema. */
export function scalarOf(schema: Schema): Scalar | undefined {
  const types = typesOf(schema).filter((type) => type !== 'null');
  if (types.includes('number') && types.every((type) => type === 'number' || type === 'integer')) return 'number';
  const [type, ...others] = types;
  if (others.length > 0) return undefined;
  return type === 'string' || type === 'integer' || type === 'boolean' ? type : undefined;
}

/** The items of a schema that allows only arrays, null aside; undefined for any other schema. */
export function itemsOf(schema: Schema): Schema | undefined {
  const isArray = typesOf(schema).every((type) => type === 'array' || type === 'null');
  return isArray ? schema.items : undefined;
}

/** Whether a schema allows only objects, null aside. */
export function allowsOnlyObjects(schema: Schema): boolean {
  const types = typesOf(schema);
  return types.includes('object') && types.every((type) => type === 'object' || type === 'null');
}

/** How values of a schema become an argument. */
export function formOf(schema: Schema): Form {
  if (scalarOf(schema)) return schema.format === 'byte' ? 'bytes' : 'text';
  const items = itemsOf(schema);
  return items && scalarOf(items) && items.format !== 'byte' ? 'array' : 'json';
}

/** An object's properties and the required ones, from all parts of an allOf; none if it has a choice of shapes. */
export function readProperties(
  schema: Schema,
  nesting = 0,
): { readonly properties: Readonly<Record<string, Schema>>; readonly required: readonly string[] } {
  const parts = nesting > MAX_NESTING ? [] : (schema.allOf ?? []).map((part) => readProperties(part, nesting + 1));
  return {
    properties: Object.assign({}, ...parts.map(({ properties }) => properties), schema.properties),
    required: [...new Set([...parts.flatMap(({ required }) => required), ...(schema.required ?? [])])],
  };
}

/** Whether a property of a request is one that only answers have. */
export function isResponseOnly(schema: Schema): boolean {
  return schema === RESPONSE_ONLY;
}

/** Whether an object may have properties beyond those that it declares. */
export function isOpen(schema: Schema): boolean {
  return schema.additionalProperties !== false;
}
