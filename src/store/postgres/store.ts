// The store of any Postgres.

import { constants } from 'node:buffer';
import pg from 'pg';
import { readDatabaseUrl } from '../../database-url.ts';
import { answerTooLarge, isFault, OperatorError } from '../../errors.ts';
import { DESCRIPTION, toDescription } from '../catalog.ts';
import { blameArgument, toFailure } from '../sqlstate.ts';
import { createStatementWriter, type Row, type Statement, toResult } from '../statement.ts';
import type { Call, Failed, Origin, Result, Store } from '../store.ts';
import { describeServers, findPlainText } from './client.ts';
import { AnswerTooLarge, ConnectionLost, RowQuery, RowsError, RowsQuery, Stalled, type Step } from './connection.ts';
import { type Server, Servers } from './servers.ts';

/** How to reach a Postgres. */
export type PostgresOptions = {
  /** A connection string, with libpq's usual options and several hosts. */
  readonly url: string;
  /** What the store is, for the log; by default the hosts and the database. */
  readonly description?: string;
  readonly connections: number;
  /** Store call timeout in milliseconds, including time in the queue; the timeout of a statement. */
  readonly deadlineMs: number;
  /** The largest answer, in bytes; by default the longest possible text. */
  readonly answerLimit?: number;
  /** Receives a warning in one line. */
  readonly onWarning?: (text: string) => void;
  /** Receives each change of a server's role in one line. */
  readonly onChange?: ((text: string, isProblem: boolean) => void) | undefined;
};

/** The maximum number of reads that share a connection. */
const BATCH = 8;

/** TCP keep-alive delay in milliseconds: firewalls drop idle connections, some after 4 minutes. */
const KEEP_ALIVE_MS = 60_000;

/** The server has ended the session: its administrator or the server itself stops, another session has crashed, or it was idle. */
const SESSION_ENDED = /^57P0[125]$/;

/** The routine of Postgres that refuses a setting's value, such as a missing role; the message may be translated. */
const SETTING_REFUSED = 'call_string_check_hook';
const SETUP_ADVICE =
  'apply the migrations with npm run migrate, and grant gateway to the login, as scripts/deploy/logins.sql does';

/** Needs a connection, and the settings of calls. */
const CHECK: Statement = { text: 'select 1', values: [] };

/** The login, which `set role` does not change, the rights that it has beyond `gateway`, and whether it can only read. */
const LOGIN: Statement = {
  values: [],
  text: `
select r.rolname,
       case
         when r.rolsuper then 'is a superuser'
         when r.rolbypassrls then 'bypasses row security'
         when exists (
           select
             from pg_class c
             join pg_namespace n on n.oid = c.relnamespace
            where n.nspname = 'private' and c.relkind in ('r', 'p') and pg_has_role(r.oid, c.relowner, 'member')
         ) then 'owns the tables'
       end,
       current_setting('transaction_read_only')
  from pg_roles r
 where r.rolname = session_user`,
};

/** A standby refuses to write. */
const READ_ONLY = '25006';

/** The gateway's application_name, before a request's id, unless the URL has one; Postgres shows 63 characters. */
const APPLICATION = 'wellness-gateway';

/** Opens the store of a Postgres. It connects later: a server that cannot be reached is not an error here. */
export function openPostgres({
  url,
  description,
  connections,
  deadlineMs,
  answerLimit = constants.MAX_STRING_LENGTH,
  onWarning,
  onChange,
}: PostgresOptions): Store {
  const address = readDatabaseUrl(url);
  const applicationName = address.servers[0]?.config.application_name ?? APPLICATION;
  const toStatement = createStatementWriter(answerLimit);
  /** The functions whose rows only Postgres can write as JSON; forgotten at a restart. */
  const writtenThere = new Set<string>();
  /** The functions, as last read. */
  let described: string | undefined;
  const stalled: Partial<Record<Step, number>> = {};
  const exposed = findPlainText(address);
  if (exposed) {
    const remedy = 'set sslmode=verify-full, or sslmode=disable if nobody else reads that network';
    onWarning?.(`DATABASE_URL: passwords and rows go to ${exposed} in plain text: ${remedy}`);
  }
  const servers = new Servers({
    settings: toSettings(deadlineMs),
    openMs: deadlineMs,
    onStall: ({ step, message }) => {
      stalled[step] = (stalled[step] ?? 0) + 1;
      onWarning?.(`The store: ${message} and is replaced`);
    },
    config: { keepAlive: true, keepAliveInitialDelayMillis: KEEP_ALIVE_MS, application_name: APPLICATION },
    address,
    max: connections,
    onChange,
  });

  /** Works on the primary, which may turn out to be lost, or a standby, by now. */
  async function onPrimary<T>(signal: AbortSignal, work: (primary: Server) => Promise<T>): Promise<T | Failed> {
    let primary: Server | undefined;
    try {
      primary = servers.primary ?? (await servers.findPrimary());
      signal.throwIfAborted();
      primary.calls += 1;
      return await work(primary);
    } catch (error) {
      const failure = toPostgresFailure(error, signal);
      const isReadOnly = error instanceof pg.DatabaseError && error.code === READ_ONLY;
      if (isReadOnly) {
        primary?.doubt(new Error('it accepts no writes'));
        // A session keeps the default_transaction_read_only of its login.
        primary?.pool.renew();
      }
      // Without a primary, findPrimary has looked.
      if (primary && (isReadOnly || (isFault(failure) && failure.connectionLost))) void servers.look();
      return { failure };
    }
  }

  /** Runs a statement of our own, before the waiting reads. */
  const ask = (statement: Statement, signal: AbortSignal): Promise<Row | Failed> =>
    onPrimary(signal, async ({ pool }) => (await pool.run(new RowQuery(statement, signal))) ?? []);

  /** Calls a function on a server. */
  async function callAt(
    { pool }: Server,
    call: Call,
    signal: AbortSignal,
    origin?: Origin,
    batch?: object,
  ): Promise<Result> {
    const application = origin && `${applicationName} ${origin.requestId}`;
    const { readOnly } = call;
    // A call that writes must not run again for rows that only Postgres can write.
    if (readOnly && call.returns === 'rows' && !writtenThere.has(call.function)) {
      const query = new RowsQuery(toStatement(call, 'columns', application), signal, answerLimit);
      const rows = await pool.read(query, batch);
      if (rows) return rows;
      writtenThere.add(call.function);
    }
    const query = new RowQuery(toStatement(call, call.returns, application), signal);
    return toResult(await (readOnly ? pool.read(query, batch) : pool.run(query)));
  }

  const renew = () => {
    for (const { pool } of servers.all) pool.renew();
  };

  return {
    description: description ?? describeServers(address),
    get batch() {
      return servers.primary?.pool.isPooled ? 1 : BATCH;
    },
    call: async (call, signal, origin, batch) => {
      const result = await onPrimary(signal, (primary) => callAt(primary, call, signal, origin, batch));
      return 'failure' in result ? blameArgument(result, call) : result;
    },
    check: async (signal) => {
      const answer = await ask(CHECK, signal);
      return 'failure' in answer && isFault(answer.failure) ? answer.failure : undefined;
    },
    inspectLogin: async (signal) => {
      const answer = await ask(LOGIN, signal);
      return 'failure' in answer ? undefined : describeRisk(answer);
    },
    describe: async (signal) => {
      const read = async ({ pool }: Server) => toResult(await pool.read(new RowQuery(DESCRIPTION, signal)));
      const result = await onPrimary(signal, read);
      if ('json' in result) {
        // A prepared statement reads its parameters as the types that the function had, such as a double as a real.
        if (described !== undefined && described !== result.json) renew();
        described = result.json;
      }
      return toDescription(result);
    },
    connections: () => {
      const sizes = servers.all.map(({ pool }) => pool.size);
      return {
        open: sizes.reduce((sum, { open }) => sum + open, 0),
        idle: sizes.reduce((sum, { idle }) => sum + idle, 0),
        stalled,
        servers: servers.report(),
        failovers: servers.failovers,
      };
    },
    renew,
    close: () => servers.close(),
  };
}

/** The settings of calls: only the gateway's privileges, times in one form, and no statement beyond the deadline. */
function toSettings(deadlineMs: number): readonly string[] {
  return ['role gateway', `timezone = 'UTC'`, `datestyle = 'ISO'`, `statement_timeout = ${deadlineMs}`];
}

/** Why a login is a risk: it cannot create, or a bug in the gateway could reach every tenant's rows. */
function describeRisk([login, risk, readOnly]: Row): string | undefined {
  if (readOnly === 'on') return `The login ${login} can only read, as on a standby: every creation fails`;
  if (!risk) return undefined;
  return `The login ${login} ${risk}: use one that is only a member of gateway, as scripts/deploy/logins.sql creates`;
}

/** An error that is not Postgres's comes from the driver or the network: the connection was lost or never made. */
function toPostgresFailure(error: unknown, signal: AbortSignal): Failed['failure'] {
  if (signal.aborted && error === signal.reason) return { kind: 'storeTimeout', cause: error };
  if (error instanceof AnswerTooLarge) return answerTooLarge().failure;
  if (error instanceof pg.DatabaseError) {
    const { code = '', routine, message } = error;
    if (SESSION_ENDED.test(code)) return { kind: 'storeUnavailable', cause: error, connectionLost: true };
    if (routine !== SETTING_REFUSED) return toFailure(error);
    const cause = new OperatorError(`${message}: ${SETUP_ADVICE}`, { cause: error });
    return { kind: 'storeError', cause: Object.assign(cause, { code }) };
  }
  if (error instanceof OperatorError) return { kind: 'storeError', cause: error };
  if (error instanceof RowsError) return { kind: 'storeError', cause: error.cause };
  if (error instanceof Stalled) return { kind: 'storeTimeout', cause: error };
  const cause = error instanceof ConnectionLost ? (error.cause ?? error) : error;
  return { kind: 'storeUnavailable', cause, connectionLost: true };
}
