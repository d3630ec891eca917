// The store of any Postgres.

import { constants } from 'node:buffer';
import pg from 'pg';
import { answerTooLarge, isFault, OperatorError, storeFault } from '../../errors.ts';
import { DESCRIPTION, toDescription } from '../catalog.ts';
import { toFailure } from '../sqlstate.ts';
import { createStatementWriter, type Statement, toResult } from '../statement.ts';
import type { Call, Connections, Description, Origin, Result, Store } from '../store.ts';
import {
  AnswerTooLarge,
  ConnectionLost,
  type OpenOptions,
  type Query,
  RowQuery,
  RowsError,
  RowsQuery,
  Stalled,
  type Step,
} from './connection.ts';
import { Pool } from './pool.ts';
import { checkRights, checkSession, findRisk, type OwnSessions, POOLED } from './session.ts';

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
  /** Receives a warning in one line. */
  readonly onWarning?: (text: string) => void;
};

type Failed = Exclude<Result, { json: string }>;

/** How many reads share a connection at most. */
const BATCH = 8;

/** A statement that the connection prepared is missing, or one that it prepares is there. */
const FOREIGN_STATEMENT = /^(26000|42P05)$/;

/** The routine of Postgres that refuses the value of a setting, such as a role that is missing; its text may be translated. */
const SETTING_REFUSED = 'call_string_check_hook';
const SETUP_ADVICE =
  'apply the migrations with npm run migrate, and grant gateway to the login, as scripts/deploy/logins.sql does';

/** The gateway's application_name, before a request's id; Postgres shows 63 characters. */
const APPLICATION = 'wellness-gateway';

/** Opens the store of a Postgres. It connects later: a server that cannot be reached is not an error here. */
export function openPostgres(options: PostgresOptions): Store {
  return new PostgresStore(options);
}

class PostgresStore implements Store {
  readonly description: string;
  readonly batch: number;
  readonly #pool: Pool;
  readonly #options: OpenOptions;
  readonly #prepare: boolean;
  /** Writes statements with names: Postgres plans a named statement once per connection. */
  readonly #write: ReturnType<typeof createStatementWriter>;
  readonly #answerLimit: number;
  /** The functions whose rows only Postgres can write as JSON; forgotten at a restart. */
  readonly #writtenThere = new Set<string>();
  readonly #ownSessions: OwnSessions = new WeakMap();
  readonly #stalled: Partial<Record<Step, number>> = {};

  constructor({
    url,
    connections,
    prepare,
    deadlineMs,
    answerLimit = constants.MAX_STRING_LENGTH,
    onWarning,
  }: PostgresOptions) {
    this.#prepare = prepare;
    // A pooler in transaction mode gives each transaction another session.
    this.batch = prepare ? BATCH : 1;
    this.#answerLimit = answerLimit;
    this.#write = createStatementWriter(answerLimit);
    this.#options = {
      config: { connectionString: url, keepAlive: true, application_name: APPLICATION },
      setup: prepare ? toSetup(deadlineMs) : undefined,
      openMs: deadlineMs,
      onStall: ({ step, message }) => {
        this.#stalled[step] = (this.#stalled[step] ?? 0) + 1;
        onWarning?.(`The store: ${message} and is replaced`);
      },
    };
    this.#pool = new Pool({ ...this.#options, max: connections });
    const { host, port, database } = new pg.Client(this.#options.config);
    this.description = `Postgres at ${host}:${port}/${database}`;
  }

  async call(call: Call, signal: AbortSignal, origin?: Origin): Promise<Result> {
    const application = origin && `${APPLICATION} ${origin.requestId}`;
    const { readOnly } = call;
    // A call that writes must not run again for rows that only Postgres can write.
    if (this.#prepare && readOnly && call.returns === 'rows' && !this.#writtenThere.has(call.function)) {
      const statement = this.#write(call, 'columns', application);
      const result = await this.#run(new RowsQuery(statement, signal, this.#answerLimit), readOnly);
      if ('value' in result) {
        if (result.value) return result.value;
        this.#writtenThere.add(call.function);
      } else if (!hasNewColumns(result)) return result;
      // The other statement does not depend on the columns.
    }
    const statement = this.#write(call, call.returns, application);
    return this.#readJson(this.#prepare ? statement : toUnprepared(statement), signal, readOnly);
  }

  async describe(signal: AbortSignal): Promise<Description> {
    return toDescription(await this.#readJson(DESCRIPTION, signal, true));
  }

  async check(signal: AbortSignal) {
    const result = await settle(signal, () =>
      this.#pool.lease(signal, (connection) =>
        this.#prepare
          ? checkSession(connection, this.#ownSessions, this.#options, signal)
          : checkRights(connection, signal),
      ),
    );
    return 'failure' in result && isFault(result.failure) ? result.failure : undefined;
  }

  async inspectLogin(signal: AbortSignal) {
    const result = await settle(signal, () => this.#pool.lease(signal, (connection) => findRisk(connection, signal)));
    return 'value' in result ? result.value : undefined;
  }

  connections(): Connections {
    return { ...this.#pool.size, stalled: this.#stalled };
  }

  close(): Promise<void> {
    return this.#pool.close();
  }

  async #readJson(statement: Statement, signal: AbortSignal, readOnly: boolean): Promise<Result> {
    const result = await this.#run(new RowQuery(statement, signal), readOnly);
    return 'value' in result ? toResult(result.value) : result;
  }

  #run<T>(query: Query<T>, readOnly: boolean): Promise<{ value: T } | Failed> {
    return settle(query.signal, () => {
      if (readOnly) return this.#pool.read(query);
      return this.#pool.lease(query.signal, (connection) => {
        connection.send([query]);
        return query.answer;
      });
    });
  }
}

/** Gives what work gives, or the failure that it fails with. */
async function settle<T>(signal: AbortSignal, work: () => Promise<T>): Promise<{ value: T } | Failed> {
  try {
    return { value: await work() };
  } catch (error) {
    if (signal.aborted && error === signal.reason) return storeFault('storeTimeout', error);
    if (error instanceof AnswerTooLarge) return answerTooLarge();
    return { failure: toPostgresFailure(error) };
  }
}

function toUnprepared({ text, values }: Statement): Statement {
  return { text, values };
}

/** Sets up a session: only the gateway's privileges, times in one form, and no statement beyond the deadline. */
function toSetup(deadlineMs: number): string {
  return `set role gateway; set timezone = 'UTC'; set datestyle = 'ISO'; set statement_timeout = ${deadlineMs}`;
}

/** An error without Postgres's severity is the driver's or the network's: the connection was lost or never made. */
function toPostgresFailure(error: unknown): Failed['failure'] {
  if (error instanceof pg.DatabaseError && FOREIGN_STATEMENT.test(error.code ?? '')) {
    return { kind: 'storeError', cause: new OperatorError(POOLED, { cause: error }) };
  }
  if (error instanceof pg.DatabaseError && error.routine === SETTING_REFUSED) {
    const cause = new OperatorError(`${error.message}: ${SETUP_ADVICE}`, { cause: error });
    return { kind: 'storeError', cause: Object.assign(cause, { code: error.code }) };
  }
  if (error instanceof pg.DatabaseError) return toFailure(error);
  if (error instanceof OperatorError) return { kind: 'storeError', cause: error };
  if (error instanceof RowsError) return { kind: 'storeError', cause: error.cause };
  if (error instanceof Stalled) return { kind: 'storeTimeout', cause: error };
  const cause = error instanceof ConnectionLost ? (error.cause ?? error) : error;
  return { kind: 'storeUnavailable', cause, connectionLost: true };
}

/** Whether the function's columns have changed since the statement was prepared; then it did not begin. */
function hasNewColumns({ failure }: Failed): boolean {
  if (!('cause' in failure && failure.cause instanceof pg.DatabaseError)) return false;
  // The code stands for everything unsupported, and the message is in the server's language.
  return failure.cause.code === '0A000' && failure.cause.routine === 'RevalidateCachedQuery';
}
