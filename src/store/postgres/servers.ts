// The servers of one database, of which the primary is used. They are looked at twice a second, each over a connection of its own,
// and at once when a call fails. A database with one server of any role is not looked at.

import { setTimeout as delay } from 'node:timers/promises';
import pg from 'pg';
import type { ClientConfig, DatabaseAddress } from '../../database-url.ts';
import { messageOf, OperatorError } from '../../errors.ts';
import type { ServerReport } from '../store.ts';
import { Client } from './client.ts';
import type { OpenOptions } from './connection.ts';
import { Pool } from './pool.ts';

type ServersOptions = Omit<OpenOptions, 'signal' | 'onProgress'> & {
  readonly address: DatabaseAddress;
  /** The largest number of connections to each server. */
  readonly max: number;
  /** Receives a line for each change of a server's role. */
  readonly onChange?: ((text: string, isProblem: boolean) => void) | undefined;
};

/** How long after a look at the servers the next one begins, in milliseconds: usually, without a primary, and after a failure. */
const PERIOD_MS = 500;
const SEARCH_MS = 100;
const PAUSE_MS = 20;
/** How long a server may take to say what it is, in milliseconds. */
const LOOK_MS = 1_000;

/** What a server says of itself. */
type State = {
  readonly isInRecovery: boolean;
  /** Grows with each promotion; 0 for a standby. */
  readonly timeline: number;
  /** The same for a primary and its standbys, and for no other database; undefined if the login may not read it. */
  readonly system?: string;
  /** The running server: it differs between servers, also behind a pooler, and between two starts of one. */
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

/** One server: its connections, and what is known of it. */
export class Server {
  readonly name: string;
  readonly pool: Pool;
  /** How its connections are opened. */
  readonly options: OpenOptions;
  /** What it said last, and why it says nothing now. */
  state: State | undefined;
  error: Error | undefined;
  role: ServerReport['role'] = 'unknown';
  /** The calls so far. */
  calls = 0;
  #client: Client | undefined;
  #query = `select ${INSTANCE}, ${STATE}, ${SYSTEM}`;

  constructor(name: string, { address, max, ...options }: ServersOptions, config: ClientConfig) {
    this.name = name;
    const openMs = Math.min(options.openMs, address.connectMs ?? options.openMs);
    const verify = address.hasRoles ? (client: Client) => this.#verify(client) : undefined;
    this.options = { ...options, config, openMs, verify };
    this.pool = new Pool({ ...this.options, max });
  }

  /** Asks for the state. */
  async look(): Promise<void> {
    let client = this.#client;
    const timer = setTimeout(() => this.doubt(new Error(`it says nothing within ${LOOK_MS} ms`)), LOOK_MS);
    try {
      if (!client) {
        client = new Client(this.options.config);
        this.#client = client;
        await client.connect();
      }
      const { rows } = await client.query(this.#query).catch((error) => {
        if (!needsPrivilege(error)) throw error;
        // Not again: the server logs each refusal.
        this.#query = `select ${INSTANCE}, ${STATE}`;
        return (client as Client).query(this.#query);
      });
      // What a server said before it refused a write is out of date.
      if (this.#client !== client) return;
      const [state] = rows as [State];
      if (this.state && state.instance !== this.state.instance) {
        this.pool.cut(new Error(`${this.name} is another server now, or was started again`));
      }
      this.state = state;
      this.error = undefined;
    } catch (error) {
      if (this.#client === client) this.doubt(error as Error);
    } finally {
      clearTimeout(timer);
    }
  }

  /** Believes nothing that the server has said so far. */
  doubt(error: Error): void {
    this.error = error;
    this.#client?.connection.stream.destroy();
    this.#client = undefined;
  }

  /** A name may lead to several servers, or to another one by now: only the one that was looked at is known. */
  async #verify(client: Client): Promise<void> {
    const { rows } = await client.query(`select ${INSTANCE}`);
    if (rows[0].instance === this.state?.instance) return;
    throw new Error(
      `${this.name} leads to another server than a moment ago: expected a name of its own for each server`,
    );
  }
}

export class Servers {
  readonly all: readonly Server[];
  /** How often another server has become the primary. */
  failovers = 0;
  readonly #options: ServersOptions;
  /** The primary that was chosen last, with its state. */
  #last: { readonly server: Server; readonly state: State } | undefined;
  /** Why no server is the primary. */
  #problem: Error | undefined;
  #looked = Promise.withResolvers<void>();
  #suspected = Promise.withResolvers<void>();
  #isClosed = false;

  constructor(options: ServersOptions) {
    this.#options = options;
    const { address, config } = options;
    this.all = address.servers.map(({ name, config: own }) => new Server(name, options, { ...config, ...own }));
    if (address.hasRoles) void this.#watch();
  }

  /** The primary, if it is there. */
  get primary(): Server | undefined {
    if (!this.#options.address.hasRoles) return this.all[0];
    return this.#problem || this.#last?.server.error ? undefined : this.#last?.server;
  }

  /** The primary. Rejects with the reason if there is none after a look that begins now. */
  async findPrimary(): Promise<Server> {
    // One may have begun before.
    for (let looks = 0; looks < 2 && !this.primary && !this.#isClosed; looks += 1) {
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

  /** A server that was taken for the primary has refused a write. */
  doubt(server: Server, error: Error): void {
    if (!this.#options.address.hasRoles) return;
    server.doubt(error);
    this.suspect();
  }

  report(): readonly ServerReport[] {
    if (!this.#options.address.hasRoles) return [];
    return this.all.map(({ name, role, calls }) => ({ host: name, role, calls }));
  }

  /** Finishes what runs and waits, and closes all connections. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#looked.resolve();
    for (const server of this.all) server.doubt(new Error('the gateway stops'));
    await Promise.all(this.all.map(({ pool }) => pool.close()));
  }

  async #watch(): Promise<void> {
    while (!this.#isClosed) {
      this.#suspected = Promise.withResolvers();
      await Promise.all(this.all.map((server) => server.look()));
      if (this.#isClosed) return;
      this.#choose();
      for (const server of this.all) this.#settle(server);
      this.#looked.resolve();
      this.#looked = Promise.withResolvers();
      await delay(PAUSE_MS, undefined, { ref: false });
      const rest = (this.primary ? PERIOD_MS : SEARCH_MS) - PAUSE_MS;
      await Promise.race([this.#suspected.promise, delay(rest, undefined, { ref: false })]);
    }
  }

  /**
   * Chooses the primary. A server that accepts writes may be an old primary that has not noticed: the highest timeline counts, and
   * none below that of the primary before.
   */
  #choose(): void {
    const last = this.#last;
    const claims = this.all.flatMap((server) => {
      const { state, error } = server;
      if (error || !state || state.isInRecovery) return [];
      return !last || (isSameSystem(state, last.state) && state.timeline >= last.state.timeline)
        ? [{ server, state }]
        : [];
    });
    const timeline = Math.max(...claims.map(({ state }) => state.timeline));
    const newest = claims.filter(({ state }) => state.timeline === timeline);
    const chosen = newest.find(({ server }) => server === last?.server) ?? newest[0];
    const stranger = claims.find(({ state }) => chosen && !isSameSystem(state, chosen.state));
    // Two names of one server are no conflict.
    const rival = newest.find(({ state }) => state.instance !== chosen?.state.instance);
    const nameBoth = (other: typeof chosen) => `${chosen?.server.name} and ${other?.server.name}`;
    this.#problem = undefined;
    if (!chosen) {
      const reasons = this.all.map((server) => `${server.name} ${this.#judge(server).reason}`);
      this.#problem = new Error(`No database server is the primary: ${reasons.join('; ')}`);
    } else if (stranger) {
      const text = 'are primaries of different databases: expected one database and its standbys';
      this.#problem = new OperatorError(`${nameBoth(stranger)} ${text}`);
    } else if (rival && chosen.server !== last?.server) {
      this.#problem = new OperatorError(
        `${nameBoth(rival)} both accept writes on timeline ${timeline}: expected one primary`,
      );
    } else if (this.#options.address.mustWrite && chosen.state.isReadOnly) {
      this.#problem = new OperatorError(`${chosen.server.name} accepts no writes: default_transaction_read_only is on`);
    } else this.#follow(chosen);
  }

  /** Nothing that the primary before still answers may be used. */
  #follow(chosen: { readonly server: Server; readonly state: State }): void {
    if (this.#last && chosen.server !== this.#last.server) {
      this.failovers += 1;
      this.#last.server.pool.cut(new Error(`${chosen.server.name} has become the primary`));
    }
    this.#last = chosen;
  }

  /** Finds the role of a server, and logs a change. A reason that changes, such as another error of the network, is no news. */
  #settle(server: Server): void {
    const { role, reason } = this.#judge(server);
    if (role === server.role) return;
    if (role === 'standby' || role === 'refused') server.pool.cut(new Error(`${server.name} ${reason}`));
    server.role = role;
    this.#options.onChange?.(`Database server ${server.name} ${reason}`, role === 'away' || role === 'refused');
  }

  #judge(server: Server): { readonly role: ServerReport['role']; readonly reason: string } {
    const { state, error } = server;
    if (error || !state) return { role: 'away', reason: `is away: ${error && messageOf(error)}` };
    if (this.#last && !isSameSystem(state, this.#last.state)) {
      return { role: 'refused', reason: 'is not used: it is a server of another database' };
    }
    if (state.isInRecovery) return { role: 'standby', reason: 'is a standby' };
    if (server === this.primary) return { role: 'primary', reason: 'is the primary' };
    const rival = this.primary ? `${this.primary.name} is the primary` : `its timeline ${state.timeline} is old`;
    return { role: 'refused', reason: `is not used: it accepts writes, and ${this.#problem?.message ?? rival}` };
  }
}

function isSameSystem(one: State, other: State): boolean {
  return one.system === undefined || other.system === undefined || one.system === other.system;
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
  const servers = new Servers({ address, config, max: 1, openMs: connectionTimeoutMillis });
  try {
    const { options } = await servers.findPrimary();
    const client = new Client({ ...options.config, connectionTimeoutMillis: options.openMs });
    await client.connect().catch((error) => client.end().then(() => Promise.reject(error)));
    return client;
  } finally {
    await servers.close();
  }
}
