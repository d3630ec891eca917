import type pg from 'pg';
import { serialize } from 'pg-protocol';
import { type JsonArray, type JsonColumn, toJsonColumns } from './json-rows.ts';
import type { RowClient, RowReader } from './postgres-client.ts';
import type { NamedStatement, Statement } from './statement.ts';

/** Columns in Postgres's text form. */
export type Row = readonly (string | null)[];

/** What pg's connections have, and their types leave out. */
type Connection = pg.Connection & { readonly parsedStatements: Readonly<Record<string, string | undefined>> };

/**
 * Runs a statement and gives the first of its rows, if it has one. Fails as `client.query` does. Beside pg's own query
 * it does not ask for the description of columns that are known, and parses none of them: that would be a quarter of
 * what a call costs the process.
 */
export function queryRow(client: pg.ClientBase, statement: Statement | NamedStatement): Promise<Row | undefined> {
  return new Promise((resolve, reject) => {
    client.query(new RowQuery(statement, (error, row) => (error ? reject(error) : resolve(row))));
  });
}

/**
 * Runs a statement and gives its rows as JSON, as row_to_json writes them; undefined where only Postgres can write
 * that, which is known when it is too late. Fails as `client.query` does.
 */
export function queryRows(client: RowClient, statement: NamedStatement): Promise<JsonArray | undefined> {
  return new Promise((resolve, reject) => {
    client.query(new RowsQuery(client, statement, (error, rows) => (error ? reject(error) : resolve(rows))));
  });
}

const EXECUTE_AND_SYNC = Buffer.concat([serialize.execute(), serialize.sync()]);

/** One query in pg's own terms: it submits messages, and is given those that answer them. */
abstract class Query<Result> implements pg.Submittable {
  readonly text: string;
  readonly name: string;
  readonly callback: (error: Error | null, result?: Result) => void;
  readonly #values: Row;

  constructor(statement: Statement | NamedStatement, callback: Query<Result>['callback']) {
    this.text = statement.text;
    this.name = 'name' in statement ? statement.name : '';
    this.#values = statement.values;
    this.callback = callback;
  }

  submit(connection: pg.Connection): void {
    const { parsedStatements, stream } = connection as Connection;
    const { name } = this;
    const messages = [serialize.bind({ statement: name, values: [...this.#values] }), EXECUTE_AND_SYNC];
    if (name === '' || parsedStatements[name] === undefined) messages.unshift(...this.prepare());
    // In one piece: to hand over several costs the process more than to copy them. A connection that was lost is told
    // to the query by its end, as pg does it.
    if (stream.writable) stream.write(Buffer.concat(messages));
  }

  protected prepare(): Buffer[] {
    return [serialize.parse({ name: this.name, text: this.text })];
  }

  abstract handleReadyForQuery(): void;

  handleError(error: Error): void {
    this.callback(error);
  }

  handleDataRow(_row: { fields: Row }): void {}

  handleRowDescription(_description: { fields: pg.FieldDef[] }): void {}

  handleCommandComplete(): void {}

  handleEmptyQuery(): void {}

  handlePortalSuspended(): void {}
}

class RowQuery extends Query<Row> {
  #row: Row | undefined;

  override handleDataRow({ fields }: { fields: Row }): void {
    this.#row ??= fields;
  }

  override handleReadyForQuery(): void {
    this.callback(null, this.#row);
  }
}

class RowsQuery extends Query<JsonArray> implements RowReader {
  readonly #client: RowClient;
  #columns: readonly JsonColumn[] | undefined;
  #failure: Error | undefined;

  constructor(client: RowClient, statement: NamedStatement, callback: Query<JsonArray>['callback']) {
    super(statement, callback);
    this.#client = client;
    this.#columns = client.columns.get(this.name);
  }

  override submit(connection: pg.Connection): void {
    this.#client.rows.clear();
    this.#client.reader = this;
    super.submit(connection);
  }

  protected override prepare(): Buffer[] {
    return [...super.prepare(), serialize.describe({ type: 'S', name: this.name })];
  }

  override handleRowDescription({ fields }: { fields: pg.FieldDef[] }): void {
    this.#columns = toJsonColumns(fields);
    this.#client.columns.set(this.name, this.#columns);
  }

  readRow(bytes: Buffer, begin: number): void {
    if (!this.#columns || this.#failure) return;
    try {
      this.#client.rows.add(this.#columns, bytes, begin);
    } catch (error) {
      this.#fail(error);
    }
  }

  override handleError(error: Error): void {
    this.#client.reader = undefined;
    super.handleError(error);
  }

  override handleReadyForQuery(): void {
    this.#client.reader = undefined;
    let array: JsonArray | undefined;
    try {
      array = this.#columns && this.#client.rows.take();
    } catch (error) {
      this.#fail(error);
    }
    this.callback(this.#failure ?? null, array);
  }

  /** There is no memory for the rows. Thrown here, an error would end the process. */
  #fail(error: unknown): void {
    this.#failure = error instanceof Error ? error : new Error(String(error));
  }
}
