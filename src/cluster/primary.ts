// The primary process: starts the workers, replaces those that end, and stops them. It serves METRICS_PORT, so that no worker can
// delay the metrics, and nothing else. It loads its code before it starts workers, because the code on the disk may change later.

import { setTimeout as delay } from 'node:timers/promises';
import { type Config, FILES } from '../config.ts';
import { refuseNewDemo } from '../http/demo.ts';
import { type ReadinessReport, serveHealth, serveMetrics } from '../http/health.ts';
import { checkPorts, close, type GatewayServer, openOperationalServer, toOrigin } from '../http/server.ts';
import { createBuckets } from '../limits/buckets.ts';
import { type EmbeddedServer, openServer } from '../store/open.ts';
import { type Log, openLog } from '../telemetry/log.ts';
import { createGroupMetrics } from '../telemetry/metrics.ts';
import { type End, WorkerProcess } from './process.ts';
import type { ToPrimary } from './protocol.ts';

/** A worker that ends within this time after its start, in milliseconds, is replaced after a delay. */
const MIN_UPTIME_MS = 10_000;
/** The longest delay, in seconds; it starts at 1 s and doubles. */
const MAX_DELAY_S = 30;
/** How long a worker may take to send its metrics, in milliseconds: those of the others must reach Prometheus in time. */
const FIGURES_MS = 700;
/** How long workers may take to check that they can serve, in milliseconds: longer than the longest deadline. */
const READINESS_MS = 65_000;

/** A terminal sends these to the whole process group, and they end a worker that does not ignore them yet. */
const STOP_SIGNALS: readonly unknown[] = ['SIGINT', 'SIGTERM'];

/** The place of one of the configured workers, whose process changes. */
type WorkerSlot = {
  readonly number: number;
  /** During a replacement, this is the old process until the new one serves. */
  current?: WorkerProcess;
  /** How many processes in a row ended here soon after their start. */
  quickEnds: number;
};

/** Runs the workers until the last one has ended. */
export class Primary {
  readonly #config: Config;
  readonly #log: Log;
  readonly #slots: readonly WorkerSlot[];
  /** Every process that has not ended, including replaced ones. */
  readonly #live = new Set<WorkerProcess>();
  readonly #lastEnded = Promise.withResolvers<void>();
  readonly #takeToken = createBuckets();
  readonly #metrics = createGroupMetrics(() => this.#askEach('readFigures', FIGURES_MS));
  /** The server of an embedded store. */
  #database: EmbeddedServer | undefined;
  /** `starting` until all workers serve for the first time. */
  #state: 'starting' | 'serving' | 'replacing' | 'stopping' = 'starting';
  /** Whether to replace the workers after the start or the current replacement: those started by then may have read older files. */
  #isReplacementDue = false;
  #exitCode = 0;

  constructor(config: Config) {
    this.#config = config;
    this.#log = openLog(config, []);
    this.#slots = Array.from({ length: config.workers }, (_, n) => ({ number: n + 1, quickEnds: 0 }));
  }

  /** Checks the ports, and starts the server of an embedded store. Throws OperatorError if that is not possible. */
  async open(): Promise<void> {
    await checkPorts(this.#config);
    await refuseNewDemo(this.#config);
    this.#database = await openServer(this.#config, FILES, this.#log);
  }

  /**
   * Opens METRICS_PORT if it is set, and runs the workers. Resolves with the exit code when the last one has ended. Throws
   * OperatorError if the port cannot be opened.
   */
  async run(): Promise<number> {
    const operational = await this.#openOperational();
    await this.#startWorkers(operational && toOrigin(operational));
    await this.#lastEnded.promise;
    await close(operational);
    await this.#database?.close();
    return this.#exitCode;
  }

  /** Stops every worker after its current requests. For `noticeMs` milliseconds before that, it serves and is reported as not ready. */
  stop(noticeMs = 0): void {
    if (this.#isStopping()) return;
    this.#state = 'stopping';
    for (const worker of this.#live) void worker.stop({ noticeMs });
    if (this.#live.size === 0) this.#lastEnded.resolve();
  }

  kill(): void {
    this.#state = 'stopping';
    for (const worker of this.#live) worker.kill();
  }

  /**
   * Replaces the workers one after the other, each when the new one serves: no request is lost. New workers run the code and the
   * document that are on the disk now. If one cannot serve, the old ones stay. Waits for the end of the start or of a replacement.
   */
  async replaceWorkers(): Promise<void> {
    this.#isReplacementDue = true;
    if (this.#state !== 'serving') return;
    this.#state = 'replacing';
    while (this.#isReplacementDue) {
      this.#isReplacementDue = false;
      this.#log.info('Replacing the workers one after the other');
      const areReplaced = await this.#replaceEach();
      if (this.#isStopping()) return;
      if (areReplaced) this.#log.info('The workers are replaced');
      else this.#log.error('A new worker did not serve: the other workers stay as they are');
    }
    this.#state = 'serving';
  }

  async #replaceEach(): Promise<boolean> {
    for (const slot of this.#slots) {
      if (this.#isStopping()) return false;
      const next = this.#launch(slot);
      if (!(await next.served)) return false;
      const old = slot.current;
      slot.current = next;
      await old?.stop({ noticeMs: this.#config.drainMs, isReplaced: true });
    }
    return true;
  }

  /** Starts the first worker, and the others when it serves: a startup error is reported only once. */
  async #startWorkers(metricsOrigin: string | undefined): Promise<void> {
    for (const slots of [this.#slots.slice(0, 1), this.#slots.slice(1)]) {
      if (this.#isStopping()) return;
      for (const slot of slots) slot.current = this.#launch(slot);
      await Promise.all(slots.map(({ current }) => current?.served));
    }
    if (this.#isStopping()) return;
    this.#state = 'serving';
    const welcome = { workers: this.#config.workers, metricsOrigin };
    this.#slots[0]?.current?.channel.tell({ kind: 'welcome', welcome });
    if (this.#isReplacementDue) void this.replaceWorkers();
  }

  #launch(slot: WorkerSlot): WorkerProcess {
    const worker = new WorkerProcess(slot.number, this.#config, {
      // A temporary folder has a new name each time.
      env: this.#database ? { DATA_DIR: this.#database.dataDir } : {},
      answer: (message) => this.#answer(message),
      onHung: (text) => this.#log.error(text),
    });
    this.#live.add(worker);
    void worker.served.then((isServing) => {
      if (isServing && this.#hasStarted()) this.#log.info(`${worker.name} is serving`);
    });
    void worker.ended.then((end) => this.#onEnd(slot, worker, end));
    return worker;
  }

  #answer(message: ToPrimary): unknown {
    if (message.kind === 'take') return this.#takeToken(...message.args);
    if (message.kind === 'readMetrics') return this.#metrics.read();
    this.#exitCode = 1;
    return this.stop();
  }

  #onEnd(slot: WorkerSlot, worker: WorkerProcess, { code, reason }: End): void {
    this.#live.delete(worker);
    const text = `${worker.name} ended with ${reason ?? `exit code ${code}`}`;
    if (this.#hasStarted()) {
      // Otherwise the slot has another process already, or never had this one.
      if (slot.current === worker) void this.#refill(slot, worker, text);
      return;
    }
    if (!STOP_SIGNALS.includes(reason) && (code !== 0 || reason)) {
      this.#exitCode = 1;
      // A worker that exits by itself has logged why.
      if (reason) console.error(text);
    }
    this.stop();
    if (this.#live.size === 0) this.#lastEnded.resolve();
  }

  async #refill(slot: WorkerSlot, ended: WorkerProcess, text: string): Promise<void> {
    slot.quickEnds = ended.uptimeMs() < MIN_UPTIME_MS ? slot.quickEnds + 1 : 0;
    const seconds = slot.quickEnds === 0 ? 0 : Math.min(2 ** (slot.quickEnds - 1), MAX_DELAY_S);
    this.#log.error(`${text}: starting a new one${seconds === 0 ? '' : ` in ${seconds} s`}`);
    await delay(seconds * 1_000);
    if (this.#hasStarted() && slot.current === ended) slot.current = this.#launch(slot);
  }

  #isStopping(): boolean {
    return this.#state === 'stopping';
  }

  /** Whether a worker that ends is replaced. During the start its end is a failure, and during a stop it is intended. */
  #hasStarted(): boolean {
    return this.#state === 'serving' || this.#state === 'replacing';
  }

  async #openOperational(): Promise<GatewayServer | undefined> {
    if (this.#config.metricsPort === undefined) return undefined;
    const health = serveHealth({ read: () => this.#readReadiness() });
    const metrics = serveMetrics(this.#metrics);
    return openOperationalServer(this.#config, { ...health, ...metrics }, this.#log);
  }

  /** The report of the first worker that answers. */
  #readReadiness(): Promise<ReadinessReport> {
    if (this.#isStopping()) return Promise.resolve({ status: 'stopping' });
    const reports = this.#askEach<ReadinessReport>('readReadiness', READINESS_MS);
    return Promise.any(reports).catch(() => ({ status: 'not ready' }));
  }

  /** Asks the worker of each slot. Rejects for a worker that does not serve. */
  #askEach<Answer>(kind: 'readFigures' | 'readReadiness', ms: number): Promise<Answer>[] {
    return this.#slots.map(async ({ current }) => {
      if (!current?.isServing) throw new Error('the worker does not serve');
      return current.channel.ask<Answer>({ kind }, ms);
    });
  }
}
