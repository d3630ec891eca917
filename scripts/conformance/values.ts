// Generates values that a schema allows, and values that violate one constraint.

import fc from 'fast-check';
import { DocumentError } from '../../src/openapi/document.ts';
import { readStyle } from '../../src/openapi/styles.ts';
import type { Json } from '../../src/store/store.ts';
import type { Input, Schema } from './operations.ts';

/** Generated values, and edge cases that are tested first. */
export type Values<T = Json> = { readonly some: fc.Arbitrary<T>; readonly edges: readonly T[] };

/** Characters with a meaning in URLs, JSON, SQL and shells, and of every length in UTF-8. */
const VISIBLE = [...'abzABZ059-._\'"\\%&=+</?#,;:@(){}[]!$*~'];
const LETTERS = [...VISIBLE, ...' áçãéíõúüÁÇÉñø漢😀'];
/** Characters of one, two and four bytes in UTF-8, to test lengths. */
const REPEATED = ['a', '0', 'é', '😀'];
/** Maximum length of a text if the schema has none. */
const LONG = 200;
/** Reserved for examples (RFC 2606). */
export const DOMAIN = 'contract.example';

/** Values that an input accepts. */
export function createValid(input: Input): Values {
  const { some, edges } = validOf(input, input.schema);
  const accepts = (value: Json) => input.validate(value) && canBeSent(input, value);
  const sendable = unique(edges).filter(accepts);
  if (input.schema.enum && sendable.length === 0) {
    throw new DocumentError([{ text: `${input.name} in ${input.in}: no value of its enum can be sent there` }]);
  }
  return { some: some.filter(accepts), edges: sendable };
}

/** Any subset of the values; shrinks to none. */
export function someOf<T>(values: readonly fc.Arbitrary<T>[]): fc.Arbitrary<T[]> {
  const options = values.map((some) => fc.option(some, { nil: undefined }));
  return fc.tuple(...options).map((chosen) => chosen.filter((value) => value !== undefined));
}

/** Picks a valid value, a simple one if possible. */
export function pickValid(input: Input): Json {
  const plain: readonly Json[] = ['Contract test', `contract-test@${DOMAIN}`, 1, true];
  const found = plain.find((value) => input.validate(value) && canBeSent(input, value));
  return found ?? fc.sample(createValid(input).some, { numRuns: 1, seed: 1 })[0] ?? null;
}

function validOf(input: Input, schema: Schema): Values {
  if (schema.enum) return { some: fc.constantFrom(...(schema.enum as Json[])), edges: schema.enum };
  if (schema.type === 'boolean') return { some: fc.boolean(), edges: [true, false] };
  if (schema.type === 'integer' || schema.type === 'number') return numbersOf(schema);
  if (schema.type === 'array') return listsOf(input, schema);
  if (schema.type === 'object') return { some: fc.dictionary(fc.constantFrom('a', 'b'), fc.nat()), edges: [{}] };
  if (schema.format === 'email') return emailsOf(schema);
  return FORMATS[schema.format ?? ''] ?? textsOf(input, schema);
}

function listsOf(input: Input, schema: Schema): Values {
  const { items = {}, minItems = 0, maxItems = Math.max(3, minItems) } = schema;
  const { some, edges } = validOf(input, items as Schema);
  return {
    some: fc.array(some, { minLength: minItems, maxLength: maxItems }),
    edges: [[], ...edges.map((edge) => [edge]), edges.slice(0, maxItems)],
  };
}

function numbersOf({ type, minimum = -2_147_483_648, maximum = 2_147_483_647, multipleOf = 1 }: Schema): Values {
  const inside = [minimum, minimum + 1, maximum - 1, maximum];
  if (type === 'integer') return { some: fc.integer({ min: minimum, max: maximum }), edges: inside };
  // Whole numbers have one spelling, without an exponent.
  const step = Math.max(1, multipleOf);
  const some = fc.double({ min: minimum, max: maximum, noNaN: true }).map((value) => Math.round(value / step) * step);
  return { some, edges: inside };
}

function textsOf(input: Input, schema: Schema): Values {
  const { minLength = 0, maxLength = LONG, pattern } = schema;
  const unit = lettersOf(input);
  const texts = fc.string({ unit, minLength, maxLength: Math.max(minLength, maxLength) });
  // Random texts match a pattern such as \S, but hardly a strict one, which has to generate them.
  const isStrict = pattern !== undefined && fc.sample(texts, { numRuns: 20, seed: 1 }).some((t) => !input.validate(t));
  return { some: isStrict ? fc.stringMatching(new RegExp(pattern, 'u')) : texts, edges: textsAtBounds(input) };
}

/** The characters that an input can contain. */
function lettersOf(input: Input): fc.Arbitrary<string> {
  return fc.constantFrom(...(input.in === 'header' ? VISIBLE : LETTERS));
}

/** Texts of a repeated character, with the lengths on both sides of every bound of validity. */
function textsAtBounds({ schema, validate }: Input): string[] {
  const { maxLength } = schema;
  return REPEATED.flatMap((letter) => {
    const texts = Array.from({ length: (maxLength ?? LONG) + 3 }, (_, length) => letter.repeat(length));
    const accepted = texts.map((text) => validate(text) === true);
    const isBound = (length: number) => [length - 1, length + 1].some((next) => accepted[next] === !accepted[length]);
    const isEnd = (length: number) => maxLength === undefined && accepted[length] && [0, LONG].includes(length);
    return texts.filter((_, length) => isBound(length) || isEnd(length));
  });
}

const day = fc
  .date({ min: new Date('0001-01-01'), max: new Date('9999-12-31'), noInvalidDate: true })
  .map((date) => date.toISOString());

const partOf = (from: number, to: number, edges: readonly Json[], zone = ''): Values => ({
  some: day.map((text) => text.slice(from, to) + zone),
  edges,
});

const FORMATS: Readonly<Record<string, Values>> = {
  uuid: { some: fc.uuid(), edges: ['A1B2C3D4-0000-4000-8000-0000000000FF'] },
  date: partOf(0, 10, ['0001-01-01', '2024-02-29', '9999-12-31']),
  'birth-date': partOf(0, 10, ['1990-05-17', '29/02/2024', '31/12/9999']),
  'date-time': { some: day, edges: ['2024-02-29T23:59:59Z', '2024-02-29T00:00:00.123456-03:00'] },
  // Without fractions: Postgres omits trailing zeros.
  'date-time-local': partOf(0, 19, ['2024-02-29T23:59:59']),
  'time-local': partOf(11, 19, ['00:00:00', '23:59:59']),
  time: partOf(11, 19, ['00:00:00Z', '23:59:59-03:00'], 'Z'),
  duration: { some: fc.nat(99).map((days) => `P${days}D`), edges: ['PT1H30M'] },
  ipv4: { some: fc.ipV4(), edges: ['192.0.2.1'] },
  ipv6: { some: fc.ipV6(), edges: ['2001:db8::1'] },
  byte: { some: fc.base64String({ maxLength: 40 }), edges: ['', 'AAA='] },
};

function emailsOf({ maxLength }: Schema): Values {
  const names = fc.stringMatching(/^[a-z0-9]([a-z0-9._+-]{0,20}[a-z0-9])?$/);
  const longest = maxLength === undefined ? [] : [emailOf(maxLength - 1), emailOf(maxLength)];
  return { some: names.map((name) => `${name}@${DOMAIN}`), edges: [`a@${DOMAIN}`, `a.b+c_d-e@${DOMAIN}`, ...longest] };
}

function emailOf(length: number): string {
  return `@${DOMAIN}`.padStart(length, 'a');
}

/** Whether a value survives its place in a request. HTTP trims header values, for example. */
function canBeSent(input: Input, value: Json): boolean {
  if (Array.isArray(value) && input.in !== 'body') {
    const { separator = ',', isExploded } = readStyle(input);
    // In a URL an item may contain a comma: encoded, it is not a separator.
    const isSeparated = !isExploded && (separator !== ',' || input.in === 'header');
    if (value.length === 0 || (isSeparated && value.some((item) => String(item).includes(separator)))) return false;
  }
  if (input.in === 'header') return /^([!-~]([ -~]*[!-~])?)?$/.test(String(value));
  // An empty segment or dots would change the path.
  return input.in !== 'path' || !/^\.{0,2}$/.test(String(value));
}

function unique<T extends Json>(values: readonly T[]): T[] {
  return [...new Map(values.map((value) => [JSON.stringify(value), value])).values()];
}

/** Values that violate a constraint, and their description. */
type Violation = Values & { readonly constraint: string; readonly text: string };

/** Values that violate only one constraint, for each constraint of an input's schema. */
export function createViolations(input: Input): Violation[] {
  const texts = fc.string({ unit: lettersOf(input), maxLength: 12 });
  return Object.entries(BREAKING).flatMap(([constraint, breaking]) => {
    if (!(constraint in input.schema)) return [];
    const [text, some, edges] = breaking(input.schema, input, texts);
    const breaks = (value: Json) => canBeSent(input, value) && brokenBy(input, value).has(constraint);
    const breaksOnly = (value: Json) => breaks(value) && brokenBy(input, value).size === 1;
    // A value may have to violate two constraints, such as minLength and pattern.
    const accepts = edges.some(breaksOnly) ? breaksOnly : breaks;
    const kept = unique(edges).filter(accepts);
    if (kept.length === 0) return [];
    return [{ constraint, text, edges: kept, some: fc.oneof(fc.constantFrom(...kept), some).filter(accepts) }];
  });
}

/** The violated constraints of the value itself, not of its parts. */
function brokenBy({ validate }: Input, value: Json): Set<string> {
  const errors = validate(value) ? [] : (validate.errors ?? []);
  return new Set(errors.filter(({ instancePath }) => instancePath === '').map(({ keyword }) => keyword));
}

/** Describes and generates values that may violate a constraint. */
type Breaking = (
  schema: Schema,
  input: Input,
  texts: fc.Arbitrary<string>,
) => readonly [text: string, some: fc.Arbitrary<Json>, edges: readonly Json[]];

const distance = fc.integer({ min: 1, max: 1_000_000 });
const OTHER_VALUES: readonly Json[] = [null, 0, 1.5, true, 'text', [], {}, ['a'], { a: 1 }];
/** Texts that some languages parse as numbers. */
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
