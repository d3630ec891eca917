import type pg from 'pg';
import type { FieldDef } from 'pg';
import { serialize } from 'pg-protocol';
import type { NamedStatement } from '../statement.ts';
import { type JsonArray, type JsonColumns, toJsonColumns } from './json/rows.ts';
import { EXECUTE_AND_SYNC, Query } from './query.ts';
import type { RowClient, RowReader } from './row-client.ts';

/** Rows that came and cannot be written: there is no memory for them, or they are not what was described. */
export class RowsError extends Error {}

/** The rows take more bytes than the limit. */
export class AnswerTooLarge extends Error {}

/** What bounds the reading of rows. */
export type RowsOptions = {
  readonly signal: AbortSignal;
  /** The most bytes that the rows may take as JSON. */
  readonly limit: number;
  /** Ends the query whose rows are of no use any more. */
  readonly cancel: () => void;
};

/**
 * Runs a statement and gives its rows as JSON, as row_to_json writes them; undefined where only Postgres can write that,
 * and the statement was not run. Fails as `client.query` does, with RowsError, with AnswerTooLarge, or with the reason of
 * a signal that has aborted before the statement was begun.
 */
export async function queryRows(
  client: RowClient,
  statement: NamedStatement,
  options: RowsOptions,
): Promise<JsonArray | undefined> {
  const columns = client.columns.get(statement.name) ?? (await prepare(client, statement));
  if (!columns) return undefined;
  options.signal.throwIfAborted();
  return new Promise((resolve, reject) => {
    const end: Query<JsonArray>['callback'] = (error, rows) => (error ? reject(error) : resolve(rows));
    client.query(new RowsQuery(client, statement, columns, options, end));
  });
}

/** Prepares a statement and gives its columns, if they can be written here: how they are sent depends on their types. */
async function prepare(client: RowClient, statement: NamedStatement): Promise<JsonColumns | undefined> {
  const fields = await new Promise<FieldDef[]>((resolve, reject) => {
    client.query(new ColumnsQuery(statement, (error, found = []) => (error ? reject(error) : resolve(found))));
  });
  const columns = toJsonColumns(fields);
  if (columns) client.columns.set(statement.name, columns);
  return columns;
}

/** The end of pg's Bind, which asks for all columns as text: one format, and its code. Its length counts no code. */
const ALL_AS_TEXT = 4;
const CODE = 1;

/** Prepares a statement and asks what its columns are. */
class ColumnsQuery extends Query<FieldDef[]> {
  #fields: FieldDef[] = [];

  override toRun(): Buffer[] {
    return [serialize.describe({ type: 'S', name: this.name }), serialize.sync()];
  }

  override handleRowDescription({ fields }: { fields: FieldDef[] }): void {
    this.#fields = fields;
  }

  override handleReadyForQuery(): void {
    this.callback(null, this.#fields);
  }
}

/** Runs a statement that is prepared, and writes its rows as JSON. */
class RowsQuery extends Query<JsonArray> implements RowReader {
  readonly #client: RowClient;
  readonly #columns: JsonColumns;
  readonly #options: RowsOptions;
  #failure: RowsError | AnswerTooLarge | undefined;

  constructor(
    client: RowClient,
    statement: NamedStatement,
    columns: JsonColumns,
    options: RowsOptions,
    callback: Query<JsonArray>['callback'],
  ) {
    super(statement, callback);
    this.#client = client;
    this.#columns = columns;
    this.#options = options;
  }

  override submit(connection: pg.Connection): void {
    this.#client.rows.clear();
    this.#client.reader = this;
    super.submit(connection);
  }

  override toRun(): Buffer[] {
    const { formats } = this.#columns;
    const bind = this.toBind();
    bind.writeInt32BE(bind.length - CODE - ALL_AS_TEXT + formats.length, CODE);
    return [bind.subarray(0, -ALL_AS_TEXT), formats, EXECUTE_AND_SYNC];
  }

  readRow(bytes: Buffer, begin: number, end: number): void {
    if (this.#failure) return;
    try {
      const { rows } = this.#client;
      rows.add(this.#columns, bytes, begin, end);
      // The end of the array is one byte more.
      if (rows.bytes >= this.#options.limit) this.#stop();
    } catch (error) {
      this.#fail(error);
    }
  }

  override handleDataRow(): void {
    this.#fail(new Error('a row came past its reader'));
  }

  override handleError(error: Error): void {
    this.#end();
    super.handleError(this.#failure ?? error);
  }

  override handleReadyForQuery(): void {
    let array: JsonArray | undefined;
    try {
      array = this.#client.rows.take();
    } catch (error) {
      this.#fail(error);
    }
    this.#end();
    this.callback(this.#failure ?? null, array);
  }

  /** The rest of the rows is not wanted; what of it comes all the same is dropped. */
  #stop(): void {
    this.#failure = new AnswerTooLarge();
    this.#client.rows.clear();
    this.#options.cancel();
  }

  /** Thrown where rows are read, an error would end the process. */
  #fail(cause: unknown): void {
    this.#failure ??= new RowsError('the rows cannot be written as JSON', { cause });
    this.#client.rows.clear();
  }

  #end(): void {
    this.#client.rows.clear();
    if (this.#client.reader === this) this.#client.reader = undefined;
  }
}
