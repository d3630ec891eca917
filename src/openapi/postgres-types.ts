// Which Postgres types match which schemas of the document.

import type { Parameter } from '../store/store.ts';
import { allowsOnlyObjects, EXACT, formOf, INT32, itemsOf, type Schema, scalarOf } from './schema.ts';

type Type = { readonly type: string; readonly labels?: Parameter['labels'] | undefined };

const TEXTS = ['text', 'character varying', 'character', 'citext'];
const JSONS = ['json', 'jsonb'];
const INTEGERS: Readonly<Record<string, readonly [number, number]>> = {
  smallint: [-32_768, 32_767],
  integer: INT32,
  bigint: [-(2 ** 63), 2 ** 63],
  numeric: [-Infinity, Infinity],
  'double precision': EXACT,
};
const NUMBERS = ['numeric', 'double precision', 'real'];
/** The Postgres type for each format of strings. */
const FORMATS: Readonly<Record<string, string>> = {
  uuid: 'uuid',
  date: 'date',
  'date-time': 'timestamp with time zone',
  'date-time-local': 'timestamp without time zone',
  time: 'time with time zone',
  'time-local': 'time without time zone',
  ipv4: 'inet',
  ipv6: 'inet',
  duration: 'interval',
  byte: 'bytea',
};
/** Formats that their types read but do not write. */
const INPUT_ONLY = ['duration', 'byte', 'time'];
/** Types that schemas are matched with; any other type is user-defined. */
const BUILT_IN = [TEXTS, JSONS, Object.keys(INTEGERS), NUMBERS, Object.values(FORMATS), 'boolean'].flat();
/** Types whose JSON form is not a string of the same text. */
const NO_STRINGS = [...Object.keys(INTEGERS), ...NUMBERS, ...JSONS, 'boolean', 'bytea', 'record', 'void'];

/** Whether a function's argument can hold every value that a schema allows. */
export function canHold(schema: Schema, held: Type): boolean {
  const { type } = held;
  if (isPrivate(held)) return false;
  switch (formOf(schema)) {
    case 'json':
      return JSONS.includes(type) || isUnknown(held);
    case 'bytes':
      return type === 'bytea' || isUnknown(held);
    case 'array':
      return type.endsWith('[]') ? canHold(itemsOf(schema) ?? {}, itemType(held)) : isUnknown(held);
    case 'text':
      return !type.endsWith('[]') && (TEXTS.includes(type) || isUnknown(held) || canHoldScalar(schema, held));
  }
}

function canHoldScalar(schema: Schema, { type, labels }: Type): boolean {
  switch (scalarOf(schema)) {
    case 'string': {
      const values = schema.enum?.filter((value) => value !== null);
      if (values && (labels || type === 'boolean')) {
        return values.every((value) => (labels ?? ['true', 'false']).includes(String(value)));
      }
      return FORMATS[schema.format ?? ''] === type;
    }
    case 'integer':
      return isWithin(schema, INTEGERS[type]);
    case 'number':
      return NUMBERS.includes(type);
    default:
      return type === 'boolean';
  }
}

/** Whether a type is user-defined and its labels are not known: PostgREST reports only its name. */
function isUnknown({ type, labels }: Type): boolean {
  return labels === undefined && !BUILT_IN.includes(type) && !/^variadic |\[\]$/.test(type);
}

/** Whether PostgREST cannot use a type: it looks types up by name, and its role has no access to schema private. */
function isPrivate({ type, labels }: Type): boolean {
  return labels === undefined && type.startsWith('private.');
}

function itemType({ type, labels }: Type): Type {
  return { type: type.slice(0, -'[]'.length), labels };
}

/** Whether the JSON form of a Postgres type matches a schema's type and format. */
export function isWrittenAs(schema: Schema, written: Type): boolean {
  const { type } = written;
  const isJson = JSONS.includes(type);
  const items = itemsOf(schema);
  if (items) return isJson || (type.endsWith('[]') && isWrittenAs(items, itemType(written)));
  switch (scalarOf(schema)) {
    case 'string':
      return isWrittenAsString(schema, written);
    case 'integer':
      return ['smallint', 'integer', ...(schema.format === 'int32' ? [] : ['bigint'])].includes(type);
    case 'number':
      return ['smallint', 'integer', 'bigint', ...NUMBERS].includes(type);
    case 'boolean':
      return type === 'boolean';
    default:
      return isJson || (type === 'record' && allowsOnlyObjects(schema));
  }
}

function isWrittenAsString({ enum: values, format = '' }: Schema, { type, labels }: Type): boolean {
  if (values && labels) return labels.every((label) => values.includes(label));
  // Postgres writes an interval in its own format, bytes as hexadecimal digits, and the zone of a time without minutes.
  if (INPUT_ONLY.includes(format)) return TEXTS.includes(type);
  if (FORMATS[format]) return FORMATS[format] === type;
  return !NO_STRINGS.includes(type) && !type.endsWith('[]');
}

/** Describes a schema in a few words, such as `integer, 1 to 1000`. */
export function describeSchema(schema: Schema): string {
  const { minimum, maximum } = schema;
  const bounds = minimum === undefined && maximum === undefined ? '' : `${minimum ?? 'any'} to ${maximum ?? 'any'}`;
  const values = schema.enum ? `one of ${schema.enum.join(', ')}` : '';
  const items = itemsOf(schema);
  const type = items ? `array of ${describeSchema(items)}` : [schema.type ?? []].flat().join(' or ') || 'of any type';
  return [type, schema.format, bounds, values].filter(Boolean).join(', ');
}

/** Advice for a type that does not match its schema; empty if the types alone explain it. */
export function adviseOn(schema: Schema, { type, labels }: Type): string {
  if (type.startsWith('variadic ')) return ', which cannot be given by name: declare it without variadic';
  if (isPrivate({ type, labels })) return ', which the Data API may not use: create the type in schema public';
  if (scalarOf(schema) === 'integer' && INTEGERS[type] && !isWithin(schema, INTEGERS[type])) {
    return ', which is too small: declare minimum and maximum, or format: int32 for an integer';
  }
  if (scalarOf(schema) === 'integer' && type === 'numeric') return ', which may have decimals: return ::bigint';
  if (schema.format === 'int32' && type === 'bigint')
    return ', which is larger: declare no format, or return ::integer';
  if (JSONS.includes(type) && scalarOf(schema))
    return ': return the value as a type of its own, such as ::integer or ::text';
  if (type.startsWith('record')) return ', which is written as an object: return jsonb';
  if (type === 'bytea') {
    // Postgres breaks the line after every 76 characters, and RFC 4648 (3.1) forbids line feeds.
    return ", which is written as hexadecimal digits: return translate(encode(…, 'base64'), E'\\n', '')";
  }
  if (type === 'interval' || type === 'time with time zone') {
    return ', which is not written in this format: declare no format';
  }
  return '';
}

function isWithin(schema: Schema, range: readonly [number, number] | undefined): boolean {
  const { minimum = -Infinity, maximum = Infinity, exclusiveMinimum = minimum, exclusiveMaximum = maximum } = schema;
  const values = schema.enum?.filter((value) => typeof value === 'number');
  const bounds = values ?? [Math.max(minimum, exclusiveMinimum), Math.min(maximum, exclusiveMaximum)];
  return range !== undefined && bounds.every((bound) => range[0] <= bound && bound <= range[1]);
}
