// From a spreadsheet to a table: the names that people give to columns, and the values that they write.

import { findProblem, type Problems } from '../api/request.ts';
import { toFieldErrors } from '../api/validate.ts';
import { type Message, mapMessages, toEnglish } from '../errors.ts';
import { createAjv } from '../openapi/compile.ts';
import type { Column } from './tables.ts';

/** The texts of a record by column. */
export type Fields = Record<string, string>;

/** How columns are found that do not have the name of one. */
type TitleOptions = {
  /** The columns of titles that nothing else explains. */
  readonly map?: ReadonlyMap<string, string>;
  readonly ignoreUnknown?: boolean;
};

/** The column for each title of a file, undefined for one to leave out, and what is wrong with the titles. */
type Titles = { readonly columns: readonly (Column | undefined)[]; readonly mistakes: readonly string[] };

/** What is shown of a title, in characters. */
const MAX_TITLE = 100;

/** As in "Data de Nascimento". */
const FILLERS: ReadonlySet<string> = new Set(['de', 'da', 'do', 'das', 'dos']);

/** What spreadsheets of gyms call a column, if they do not use its name; an earlier column counts first. */
const COMMON_NAMES: readonly (readonly [column: string, titles: readonly string[]])[] = [
  ['academia_id', ['unidade', 'filial', 'nomeacademia', 'nomeunidade']],
  ['personal_id', ['personaltrainer', 'professor', 'treinador', 'instrutor']],
  ['nome', ['nomecompleto', 'nomealuno', 'nomecliente', 'nomeprofessor', 'aluno', 'cliente', 'professor', 'unidade']],
  ['email', ['mail', 'enderecoemail', 'correioeletronico', 'emailaluno', 'emailcliente', 'emailprincipal']],
  [
    'telefone',
    ['celular', 'telefonecelular', 'celularwhatsapp', 'whatsapp', 'fone', 'tel', 'contato', 'telefonecontato'],
  ],
  ['data_nascimento', ['nascimento', 'nasc', 'datanasc', 'dtnasc', 'dtnascimento', 'aniversario']],
  ['data_inicio', ['inicio', 'dtinicio']],
  ['sexo', ['genero']],
  ['modalidade', ['atividade', 'esporte']],
  ['ativo', ['ativa', 'situacao', 'status']],
  ['criado_em', ['cadastro', 'datacadastro', 'dtcadastro', 'cadastradoem', 'datainscricao', 'alunodesde']],
  ['titulo', ['secao']],
];

const TRUE = ['true', 'verdadeiro', 'v', 'sim', 's', 'yes', 'y', '1', 'x', 'ativo', 'ativa'];
const FALSE = ['false', 'falso', 'f', 'nao', 'n', 'no', '0', 'inativo', 'inativa'];

/** DD/MM/YYYY or YYYY-MM-DD, alone or with a time of day, which Excel adds to dates. */
const DATE =
  /^(?:(\d{1,2})[/.-](\d{1,2})[/.-](\d{4})|(\d{4})[/-](\d{1,2})[/-](\d{1,2}))(?:[T ]+(\d{1,2}):(\d\d)(?::(\d\d(?:\.\d+)?))?)?$/;
const MIDNIGHT = '00:00:00';
const ZONE = /:.*(z|[+-]\d\d(:?\d\d)?)$/i;
const TIME = 'timestamp with time zone';

const NUMBER_TYPE = /^(numeric|smallint|integer|bigint|real|double precision)/;
const INTEGER_TYPE = /^(smallint|integer|bigint)$/;
/** A type whose numbers have at most two decimals, so that a point before three digits separates thousands. */
const SHORT_TYPE = /^(smallint|integer|bigint|numeric\(\d+,[0-2]\))$/;
const GROUPED = /^-?\d{1,3}(\.\d{3})+$/;

/** A text by which people would say that two names are the same: without accents, capitals, blanks and hyphens. */
function fold(text: string): string {
  const words = text
    .normalize('NFD')
    .replace(/\p{M}/gu, '')
    .toLowerCase()
    .split(/[^\p{L}\p{N}]+/u);
  return words.filter((word) => !FILLERS.has(word)).join('');
}

/** The names of a column: the table's, those of the interface, and one without _id for an e-mail or a name. */
function toNames({ name, refers_to }: Column): string[] {
  const thing = name.replace(/_id$/, '');
  return [name, `p_${name}`, ...(refers_to ? [thing, `id_${thing}`] : [])];
}

/** Finds a column by one of its names, however it is written. */
export function findColumn(columns: readonly Column[], title: string): Column | undefined {
  const isNamed = (isSame: (name: string) => boolean) => columns.find((column) => toNames(column).some(isSame));
  const folded = fold(title);
  return isNamed((name) => name === title.toLowerCase()) ?? isNamed((name) => fold(name) === folded);
}

/** Finds the columns for the titles of a file. One without a title is left out. */
export function findColumns(
  titles: readonly string[],
  columns: readonly Column[],
  { map = new Map(), ignoreUnknown = false }: TitleOptions,
): Titles {
  const folded = titles.map(fold);
  const mapped = new Map([...map].map(([title, name]) => [fold(title), name]));
  const named = titles.map((title, index) => findColumn(columns, mapped.get(folded[index] ?? '') ?? title));
  const taken = new Set(named);
  const found = named.map((column, index) => {
    const title = folded[index] ?? '';
    return column ?? (mapped.has(title) ? undefined : findCommon(title, columns, taken));
  });
  const firsts = new Map<Column, string>();
  const mistakes = titles.flatMap((title, index) => {
    const [column, name] = [found[index], mapped.get(folded[index] ?? '')];
    if (title === '') return [];
    if (!column && name !== undefined) return [`--map names ${quote(name)}, which is no column`];
    if (!column) return ignoreUnknown ? [] : [`unknown column ${quote(title)}`];
    const first = firsts.get(column);
    firsts.set(column, first ?? title);
    return first === undefined ? [] : [`columns ${quote(first)} and ${quote(title)} are both ${column.name}`];
  });
  const unused = [...map.keys()].filter((title) => !folded.includes(fold(title)));
  return {
    columns: found,
    mistakes: [...mistakes, ...unused.map((title) => `--map names ${quote(title)}, which is not in the first line`)],
  };
}

function findCommon(title: string, columns: readonly Column[], taken: ReadonlySet<unknown>): Column | undefined {
  const names = COMMON_NAMES.filter(([, titles]) => titles.includes(title)).map(([name]) => name);
  return names.flatMap((name) => columns.find((column) => column.name === name && !taken.has(column)) ?? [])[0];
}

function quote(title: string): string {
  return JSON.stringify(title.slice(0, MAX_TITLE));
}

/** What people write, as Postgres takes it. A text that is none of the type is left for the check. */
export function toValue(text: string, { name, type, refers_to }: Column): string {
  const value = text.trim();
  if (type === 'boolean') return toBoolean(value);
  if (type === 'date') return toDate(value);
  if (type === TIME) return toTime(value);
  if (NUMBER_TYPE.test(type)) return toNumber(value, type);
  return refers_to || type === 'uuid' || name === 'email' ? value : text;
}

function toBoolean(text: string): string {
  const folded = fold(text);
  if (TRUE.includes(folded)) return 'true';
  return FALSE.includes(folded) ? 'false' : text;
}

function readDate(text: string): { date: string; time: string | undefined } | undefined {
  const match = DATE.exec(text);
  if (!match) return undefined;
  const [, day, month, year, isoYear, isoMonth, isoDay, hour, minute, second = '00'] = match;
  const pad = (digits = '') => digits.padStart(2, '0');
  const date = `${year ?? isoYear}-${pad(month ?? isoMonth)}-${pad(day ?? isoDay)}`;
  return { date, time: hour && `${pad(hour)}:${minute}:${second}` };
}

function toDate(text: string): string {
  const read = readDate(text);
  return read && (read.time ?? MIDNIGHT) === MIDNIGHT ? read.date : text;
}

function toTime(text: string): string {
  const read = readDate(text);
  return read ? `${read.date}T${read.time ?? MIDNIGHT}` : text;
}

/** A checked value, with the time zone for a time without one. Postgres knows the daylight saving time of each date. */
export function inZone(text: string, { type }: Column, timeZone: string): string {
  return type !== TIME || ZONE.test(text) ? text : `${text} ${timeZone}`;
}

/** `R$ 1.234,56` and `1234.56`. */
function toNumber(text: string, type: string): string {
  const digits = text.replace(/R\$|\s/g, '');
  const [point, comma] = [digits.lastIndexOf('.'), digits.lastIndexOf(',')];
  const isCommaDecimal = comma > point && digits.indexOf(',') === comma;
  if (isCommaDecimal) return digits.replaceAll('.', '').replace(',', '.');
  if (comma >= 0) return digits.replaceAll(',', '');
  const isGrouped = GROUPED.test(digits) && (SHORT_TYPE.test(type) || digits !== text || /\..*\./.test(digits));
  return isGrouped ? digits.replaceAll('.', '') : digits;
}

/** Whether a line has been exported: people do not write ids. A text that is blank there is blank in the store. */
function isExported(fields: Fields): boolean {
  return fields.id !== undefined;
}

/** Adds the required texts that are empty in a line that has been exported. */
export function addBlankTexts(fields: Fields, columns: readonly Column[]): void {
  if (!isExported(fields)) return;
  for (const { name, type, required } of columns) if (required && type === 'text') fields[name] ??= '';
}

/** Creates the check of a record's fields, with the messages of the API. A partial one requires none. */
export function createCheck(
  columns: readonly Column[],
  { isPartial = false } = {},
): (fields: Fields) => Record<string, string[]> {
  const required = columns.filter((column) => column.required).map((column) => column.name);
  const compile = (mayBeBlank: boolean) => {
    const properties = Object.fromEntries(columns.map((column) => [column.name, toSchema(column, mayBeBlank)]));
    const requestBody = { type: 'object', properties, required: isPartial ? [] : required };
    return createAjv().compile({ type: 'object', properties: { requestBody } });
  };
  const [validateExported, validateOther] = [compile(true), compile(false)];
  const documents = columns.filter(({ type }) => type === 'jsonb').map(({ name }) => name);
  return (fields) => {
    const validate = isExported(fields) ? validateExported : validateOther;
    validate({ requestBody: fields });
    return mapMessages(toFieldErrors(validate.errors ?? [], findProblems(fields, documents), []), toEnglish);
  };
}

function toSchema({ name, type, required, max_length: maxLength, refers_to }: Column, mayBeBlank: boolean): object {
  if (refers_to) return {};
  if (INTEGER_TYPE.test(type)) return { pattern: '^-?\\d+$', 'x-pattern-message': 'must be an integer' };
  if (NUMBER_TYPE.test(type)) {
    const pattern = '^(-?\\d+(\\.\\d+)?([eE][+-]?\\d+)?|NaN|-?Infinity)$';
    return { pattern, 'x-pattern-message': 'must be a number, as 1234.56 or 1.234,56' };
  }
  switch (type) {
    case 'uuid':
      return { format: 'uuid' };
    case 'boolean':
      return { pattern: '^(true|false)$', 'x-pattern-message': 'must be true or false, or sim or não' };
    case 'date':
      return { format: 'date', 'x-format-message': 'must be a date that exists, as YYYY-MM-DD or DD/MM/YYYY' };
    case TIME:
      return { format: 'iso-date-time', 'x-format-message': 'must be a time, as 2026-12-31T18:00:00Z' };
    default:
      return {
        ...(maxLength === null ? {} : { maxLength }),
        ...(name === 'email' ? { format: 'email' } : {}),
        ...(required && !mayBeBlank ? { pattern: '[^\\s\\x85]', 'x-pattern-message': 'must not be blank' } : {}),
      };
  }
}

function findProblems(fields: Fields, documents: readonly string[]): Problems {
  const found = Object.entries(fields).map(([field, text]) => {
    const problem = documents.includes(field) ? findDocumentProblem(text) : findProblem(text);
    return [field, problem] as const;
  });
  return new Map(found.flatMap(([field, problem]) => (problem ? [[field, [problem]]] : [])));
}

function findDocumentProblem(text: string): Message | undefined {
  try {
    return findProblem(JSON.parse(text));
  } catch {
    return 'must be JSON';
  }
}
