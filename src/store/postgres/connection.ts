// A connection to Postgres that reads rows itself: pg connects, authenticates and queues; the rows of a list go from the
// bytes of the protocol to JSON without becoming values in between.

import pg, { type FieldDef } from 'pg';
import { serialize } from 'pg-protocol';
import type { NamedStatement, Row, Statement } from '../statement.ts';
import { type JsonArray, type JsonColumns, JsonRows, toJsonColumns } from './json/rows.ts';

/** Private parts of pg's connections that are used here. */
type ConnectionInternals = {
  attachListeners(stream: Stream): void;
  readonly parsedStatements: Readonly<Record<string, string | undefined>>;
  readonly stream: { readonly writable: boolean; write(bytes: Uint8Array): void };
};

/** A query that reads its rows itself: each is a range of the received bytes. */
type RowReader = { readRow(bytes: Buffer, begin: number, end: number): void };

type Listener = (chunk: Buffer) => void;
type Stream = { on(event: string, listener: Listener): unknown };

/** Every message of Postgres's protocol begins with a code and a length, of this many bytes. */
const HEADER = 5;
/** The code of a row's message. */
const DATA_ROW = 0x44;

/**
 * A client whose queries may read their rows themselves. pg's parser creates a text for each value and an event for each
 * row, which takes longer than everything else.
 */
export class RowClient extends pg.Client {
  /** The running query if it reads its rows itself; the rows of other queries are pg's. */
  reader: RowReader | undefined;
  /** The rows of the running query as JSON. */
  readonly rows = new JsonRows();
  /** The columns of statements that are prepared on this connection, by name. */
  readonly columns = new Map<string, JsonColumns>();

  constructor(config?: pg.ClientConfig) {
    super(config);
    const connection = this.connection as unknown as ConnectionInternals;
    const attachListeners = connection.attachListeners.bind(connection);
    connection.attachListeners = (stream) => {
      const on: Stream['on'] = (event, listener) =>
        stream.on(event, event === 'data' ? joinMessages((bytes) => this.#read(bytes, listener)) : listener);
      attachListeners({ on });
    };
  }

  /** Passes complete messages to the reader and to pg; gives how many bytes they have. */
  #read(bytes: Buffer, parse: Listener): number {
    let parsed = 0;
    let at = 0;
    for (let end = toEnd(bytes, at); end <= bytes.length; end = toEnd(bytes, at)) {
      if (this.reader && bytes[at] === DATA_ROW) {
        if (parsed < at) parse(bytes.subarray(parsed, at));
        parsed = at;
        // The messages before the row may have ended its query; then the row is pg's.
        if (this.reader) {
          this.reader.readRow(bytes, at + HEADER, end);
          parsed = end;
        }
      }
      at = end;
    }
    if (parsed < at) parse(bytes.subarray(parsed, at));
    return at;
  }
}

/** Keeps an incomplete message until its rest arrives. */
function joinMessages(read: (bytes: Buffer) => number): Listener {
  let parts: Buffer[] = [];
  let length = 0;
  let needed = 0;
  return (chunk) => {
    parts.push(chunk);
    length += chunk.length;
    if (length < needed) return;
    const bytes = parts.length === 1 ? chunk : Buffer.concat(parts, length);
    // If `read` throws, nothing is read twice.
    parts = [];
    length = 0;
    needed = 0;
    const rest = bytes.subarray(read(bytes));
    parts = rest.length > 0 ? [rest] : [];
    length = rest.length;
    needed = toEnd(rest, 0);
  };
}

/** The end of the message at an index; beyond the bytes if it is incomplete. */
function toEnd(bytes: Buffer, begin: number): number {
  if (begin + HEADER > bytes.length) return begin + HEADER;
  return begin + 1 + bytes.readUInt32BE(begin + 1);
}

/**
 * Runs a statement and gives its first row, if any. Fails as `client.query` does. Unlike pg's own query it does not ask
 * for the description of the columns, which would be a quarter of a call's processor time.
 */
export function queryRow(client: pg.ClientBase, statement: Statement): Promise<Row | undefined> {
  return new Promise((resolve, reject) => {
    client.query(new RowQuery(statement, (error, row) => (error ? reject(error) : resolve(row))));
  });
}

/** The messages that end every query. */
const EXECUTE_AND_SYNC = Buffer.concat([serialize.execute(), serialize.sync()]);

/** A query in pg's terms: it submits messages, and handles those that answer them. */
abstract class Query<Result> implements pg.Submittable {
  readonly text: string;
  readonly name: string;
  readonly callback: (error: Error | null, result?: Result) => void;
  readonly #values: Row;

  constructor(statement: Statement, callback: Query<Result>['callback']) {
    this.text = statement.text;
    this.name = statement.name ?? '';
    this.#values = statement.values;
    this.callback = callback;
  }

  submit(connection: pg.Connection): void {
    const { parsedStatements, stream } = connection as unknown as ConnectionInternals;
    const messages = this.toRun();
    if (this.name === '' || parsedStatements[this.name] === undefined)
      messages.unshift(serialize.parse({ name: this.name, text: this.text }));
    // In one piece, because several writes cost more than a copy. A lost connection ends the query by its own event.
    if (stream.writable) stream.write(Buffer.concat(messages));
  }

  /** The messages that run the prepared statement. */
  toRun(): Buffer[] {
    return [this.toBind(), EXECUTE_AND_SYNC];
  }

  toBind(): Buffer {
    return serialize.bind({ statement: this.name, values: [...this.#values] });
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

/** Rows that cannot be written as JSON: they are not as described, or there is no memory for them. */
export class RowsError extends Error {}

/** The rows are larger than the limit. */
export class AnswerTooLarge extends Error {}

/** The bounds of reading rows. */
export type RowsOptions = {
  readonly signal: AbortSignal;
  /** The largest JSON, in bytes. */
  readonly limit: number;
  /** Cancels the query. */
  readonly cancel: () => void;
};

/**
 * Runs a statement and gives its rows as JSON, as row_to_json writes them; undefined, without running it, for columns that
 * only Postgres can write. Fails as `client.query` does, with RowsError, with AnswerTooLarge, or with the reason of a signal
 * that aborted before the statement began.
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

/** Prepares a statement and gives its columns if they can be written here: their types decide how they are sent. */
async function prepare(client: RowClient, statement: NamedStatement): Promise<JsonColumns | undefined> {
  const fields = await new Promise<FieldDef[]>((resolve, reject) => {
    client.query(new ColumnsQuery(statement, (error, found = []) => (error ? reject(error) : resolve(found))));
  });
  const columns = toJsonColumns(fields);
  if (columns) client.columns.set(statement.name, columns);
  return columns;
}

/** The end of pg's Bind message, which asks for all columns as text. */
const ALL_AS_TEXT = 4;
const CODE = 1;

/** Prepares a statement and asks for its columns. */
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

/** Runs a prepared statement, and writes its rows as JSON. */
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
      // The closing bracket is one byte more.
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

  /** Drops the rows that still arrive. */
  #stop(): void {
    this.#failure = new AnswerTooLarge();
    this.#client.rows.clear();
    this.#options.cancel();
  }

  /** An error that is thrown while rows are read would end the process. */
  #fail(cause: unknown): void {
    this.#failure ??= new RowsError('the rows cannot be written as JSON', { cause });
    this.#client.rows.clear();
  }

  #end(): void {
    this.#client.rows.clear();
    if (this.#client.reader === this) this.#client.reader = undefined;
  }
}
