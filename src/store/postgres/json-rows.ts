// Converts rows from the protocol's bytes to JSON, exactly as Postgres's row_to_json does in UTC. This serves 1.5 times as many
// lists of 100 per second as JSON by Postgres, and 1.2 times as many as JSON from the strings of pg.

import { constants } from 'node:buffer';
import pg from 'pg';
import type { Rows } from '../store.ts';

/** A column as the server describes it. */
export type ColumnDescription = { readonly name: string; readonly dataTypeID: number };

/** How to write the columns of a row. */
export type JsonColumns = readonly {
  /** The text before the value. */
  readonly prefix: Uint8Array;
  readonly write: Write;
}[];

/**
 * Writes the value in a range, in Postgres's text format, to `out`, which has room for it and HEADROOM. Returns the end, or
 * undefined for a text that needs escaping.
 */
type Write = (bytes: Buffer, begin: number, end: number, out: Buffer, to: number) => number | undefined;

/** Room for what JSON adds to a value, at most 5 bytes for a time, and for closing the row and the array. */
const HEADROOM = 16;

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
const text: Write = (bytes, begin, end, out, from) => {
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
function word(bytes: Buffer, begin: number, end: number, out: Buffer, from: number): number {
  out[from] = QUOTE;
  const to = copy(bytes, begin, end, out, from + 1);
  out[to] = QUOTE;
  return to + 1;
}

/** A number. NaN and Infinity become strings, because JSON has no such numbers. */
const number: Write = (bytes, begin, end, out, to) =>
  // NaN and Infinity end in a letter.
  isDigit(bytes[end - 1]) ? copy(bytes, begin, end, out, to) : word(bytes, begin, end, out, to);

/** A boolean, sent as t or f. */
const boolean: Write = (bytes, begin, _end, out, to) => {
  const value = bytes[begin] === 0x74 ? TRUE : FALSE;
  return copy(value, 0, value.length, out, to);
};

/** A time: JSON has a T in place of the space. `infinity` has no space. */
function timestamp(bytes: Buffer, begin: number, end: number, out: Buffer, from: number): number {
  const to = word(bytes, begin, end, out, from);
  let at = from;
  while (at < to && out[at] !== SPACE) at += 1;
  if (at < to) out[at] = 0x54;
  return to;
}

/** A time with a zone, whose minutes JSON always has. */
const timestamptz: Write = (bytes, begin, end, out, from) => {
  const isBeforeChrist = bytes[end - 1] === 0x43;
  if (!isBeforeChrist && !isDigit(bytes[end - 1])) return word(bytes, begin, end, out, from);
  const zoneEnd = isBeforeChrist ? end - BEFORE_CHRIST.length : end;
  // The closing quote is overwritten.
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
function copy(bytes: Uint8Array, begin: number, end: number, out: Buffer, from: number): number {
  if (end - begin >= LONG) {
    out.set(bytes.subarray(begin, end), from);
    return from + end - begin;
  }
  let to = from;
  for (let at = begin; at < end; at += 1) out[to++] = bytes[at] as number;
  return to;
}

const { builtins } = pg.types;
/** The writers by type. Only Postgres can write other types, such as arrays and user-defined ones. */
const WRITERS: ReadonlyMap<number, Write> = new Map([
  [builtins.TEXT, text],
  [builtins.VARCHAR, text],
  [builtins.BPCHAR, text],
  [builtins.UUID, word],
  [builtins.BOOL, boolean],
  [builtins.DATE, word],
  [builtins.TIME, word],
  [builtins.TIMESTAMP, timestamp],
  [builtins.TIMESTAMPTZ, timestamptz],
  [builtins.JSON, copy],
  [builtins.JSONB, copy],
  [builtins.INT2, number],
  [builtins.INT4, number],
  [builtins.INT8, number],
  [builtins.FLOAT4, number],
  [builtins.FLOAT8, number],
  [builtins.NUMERIC, number],
]);

const NULL = Buffer.from('null');
const FIRST_SIZE = 1 << 14;
/** The maximum size of the memory that is kept for later rows, in bytes. */
const KEPT = 1 << 20;

/** Finds how to write columns; undefined if only Postgres can. */
export function toJsonColumns(fields: readonly ColumnDescription[]): JsonColumns | undefined {
  const columns = fields.flatMap(({ name, dataTypeID }, index) => {
    const write = WRITERS.get(dataTypeID);
    return write ? [{ prefix: Buffer.from(`${index === 0 ? ',{' : ','}${JSON.stringify(name)}:`), write }] : [];
  });
  return fields.length > 0 && columns.length === fields.length ? columns : undefined;
}

/** Writes one JSON array after the other, and reuses the memory. */
export class JsonRows {
  #out = Buffer.allocUnsafeSlow(FIRST_SIZE);
  #end = 0;
  #count = 0;

  /** The number of bytes of the array, without its end. */
  get bytes(): number {
    return this.#end;
  }

  /** Adds a row, the body of a DataRow message. Throws if the columns differ, or the array is too long. */
  add(columns: JsonColumns, bytes: Buffer, begin: number, end: number): void {
    if (bytes.readInt16BE(begin) !== columns.length) throw new Error('a row has other columns than were described');
    let at = begin + 2;
    let to = this.#end;
    for (const { prefix, write } of columns) {
      const length = bytes.readInt32BE(at);
      at += 4;
      const out = this.#reserve(to, prefix.length + length + HEADROOM);
      to = copy(prefix, 0, prefix.length, out, to);
      if (length < 0) {
        to = copy(NULL, 0, NULL.length, out, to);
      } else {
        to = write(bytes, at, at + length, out, to) ?? this.#escape(bytes, at, at + length, to);
        at += length;
      }
    }
    if (at !== end) throw new Error('a row ends elsewhere than its message');
    this.#out[to] = 0x7d;
    this.#end = to + 1;
    this.#count += 1;
  }

  /** Returns the array, and begins another. */
  take(): Rows {
    if (this.#count === 0) this.#end = 1;
    // Replaces the comma before the first row.
    this.#out[0] = 0x5b;
    this.#out[this.#end] = 0x5d;
    const array = { json: this.#out.toString('utf8', 0, this.#end + 1), count: this.#count };
    this.clear();
    return array;
  }

  clear(): void {
    this.#end = 0;
    this.#count = 0;
    if (this.#out.length > KEPT) this.#out = Buffer.allocUnsafeSlow(FIRST_SIZE);
  }

  #escape(bytes: Buffer, begin: number, end: number, from: number): number {
    const escaped = Buffer.from(JSON.stringify(bytes.toString('utf8', begin, end)));
    return copy(escaped, 0, escaped.length, this.#reserve(from, escaped.length + HEADROOM), from);
  }

  /** The memory, with room for `length` bytes from an index on. */
  #reserve(from: number, length: number): Buffer {
    const needed = from + length;
    if (needed <= this.#out.length) return this.#out;
    // The longest possible string.
    if (needed > constants.MAX_STRING_LENGTH) throw new RangeError(`the rows take more than ${from} bytes`);
    const larger = Buffer.allocUnsafeSlow(Math.min(2 * needed, constants.MAX_STRING_LENGTH));
    this.#out.copy(larger, 0, 0, from);
    this.#out = larger;
    return larger;
  }
}
