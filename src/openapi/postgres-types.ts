// Which Postgres types match which schemas of the document.

import type { Parameter } from '../store/store.ts';
import { allowsOnlyObjects, EXACT, formOf, INT32, itemsOf, type Schema, scalarOf } from './schema.ts';

type Type = { readonly type: string; readonly labels?: Parameter['labels'] | undefined };

/** The formats of strings with a Postgres type of their own. Any other string is of the kind `string`. */
const FORMATS = 'uuid date date-time date-time-local time time-local ipv4 ipv6 duration byte'.split(' ');
const INTEGERS = ['integer', 'int32'];
const NUMBERS = [...INTEGERS, 'number'];

/** A Postgres type: the kinds of values that an argument can hold and those that a column is written as, and the range of its integers. */
type Row = readonly [holds: readonly string[], writes: readonly string[], range?: readonly [number, number]];

const TEXT: Row = [
  ['string', 'boolean', ...NUMBERS, ...FORMATS.filter((format) => format !== 'byte')],
  ['string', 'time', 'duration', 'byte'],
];
const JSONS = ['json', 'jsonb'];
const JSON_TYPE: Row = [['json'], ['json', 'array']];

/** The types that schemas are matched with; any other type is user-defined. */
const TYPES: Readonly<Record<string, Row>> = {
  text: TEXT,
  'character varying': TEXT,
  character: TEXT,
  citext: TEXT,
  smallint: [INTEGERS, NUMBERS, [-32_768, 32_767]],
  integer: [INTEGERS, NUMBERS, INT32],
  bigint: [INTEGERS, ['integer', 'number'], [-(2 ** 63), 2 ** 63]],
  numeric: [NUMBERS, ['number']],
  'double precision': [NUMBERS, ['number'], EXACT],
  real: [['number'], ['number']],
  boolean: [['boolean'], ['boolean']],
  uuid: [['uuid'], ['uuid', 'string']],
  date: [['date'], ['date', 'string']],
  'timestamp with time zone': [['date-time'], ['date-time', 'string']],
  'timestamp without time zone': [['date-time-local'], ['date-time-local', 'string']],
  'time without time zone': [['time-local'], ['time-local', 'string']],
  inet: [
    ['ipv4', 'ipv6'],
    ['ipv4', 'ipv6', 'string'],
  ],
  // Postgres writes the zone of a time without minutes, an interval in its own format, and bytes as hexadecimal digits.
  'time with time zone': [['time'], ['string']],
  interval: [['duration'], ['string']],
  bytea: [['byte'], []],
  json: JSON_TYPE,
  jsonb: JSON_TYPE,
  void: [[], []],
};
const USER_DEFINED: Row = [[], ['string']];

/** The kind of values that a schema allows, as TYPES has them. */
function kindOf(schema: Schema): string {
  const { format = '' } = schema;
  const scalar = scalarOf(schema);
  if (scalar === 'string') return FORMATS.includes(format) ? format : 'string';
  if (scalar === 'integer' && format === 'int32') return 'int32';
  return scalar ?? (formOf(schema) === 'array' ? 'array' : 'json');
}

/** Whether a function's argument can hold every value that a schema allows. */
export function canHold(schema: Schema, held: Type): boolean {
  const { type } = held;
  if (isPrivate(held)) return false;
  if (isUnknown(held)) return true;
  const kind = kindOf(schema);
  if (type.endsWith('[]')) return kind === 'array' && canHold(itemsOf(schema) ?? {}, itemType(held));
  const labels = type === 'boolean' ? ['true', 'false'] : held.labels;
  const values = schema.enum?.filter((value) => value !== null);
  if (labels && values && kind !== 'byte' && scalarOf(schema) === 'string') {
    return values.every((value) => labels.includes(String(value)));
  }
  const [holds, , range] = TYPES[type] ?? USER_DEFINED;
  return holds.includes(kind) && isWithin(schema, range);
}

/** Whether a type is user-defined and its labels are not known: PostgREST reports only its name. */
function isUnknown({ type, labels }: Type): boolean {
  return labels === undefined && !TYPES[type] && !/^variadic |\[\]$/.test(type);
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
  const { type, labels } = written;
  const items = itemsOf(schema);
  if (type.endsWith('[]')) return items !== undefined && isWrittenAs(items, itemType(written));
  if (type === 'record') return allowsOnlyObjects(schema);
  const { enum: values } = schema;
  if (labels && values) return labels.every((label) => values.includes(label));
  const [, writes] = TYPES[type] ?? USER_DEFINED;
  return writes.includes(kindOf(schema));
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
  const scalar = scalarOf(schema);
  const { format } = schema;
  if (type.startsWith('variadic ')) return ', which cannot be given by name: declare it without variadic';
  if (isPrivate({ type, labels })) return ', which the Data API may not use: create the type in schema public';
  if (!isWithin(schema, TYPES[type]?.[2])) {
    return ', which is too small: declare minimum and maximum, or format: int32 for an integer';
  }
  if (type === 'numeric' && scalar === 'integer') return ', which may have decimals: return ::bigint';
  if (type === 'bigint' && format === 'int32') return ', which is larger: declare no format, or return ::integer';
  if (JSONS.includes(type) && scalar) return ': return the value as a type of its own, such as ::integer or ::text';
  if (type.startsWith('record')) return ', which is written as an object: return jsonb';
  // Postgres breaks the line after every 76 characters, and RFC 4648 (3.1) forbids line feeds.
  const bytes = "translate(encode(…, 'base64'), E'\\n', '')";
  if (type === 'bytea') return `, which is written as hexadecimal digits: return ${bytes}`;
  const isOfOwnFormat = type === 'interval' || type === 'time with time zone';
  return isOfOwnFormat ? ', which is not written in this format: declare no format' : '';
}

/** Advice for an argument whose domain has a precision to which Postgres rounds values that a schema allows; empty if it rounds none. */
export function adviseOnRounding(
  schema: Schema,
  { type, modifier = -1 }: Pick<Parameter, 'type' | 'modifier'>,
): string {
  if (modifier < 0) return '';
  const { enum: values, multipleOf, type: jsonType } = itemsOf(schema) ?? schema;
  const base = type.replace('[]', '');
  if (base === 'numeric') {
    const [, step] = readPrecision(modifier);
    const allowed = values ?? [multipleOf ?? (jsonType === 'integer' ? 1 : undefined)];
    // Doubles hold 15 digits.
    const isExact = allowed.every((value) => Number((Number(value) / step).toPrecision(15)) % 1 === 0);
    return isExact ? '' : `, which rounds to multiples of ${step}: declare multipleOf: ${step}`;
  }
  const isShort = base === 'interval' || (base.startsWith('time') && modifier < 6);
  return isShort ? ', which rounds seconds: create the domain without a precision' : '';
}

/** The maximum of a numeric with a precision, and the step that Postgres rounds to. */
export function readPrecision(modifier: number): [most: number, step: number] {
  // The modifier, less 4, has the precision in its upper 16 bits and the signed scale in its lower 11 bits.
  const precision = (modifier - 4) >> 16;
  const scale = (((modifier - 4) & 0x7ff) ^ 0x400) - 0x400;
  // A double keeps 15 digits; with more, the maximum could be rounded up.
  const digits = Math.min(precision, 15);
  return [Number(`${'9'.repeat(digits)}e${precision - scale - digits}`), Number(`1e${-scale}`)];
}

/** Whether a schema of integers allows only those in a range. */
function isWithin(schema: Schema, [least, greatest]: readonly [number, number] = [-Infinity, Infinity]): boolean {
  if (scalarOf(schema) !== 'integer') return true;
  const { minimum = -Infinity, maximum = Infinity, exclusiveMinimum = minimum, exclusiveMaximum = maximum } = schema;
  const values = schema.enum?.filter((value) => typeof value === 'number');
  const bounds = values ?? [Math.max(minimum, exclusiveMinimum), Math.min(maximum, exclusiveMaximum)];
  return bounds.every((bound) => least <= bound && bound <= greatest);
}
