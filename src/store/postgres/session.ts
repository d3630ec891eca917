// Whether a connection can make calls: with the rights of `gateway`, and in a session that no other client uses.

import { OperatorError } from '../../errors.ts';
import type { NamedStatement, Row, Statement } from '../statement.ts';
import { Connection, type OpenOptions, RowQuery } from './connection.ts';

/** Without a session of its own, a connection with prepared statements and session settings fails at random. */
export const POOLED = 'DATABASE_URL goes through a pooler in transaction mode: set PREPARE=off';

/**
 * Returns the server's process, the current role, the statement that gives the login the rights of `gateway` if it lacks any, and
 * the login. Another client of a pooler may have set the role.
 */
const SESSION: NamedStatement = {
  name: 'gateway_session',
  values: [],
  text: `
select pg_backend_pid(), current_user,
       case when exists (
         select
           from pg_proc p
           join pg_roles r on r.rolname = 'gateway'
          where p.pronamespace = 'public'::regnamespace
            and has_function_privilege(r.oid, p.oid, 'execute')
            and not has_function_privilege(session_user, p.oid, 'execute')
       ) then format(
         -- Since Postgres 16 each membership says whether it inherits; the role's attribute is only the default.
         case when current_setting('server_version_num')::integer < 160000
           then 'grant gateway to %1$I; alter role %1$I inherit'
           else 'grant gateway to %1$I with inherit true'
         end, session_user) end,
       session_user`,
};

/** Checks the rights of a connection that does not become `gateway`. Throws OperatorError, or what pg throws. */
export async function checkRights(connection: Connection, signal: AbortSignal): Promise<void> {
  const [, , remedy, login] = await readRow(connection, { text: SESSION.text, values: [] }, signal);
  if (!remedy) return;
  const either = `${remedy}, or without a pooler set PREPARE=on`;
  throw new OperatorError(`the login ${login} inherits nothing from gateway: ${either}`);
}

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
       current_setting('transaction_read_only'),
       -- Not the current value, which another client of a pooler may have set.
       (select reset_val from pg_settings where name = 'TimeZone')
  from pg_roles r
 where r.rolname = session_user`,
};

const UTC = /^(etc\/)?(utc|uct|gmt|zulu|universal)$/i;

/**
 * Why the login of a connection is a risk: it cannot create, a bug in the gateway could reach every tenant's rows, or, if the
 * gateway does not set up sessions, times are in the login's time zone.
 */
export async function findRisk(
  connection: Connection,
  hasSetup: boolean,
  signal: AbortSignal,
): Promise<string | undefined> {
  const [login, risk, readOnly, zone] = await readRow(connection, LOGIN, signal);
  if (readOnly === 'on') return `The login ${login} can only read, as on a standby: every creation fails`;
  if (!risk && !hasSetup && !UTC.test(zone ?? '')) {
    const remedy = `alter role ${login} set timezone = 'UTC', and let the pooler connect anew`;
    return `The login ${login} has the time zone ${zone}, in which answers have their times with PREPARE=off: ${remedy}`;
  }
  if (!risk) return undefined;
  return `The login ${login} ${risk}: use one that is only a member of gateway, as scripts/deploy/logins.sql creates`;
}

/**
 * Checks the session of a connection that has become `gateway` and prepares statements. `known` has the server's
 * process of the connections to which a pooler gives a session of their own; `options` are those of the connection.
 * Throws OperatorError, or what a query rejects with.
 */
export async function checkSession(
  connection: Connection,
  known: WeakMap<Connection, string>,
  options: OpenOptions,
  signal: AbortSignal,
): Promise<void> {
  try {
    const [pid, role] = await readRow(connection, SESSION, signal);
    if (typeof pid !== 'string' || role !== 'gateway') throw new OperatorError(POOLED);
    // The process that a pooler reports at connecting is invented.
    const own = known.get(connection);
    if (pid === (own ?? String(connection.processId))) return;
    if (own !== undefined || (await isShared(connection, pid, options, signal))) throw new OperatorError(POOLED);
    known.set(connection, pid);
  } catch (error) {
    await undoSetup(connection, signal);
    throw error;
  }
}

const UNDO = [
  'do $$ begin reset role; reset timezone; reset datestyle; reset statement_timeout; end $$',
  `deallocate ${SESSION.name}`,
];

/** Resets the pooler's session for its next client. Each statement may reach another session, so each is sent several times. */
async function undoSetup(connection: Connection, signal: AbortSignal): Promise<void> {
  connection.isRetired = true;
  for (const text of UNDO) {
    for (let round = 0; round < ROUNDS; round += 1) {
      await readRow(connection, { text, values: [] }, signal).catch(() => {});
    }
  }
}

const PROCESS: Statement = { text: 'select pg_backend_pid()::text as pid', values: [] };

/** How often the processes of two clients are compared: on a busy pooler they seldom get the same one. */
const ROUNDS = 5;

/**
 * Whether the pooler gives a connected client's session to other clients. False if a second client cannot connect: in session
 * mode the first one may have the last session.
 */
async function isShared(
  connection: Connection,
  pid: string,
  { config, openMs }: OpenOptions,
  signal: AbortSignal,
): Promise<boolean> {
  let second: Connection | undefined;
  try {
    // Less than `openMs`, which is the deadline of the whole check.
    second = await Connection.open({ config, openMs: openMs / 4 });
    for (let round = 0; round < ROUNDS; round += 1) {
      const [other] = await readRow(second, PROCESS, AbortSignal.timeout(openMs / 4));
      if (other === pid || (await readRow(connection, PROCESS, signal))[0] !== pid) return true;
    }
    return false;
  } catch {
    return false;
  } finally {
    void second?.close();
  }
}

async function readRow(connection: Connection, statement: Statement, signal: AbortSignal): Promise<Row> {
  const query = new RowQuery(statement, signal);
  connection.send([query]);
  return (await query.answer) ?? [];
}
