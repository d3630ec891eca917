// The connections of a Postgres. Reads are pipelined: several share a connection, which saves most of the writes and reads of
// sockets (1.4 times as many lists of 10 per second as with one read at a time). Those behind a slow one move to another
// connection. Everything else has a connection to itself.

import type pg from 'pg';
import { type Answered, Connection, type Listener, type Query } from './connection.ts';

export type PoolOptions = {
  /** How a connection is made. */
  readonly config: pg.ClientConfig;
  /** The statements that set up a session. */
  readonly setup: string | undefined;
  /** The largest number of connections. */
  readonly max: number;
  /** The largest number of reads on a connection. */
  readonly depth: number;
};

/** A connection, and what the pool knows of it. */
type Member = {
  readonly connection: Connection;
  /** Whether one user has it to itself. */
  isLeased: boolean;
  /** Whether it runs a query that is slow for a shared connection. */
  isStuck: boolean;
  /** How many queries had ended at its last progress. */
  ended: number;
  /** When a query last ended, or the first one was sent. */
  usedAt: number;
};

/** What waits for a connection to itself. */
type Lease = Pick<Query, 'signal' | 'reject'> & { readonly grant: (member: Member) => void };

/** How often running queries are looked at, in milliseconds; a query that takes less is not slow. */
const PERIOD_MS = 5;
/**
 * A query that takes so many times the average is slow. A fixed time would not do: on a busy machine all queries are slow, and
 * to run some of them again would make it busier.
 */
const SLOW = 8;
/** How many queries make the average. */
const AVERAGED = 64;
/** For how long no further connection is tried after one failed, in milliseconds, while there are others. */
const PAUSE_MS = 1_000;
/** How long an unused connection stays open, in milliseconds. */
const IDLE_MS = 10_000;

export class Pool {
  readonly #options: PoolOptions;
  #members: Member[] = [];
  #opening = 0;
  /** How long a query on a shared connection runs, in milliseconds. */
  #averageMs = 0;
  #reads: Query[] = [];
  #leases: Lease[] = [];
  #timer: NodeJS.Timeout | undefined;
  readonly #idleTimer: NodeJS.Timeout;
  /** When the next connection may be opened. */
  #growsAt = 0;
  #closing: PromiseWithResolvers<void> | undefined;

  constructor(options: PoolOptions) {
    this.#options = options;
    this.#idleTimer = setInterval(() => this.#closeIdle(), IDLE_MS).unref();
  }

  /** Runs a query that only reads. It may run twice. */
  read<T>(query: Query & Answered<T>): Promise<T> {
    this.#reads.push(query);
    this.#assign();
    return query.answer;
  }

  /** Gives a connection to one user, and takes it back when `use` has ended. Rejects with the reason of an aborted signal. */
  async lease<T>(signal: AbortSignal, use: (connection: Connection) => Promise<T>): Promise<T> {
    const member = await new Promise<Member>((grant, reject) => {
      this.#leases.push({ signal, grant, reject });
      this.#assign();
    });
    const { connection } = member;
    const cancel = () => void connection.cancel();
    signal.addEventListener('abort', cancel);
    try {
      return await use(connection);
    } finally {
      signal.removeEventListener('abort', cancel);
      if (connection.isCancelling) await connection.cancel();
      member.isLeased = false;
      member.usedAt = performance.now();
      this.#onProgress(connection);
    }
  }

  get size(): { readonly open: number; readonly idle: number } {
    return { open: this.#members.length, idle: this.#members.filter(isIdle).length };
  }

  /** Finishes what runs and waits, and closes all connections. */
  async close(): Promise<void> {
    clearInterval(this.#idleTimer);
    this.#closing ??= Promise.withResolvers();
    this.#assign();
    await this.#closing.promise;
  }

  /** Gives connections to what waits for them, and opens more where there are too few. */
  #assign(): void {
    while (this.#leases.length > 0) {
      const member = this.#members.find((one) => isIdle(one) && isUsable(one));
      if (!member) break;
      const { signal, grant, reject } = this.#leases.shift() as Lease;
      if (signal.aborted) reject(signal.reason);
      else {
        member.isLeased = true;
        grant(member);
      }
    }
    let isShared = false;
    while (this.#reads.length > 0) {
      const member = this.#choose();
      if (!member) break;
      if (member.connection.pending > 0) isShared = true;
      else member.usedAt = performance.now();
      member.connection.send(this.#reads.shift() as Query);
    }
    const lacking = this.#leases.length + this.#reads.length;
    this.#grow(Math.max(lacking, isShared ? 1 : 0));
    if (!this.#timer && (lacking > 0 || !this.#members.every(isIdle))) this.#watch();
    if (this.#closing) this.#tryToClose();
  }

  /** The connection for the next read: one that already has a read to send in this turn, or the one with the fewest. */
  #choose(): Member | undefined {
    let usable = this.#members.filter((one) => isUsable(one) && one.connection.pending < this.#options.depth);
    // What waits for a connection to itself gets the first that becomes idle.
    const kept = this.#leases.length;
    if (kept > 0) usable = usable.sort(byLength).slice(kept);
    let shortest: Member | undefined;
    for (const one of usable) {
      // One write for many reads costs less than their wait for each other (1.2 times as many lists of 10 per second).
      if (one.connection.hasUnsent) return one;
      if (!shortest || byLength(one, shortest) < 0) shortest = one;
    }
    return shortest;
  }

  /** Opens as many connections as are wanted, unless so many are being opened. */
  #grow(wanted: number): void {
    const { max } = this.#options;
    if (this.#members.length + this.#opening > 0 && performance.now() < this.#growsAt) return;
    while (this.#opening < wanted && this.#members.length + this.#opening < max) void this.#open();
  }

  async #open(): Promise<void> {
    this.#opening += 1;
    const { config, setup } = this.#options;
    const listener: Listener = {
      onProgress: (own) => this.#onProgress(own),
      onHit: (query) => this.#reads.unshift(query),
    };
    try {
      const connection = await Connection.open(config, setup, listener);
      this.#members.push({ connection, isLeased: false, isStuck: false, ended: 0, usedAt: performance.now() });
    } catch (error) {
      this.#growsAt = performance.now() + PAUSE_MS;
      // What waits gets another connection, if there is any.
      if (this.#members.length === 0 && this.#opening === 1) {
        for (const { reject } of [...this.#reads.splice(0), ...this.#leases.splice(0)]) reject(error);
      }
    } finally {
      this.#opening -= 1;
    }
    this.#assign();
  }

  #onProgress(connection: Connection): void {
    const member = this.#members.find((one) => one.connection === connection);
    if (!member) return;
    const count = connection.ended - member.ended;
    if (count > 0) {
      const now = performance.now();
      // A slow query counts as one that is just slow, or a few would make the others look quick.
      const ms = Math.min((now - member.usedAt) / count, this.#slowMs);
      if (!member.isLeased) this.#averageMs += (ms - this.#averageMs) * Math.min(1, count / AVERAGED);
      member.usedAt = now;
      member.ended = connection.ended;
      member.isStuck = false;
    }
    if (connection.isRetired && isIdle(member)) this.#remove(member);
    this.#assign();
  }

  #remove(member: Member): void {
    this.#members = this.#members.filter((one) => one !== member);
    void member.connection.close().catch(() => {});
  }

  #watch(): void {
    this.#timer = setTimeout(() => {
      // Answers that came while this process was busy are read first.
      setImmediate(() => {
        this.#timer = undefined;
        this.#look();
        this.#assign();
      });
    }, PERIOD_MS);
  }

  /** From how many milliseconds on a query on a shared connection is slow. */
  get #slowMs(): number {
    return Math.max(PERIOD_MS, SLOW * this.#averageMs);
  }

  /** Finds slow queries: those behind them move, and one for which nobody waits is cancelled. */
  #look(): void {
    const now = performance.now();
    for (const member of this.#members) {
      const { connection, isLeased, usedAt } = member;
      if (isLeased || connection.pending === 0) continue;
      if (connection.runsInVain && now - usedAt > PERIOD_MS) void connection.cancel();
      if (now - usedAt > this.#slowMs) {
        member.isStuck = true;
        this.#reads.unshift(...connection.takeBack());
      }
    }
    this.#reads = dropAborted(this.#reads);
    this.#leases = dropAborted(this.#leases);
  }

  #closeIdle(): void {
    const unused = performance.now() - IDLE_MS;
    for (const one of this.#members) if (isIdle(one) && one.usedAt < unused) this.#remove(one);
  }

  #tryToClose(): void {
    if (this.#leases.length + this.#reads.length + this.#opening > 0) return;
    if (!this.#members.every(isIdle)) return;
    const closed = this.#members.map(({ connection }) => connection.close().catch(() => {}));
    this.#members = [];
    void Promise.all(closed).then(() => this.#closing?.resolve());
  }
}

function isIdle({ connection, isLeased }: Member): boolean {
  return !isLeased && connection.pending === 0 && !connection.isCancelling;
}

function isUsable({ connection, isLeased, isStuck }: Member): boolean {
  return !isLeased && !isStuck && !connection.isRetired && !connection.isCancelling;
}

/** Rejects what nobody waits for any more, and gives the others. */
function dropAborted<T extends Pick<Query, 'signal' | 'reject'>>(queue: readonly T[]): T[] {
  for (const { signal, reject } of queue) if (signal.aborted) reject(signal.reason);
  return queue.filter(({ signal }) => !signal.aborted);
}

function byLength(a: Member, b: Member): number {
  return a.connection.pending - b.connection.pending;
}
