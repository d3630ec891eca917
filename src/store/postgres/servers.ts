// The servers of one database: which of them is the primary, and which standbys may serve reads. Each is looked at twice a second
// over a connection of its own. A database with one server of any role is not looked at.

import type pg from 'pg';
import type { DatabaseAddress } from '../../database-url.ts';
import { within } from '../../deadline.ts';
import { messageOf } from '../../errors.ts';
import type { ServerReport } from '../store.ts';
import { Connection, ConnectionLost, type OpenOptions, RowQuery } from './connection.ts';
import { Pool } from './pool.ts';
import {
  type Candidate,
  type Chosen,
  choosePrimary,
  isSameSystem,
  NoPrimary,
  needsPrivilege,
  readInstance,
  type State,
  toState,
  toStateQuery,
} from './roles.ts';

export type ServersOptions = Omit<OpenOptions, 'signal' | 'onProgress'> & {
  readonly address: DatabaseAddress;
  /** The largest number of connections to each server. */
  readonly max: number;
  /** Whether statements may have names. */
  readonly prepare: boolean;
  /** The largest lag of a standby that serves reads, in milliseconds. */
  readonly maxLagMs: number;
  /** Receives a line for each change of a server's role. */
  readonly onChange?: ((text: string, isProblem: boolean) => void) | undefined;
};

/** How often a server is looked at, in milliseconds: usually, and while there is no primary. */
const PERIOD_MS = 500;
const SEARCH_MS = 100;
/** The shortest time between two looks, however many calls fail, in milliseconds. */
const PAUSE_MS = 20;
/** How often, and for how long, a standby is looked at that reads wait for after a write, in milliseconds. */
const CATCH_UP_MS = 5;
const CATCH_UP_FOR_MS = 1_000;
/** How long a look may take, in milliseconds. */
const LOOK_MS = 1_000;
/** For how long the primary's positions are kept, in milliseconds: no greater lag can be measured. */
const HISTORY_MS = 60_000;

/** What no standby has replayed. */
export const UNKNOWN_POSITION = Number.MAX_SAFE_INTEGER;

/** A position of the primary, and when it was there (performance.now()). */
type Mark = { readonly at: number; readonly position: number };

/** One server: its connections, and what is known of it. */
export class Server implements Candidate {
  readonly name: string;
  readonly pool: Pool;
  /** How its connections are opened. */
  readonly options: OpenOptions;
  /** What it said last, and why it says nothing now. */
  state: State | undefined;
  error: Error | undefined;
  role: ServerReport['role'] = 'unknown';
  /** How far a standby is behind, in milliseconds; undefined if that is not known. */
  lagMs: number | undefined;
  servesReads = false;
  /** A standby behind this position may still follow the primary before. */
  followsAfter = -1;
  /** The calls so far, and those that run. */
  calls = 0;
  running = 0;
  /** How often it was looked at. */
  looks = 0;
  /** The text that was logged last. */
  lastLogged = '';
  /** When the look began whose state this is (performance.now()). */
  lookedAt = 0;
  readonly #prepare: boolean;
  #connection: Connection | undefined;
  #controller = new AbortController();
  #isFull = true;
  #doubtedAt = 0;
  #isClosed = false;

  constructor(name: string, { address, max, prepare, ...options }: ServersOptions, config: pg.ClientConfig) {
    this.name = name;
    this.#prepare = prepare;
    const openMs = Math.min(options.openMs, address.connectMs ?? options.openMs);
    const verify = address.hasRoles ? (client: pg.Client) => this.#verify(client) : undefined;
    this.options = { ...options, config, openMs, verify };
    this.pool = new Pool({ ...this.options, max });
  }

  /** Asks for the state. */
  async look(): Promise<void> {
    const beganAt = performance.now();
    const isReused = this.#connection !== undefined;
    try {
      const state = await this.#ask().catch((error) => {
        // Something else than the server may have ended an idle connection.
        if (isReused && error instanceof ConnectionLost && !this.#isClosed) return this.#ask();
        throw error;
      });
      // What it said before it refused a write is out of date.
      if (beganAt < this.#doubtedAt) return;
      if (this.state && state.instance !== this.state.instance) {
        this.pool.cut(new Error(`${this.name} is another server now, or was started again`));
      }
      this.state = state;
      this.lookedAt = beganAt;
      this.error = undefined;
    } catch (error) {
      this.error = error as Error;
    }
    this.looks += 1;
  }

  /** Believes nothing that the server has said so far. */
  doubt(error: Error): void {
    this.#doubtedAt = performance.now();
    this.error = error;
  }

  /** A name may lead to several servers, or to another one by now: only the one that was looked at is known. */
  async #verify(client: pg.Client): Promise<void> {
    if ((await readInstance(client)) === this.state?.instance) return;
    throw new Error(
      `${this.name} leads to another server than a moment ago: expected a name of its own for each server`,
    );
  }

  async #ask(): Promise<State> {
    try {
      this.#controller = new AbortController();
      return await within(
        LOOK_MS,
        async (signal) => {
          this.#connection ??= await Connection.open({ config: this.options.config, openMs: LOOK_MS, signal });
          const name = this.#prepare ? { name: `gateway_state_${this.#isFull}` } : {};
          const query = new RowQuery({ text: toStateQuery(this.#isFull), values: [], ...name }, signal);
          this.#connection.send([query]);
          return toState((await query.answer) ?? []);
        },
        this.#controller,
      );
    } catch (error) {
      this.#drop();
      if (!this.#isFull || !needsPrivilege(error)) throw error;
      this.#isFull = false;
      return this.#ask();
    }
  }

  #drop(): void {
    this.#connection?.abandon(new Error('the look has ended'));
    this.#connection = undefined;
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#controller.abort(new Error('the gateway stops'));
    this.#drop();
    await this.pool.close();
  }
}

export class Servers {
  readonly all: readonly Server[];
  /** Whether reads may go to standbys. */
  readonly hasStandbys: boolean;
  /** How often another server has become the primary. */
  failovers = 0;
  readonly #options: ServersOptions;
  readonly #hasRoles: boolean;
  /** The primary; it may be away. */
  #primary: Server | undefined;
  /** The one that was chosen last, with its state. */
  #last: Chosen<Server> | undefined;
  #problem: Error | undefined;
  #history: Mark[] = [];
  /** What a standby must have replayed so that reads see all that was written, and since when. */
  #written: Mark = { at: 0, position: 0 };
  #turn = 0;
  #isClosed = false;
  #decided = Promise.withResolvers<void>();
  #suspicions = 0;
  readonly #sleeping = new Set<() => void>();

  constructor(options: ServersOptions) {
    this.#options = options;
    const { address, config } = options;
    this.#hasRoles = address.hasRoles;
    this.hasStandbys = address.reads !== 'primary';
    this.all = address.servers.map(({ name, url }) => new Server(name, options, { ...config, connectionString: url }));
    if (this.#hasRoles) for (const server of this.all) void this.#watch(server);
  }

  /** The primary, if it is there. */
  get primary(): Server | undefined {
    if (!this.#hasRoles) return this.all[0];
    return this.#primary?.error ? undefined : this.#primary;
  }

  /** The primary. Rejects with NoPrimary if there is none once each server was looked at. */
  async findPrimary(): Promise<Server> {
    const looks = this.all.map((server) => server.looks);
    if (!this.primary) this.suspect();
    while (!this.primary && !this.#isClosed && this.all.some((server, index) => server.looks === looks[index])) {
      await this.#decided.promise;
    }
    if (this.primary) return this.primary;
    const { name, error } = this.#primary ?? {};
    throw this.#problem ?? new NoPrimary(`The primary ${name} is away: ${error && messageOf(error)}`);
  }

  /** A standby that has all that was written, by load or in the order of the URL; undefined where a read needs the primary. */
  findStandby(): Server | undefined {
    if (!this.hasStandbys) return undefined;
    const usable = this.all.filter(({ servesReads, state }) => servesReads && hasReplayed(state, this.#written));
    if (this.#options.address.reads === 'in order' || usable.length < 2) return usable[0];
    const least = Math.min(...usable.map(({ running }) => running));
    const free = usable.filter(({ running }) => running === least);
    this.#turn += 1;
    return free[this.#turn % free.length];
  }

  /** From now on reads go only to standbys that have replayed this position. */
  noteWrite(position: number): void {
    const { position: before } = this.#written;
    // Until a look has found the unknown one, a write that comes after it needs a look that begins later still.
    if (position < before && before !== UNKNOWN_POSITION) return;
    this.#written = { at: performance.now(), position: Math.max(position, before) };
    this.suspect();
  }

  /** Looks at each server now, for example because a call has failed. */
  suspect(): void {
    this.#suspicions += 1;
    for (const wake of this.#sleeping) wake();
  }

  /** A server that was taken for the primary has refused a write. */
  doubt(server: Server, error: Error): void {
    if (!this.#hasRoles) return;
    server.doubt(error);
    this.suspect();
  }

  report(): readonly ServerReport[] {
    if (!this.#hasRoles) return [];
    return this.all.map(({ name, role, lagMs, calls }) => ({
      host: name,
      role,
      ...(lagMs === undefined ? {} : { lagMs }),
      calls,
    }));
  }

  /** Finishes what runs and waits, and closes all connections. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.suspect();
    this.#decided.resolve();
    await Promise.all(this.all.map((server) => server.close()));
  }

  /**
   * Looks at a server again and again: after PAUSE_MS in any case, and the rest of the period, unless a failure makes a look due;
   * after CATCH_UP_MS while reads wait for this standby.
   */
  async #watch(server: Server): Promise<void> {
    while (!this.#isClosed) {
      const suspicions = this.#suspicions;
      await server.look();
      if (this.#isClosed) return;
      this.#decide();
      const isBehind = server.servesReads && !hasReplayed(server.state, this.#written);
      const isSoon = isBehind && performance.now() - this.#written.at < CATCH_UP_FOR_MS;
      await this.#sleep(isSoon ? CATCH_UP_MS : PAUSE_MS);
      if (!isSoon && this.#suspicions === suspicions)
        await this.#sleep((this.primary ? PERIOD_MS : SEARCH_MS) - PAUSE_MS, true);
    }
  }

  async #sleep(ms: number, endsEarly = false): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const timer = setTimeout(resolve, ms).unref();
    if (endsEarly) this.#sleeping.add(resolve);
    await promise;
    clearTimeout(timer);
    this.#sleeping.delete(resolve);
  }

  /** Draws the conclusions of a look. The first ones need all servers: an old primary may be the first that answers. */
  #decide(): void {
    if (this.all.every(({ looks }) => looks > 0)) {
      const before = this.#last?.server;
      try {
        const chosen = choosePrimary(this.all, this.#options.address.mustWrite, this.#last);
        if (chosen.server !== before) this.#follow(chosen);
        else if (chosen.state !== this.#last?.state) this.#mark(chosen);
        this.#last = chosen;
        this.#primary = chosen.server;
        this.#problem = undefined;
      } catch (error) {
        this.#primary = undefined;
        this.#problem = error as Error;
      }
      for (const server of this.all) this.#settle(server);
    }
    this.#decided.resolve();
    this.#decided = Promise.withResolvers();
  }

  /** Takes another server for the primary: nothing that the one before still answers may be used. */
  #follow({ server, state }: Chosen<Server>): void {
    this.#history = [];
    this.#mark({ server, state });
    if (!this.#last) {
      // Another process of the gateway, or this one before its restart, may have written all of it.
      this.noteWrite(state.position);
      return;
    }
    this.failovers += 1;
    this.#last.server.pool.cut(new Error(`${server.name} has become the primary`));
    // What the primary before had written beyond this is lost.
    this.#written = { ...this.#written, position: Math.min(this.#written.position, state.position) };
    for (const other of this.all) other.followsAfter = Math.max(other.state?.position ?? 0, state.position);
  }

  #mark({ server, state: { position } }: Chosen<Server>): void {
    const at = performance.now();
    const isDue = this.#written.position === UNKNOWN_POSITION && server.lookedAt > this.#written.at;
    if (isDue) this.#written = { at, position };
    this.#history = [...this.#history.filter((mark) => at - mark.at < HISTORY_MS), { at, position }];
  }

  /** Finds the role of a server, ends the connections that no longer fit it, and logs a change. */
  #settle(server: Server): void {
    const { role, reason } = this.#judge(server);
    const wasPrimary = server.role === 'primary';
    const isGone = role === 'away' && server !== this.#last?.server;
    if (role !== server.role && (isGone || role === 'refused' || (wasPrimary && role === 'standby'))) {
      server.pool.cut(new Error(`${server.name} ${reason ?? 'is a standby now'}`));
    }
    server.role = role;
    server.lagMs = role === 'standby' ? this.#measureLag(server) : undefined;
    const obstacle = role === 'standby' && this.hasStandbys ? this.#findObstacle(server) : undefined;
    server.servesReads = role === 'standby' && this.hasStandbys && obstacle === undefined;
    const isProblem = role === 'away' || role === 'refused';
    // A reason that changes, such as another error of the network, is no news.
    const text = isProblem ? role : `is the ${role}${obstacle ?? ''}`.replace('the standby', 'a standby');
    if (text !== server.lastLogged)
      this.#options.onChange?.(`Database server ${server.name} ${reason ?? text}`, isProblem);
    server.lastLogged = text;
  }

  #judge(server: Server): { readonly role: ServerReport['role']; readonly reason?: string } {
    const { state, error } = server;
    if (error || !state) return { role: 'away', reason: `is away: ${error && messageOf(error)}` };
    if (server === this.#primary) return { role: 'primary' };
    if (this.#last && !isSameSystem(state, this.#last.state)) {
      return { role: 'refused', reason: 'is not used: it is a server of another database' };
    }
    if (state.isInRecovery) return { role: 'standby' };
    const rival = this.#primary ? `${this.#primary.name} is the primary` : this.#problem?.message;
    return { role: 'refused', reason: `is not used: it accepts writes, and ${rival}` };
  }

  /** Why a standby serves no reads. One that lagged too far has to be closer before it serves again. */
  #findObstacle({ state, lagMs, servesReads, followsAfter }: Server): string | undefined {
    const { maxLagMs } = this.#options;
    if (!state || lagMs === undefined) return ', and serves no reads before there is a primary';
    if (state.schema !== this.#last?.state.schema)
      return ', and serves no reads: its functions are not those of the primary';
    if (state.position <= followsAfter) return ', and serves no reads until it follows the new primary';
    if (lagMs > (servesReads ? maxLagMs : maxLagMs / 2)) return ', and serves no reads: it lags too far behind';
    return undefined;
  }

  /** For how long the primary has been beyond the position of a standby, by the marks before and after it. */
  #measureLag({ state }: Server): number | undefined {
    const position = state?.position ?? 0;
    const [first] = this.#history;
    if (!first) return undefined;
    const next = this.#history.findIndex((mark) => mark.position > position);
    const [before, after] = [this.#history[next - 1], this.#history[next]];
    if (!after) return 0;
    if (!before) return Math.round(performance.now() - first.at);
    const part = (position - before.position) / (after.position - before.position);
    return Math.round(performance.now() - before.at - part * (after.at - before.at));
  }
}

function hasReplayed(state: State | undefined, { position }: Mark): boolean {
  return state !== undefined && state.position >= position;
}
