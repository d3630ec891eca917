import type pg from 'pg';
import type { FieldDef } from 'pg';
import { serialize } from 'pg-protocol';
import { type JsonArray, type JsonColumns, toJsonColumns } from './json-rows.ts';
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
 * Runs a statement and gives its rows as JSON, as row_to_json writes them; undefined where only Postgres can write that,
 * and the statement was not run. Fails as `client.query` does.
 */
export async function queryRows(client: RowClient, statement: NamedStatement): Promise<JsonArray | undefined> {
  const columns = client.columns.get(statement.name) ?? (await prepareRows(client, statement));
  if (!columns) return undefined;
  return new Promise((resolve, reject) => {
    client.query(new RowsQuery(client, statement, columns, (error, rows) => (error ? reject(error) : resolve(rows))));
  });
}

/** Prepares a statement and gives its columns, if they can be written here: their formats depend on their types. */
async function prepareRows(client: RowClient, statement: NamedStatement): Promise<JsonColumns | undefined> {
  const fields = await new Promise<FieldDef[]>((resolve, reject) => {
    client.query(new Description(statement, (error, found = []) => (error ? reject(error) : resolve(found))));
  });
  const columns = toJsonColumns(fields);
  if (columns) client.columns.set(statement.name, columns);
  return columns;
}

const SYNC = serialize.sync();
const EXECUTE_AND_SYNC = Buffer.concat([serialize.execute(), SYNC]);
/** How many bytes at the end of pg's Bind ask for one format of all columns. */
const ONE_FORMAT = 4;

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
    const messages = this.run();
    if (this.name === '' || parsedStatements[this.name] === undefined) messages.unshift(this.prepare());
    // In one piece: to hand over several costs the process more than to copy them. A connection that was lost is told
    // to the query by its end, as pg does it.
    if (stream.writable) stream.write(Buffer.concat(messages));
  }

  prepare(): Buffer {
    return serialize.parse({ name: this.name, text: this.text });
  }

  bind(): Buffer {
    return serialize.bind({ statement: this.name, values: [...this.#values] });
  }

  /** The messages that run it when it is prepared. */
  run(): Buffer[] {
    return [this.bind(), EXECUTE_AND_SYNC];
  }

  abstract handleReadyForQuery(): void;

  handleError(error: Error): void {
    this.callback(error);
  }

  handleDataRow(_row: { fields: Row }): void {}

  handleRowDescription(_description: { fields: FieldDef[] }): void {}

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

/** Prepares a statement and asks for its columns. */
class Description extends Query<FieldDef[]> {
  #fields: FieldDef[] = [];

  override run(): Buffer[] {
    return [serialize.describe({ type: 'S', name: this.name }), SYNC];
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
  #failure: Error | undefined;

  constructor(
    client: RowClient,
    statement: NamedStatement,
    columns: JsonColumns,
    callback: Query<JsonArray>['callback'],
  ) {
    super(statement, callback);
    this.#client = client;
    this.#columns = columns;
  }

  override submit(connection: pg.Connection): void {
    this.#client.rows.clear();
    this.#client.reader = this;
    super.submit(connection);
  }

  override run(): Buffer[] {
    const { formats } = this.#columns;
    const bind = this.bind();
    bind.writeInt32BE(bind.length - 1 - ONE_FORMAT + formats.length, 1);
    return [bind.subarray(0, -ONE_FORMAT), formats, EXECUTE_AND_SYNC];
  }

  readRow(bytes: Buffer, begin: number): void {
    if (this.#failure) return;
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
      array = this.#client.rows.take();
    } catch (error) {
      this.#fail(error);
    }
    this.callback(this.#failure ?? null, array);
  }

  /** There is no memory for the rows. Thrown here, an error would end the process. */
  #fail(error: unknown): void {
    this.#failure ??= error instanceof Error ? error : new Error(String(error));
  }
}
