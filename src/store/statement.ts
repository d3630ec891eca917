// Writes the SQL statement of a call, and reads its result.

import { constants } from 'node:buffer';
import { LRUCache } from 'lru-cache';
import pg from 'pg';
import { answerTooLarge, noRecord } from '../errors.ts';
import type { Database } from './migrations.ts';
import { type PgError, toFailure } from './sqlstate.ts';
import type { Argument, Call, Json, Result } from './store.ts';

/** Columns or parameters in Postgres's text format. */
export type Row = readonly (string | null)[];

/** A SQL statement with its parameters, and a name if it is to be prepared. */
export type Statement = {
  readonly text: string;
  readonly values: Row;
  readonly name?: string;
};

/** Checks deferred constraints now, because a call that is tried and rolled back never reaches the commit. */
export const CHECK_DEFERRED = 'set constraints all immediate';

/** A statement with a name, which is the same for calls that differ only in their values. */
export type NamedStatement = Statement & { readonly name: string };

/**
 * What a statement returns: the function's rows (`columns`), or one row with the columns `json` (the call's answer, null if it
 * is too large), `count` (its number of rows) and `replayed`; no row if the function returns no record.
 */
export type Format = Call['returns'] | 'columns';

/** The alias of what a function returns. */
const WHOLE = 'what the function returns';

/** Whether the function has set the header of a repeated answer, in the setting from which PostgREST takes headers. */
const REPLAYED = `current_setting('response.headers', true) like '%"Idempotent-Replayed"%' as replayed`;

/** The maximum number of cached texts: an operation has one for each set of inputs that clients send. */
const MAX_TEXTS = 1_000;

/**
 * Creates the writer of calls' statements, which caches the text for each function and set of arguments. JSON larger than
 * `answerLimit` bytes is left out of the row. The database shows `applicationName` while the statement runs, and in its log.
 */
export function createStatementWriter(
  answerLimit: number = constants.MAX_STRING_LENGTH,
): (call: Call, format: Format, applicationName?: string) => NamedStatement {
  const written = new LRUCache<string, Pick<NamedStatement, 'text' | 'name'>>({ max: MAX_TEXTS });
  let count = 0;
  return (call, format, applicationName) => {
    const names = Object.keys(call.args);
    const hasApplication = applicationName !== undefined;
    const shape = `${format} ${hasApplication} ${call.readOnly} ${call.function} ${names.join()}`;
    let statement = written.get(shape);
    if (!statement) {
      count += 1;
      const text = writeText(call, format, names, hasApplication, answerLimit);
      statement = { text, name: `gateway_${count}` };
      written.set(shape, statement);
    }
    const values = names.map((name) => toText(call.args[name]));
    if (hasApplication) values.push(applicationName);
    return { ...statement, values };
  };
}

/** The result in a statement's row, which has the columns `json` and, for calls, `count` and `replayed`. */
export function toResult(row: Row | undefined): Result {
  const [json, count, replayed] = row ?? [];
  // A jsonb null counts as SQL's null, because PostgREST does not distinguish them.
  if (json === 'null') return noRecord();
  if (typeof json === 'string') {
    const counted = typeof count === 'string' ? { json, count: Number(count) } : { json };
    return replayed === 't' ? { ...counted, isReplayed: true } : counted;
  }
  if (typeof count === 'string') return answerTooLarge();
  return noRecord();
}

/** Makes a call in a transaction that the caller rolls back, and checks deferred constraints. */
export async function tryCall(db: Database, call: Call): Promise<Result> {
  const { text, values } = createStatementWriter()(call, call.returns);
  try {
    const { rows } = await db.query(text, [...values]);
    await db.query(CHECK_DEFERRED);
    const [row] = rows as { json: string | null }[];
    return toResult(row && [row.json]);
  } catch (error) {
    return { failure: toFailure(error as PgError) };
  }
}

function writeText(
  { function: name, readOnly }: Call,
  format: Format,
  argNames: readonly string[],
  hasApplication: boolean,
  answerLimit: number,
): string {
  const args = argNames.map((argName, index) => `${pg.escapeIdentifier(argName)} => $${index + 1}`).join(', ');
  const result = `public.${pg.escapeIdentifier(name)}(${args})`;
  // The settings are made in a condition, which needs no statement of its own. Postgres evaluates a condition that does not depend on
  // the rows before it calls the function. The settings end with the transaction.
  const place = `$${argNames.length + 1}`;
  // Postgres truncates application_name to 63 bytes, but private.request_id needs the whole id.
  const id = `pg_catalog.set_config('wellness.request_id', pg_catalog.regexp_replace(${place}, '^.* ', ''), true)`;
  const settings = [`pg_catalog.set_config('application_name', ${place}, true)`, ...(readOnly ? [] : [id])];
  const application = `(select ${settings.join(' || ')}) is not null`;
  const conditions = [...(hasApplication ? [application] : []), ...toConditions(format, name)];
  const where = conditions.length > 0 ? ` where ${conditions.join(' and ')}` : '';
  return `select ${toColumns(format, result, where, answerLimit)}`;
}

/** The conditions under which a row is a record. */
function toConditions(format: Format, name: string): string[] {
  if (format === 'value') return ['r.value is not null'];
  if (format !== 'row') return [];
  // A function that returns a row type, and not a set, returns null for no record, which is a row of nulls here.
  const isSet = `select p.proretset from pg_catalog.pg_proc p
    where p.pronamespace = 'public'::pg_catalog.regnamespace and p.proname = ${pg.escapeLiteral(name)}`;
  return [`(not r.* is null or (${isSet}))`];
}

/** The select list and the from clause for the function's result under a condition. */
function toColumns(format: Format, result: string, where: string, answerLimit: number): string {
  // `offset 0` computes the JSON once: Postgres would otherwise write it a second time for its length.
  const toOne = (json: string, from: string) => `
    case when octet_length(o.json) > ${answerLimit} then null else o.json end as json, 1 as count, ${REPLAYED}
    from (select ${json}::text as json from ${from}${where} offset 0) o`;
  switch (format) {
    case 'columns':
      return `* from ${result}${where}`;
    case 'nothing':
      return `'' as json, count(*)::integer as count, ${REPLAYED} from ${result}${where} having count(*) > 0`;
    case 'value':
      return toOne('to_json(r.value)', `${result} as r (value)`);
    case 'row':
      // The subquery is needed because the row of a function with one column would be that column's value. The asterisk is needed
      // because `r` alone would be a column of that name.
      return toOne('row_to_json(r.*)', `(select * from ${result}) r`);
    case 'values':
    case 'rows': {
      // If the function returns no table, its value is a column named after the alias. No other column may have that name.
      const one = format === 'rows' ? 'row_to_json(r.*)' : `coalesce(row_to_json(r.*) -> '${WHOLE}', row_to_json(r.*))`;
      // Not json_agg, which puts a line break between the rows.
      const rows = `coalesce(string_agg(${one}::text, ','), '')`;
      // Postgres computes an aggregate once, even if it stands twice.
      const isTooLarge = `octet_length(${rows}) > ${answerLimit - '[]'.length}`;
      const json = `case when ${isTooLarge} then null else '[' || ${rows} || ']' end`;
      return `${json} as json, count(*)::integer as count, ${REPLAYED} from (select * from ${result} "${WHOLE}") r${where}`;
    }
  }
}

/** Writes a value as text, which takes the type of the function's argument: no driver has to guess it. */
function toText(value: Argument | undefined): string | null {
  if (value === null || value === undefined) return null;
  if (typeof value !== 'object') return String(value);
  return 'json' in value ? value.json : `{${value.map(toItem)}}`;
}

/** An item of an array in Postgres's text form. */
function toItem(value: Json): string {
  return value === null ? 'NULL' : `"${String(value).replace(/["\\]/g, '\\$&')}"`;
}
