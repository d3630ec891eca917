// Values that break one constraint of a schema.

import fc from 'fast-check';
import type { Json } from '../../src/store/store.ts';
import type { Input, Schema } from './operations.ts';
import { canBeSent, createValid, DOMAIN, emailOf, lettersOf, textsAtBounds, unique, type Values } from './values.ts';

/** Values that violate a constraint, and what they are. */
type Violation = Values & { readonly constraint: string; readonly text: string };

/** For each constraint of an input's schema, values that violate only this one. */
export function createViolations(input: Input): Violation[] {
  const texts = fc.string({ unit: lettersOf(input), maxLength: 12 });
  return Object.entries(BREAKING).flatMap(([constraint, breaking]) => {
    if (!(constraint in input.schema)) return [];
    const [text, some, edges] = breaking(input.schema, input, texts);
    const breaks = (value: Json) => canBeSent(input, value) && brokenBy(input, value).has(constraint);
    const breaksOnly = (value: Json) => breaks(value) && brokenBy(input, value).size === 1;
    // A pattern may refuse an empty text too: then no value violates only one.
    const accepts = edges.some(breaksOnly) ? breaksOnly : breaks;
    const kept = unique(edges).filter(accepts);
    if (kept.length === 0) return [];
    return [{ constraint, text, edges: kept, some: fc.oneof(fc.constantFrom(...kept), some).filter(accepts) }];
  });
}

/** The constraints of the value itself that it breaks; what is wrong with a part of it is named by its place. */
function brokenBy({ validate }: Input, value: Json): Set<string> {
  const errors = validate(value) ? [] : (validate.errors ?? []);
  return new Set(errors.filter(({ instancePath }) => instancePath === '').map(({ keyword }) => keyword));
}

/** Says what values are that may break a constraint, and gives some. */
type Breaking = (
  schema: Schema,
  input: Input,
  texts: fc.Arbitrary<string>,
) => readonly [text: string, some: fc.Arbitrary<Json>, edges: readonly Json[]];

const distance = fc.integer({ min: 1, max: 1_000_000 });
const OTHER_VALUES: readonly Json[] = [null, 0, 1.5, true, 'text', [], {}, ['a'], { a: 1 }];
/** Parameters are texts, of which some languages read these as numbers or booleans. */
const NOT_NUMBERS = ['0x10', '+5', '05', ' 5', '5 ', '', 'null', 'NaN', '1,2', '1_0', '٥', 'Infinity'];
const OTHER_TEXTS: Readonly<Record<string, readonly string[]>> = {
  boolean: ['', '1', '0', 'TRUE', 'yes', 'null'],
  integer: ['1e1', '5.0', ...NOT_NUMBERS],
  number: NOT_NUMBERS,
};
const UUID = 'a1000000-0000-4000-8000-000000000001';
const BROKEN_FORMATS: Readonly<Record<string, readonly Json[]>> = {
  int32: [2 ** 31, -(2 ** 31) - 1],
  int64: [2 ** 63],
  uuid: ['x', UUID.slice(1), `${UUID}0`, UUID.replaceAll('-', ''), `{${UUID}}`, `urn:uuid:${UUID}`, ` ${UUID}`],
  date: `2024-02-30 2023-02-29 2024-13-01 2024-00-10 2024-1-1 24-01-01 01/02/2024 2024-01-01T00:00:00Z`.split(' '),
  'date-time': ['2024-02-29', '2024-02-30T00:00:00Z', '2024-02-29T25:00:00Z', '2024-02-29 00:00'],
  email: ['ana', 'ana@', `@${DOMAIN}`, `a b@${DOMAIN}`, `a@b@${DOMAIN}`, 'ana@.example'],
};

const BREAKING: Readonly<Record<string, Breaking>> = {
  type: ({ type = '' }, input, texts) => {
    const text = `that is not ${type}`;
    if (input.in === 'body') return [text, fc.constantFrom(...OTHER_VALUES), OTHER_VALUES];
    return [text, texts.filter((text) => Number.isNaN(Number(text))), OTHER_TEXTS[type] ?? []];
  },
  enum: ({ enum: values = [] }, _, texts) => [
    'that is not one of its values',
    texts,
    ['', ...values.flatMap(misspell)],
  ],
  minimum: ({ minimum = 0 }) => [
    `less than ${minimum}`,
    distance.map((less) => minimum - less),
    [minimum - 1, minimum - 1_000],
  ],
  maximum: ({ maximum = 0 }) => [
    `more than ${maximum}`,
    distance.map((more) => maximum + more),
    [maximum + 1, maximum + 1_000],
  ],
  minLength: ({ minLength }, input) => [`shorter than ${minLength}`, fc.constant(''), textsAtBounds(input)],
  maxLength: ({ maxLength = 0, format }, input) => {
    const toText = (length: number) => (format === 'email' ? emailOf(length) : 'a'.repeat(length));
    const valid = createValid(input).edges.map((value) => String(value).padEnd(maxLength + 1, '0'));
    const edges = [toText(maxLength + 1), ...textsAtBounds(input), ...valid];
    return [
      `longer than ${maxLength}`,
      fc.integer({ min: 1, max: 100 }).map((more) => toText(maxLength + more)),
      edges,
    ];
  },
  pattern: (_, input, texts) => [
    'that does not match its pattern',
    texts,
    [...textsAtBounds(input), '', ' ', 'a b', 'a-b', '\t'],
  ],
  format: ({ format = '' }, _, texts) => [`that is not ${format}`, texts, [...(BROKEN_FORMATS[format] ?? []), '']],
};

function misspell(value: Json): string[] {
  const text = String(value);
  return [text.toUpperCase(), `${text} `, ` ${text}`, text.slice(0, -1), `${text}${text}`, `${text},${text}`];
}
