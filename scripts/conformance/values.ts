// Generates values that a schema allows, and values that violate one constraint.

import fc from 'fast-check';
import { type Schema as ModelSchema, readProperties, scalarOf } from '../../src/openapi/schema.ts';
import { readStyle } from '../../src/openapi/url.ts';
import type { Json } from '../../src/store/store.ts';
import { Unknown } from './check.ts';
import { describe, type Input, type Schema } from './contract.ts';

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

/** Samples among which some have to be valid before others are generated: a filter that no value passes would never end. */
const SAMPLES = { numRuns: 100, seed: 1 };

/** Values that an input accepts. Throws Unknown if none can be made up. */
export function createValid(input: Input): Values {
  if (!valuesOf.has(input)) valuesOf.set(input, makeValid(input));
  const values = valuesOf.get(input);
  if (values) return values;
  const text = `${input.name} in ${input.in}: no value could be made up that its schema allows and that can be sent there`;
  throw new Unknown(`${text}: give the schema an example`);
}

const valuesOf = new WeakMap<Input, Values | undefined>();

/** Whether an input accepts a value, and a request can carry it there. */
export function isValid(input: Input, value: Json): boolean {
  return input.validate(value) && canBeSent(input, value);
}

/** Keeps the values that an input accepts; undefined if they are too rare. */
export function keepValid(input: Input, some: fc.Arbitrary<Json>): fc.Arbitrary<Json> | undefined {
  const accepts = (value: Json) => isValid(input, value);
  return fc.sample(some, SAMPLES).filter(accepts).length > 1 ? some.filter(accepts) : undefined;
}

function makeValid(input: Input): Values | undefined {
  const { some, edges } = validOf(input, input.schema);
  const accepts = (value: Json) => isValid(input, value);
  const valid = keepValid(input, some);
  if (valid) return { some: valid, edges: unique(edges).filter(accepts) };
  const { example, examples = [] } = input.schema as { example?: Json; examples?: Json[] };
  const known = [...edges, ...fc.sample(some, SAMPLES), example ?? null, ...examples, ...TEXTS_OF_FORMATS];
  const sendable = unique(known).filter(accepts);
  return sendable.length > 0 ? { some: fc.constantFrom(...sendable), edges: sendable } : undefined;
}

/** The largest number that a path parameter accepts. Hardly any record has it: a write must not change one that exists. */
export function findUnused(input: Input): number | undefined {
  const edges = input.in === 'path' ? createValid(input).edges : [];
  const numbers = edges.filter((value) => typeof value === 'number');
  return numbers.length > 0 ? Math.max(...numbers) : undefined;
}

/** Any subset of the values; shrinks to none. */
export function someOf<T>(values: readonly fc.Arbitrary<T>[]): fc.Arbitrary<T[]> {
  const options = values.map((some) => fc.option(some, { nil: undefined }));
  return fc.tuple(...options).map((chosen) => chosen.filter((value) => value !== undefined));
}

/** Picks a valid value, a simple one if possible. Throws Unknown if none can be made up. */
export function pickValid(input: Input): Json {
  const plain: readonly Json[] = ['Contract test', `contract-test@${DOMAIN}`, 1, true];
  const found = plain.find((value) => isValid(input, value));
  return found ?? findSample(createValid(input).some) ?? null;
}

/** Values for a schema. Few of them may be valid if it has conditions such as `not`. */
function validOf(input: Input, schema: Schema, nesting = 0): Values {
  const { nullable, allOf = [], anyOf, oneOf, ...own } = schema;
  const inside = (part: object) => validOf(input, part as Schema, nesting);
  if (nullable) {
    const { some, edges } = inside({ ...schema, nullable: false });
    return { some: fc.option(some, { nil: null }), edges: [...edges, null] };
  }
  if (schema.enum) return { some: fc.constantFrom(...(schema.enum as Json[])), edges: schema.enum };
  if (allOf.length > 0) return inside([own, { anyOf, oneOf }, ...allOf].reduce(join, {}));
  const types = [schema.type].flat();
  const choices = anyOf ?? oneOf ?? (types.length > 1 ? types.map((type) => ({ type })) : undefined);
  if (choices) {
    const all = choices.map((choice) => inside(join(join(own as Schema, anyOf ? { oneOf } : {}), choice)));
    return { some: fc.oneof(...all.map(({ some }) => some)), edges: all.flatMap(({ edges }) => edges) };
  }
  if (schema.type === 'boolean') return { some: fc.boolean(), edges: [true, false] };
  if (schema.type === 'integer' || schema.type === 'number') return numbersOf(schema);
  if (schema.type === 'array') return listsOf(input, schema, nesting);
  if (schema.type === 'object' || schema.properties) return objectsOf(input, schema, nesting);
  if (schema.format === 'email') return emailsOf(schema);
  if (schema.format && schema.format in FORMATS) return FORMATS[schema.format] as Values;
  if (schema === input.schema) return textsOf(input);
  // Each part of a value is made valid by itself, because the whole hardly ever would be by chance.
  const part: Input = { ...input, ...describe(schema) };
  return makeValid(part) ?? textsOf(part);
}

/** Joins two schemas of one value, as far as they are used to generate values. */
function join(one: Schema, other: object): Schema {
  const { properties, required } = readProperties({ allOf: [one, other] });
  const isObject = Object.keys(properties).length + required.length > 0;
  const defined = Object.entries(other).filter(([, value]) => value !== undefined);
  return { ...one, ...Object.fromEntries(defined), ...(isObject ? { properties, required } : {}) } as Schema;
}

/** The maximum nesting of optional parts: a schema may contain itself. */
const MAX_NESTING = 3;

function objectsOf(input: Input, schema: Schema, nesting: number): Values {
  const { properties = {}, required = [], additionalProperties, minProperties = 0, maxProperties = 3 } = schema;
  const partOf = (part: object) => validOf(input, part as Schema, nesting + 1);
  const names = Object.keys(properties).filter((name) => required.includes(name) || nesting < MAX_NESTING);
  const isDeep = nesting > 2 * MAX_NESTING;
  if (names.length === 0 || isDeep) {
    const isMap = typeof additionalProperties === 'object' && !isDeep;
    const values = isMap ? partOf(additionalProperties).some : fc.nat();
    const limits = { minKeys: minProperties, maxKeys: isDeep ? minProperties : Math.max(minProperties, maxProperties) };
    return { some: fc.dictionary(fc.constantFrom(...'abcdefghij'), values, limits), edges: [{}] };
  }
  const parts = names.map((name) => [name, partOf(properties[name] as Schema)] as const);
  const kept = parts.filter(([name]) => required.includes(name) || !('not' in (properties[name] ?? {})));
  const toFirst = ([name, { some, edges }]: (typeof parts)[number]) => [name, edges[0] ?? findSample(some)];
  const toObject = (entries: typeof parts) => Object.fromEntries(entries.map(toFirst)) as Json;
  const model = Object.fromEntries(kept.map(([name, { some }]) => [name, some]));
  const requiredKeys = kept.map(([name]) => name).filter((name) => required.includes(name));
  return {
    some: fc.record(model, { requiredKeys, noNullPrototype: true }) as fc.Arbitrary<Json>,
    edges: [toObject(kept), toObject(kept.filter(([name]) => required.includes(name)))],
  };
}

/** Picks any valid value. */
export function pickAny(input: Input): Json {
  const { some } = createValid(input);
  return fc.sample(some, 1)[0] ?? null;
}

function findSample(some: fc.Arbitrary<Json>): Json | undefined {
  return fc.sample(some, { numRuns: 1, seed: 1 })[0];
}

function listsOf(input: Input, schema: Schema, nesting: number): Values {
  const { items = {}, prefixItems = [], minItems = 0, uniqueItems = false } = schema as typeof schema & Tuple;
  const { maxItems = Math.max(3, minItems) } = schema;
  const first = prefixItems.map((part) => validOf(input, part, nesting + 1).some);
  if (first.length > 0) return { some: fc.tuple(...first), edges: [] };
  if (nesting > 2 * MAX_NESTING) return { some: fc.constant([]), edges: [] };
  const { some, edges } = validOf(input, items as Schema, nesting + 1);
  const limits = { minLength: minItems, maxLength: Math.min(maxItems, minItems + MAX_LENGTH) };
  const different = fc.uniqueArray(some, { ...limits, minLength: 0, selector: (item) => JSON.stringify(item) });
  return {
    some: uniqueItems ? different : fc.array(some, limits),
    edges: [[], ...edges.map((edge) => [edge]), edges.slice(0, maxItems)],
  };
}

type Tuple = { readonly prefixItems?: readonly Schema[] };
/** The maximum number of generated items in addition to those that a list must have. */
const MAX_LENGTH = 10;

/** Multiples of a step, between the bounds and at them. */
function numbersOf({ type, multipleOf = 1, ...schema }: Schema): Values {
  const { minimum, maximum, exclusiveMinimum, exclusiveMaximum } = schema as ModelSchema;
  const most = Math.min(maximum ?? Infinity, exclusiveMaximum ?? Infinity);
  const least = Math.max(minimum ?? -Infinity, exclusiveMinimum ?? -Infinity);
  const from = Number.isFinite(least) ? least : Math.min(-2_147_483_648, most);
  const to = Number.isFinite(most) ? most : Math.max(2_147_483_647, from);
  // Whole numbers have one spelling, without an exponent.
  const isTooNarrow = type === 'number' && multipleOf === 1 && Math.ceil(from) >= Math.floor(to);
  const isWhole = Number.isInteger(1 / multipleOf);
  const step = isTooNarrow ? (to - from) / 4 || 1 : isWhole ? 1 : multipleOf;
  const [low, high] = [Math.ceil(from / step), Math.max(Math.ceil(from / step), Math.floor(to / step))];
  const toNumber = (count: number) => (Number.isInteger(step) ? count * step : Number((count * step).toPrecision(15)));
  const counts = fc.integer({ min: low, max: high });
  return {
    // Without `map`, a failing edge shrinks.
    some: step === 1 ? counts : counts.map(toNumber),
    edges: [from, ...[low, low + 1, high - 1, high].map(toNumber), to],
  };
}

function textsOf(input: Input): Values {
  const { minLength = 0, maxLength = LONG, pattern } = input.schema;
  const unit = lettersOf(input);
  const texts = fc.string({ unit, minLength, maxLength: Math.max(minLength, maxLength) });
  // Random texts often match a loose pattern such as \S, but hardly ever a strict one, from which the texts are then generated.
  const isStrict = pattern !== undefined && fc.sample(texts, { numRuns: 20, seed: 1 }).some((t) => !input.validate(t));
  return { some: isStrict ? textsMatching(pattern, texts) : texts, edges: textsAtBounds(input) };
}

/** Texts that match a pattern; any texts if the pattern cannot generate any, for example because of (?=…). */
function textsMatching(pattern: string, texts: fc.Arbitrary<string>): fc.Arbitrary<string> {
  try {
    return fc.stringMatching(new RegExp(pattern, 'u'));
  } catch {
    return texts;
  }
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

/** Texts of the other formats. */
const TEXTS_OF_FORMATS = [`https://${DOMAIN}/a`, DOMAIN, '/a', '#/a', '1/a', '12:34:56', '2024-02-29T23:59:59Z'];

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
  // A parameter cannot be null, nor can an item of one.
  if (input.in !== 'body' && [value].flat().includes(null)) return false;
  if (Array.isArray(value) && input.in !== 'body') {
    const { separator = ',', isExploded } = readStyle(input);
    // An encoded comma in a URL belongs to an item, and is not a separator.
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

/** Values that violate only one constraint, for each constraint of an input's schema, with a description. */
export function createViolations(input: Input) {
  const { schema } = input;
  const candidates = unique(candidatesFor(input));
  const texts = fc.string({ unit: lettersOf(input), maxLength: 12 });
  // In a URL, the text of a number is a number.
  const others = schema.type === 'string' ? texts : texts.filter((text) => Number.isNaN(Number(text)));
  // There, a number is also its text, which an enum may have.
  const hasNumbers = input.in === 'body' || ['integer', 'number'].includes(scalarOf(schema) ?? '');
  const numbers = hasNumbers ? [fc.maxSafeInteger()] : [];
  return Object.entries(VIOLATIONS).flatMap(([constraint, describeBroken]) => {
    if (!(constraint in schema)) return [];
    const breaks = (value: Json) => canBeSent(input, value) && brokenBy(input, value).has(constraint);
    const breaksOnly = (value: Json) => breaks(value) && brokenBy(input, value).size === 1;
    // A value may have to violate two constraints, such as minLength and pattern.
    const accepts = candidates.some(breaksOnly) ? breaksOnly : breaks;
    const edges = candidates.filter(accepts);
    if (edges.length === 0) return [];
    const some = fc.oneof(fc.constantFrom(...edges), others, ...numbers).filter(accepts);
    return [{ constraint, text: describeBroken(schema), edges, some }];
  });
}

/** Values of which each may violate a constraint of an input's schema. */
function candidatesFor(input: Input): Json[] {
  const { type = '', enum: values = [], minimum = Number.NaN, maximum = Number.NaN, format = '' } = input.schema;
  const isBody = input.in === 'body';
  // Any text is a list with one item in a URL.
  if (type === 'array' && !isBody) return [];
  const others = [
    ...(isBody ? OTHER_VALUES : (OTHER_TEXTS[type] ?? [])),
    ...[minimum - 1, minimum - 1_000, maximum + 1, maximum + 1_000].filter(Number.isFinite),
    ...values.flatMap(misspell).filter((text) => !values.map(String).includes(text)),
    ...(BROKEN_FORMATS[format] ?? []),
  ];
  if (type === 'boolean' || type === 'integer' || type === 'number') return others;
  return [...others, ...textsTooLong(input), ...textsAtBounds(input), '', ' ', 'a b', 'a-b', '\t'];
}

/** Texts that are longer than they may be, and otherwise like those that an input accepts. */
function textsTooLong(input: Input): string[] {
  const { maxLength, format } = input.schema;
  if (maxLength === undefined) return [];
  const lengths = [maxLength + 1, maxLength + 100];
  const toText = (length: number) => (format === 'email' ? emailOf(length) : 'a'.repeat(length));
  return [...lengths.map(toText), ...createValid(input).edges.map((value) => String(value).padEnd(maxLength + 1, '0'))];
}

/** The violated constraints of the value itself, not of its parts. */
function brokenBy({ validate }: Input, value: Json): Set<string> {
  const errors = validate(value) ? [] : (validate.errors ?? []);
  return new Set(errors.filter(({ instancePath }) => instancePath === '').map(({ keyword }) => keyword));
}

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
  uuid: ['x', UUID.slice(1), `${UUID}0`, UUID.replaceAll('-', ''), `{${UUID}}`, `urn:uuid:${UUID}`, ` ${UUID}`],
  date: `2024-02-30 2023-02-29 2024-13-01 2024-00-10 2024-1-1 24-01-01 01/02/2024 2024-01-01T00:00:00Z`.split(' '),
  'date-time': ['2024-02-29', '2024-02-30T00:00:00Z', '2024-02-29T25:00:00Z', '2024-02-29 00:00'],
  email: ['ana', 'ana@', `@${DOMAIN}`, `a b@${DOMAIN}`, `a@b@${DOMAIN}`, 'ana@.example'],
};

/** The constraints that are tested, and how each is violated. */
const VIOLATIONS: Readonly<Record<string, (schema: Schema) => string>> = {
  type: ({ type }) => `that is not ${type}`,
  enum: () => 'that is not one of its values',
  minimum: ({ minimum }) => `less than ${minimum}`,
  maximum: ({ maximum }) => `more than ${maximum}`,
  minLength: ({ minLength }) => `shorter than ${minLength}`,
  maxLength: ({ maxLength }) => `longer than ${maxLength}`,
  pattern: () => 'that does not match its pattern',
  format: ({ format }) => `that is not ${format}`,
};

function misspell(value: Json): string[] {
  const text = String(value);
  return [text.toUpperCase(), `${text} `, ` ${text}`, text.slice(0, -1), `${text}${text}`, `${text},${text}`];
}
