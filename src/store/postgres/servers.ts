// Finds the primary among the servers of a database. Each server is looked at (asked for its state) twice a second over a connection
// of its own, and soon after a failed call. A single server that may have any role is not looked at.

import { setTimeout as delay } from 'node:timers/promises';
import pg from 'pg';
import type { ClientConfig, DatabaseAddress } from '../../database-url.ts';
import { within } from '../../deadline.ts';
import { messageOf, OperatorError } from '../../errors.ts';
import type { ServerReport } from '../store.ts';
import { Client } from './client.ts';
import { type OpenOptions, RowQuery } from './connection.ts';
import { Pool, type PoolOptions } from './pool.ts';

type ServersOptions = PoolOptions & {
  readonly address: DatabaseAddress;
  /** The timeout of a look at a server, login included, in milliseconds; 1 s by default. */
  readonly lookMs?: number;
  /** Receives a line for each change of a server's role. */
  readonly onChange?: ((text: string, isProblem: boolean) => void) | undefined;
};

/** The pauses between two rounds of looks, in milliseconds: with a primary, without one, and after a failed call. */
const PERIOD_MS = 500;
const SEARCH_MS = 100;
const PAUSE_MS = 20;
/** The default timeout of a look. While a server is waited for, no other one can become the primary. */
const LOOK_MS = 1_000;

/** Reads a server's state, as JSON. */
const STATE = `
select json_build_object(
         -- The time of the start identifies a server. A server may have several addresses, such as one for each version of IP.
         'instance', extract(epoch from pg_postmaster_start_time())::text,
         'isReadOnly', current_setting('default_transaction_read_only') = 'on',
         'timeline', case when pg_is_in_recovery() then 0
           else ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::integer end)::text as state`;

type State = Pick<Server, 'instance' | 'isReadOnly' | 'timeline'>;

/** One server: its connections, and what it has reported about itself. */
export class Server {
  readonly name: string;
  readonly pool: Pool;
  /** How its connections are opened. */
  readonly options: OpenOptions;
  /** The timeline on which the server accepts writes, which grows with each promotion; 0 for a standby, and while it is away. */
  timeline = 0;
  /** Identifies the running server, also behind a pooler. It changes with each start. */
  instance: string | undefined;
  isReadOnly = false;
  /** Whether the current state is unknown. */
  isAway = true;
  role: ServerReport['role'] = 'unknown';
  /** Why it has its role. */
  reason = 'has not been looked at';
  /** The calls so far. */
  calls = 0;
  /** The connection for looks. */
  #client: Client | undefined;

  constructor(name: string, { address, max, ...options }: ServersOptions, config: ClientConfig) {
    this.name = name;
    const openMs = Math.min(options.openMs, address.connectMs ?? options.openMs);
    const verify = address.hasRoles ? (client: Client) => this.#verify(client) : undefined;
    this.options = { ...options, config, openMs, verify };
    this.pool = new Pool({ ...this.options, max });
  }

  /** Reads the state within `ms` milliseconds. Never rejects. */
  async look(ms: number): Promise<void> {
    let client = this.#client;
    try {
      const state = await within(ms, async (signal) => {
        try {
          if (!client) {
            client = new Client(this.options.config);
            this.#client = client;
            await client.connect();
          }
          return await readState(client);
        } catch (error) {
          // A server that has no connection left, or refuses the password by now, still serves open connections.
          if (!(error instanceof pg.DatabaseError) || this.pool.size.open === 0) throw error;
          this.#forgetClient();
          client = undefined;
          const [state] = (await this.pool.read(new RowQuery({ text: STATE, values: [] }, signal))) ?? [];
          return JSON.parse(state ?? '') as State;
        }
      });
      // The server has refused a write meanwhile, so this state is out of date.
      if (this.#client !== client) return;
      if (this.instance && this.instance !== state.instance) {
        this.pool.cut(new Error(`${this.name} is another server now, or was started again`));
      }
      Object.assign(this, state, { isAway: false });
      // A session keeps the default_transaction_read_only of its login.
      if (this.isReadOnly) this.#forgetClient();
    } catch (error) {
      // pg does not say why a connection was lost earlier.
      if (this.#client === client) this.doubt(client?.lost ?? (error as Error));
    }
  }

  /** Marks the server as away until the next look. */
  doubt(error: Error): void {
    this.isAway = true;
    this.reason = `is away: ${messageOf(error)}`;
    this.timeline = 0;
    this.#forgetClient();
  }

  #forgetClient(): void {
    this.#client?.connection.stream.destroy();
    this.#client = undefined;
  }

  /** Rejects if a connection leads to another server: a name may stand for several servers, or lead to another one after a failover. */
  async #verify(client: Client): Promise<void> {
    const { instance, timeline } = await readState(client);
    if (instance === this.instance) return;
    const text = 'leads to another server than a moment ago: expected a name of its own for each server';
    const error = new Error(`${this.name} ${text}`);
    // Otherwise the calls would stay with an old primary for as long as its connections are open.
    if (timeline > this.timeline) this.doubt(error);
    throw error;
  }
}

async function readState(client: Client): Promise<State> {
  return JSON.parse((await client.query(STATE)).rows[0].state);
}

export class Servers {
  readonly all: readonly Server[];
  /** How often another server has become the primary. */
  failovers = 0;
  readonly #options: ServersOptions;
  /** The last primary, and its timeline. */
  #last: Server | undefined;
  #timeline = 1;
  /** What the operator has to correct before a server can be the primary. */
  #mistake: string | undefined;
  /** The last round of looks, and the next one if it was asked for. */
  #round: Promise<void>;
  #next: Promise<void> | undefined;
  #timer: NodeJS.Timeout | undefined;
  #isWatching: boolean;

  constructor(options: ServersOptions) {
    this.#options = options;
    const { address, config } = options;
    this.all = address.servers.map(({ name, config: own }) => new Server(name, options, { ...config, ...own }));
    this.#isWatching = address.hasRoles;
    this.#round = this.#isWatching ? this.#lookAtAll() : Promise.resolve();
  }

  /** The primary; undefined if there is none now. */
  get primary(): Server | undefined {
    if (!this.#options.address.hasRoles) return this.all[0];
    return this.#last?.role === 'primary' && !this.#last.isAway ? this.#last : undefined;
  }

  /** The primary. Without one, looks at the servers first; rejects with the reason if there is still none. */
  async findPrimary(): Promise<Server> {
    if (!this.primary) await this.#round;
    // That round may have begun before this call.
    if (!this.primary) await this.look();
    if (this.primary) return this.primary;
    if (this.#mistake) throw new OperatorError(this.#mistake);
    const reasons = this.all.map(({ name, reason }) => `${name} ${reason}`);
    throw new Error(`No database server is the primary: ${reasons.join('; ')}`);
  }

  /** Looks at each server soon, after the current round: for example because a call has failed. */
  look(): Promise<void> {
    this.#next ??= this.#round.then(async () => {
      await delay(PAUSE_MS);
      clearTimeout(this.#timer);
      this.#next = undefined;
      if (this.#isWatching) this.#round = this.#lookAtAll();
      await this.#round;
    });
    return this.#next;
  }

  report(): readonly ServerReport[] {
    if (!this.#options.address.hasRoles) return [];
    return this.all.map(({ name, role, calls }) => ({ host: name, role, calls }));
  }

  /** Finishes the running and waiting calls, and closes all connections. */
  async close(): Promise<void> {
    this.#isWatching = false;
    clearTimeout(this.#timer);
    for (const server of this.all) server.doubt(new Error('the gateway stops'));
    await Promise.all(this.all.map(({ pool }) => pool.close()));
  }

  async #lookAtAll(): Promise<void> {
    await Promise.all(this.all.map((server) => server.look(this.#options.lookMs ?? LOOK_MS)));
    if (!this.#isWatching) return;
    this.#assignRoles();
    // The timer keeps a command alive that waits for the primary: while every server is away, nothing else does.
    this.#timer = setTimeout(() => this.look(), (this.primary ? PERIOD_MS : SEARCH_MS) - PAUSE_MS);
  }

  /**
   * Finds the primary. A server that accepts writes may be an old primary that has not noticed a failover: the highest timeline
   * wins, and one below that of the last primary is refused.
   */
  #assignRoles(): void {
    const last = this.#last;
    const timeline = Math.max(this.#timeline, ...this.all.map((server) => server.timeline));
    const newest = this.all.filter((server) => server.timeline === timeline);
    const chosen = newest.find((server) => server === last) ?? newest[0];
    this.#mistake = chosen && this.#findMistake(chosen, newest);
    const primary = this.#mistake ? undefined : chosen;
    if (last && primary && last !== primary) {
      this.failovers += 1;
      // No answer of the old primary may be used.
      last.pool.cut(new Error(`${primary.name} has become the primary`));
    }
    if (primary) [this.#last, this.#timeline] = [primary, timeline];
    for (const server of this.all) {
      const rival = primary ? `${primary.name} is the primary` : `its timeline ${server.timeline} is old`;
      const [role, reason] = toRole(server, server === primary, this.#mistake ?? `it accepts writes, and ${rival}`);
      server.reason = reason;
      // Another reason for the same role, such as another network error, is not logged.
      if (role === server.role) continue;
      if (role === 'standby' || role === 'refused') server.pool.cut(new Error(`${server.name} ${reason}`));
      server.role = role;
      this.#options.onChange?.(`Database server ${server.name} ${reason}`, role === 'away' || role === 'refused');
    }
  }

  /** Why a server cannot be used as the primary. `newest` are those that accept writes on its timeline. */
  #findMistake(chosen: Server, newest: readonly Server[]): string | undefined {
    const { name, instance, isReadOnly } = chosen;
    // Two names of one server are no conflict.
    const rival = chosen === this.#last ? undefined : newest.find((one) => one.instance !== instance);
    if (rival)
      return `${name} and ${rival.name} both accept writes on timeline ${rival.timeline}: expected one primary`;
    const isRefused = this.#options.address.mustWrite && isReadOnly;
    return isRefused ? `${name} accepts no writes: default_transaction_read_only is on` : undefined;
  }
}

/** The role of a server, and the reason for it. `obstacle` says why a server that accepts writes is not the primary. */
function toRole(server: Server, isPrimary: boolean, obstacle: string): [ServerReport['role'], string] {
  if (server.isAway) return ['away', server.reason];
  if (server.timeline === 0) return ['standby', 'is a standby'];
  return isPrimary ? ['primary', 'is the primary'] : ['refused', `is not used: ${obstacle}`];
}

/** Connects to the primary, or to the only server. Rejects with the reason why there is none, or with what pg rejects with. */
export async function connectToPrimary(
  address: DatabaseAddress,
  { connectionTimeoutMillis: openMs, ...config }: ClientConfig & { readonly connectionTimeoutMillis: number },
): Promise<Client> {
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
