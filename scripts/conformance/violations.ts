// Values that break one constraint of a schema.

import fc from 'fast-check';
import type { Json } from '../../src/store/store.ts';
import type { Input, Schema } from './operations.ts';
import {
  boundsOf,
  canBeSent,
  createValid,
  DOMAIN,
  emailOf,
  lettersOf,
  REPEATED,
  unique,
  type Values,
} from './values.ts';

/** Values that violate a constraint. */
type Violation = Values & { readonly constraint: string };

/** For each constraint of an input's schema, values that violate only this one. */
export function createViolations(input: Input): Violation[] {
  const constraints = ['type', 'enum', 'minimum', 'maximum', 'minLength', 'maxLength', 'pattern', 'format'] as const;
  return constraints.flatMap((constraint) => {
    const candidates = input.schema[constraint] === undefined ? undefined : violating(input, constraint);
    return candidates ? narrow(input, constraint, candidates) : [];
  });
}

/** Values that violate only this constraint; if there are none (a pattern refuses an empty text too), all that violate it. */
function narrow(input: Input, constraint: string, { some, edges }: Values): Violation[] {
  const also = (value: Json) => canBeSent(input, value) && brokenBy(input, value).includes(constraint);
  const just = (value: Json) => also(value) && brokenBy(input, value).every((keyword) => keyword === constraint);
  const accepts = edges.some(just) ? just : also;
  const kept = unique(edges).filter(accepts);
  if (kept.length === 0) return [];
  return [{ constraint, edges: kept, some: fc.oneof(fc.constantFrom(...kept), some).filter(accepts) }];
}

function violating(input: Input, constraint: string): Values | undefined {
  const { schema } = input;
  const text = fc.string({ unit: lettersOf(input), maxLength: 12 });
  if (constraint === 'type') return input.in === 'body' ? ofOtherTypes() : asTexts(schema, text);
  if (constraint === 'enum') return { some: text, edges: ['', ...(schema.enum ?? []).flatMap(misspell)] };
  if (constraint === 'minimum') return beyond(schema.minimum ?? 0, -1);
  if (constraint === 'maximum') return beyond(schema.maximum ?? 0, 1);
  if (constraint === 'format') return { some: text, edges: [...(BROKEN_FORMATS[schema.format ?? ''] ?? []), ''] };
  const edges = REPEATED.flatMap((letter) => boundsOf(input, letter).invalid.map((length) => letter.repeat(length)));
  if (constraint === 'minLength') return { some: fc.constant(edges[0] ?? ''), edges };
  if (constraint === 'maxLength') {
    const some = fc.integer({ min: 1, max: 100 }).map((more) => tooLong(schema, more));
    const { maxLength = 0 } = schema;
    const valid = createValid(input).edges.map((value) => String(value).padEnd(maxLength + 1, '0'));
    return { some, edges: schema.format === 'email' ? [tooLong(schema, 1)] : [...edges, ...valid] };
  }
  return { some: text, edges: [...edges, '', ' ', 'a b', 'a-b', '\t'] };
}

function tooLong({ format, maxLength = 0 }: Schema, more: number): string {
  return format === 'email' ? emailOf(maxLength + more) : 'a'.repeat(maxLength + more);
}

function beyond(bound: number, step: 1 | -1): Values {
  const some = fc.integer({ min: 1, max: 1_000_000 }).map((distance) => bound + step * distance);
  return { some, edges: [bound + step, bound + step * 1_000] };
}

function ofOtherTypes(): Values {
  const edges = [null, 0, 1.5, true, 'text', [], {}, ['a'], { a: 1 }];
  return { some: fc.constantFrom<Json>(...edges), edges };
}

/** Some languages read these as numbers or booleans. */
const NOT_NUMBERS = ['1e1', '0x10', '5.0', '+5', '05', ' 5', '5 ', '', 'null', 'NaN', '1,2', '1_0', '٥', 'Infinity'];
const NOT_BOOLEANS = ['', '1', '0', 'TRUE', 'yes', 'null'];

/** Parameters are texts: only some texts are of another type. */
function asTexts({ type }: Schema, text: fc.Arbitrary<string>): Values | undefined {
  if (type === 'boolean') return { some: text.filter((t) => t !== 'true' && t !== 'false'), edges: NOT_BOOLEANS };
  if (type !== 'integer' && type !== 'number') return undefined;
  const edges = type === 'integer' ? NOT_NUMBERS : NOT_NUMBERS.filter((t) => t !== '5.0' && t !== '1e1');
  return { some: text.filter((t) => Number.isNaN(Number(t))), edges };
}

function misspell(value: Json): string[] {
  const text = String(value);
  return [text.toUpperCase(), `${text} `, ` ${text}`, text.slice(0, -1), `${text}${text}`, `${text},${text}`];
}

const A_UUID = 'a1000000-0000-4000-8000-000000000001';
const BROKEN_FORMATS: Record<string, readonly Json[]> = {
  int32: [2 ** 31, -(2 ** 31) - 1],
  int64: [2 ** 63],
  uuid: [
    'x',
    A_UUID.slice(1),
    `${A_UUID}0`,
    A_UUID.replaceAll('-', ''),
    `{${A_UUID}}`,
    `urn:uuid:${A_UUID}`,
    ` ${A_UUID}`,
  ],
  date: [
    '2024-02-30',
    '2023-02-29',
    '2024-13-01',
    '2024-00-10',
    '2024-1-1',
    '24-01-01',
    '01/02/2024',
    '2024-01-01T00:00:00Z',
  ],
  'date-time': ['2024-02-29', '2024-02-30T00:00:00Z', '2024-02-29T25:00:00Z', '2024-02-29 00:00'],
  email: ['ana', 'ana@', `@${DOMAIN}`, `a b@${DOMAIN}`, `a@b@${DOMAIN}`, 'ana@.example'],
};

/** The constraints of the value itself; what is wrong with a part of it is named by its place. */
function brokenBy(input: Input, value: Json): string[] {
  if (input.validate(value)) return [];
  return (input.validate.errors ?? []).filter(({ instancePath }) => instancePath === '').map(({ keyword }) => keyword);
}
