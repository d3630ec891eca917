// Converts rows from the protocol's bytes to JSON, exactly as Postgres's row_to_json does in UTC. This serves 1.5 times as many
// lists of 100 per second as JSON by Postgres, and 1.2 times as many as JSON from the strings of pg.

import { constants } from 'node:buffer';
import pg from 'pg';
import { boolean, copy, HEADROOM, number, text, timestamp, timestamptz, type Write, word } from './values.ts';

/** A column as the server describes it. */
export type ColumnDescription = { readonly name: string; readonly dataTypeID: number };

/** How to write the columns of a row. */
export type JsonColumns = readonly {
  /** The text before the value. */
  readonly prefix: Uint8Array;
  readonly write: Write;
}[];

/** Rows as a JSON array, and their number. */
export type JsonArray = { readonly json: string; readonly count: number };

const { builtins } = pg.types;
/** By type. Only Postgres can write other types, such as arrays and user-defined ones. */
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

  /** The bytes of the array without its end. */
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
  take(): JsonArray {
    if (this.#count === 0) this.#end = 1;
    // Replaces the comma before the first row.
    this.#out[0] = 0x5b;
    this.#out[this.#end] = 0x5d;
    const array = { json: this.#out.toString('utf8', 0, this.#end + 1), count: this.#count };
    this.clear();
    return array;
  }

  /** Drops the rows. */
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
