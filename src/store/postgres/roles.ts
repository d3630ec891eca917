// Which server of a database is the primary: what each says of itself, and whom to believe.

import pg from 'pg';
import type { DatabaseAddress, ServerAddress } from '../../database-url.ts';
import { messageOf, OperatorError } from '../../errors.ts';
import type { Row } from '../statement.ts';

/** What a server says of itself. */
export type State = {
  readonly isInRecovery: boolean;
  /** How much of the write-ahead log it has written as the primary, or replayed as a standby, in bytes. */
  readonly position: number;
  /** Grows with each promotion; 0 for a standby. */
  readonly timeline: number;
  /** The same for a primary and its standbys, and for no other database; undefined if the login may not read it. */
  readonly system: string | undefined;
  /** The running server. */
  readonly instance: string;
  readonly isReadOnly: boolean;
  /** Differs between two versions of the functions in schema public. A standby's are physically those of its primary. */
  readonly schema: string;
};

/** A server, with its state or why that is unknown. */
export type Candidate = { readonly name: string; readonly state: State | undefined; readonly error: Error | undefined };

/** The primary, with its state. */
export type Chosen<T> = { readonly server: T; readonly state: State };

/** No server is the primary; the message has the reason of each. */
export class NoPrimary extends Error {}

/**
 * What the primary has written for standbys, and asynchronous commits if there are any. Beyond that there may be records that no
 * commit needs, and that nobody sends for seconds.
 */
export const POSITION = `
select (case current_setting('synchronous_commit') when 'off' then pg_current_wal_insert_lsn()
             else pg_current_wal_flush_lsn() end - '0/0')::text`;

/** The running server, also behind a pooler: it differs between servers, and between two starts of one. */
const INSTANCE = `concat_ws(' ', extract(epoch from pg_postmaster_start_time()), inet_server_addr(), inet_server_port())`;

/** Gives the running server that a connection leads to, as State has it. */
export async function readInstance(client: pg.Client): Promise<string> {
  const { rows } = await client.query<[string]>({ text: `select ${INSTANCE}`, rowMode: 'array' });
  return rows[0]?.[0] ?? '';
}

/** Asks a server for its state. Without the privilege to read the system's identifier, `isFull` has to be false. */
export function toStateQuery(isFull: boolean): string {
  const system = isFull ? '(select system_identifier::text from pg_control_system())' : 'null';
  return `
select case when pg_is_in_recovery() then 'standby' end,
       coalesce(
         case when pg_is_in_recovery() then pg_last_wal_replay_lsn() else pg_current_wal_flush_lsn() end - '0/0', 0
       )::text,
       case when not pg_is_in_recovery() then substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) end,
       ${system},
       ${INSTANCE},
       current_setting('default_transaction_read_only'),
       (select coalesce(md5(string_agg(concat_ws(' ', p.oid, p.xmin), ',' order by p.oid)), '')
          from pg_proc p
         where p.pronamespace = 'public'::regnamespace)`;
}

/** Reads the row of a state query. */
export function toState([role, position, timeline, system, instance, isReadOnly, schema]: Row): State {
  return {
    isInRecovery: role === 'standby',
    position: Number(position),
    timeline: timeline ? Number.parseInt(timeline, 16) : 0,
    system: system ?? undefined,
    instance: instance ?? '',
    isReadOnly: isReadOnly === 'on',
    schema: schema ?? '',
  };
}

/** Whether two servers may have the same database. */
export function isSameSystem(one: State, other: State): boolean {
  return one.system === undefined || other.system === undefined || one.system === other.system;
}

/**
 * Chooses the primary. A server that accepts writes may be an old primary that has not noticed: the highest timeline counts,
 * and none below that of the primary before, `last`. Throws NoPrimary, and OperatorError for servers that do not belong together.
 */
export function choosePrimary<T extends Candidate>(
  candidates: readonly T[],
  mustWrite: boolean,
  last?: Chosen<T>,
): Chosen<T> {
  const claims = candidates.flatMap((server) => {
    const { state } = server;
    if (!state || state.isInRecovery) return [];
    const isPossible = !last || (isSameSystem(state, last.state) && state.timeline >= last.state.timeline);
    return isPossible ? [{ server, state }] : [];
  });
  const timeline = Math.max(...claims.map(({ state }) => state.timeline));
  const newest = claims.filter(({ state }) => state.timeline === timeline);
  const chosen = newest.find(({ server }) => server === last?.server) ?? newest[0];
  if (!chosen) throw new NoPrimary(`No database server is the primary: ${candidates.map(describe).join('; ')}`);
  const stranger = claims.find(({ state }) => !isSameSystem(state, chosen.state));
  if (stranger) {
    const names = `${chosen.server.name} and ${stranger.server.name}`;
    throw new OperatorError(`${names} are primaries of different databases: expected one database and its standbys`);
  }
  // Two names of one server are no conflict.
  const rival = newest.find(({ state }) => state.instance !== chosen.state.instance);
  if (rival && chosen.server !== last?.server) {
    const names = `${chosen.server.name} and ${rival.server.name}`;
    throw new OperatorError(`${names} both accept writes on timeline ${timeline}: expected one primary`);
  }
  if (mustWrite && chosen.state.isReadOnly) {
    throw new OperatorError(`${chosen.server.name} accepts no writes: default_transaction_read_only is on`);
  }
  return chosen;
}

function describe({ name, state, error }: Candidate): string {
  if (error) return `${name} is away: ${messageOf(error)}`;
  if (!state) return `${name} has not answered yet`;
  return state.isInRecovery ? `${name} is a standby` : `${name} is an old primary, on timeline ${state.timeline}`;
}

/** A privilege is missing. */
const INSUFFICIENT_PRIVILEGE = '42501';

/** Whether a query failed because the login lacks a privilege. */
export function needsPrivilege(error: unknown): boolean {
  return error instanceof pg.DatabaseError && error.code === INSUFFICIENT_PRIVILEGE;
}

/** Names the servers and the database, without a password. */
export function describeServers({ servers }: DatabaseAddress): string {
  const clients = servers.map(({ url }) => new pg.Client(url));
  return `Postgres at ${clients.map(({ host, port }) => `${host}:${port}`).join()}/${clients[0]?.database}`;
}

/** Connects to the primary, or to the only server. Rejects as choosePrimary throws, or with what pg rejects with for the only server. */
export async function connectToPrimary(
  { servers, hasRoles, mustWrite, connectMs }: DatabaseAddress,
  { connectionTimeoutMillis, ...config }: pg.ClientConfig & { readonly connectionTimeoutMillis: number },
): Promise<pg.Client> {
  const limit = { connectionTimeoutMillis: Math.min(connectionTimeoutMillis, connectMs ?? connectionTimeoutMillis) };
  const clients = servers.map(({ url }) => new pg.Client({ ...config, ...limit, connectionString: url }));
  const [only] = clients;
  try {
    if (only && !hasRoles) {
      await connect(only);
      return only;
    }
    const candidates = await Promise.all(clients.map((client, index) => ask(client, servers[index] as ServerAddress)));
    const { server } = choosePrimary(candidates, mustWrite);
    await endAll(clients.filter((client) => client !== server.client));
    return server.client;
  } catch (error) {
    await endAll(clients);
    throw error;
  }
}

async function connect(client: pg.Client): Promise<void> {
  // Without a listener a lost connection would end the process; the running query fails anyway.
  client.on('error', () => {});
  await client.connect();
}

async function ask(client: pg.Client, { name }: ServerAddress): Promise<Candidate & { readonly client: pg.Client }> {
  const read = async (isFull: boolean) => {
    const { rows } = await client.query<(string | null)[]>({ text: toStateQuery(isFull), rowMode: 'array' });
    return toState(rows[0] ?? []);
  };
  try {
    await connect(client);
    const state = await read(true).catch((error) => {
      if (needsPrivilege(error)) return read(false);
      throw error;
    });
    return { name, client, state, error: undefined };
  } catch (error) {
    return { name, client, state: undefined, error: error as Error };
  }
}

async function endAll(clients: readonly pg.Client[]): Promise<void> {
  await Promise.all(clients.map((client) => client.end().catch(() => {})));
}
