// The servers of one database, of which the primary is used. They are looked at twice a second, each over a connection of its own,
// and at once when a call fails. A database with one server of any role is not looked at.

import { setTimeout as delay } from 'node:timers/promises';
import pg from 'pg';
import type { ClientConfig, DatabaseAddress } from '../../database-url.ts';
import { within } from '../../deadline.ts';
import { messageOf, OperatorError } from '../../errors.ts';
import type { ServerReport } from '../store.ts';
import { Client } from './client.ts';
import type { OpenOptions } from './connection.ts';
import { Pool } from './pool.ts';

type ServersOptions = Omit<OpenOptions, 'signal' | 'onProgress' | 'onLoss'> & {
  readonly address: DatabaseAddress;
  /** The largest number of connections to each server. */
  readonly max: number;
  /** How long a server may take to answer a look, login included, in milliseconds; 1 s by default. */
  readonly lookMs?: number;
  /** Receives a line for each change of a server's role. */
  readonly onChange?: ((text: string, isProblem: boolean) => void) | undefined;
};

/** How long to wait between two rounds of looks, in milliseconds: usually, without a primary, and after a failed call. */
const PERIOD_MS = 500;
const SEARCH_MS = 100;
const PAUSE_MS = 20;
/** A gateway does not wait longer for a server's answer: until then no other one can become the primary. */
const LOOK_MS = 1_000;

/** What a server reports about itself. */
type State = {
  readonly isInRecovery: boolean;
  /** Grows with each promotion; 0 for a standby. */
  readonly timeline: number;
  /** The system identifier, which a primary and its standbys share; undefined if the login may not read it. */
  readonly system?: string;
  /** Identifies the running server, also behind a pooler; another one after a restart. */
  readonly instance: string;
  readonly isReadOnly: boolean;
};

const INSTANCE = `
  concat_ws(' ', extract(epoch from pg_postmaster_start_time()), inet_server_addr(), inet_server_port()) as instance`;
const STATE = `
  pg_is_in_recovery() as "isInRecovery", current_setting('default_transaction_read_only') = 'on' as "isReadOnly",
  case when pg_is_in_recovery() then 0
       else ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::integer end as timeline`;
const SYSTEM = '(select system_identifier::text from pg_control_system()) as system';

/** One server: its connections, and its last reported state. */
export class Server {
  readonly name: string;
  readonly pool: Pool;
  /** How its connections are opened. */
  readonly options: OpenOptions;
  /** The last state, and why there is no current one. */
  state: State | undefined;
  error: Error | undefined;
  role: ServerReport['role'] = 'unknown';
  /** The calls so far. */
  calls = 0;
  /** The connection for looks. */
  readonly #lookMs: number;
  #client: Client | undefined;
  #query = `select ${INSTANCE}, ${STATE}, ${SYSTEM}`;

  constructor(name: string, { address, max, lookMs = LOOK_MS, ...options }: ServersOptions, config: ClientConfig) {
    this.name = name;
    this.#lookMs = lookMs;
    const openMs = Math.min(options.openMs, address.connectMs ?? options.openMs);
    const verify = address.hasRoles ? (client: Client) => this.#verify(client) : undefined;
    this.options = { ...options, config, openMs, verify };
    this.pool = new Pool({ ...this.options, max });
  }

  /** Reads the state. Never rejects. */
  async look(): Promise<void> {
    let client = this.#client;
    try {
      const state = await within(this.#lookMs, async () => {
        if (client) return this.#readState(client);
        client = new Client(this.options.config);
        this.#client = client;
        return this.#readState(await client.connect());
      });
      // The server has refused a write meanwhile: this state is out of date.
      if (this.#client !== client) return;
      if (this.state && state.instance !== this.state.instance) {
        this.pool.cut(new Error(`${this.name} is another server now, or was started again`));
      }
      this.state = state;
      this.error = undefined;
    } catch (error) {
      if (this.#client === client) this.doubt(error as Error);
    }
  }

  async #readState(client: Client): Promise<State> {
    try {
      return (await client.query(this.#query)).rows[0];
    } catch (error) {
      if (!needsPrivilege(error)) throw error;
      // Not asked again: the server logs each refusal.
      this.#query = `select ${INSTANCE}, ${STATE}`;
      return (await client.query(this.#query)).rows[0];
    }
  }

  /** Takes the server for away until the next look. */
  doubt(error: Error): void {
    this.error = error;
    this.#client?.connection.stream.destroy();
    this.#client = undefined;
  }

  /** Rejects for a connection to another server: a name may lead to several servers, and to another one after a failover. */
  async #verify(client: Client): Promise<void> {
    const { rows } = await client.query(`select ${INSTANCE}`);
    if (rows[0].instance === this.state?.instance) return;
    const expected = 'expected a name of its own for each server';
    throw new Error(`${this.name} leads to another server than a moment ago: ${expected}`);
  }
}

export class Servers {
  readonly all: readonly Server[];
  /** How often another server has become the primary. */
  failovers = 0;
  readonly #options: ServersOptions;
  /** The last primary, with the state in which it was chosen. */
  #last: Candidate | undefined;
  /** Why there is no primary. */
  #problem: Error | undefined;
  #looked = Promise.withResolvers<void>();
  #suspected = Promise.withResolvers<void>();
  readonly #closing = new AbortController();

  constructor(options: ServersOptions) {
    this.#options = options;
    const { address, config } = options;
    this.all = address.servers.map(({ name, config: own }) => new Server(name, options, { ...config, ...own }));
    if (address.hasRoles) void this.#watch();
  }

  /** The primary; undefined if there is none now. */
  get primary(): Server | undefined {
    if (!this.#options.address.hasRoles) return this.all[0];
    return this.#problem || this.#last?.server.error ? undefined : this.#last?.server;
  }

  /** The primary. Without one, looks at the servers first; rejects with the reason if there is still none. */
  async findPrimary(): Promise<Server> {
    // Two rounds: one may have begun before this call.
    for (let looks = 0; looks < 2 && !this.primary && !this.#closing.signal.aborted; looks += 1) {
      this.suspect();
      await this.#looked.promise;
    }
    if (this.primary) return this.primary;
    const { name, error } = this.#last?.server ?? {};
    throw this.#problem ?? new Error(`The primary ${name} is away: ${error && messageOf(error)}`);
  }

  /** Looks at each server now, for example because a call has failed. */
  suspect(): void {
    this.#suspected.resolve();
  }

  /** Looks again at a primary that has refused a write. */
  doubt(server: Server, error: Error): void {
    server.doubt(error);
    this.suspect();
  }

  report(): readonly ServerReport[] {
    if (!this.#options.address.hasRoles) return [];
    return this.all.map(({ name, role, calls }) => ({ host: name, role, calls }));
  }

  /** Finishes the running and waiting calls, and closes all connections. */
  async close(): Promise<void> {
    this.#closing.abort();
    this.#looked.resolve();
    for (const server of this.all) server.doubt(new Error('the gateway stops'));
    await Promise.all(this.all.map(({ pool }) => pool.close()));
  }

  async #watch(): Promise<void> {
    const { signal } = this.#closing;
    // The timers keep a command alive that waits for the primary: while every server is away, nothing else does.
    const pause = (ms: number) => delay(ms, undefined, { signal }).catch(() => {});
    while (!signal.aborted) {
      this.#suspected = Promise.withResolvers();
      await Promise.all(this.all.map((server) => server.look()));
      if (signal.aborted) return;
      this.#choose();
      for (const server of this.all) this.#updateRole(server);
      this.#looked.resolve();
      this.#looked = Promise.withResolvers();
      await pause(PAUSE_MS);
      const rest = (this.primary ? PERIOD_MS : SEARCH_MS) - PAUSE_MS;
      await Promise.race([this.#suspected.promise, pause(rest)]);
    }
  }

  /**
   * Chooses the primary. A server that accepts writes may be an old primary that has not noticed a failover: the highest timeline
   * wins, and one below that of the last primary is refused.
   */
  #choose(): void {
    const last = this.#last;
    const candidates = this.all.flatMap((server): Candidate[] => {
      const { state, error } = server;
      if (error || !state || state.isInRecovery) return [];
      const isOld = last && (isOtherSystem(state, last.state) || state.timeline < last.state.timeline);
      return isOld ? [] : [{ server, state }];
    });
    const timeline = Math.max(...candidates.map(({ state }) => state.timeline));
    const newest = candidates.filter(({ state }) => state.timeline === timeline);
    const chosen = newest.find(({ server }) => server === last?.server) ?? newest[0];
    this.#problem = undefined;
    if (!chosen) {
      const reasons = this.all.map((server) => `${server.name} ${this.#judge(server).reason}`);
      this.#problem = new Error(`No database server is the primary: ${reasons.join('; ')}`);
      return;
    }
    const { server, state } = chosen;
    const stranger = candidates.find((other) => isOtherSystem(other.state, state));
    // Two names of one server are no conflict.
    const rival = newest.find((other) => other.state.instance !== state.instance);
    if (stranger) {
      const text = 'are primaries of different databases: expected one database and its standbys';
      this.#problem = new OperatorError(`${server.name} and ${stranger.server.name} ${text}`);
    } else if (rival && server !== last?.server) {
      const text = `both accept writes on timeline ${timeline}: expected one primary`;
      this.#problem = new OperatorError(`${server.name} and ${rival.server.name} ${text}`);
    } else if (this.#options.address.mustWrite && state.isReadOnly) {
      this.#problem = new OperatorError(`${server.name} accepts no writes: default_transaction_read_only is on`);
    } else {
      if (last && last.server !== server) {
        this.failovers += 1;
        // No answer of the old primary may be used.
        last.server.pool.cut(new Error(`${server.name} has become the primary`));
      }
      this.#last = chosen;
    }
  }

  /** Logs a server's new role. Another reason for the same role, such as another network error, is not logged. */
  #updateRole(server: Server): void {
    const { role, reason } = this.#judge(server);
    if (role === server.role) return;
    if (role === 'standby' || role === 'refused') server.pool.cut(new Error(`${server.name} ${reason}`));
    server.role = role;
    this.#options.onChange?.(`Database server ${server.name} ${reason}`, role === 'away' || role === 'refused');
  }

  #judge(server: Server): { readonly role: ServerReport['role']; readonly reason: string } {
    const { state, error } = server;
    if (error || !state) return { role: 'away', reason: `is away: ${error && messageOf(error)}` };
    if (this.#last && isOtherSystem(state, this.#last.state)) {
      return { role: 'refused', reason: 'is not used: it is a server of another database' };
    }
    if (state.isInRecovery) return { role: 'standby', reason: 'is a standby' };
    if (server === this.primary) return { role: 'primary', reason: 'is the primary' };
    const rival = this.primary ? `${this.primary.name} is the primary` : `its timeline ${state.timeline} is old`;
    return { role: 'refused', reason: `is not used: it accepts writes, and ${this.#problem?.message ?? rival}` };
  }
}

/** A server that accepts writes. */
type Candidate = { readonly server: Server; readonly state: State };

function isOtherSystem(one: State, other: State): boolean {
  return one.system !== undefined && other.system !== undefined && one.system !== other.system;
}

/** Whether a query failed because the login lacks a privilege. */
export function needsPrivilege(error: unknown): boolean {
  return error instanceof pg.DatabaseError && error.code === '42501';
}

/** Names the servers and the database, without a password. */
export function describeServers({ servers }: DatabaseAddress): string {
  const clients = servers.map(({ config }) => new pg.Client(config));
  return `Postgres at ${clients.map(({ host, port }) => `${host}:${port}`).join()}/${clients[0]?.database}`;
}

/** This machine. */
const LOCAL = /^(\/|localhost$|127\.|::1$)/;

/** The first server to which rows travel over a network in plain text, without anybody having asked for that. */
export function findPlainText({ servers }: DatabaseAddress): string | undefined {
  return servers.find(({ config }) => {
    const { host, ssl } = new pg.Client(config);
    return config.ssl === undefined && !ssl && !LOCAL.test(host);
  })?.name;
}

/** Connects to the primary, or to the only server. Rejects with the reason why there is none, or with what pg rejects with. */
export async function connectToPrimary(
  address: DatabaseAddress,
  { connectionTimeoutMillis, ...config }: ClientConfig & { readonly connectionTimeoutMillis: number },
): Promise<Client> {
  const openMs = connectionTimeoutMillis;
  const servers = new Servers({ address, config, max: 1, openMs, lookMs: openMs });
  try {
    const { options } = await servers.findPrimary();
    const client = new Client({ ...options.config, connectionTimeoutMillis: options.openMs });
    await client.connect().catch((error) => client.end().then(() => Promise.reject(error)));
    return client;
  } finally {
    await servers.close();
  }
}
