// The connections to one server. A query waits for an idle or a new connection, which serves others after it. The reads of a batch
// (turns.ts) share one: they leave in one write, which saves most of the socket's writes and reads (docs/performance.md).
// Every other query has a connection to itself.

import { Connection, type OpenOptions, type Query, REPLACED } from './connection.ts';

export type PoolOptions = Omit<OpenOptions, 'isPooled' | 'signal' | 'onProgress' | 'onLoss' | 'onPooler'> & {
  /** The largest number of connections. */
  readonly max: number;
  /** Idle timeout in milliseconds of the connections beyond KEPT. */
  readonly idleMs?: number;
};

/** A waiting read, and its batch. */
type Read = { readonly query: Query; readonly batch: object | undefined };

/** A connection that is being opened. */
type Attempt = { readonly startedAt: number; readonly controller: AbortController };

/** How often running queries and waiting calls are checked, in milliseconds. */
const PERIOD_MS = 5;
/** Reads behind a query that runs longer than this, in milliseconds, move to another connection. */
const SLOW_MS = 50;
/** After such a move, no reads share a connection for this long, in milliseconds. */
const APART_MS = 1_000;
/** An attempt to connect that takes longer than this, in milliseconds, counts as stalled: another one starts beside it. */
const STALLED_MS = 500;
/** Pause after a failed attempt, in milliseconds, while there are other connections. */
const PAUSE_MS = 1_000;
const IDLE_MS = 10_000;
/** How many connections stay open however long they are idle: the first calls after a quiet time need not connect. */
const KEPT = 2;

export class Pool {
  /** Whether a connection has found a pooler. Poolers have lost replies where several were under way: no reads share a connection. */
  isPooled = false;
  readonly #options: PoolOptions;
  #connections: Connection[] = [];
  #attempts: Attempt[] = [];
  #alone: Query[] = [];
  #reads: Read[] = [];
  #isAssigning = false;
  #timer: NodeJS.Timeout | undefined;
  readonly #idleTimer: NodeJS.Timeout;
  /** When the next connection may be opened, and when reads may share a connection again (performance.now()). */
  #growsAt = 0;
  #sharesAt = 0;
  /** Resolves after close() when nothing runs or waits any more. */
  #drained: PromiseWithResolvers<void> | undefined;

  constructor(options: PoolOptions) {
    this.#options = options;
    const { idleMs = IDLE_MS } = options;
    this.#idleTimer = setInterval(() => this.#closeUnused(idleMs), idleMs).unref();
  }

  /** Runs a query that only reads. It may run twice, and shares a connection with the waiting reads of the same batch. */
  read<T>(query: Query<T>, batch?: object): Promise<T> {
    this.#reads.push({ query, batch });
    this.#assignSoon();
    return query.answer;
  }

  /** Runs a query once, alone on a connection, and before the waiting reads. */
  run<T>(query: Query<T>): Promise<T> {
    this.#alone.push(query);
    this.#assignSoon();
    return query.answer;
  }

  /** Ends all connections and attempts, and rejects all calls with the cause. Later calls open new connections. */
  cut(cause: Error): void {
    for (const { controller } of this.#attempts) controller.abort(cause);
    for (const connection of this.#connections) connection.abandon(cause);
    this.#rejectWaiting(cause);
  }

  /** Replaces each connection once it is idle, such as when functions have changed since it prepared its statements. */
  renew(): void {
    for (const connection of this.#connections) {
      connection.isRetired = true;
      this.#onProgress(connection);
    }
  }

  get size(): { readonly open: number; readonly idle: number } {
    return { open: this.#connections.length, idle: this.#connections.filter(({ isIdle }) => isIdle).length };
  }

  /** Finishes the running and waiting calls, and closes all connections. */
  async close(): Promise<void> {
    clearInterval(this.#idleTimer);
    this.#drained ??= Promise.withResolvers();
    this.#assignSoon();
    await this.#drained.promise;
    for (const { controller } of this.#attempts) controller.abort();
    await Promise.all(this.#connections.map((connection) => connection.close()));
    this.#connections = [];
  }

  get #waiting(): number {
    return this.#alone.length + this.#reads.length;
  }

  /** Assigns connections when the current callback of the event loop has ended, to all calls that it makes. */
  #assignSoon(): void {
    if (this.#isAssigning) return;
    this.#isAssigning = true;
    process.nextTick(() => {
      this.#isAssigning = false;
      this.#assign();
    });
  }

  /** Assigns idle connections to waiting calls, and opens more if there are too few. */
  #assign(): void {
    this.#dropAborted();
    const idle = this.#connections.filter((one) => one.isIdle && !one.isRetired);
    for (const connection of idle) if (this.#waiting > 0) connection.send(this.#takeNext());
    this.#grow();
    const isBusy = this.#waiting > 0 || !this.#connections.every(({ isIdle }) => isIdle);
    if (isBusy) this.#watch();
    else this.#drained?.resolve();
  }

  /** Takes the next query that runs alone, or else the next read, and the others of its batch. */
  #takeNext(): Query[] {
    if (this.#alone.length > 0) return this.#alone.splice(0, 1);
    const batch = this.isPooled || performance.now() < this.#sharesAt ? undefined : this.#reads[0]?.batch;
    let size = 1;
    while (batch && this.#reads[size]?.batch === batch) size += 1;
    return this.#reads.splice(0, size).map(({ query }) => query);
  }

  #rejectWaiting(cause: unknown): void {
    for (const query of this.#alone.splice(0)) query.reject(cause);
    for (const { query } of this.#reads.splice(0)) query.reject(cause);
  }

  /** Removes calls whose clients no longer wait. */
  #dropAborted(): void {
    const isWanted = ({ signal, reject }: Query) => {
      if (signal.aborted) reject(signal.reason);
      return !signal.aborted;
    };
    this.#alone = this.#alone.filter(isWanted);
    this.#reads = this.#reads.filter(({ query }) => isWanted(query));
  }

  /** Opens connections for waiting calls; beside stalled attempts only one, which finds out whether the server is back. */
  #grow(): void {
    const recent = this.#countRecentAttempts();
    if (this.#connections.length + recent > 0 && performance.now() < this.#growsAt) return;
    const room = Math.min(this.#options.max - this.#connections.length, this.#attempts.length > recent ? 1 : Infinity);
    const wanted = Math.min(this.#waiting, room);
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
    // The others are probably lost too, which a repeated read must not find out. Once for all of them: they are retired then.
    const onLoss = () => this.renew();
    const onPooler = () => {
      this.isPooled = true;
      this.renew();
    };
    const options = { ...this.#options, isPooled: this.isPooled, onProgress, onLoss, onPooler, signal };
    try {
      const opened = await Connection.open(options).finally(() => {
        this.#attempts = this.#attempts.filter((one) => one !== attempt);
      });
      if (signal.aborted) return opened.abandon(signal.reason);
      this.isPooled ||= opened.isPooled;
      this.#connections.push(opened);
      const stalledBefore = attempt.startedAt - STALLED_MS;
      for (const one of this.#attempts) if (one.startedAt <= stalledBefore) one.controller.abort(REPLACED);
    } catch (error) {
      if (signal.aborted) return;
      this.#growsAt = performance.now() + PAUSE_MS;
      // Otherwise the waiting calls get another connection.
      if (this.#connections.length + this.#countRecentAttempts() === 0) this.#rejectWaiting(error);
    } finally {
      this.#assignSoon();
    }
  }

  #onProgress(connection: Connection): void {
    if (connection.isRetired && connection.isIdle) this.#remove(connection);
    if (this.#waiting > 0 || this.#drained) this.#assignSoon();
  }

  #remove(connection: Connection): void {
    this.#connections = this.#connections.filter((one) => one !== connection);
    void connection.close();
  }

  /** Checks running queries and waiting calls, as long as there are any. */
  #watch(): void {
    if (this.#timer) return;
    this.#timer = setTimeout(() => {
      // Answers that arrived while this process was busy are read first.
      setImmediate(() => {
        this.#timer = undefined;
        this.#cancelAndMove();
        this.#assign();
      });
    }, PERIOD_MS);
  }

  /** Cancels queries whose clients no longer wait, and moves the reads behind slow ones. */
  #cancelAndMove(): void {
    const now = performance.now();
    for (const connection of this.#connections) {
      const ms = now - connection.usedAt;
      if (connection.isToCancel && ms > PERIOD_MS) connection.cancel();
      else if (ms <= SLOW_MS) continue;
      const moved = connection.takeBack();
      if (moved.length > 0 && ms > SLOW_MS) this.#sharesAt = now + APART_MS;
      this.#reads.unshift(...moved.map((query) => ({ query, batch: undefined })));
    }
  }

  #closeUnused(idleMs: number): void {
    const before = performance.now() - idleMs;
    const unused = this.#connections.filter(({ isIdle, usedAt }) => isIdle && usedAt < before);
    // Attempts that seemed to stall may have opened more than `max`.
    const excess = Math.max(0, this.#connections.length - Math.min(KEPT, this.#options.max));
    for (const one of unused.toSorted((a, b) => a.usedAt - b.usedAt).slice(0, excess)) this.#remove(one);
  }
}
