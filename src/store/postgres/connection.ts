// A connection to Postgres with a pipeline: pg connects and authenticates, then the loop here has the socket. The queries of a
// turn of the event loop leave in one write, answers are read in one piece, and rows go from the bytes of the protocol to JSON
// without becoming values in between.

import { type Duplex, Readable } from 'node:stream';
import pg, { type FieldDef } from 'pg';
import { DatabaseError, parse, serialize } from 'pg-protocol';
import type { NamedStatement, Row, Statement } from '../statement.ts';
import { type BackendKey, requestCancel } from './cancel.ts';
import { type JsonArray, type JsonColumns, JsonRows, toJsonColumns } from './json/rows.ts';

/** The connection was lost before it answered. */
export class ConnectionLost extends Error {}

/** Rows that cannot be written as JSON: they are not as described, or there is no memory for them. */
export class RowsError extends Error {}

/** The rows are larger than the limit. */
export class AnswerTooLarge extends Error {}

/** A statement to run once. */
abstract class Query {
  readonly statement: Statement;
  /** Once it has aborted, nobody waits for the answer. */
  readonly signal: AbortSignal;
  /** Rejects with DatabaseError, ConnectionLost, RowsError, AnswerTooLarge, or the reason of the signal. */
  readonly answer: Promise<JsonArray | Row | undefined>;
  readonly resolve: (value: JsonArray | Row | undefined) => void;
  readonly reject: (error: unknown) => void;

  constructor(statement: Statement, signal: AbortSignal) {
    this.statement = statement;
    this.signal = signal;
    const { promise, resolve, reject } = Promise.withResolvers<JsonArray | Row | undefined>();
    this.answer = promise;
    this.resolve = resolve;
    this.reject = reject;
  }
}

/** Asks for the first row, if any, with all values as text. */
export class RowQuery extends Query {
  declare readonly answer: Promise<Row | undefined>;
}

/**
 * Asks for all rows as JSON, as row_to_json writes them. The answer is undefined, and the statement does not run, where only
 * Postgres can write them.
 */
export class RowsQuery extends Query {
  declare readonly answer: Promise<JsonArray | undefined>;
  /** The largest JSON, in bytes. */
  readonly limit: number;

  constructor(statement: NamedStatement, signal: AbortSignal, limit: number) {
    super(statement, signal);
    this.limit = limit;
  }
}

/** What a query is answered with. */
export type Answered<T> = { readonly answer: Promise<T> };

export type { Query };

/** A statement that Postgres prepares, and the queries that wait for it. */
type Preparation = { readonly name: string; readonly waiting: Query[]; fields: FieldDef[] };

/** A prepared statement: how its rows are written; without columns, only Postgres can. */
type Prepared = { readonly columns: JsonColumns | undefined };

/** What was sent up to a Sync, and what has come for it. */
type Exchange = {
  readonly query?: Query;
  readonly columns?: JsonColumns | undefined;
  readonly preparation?: Preparation;
  row?: Row;
  error?: Error;
  /** How many Syncs have not been answered. */
  open: number;
  /** A cancellation was under way when it may have begun. */
  mayBeHit?: boolean;
  /** Another connection runs the query. */
  isMoved?: boolean;
  onEnd?: () => void;
};

/** What a connection tells its pool. */
export type Listener = {
  /** Something has ended: the connection may have room. */
  onProgress(connection: Connection): void;
  /** A query was cancelled in place of another, and is to run again. */
  onHit(query: Query): unknown;
};

/** Every message of Postgres's protocol begins with a code and a length, of this many bytes. */
const HEADER = 5;
const DATA_ROW = 0x44;
const ERROR_RESPONSE = 0x45;
const ROW_DESCRIPTION = 0x54;
const READY_FOR_QUERY = 0x5a;

const EXECUTE_AND_SYNC = Buffer.concat([serialize.execute(), serialize.sync()]);
const BEGIN = Buffer.concat([serialize.parse({ text: 'begin' }), serialize.bind(), serialize.execute()]);
/** After a Sync of its own, because an error makes Postgres skip everything up to that: then this rolls back. */
const COMMIT = Buffer.concat([serialize.parse({ text: 'commit' }), serialize.bind(), EXECUTE_AND_SYNC]);

/** Whether the database is distributed over nodes, to which Citus takes the tenant only in a transaction block. */
const IS_DISTRIBUTED = `select from pg_extension where extname = 'citus'`;

const QUERY_CANCELED = '57014';
/** The statements no longer fit: functions have changed (classes 0A, 42), or a pooler has mixed up sessions (26). */
const UNFIT = /^(0A|26|42)/;

/** How long a cancelled query may go on, in milliseconds; then its connection is closed. */
const CANCEL_MS = 1_000;

export class Connection {
  /** The number of queries that have not ended. */
  pending = 0;
  /** The number of queries that have ended. */
  ended = 0;
  /** Whether it must not get more queries. */
  isRetired = false;
  readonly #client: pg.Client;
  readonly #key: BackendKey;
  readonly #isDistributed: boolean;
  readonly #listener: Listener | undefined;
  readonly #stream: Duplex;
  readonly #statements = new Map<string, Prepared | Preparation>();
  /** The rows of the running query. */
  readonly #rows = new JsonRows();
  #toSend: Query[] = [];
  /** The first one runs. */
  #sent: Exchange[] = [];
  #parts: Buffer[] = [];
  #length = 0;
  #needed = 0;
  #cancellation: Promise<void> | undefined;
  #cause: Error | undefined;
  #lost: ConnectionLost | undefined;

  /** Connects, and runs the statements of `setup`. Rejects with what pg rejects with. */
  static async open(config: pg.ClientConfig, setup?: string, listener?: Listener): Promise<Connection> {
    const client = new pg.Client(config);
    // Without a listener a lost connection would end the process.
    client.on('error', () => {});
    let key: BackendKey = { processID: 0, secretKey: 0 };
    client.connection.once('backendKeyData', (message) => {
      key = message;
    });
    await client.connect();
    try {
      if (setup) await client.query(setup);
      const { rowCount } = await client.query(IS_DISTRIBUTED);
      return new Connection(client, key, rowCount === 1, listener);
    } catch (error) {
      // Each attempt would leave a connection behind.
      void client.end().catch(() => {});
      throw error;
    }
  }

  constructor(client: pg.Client, key: BackendKey, isDistributed: boolean, listener: Listener | undefined) {
    this.#client = client;
    this.#key = key;
    this.#isDistributed = isDistributed;
    this.#listener = listener;
    this.#stream = client.connection.stream;
    this.#stream.removeAllListeners('data').on('data', (chunk) => this.#receive(chunk));
    client.on('error', (error) => {
      this.#cause ??= error;
    });
    client.once('end', () => this.#onClosed());
  }

  /** Whether it has queries to send at the end of this turn. */
  get hasUnsent(): boolean {
    return this.#toSend.length > 0;
  }

  /** The server's process; a pooler invents one. */
  get processId(): number {
    return this.#key.processID;
  }

  /** Whether a cancellation is under way: it may hit any query that runs. */
  get isCancelling(): boolean {
    return this.#cancellation !== undefined;
  }

  /** Whether nobody waits for the running query. */
  get runsInVain(): boolean {
    const [running] = this.#sent;
    return running?.query !== undefined && (running.isMoved === true || running.query.signal.aborted);
  }

  /** Sends a query at the end of this turn, unless its signal aborts before. */
  send(query: Query): void {
    this.pending += 1;
    if (this.#toSend.push(query) === 1) setImmediate(() => this.#flush());
  }

  /** Takes back the queries behind the running one. Postgres still runs them, and their answers are dropped. */
  takeBack(): Query[] {
    return this.#sent.slice(1).flatMap((exchange) => {
      if (!exchange.query || exchange.isMoved) return [];
      exchange.isMoved = true;
      return [exchange.query];
    });
  }

  /** Cancels the running query. Resolves when it has ended, and the request for it can hit no other. */
  cancel(): Promise<void> {
    this.#cancellation ??= this.#cancel().finally(() => {
      this.#cancellation = undefined;
      this.#listener?.onProgress(this);
    });
    return this.#cancellation;
  }

  async #cancel(): Promise<void> {
    const [running, ...next] = this.#sent;
    if (!running) return;
    for (const exchange of next) exchange.mayBeHit = true;
    const ended = new Promise<void>((resolve) => {
      running.onEnd = resolve;
    });
    const cut = setTimeout(() => this.#stream.destroy(), CANCEL_MS);
    void ended.then(() => clearTimeout(cut));
    await Promise.all([ended, requestCancel(this.#client, this.#key, CANCEL_MS)]);
  }

  /** Closes the connection, whatever runs. */
  async close(): Promise<void> {
    this.isRetired = true;
    await this.#client.end();
  }

  #flush(): void {
    const queries = this.#toSend;
    this.#toSend = [];
    const messages: Uint8Array[] = [];
    for (const query of queries) this.#begin(query, messages);
    if (messages.length > 0 && this.#stream.writable) this.#stream.write(Buffer.concat(messages));
    if (this.pending === 0) this.#listener?.onProgress(this);
  }

  #begin(query: Query, messages: Uint8Array[]): void {
    const { name, text, values } = query.statement;
    if (query.signal.aborted || this.#lost) {
      this.pending -= 1;
      query.reject(this.#lost ?? query.signal.reason);
      return;
    }
    if (name === undefined) {
      this.#call({ query }, [serialize.parse({ text }), toBind('', values)], messages);
      return;
    }
    const statement = this.#statements.get(name);
    if (statement === undefined) {
      const preparation: Preparation = { name, waiting: [query], fields: [] };
      this.#statements.set(name, preparation);
      messages.push(serialize.parse({ name, text }), serialize.describe({ type: 'S', name }), serialize.sync());
      this.#sent.push({ preparation, open: 1, mayBeHit: this.isCancelling });
    } else if ('waiting' in statement) {
      statement.waiting.push(query);
    } else if (query instanceof RowQuery || statement.columns) {
      const exchange = query instanceof RowQuery ? { query } : { query, columns: statement.columns };
      this.#call(exchange, [toBind(name, values)], messages);
    } else {
      this.pending -= 1;
      query.resolve(undefined);
    }
  }

  /** Executes what the call binds. */
  #call(exchange: Pick<Exchange, 'query' | 'columns'>, call: readonly Uint8Array[], messages: Uint8Array[]): void {
    if (this.#isDistributed) messages.push(BEGIN, ...call, EXECUTE_AND_SYNC, COMMIT);
    else messages.push(...call, EXECUTE_AND_SYNC);
    this.#sent.push({ ...exchange, open: this.#isDistributed ? 2 : 1, mayBeHit: this.isCancelling });
  }

  #receive(chunk: Buffer): void {
    this.#parts.push(chunk);
    this.#length += chunk.length;
    if (this.#length < this.#needed) return;
    const bytes = this.#parts.length === 1 ? chunk : Buffer.concat(this.#parts, this.#length);
    let at = 0;
    let end = toEnd(bytes, at);
    try {
      for (; end <= bytes.length; end = toEnd(bytes, at)) {
        this.#take(bytes, at, end);
        at = end;
      }
    } catch (error) {
      this.#cause ??= error as Error;
      this.#stream.destroy();
      return;
    }
    // An incomplete message is kept until its rest arrives.
    this.#length = bytes.length - at;
    this.#parts = this.#length > 0 ? [bytes.subarray(at)] : [];
    this.#needed = end - at;
    this.#listener?.onProgress(this);
  }

  /** Takes the message in a range. Throws where the server does not keep to the protocol. */
  #take(bytes: Buffer, begin: number, end: number): void {
    const code = bytes[begin];
    const [running] = this.#sent;
    if (code === DATA_ROW) {
      if (!running?.query) throw new Error('a row without a query');
      this.#takeRow(running, running.query, bytes, begin + HEADER, end);
    } else if (code === READY_FOR_QUERY) {
      if (!running) throw new Error('an answer without a query');
      running.open -= 1;
      if (running.open > 0) return;
      this.#sent.shift();
      this.#end(running);
    } else if (code === ROW_DESCRIPTION) {
      const { fields } = parseMessage(bytes.subarray(begin, end)) as { fields: FieldDef[] };
      if (running?.preparation) running.preparation.fields = fields;
    } else if (code === ERROR_RESPONSE) {
      const error = parseMessage(bytes.subarray(begin, end)) as DatabaseError;
      // The rows before an error are no answer.
      this.#rows.clear();
      if (running) running.error ??= error;
      else this.#cause = error;
      // The server closes a connection to which it sends an error without a query, or a fatal one.
      if (!running || error.severity === 'FATAL' || UNFIT.test(error.code ?? '')) this.isRetired = true;
    }
  }

  #takeRow(exchange: Exchange, query: Query, bytes: Buffer, begin: number, end: number): void {
    const { columns } = exchange;
    if (exchange.error || exchange.isMoved) return;
    if (!columns) {
      exchange.row ??= toTexts(bytes, begin);
      return;
    }
    try {
      this.#rows.add(columns, bytes, begin, end);
    } catch (cause) {
      exchange.error = toRowsError(cause);
    }
    // The closing bracket is one byte more.
    if (query instanceof RowsQuery && this.#rows.bytes >= query.limit) {
      exchange.error = new AnswerTooLarge();
      void this.cancel();
    }
    if (exchange.error) this.#rows.clear();
  }

  /** Ends the running exchange, whose answer is complete. */
  #end(exchange: Exchange): void {
    const { query, preparation, columns, row, error, isMoved } = exchange;
    exchange.onEnd?.();
    if (query) {
      this.pending -= 1;
      this.ended += 1;
    }
    if (isMoved) return;
    if (error) this.#fail(exchange, error);
    else if (preparation) this.#endPreparation(preparation);
    else if (columns) this.#endRows(exchange);
    else query?.resolve(row);
  }

  #endRows(exchange: Exchange): void {
    try {
      exchange.query?.resolve(this.#rows.take());
    } catch (cause) {
      this.#rows.clear();
      this.#fail(exchange, toRowsError(cause));
    }
  }

  #endPreparation({ name, waiting, fields }: Preparation): void {
    this.#statements.set(name, { columns: toJsonColumns(fields) });
    this.pending -= waiting.length;
    for (const query of waiting) this.send(query);
  }

  #fail({ query, preparation, mayBeHit }: Exchange, error: Error): void {
    if (preparation) {
      this.#statements.delete(preparation.name);
      this.pending -= preparation.waiting.length;
    }
    const isHit = mayBeHit && error instanceof DatabaseError && error.code === QUERY_CANCELED;
    for (const failed of query ? [query] : (preparation?.waiting ?? [])) {
      if (isHit && !failed.signal.aborted && this.#listener) this.#listener.onHit(failed);
      else failed.reject(error);
    }
  }

  #onClosed(): void {
    this.isRetired = true;
    this.#lost = new ConnectionLost('the connection was lost', { cause: this.#cause });
    for (const exchange of this.#sent.splice(0)) {
      exchange.onEnd?.();
      if (!exchange.isMoved) this.#fail(exchange, exchange.error ?? this.#lost);
    }
    this.pending = this.#toSend.length;
    this.#listener?.onProgress(this);
  }
}

function toRowsError(cause: unknown): RowsError {
  return new RowsError('the rows cannot be written as JSON', { cause });
}

/** The end of the message at an index; beyond the bytes if it is incomplete. */
function toEnd(bytes: Buffer, begin: number): number {
  if (begin + HEADER > bytes.length) return begin + HEADER;
  return begin + 1 + bytes.readUInt32BE(begin + 1);
}

/** pg's parser takes the messages of a stream. */
const parsed = new Readable({ read() {} });
let lastMessage: unknown;
void parse(parsed, (message) => {
  lastMessage = message;
});

function parseMessage(bytes: Buffer): unknown {
  parsed.emit('data', bytes);
  return lastMessage;
}

/** A Bind message for a prepared statement; all values and columns are sent as text. */
function toBind(name: string, values: Row): Buffer {
  let length = HEADER + 1 + Buffer.byteLength(name) + 1 + 2 + 2 + 2;
  for (const value of values) length += 4 + (value === null ? 0 : Buffer.byteLength(value));
  const bytes = Buffer.allocUnsafe(length);
  bytes[0] = 0x42;
  bytes.writeInt32BE(length - 1, 1);
  // The unnamed portal.
  bytes[HEADER] = 0;
  let at = HEADER + 1;
  at += bytes.write(name, at);
  bytes[at] = 0;
  at = bytes.writeInt16BE(0, at + 1);
  at = bytes.writeInt16BE(values.length, at);
  for (const value of values) {
    const begin = at + 4;
    const size = value === null ? 0 : bytes.write(value, begin);
    bytes.writeInt32BE(value === null ? -1 : size, at);
    at = begin + size;
  }
  bytes.writeInt16BE(0, at);
  return bytes;
}

/** The values of a row that came as text. */
function toTexts(bytes: Buffer, begin: number): Row {
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
