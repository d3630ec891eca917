// A connection to Postgres: pg connects and authenticates, then the loop here has the socket. The queries of a batch leave in one
// write, and rows go from the bytes of the protocol to JSON without becoming values in between.

import { isIP } from 'node:net';
import type { Duplex } from 'node:stream';
import { LRUCache } from 'lru-cache';
import type { DatabaseError } from 'pg-protocol';
import type { ClientConfig } from '../../database-url.ts';
import { isBeforeCall } from '../sqlstate.ts';
import type { NamedStatement, Row, Statement } from '../statement.ts';
import type { Rows } from '../store.ts';
import { Client } from './client.ts';
import { type JsonColumns, JsonRows, toJsonColumns } from './json-rows.ts';
import {
  COMMAND_COMPLETE,
  COMMIT,
  DATA_ROW,
  ERROR_RESPONSE,
  HEADER,
  PARAMETER_STATUS,
  READY_FOR_QUERY,
  ROW_DESCRIPTION,
  readColumns,
  readError,
  readRowCount,
  readSetting,
  readTexts,
  toBegin,
  toClose,
  toEnd,
  toExecute,
  toPrepare,
} from './messages.ts';

/** The connection was lost before it answered. */
export class ConnectionLost extends Error {}

/** Rows that cannot be written as JSON: they are not as described, or there is no memory for them. */
export class RowsError extends Error {}

/** The rows are larger than the limit. */
export class AnswerTooLarge extends Error {}

/** The steps of a connection that can stall. */
export type Step = 'resolve' | 'connect' | 'tls' | 'login' | 'setup' | 'parse' | 'query' | 'cancel' | 'close';

/** A step took too long, and its connection was closed. */
export class Stalled extends Error {
  readonly step: Step;

  constructor(step: Step) {
    super(`a connection to Postgres stalled in the step "${step}"`);
    this.step = step;
  }
}

/** Another connection was opened instead of one that took too long. */
export const REPLACED = new Error('another connection was opened instead');

/** A statement, and the promise of its answer. When the signal aborts, the answer is no longer wanted. */
export abstract class Query<T = unknown> {
  readonly statement: Statement;
  readonly signal: AbortSignal;
  readonly #answer = Promise.withResolvers<unknown>();
  /** Rejects with DatabaseError, ConnectionLost, RowsError, AnswerTooLarge, or the reason of the signal. */
  readonly answer = this.#answer.promise as Promise<T>;
  readonly reject = this.#answer.reject;

  constructor(statement: Statement, signal: AbortSignal) {
    this.statement = statement;
    this.signal = signal;
  }

  resolve(value: T): void {
    this.#answer.resolve(value);
  }
}

/** Asks for the first row, if any, with all values as text. */
export class RowQuery extends Query<Row | undefined> {}

/** Asks for all rows as JSON, as row_to_json writes them. The answer is undefined where only Postgres can write them. */
export class RowsQuery extends Query<Rows | undefined> {
  /** The largest JSON, in bytes. */
  readonly limit: number;

  constructor(statement: NamedStatement, signal: AbortSignal, limit: number) {
    super(statement, signal);
    this.limit = limit;
  }
}

/** How the rows of a prepared statement are written. */
type Columns = JsonColumns | 'only Postgres can';

/** The reply to a query that was sent, as far as it has arrived. */
type Reply = {
  readonly query: Query;
  /** The name of the prepared statement, empty for none. */
  readonly name: string;
  /** Whether the statement was prepared before the query was sent. */
  readonly isPrepared: boolean;
  /** Undefined while the statement is being prepared. */
  columns: Columns | undefined;
  row?: Row;
  /** The number of rows that have arrived, and whether the server's count is the same. */
  rows: number;
  isComplete?: boolean;
  error?: Error;
  /** How many Syncs have not been answered. */
  syncs: number;
  /** Whether another connection runs the query. */
  isTakenBack?: boolean;
};

/** How a connection is opened, and callbacks for its progress. */
export type OpenOptions = {
  readonly config: ClientConfig;
  /** What is set in a session, such as `role gateway`; behind a pooler, in each transaction. */
  readonly settings?: readonly string[];
  /** Whether a pooler is known to be in between, also if it reports the server's process. */
  readonly isPooled?: boolean;
  /** Rejects if a new connection leads to the wrong server. */
  readonly verify?: ((client: Client) => Promise<void>) | undefined;
  /** Timeout of opening in milliseconds. */
  readonly openMs: number;
  /** Aborts opening; the reason REPLACED counts as a stall. */
  readonly signal?: AbortSignal;
  /** A query or a cancellation has ended, or the connection was lost. */
  readonly onProgress?: (connection: Connection) => void;
  /** The server or the network has ended a connection that could have got more queries. */
  readonly onLoss?: () => void;
  /** The session is another client's: a pooler is in between. */
  readonly onPooler?: () => void;
  readonly onStall?: ((stalled: Stalled) => void) | undefined;
};

/**
 * The server's process, in whose place a pooler reports one of its own at connecting, and whether the database is distributed: Citus
 * passes the tenant on to its nodes only in a transaction block.
 */
const PEER = `
select pg_backend_pid() as pid,
       exists (select from pg_extension where extname = 'citus') as "isDistributed"`;

/** The prepared statements are out of date: functions have changed. */
const UNFIT = /^(0A|42)/;

/** A prepared statement is missing, or already exists. */
const FOREIGN_STATEMENT = /^(26000|42P05)$/;

/** The settings that change the texts of values, as far as Postgres reports them. */
const SETTINGS = ['TimeZone', 'DateStyle', 'IntervalStyle', 'client_encoding'];

/** The maximum number of prepared statements: an operation has one for each set of inputs that clients send. */
const MAX_PREPARED = 100;

/** How long a cancelled query may keep running, and how long a server may take to close a connection, in milliseconds. */
const CANCEL_MS = 500;
const CLOSE_MS = 500;

export class Connection {
  /** Whether a pooler is in between: in transaction mode it gives each transaction another session. */
  readonly isPooled: boolean;
  /** Whether it must not get more queries. */
  isRetired = false;
  /** When the running query began, or the last one ended (performance.now()). */
  usedAt = performance.now();
  readonly #client: Client;
  /** Begins the transaction block of each query, if they need one. */
  readonly #begin: Buffer | undefined;
  readonly #options: OpenOptions;
  readonly #stream: Duplex;
  readonly #prepared = new LRUCache<string, Columns>({
    max: MAX_PREPARED,
    dispose: (_columns, name, reason) => {
      if (reason === 'evict') this.#toClose.push(toClose(name));
    },
  });
  /** Messages that close prepared statements; they leave with the next query. */
  #toClose: Uint8Array[] = [];
  /** The settings that a function has changed for the rest of the session. */
  readonly #changed = new Set<string>();
  /** The rows of the running query. */
  readonly #rows = new JsonRows();
  /** The replies to what was sent; the first one's query runs. */
  #replies: Reply[] = [];
  #parts: Buffer[] = [];
  #length = 0;
  #needed = 0;
  #cancellation: { readonly running: Reply; readonly timer: NodeJS.Timeout; isConfirmed: boolean } | undefined;
  #cause: Error | undefined;
  #isLost = false;

  /** Connects, and sets up the session. Rejects with Stalled, the reason of the signal, or what pg rejects with. */
  static async open(options: OpenOptions): Promise<Connection> {
    const { config, settings = [], verify, openMs, signal, onStall } = options;
    const client = new Client(config);
    const readStep = followSteps(client);
    let ended: Error | undefined;
    const end = (error: Error) => {
      ended = error;
      client.connection.stream.destroy();
    };
    const onAbort = () => end(signal?.reason === REPLACED ? new Stalled(readStep()) : signal?.reason);
    const timer = setTimeout(() => end(new Stalled(readStep())), openMs);
    signal?.addEventListener('abort', onAbort);
    try {
      await client.connect();
      await verify?.(client);
      const { pid, isDistributed } = (await client.query(PEER)).rows[0];
      const isPooled = options.isPooled || pid !== client.processID;
      // Another client of a pooler would get what is set in a session.
      if (!isPooled) await client.query(settings.map((setting) => `set ${setting}`).join('; '));
      const begin = isPooled || isDistributed ? toBegin(isPooled ? settings : []) : undefined;
      return new Connection(client, isPooled, begin, options);
    } catch (error) {
      // Otherwise each failed attempt would leave a connection open.
      void closeInOrder(client, () => client.connection.stream.destroy());
      if (ended instanceof Stalled) onStall?.(ended);
      throw ended ?? error;
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener('abort', onAbort);
    }
  }

  constructor(client: Client, isPooled: boolean, begin: Buffer | undefined, options: OpenOptions) {
    this.#client = client;
    this.isPooled = isPooled;
    this.#begin = begin;
    this.#options = options;
    this.#stream = client.connection.stream;
    this.#stream.removeAllListeners('data').on('data', (chunk) => this.#receive(chunk));
    client.on('error', (error) => {
      this.#cause ??= error;
    });
    client.once('end', () => this.#onLost());
  }

  /** Whether no query runs, and no pending cancellation could hit the next one. */
  get isIdle(): boolean {
    return this.#replies.length === 0 && !this.#cancellation;
  }

  /** Whether the running query has to be cancelled: nobody waits for its answer. */
  get isToCancel(): boolean {
    const [running] = this.#replies;
    if (!running || this.#cancellation) return false;
    return running.isTakenBack || running.error !== undefined || running.query.signal.aborted;
  }

  /** Sends the queries in one write, except those whose signal has aborted. They run one after the other. */
  send(queries: readonly Query[]): void {
    const messages = this.#toClose;
    this.#toClose = [];
    if (this.isIdle) this.usedAt = performance.now();
    for (const query of queries) {
      if (query.signal.aborted) query.reject(query.signal.reason);
      else if (this.#isLost) query.reject(this.#toLost());
      else this.#write(query, messages);
    }
    if (messages.length > 0) this.#stream.write(Buffer.concat(messages));
  }

  #write(query: Query, messages: Uint8Array[]): void {
    const { text, values, name: ownName = '' } = query.statement;
    // Without a name where the next session may lack the statement, or another query is preparing it, which may fail.
    const isUnnamed =
      this.isPooled || this.#replies.some((reply) => reply.columns === undefined && reply.name === ownName);
    const name = isUnnamed ? '' : ownName;
    const columns = this.#prepared.get(name);
    if (columns === 'only Postgres can' && query instanceof RowsQuery) {
      query.resolve(undefined);
      return;
    }
    const call = [...(columns ? [] : toPrepare(name, text)), ...toExecute(name, values)];
    const begin = this.#begin;
    messages.push(...(begin ? [begin, ...call, COMMIT] : call));
    const syncs = begin ? 2 : 1;
    this.#replies.push({ query, name, isPrepared: columns !== undefined, columns, rows: 0, syncs });
  }

  /** Takes back the queries behind the running one. Postgres still runs them; their answers are dropped. */
  takeBack(): Query[] {
    return this.#replies.slice(1).flatMap((reply) => {
      if (reply.isTakenBack) return [];
      reply.isTakenBack = true;
      return [reply.query];
    });
  }

  /**
   * Cancels the running query. The caller has to take back those behind it: until the server has confirmed the request, it may
   * cancel one of them. A confirmation makes the connection idle again; without one it is closed.
   */
  cancel(): void {
    const [running] = this.#replies;
    if (!running || this.#cancellation) return;
    const timer = setTimeout(() => {
      const step = running.columns ? 'query' : 'parse';
      this.#stall(this.#replies[0] === running ? step : 'cancel');
    }, CANCEL_MS);
    this.#cancellation = { running, timer, isConfirmed: false };
    void this.#client.requestCancel().then((isConfirmed) => {
      if (!this.#cancellation) return;
      this.#cancellation.isConfirmed = isConfirmed;
      // Only now the query has its time to end.
      this.#cancellation.timer.refresh();
      if (isConfirmed) this.#endCancellation();
      else this.#stall('cancel');
    });
  }

  #endCancellation(): void {
    if (!this.#cancellation?.isConfirmed || this.#cancellation.running === this.#replies[0]) return;
    clearTimeout(this.#cancellation.timer);
    this.#cancellation = undefined;
    this.#options.onProgress?.(this);
  }

  /** Closes the connection, even if a query runs. */
  async close(): Promise<void> {
    this.isRetired = true;
    await closeInOrder(this.#client, () => this.#stall('close'));
  }

  /** Ends the connection at once. Its queries reject with ConnectionLost and the cause. */
  abandon(cause: Error): void {
    this.isRetired = true;
    this.#cause ??= cause;
    this.#stream.destroy();
  }

  #stall(step: Step): void {
    const stalled = new Stalled(step);
    // A server that can be reached anew: what has forgotten one connection, such as a firewall, has forgotten the others.
    if (this.#cancellation?.isConfirmed) this.#lose();
    this.abandon(stalled);
    this.#options.onStall?.(stalled);
  }

  #receive(chunk: Buffer): void {
    this.#parts.push(chunk);
    this.#length += chunk.length;
    if (this.#length < this.#needed) return;
    const bytes = this.#parts.length === 1 ? chunk : Buffer.concat(this.#parts, this.#length);
    let at = 0;
    try {
      let end = toEnd(bytes, at);
      for (; end <= bytes.length; end = toEnd(bytes, at)) {
        this.#take(bytes, at, end);
        at = end;
      }
      this.#needed = end - at;
    } catch (error) {
      this.#cause ??= error as Error;
      this.#stream.destroy();
      return;
    }
    // An incomplete message is kept until its rest arrives.
    this.#length = bytes.length - at;
    this.#parts = this.#length > 0 ? [bytes.subarray(at)] : [];
    this.#options.onProgress?.(this);
  }

  /** Handles the message in a range. Throws if the server violates the protocol. */
  #take(bytes: Buffer, begin: number, end: number): void {
    const [running] = this.#replies;
    switch (bytes[begin]) {
      case DATA_ROW:
        if (!running) throw new Error('a row without a query');
        running.rows += 1;
        this.#takeRow(running, bytes, begin + HEADER, end);
        break;
      case COMMAND_COMPLETE: {
        const count = readRowCount(bytes, begin + HEADER, end);
        if (running && count !== undefined) running.isComplete = count === running.rows;
        break;
      }
      case READY_FOR_QUERY:
        if (!running) throw new Error('an answer without a query');
        running.syncs -= 1;
        if (running.syncs === 0) this.#end(running);
        break;
      case ROW_DESCRIPTION: {
        if (!running) throw new Error('columns without a query');
        running.columns = toJsonColumns(readColumns(bytes, begin + HEADER)) ?? 'only Postgres can';
        if (running.name) this.#prepared.set(running.name, running.columns);
        break;
      }
      case ERROR_RESPONSE:
        this.#takeError(running, readError(bytes, begin + HEADER, end));
        break;
      case PARAMETER_STATUS:
        this.#takeSetting(readSetting(bytes, begin + HEADER, end));
    }
  }

  #takeSetting([name = '', value]: readonly string[]): void {
    if (this.#client.settings.get(name) === value) this.#changed.delete(name);
    else if (SETTINGS.includes(name)) this.#changed.add(name);
  }

  #takeRow(reply: Reply, bytes: Buffer, begin: number, end: number): void {
    const { query, columns } = reply;
    if (reply.error || reply.isTakenBack) return;
    if (!(query instanceof RowsQuery)) {
      reply.row ??= readTexts(bytes, begin);
      return;
    }
    if (!columns || columns === 'only Postgres can') return;
    try {
      this.#rows.add(columns, bytes, begin, end);
      // The closing bracket is one byte more.
      if (this.#rows.bytes >= query.limit) reply.error = new AnswerTooLarge();
    } catch (cause) {
      reply.error = toRowsError(cause);
    }
  }

  #takeError(running: Reply | undefined, error: DatabaseError & { severity?: string | undefined }): void {
    const { code = '', where = '' } = error;
    if (!running) this.#cause = error;
    else running.error ??= error;
    // Postgres may have prepared it before the error.
    if (running?.name && !running.columns) this.#toClose.push(toClose(running.name));
    // The server closes a connection to which it sends an error without a query, or a fatal one.
    const isUnfit = UNFIT.test(code) && !(running && isOutdated(running));
    if (!running || error.severity === 'FATAL') this.#lose();
    else if (isUnfit) this.isRetired = true;
    // A function may raise these codes itself.
    if (FOREIGN_STATEMENT.test(code) && isBeforeCall(where)) this.#options.onPooler?.();
  }

  /** Ends the running query, whose reply is complete. */
  #end(reply: Reply): void {
    // A pooler or proxy has lost messages.
    if (!reply.error && !(reply.isComplete && reply.columns)) throw new Error('an answer is incomplete');
    this.#replies.shift();
    this.usedAt = performance.now();
    if (isOutdated(reply)) this.#prepareAgain(reply);
    else if (!reply.isTakenBack) this.#settle(reply);
    this.#rows.clear();
    this.#endCancellation();
    if (this.#changed.size === 0) return;
    // Otherwise the next answers, of any tenant, would have other texts. The reads that were sent already are repeated elsewhere.
    this.isRetired = true;
    if (this.#replies.length > 0) throw new Error('a function changed a setting of its session');
  }

  #prepareAgain({ name, query, isTakenBack }: Reply): void {
    // Those behind the first one may have used the same statement.
    if (this.#prepared.delete(name)) this.#toClose.push(toClose(name));
    if (!isTakenBack) this.send([query]);
  }

  #settle({ query, columns, row, error }: Reply): void {
    if (error) query.reject(error);
    else if (!(query instanceof RowsQuery)) query.resolve(row);
    else {
      try {
        query.resolve(columns === 'only Postgres can' ? undefined : this.#rows.take());
      } catch (cause) {
        query.reject(toRowsError(cause));
      }
    }
  }

  #lose(): void {
    if (this.isRetired) return;
    this.isRetired = true;
    this.#options.onLoss?.();
  }

  #onLost(): void {
    this.#lose();
    this.#isLost = true;
    clearTimeout(this.#cancellation?.timer);
    this.#cancellation = undefined;
    for (const { query, error, isTakenBack } of this.#replies.splice(0)) {
      if (!isTakenBack) query.reject(error ?? this.#toLost());
    }
    this.#options.onProgress?.(this);
  }

  #toLost(): ConnectionLost {
    return new ConnectionLost('the connection was lost', { cause: this.#cause });
  }
}

/**
 * Whether Postgres has refused a prepared statement before it called the function, which may have got arguments of other types or
 * other columns meanwhile: the parameters of a statement keep their types.
 */
function isOutdated({ isPrepared, error }: Reply): boolean {
  const { code = '', where = '' } = (error ?? {}) as DatabaseError;
  return isPrepared && /^(0A|22|42|23514)/.test(code) && isBeforeCall(where);
}

/** Follows a connection while it is opened, and returns a reader of the current step. */
function followSteps(client: Client): () => Step {
  const { connection, host, ssl } = client;
  let step: Step = host.startsWith('/') || isIP(host) ? 'connect' : 'resolve';
  const enter = (next: Step) => () => {
    step = next;
  };
  connection.stream.once('lookup', enter('connect'));
  connection.once('connect', enter(ssl ? 'tls' : 'login'));
  connection.once('sslconnect', () => connection.stream.once('secureConnect', enter('login')));
  client.once('connect', enter('setup'));
  return () => step;
}

/** Closes a connection in order; calls `onStall` if the server takes too long. */
async function closeInOrder(client: Client, onStall: () => void): Promise<void> {
  const timer = setTimeout(onStall, CLOSE_MS);
  await client.end().catch(() => {});
  clearTimeout(timer);
}

function toRowsError(cause: unknown): RowsError {
  return new RowsError('the rows cannot be written as JSON', { cause });
}
