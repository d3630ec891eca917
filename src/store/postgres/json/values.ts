// Writes values that Postgres sent as text as JSON, exactly as its row_to_json does.

/**
 * Writes the value in a range, in Postgres's text format, to `out`, which has room for it and HEADROOM. Returns the end, or
 * undefined for a text that needs escaping.
 */
export type Write = (bytes: Buffer, begin: number, end: number, out: Buffer, to: number) => number | undefined;

/** Room for what JSON adds to a value, at most 5 bytes for a time, and for closing the row and the array. */
export const HEADROOM = 16;

const SPACE = 0x20;
const QUOTE = 0x22;
const ZERO = 0x30;
const COLON = 0x3a;
const BACKSLASH = 0x5c;
const TRUE = Buffer.from('true');
const FALSE = Buffer.from('false');
const MINUTES = Buffer.from(':00');
const BEFORE_CHRIST = Buffer.from(' BC');

/** From this length on, in bytes, set() is faster than a loop. */
const LONG = 64;

/** Any text. */
export const text: Write = (bytes, begin, end, out, from) => {
  let to = from;
  out[to++] = QUOTE;
  for (let at = begin; at < end; at += 1) {
    const byte = bytes[at] as number;
    if (byte < SPACE || byte === QUOTE || byte === BACKSLASH) return undefined;
    out[to++] = byte;
  }
  out[to++] = QUOTE;
  return to;
};

/** A text that never needs escaping, such as a UUID or a date. */
export function word(bytes: Buffer, begin: number, end: number, out: Buffer, from: number): number {
  out[from] = QUOTE;
  const to = copy(bytes, begin, end, out, from + 1);
  out[to] = QUOTE;
  return to + 1;
}

/** A number; NaN and Infinity, which JSON does not have, as text. */
export const number: Write = (bytes, begin, end, out, to) =>
  // NaN and Infinity end in a letter.
  isDigit(bytes[end - 1]) ? copy(bytes, begin, end, out, to) : word(bytes, begin, end, out, to);

/** A boolean, sent as t or f. */
export const boolean: Write = (bytes, begin, _end, out, to) => {
  const value = bytes[begin] === 0x74 ? TRUE : FALSE;
  return copy(value, 0, value.length, out, to);
};

/** A time: JSON has a T where the text has a space, if any: `infinity` has none. */
export function timestamp(bytes: Buffer, begin: number, end: number, out: Buffer, from: number): number {
  const to = word(bytes, begin, end, out, from);
  let at = from;
  while (at < to && out[at] !== SPACE) at += 1;
  if (at < to) out[at] = 0x54;
  return to;
}

/** A time with a zone, which has minutes in JSON. */
export const timestamptz: Write = (bytes, begin, end, out, from) => {
  const isBeforeChrist = bytes[end - 1] === 0x43;
  if (!isBeforeChrist && !isDigit(bytes[end - 1])) return word(bytes, begin, end, out, from);
  const zoneEnd = isBeforeChrist ? end - BEFORE_CHRIST.length : end;
  // Without the quote.
  let to = timestamp(bytes, begin, zoneEnd, out, from) - 1;
  if (bytes[zoneEnd - MINUTES.length] !== COLON) to = copy(MINUTES, 0, MINUTES.length, out, to);
  if (isBeforeChrist) to = copy(BEFORE_CHRIST, 0, BEFORE_CHRIST.length, out, to);
  out[to] = QUOTE;
  return to + 1;
};

function isDigit(byte = 0): boolean {
  return byte >= ZERO && byte < COLON;
}

/** Copies a range, and returns the end of the copy. */
export function copy(bytes: Uint8Array, begin: number, end: number, out: Buffer, from: number): number {
  if (end - begin >= LONG) {
    out.set(bytes.subarray(begin, end), from);
    return from + end - begin;
  }
  let to = from;
  for (let at = begin; at < end; at += 1) out[to++] = bytes[at] as number;
  return to;
}
