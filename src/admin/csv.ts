// CSV (RFC 4180): decodes and parses a file, and writes records.

import { constants, isAscii, isUtf8 } from 'node:buffer';
import { type CsvError, parse } from 'csv-parse/sync';
import { t, translate } from './language.ts';
import { CommandError } from './terminal.ts';

/** A record; `line` is the number of its first line. */
export type CsvRecord = { readonly line: number; readonly cells: readonly string[] };

/** The detected delimiters. On a tie the first wins; the comma is last, because titles contain commas. */
const DELIMITERS = ['\t', ';', ','];
/** How much of a file is searched for the delimiter, in characters. */
const MAX_HEADER = 100_000;
/** A first line that tells Excel the delimiter. */
const DECLARATION = /^"?sep=(.)"?(?=[\r\n])/i;

const AS_CSV =
  'Save its sheet as CSV: in Excel "File, Save As, CSV UTF-8 (Comma delimited)", in Portuguese "Arquivo, Salvar como, CSV UTF-8 (Delimitado por vírgulas)".';
const AS_UTF8 =
  'Save the file as UTF-8, in Excel as "CSV UTF-8", or name its encoding: --encoding windows-1252 is that of Excel\'s other CSV, except MS-DOS.';

const PROBLEMS: Readonly<Record<string, string>> = {
  CSV_INVALID_CLOSING_QUOTE: 'a value continues after its closing quote; write a quote within a value twice',
  INVALID_OPENING_QUOTE: 'a quote is in a value that is not quoted; quote the value and write the quote twice',
  CSV_QUOTE_NOT_CLOSED: 'a quote is not closed',
};

/** Signatures of workbooks: zip (.xlsx, .ods) and Microsoft's compound file (.xls). */
const WORKBOOKS = ['504b0304', 'd0cf11e0'];
/** Encodings by the first two bytes of their byte order mark: spreadsheets save "Unicode text" in UTF-16. */
const MARKED: Readonly<Record<string, string>> = { efbb: 'utf-8', fffe: 'utf-16le', feff: 'utf-16be' };

/** The bytes that windows-1252 leaves undefined, as decoded. They suggest an MS-DOS encoding. */
const UNASSIGNED = /[\u0080-\u009f]/;

/** Throws CommandError for a file that is too large for a JavaScript string. */
export function requireSize(name: string, bytes: number): void {
  if (bytes > constants.MAX_STRING_LENGTH) throw new CommandError(t`${name} is larger than 512 MB: split it`);
}

/**
 * Decodes a file and removes its byte order mark, which overrides `encoding`. Throws CommandError for bytes that the encoding does not
 * allow, and for UTF-8 if another encoding was given, which may decode it to wrong letters without an error.
 */
export function decode(name: string, bytes: Uint8Array, encoding: string): string {
  requireSize(name, bytes.length);
  const begin = Buffer.from(bytes.subarray(0, 4)).toString('hex');
  if (WORKBOOKS.includes(begin)) {
    throw new CommandError(t`${name} is a workbook (.xlsx, .xls or .ods): nothing was imported`, AS_CSV);
  }
  const marked = MARKED[begin.slice(0, 4)];
  const used = marked ?? encoding;
  if (!marked && used !== 'utf-8' && isUtf8(bytes) && !isAscii(bytes)) {
    throw new CommandError(t`${name} is UTF-8, and not ${encoding}: nothing was imported`, 'Leave out --encoding.');
  }
  const fail = (before: string, hint: string) => {
    const line = 1 + countBreaks(before);
    return new CommandError(t`${name}, line ${line}: not ${used}; nothing was imported`, hint);
  };
  let text = '';
  try {
    text = new TextDecoder(used, { fatal: true }).decode(bytes);
  } catch {
    const [before = ''] = new TextDecoder(used).decode(bytes).split('\ufffd', 1);
    throw fail(before, AS_UTF8);
  }
  const at = used === 'windows-1252' ? text.search(UNASSIGNED) : -1;
  if (at >= 0) throw fail(text.slice(0, at), AS_CSV);
  return text;
}

function countBreaks(text: string): number {
  return text.match(/\r\n|\r|\n/g)?.length ?? 0;
}

/**
 * Finds the delimiter: that of a first line such as `sep=;`, or else the most frequent one of the header outside of quotes.
 * csv-parse's own `delimiter_auto` fails on characters beyond ASCII.
 */
export function findDelimiter(text: string): string {
  const declared = DECLARATION.exec(text)?.[1];
  if (declared) return declared;
  // A quoted title may contain a line break. Any other quote is an ordinary character.
  const [header = ''] =
    /^(?:(?<=^|[;,\t])"(?:[^"]|"")*"|[^\r\n])*/.exec(text.slice(0, MAX_HEADER).replace(/^[\r\n]+/, '')) ?? [];
  const unquoted = header.replaceAll(/"(?:[^"]|"")*("|$)/g, '');
  const count = (delimiter: string) => unquoted.split(delimiter).length;
  const [most = ','] = DELIMITERS.toSorted((one, other) => count(other) - count(one));
  return count(most) > 1 ? most : ',';
}

/** Parses CSV and skips blank records. Throws CommandError for malformed quotes. */
export function readRecords(name: string, text: string, delimiter: string): CsvRecord[] {
  const records: CsvRecord[] = [];
  let line = 1;
  const add = (cells: string[]) => {
    if (cells.some((cell) => cell.trim() !== '')) records.push({ line, cells });
    // The parser's own `info.lines` counts CRLF within quotes as two lines.
    line += 1 + cells.reduce((sum, cell) => sum + countBreaks(cell), 0);
    return null;
  };
  try {
    // The declaration becomes a blank line, so that line numbers stay right.
    parse(text.replace(DECLARATION, ''), {
      delimiter,
      record_delimiter: ['\r\n', '\n', '\r'],
      relax_column_count: true,
      on_record: add,
    });
  } catch (error) {
    const { code, message } = error as CsvError;
    throw new CommandError(t`${name}, line ${line}: ${translate(PROBLEMS[code] ?? message)}`);
  }
  return records;
}

/** Writes records as CSV. A delimiter that an import does not detect is replaced by a comma. */
export function toCsv(records: readonly (readonly (string | null)[])[], delimiter = ','): string {
  const separator = DELIMITERS.includes(delimiter) ? delimiter : ',';
  return records.map((texts) => `${texts.map((text) => toCell(text ?? '')).join(separator)}\r\n`).join('');
}

function toCell(text: string): string {
  return /[",;\t\r\n]|^\s|\s$/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
