// The store of any Postgres. It uses `pg` and not `postgres`, because pg sends every parameter as text, and gives access to
// the connection, which cancelling a query needs.

import { constants } from 'node:buffer';
import pg from 'pg';
import { answerTooLarge, isFault, OperatorError, storeFault } from '../../errors.ts';
import { DESCRIPTION, toDescription } from '../catalog.ts';
import { toFailure } from '../sqlstate.ts';
import { createStatementWriter, type Statement, toResult } from '../statement.ts';
import type { Call, Connections, Description, Origin, Result, Store } from '../store.ts';
import { cancelQuery } from './cancel.ts';
import { AnswerTooLarge, queryRow, queryRows, RowClient, RowsError } from './connection.ts';
import { checkRights, checkSession, type OwnSessions, POOLED } from './session.ts';

/** How to reach a Postgres. */
export type PostgresOptions = {
  /** A connection string, with libpq's usual options. */
  readonly url: string;
  readonly connections: number;
  /** False behind a pooler in transaction mode: no prepared statements and no settings of a session. */
  readonly prepare: boolean;
  /** The longest that a call may take, in milliseconds; a statement's timeout. */
  readonly deadlineMs: number;
  /** The largest answer, in bytes; by default the longest possible text. */
  readonly answerLimit?: number;
};

type Failed = Exclude<Result, { json: string }>;

/** How long a call beyond its deadline may take to end, in milliseconds; then its connection is closed. */
const CANCEL_MS = 1_000;

/** A statement that the connection prepared is missing, or one that it prepares is there. */
const FOREIGN_STATEMENT = /^(26000|42P05)$/;

/** The gateway's application_name, before a request's id; Postgres shows 63 characters. */
const APPLICATION = 'wellness-gateway';

/** Opens the store of a Postgres. It connects later: a server that cannot be reached is not an error here. */
export function openPostgres(options: PostgresOptions): Store {
  return new PostgresStore(options);
}

class PostgresStore implements Store {
  readonly description: string;
  readonly #pool: pg.Pool;
  readonly #prepare: boolean;
  /** Writes statements with names: Postgres plans a named statement once per connection. */
  readonly #write: ReturnType<typeof createStatementWriter>;
  readonly #answerLimit: number;
  /** The functions whose rows only Postgres can write as JSON; forgotten at a restart. */
  readonly #writtenThere = new Set<string>();
  readonly #ownSessions: OwnSessions = new WeakMap();

  constructor({ url, connections, prepare, deadlineMs, answerLimit = constants.MAX_STRING_LENGTH }: PostgresOptions) {
    this.#prepare = prepare;
    this.#answerLimit = answerLimit;
    this.#write = createStatementWriter(answerLimit);
    this.#pool = new pg.Pool({
      connectionString: url,
      max: connections,
      // A call ends at its deadline as a timeout. An earlier end of the wait for a connection would make it a lost connection.
      connectionTimeoutMillis: deadlineMs + CANCEL_MS,
      keepAlive: true,
      application_name: APPLICATION,
      Client: RowClient,
      ...(prepare ? { onConnect: (client: pg.ClientBase) => prepareSession(client, deadlineMs) } : {}),
    } as pg.PoolConfig);
    // Without listeners a lost connection would end the process. Its query reports the loss.
    this.#pool.on('error', () => {}).on('connect', (client) => client.on('error', () => {}));
    this.description = `Postgres at ${describeTarget(this.#pool)}`;
  }

  async call(call: Call, signal: AbortSignal, origin?: Origin): Promise<Result> {
    const application = origin && `${APPLICATION} ${origin.requestId}`;
    if (this.#prepare && call.returns === 'rows' && !this.#writtenThere.has(call.function)) {
      const statement = this.#write(call, 'columns', application);
      const limit = this.#answerLimit;
      const result = await this.#query(
        (client, cancel) => queryRows(client, statement, { signal, limit, cancel }),
        signal,
      );
      if ('value' in result) {
        if (result.value) return result.value;
        this.#writtenThere.add(call.function);
      } else if (!hasNewColumns(result)) return result;
      // The other statement does not depend on the columns.
    }
    const statement = this.#write(call, call.returns, application);
    return this.#queryJson(this.#prepare ? statement : withoutName(statement), signal);
  }

  async describe(signal: AbortSignal): Promise<Description> {
    return toDescription(await this.#queryJson(DESCRIPTION, signal));
  }

  async check(signal: AbortSignal) {
    const check = (client: RowClient) =>
      this.#prepare ? checkSession(client, this.#ownSessions, this.#pool.options) : checkRights(client);
    const result = await this.#query(check, signal);
    return 'failure' in result && isFault(result.failure) ? result.failure : undefined;
  }

  connections(): Connections {
    return { open: this.#pool.totalCount, idle: this.#pool.idleCount };
  }

  close(): Promise<void> {
    return this.#pool.end();
  }

  async #queryJson(statement: Statement, signal: AbortSignal): Promise<Result> {
    const result = await this.#query((client) => queryRow(client, statement), signal);
    return 'value' in result ? toResult(result.value) : result;
  }

  async #query<T>(
    run: (client: RowClient, cancel: () => void) => Promise<T>,
    signal: AbortSignal,
  ): Promise<{ value: T } | Failed> {
    let client: RowClient & pg.PoolClient;
    try {
      client = (await this.#pool.connect()) as RowClient & pg.PoolClient;
    } catch (error) {
      return { failure: toPostgresFailure(error) };
    }
    if (signal.aborted) {
      client.release();
      return storeFault('storeTimeout', signal.reason);
    }

    let cancelled: Promise<void> | undefined;
    const cancel = () => {
      cancelled ??= cancelQuery(client, running, CANCEL_MS);
    };
    const running = run(client, cancel);
    signal.addEventListener('abort', cancel);
    let broken = false;
    try {
      return { value: await running };
    } catch (error) {
      if (signal.aborted && error === signal.reason) return storeFault('storeTimeout', error);
      if (error instanceof AnswerTooLarge) return answerTooLarge();
      broken = leavesUnusable(error);
      return { failure: toPostgresFailure(error) };
    } finally {
      signal.removeEventListener('abort', cancel);
      // A late cancellation would hit the connection's next query.
      if (cancelled) await cancelled;
      client.release(broken);
    }
  }
}

function withoutName({ text, values }: Statement): Statement {
  return { text, values };
}

/** Sets up a session: only the gateway's privileges, dates in one form, and no statement beyond the deadline. */
async function prepareSession(client: pg.ClientBase, deadlineMs: number): Promise<void> {
  await client.query(`set role gateway; set timezone = 'UTC'; set statement_timeout = ${deadlineMs}`);
}

function describeTarget(pool: pg.Pool): string {
  const { host, port, database } = new pg.Client(pool.options);
  return `${host}:${port}/${database}`;
}

/** An error without Postgres's severity is the driver's or the network's: the connection was lost or never made. */
function toPostgresFailure(error: unknown): Failed['failure'] {
  if (error instanceof pg.DatabaseError && FOREIGN_STATEMENT.test(error.code ?? '')) {
    return { kind: 'storeError', cause: new OperatorError(POOLED, { cause: error }) };
  }
  if (error instanceof pg.DatabaseError) return toFailure(error);
  if (error instanceof OperatorError) return { kind: 'storeError', cause: error };
  if (error instanceof RowsError) return { kind: 'storeError', cause: error.cause };
  return { kind: 'storeUnavailable', cause: error, connectionLost: true };
}

/** Whether the function's columns have changed since the statement was prepared; then it did not begin. */
function hasNewColumns({ failure }: Failed): boolean {
  if (!('cause' in failure && failure.cause instanceof pg.DatabaseError)) return false;
  // The code stands for everything unsupported, and the message is in the server's language.
  return failure.cause.code === '0A000' && failure.cause.routine === 'RevalidateCachedQuery';
}

/**
 * Whether a connection must be closed: it was lost, has statements of changed functions (classes 0A, 42), or lacks those that
 * it prepared (26000).
 */
function leavesUnusable(error: unknown): boolean {
  return !(error instanceof pg.DatabaseError) || /^(0A|26|42|57P)/.test(error.code ?? '');
}
