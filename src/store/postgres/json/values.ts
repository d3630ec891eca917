// Writes values that Postgres sent as JSON, exactly as its row_to_json does.

/** How a type is sent, as bytes or as text, and written. */
export type Form = {
  readonly isBinary: boolean;
  /** Writes the value in a range into memory with room for it and HEADROOM, and gives the end; undefined for a text to escape. */
  readonly write: (bytes: Buffer, begin: number, end: number, out: Buffer, to: number) => number | undefined;
};

/** Room for the JSON of a value beyond its sent form, at most some 40 bytes for a time, and for closing row and array. */
export const HEADROOM = 64;

const SPACE = 0x20;
const QUOTE = 0x22;
const MINUS = 0x2d;
const ZERO = 0x30;
const COLON = 0x3a;
const BACKSLASH = 0x5c;
const HEX = Buffer.from('0123456789abcdef');
const TRUE = Buffer.from('true');
const FALSE = Buffer.from('false');

/** From this many bytes on, set() is faster than a loop. */
const LONG = 64;

/** Any text. */
export const text: Form = {
  isBinary: false,
  write(bytes, begin, end, out, from) {
    let to = from;
    out[to++] = QUOTE;
    for (let at = begin; at < end; at += 1) {
      const byte = bytes[at] as number;
      if (byte < SPACE || byte === QUOTE || byte === BACKSLASH) return undefined;
      out[to++] = byte;
    }
    out[to++] = QUOTE;
    return to;
  },
};

/** A text that never needs escaping. */
export const word: Form = { isBinary: false, write: quote };

/** JSON, unchanged. */
export const json: Form = { isBinary: false, write: copy };

/** A number; a text for a value that JSON has no number for. */
export const number: Form = {
  isBinary: false,
  write(bytes, begin, end, out, to) {
    const last = bytes[end - 1] as number;
    // NaN and Infinity end in a letter.
    return last >= ZERO && last < COLON ? copy(bytes, begin, end, out, to) : quote(bytes, begin, end, out, to);
  },
};

/** A boolean, sent as t or f. */
export const boolean: Form = {
  isBinary: false,
  write(bytes, begin, _end, out, to) {
    const value = bytes[begin] === 0x74 ? TRUE : FALSE;
    return copy(value, 0, value.length, out, to);
  },
};

/** A UUID, sent as 16 bytes. */
export const uuid: Form = {
  isBinary: true,
  write(bytes, begin, end, out, from) {
    let to = from;
    out[to++] = QUOTE;
    for (let at = begin; at < end; at += 1) {
      const byte = bytes[at] as number;
      const index = at - begin;
      if (index === 4 || index === 6 || index === 8 || index === 10) out[to++] = MINUS;
      out[to++] = HEX[byte >> 4] as number;
      out[to++] = HEX[byte & 15] as number;
    }
    out[to++] = QUOTE;
    return to;
  },
};

/** Copies a range, and gives the end of the copy. */
export function copy(bytes: Uint8Array, begin: number, end: number, out: Buffer, from: number): number {
  if (end - begin >= LONG) {
    out.set(bytes.subarray(begin, end), from);
    return from + end - begin;
  }
  let to = from;
  for (let at = begin; at < end; at += 1) out[to++] = bytes[at] as number;
  return to;
}

function quote(bytes: Buffer, begin: number, end: number, out: Buffer, from: number): number {
  out[from] = QUOTE;
  const to = copy(bytes, begin, end, out, from + 1);
  out[to] = QUOTE;
  return to + 1;
}
