// CSV (RFC 4180): a file as a stream, from bytes to text to records, and the lines of one.

import { TextDecoder } from 'node:util';
import { parse } from 'csv-parse';
import { t } from './language.ts';
import { CommandError } from './terminal.ts';

/** One record: the line where it begins, counted from 1, and its values, or why reading stops there. */
export type CsvRecord = { readonly line: number } & ({ readonly cells: string[] } | { readonly problem: string });

/** Maximum bytes of a record. In a longer one a quote is probably not closed, and it would hold the whole file. */
const MAX_RECORD = 1_000_000;
/** Maximum characters of the header. */
const MAX_HEADER = 100_000;

const LINE_BREAK = /\r\n|\r|\n/g;
const DELIMITERS = [',', ';', '\t'];
/** The first line of a file that tells Excel its delimiter. */
const DECLARATION = /^"?sep=(.)"?(?=[\r\n])/i;

const AS_CSV =
  'Save its sheet as CSV: in Excel "File, Save As, CSV UTF-8 (Comma delimited)", in Portuguese "Arquivo, Salvar como, CSV UTF-8 (Delimitado por vírgulas)".';

const PROBLEMS: Readonly<Record<string, () => string>> = {
  CSV_INVALID_CLOSING_QUOTE: () => t`a value continues after its closing quote; write a quote within a value twice`,
  INVALID_OPENING_QUOTE: () => t`a quote is in a value that is not quoted; quote the value and write the quote twice`,
  CSV_QUOTE_NOT_CLOSED: () => t`a quote is not closed`,
  CSV_MAX_RECORD_SIZE: () => t`is longer than ${MAX_RECORD} bytes; a quote may not be closed`,
};

/** The first bytes of files that are no CSV: archives of zip (.xlsx and .ods), and Microsoft's compound files (.xls). */
const WORKBOOKS = ['504b0304', 'd0cf11e0'];
/** The encodings that a byte order mark names, by its first two bytes: spreadsheets save "Unicode text" in UTF-16. */
const MARKED: Readonly<Record<string, string>> = { efbb: 'utf-8', fffe: 'utf-16le', feff: 'utf-16be' };

/**
 * Decodes a file, without a byte order mark, which counts more than `encoding`. Throws CommandError for bytes of another encoding,
 * with the line, and for UTF-8 that is read as another: each of its bytes would be a letter.
 */
export async function* decode(
  name: string,
  bytes: AsyncIterable<Uint8Array>,
  encoding: string,
): AsyncGenerator<string> {
  let used = encoding;
  let strict: TextDecoder | undefined;
  // Shows where the strict one fails.
  let lenient: TextDecoder | undefined;
  /** Reads it as UTF-8 up to the first letter that is not ASCII. */
  let guess: TextDecoder | undefined;
  let line = 1;
  // The last character: a chunk may end within CRLF.
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
 * The records of a CSV text without those that are blank. The default delimiter is the one that a first line `sep=;`
 * names, or the most frequent of comma, semicolon and tab in the header; `onDelimiter` gets the one that is used. Malformed quotes end
 * the reading, and the last record says so.
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
      // The line stays, blank, and is counted.
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

/** Takes a part of the text, and whether it is the last one. */
type RecordParser = (text: string, isLast: boolean) => Promise<CsvRecord[]>;

/** Read as a stream, the parser would drop the records before an error. */
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

/** A line of CSV. The delimiter is a comma unless it is another one that an import finds by itself. */
export function toLine(texts: readonly (string | null)[], delimiter = ','): string {
  return `${texts.map((text) => toCell(text ?? '')).join(DELIMITERS.includes(delimiter) ? delimiter : ',')}\r\n`;
}

function toCell(text: string): string {
  return /[",;\t\r\n]|^\s|\s$/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
