// CSV (RFC 4180) in a stream, from text to records.

import { parse } from 'csv-parse';
import { countBreaks } from './text.ts';

/** One record: the line that it begins on, the first being 1, and its values or why reading ends there. */
export type CsvRecord = { readonly line: number } & ({ readonly cells: string[] } | { readonly problem: string });

/** A longer record is taken for a quote that is not closed, in bytes: reading on would hold all of the file. */
const MAX_RECORD = 1_000_000;
/** Where no line ends by here it is no header, in characters. */
const MAX_HEADER = 100_000;

const DELIMITERS = [',', ';', '\t'];

const PROBLEMS: Readonly<Record<string, string>> = {
  CSV_INVALID_CLOSING_QUOTE: 'a value goes on after its closing quote; a quote within a value is written twice',
  INVALID_OPENING_QUOTE:
    'a quote is in a value that does not begin with one; quote the value, and write the quote twice',
  CSV_QUOTE_NOT_CLOSED: 'a quote is not closed',
  CSV_MAX_RECORD_SIZE: `is longer than ${MAX_RECORD} bytes; a quote may not be closed`,
};

/**
 * The records of a CSV text, blank lines left out. The delimiter is the one of comma, semicolon and tab that the first
 * line has most of, unless it is given. Malformed quotes end the reading: the last record says so.
 */
export async function* readRecords(
  text: AsyncIterable<string>,
  delimiter: string | undefined,
): AsyncGenerator<CsvRecord, void> {
  let splitter: Splitter | undefined;
  let pending = '';
  for await (const piece of text) {
    pending += piece;
    // The piece alone: to search all of the text again for each would be quadratic in small pieces.
    if (!splitter && !/[\r\n]/.test(piece) && pending.length < MAX_HEADER) continue;
    splitter ??= new Splitter(delimiter ?? findDelimiter(pending));
    yield* await splitter.split(pending);
    if (splitter.hasEnded) return;
    pending = '';
  }
  splitter ??= new Splitter(delimiter ?? findDelimiter(pending));
  yield* await splitter.split(pending);
  if (!splitter.hasEnded) yield* await splitter.end();
}

function findDelimiter(text: string): string {
  const [header = ''] = text.split(/[\r\n]/, 1);
  const count = (delimiter: string) => header.split(delimiter).length;
  return DELIMITERS.reduce((best, delimiter) => (count(delimiter) > count(best) ? delimiter : best));
}

/** Drives the parser by hand: read as a stream it drops, at an error, the records before it that wait to be read. */
class Splitter {
  hasEnded = false;
  readonly #parser;
  readonly #records: string[][] = [];
  #line = 1;

  constructor(delimiter: string) {
    this.#parser = parse({
      delimiter,
      record_delimiter: ['\r\n', '\n', '\r'],
      relax_column_count: true,
      max_record_size: MAX_RECORD,
      on_record: (cells: string[]) => {
        this.#records.push(cells);
        return null;
      },
    });
    // The callbacks are told of an error.
    this.#parser.on('error', () => {}).resume();
  }

  async split(text: string): Promise<CsvRecord[]> {
    return this.#take(await new Promise((resolve) => this.#parser.write(text, resolve)));
  }

  async end(): Promise<CsvRecord[]> {
    return this.#take(await new Promise((resolve) => this.#parser.end(resolve)));
  }

  #take(error: Error | null | undefined): CsvRecord[] {
    const records: CsvRecord[] = [];
    for (const cells of this.#records.splice(0)) {
      // A blank line has one value, which is empty.
      if (cells.length > 1 || cells[0] !== '') records.push({ line: this.#line, cells });
      // The parser's own count takes CRLF within quotes for two lines.
      this.#line += 1 + cells.reduce((sum, cell) => sum + countBreaks(cell), 0);
    }
    if (!error) return records;
    this.hasEnded = true;
    return [...records, { line: this.#line, problem: toProblem(error) }];
  }
}

function toProblem(error: Error & { code?: string }): string {
  return `${PROBLEMS[error.code ?? ''] ?? error.message}; what comes after it was not read`;
}
