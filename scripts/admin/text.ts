import { TextDecoder } from 'node:util';
import { Refusal } from './errors.ts';
import type { Source } from './source.ts';

const LINE_BREAK = /\r\n|\r|\n/g;

/**
 * The text of bytes in an encoding, in pieces, without a byte order mark. Throws Refusal, with the line, for bytes
 * that are not of the encoding.
 */
export async function* decode({ name, bytes }: Source, encoding: string): AsyncGenerator<string> {
  const strict = new TextDecoder(encoding, { fatal: true });
  // Decodes the same, and shows where the other one stops.
  const lenient = new TextDecoder(encoding);
  let line = 1;
  // The last character so far: a chunk may end within CRLF.
  let end = '';
  for await (const chunk of bytes) {
    const text = lenient.decode(chunk, { stream: true });
    if (!canDecode(strict, chunk)) {
      throw notEncoded(name, line + countBreaksAfter(end, text.slice(0, text.indexOf('\ufffd'))), encoding);
    }
    yield text;
    line += countBreaksAfter(end, text);
    end = text.slice(-1);
  }
  if (!canDecode(strict)) throw notEncoded(name, line, encoding);
}

/** Without a chunk, whether the bytes so far end with a whole character. */
function canDecode(decoder: TextDecoder, chunk?: Uint8Array): boolean {
  try {
    decoder.decode(chunk, { stream: chunk !== undefined });
    return true;
  } catch {
    return false;
  }
}

function notEncoded(name: string, line: number, encoding: string): Refusal {
  return new Refusal({
    error: `${name}, line ${line}: is not ${encoding}; nothing was imported`,
    hint: 'Save the file as UTF-8, or name its encoding, such as --encoding windows-1252, which Excel writes.',
  });
}

function countBreaksAfter(end: string, text: string): number {
  return countBreaks(end + text) - countBreaks(end);
}

/** How many line breaks a text has: LF, CRLF or CR. */
export function countBreaks(text: string): number {
  return text.match(LINE_BREAK)?.length ?? 0;
}
