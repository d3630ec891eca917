import { constants } from 'node:buffer';
import { LRUCache } from 'lru-cache';
import { answerTooLarge, storeFault } from '../errors.ts';
import type { Call, Result } from './store.ts';

/** Columns or parameters in Postgres's text format. */
export type Row = readonly (string | null)[];

/** A SQL statement with its parameters, and a name if it is to be prepared. */
export type Statement = { readonly text: string; readonly values: Row; readonly name?: string };

/** A statement with a name: calls that differ only in their values have the same. */
export type NamedStatement = Statement & { readonly name: string };

/** Only asks for an answer. */
export const CHECK: Statement = { text: `select '[]' as json`, values: [] };

/**
 * What a statement gives: the rows themselves, or one row with the columns `json`, the function's rows as a JSON array or
 * its single row as an object (null for none), and `count`, their number.
 */
export type Format = Call['returns'] | 'columns';

/** How many texts are kept: an operation has one for each set of inputs that clients send. */
const MAX_TEXTS = 1_000;

/**
 * Creates the writer of calls' statements. It writes a text once for each function and set of arguments, and keeps the latest.
 * JSON larger than `answerLimit` bytes is left out of the row. The database shows `applicationName` while the statement runs,
 * and in its log.
 */
export function createStatementWriter(
  answerLimit: number = constants.MAX_STRING_LENGTH,
): (call: Call, format: Format, applicationName?: string) => NamedStatement {
  const written = new LRUCache<string, Pick<NamedStatement, 'text' | 'name'>>({ max: MAX_TEXTS });
  let count = 0;
  return (call, format, applicationName) => {
    const names = Object.keys(call.args);
    const tellsApplication = applicationName !== undefined;
    const shape = `${format} ${tellsApplication} ${call.function} ${names.join()}`;
    let statement = written.get(shape);
    if (!statement) {
      count += 1;
      statement = {
        text: writeText(call, format, names, tellsApplication, answerLimit),
        name: `gateway_${count}`,
      };
      written.set(shape, statement);
    }
    return { ...statement, values: toValues(call, names, applicationName) };
  };
}

/** The result in a statement's row, which has the columns `json` and, for calls, `count`. */
export function toResult(row: Row | undefined): Result {
  const [json, count] = row ?? [];
  if (typeof json === 'string') return typeof count === 'string' ? { json, count: Number(count) } : { json };
  if (typeof count === 'string') return answerTooLarge();
  return storeFault('storeError', new Error('the function returned no row'));
}

function writeText(
  call: Call,
  format: Format,
  names: readonly string[],
  tellsApplication: boolean,
  answerLimit: number,
): string {
  const args = names.map((name, index) => `${quote(name)} => $${index + 1}`).join(', ');
  const result = `public.${quote(call.function)}(${args})`;
  // With a subquery, because the row of a function with one column would be that column's value.
  const columns =
    format === 'columns' ? `* from ${result}` : `${toJson(format, answerLimit)} from (select * from ${result}) r`;
  // Postgres evaluates a condition that does not depend on the rows before it calls the function. The setting ends with the
  // transaction, and needs no statement of its own.
  const told = `(select pg_catalog.set_config('application_name', $${names.length + 1}, true)) is not null`;
  return `select ${columns}${tellsApplication ? ` where ${told}` : ''}`;
}

function toValues({ args }: Call, names: readonly string[], applicationName: string | undefined): Row {
  const values = names.map((name) => toText(args[name]));
  if (applicationName !== undefined) values.push(applicationName);
  return values;
}

function toJson(format: Call['returns'], answerLimit: number): string {
  if (format === 'row') return 'row_to_json(r)::text as json, 1 as count';
  // Not json_agg, which puts a line break between the rows.
  const rows = `coalesce(string_agg(row_to_json(r)::text, ','), '')`;
  // Postgres computes an aggregate once, even if it stands twice.
  const isTooLarge = `octet_length(${rows}) > ${answerLimit - '[]'.length}`;
  return `case when ${isTooLarge} then null else '[' || ${rows} || ']' end as json, count(*)::integer as count`;
}

/** A value as text takes the type of the function's argument: no driver has to guess it. */
function toText(value: Call['args'][string] | undefined): string | null {
  if (value === null || value === undefined) return null;
  return typeof value === 'string' ? value : JSON.stringify(value);
}

function quote(identifier: string): string {
  return `"${identifier.replaceAll('"', '""')}"`;
}
