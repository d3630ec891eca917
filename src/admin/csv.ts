// CSV (RFC 4180): decodes and parses a file as a stream, and writes records.

import { TextDecoder } from 'node:util';
import { parse } from 'csv-parse';
import { t } from './language.ts';
import { CommandError } from './terminal.ts';

/** A record: the number of its first line, and its values, or why reading stops there. */
export type CsvRecord = { readonly line: number } & ({ readonly cells: string[] } | { readonly problem: string });

/** Maximum bytes of a record: an unclosed quote would otherwise make the rest of the file one record. */
const MAX_RECORD = 1_000_000;
/** Maximum characters of the header. */
const MAX_HEADER = 100_000;

const LINE_BREAK = /\r\n|\r|\n/g;
const DELIMITERS = [',', ';', '\t'];
/** A first line that tells Excel the delimiter. */
const DECLARATION = /^"?sep=(.)"?(?=[\r\n])/i;

const AS_CSV =
  'Save its sheet as CSV: in Excel "File, Save As, CSV UTF-8 (Comma delimited)", in Portuguese "Arquivo, Salvar como, CSV UTF-8 (Delimitado por vírgulas)".';

const PROBLEMS: Readonly<Record<string, () => string>> = {
  CSV_INVALID_CLOSING_QUOTE: () => t`a value continues after its closing quote; write a quote within a value twice`,
  INVALID_OPENING_QUOTE: () => t`a quote is in a value that is not quoted; quote the value and write the quote twice`,
  CSV_QUOTE_NOT_CLOSED: () => t`a quote is not closed`,
  CSV_MAX_RECORD_SIZE: () => t`is longer than ${MAX_RECORD} bytes; a quote may not be closed`,
};

/** Signatures of workbooks: zip (.xlsx, .ods) and Microsoft's compound file (.xls). */
const WORKBOOKS = ['504b0304', 'd0cf11e0'];
/** Encodings by the first two bytes of their byte order mark: spreadsheets save "Unicode text" in UTF-16. */
const MARKED: Readonly<Record<string, string>> = { efbb: 'utf-8', fffe: 'utf-16le', feff: 'utf-16be' };

/**
 * Decodes a file and removes its byte order mark, which overrides `encoding`. Throws CommandError for bytes that the encoding does not
 * allow, and for UTF-8 if another encoding was given, in which every byte may be a letter.
 */
export async function* decode(
  name: string,
  bytes: AsyncIterable<Uint8Array>,
  encoding: string,
): AsyncGenerator<string> {
  let used = encoding;
  let strict: TextDecoder | undefined;
  // Finds the line where the strict one fails.
  let lenient: TextDecoder | undefined;
  /** Tries UTF-8 up to the first character outside ASCII. */
  let guess: TextDecoder | undefined;
  let line = 1;
  // The last character: a chunk may end between CR and LF.
  let end = '';
  const countNewBreaks = (text: string) => countBreaks(end + text) - countBreaks(end);
  const check = (text: string, chunk?: Uint8Array) => {
    try {
      strict?.decode(chunk, { stream: chunk !== undefined });
    } catch {
      const at = line + countNewBreaks(text.slice(0, text.indexOf('\ufffd')));
      const hint = 'Save the file as UTF-8, or name its encoding: Excel writes --encoding windows-1252.';
      throw new CommandError(t`${name}, line ${at}: not ${used}; nothing was imported`, hint);
    }
  };
  for await (const chunk of bytes) {
    if (!lenient) {
      const begin = Buffer.from(chunk.subarray(0, 4)).toString('hex');
      if (WORKBOOKS.includes(begin)) {
        throw new CommandError(t`${name} is a workbook (.xlsx, .xls or .ods): nothing was imported`, AS_CSV);
      }
      used = MARKED[begin.slice(0, 4)] ?? encoding;
      [strict, lenient] = [new TextDecoder(used, { fatal: true }), new TextDecoder(used)];
      if (used === encoding && used !== 'utf-8') guess = new TextDecoder();
    }
    const guessed = guess?.decode(chunk, { stream: true }) ?? '';
    if (/\P{ASCII}/u.test(guessed)) {
      guess = undefined;
      if (!guessed.includes('\ufffd')) {
        throw new CommandError(t`${name} is UTF-8, and not ${encoding}: nothing was imported`, 'Leave out --encoding.');
      }
    }
    const text = lenient.decode(chunk, { stream: true });
    check(text, chunk);
    yield text;
    line += countNewBreaks(text);
    end = text.slice(-1);
  }
  check('');
}

function countBreaks(text: string): number {
  return text.match(LINE_BREAK)?.length ?? 0;
}

/**
 * Parses CSV and skips blank records. The default delimiter is that of a first line such as `sep=;`, or the most frequent of comma,
 * semicolon and tab in the header; `onDelimiter` receives it. Malformed quotes end the reading with a record that has the problem.
 */
export async function* readRecords(
  text: AsyncIterable<string>,
  delimiter?: string,
  onDelimiter?: (delimiter: string) => void,
): AsyncGenerator<CsvRecord, void> {
  let parser: RecordParser | undefined;
  let pending = '';
  for await (const piece of withEnd(text)) {
    pending += piece ?? '';
    // Only the new piece: searching the whole text each time would be quadratic.
    if (!parser && piece !== undefined && !/[\r\n]/.test(piece) && pending.length < MAX_HEADER) continue;
    if (!parser) {
      const used = delimiter ?? findDelimiter(pending);
      onDelimiter?.(used);
      parser = createParser(used);
      // Leaves a blank line, so that line numbers stay right.
      pending = pending.replace(DECLARATION, '');
    }
    for (const record of await parser(pending, piece === undefined)) {
      yield record;
      if ('problem' in record) return;
    }
    pending = '';
  }
}

/** The pieces of a text, and undefined at its end. */
async function* withEnd(text: AsyncIterable<string>): AsyncGenerator<string | undefined> {
  yield* text;
  yield undefined;
}

/** csv-parse's own `delimiter_auto` fails on characters beyond ASCII. */
function findDelimiter(text: string): string {
  const declared = DECLARATION.exec(text)?.[1];
  if (declared) return declared;
  const [header = ''] = text.split(/[\r\n]/, 1);
  const count = (delimiter: string) => header.split(delimiter).length;
  return DELIMITERS.reduce((best, delimiter) => (count(delimiter) > count(best) ? delimiter : best));
}

type RecordParser = (text: string, isLast: boolean) => Promise<CsvRecord[]>;

/** Feeds csv-parse through its callbacks: as a stream it drops the records before an error. */
function createParser(delimiter: string): RecordParser {
  const found: string[][] = [];
  let line = 1;
  const parser = parse({
    delimiter,
    record_delimiter: ['\r\n', '\n', '\r'],
    relax_column_count: true,
    max_record_size: MAX_RECORD,
    on_record: (cells: string[]) => {
      found.push(cells);
      return null;
    },
  });
  // The callbacks below get the error.
  parser.on('error', () => {}).resume();
  return async (text, isLast) => {
    const { promise, resolve } = Promise.withResolvers<(Error & { code?: string }) | null | undefined>();
    if (isLast) parser.end(text, resolve as () => void);
    else parser.write(text, resolve);
    const error = await promise;
    const records: CsvRecord[] = [];
    for (const cells of found.splice(0)) {
      if (cells.some((cell) => cell.trim() !== '')) records.push({ line, cells });
      // The parser's own `info.lines` counts CRLF within quotes as two lines.
      line += 1 + cells.reduce((sum, cell) => sum + countBreaks(cell), 0);
    }
    if (!error) return records;
    const problem = t`${PROBLEMS[error.code ?? '']?.() ?? error.message}; the rest was not read`;
    return [...records, { line, problem }];
  };
}

/** CSV with a line for each record. A delimiter that an import does not detect is replaced by a comma. */
export function toCsv(records: readonly (readonly (string | null)[])[], delimiter = ','): string {
  const separator = DELIMITERS.includes(delimiter) ? delimiter : ',';
  return records.map((texts) => `${texts.map((text) => toCell(text ?? '')).join(separator)}\r\n`).join('');
}

function toCell(text: string): string {
  return /[",;\t\r\n]|^\s|\s$/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
