// Maps spreadsheets to tables: their titles to columns, and the values that people write to Postgres's spelling.

import { describeKeyword } from '../api/messages.ts';
import { findProblem, toPlainNumber } from '../api/request.ts';
import type { Message } from '../errors.ts';
import { formats } from '../openapi/formats.ts';
import { inAll, t } from './language.ts';
import type { Column, Table } from './tables.ts';
import { INVISIBLE } from './terminal.ts';

/** How to treat titles that name no column. `map` gives the column of a title; an empty one leaves the title out. */
type TitleOptions = { readonly map?: ReadonlyMap<string, string>; readonly ignoreUnknown?: boolean };

/** A column of a file: its title, and the table's column; undefined if it is ignored. */
export type Header = { readonly title: string; readonly column: Column | undefined };

/** The maximum length of a title in a message. */
const MAX_TITLE = 100;

/** Ignored words, as in "Data de Nascimento". */
const FILLERS: ReadonlySet<string> = new Set(['de', 'da', 'do', 'das', 'dos']);

/** Common titles in gyms' spreadsheets, for a column of any table or of one. The first matching column of a table wins. */
const COMMON_NAMES: readonly (readonly [column: string, titles: readonly string[]])[] = [
  ['academia_id', ['unidade', 'filial', 'nomeacademia', 'nomeunidade']],
  ['personal_id', ['personaltrainer', 'professor', 'treinador', 'instrutor']],
  ['nome', ['nomecompleto']],
  ['academias.nome', ['unidade']],
  ['personais.nome', ['nomeprofessor', 'professor']],
  ['alunos.nome', ['nomealuno', 'nomecliente', 'aluno', 'cliente']],
  ['email', ['mail', 'enderecoemail', 'correioeletronico', 'emailprincipal']],
  ['alunos.email', ['emailaluno', 'emailcliente']],
  [
    'telefone',
    ['celular', 'telefonecelular', 'celularwhatsapp', 'whatsapp', 'fone', 'tel', 'contato', 'telefonecontato'],
  ],
  ['data_nascimento', ['nascimento', 'nasc', 'datanasc', 'dtnasc', 'dtnascimento', 'aniversario']],
  ['data_inicio', ['inicio', 'dtinicio']],
  ['sexo', ['genero']],
  ['modalidade', ['atividade', 'esporte']],
  ['ativo', ['ativa', 'situacao', 'status']],
  ['criado_em', ['cadastro', 'datacadastro', 'dtcadastro', 'cadastradoem', 'datainscricao']],
  ['alunos.criado_em', ['alunodesde']],
  ['anamnese_secoes.titulo', ['secao']],
];

const TRUE = ['true', 'verdadeiro', 'v', 'sim', 's', 'yes', 'y', '1', 'x', 'ativo', 'ativa'];
const FALSE = ['false', 'falso', 'f', 'nao', 'n', 'no', '0', 'inativo', 'inativa'];

/** DD/MM/YYYY or YYYY-MM-DD, alone or with a time of day, which Excel adds to dates. */
const DATE =
  /^(?:(\d{1,2})[/.-](\d{1,2})[/.-](\d{4})|(\d{4})[/-](\d{1,2})[/-](\d{1,2}))(?:[T ]+(\d{1,2}):(\d\d)(?::(\d\d(?:\.\d+)?))?)?$/;
const MIDNIGHT = '00:00:00';
const ZONE = /:.*(z|[+-]\d\d(:?\d\d)?)$/i;
const TIME = /^timestamp(\(\d\))? with time zone$/;
const LOCAL_TIME = /^timestamp(\(\d\))? without time zone$/;

/** The types with at most two decimals: in their numbers a point before three digits separates thousands. */
const SHORT_TYPE = /^(smallint|integer|bigint|numeric\(\d+,[0-2]\))$/;
const GROUPED = /^-?\d{1,3}(\.\d{3})+$/;
const DECIMAL_COMMA = /^-?(\d+|\d{1,3}(\.\d{3})+),\d+([eE][+-]?\d+)?$/;
const GROUPED_BY_COMMAS = /^-?\d{1,3}(,\d{3})+(\.\d+)?$/;

const NUMBER = /^(-?\d+(\.\d+)?([eE][+-]?\d+)?|NaN|-?Infinity)$/;
const BAD_DATE = 'must be a date that exists, as YYYY-MM-DD or DD/MM/YYYY';
const BAD_TIME = 'must be a time, as 2026-12-31T18:00:00Z';
const BAD_LOCAL_TIME = 'must be a time without a zone, as 2026-12-31T18:00:00';
const BAD_ID = describeKeyword('format', { format: 'uuid' }, 'must match format "uuid"');
const BAD_EMAIL = describeKeyword('format', { format: 'email' }, 'must match format "email"');
const BAD_INTEGER = describeKeyword('type', { type: 'integer' }, 'must be an integer');
const BAD_NUMBER = 'must be a number, as 1234.56 or 1.234,56';

type Check = RegExp | ((text: string) => boolean) | { validate(text: string): boolean };

/** Days that may fall in year 0 or 10000 in UTC, which the API cannot return: a time on them needs a zone, as in RFC 3339. */
const EDGE = /^(000[01]-|9999-12-31)/;

function isTime(text: string): boolean {
  return isOf(text, formats[EDGE.test(text) ? 'date-time' : 'iso-date-time'] as Check);
}

/** A type with several spellings: `write` converts a text to Postgres's spelling, and `check` validates that. */
type Kind = {
  readonly type: RegExp;
  readonly check: Check;
  readonly message: Message;
  write(text: string, type: string): string;
};

const KINDS: readonly Kind[] = [
  { type: /^uuid$/, write: String, check: formats.uuid as Check, message: BAD_ID },
  {
    type: /^boolean$/,
    write: toBoolean,
    check: /^(true|false)$/,
    message: 'must be true or false, sim or não, or ativo or inativo',
  },
  { type: /^date$/, write: toDate, check: formats.date as Check, message: BAD_DATE },
  { type: TIME, write: toTime, check: isTime, message: BAD_TIME },
  { type: LOCAL_TIME, write: toTime, check: formats['date-time-local'] as Check, message: BAD_LOCAL_TIME },
  { type: /^(smallint|integer|bigint)$/, write: toNumber, check: /^-?\d+$/, message: BAD_INTEGER },
  { type: /^(numeric(\(\d+,-?\d+\))?|real|double precision)$/, write: toNumber, check: NUMBER, message: BAD_NUMBER },
];

/** The number of bits of each integer type, without the sign. */
const BITS: Readonly<Record<string, bigint>> = { smallint: 15n, integer: 31n, bigint: 63n };
/** A long number, such as a phone number, in the form in which Excel shows and saves it. */
const SHORTENED = /^\d[.,]\d+E\+\d+$/;
/** The text that a spreadsheet shows, and saves, for a formula that fails or a number that does not fit its column. */
const NO_VALUE = /^#(?:#+|N\/[AD]|REF!|VALUE!|VALOR!|NAME\?|NOME\?|DIV\/0!|N[UÚ]M!|NULL!|NULO!)$/;

/** Removes case, accents, punctuation and filler words, so that names that people consider the same are equal. */
function fold(text: string): string {
  const words = text
    .normalize('NFD')
    .replace(/\p{M}/gu, '')
    .toLowerCase()
    .split(/[^\p{L}\p{N}]+/u);
  return words.filter((word) => !FILLERS.has(word)).join('');
}

/** The accepted names of a column, such as academia_id: also p_academia_id and, for a reference, academia and id_academia. */
function toNames({ name, refers_to }: Column): string[] {
  const thing = name.replace(/_id$/, '');
  return [name, `p_${name}`, ...(refers_to ? [thing, `id_${thing}`] : [])];
}

function findColumn(columns: readonly Column[], title: string): Column | undefined {
  const isNamed = (isSame: (name: string) => boolean) => columns.find((column) => toNames(column).some(isSame));
  const folded = fold(title);
  return isNamed((name) => name === title.toLowerCase()) ?? isNamed((name) => folded !== '' && fold(name) === folded);
}

/** The title of the column with each line's problems, which an import ignores. */
export const PROBLEMS = 'Problems (left out)';

/** Maps the titles of a file to columns, and lists the mistakes. A column without a title is ignored. */
export function readTitles(
  titles: readonly string[],
  table: Pick<Table, 'name' | 'columns'>,
  { map = new Map(), ignoreUnknown = false }: TitleOptions = {},
): { readonly headers: readonly Header[]; readonly mistakes: readonly string[]; readonly hasUnknown: boolean } {
  const mapped = new Map([...map].map(([title, name]) => [fold(title), name]));
  const folded = titles.map(fold);
  const named = titles.map((title, index) => findColumn(table.columns, mapped.get(folded[index] ?? '') ?? title));
  const headers = titles.map((title, index) => {
    const name = folded[index] ?? '';
    return { title, column: named[index] ?? (mapped.has(name) ? undefined : findCommon(name, table, named)) };
  });
  const firsts = new Map<Column, string>();
  let hasUnknown = false;
  const mistakes = headers.flatMap(({ title, column }, index) => {
    const name = mapped.get(folded[index] ?? '');
    if (title === '' || name === '') return [];
    if (!column && name !== undefined) return [t`--map names ${quote(name)}, which is not a column`];
    if (!column && (ignoreUnknown || inAll(PROBLEMS).includes(title))) return [];
    hasUnknown ||= !column;
    if (!column) return [t`unknown column ${quote(title)}`];
    const first = firsts.get(column);
    firsts.set(column, first ?? title);
    return first === undefined ? [] : [t`columns ${quote(first)} and ${quote(title)} are both ${column.name}`];
  });
  const unused = [...map.keys()].filter((title) => !folded.includes(fold(title)));
  mistakes.push(...unused.map((title) => t`--map names ${quote(title)}, which is not in the first line`));
  return { headers, mistakes, hasUnknown };
}

function findCommon(title: string, table: Pick<Table, 'name' | 'columns'>, taken: readonly unknown[]) {
  const names = COMMON_NAMES.filter(([, titles]) => titles.includes(title)).map(([name]) => name);
  const free = table.columns.filter((column) => !taken.includes(column));
  const isNamed = (name: string) => (column: Column) => [column.name, `${table.name}.${column.name}`].includes(name);
  return names.flatMap((name) => free.find(isNamed(name)) ?? [])[0];
}

function quote(title: string): string {
  return JSON.stringify(title.slice(0, MAX_TITLE));
}

/** Whether a line comes from an export, as its id shows: the store has the same blanks. */
export function isExported(texts: readonly string[], headers: readonly Header[]): boolean {
  return headers.some(({ column }, index) => column?.name === 'id' && (texts[index] ?? '').trim() !== '');
}

/**
 * Converts a text to Postgres's spelling; leaves an unrecognized text to checkValue. Only `exact` keeps surrounding blanks, and accents
 * that are characters of their own.
 */
export function toValue(text: string, { name, type, refers_to }: Column, exact = false): string {
  const plain = withPlainBlanks(text).trim();
  if (refers_to || name === 'email') return plain;
  return findKind(type)?.write(plain, type) ?? (exact ? text : plain.normalize());
}

/** Replaces blanks such as U+00A0, and removes invisible characters: text from web pages and spreadsheets has both. */
export function withPlainBlanks(text: string): string {
  return text.replace(/\p{Zs}/gu, ' ').replace(INVISIBLE, '');
}

/** Finds a value's problem, in the API's words; undefined if it is valid. An `exact` value was exported, so the store has accepted it. */
export function checkValue(value: string, column: Column, exact = false): Message | undefined {
  const { name, type, max_length: maxLength, refers_to } = column;
  const problem = /^jsonb?$/.test(type) ? findJsonProblem(value) : findProblem(value);
  if (problem !== undefined) return problem;
  if (refers_to) return undefined;
  const kind = findKind(type);
  if (kind) return isOf(value, kind.check) ? (findRounding(value, type) ?? findOverflow(value, type)) : kind.message;
  if (name === 'email' && !isOf(value, formats.email as Check)) return BAD_EMAIL;
  if (!exact && NO_VALUE.test(value))
    return t`is what a spreadsheet shows in place of a value: correct the cell, or leave it empty`;
  if (!exact && SHORTENED.test(value)) return t`is a number that Excel has shortened: format its column as text`;
  // Postgres counts a surrogate pair as one character.
  const isLong = maxLength !== null && value.length > maxLength && [...value].length > maxLength;
  if (!isLong) return undefined;
  return describeKeyword('maxLength', { limit: maxLength }, `must NOT have more than ${maxLength} characters`);
}

/** Finds decimals that Postgres would silently round away. */
function findRounding(value: string, type: string): Message | undefined {
  const [, decimals = ''] = /^-?\d+\.(\d*[1-9])0*$/.exec(value) ?? [];
  const scale = Number(/^numeric\(\d+,(\d+)\)$/.exec(type)?.[1] ?? decimals.length);
  if (decimals.length <= scale) return undefined;
  const multipleOf = (10 ** -scale).toFixed(scale);
  return describeKeyword('multipleOf', { multipleOf }, `must be multiple of ${multipleOf}`);
}

/** Finds a number that is out of range. Postgres's own error would not name the range. */
function findOverflow(value: string, type: string): Message | undefined {
  const [, digits = '0', scale = '0'] = /^numeric\((\d+),(\d+)\)$/.exec(type) ?? [];
  const [whole] = /^-?\d+(?=$|\.)/.exec(value) ?? [];
  const bits = BITS[type];
  const end = bits ? 2n ** bits : 10n ** BigInt(Math.max(0, Number(digits) - Number(scale)));
  if (whole === undefined || (!bits && digits === '0')) return undefined;
  const least = bits ? -end : 1n - end;
  if (BigInt(whole) >= least && BigInt(whole) < end) return undefined;
  const decimals = scale === '0' ? '' : `.${'9'.repeat(Number(scale))}`;
  return t`must be from ${least}${decimals} to ${end - 1n}${decimals}`;
}

function findKind(type: string): Kind | undefined {
  return type === 'text' ? undefined : KINDS.find((kind) => kind.type.test(type));
}

function isOf(value: string, check: Check): boolean {
  if (check instanceof RegExp) return check.test(value);
  return typeof check === 'function' ? check(value) : check.validate(value);
}

function findJsonProblem(text: string): Message | undefined {
  try {
    return findProblem(JSON.parse(text));
  } catch {
    return 'must be JSON';
  }
}

function toBoolean(text: string): string {
  const folded = fold(text);
  if (TRUE.includes(folded)) return 'true';
  return FALSE.includes(folded) ? 'false' : text;
}

function toDate(text: string): string {
  const [date = text, time] = toTime(text).split('T');
  return time === MIDNIGHT ? date : text;
}

function toTime(text: string): string {
  const match = DATE.exec(text);
  if (!match) return text;
  const [, day, month, year, isoYear, isoMonth, isoDay, hour = '00', minute = '00', second = '00'] = match;
  const pad = (digits = '') => digits.padStart(2, '0');
  const date = `${year ?? isoYear}-${pad(month ?? isoMonth)}-${pad(day ?? isoDay)}`;
  return `${date}T${pad(hour)}:${minute}:${second}`;
}

/** Appends the time zone to a time without one: Citus nodes compare times, and do not know the session's zone. */
export function inZone(text: string, { type }: Column, timeZone: string): string {
  return !TIME.test(type) || ZONE.test(text) ? text : `${text} ${timeZone}`;
}

/** Converts a number such as `R$ 1.234,56` or `1234.56` to Postgres's spelling, without an exponent. */
function toNumber(text: string, type: string): string {
  const number = toPoint(text, type);
  return /e/i.test(number) ? toPlainNumber(number) : number;
}

/** Removes the currency and the separators of thousands, and writes a decimal point. */
function toPoint(text: string, type: string): string {
  const digits = text.replace(/R\$|\s/g, '');
  if (DECIMAL_COMMA.test(digits)) return digits.replaceAll('.', '').replace(',', '.');
  if (GROUPED_BY_COMMAS.test(digits)) return digits.replaceAll(',', '');
  const isGrouped = GROUPED.test(digits) && (SHORT_TYPE.test(type) || digits !== text || /\..*\./.test(digits));
  return isGrouped ? digits.replaceAll('.', '') : digits;
}
