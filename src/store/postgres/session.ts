// Whether a connection can make calls: with the rights of `gateway`, and in a session that no other client uses.

import { OperatorError } from '../../errors.ts';
import type { NamedStatement, Row, Statement } from '../statement.ts';
import { Connection, type OpenOptions, RowQuery } from './connection.ts';

/** Why a connection with prepared statements and settings of its session fails now and then. */
export const POOLED = 'DATABASE_URL goes through a pooler in transaction mode: set PREPARE=off';

/** Gives the server's process, the current role, and how this role gets the rights of `gateway` if it lacks any. */
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
            and not has_function_privilege(p.oid, 'execute')
       ) then format(
         -- Since Postgres 16 each membership says whether it inherits; the role's attribute is only the default.
         case when current_setting('server_version_num')::integer < 160000
           then 'grant gateway to %1$I; alter role %1$I inherit'
           else 'grant gateway to %1$I with inherit true'
         end, current_user) end`,
};

/** Checks the rights of a connection that does not become `gateway`. Throws OperatorError, or what pg throws. */
export async function checkRights(connection: Connection, signal: AbortSignal): Promise<void> {
  const [, login, remedy] = await readRow(connection, { text: SESSION.text, values: [] }, signal);
  if (remedy) throw new OperatorError(`the login ${login} inherits nothing from gateway: ${remedy}, or set PREPARE=on`);
}

/** The login, which `set role` leaves, what it is beyond a member of `gateway`, and whether it can only read. */
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

/** Why the login of a connection is a risk: it cannot create, or an error in the gateway would reach every tenant's rows. */
export async function findRisk(connection: Connection, signal: AbortSignal): Promise<string | undefined> {
  const [login, risk, readOnly] = await readRow(connection, LOGIN, signal);
  if (readOnly === 'on') return `The login ${login} can only read, as on a standby: every creation fails`;
  if (!risk) return undefined;
  return `The login ${login} ${risk}: use one that is only a member of gateway, as scripts/deploy/logins.sql creates`;
}

/** The server's process of each connection whose pooler gives it a session of its own. */
export type OwnSessions = WeakMap<Connection, string>;

/**
 * Checks the session of a connection that has become `gateway` and prepares statements. `options` are those of the
 * connection. Throws OperatorError, or what a query rejects with.
 */
export async function checkSession(
  connection: Connection,
  known: OwnSessions,
  options: OpenOptions,
  signal: AbortSignal,
): Promise<void> {
  const [pid, role] = await readRow(connection, SESSION, signal);
  if (typeof pid !== 'string' || role !== 'gateway') throw new OperatorError(POOLED);
  // A pooler invents the process that it names when a client connects.
  const own = known.get(connection);
  if (pid === (own ?? String(connection.processId))) return;
  if (own !== undefined || (await isShared(connection, pid, options, signal))) throw new OperatorError(POOLED);
  known.set(connection, pid);
}

const PROCESS: Statement = { text: 'select pg_backend_pid()::text as pid', values: [] };

/** How often the processes of two clients are compared: on a busy pooler each has mostly one that the other never sees. */
const ROUNDS = 5;

/**
 * Whether the pooler gives a client's session to others while it is connected. False if no second client is let in: in
 * session mode the first one may have the last session.
 */
async function isShared(
  connection: Connection,
  pid: string,
  { config, openMs }: OpenOptions,
  signal: AbortSignal,
): Promise<boolean> {
  let second: Connection | undefined;
  try {
    // The check has to end before its deadline, which is that of opening.
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
