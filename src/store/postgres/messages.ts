// Writes and reads the messages of Postgres's protocol (version 3.0) that a connection handles without pg.

import { DatabaseError, serialize } from 'pg-protocol';
import type { Row } from '../statement.ts';
import type { ColumnDescription } from './json-rows.ts';

/** The number of bytes before the body of a message: its code and its length. */
export const HEADER = 5;
/** The codes of the messages that a connection reads. */
export const COMMAND_COMPLETE = 0x43;
export const DATA_ROW = 0x44;
export const ERROR_RESPONSE = 0x45;
export const PARAMETER_STATUS = 0x53;
export const ROW_DESCRIPTION = 0x54;
export const READY_FOR_QUERY = 0x5a;

/** The maximum length of a message in bytes: Postgres allocates no more. */
const MAX_LENGTH = 0x3fffffff;

const EXECUTE_AND_SYNC = Buffer.concat([serialize.execute(), serialize.sync()]);
/** Follows another Sync. After an error Postgres skips everything up to that Sync, and then this commit rolls back. */
export const COMMIT = Buffer.concat([serialize.parse({ text: 'commit' }), serialize.bind(), EXECUTE_AND_SYNC]);

/** Closes a prepared statement. It is no error if there is none. */
export function toClose(name: string): Buffer {
  return serialize.close({ type: 'S', name });
}

/** Prepares a statement under a new name, or unnamed, and describes its columns. */
export function toPrepare(name: string, text: string): Buffer[] {
  return [serialize.parse({ name, text }), serialize.describe({ type: 'S', name })];
}

/** Executes a prepared statement. All values and columns are sent as text. */
export function toExecute(name: string, values: Row): Buffer[] {
  return [serialize.bind({ statement: name, values: [...values] }), EXECUTE_AND_SYNC];
}

/** Begins a transaction block with its own settings. Replaces the unnamed statement, so a call's has to be prepared after it. */
export function toBegin(settings: readonly string[]): Buffer {
  const texts = ['begin', ...settings.map((setting) => `set local ${setting}`)];
  return Buffer.concat(texts.flatMap((text) => [serialize.parse({ text }), serialize.bind(), serialize.execute()]));
}

/** The end of the message at an index; beyond the bytes if it is incomplete. Throws for an impossible length. */
export function toEnd(bytes: Buffer, begin: number): number {
  if (begin + HEADER > bytes.length) return begin + HEADER;
  const length = bytes.readUInt32BE(begin + 1);
  if (length < HEADER - 1 || length > MAX_LENGTH) throw new Error(`a message of ${length} bytes`);
  return begin + 1 + length;
}

/** The number of rows in a CommandComplete; undefined for a command without rows. `begin` is behind the header. */
export function readRowCount(bytes: Buffer, begin: number, end: number): number | undefined {
  const digits = bytes.lastIndexOf(0x20, end) + 1;
  return digits > begin ? Number(bytes.toString('latin1', digits, end - 1)) : undefined;
}

/** The name and the new value of a setting in a ParameterStatus; `begin` is behind the header. */
export function readSetting(bytes: Buffer, begin: number, end: number): string[] {
  return bytes.toString('utf8', begin, end - 1).split('\0');
}

/** The values of a DataRow in text format; `begin` is behind the header. */
export function readTexts(bytes: Buffer, begin: number): Row {
  const values: (string | null)[] = [];
  let at = begin + 2;
  for (let rest = bytes.readInt16BE(begin); rest > 0; rest -= 1) {
    const length = bytes.readInt32BE(at);
    at += 4;
    values.push(length < 0 ? null : bytes.toString('utf8', at, at + length));
    at += Math.max(0, length);
  }
  return values;
}

/** The names and types of the columns in a RowDescription; `begin` is behind the header. */
export function readColumns(bytes: Buffer, begin: number): ColumnDescription[] {
  let at = begin + 2;
  return Array.from({ length: bytes.readInt16BE(begin) }, () => {
    const end = bytes.indexOf(0, at);
    const name = bytes.toString('utf8', at, end);
    const dataTypeID = bytes.readUInt32BE(end + 1 + 6);
    at = end + 1 + 18;
    return { name, dataTypeID };
  });
}

/** The error of an ErrorResponse in pg's form, with the untranslated severity; `begin` is behind the header. */
export function readError(bytes: Buffer, begin: number, end: number): DatabaseError {
  const fields: Record<string, string> = {};
  for (let at = begin; at < end && bytes[at] !== 0; ) {
    const next = bytes.indexOf(0, at);
    if (next < 0 || next >= end) throw new Error('an error without an end');
    fields[String.fromCharCode(bytes[at] as number)] = bytes.toString('utf8', at + 1, next);
    at = next + 1;
  }
  const { M = '', V: severity, C: code, D: detail, H: hint, W: where, R: routine, n: constraint } = fields;
  const error = { severity, code, detail, hint, where, routine, constraint };
  return Object.assign(new DatabaseError(M, end - begin, 'error'), error);
}
