// Writes rows as JSON, letter for letter as Postgres' row_to_json does, from the texts that Postgres has for their values.
// To write it takes the database several times as long, and of databases there is one.

import pg, { type FieldDef } from 'pg';

/** How the text of a value becomes JSON. */
type Form = 'text' | 'quoted' | 'json' | 'number' | 'boolean' | 'time';

/** A column as JSON has it. */
export type JsonColumn = {
  /** What stands in front of its value. */
  readonly prefix: Uint8Array;
  readonly form: Form;
};

/** Rows as the text of a JSON array, and how many they are. */
export type JsonArray = { readonly json: string; readonly count: number };

const { builtins } = pg.types;
/** By type. What is missing, such as arrays and types of one's own, has a JSON that its text does not tell. */
const FORMS: ReadonlyMap<number, Form> = new Map([
  [builtins.TEXT, 'text'],
  [builtins.VARCHAR, 'text'],
  [builtins.BPCHAR, 'text'],
  [builtins.UUID, 'quoted'],
  [builtins.DATE, 'quoted'],
  [builtins.TIME, 'quoted'],
  [builtins.BOOL, 'boolean'],
  [builtins.JSON, 'json'],
  [builtins.JSONB, 'json'],
  [builtins.INT2, 'number'],
  [builtins.INT4, 'number'],
  [builtins.INT8, 'number'],
  [builtins.FLOAT4, 'number'],
  [builtins.FLOAT8, 'number'],
  [builtins.NUMERIC, 'number'],
  [builtins.TIMESTAMP, 'time'],
  [builtins.TIMESTAMPTZ, 'time'],
]);

const SPACE = 0x20;
const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const PLUS = 0x2b;
const MINUS = 0x2d;
const NULL = Buffer.from('null');
const TRUE = Buffer.from('true');
const FALSE = Buffer.from('false');
const MINUTES = Buffer.from(':00"');

/** The most that a value takes beside its text: quotes, and the minutes of an offset. */
const AROUND = 16;
/** From how many bytes on it is faster to have them copied. */
const LONG = 64;
const FIRST_SIZE = 1 << 14;
/** How much memory waits for the rows to come, in bytes. */
const KEPT = 1 << 20;

/** The columns as JSON has them; undefined where Postgres has to write them. */
export function toJsonColumns(fields: readonly FieldDef[]): readonly JsonColumn[] | undefined {
  const columns: JsonColumn[] = [];
  for (const { name, dataTypeID } of fields) {
    const form = FORMS.get(dataTypeID);
    if (!form) return undefined;
    columns.push({ prefix: Buffer.from(`${columns.length === 0 ? ',{' : ','}${JSON.stringify(name)}:`), form });
  }
  return columns.length > 0 ? columns : undefined;
}

/** Writes one JSON array after the other, in memory of its own. */
export class JsonRows {
  #out = Buffer.allocUnsafeSlow(FIRST_SIZE);
  #end = 0;
  #count = 0;

  /** Adds a row, which begins at an index of what Postgres has sent (the protocol's DataRow, without its length). */
  add(columns: readonly JsonColumn[], bytes: Buffer, begin: number): void {
    // Behind the number of columns.
    let at = begin + 2;
    let to = this.#end;
    for (const { prefix, form } of columns) {
      const length = bytes.readInt32BE(at);
      at += 4;
      const out = this.#reserve(to, prefix.length + length + AROUND);
      to = copy(prefix, 0, prefix.length, out, to);
      if (length < 0) {
        to = copy(NULL, 0, NULL.length, out, to);
      } else {
        to = write(form, bytes, at, at + length, out, to) ?? this.#escape(bytes, at, at + length, to);
        at += length;
      }
    }
    this.#out[to] = 0x7d;
    this.#end = to + 1;
    this.#count += 1;
  }

  /** Gives the array of what was added, and begins another. */
  take(): JsonArray {
    if (this.#count === 0) this.#end = 1;
    // In place of the comma in front of the first row.
    this.#out[0] = 0x5b;
    this.#out[this.#end] = 0x5d;
    const array = { json: this.#out.toString('utf8', 0, this.#end + 1), count: this.#count };
    this.clear();
    return array;
  }

  /** Forgets what was added. */
  clear(): void {
    this.#end = 0;
    this.#count = 0;
    if (this.#out.length > KEPT) this.#out = Buffer.allocUnsafeSlow(FIRST_SIZE);
  }

  /** Writes a text that has letters which JSON does not have as they are. */
  #escape(bytes: Buffer, begin: number, end: number, from: number): number {
    const json = Buffer.from(JSON.stringify(bytes.toString('utf8', begin, end)));
    return copy(json, 0, json.length, this.#reserve(from, json.length + AROUND), from);
  }

  /** The memory, with room for so many bytes from an index on. */
  #reserve(from: number, length: number): Buffer {
    if (from + length <= this.#out.length) return this.#out;
    const larger = Buffer.allocUnsafeSlow(2 * (from + length));
    this.#out.copy(larger, 0, 0, from);
    this.#out = larger;
    return larger;
  }
}

/** Writes a value, whose text stands between two indexes; gives the index behind it, or undefined for a text to escape. */
function write(form: Form, bytes: Buffer, begin: number, end: number, out: Buffer, to: number): number | undefined {
  switch (form) {
    case 'text':
      return writeText(bytes, begin, end, out, to);
    case 'quoted':
      return quote(bytes, begin, end, out, to);
    case 'time':
      return writeTime(bytes, begin, end, out, to);
    case 'boolean':
      return bytes[begin] === 0x74 ? copy(TRUE, 0, TRUE.length, out, to) : copy(FALSE, 0, FALSE.length, out, to);
    case 'json':
      return copy(bytes, begin, end, out, to);
    case 'number':
      // NaN and Infinity are none in JSON.
      return isDigit(bytes[end - 1]) ? copy(bytes, begin, end, out, to) : quote(bytes, begin, end, out, to);
  }
}

function writeText(bytes: Buffer, begin: number, end: number, out: Buffer, from: number): number | undefined {
  let to = from;
  out[to++] = QUOTE;
  for (let at = begin; at < end; at += 1) {
    const byte = bytes[at] as number;
    if (byte < SPACE || byte === QUOTE || byte === BACKSLASH) return undefined;
    out[to++] = byte;
  }
  out[to++] = QUOTE;
  return to;
}

/** Postgres' own text of a time has a space in place of the T of ISO 8601, and no minutes in an offset of whole hours. */
function writeTime(bytes: Buffer, begin: number, end: number, out: Buffer, from: number): number {
  // Years of more than four digits or before Christ, and infinity.
  if (bytes[begin + 10] !== SPACE || !isDigit(bytes[end - 1])) {
    const text = bytes
      .toString('latin1', begin, end)
      .replace(' ', 'T')
      .replace(/(?<=T.*[+-]\d\d)(?= BC$|$)/, ':00');
    return from + out.write(JSON.stringify(text), from);
  }
  const to = quote(bytes, begin, end, out, from);
  out[from + 11] = 0x54;
  const sign = bytes[end - 3];
  return sign === PLUS || sign === MINUS ? copy(MINUTES, 0, MINUTES.length, out, to - 1) : to;
}

function quote(bytes: Buffer, begin: number, end: number, out: Buffer, from: number): number {
  out[from] = QUOTE;
  const to = copy(bytes, begin, end, out, from + 1);
  out[to] = QUOTE;
  return to + 1;
}

function copy(bytes: Uint8Array, begin: number, end: number, out: Buffer, from: number): number {
  if (end - begin >= LONG) {
    out.set(bytes.subarray(begin, end), from);
    return from + end - begin;
  }
  let to = from;
  for (let at = begin; at < end; at += 1) out[to++] = bytes[at] as number;
  return to;
}

function isDigit(byte: number | undefined): boolean {
  return byte !== undefined && byte >= 0x30 && byte <= 0x39;
}
