// The connections of a Postgres. A call waits until one is idle or open, takes it, and releases it when it has ended. The reads of
// a batch (turns.ts) share one: they leave in one write, which saves most of the writes and reads of sockets (see
// docs/performance.md). Everything else has a connection to itself.

import { Connection, type OpenOptions, type Query, REPLACED } from './connection.ts';

export type PoolOptions = Omit<OpenOptions, 'signal' | 'onProgress'> & {
  /** The largest number of connections. */
  readonly max: number;
  /** How long a connection beyond those that are kept stays open unused, in milliseconds. */
  readonly idleMs?: number;
};

/** What waits for a connection, with the reads of its batch. */
type Read = { readonly query: Query; readonly batch: object | undefined };

/** What waits for a connection to itself. */
type Lease = Pick<Query, 'signal' | 'reject'> & { readonly grant: (connection: Connection) => void };

/** A connection that is being opened. */
type Attempt = { readonly startedAt: number; readonly controller: AbortController };

/** How often running queries and waiting calls are looked at, in milliseconds. */
const PERIOD_MS = 5;
/** Reads behind a query that runs for longer, in milliseconds, move to another connection. */
const SLOW_MS = 50;
/** For how long, in milliseconds, no reads share a connection after some had to move. */
const APART_MS = 1_000;
/** An attempt to connect that takes longer, in milliseconds, may have stalled: another begins beside it. */
const STALLED_MS = 500;
/** For how long no further connection is tried after one failed, in milliseconds, while there are others. */
const PAUSE_MS = 1_000;
/** How long an unused connection stays open, in milliseconds, but for those that are kept: a quiet gateway does not connect anew. */
const IDLE_MS = 10_000;
const KEPT = 2;

export class Pool {
  readonly #options: PoolOptions;
  #connections: Connection[] = [];
  readonly #leased = new Set<Connection>();
  #attempts: Attempt[] = [];
  #reads: Read[] = [];
  #leases: Lease[] = [];
  #isAssigning = false;
  #timer: NodeJS.Timeout | undefined;
  readonly #idleTimer: NodeJS.Timeout;
  /** When the next connection may be opened, and when reads may share one again. */
  #growsAt = 0;
  #sharesAt = 0;
  /** What waits until nothing runs or waits any more, to close the connections. */
  #drained: PromiseWithResolvers<void> | undefined;

  constructor(options: PoolOptions) {
    this.#options = options;
    const { idleMs = IDLE_MS } = options;
    this.#idleTimer = setInterval(() => this.#closeUnused(idleMs), idleMs).unref();
  }

  /** Runs a query that only reads. It may run twice, and shares its connection with those of the same batch that wait with it. */
  read<T>(query: Query<T>, batch?: object): Promise<T> {
    this.#reads.push({ query, batch });
    this.#assignSoon();
    return query.answer;
  }

  /** Gives a connection to one user, and takes it back when `use` has ended. Rejects with the reason of an aborted signal. */
  async lease<T>(signal: AbortSignal, use: (connection: Connection) => Promise<T>): Promise<T> {
    const connection = await new Promise<Connection>((grant, reject) => {
      this.#leases.push({ signal, grant, reject });
      this.#assignSoon();
    });
    try {
      return await use(connection);
    } finally {
      this.#leased.delete(connection);
      this.#onProgress(connection);
    }
  }

  /** Ends everything at once: what runs, waits or is being opened fails with the cause. Later calls open new connections. */
  cut(cause: Error): void {
    for (const { controller } of this.#attempts) controller.abort(cause);
    for (const connection of this.#connections) connection.abandon(cause);
    this.#rejectWaiting(cause);
  }

  /** Replaces every connection, each when what it does has ended: functions have changed since it prepared its statements. */
  renew(): void {
    for (const connection of this.#connections) {
      connection.isRetired = true;
      this.#onProgress(connection);
    }
  }

  get size(): { readonly open: number; readonly idle: number } {
    return { open: this.#connections.length, idle: this.#connections.filter(this.#isIdle).length };
  }

  /** Finishes what runs and waits, and closes all connections. */
  async close(): Promise<void> {
    clearInterval(this.#idleTimer);
    this.#drained ??= Promise.withResolvers();
    this.#assignSoon();
    await this.#drained.promise;
    for (const { controller } of this.#attempts) controller.abort();
    await Promise.all(this.#connections.map((connection) => connection.close()));
    this.#connections = [];
  }

  readonly #isIdle = (connection: Connection): boolean => connection.isIdle && !this.#leased.has(connection);

  get #isWaiting(): boolean {
    return this.#reads.length + this.#leases.length > 0;
  }

  /** What comes in one turn of the event loop is given out together at its end. */
  #assignSoon(): void {
    if (this.#isAssigning) return;
    this.#isAssigning = true;
    setImmediate(() => {
      this.#isAssigning = false;
      this.#assign();
    });
  }

  /** Gives idle connections to what waits for them, and opens more where there are too few. */
  #assign(): void {
    this.#dropAborted();
    const idle = this.#connections.filter((one) => this.#isIdle(one) && !one.isRetired);
    for (const { grant } of this.#leases.splice(0, idle.length)) {
      const connection = idle.shift() as Connection;
      this.#leased.add(connection);
      grant(connection);
    }
    for (const connection of idle) if (this.#reads.length > 0) connection.send(this.#takeBatch());
    this.#grow();
    const isBusy = this.#isWaiting || !this.#connections.every(this.#isIdle);
    if (isBusy) this.#watch();
    else this.#drained?.resolve();
  }

  /** Takes the next read, with those of its batch. */
  #takeBatch(): Query[] {
    const batch = performance.now() < this.#sharesAt ? undefined : this.#reads[0]?.batch;
    let size = 1;
    while (batch && this.#reads[size]?.batch === batch) size += 1;
    return this.#reads.splice(0, size).map(({ query }) => query);
  }

  #rejectWaiting(cause: unknown): void {
    for (const { query } of this.#reads.splice(0)) query.reject(cause);
    for (const { reject } of this.#leases.splice(0)) reject(cause);
  }

  /** Rejects what nobody waits for any more. */
  #dropAborted(): void {
    const isWanted = ({ signal, reject }: Pick<Query, 'signal' | 'reject'>) => {
      if (signal.aborted) reject(signal.reason);
      return !signal.aborted;
    };
    this.#reads = this.#reads.filter(({ query }) => isWanted(query));
    this.#leases = this.#leases.filter(isWanted);
  }

  /** Opens connections for what waits, one after the other where attempts have stalled: the server may be back. */
  #grow(): void {
    const recent = this.#countRecentAttempts();
    if (this.#connections.length + recent > 0 && performance.now() < this.#growsAt) return;
    const room = Math.min(this.#options.max - this.#connections.length, this.#attempts.length > recent ? 1 : Infinity);
    const wanted = Math.min(this.#reads.length + this.#leases.length, room);
    for (let count = recent; count < wanted; count += 1) void this.#open();
  }

  /** The number of attempts that have not stalled. */
  #countRecentAttempts(): number {
    if (this.#attempts.length === 0) return 0;
    const now = performance.now();
    return this.#attempts.filter(({ startedAt }) => now - startedAt < STALLED_MS).length;
  }

  async #open(): Promise<void> {
    const controller = new AbortController();
    const { signal } = controller;
    const attempt = { startedAt: performance.now(), controller };
    this.#attempts.push(attempt);
    const onProgress = (connection: Connection) => this.#onProgress(connection);
    const opened = await Connection.open({ ...this.#options, onProgress, signal }).catch((error: unknown) => ({
      error,
    }));
    this.#attempts = this.#attempts.filter((one) => one !== attempt);
    if (!('error' in opened) && signal.aborted) opened.abandon(signal.reason);
    else if (!('error' in opened)) {
      this.#connections.push(opened);
      // Those that began long before have stalled.
      const long = attempt.startedAt - STALLED_MS;
      for (const { startedAt, controller } of this.#attempts) if (startedAt <= long) controller.abort(REPLACED);
    } else if (!signal.aborted) {
      this.#growsAt = performance.now() + PAUSE_MS;
      // What waits gets another connection, if there is any.
      if (this.#connections.length + this.#countRecentAttempts() === 0) {
        this.#rejectWaiting(opened.error);
      }
    }
    this.#assignSoon();
  }

  #onProgress(connection: Connection): void {
    if (connection.isRetired && this.#isIdle(connection)) this.#remove(connection);
    if (this.#isWaiting || this.#drained) this.#assignSoon();
  }

  #remove(connection: Connection): void {
    this.#connections = this.#connections.filter((one) => one !== connection);
    void connection.close();
  }

  /** Looks at what runs and waits, as long as there is any. */
  #watch(): void {
    if (this.#timer) return;
    this.#timer = setTimeout(() => {
      // Answers that came while this process was busy are read first.
      setImmediate(() => {
        this.#timer = undefined;
        this.#cancelAndMove();
        this.#assign();
      });
    }, PERIOD_MS);
  }

  /** Cancels queries for which nobody waits, and moves the reads behind slow ones. */
  #cancelAndMove(): void {
    const now = performance.now();
    for (const connection of this.#connections) {
      const ms = now - connection.usedAt;
      if (connection.isToCancel && ms > PERIOD_MS) connection.cancel();
      // What a lease has sent stays in its order.
      else if (ms <= SLOW_MS || this.#leased.has(connection)) continue;
      const moved = connection.takeBack();
      if (moved.length > 0 && ms > SLOW_MS) this.#sharesAt = now + APART_MS;
      this.#reads.unshift(...moved.map((query) => ({ query, batch: undefined })));
    }
  }

  #closeUnused(idleMs: number): void {
    const before = performance.now() - idleMs;
    const unused = this.#connections.filter((one) => this.#isIdle(one) && one.usedAt < before);
    const excess = Math.max(0, this.#connections.length - KEPT);
    for (const one of unused.toSorted((a, b) => a.usedAt - b.usedAt).slice(0, excess)) this.#remove(one);
  }
}
