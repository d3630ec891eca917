// Which Postgres types match which schemas of the document.

import type { OpenAPIV3 } from 'openapi-types';
import type { Argument } from '../store/store.ts';

type Schema = OpenAPIV3.SchemaObject;

const TEXTS = ['text', 'character varying', 'citext'];
const JSONS = ['json', 'jsonb'];
const INTEGERS: Readonly<Record<string, readonly [number, number]>> = {
  smallint: [-32_768, 32_767],
  integer: [-2_147_483_648, 2_147_483_647],
  bigint: [-(2 ** 63), 2 ** 63],
  numeric: [-Infinity, Infinity],
  'double precision': [-(2 ** 53), 2 ** 53],
};
const FORMATS: Readonly<Record<string, readonly string[]>> = {
  uuid: ['uuid'],
  date: ['date'],
  'date-time': ['timestamp with time zone'],
};

/** Whether a function's argument can hold every value that a schema allows. */
export function canHold(schema: Schema, { type, labels }: Argument): boolean {
  const isScalar = schema.type !== undefined && schema.type !== 'object' && schema.type !== 'array';
  if (TEXTS.includes(type)) return isScalar;
  switch (schema.type) {
    case 'string':
      if (schema.enum) return schema.enum.every((value) => (labels ?? literalsOf(type)).includes(String(value)));
      return (FORMATS[schema.format ?? ''] ?? []).includes(type);
    case 'integer':
      return isWithin(schema, INTEGERS[type]);
    case 'number':
      return ['numeric', 'double precision'].includes(type);
    case 'boolean':
      return type === 'boolean';
    default:
      return JSONS.includes(type);
  }
}

/** Whether the JSON form of a Postgres type matches a schema's type and format. */
export function isWrittenAs(schema: Schema, type: string): boolean {
  switch (schema.type) {
    case 'string':
      return (FORMATS[schema.format ?? ''] ?? [...TEXTS, 'uuid', 'date', 'timestamp with time zone']).includes(type);
    case 'integer':
      return ['smallint', 'integer', 'bigint'].includes(type);
    case 'number':
      return ['smallint', 'integer', 'bigint', 'numeric', 'real', 'double precision'].includes(type);
    case 'boolean':
      return type === 'boolean';
    case 'array':
      return type.endsWith('[]') || JSONS.includes(type);
    default:
      return JSONS.includes(type);
  }
}

/** Describes a schema in a few words, such as `integer, 1 to 1000`. */
export function describeSchema(schema: Schema): string {
  const { minimum, maximum } = schema;
  const bounds = minimum === undefined && maximum === undefined ? '' : `${minimum ?? 'any'} to ${maximum ?? 'any'}`;
  const values = schema.enum ? `one of ${schema.enum.join(', ')}` : '';
  return [schema.type ?? 'of any type', schema.format, bounds, values].filter(Boolean).join(', ');
}

function literalsOf(type: string): readonly string[] {
  return type === 'boolean' ? ['true', 'false'] : [];
}

function isWithin({ minimum = -Infinity, maximum = Infinity }: Schema, range: readonly [number, number] | undefined) {
  return range !== undefined && range[0] <= minimum && maximum <= range[1];
}
