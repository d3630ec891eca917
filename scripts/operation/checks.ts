// Reads the check constraints of columns as keywords of a schema.

import { EXACT } from '../../src/openapi/schema.ts';

/** Constraints on the values of a column, as keywords of a schema. */
export type Rule = Bounds & { readonly enum?: readonly (string | number)[]; readonly pattern?: string };
type Bounds = Partial<Record<Bound, number>>;
type Bound = `${'min' | 'max'}${'Length' | 'Items' | 'imum'}` | `exclusive${'Min' | 'Max'}imum`;

/** A check constraint of a table, or of the domain of a column. The expression is Postgres's, without needless parentheses. */
export type Check = { readonly name: string; readonly columns: readonly string[]; readonly expression: string };

/** A rule, and whether it is as strict as the check; otherwise only SQL refuses some values. */
type Reading = { readonly rule: Rule; readonly isWhole: boolean };
const UNKNOWN: Reading = { rule: {}, isWhole: false };

export const TEXTS = ['text', 'character varying'];
/** Matches the types of dates and timestamps, but not of arrays of them. */
export const DATES = /^(date|timestamp.*zone)$/;
export const NUMBERS = ['numeric', 'double precision', 'real'];
export const INTEGERS: Readonly<Record<string, readonly [format: string, minimum: number, maximum: number]>> = {
  smallint: ['int32', -(2 ** 15), 2 ** 15 - 1],
  integer: ['int32', -(2 ** 31), 2 ** 31 - 1],
  bigint: ['int64', ...EXACT],
};

/** Matches a cast, and the name or number before it. */
const CAST = /([\w.)\]]*)::([\w.]+(?: [a-z]+)*(?:\[\])*)(?![\w(]| [a-z])/g;
/** Types to which a cast changes no value. A cast of a constant is needless in any case: Postgres has applied it already. */
const WIDE = /^(text|character varying|numeric|double precision)(\[\])*$/;

/** Returns a check's condition as one line for clients: no needless casts or quoted names, and the column for a domain's VALUE. */
export function describeCheck({ columns, expression }: Check): string {
  // Every second part is a quoted text, which stays as it is.
  const parts = expression.split(/('(?:[^']|'')*')/).map((part, index) => {
    if (index % 2 === 1) return part;
    const named = part.replace(/"(\w+)"/g, '$1').replace(/\bVALUE\b/g, columns[0] ?? '');
    const isNeedless = (of: string, type: string) => WIDE.test(type) || /^-?[\d.]*$/.test(of);
    const bare = named.replace(CAST, (all, of: string, type: string) => (isNeedless(of, type) ? of : all));
    return bare.replace(/\s+/g, ' ');
  });
  return parts.join('').trim();
}

/** Whether computing an expression may fail for some values, as a quotient or a range may. */
export function mayFail(expression: string): boolean {
  const constants = /(?:'(?:[^']|'')*'|\(?-?\b[\d.]+\)?)(?:::[\w ]+(?:\[\])?)?/g;
  const bare = expression.replace(constants, '').replace(/::(text|character varying)\b/g, '');
  return / [-+*/%^] |::|(?<=\w)(?<!length|cardinality|lower|upper|md5|trim|coalesce|to_tsvector)\(/i.test(bare);
}

/** Reads what a check of one column allows for values other than null. */
export function readCheck(check: Check, base: string): Reading {
  const [column, ...others] = check.columns;
  return column === undefined || others.length > 0 ? UNKNOWN : readExpression(describeCheck(check), column, base);
}

function readExpression(text: string, column: string, base: string): Reading {
  const [one = '', ...others] = split(text, 'OR').filter((part) => part !== `${column} IS NULL`);
  if (others.length > 0) return UNKNOWN;
  const conditions = split(one, 'AND');
  if (conditions.length > 1) {
    const readings = conditions.map((condition) => readExpression(condition, column, base));
    return { rule: meet(readings.map(({ rule }) => rule)), isWhole: readings.every(({ isWhole }) => isWhole) };
  }
  const [, inner] = /^\((.*)\)$/.exec(one) ?? [];
  return inner ? readExpression(inner, column, base) : readCondition(one, column, base);
}

/** Splits a condition at an operator that is outside of quoted texts, parentheses and CASE. */
function split(text: string, operator: 'AND' | 'OR'): string[] {
  const parts = [''];
  let depth = 0;
  for (const [token] of text.matchAll(/'(?:[^']|'')*'|\w+|./gs)) {
    if (/^(?:[([]|CASE)$/.test(token)) depth += 1;
    if (/^(?:[)\]]|END)$/.test(token)) depth -= 1;
    // The caller has removed parentheses that are not a pair, as in `(a) = (b)`.
    if (depth < 0) return [text];
    if (depth === 0 && token === operator) parts.push('');
    else parts.push(parts.pop() + token);
  }
  return parts.map((part) => part.trim());
}

const KEYWORDS: Readonly<Record<string, Bound>> = {
  '<': 'exclusiveMaximum',
  '<=': 'maximum',
  '>': 'exclusiveMinimum',
  '>=': 'minimum',
};
/** The ending of the keyword that limits each function's result; without a function, the keyword limits the value itself. */
const UNITS: Readonly<Record<string, 'imum' | 'Length' | 'Items'>> = {
  ...{ '': 'imum', cardinality: 'Items', length: 'Length', char_length: 'Length', character_length: 'Length' },
};

function readCondition(text: string, column: string, base: string): Reading {
  const [, measure = '', what, operator = '', right = ''] =
    /^(?:(\w+)\()?(\w+)\)? (<=?|>=?|<>|=|~) (.*)$/s.exec(text) ?? [];
  const [constant, ...others] = readConstants(right);
  if (what !== column || constant === undefined) return UNKNOWN;
  if (measure + operator === '=') return readList([constant, ...others], base);
  if (others.length > 0) return UNKNOWN;
  const isDate = DATES.test(base);
  // A date counts by its year; infinity has none.
  const number = isDate ? /^(\d{4})-[^B]*$/.exec(constant)?.[1] : constant;
  const [isText, value, keyword] = [TEXTS.includes(base), Number(number), KEYWORDS[operator]];
  if (measure + operator === '~' && isText) return readPattern(constant);
  if (measure + operator === '<>' && isText && constant === '') return { rule: { minLength: 1 }, isWhole: true };
  if (!(keyword || operator === '=') || !Number.isFinite(value)) return UNKNOWN;
  if (measure === '' && keyword && NUMBERS.includes(base)) return { rule: { [keyword]: value }, isWhole: true };
  if (measure === '' && keyword && isDate) return { rule: { [keyword]: value }, isWhole: false };
  const unit = UNITS[measure];
  const isKnown = { imum: base in INTEGERS, Items: true, Length: isText };
  if (!unit || !isKnown[unit] || !Number.isInteger(value)) return UNKNOWN;
  // For integers, > 5 is the same as >= 6.
  const least = operator.startsWith('<') ? {} : { [`min${unit}`]: operator === '>' ? value + 1 : value };
  const most = operator.startsWith('>') ? {} : { [`max${unit}`]: operator === '<' ? value - 1 : value };
  return { rule: { ...least, ...most }, isWhole: true };
}

/** Reads a list of allowed values. Numbers also get bounds, without which the command refuses a column. */
function readList(constants: readonly string[], base: string): Reading {
  if (TEXTS.includes(base)) return { rule: { enum: constants }, isWhole: true };
  const numbers = constants.map(Number);
  const isNumber = base in INTEGERS ? Number.isSafeInteger : Number.isFinite;
  if (!(base in INTEGERS || NUMBERS.includes(base)) || !numbers.every(isNumber)) return UNKNOWN;
  return { rule: { enum: numbers, minimum: Math.min(...numbers), maximum: Math.max(...numbers) }, isWhole: true };
}

/** Reads a constant, or the constants of ANY. Returns none for anything else, such as a list with null, which allows every value. */
function readConstants(text: string): string[] {
  const [, items = text] = /^ANY \(ARRAY\[(.*)\]\)$/s.exec(text) ?? [];
  const all = [...items.matchAll(/('(?:[^']|'')*'|-?[\d.]+)(?:, |$)/gy)];
  if (all.map(([whole]) => whole).join('') !== items) return [];
  return all.map(([, one = '']) => one.replace(/^'(.*)'$/s, '$1').replaceAll("''", "'"));
}

/** Matches a part of a pattern that Postgres and JavaScript read alike: a letter, an escaped sign, or a bracket list. */
const ALIKE = String.raw`[^\\^$.*+?()[\]{}|]|\\[\\^$.*+?()[\]{}|/]|\[(?!\^?\])\^?(?:[^\\[\]]|\\[\\^$.*+?()[\]{}|/-])+\]`;
/** Matches a part for which Postgres may allow other characters, such as digits of other scripts for \d, but only one. */
const OTHER = String.raw`\.|\\(?:[dwsDWS]|[^A-Za-z0-9])|\[(?!\^?\])\^?(?:[^\\[\]]|\\(?:[dws]|[^A-Za-z0-9])|\[:\w+:\])+\]`;
const QUANTIFIER = String.raw`(?<sign>[*+?])|\{(?<from>\d+)(?<open>,(?<to>\d*))?\}`;
const PART = new RegExp(`(?:${ALIKE}|(?<other>${OTHER}))(?:${QUANTIFIER})?`, 'gyu');

/** Reads a pattern without groups that matches a whole text. */
function readPattern(pattern: string): Reading {
  const [, inner = ''] = /^\^(.*)\$$/su.exec(pattern) ?? [];
  const parts = [...inner.matchAll(PART)];
  if (inner === '' || parts.map(([part]) => part).join('') !== inner) return UNKNOWN;
  const most = parts.map(({ groups = {} }) => {
    const { sign, from = '1', open, to } = groups;
    return sign ? (sign === '?' ? 1 : Infinity) : Number(open ? to || Infinity : from);
  });
  const maxLength = most.reduce((sum, one) => sum + one, 0);
  const rule = Number.isFinite(maxLength) ? { maxLength } : {};
  const isWhole = parts.every(({ groups }) => groups?.other === undefined);
  return { rule: isWhole ? { pattern, ...rule } : rule, isWhole };
}

/** Combines rules into one: a value has to meet all of them. */
export function meet(rules: readonly Rule[]): Rule {
  const all: Record<string, unknown> = {};
  for (const [key, value] of rules.flatMap((rule) => Object.entries(rule))) {
    const other = all[key];
    if (other === undefined) all[key] = value;
    else if (key === 'enum') all[key] = (other as unknown[]).filter((one) => (value as unknown[]).includes(one));
    else if (key === 'pattern') all[key] = `(?=${other})${value}`;
    else all[key] = (/max/i.test(key) ? Math.min : Math.max)(Number(other), Number(value));
  }
  // OpenAPI 3.0 has one bound at each end, either inclusive or exclusive.
  const { minimum: from = -Infinity, exclusiveMinimum: above = -Infinity }: Bounds = all;
  const { maximum: to = Infinity, exclusiveMaximum: below = Infinity }: Bounds = all;
  delete all[from > above ? 'exclusiveMinimum' : 'minimum'];
  delete all[to < below ? 'exclusiveMaximum' : 'maximum'];
  return all;
}
