// The primary process: starts the workers, replaces those that end, and stops them. It serves METRICS_PORT, so that no
// worker can hold up the metrics, and no other requests. It loads modules only when it needs them.

import cluster, { type Worker } from 'node:cluster';
import { setTimeout as delay } from 'node:timers/promises';
import { type Config, FILES } from '../config.ts';
import { DeadlineError } from '../deadline.ts';
import type { ReadinessReport } from '../http/health.ts';
import type { GatewayServer } from '../http/server.ts';
import type { Welcome } from '../http/welcome.ts';
import { createBuckets } from '../limits/buckets.ts';
import type { EmbeddedServer } from '../store/open.ts';
import type { Log } from '../telemetry/log.ts';
import { type Channel, openChannel } from './channel.ts';
import type { GroupMetrics } from './combined-metrics.ts';
import { type ToPrimary, type ToWorker, toArgument, type WorkerNumber } from './protocol.ts';

/** A worker that ends within this time of its start, in milliseconds, is replaced with a delay. */
const MIN_UPTIME_MS = 10_000;
/** The longest delay, in seconds; it starts at 1 s and doubles. */
const MAX_DELAY_S = 30;
/** How long workers may take to stop after the notice, in milliseconds: longer than they drain their two ports. */
const STOP_MS = 22_000;
/** How long a worker may take to give its metrics, in milliseconds: Prometheus must have them from the others in time. */
const FIGURES_MS = 700;
/** How long workers may take to check that they can serve, in milliseconds: longer than the longest deadline. */
const READINESS_MS = 65_000;
/** How often a worker is asked whether it still runs, and how long it may take to answer, in milliseconds. */
const PING_EVERY_MS = 1_000;
const PING_MS = 10_000;

/** Sent to the whole process group, these end a worker that does not ignore them yet. */
const STOP_SIGNALS: readonly unknown[] = ['SIGINT', 'SIGTERM'];

/** One of the configured number of workers, whichever process it is at the time. */
type Slot = {
  readonly number: WorkerNumber;
  /** The process that was started last. */
  newest?: Running | undefined;
  /** During a replacement, the process that serves until the newest does; undefined otherwise. */
  old?: Running | undefined;
  /** How many workers in a row ended here soon after their start. */
  quickEnds: number;
};

type Running = {
  readonly worker: Worker;
  readonly channel: Channel<ToWorker>;
  readonly begunAt: number;
  isServing: boolean;
  /** Fulfilled when it serves, with true, or has ended before. */
  readonly served: PromiseWithResolvers<boolean>;
  readonly ended: PromiseWithResolvers<void>;
};

/** Runs the workers until the last one has ended. */
export class Primary {
  /** Resolves with the exit code when no worker is left. */
  readonly ended: Promise<number>;
  readonly #end = Promise.withResolvers<number>();
  readonly #config: Config;
  readonly #slots: readonly Slot[];
  /** Every worker that has not ended, also those that another one has replaced. */
  readonly #live = new Set<Running>();
  readonly #takeToken = createBuckets();
  #metrics: Promise<GroupMetrics> | undefined;
  #operational: GatewayServer | undefined;
  #log: Promise<Log> | undefined;
  /** The server of an embedded store. */
  #database: EmbeddedServer | undefined;
  /** From the start to the first time that all workers serve; then serving, at times while it replaces them; then stopping. */
  #state: 'starting' | 'serving' | 'replacing' | 'stopping' = 'starting';
  /** Whether to replace the workers once that is possible: those of a start or of a replacement may have read older files. */
  #isReplacementDue = false;
  #exitCode = 0;

  constructor(config: Config) {
    this.ended = this.#end.promise;
    this.#config = config;
    const { workers } = config;
    this.#slots = Array.from({ length: workers }, (_, n) => ({
      number: { number: n + 1, of: workers },
      quickEnds: 0,
    }));
  }

  /**
   * Opens METRICS_PORT, if it is set, starts the server of an embedded store, and starts the workers. Throws OperatorError if that
   * is not possible.
   */
  async start(): Promise<void> {
    const { checkPorts } = await import('../http/ports.ts');
    await checkPorts(this.#config);
    if (this.#config.store.kind === 'embedded') await this.#openDatabase();
    if (this.#config.metricsPort !== undefined) await this.#openOperational();
    // The others start when the first one is serving, so that a startup error is reported only once.
    const [first] = this.#slots;
    if (first && !this.#isStopping()) this.#start(first);
  }

  async #openDatabase(): Promise<void> {
    const [{ refuseNewDemo }, { openServer }] = await Promise.all([
      import('../http/demo.ts'),
      import('../store/open.ts'),
    ]);
    await refuseNewDemo(this.#config);
    this.#database = await openServer(this.#config, FILES, await this.#openLogOnce());
  }

  async #openOperational(): Promise<void> {
    const { serveHealth, serveMetrics } = await import('../http/health.ts');
    const { openOperationalServer } = await import('../http/ports.ts');
    const { contentType } = await this.#loadMetrics();
    const endpoints = [
      serveHealth({ read: () => this.#readReadiness() }),
      serveMetrics({ contentType, read: () => this.#readMetrics() }),
    ];
    this.#operational = await openOperationalServer(this.#config, endpoints, await this.#openLogOnce());
  }

  /** Stops every worker after its current requests; until then they serve for `noticeMs` milliseconds, not ready. */
  stop(noticeMs = 0): void {
    if (this.#state === 'stopping') return;
    this.#state = 'stopping';
    for (const { channel } of this.#live) channel.tell({ kind: 'stop', ending: { noticeMs } });
    setTimeout(() => this.kill(), noticeMs + STOP_MS).unref();
    void this.#endWithLast();
  }

  /** Kills every worker. */
  kill(): void {
    this.#state = 'stopping';
    for (const { worker } of this.#live) worker.process.kill('SIGKILL');
  }

  /**
   * Replaces the workers one after the other, each when the new one serves: no request is lost. New workers run the code
   * and the document that are on the disk now. If one cannot serve, the old ones stay. During the start or another
   * replacement it begins after that, because the workers may have read older files.
   */
  async replaceWorkers(): Promise<void> {
    this.#isReplacementDue = true;
    if (this.#state !== 'serving') return;
    this.#state = 'replacing';
    const log = await this.#openLogOnce();
    while (this.#isReplacementDue) {
      this.#isReplacementDue = false;
      log.info('Replacing the workers one after the other');
      const areReplaced = await this.#replaceEach();
      if (this.#isStopping()) return;
      if (areReplaced) log.info('The workers are replaced');
      else log.error('A new worker did not serve: the other workers stay as they are');
    }
    this.#state = 'serving';
  }

  #isStopping(): boolean {
    return this.#state === 'stopping';
  }

  /** Whether a worker that ends is replaced. Before, it ends the start; after, it is meant to end. */
  #hasStarted(): boolean {
    return this.#state === 'serving' || this.#state === 'replacing';
  }

  async #replaceEach(): Promise<boolean> {
    for (const slot of this.#slots) {
      const old = slot.newest;
      if (this.#isStopping()) return false;
      // Without one, a new one is about to start.
      if (!old) continue;
      slot.old = old;
      if (!(await this.#start(slot).served.promise)) return false;
      old.channel.tell({ kind: 'stop', ending: { noticeMs: this.#config.drainMs, isReplaced: true } });
      await old.ended.promise;
    }
    return true;
  }

  #start(slot: Slot): Running {
    cluster.setupPrimary({ args: [toArgument(slot.number)] });
    // A temporary folder has another name each time.
    const worker = cluster.fork(this.#database ? { DATA_DIR: this.#database.dataDir } : {});
    const channel = openChannel<ToWorker, ToPrimary>(worker, (message) => this.#answer(slot, running, message));
    const running: Running = {
      worker,
      channel,
      begunAt: performance.now(),
      isServing: false,
      served: Promise.withResolvers(),
      ended: Promise.withResolvers(),
    };
    slot.newest = running;
    this.#live.add(running);
    worker.once('disconnect', async () => (await this.#metrics)?.end(worker.id));
    worker.once('exit', (code, signal) => this.#onEnd(slot, running, code, signal));
    // A worker that could not be spawned emits no exit event. Other errors, such as a failed send, are followed by one.
    worker.on('error', ({ message }) => {
      if (worker.process.pid === undefined) this.#onEnd(slot, running, 1, message);
    });
    return running;
  }

  #answer(slot: Slot, running: Running, message: ToPrimary): unknown {
    if (message.kind === 'serving') return this.#onServing(slot, running);
    if (message.kind === 'failed') return this.#onFailed();
    if (message.kind === 'take') return this.#takeToken(message.name, message.size, message.isProven);
    return this.#readMetrics();
  }

  async #onServing(slot: Slot, running: Running): Promise<void> {
    running.isServing = true;
    running.served.resolve(true);
    slot.old = undefined;
    void this.#watch(running);
    if (this.#state === 'starting') return this.#continueStart(slot);
    if (this.#hasStarted()) (await this.#openLogOnce()).info(`Worker ${running.worker.process.pid} is serving`);
  }

  /** Starts the other workers after the first one, and ends the start with the last one. */
  async #continueStart(slot: Slot): Promise<void> {
    const [first, ...others] = this.#slots;
    if (slot === first) for (const other of others) this.#start(other);
    if (!this.#slots.every(({ newest }) => newest?.isServing)) return;
    this.#state = 'serving';
    first?.newest?.channel.tell({ kind: 'welcome', welcome: await this.#describe() });
    if (this.#isReplacementDue) void this.replaceWorkers();
  }

  /**
   * Kills a worker that no longer answers, such as one that is stopped or in an endless loop. Its clients would wait
   * without an answer, and a load balancer would go on sending it requests, because /readyz of the others is 200.
   */
  async #watch({ worker, channel }: Running): Promise<void> {
    try {
      for (;;) {
        await channel.ask({ kind: 'ping' }, PING_MS);
        await delay(PING_EVERY_MS);
      }
    } catch (error) {
      // Otherwise it has ended.
      if (!(error instanceof DeadlineError)) return;
      worker.process.kill('SIGKILL');
      const log = await this.#openLogOnce();
      log.error(`Worker ${worker.process.pid} has not answered for ${PING_MS / 1_000} s and is killed`);
    }
  }

  #onFailed(): void {
    this.#exitCode = 1;
    this.stop();
  }

  #onEnd(slot: Slot, running: Running, code: number, reason: string | undefined): void {
    this.#live.delete(running);
    running.isServing = false;
    running.served.resolve(false);
    running.ended.resolve();
    const text = `Worker ${running.worker.process.pid} ended with ${reason ?? `exit code ${code}`}`;
    if (this.#hasStarted()) {
      this.#refill(slot, running, text);
      return;
    }
    if (!STOP_SIGNALS.includes(reason) && (code !== 0 || reason)) {
      this.#exitCode = 1;
      // A worker that exits by itself has logged why.
      if (reason) console.error(text);
    }
    this.stop();
    void this.#endWithLast();
  }

  /** Starts a new worker, unless another process is this one already. */
  #refill(slot: Slot, ended: Running, text: string): void {
    if (slot.old === ended) slot.old = undefined;
    if (slot.newest !== ended) return;
    // If the new one of a replacement has ended, the old one is the newest again.
    slot.newest = slot.old;
    if (slot.newest) return;
    slot.quickEnds = performance.now() - ended.begunAt < MIN_UPTIME_MS ? slot.quickEnds + 1 : 0;
    void this.#restart(slot, text);
  }

  async #restart(slot: Slot, text: string): Promise<void> {
    // The timer keeps this process alive: it may be all that is left.
    const seconds = slot.quickEnds === 0 ? 0 : Math.min(2 ** (slot.quickEnds - 1), MAX_DELAY_S);
    setTimeout(() => {
      if (this.#hasStarted()) this.#start(slot);
    }, seconds * 1_000);
    const log = await this.#openLogOnce();
    log.error(`${text}: starting a new one${seconds === 0 ? '' : ` in ${seconds} s`}`);
  }

  async #endWithLast(): Promise<void> {
    if (this.#live.size > 0) return;
    if (this.#operational) await (await import('../http/ports.ts')).close(this.#operational);
    await this.#database?.close();
    this.#end.resolve(this.#exitCode);
  }

  async #readMetrics(): Promise<string> {
    const metrics = await this.#loadMetrics();
    return metrics.read(
      new Map(
        this.#serving().map(({ worker, channel }) => [
          worker.id,
          () => channel.ask({ kind: 'readFigures' }, FIGURES_MS),
        ]),
      ),
    );
  }

  #loadMetrics(): Promise<GroupMetrics> {
    this.#metrics ??= import('./combined-metrics.ts').then(({ createGroupMetrics }) => createGroupMetrics());
    return this.#metrics;
  }

  /** What the first worker that answers says. */
  #readReadiness(): Promise<ReadinessReport> {
    if (this.#isStopping()) return Promise.resolve({ status: 'stopping' });
    const reports = this.#serving().map(({ channel }) =>
      channel.ask<ReadinessReport>({ kind: 'readReadiness' }, READINESS_MS),
    );
    return Promise.any(reports).catch(() => ({ status: 'not ready' }));
  }

  #serving(): Running[] {
    return [...this.#live].filter(({ isServing }) => isServing);
  }

  async #describe(): Promise<Welcome> {
    const workers = this.#config.workers;
    if (!this.#operational) return { workers };
    const { toOrigin } = await import('../http/ports.ts');
    return { workers, metricsOrigin: toOrigin(this.#operational) };
  }

  #openLogOnce(): Promise<Log> {
    this.#log ??= import('../telemetry/log.ts').then(({ openLog }) => openLog(this.#config, []));
    return this.#log;
  }
}
