// Reads the check constraints of columns as keywords of a schema.

import { EXACT } from '../../src/openapi/schema.ts';

/** What the values of a column have to meet, as keywords of a schema. */
export type Rule = Bounds & { readonly enum?: string[]; readonly pattern?: string };
type Bounds = Partial<Record<Bound, number>>;
type Bound = `${'min' | 'max'}${'Length' | 'Items' | 'imum'}` | `exclusive${'Min' | 'Max'}imum`;

/** A check constraint of a table, or of the domain of a column. */
export type Check = { readonly name: string; readonly columns: readonly string[]; readonly definition: string };

/** A rule, and whether it says all that a check does; otherwise SQL alone refuses some values. */
type Reading = { readonly rule: Rule; readonly isWhole: boolean };
const UNKNOWN: Reading = { rule: {}, isWhole: false };

export const TEXTS = ['text', 'character varying'];
export const NUMBERS = ['numeric', 'double precision', 'real'];
export const INTEGERS: Readonly<Record<string, readonly [format: string, minimum: number, maximum: number]>> = {
  smallint: ['int32', -(2 ** 15), 2 ** 15 - 1],
  integer: ['int32', -(2 ** 31), 2 ** 31 - 1],
  bigint: ['int64', ...EXACT],
};

/** The condition of a check with names as they are, such as desc for "desc"; in a domain's, replaces VALUE by the column. */
function expressionOf({ columns, definition }: Check): string {
  const expression = definition.replace(/^CHECK \((.*)\)( NOT VALID)?$/s, '$1');
  const named = expression.replace(/('(?:[^']|'')*')|"(\w+)"/g, '$1$2');
  return named.replace(/\bVALUE\b(?=(?:[^']*'[^']*')*[^']*$)/g, columns[0] ?? '');
}

/** The condition of a check as a text for clients. */
export function describeCheck(check: Check): string {
  return withoutCasts(expressionOf(check)).replace(/^\((.*)\)$/s, '$1');
}

/** Removes casts, and parentheses around one word or number; quoted texts stay as they are. */
function withoutCasts(expression: string): string {
  return expression
    .replace(/('(?:[^']|'')*')|::(\w+\.)?[a-z]\w*( [a-z]+)*/g, '$1')
    .replace(/('(?:[^']|'')*')|(?<!\w)\(([\w.]+|'-?[\d.]+')\)/g, '$1$2');
}

/** Reads what a check of one column allows for values other than null. */
export function readCheck(check: Check, base: string): Reading {
  const [column, ...others] = check.columns;
  if (column === undefined || others.length > 0) return UNKNOWN;
  const expression = expressionOf(check).replace(`((${column} IS NULL) OR `, '(');
  const [, list] = /^\(*\w+\)*(?:::[\w. ]+)? = ANY \(+ARRAY\[([^\]]*)\](?:::[\w. ]+\[\])?\)*$/.exec(expression) ?? [];
  if (list && TEXTS.includes(base)) {
    const values = [...list.matchAll(/'((?:[^']|'')*)'/g)].map(([, one = '']) => one.replaceAll("''", "'"));
    return { rule: { enum: values }, isWhole: true };
  }
  const readings = conditionsOf(expression).map((condition) => readCondition(withoutCasts(condition), column, base));
  return { rule: meet(readings.map(({ rule }) => rule)), isWhole: readings.every(({ isWhole }) => isWhole) };
}

/** The conditions that have to hold together. Postgres writes parentheses around them all, and around each. */
function conditionsOf(expression: string): string[] {
  const inner = expression.slice(1, -1);
  const conditions: string[] = [];
  let depth = 0;
  let start = 0;
  for (const { 0: token, index } of inner.matchAll(/'(?:[^']|'')*'|"(?:[^"]|"")*"|[()]| AND /g)) {
    if (token === '(') depth += 1;
    if (token === ')') depth -= 1;
    // The last parenthesis does not close the first character.
    if (depth < 0) return [expression];
    if (token === ' AND ' && depth === 0) {
      conditions.push(inner.slice(start, index));
      start = index + token.length;
    }
  }
  const isAround = expression.startsWith('(') && depth === 0;
  return isAround ? [...conditions, inner.slice(start)].flatMap(conditionsOf) : [expression];
}

function readCondition(text: string, column: string, base: string): Reading {
  const isText = TEXTS.includes(base);
  const [, matched, pattern = ''] = /^(\S+) ~ '((?:[^']|'')*)'$/.exec(text) ?? [];
  if (matched === column && isText) return readPattern(pattern.replaceAll("''", "'"));
  // A character has at least one octet.
  const [, octets] = /^octet_length\((\w+)\) (?:<=?|=) \d+$/.exec(text) ?? [];
  if (octets === column && isText) {
    const { minLength: _, ...most } = readComparison(text.replace('octet_length', 'length'), column, base) ?? {};
    return { rule: most, isWhole: false };
  }
  const rule = readComparison(text, column, base);
  return { rule: rule ?? {}, isWhole: rule !== undefined };
}

function readComparison(text: string, column: string, base: string): Rule | undefined {
  const [, what = '', operator = '', quoted = ''] = /^(\S+) (<=|<|>=|>|<>|=) ('.*'|-?[\d.]+)$/.exec(text) ?? [];
  const isText = TEXTS.includes(base);
  if (what === column && operator === '<>' && quoted === "''" && isText) return { minLength: 1 };
  const value = quoted.replaceAll("'", '');
  if (operator === '' || operator === '<>' || value === '' || Number.isNaN(Number(value))) return undefined;
  const isLength =
    ['char_length', 'character_length', 'length'].some((name) => what === `${name}(${column})`) && isText;
  if (isLength) return toBound(operator, Number(value), 'minLength', 'maxLength');
  if (what === `cardinality(${column})`) return toBound(operator, Number(value), 'minItems', 'maxItems');
  if (what !== column) return undefined;
  if (base in INTEGERS) return toBound(operator, Number(value), 'minimum', 'maximum');
  if (!NUMBERS.includes(base)) return undefined;
  return Object.fromEntries((KEYWORDS[operator] ?? []).map((keyword) => [keyword, Number(value)]));
}

const KEYWORDS: Readonly<Record<string, readonly Bound[]>> = {
  '=': ['minimum', 'maximum'],
  '<': ['exclusiveMaximum'],
  '<=': ['maximum'],
  '>': ['exclusiveMinimum'],
  '>=': ['minimum'],
};

/** The bounds of a whole number. That of the check may have a fraction: `nota > 1.5` is at least 2. */
function toBound(operator: string, value: number, least: keyof Rule, most: keyof Rule): Rule {
  const isOpen = operator.length === 1 && operator !== '=';
  // Without the zero, -0.5 would become -0.
  const from = isOpen ? Math.floor(value) + 1 : Math.ceil(value) + 0;
  const to = isOpen ? Math.ceil(value) - 1 : Math.floor(value);
  if (operator === '=') return { [least]: from, [most]: to };
  return operator.startsWith('<') ? { [most]: to } : { [least]: from };
}

/** Characters of a pattern that Postgres and JavaScript read alike: a letter, a quoted sign, or a list. */
const ALIKE = String.raw`[^\\^$.*+?()[\]{}|]|\\[\\^$.*+?()[\]{}|/]|\[(?!\^?\])\^?(?:[^\\[\]]|\\[\\^$.*+?()[\]{}|/-])+\]`;
/** Those where Postgres may allow others than JavaScript, such as digits of other scripts for \d, but as many. */
const OTHER = String.raw`\.|\\(?:[dwsDWS]|[^A-Za-z0-9])|\[(?!\^?\])\^?(?:[^\\[\]]|\\(?:[dws]|[^A-Za-z0-9])|\[:\w+:\])+\]`;
const QUANTIFIER = String.raw`(?<sign>[*+?])|\{(?<from>\d+)(?<open>,(?<to>\d*))?\}`;

/** Reads a pattern for a whole text, without groups. */
function readPattern(pattern: string): Reading {
  const [, inner = ''] = /^\^(.*)\$$/su.exec(pattern) ?? [];
  const parts = [...inner.matchAll(new RegExp(`(?:${ALIKE}|(?<other>${OTHER}))(?:${QUANTIFIER})?`, 'gyu'))];
  if (inner === '' || parts.map(([part]) => part).join('') !== inner) return UNKNOWN;
  const counts = parts.map(({ groups = {} }) => {
    const { sign, from = '1', open, to } = groups;
    if (sign) return { least: sign === '+' ? 1 : 0, most: sign === '?' ? 1 : Infinity };
    return { least: Number(from), most: open ? Number(to || Infinity) : Number(from) };
  });
  const sum = (numbers: readonly number[]) => numbers.reduce((total, one) => total + one, 0);
  const [minLength, most] = [sum(counts.map(({ least }) => least)), sum(counts.map((count) => count.most))];
  const maxLength = Number.isFinite(most) ? { maxLength: most } : {};
  const isWhole = parts.every(({ groups }) => groups?.other === undefined);
  return { rule: isWhole ? { pattern, ...maxLength } : { minLength, ...maxLength }, isWhole };
}

/** The rule that holds where all of these do. */
export function meet(rules: readonly Rule[]): Rule {
  const all: Record<string, unknown> = {};
  for (const [key, value] of rules.flatMap((rule) => Object.entries(rule))) {
    const other = all[key];
    if (other === undefined) all[key] = value;
    else if (key === 'enum') all[key] = (other as string[]).filter((one) => (value as string[]).includes(one));
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
