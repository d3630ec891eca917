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

/** Values that violate a constraint, and what they are. */
type Violation = Values & { readonly constraint: string; readonly text: string };

/** For each constraint of an input's schema, values that violate only this one. */
export function createViolations(input: Input): Violation[] {
  const texts = fc.string({ unit: lettersOf(input), maxLength: 12 });
  return Object.entries(BREAKING).flatMap(([constraint, breaking]) => {
    if (!(constraint in input.schema)) return [];
    const { text, some, edges } = breaking(input.schema, input, texts);
    const breaks = (value: Json) => canBeSent(input, value) && brokenBy(input, value).has(constraint);
    const breaksOnly = (value: Json) => breaks(value) && brokenBy(input, value).size === 1;
    // A pattern may refuse an empty text too: then no value violates only one.
    const accepts = edges.some(breaksOnly) ? breaksOnly : breaks;
    const kept = unique(edges).filter(accepts);
    if (kept.length === 0) return [];
    return [{ constraint, text, edges: kept, some: fc.oneof(fc.constantFrom(...kept), some).filter(accepts) }];
  });
}

type Breaking = (schema: Schema, input: Input, texts: fc.Arbitrary<string>) => Values & { readonly text: string };

const BREAKING: Readonly<Record<string, Breaking>> = {
  type: (schema, input, texts) => ({
    text: `that is not ${schema.type}`,
    ...(input.in === 'body' ? OTHER_TYPES : asTexts(schema, texts)),
  }),
  enum: ({ enum: values = [] }, _input, texts) => ({
    ...{ text: 'that is not one of its values', some: texts, edges: ['', ...values.flatMap(misspell)] },
  }),
  minimum: ({ minimum = 0 }) => ({ text: `less than ${minimum}`, ...beyond(minimum, -1) }),
  maximum: ({ maximum = 0 }) => ({ text: `more than ${maximum}`, ...beyond(maximum, 1) }),
  minLength: ({ minLength }, input) => ({
    ...{ text: `shorter than ${minLength}`, some: fc.constant(''), edges: atBounds(input) },
  }),
  maxLength: (schema, input) => {
    const { maxLength = 0, format } = schema;
    const valid = createValid(input).edges.map((value) => String(value).padEnd(maxLength + 1, '0'));
    return {
      text: `longer than ${maxLength}`,
      some: fc.integer({ min: 1, max: 100 }).map((more) => tooLong(schema, more)),
      edges: format === 'email' ? [tooLong(schema, 1)] : [...atBounds(input), ...valid],
    };
  },
  pattern: (_schema, input, texts) => ({
    text: 'that does not match its pattern',
    some: texts,
    edges: [...atBounds(input), '', ' ', 'a b', 'a-b', '\t'],
  }),
  format: ({ format = '' }, _input, texts) => ({
    ...{ text: `that is not ${format}`, some: texts, edges: [...(BROKEN_FORMATS[format] ?? []), ''] },
  }),
};

/** Texts of a repeated letter, just too short or too long. */
function atBounds(input: Input): string[] {
  return REPEATED.flatMap((letter) => boundsOf(input, letter).invalid.map((length) => letter.repeat(length)));
}

function tooLong({ format, maxLength = 0 }: Schema, more: number): string {
  return format === 'email' ? emailOf(maxLength + more) : 'a'.repeat(maxLength + more);
}

function beyond(bound: number, step: 1 | -1): Values {
  const some = fc.integer({ min: 1, max: 1_000_000 }).map((distance) => bound + step * distance);
  return { some, edges: [bound + step, bound + step * 1_000] };
}

const VALUES: readonly Json[] = [null, 0, 1.5, true, 'text', [], {}, ['a'], { a: 1 }];
const OTHER_TYPES: Values = { some: fc.constantFrom(...VALUES), edges: VALUES };

/** Parameters are texts, of which some languages read these as numbers or booleans. No text is of another type than string. */
const NOT_NUMBERS = ['0x10', '+5', '05', ' 5', '5 ', '', 'null', 'NaN', '1,2', '1_0', '٥', 'Infinity'];
const OTHER_TEXTS: Readonly<Record<string, readonly string[]>> = {
  boolean: ['', '1', '0', 'TRUE', 'yes', 'null'],
  integer: ['1e1', '5.0', ...NOT_NUMBERS],
  number: NOT_NUMBERS,
};

function asTexts({ type }: Schema, texts: fc.Arbitrary<string>): Values {
  const edges = OTHER_TEXTS[String(type)] ?? [];
  return { some: texts.filter((text) => Number.isNaN(Number(text))), edges };
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

/** The constraints of the value itself that it breaks; what is wrong with a part of it is named by its place. */
function brokenBy({ validate }: Input, value: Json): Set<string> {
  const errors = validate(value) ? [] : (validate.errors ?? []);
  return new Set(errors.filter(({ instancePath }) => instancePath === '').map(({ keyword }) => keyword));
}
