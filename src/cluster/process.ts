// A worker, as the primary process sees it.

import cluster, { type Worker } from 'node:cluster';
import type { EventEmitter } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import type { Config } from '../config.ts';
import { DeadlineError, within } from '../deadline.ts';
import type { Ending } from '../service.ts';
import { type Channel, openChannel } from './channel.ts';
import { type ToPrimary, type ToWorker, toArgument } from './protocol.ts';

/** How long a new worker may take until it serves, in milliseconds, beyond its three store calls. */
const START_MS = 60_000;
/** How often a worker is pinged, and how long it may take to answer, in milliseconds. */
const PING_EVERY_MS = 1_000;
const PING_MS = 10_000;
/** How long a worker may take to stop after the notice, in milliseconds: longer than closing its two ports takes. */
const STOP_MS = 22_000;

type Options = {
  readonly env: Readonly<Record<string, string>>;
  readonly answer: (message: Exclude<ToPrimary, { kind: 'serving' }>) => unknown;
  /** Receives a line about a worker that had to be killed. */
  readonly onHung: (text: string) => void;
};

/** How a worker has ended: the exit code, or the signal or error. */
export type End = { readonly code: number | null; readonly reason?: string | null };

/** A worker's process. It is killed if it no longer answers. */
export class WorkerProcess {
  readonly name: string;
  readonly channel: Channel<ToWorker>;
  /** Resolves with true when the worker serves, or with false if it ends before, or is killed because that takes too long. */
  readonly served: Promise<boolean>;
  readonly ended: Promise<End>;
  isServing = false;
  readonly #worker: Worker;
  readonly #onHung: (text: string) => void;
  readonly #startMs: number;
  readonly #begunAt = performance.now();

  constructor(number: number, { workers, deadlineMs }: Config, { env, answer, onHung }: Options) {
    cluster.setupPrimary({ args: [toArgument({ number, of: workers })] });
    const worker = cluster.fork(env);
    const served = Promise.withResolvers<boolean>();
    const ended = Promise.withResolvers<End>();
    const { pid } = worker.process;
    this.name = `Worker ${number}${pid === undefined ? '' : ` (process ${pid})`}`;
    this.channel = openChannel<ToWorker, ToPrimary>(worker, (message) => {
      if (message.kind !== 'serving') return answer(message);
      this.isServing = true;
      return served.resolve(true);
    });
    this.served = served.promise;
    this.ended = ended.promise;
    this.#worker = worker;
    this.#onHung = onHung;
    this.#startMs = START_MS + 3 * deadlineMs;
    worker.once('exit', (code, reason) => ended.resolve({ code, reason }));
    // A worker that could not be spawned emits no exit event. Other errors, such as a failed send, are followed by one.
    worker.on('error', ({ message }) => {
      if (worker.process.pid === undefined) ended.resolve({ code: null, reason: message });
    });
    returnUnaccepted(worker);
    void this.ended.then(() => served.resolve(false));
    void this.#watch();
  }

  /** How long it has run, in milliseconds. */
  uptimeMs(): number {
    return performance.now() - this.#begunAt;
  }

  /** Stops it after its current requests, and kills it if that takes too long. Resolves when it has ended. */
  stop(ending: Ending): Promise<End> {
    this.channel.tell({ kind: 'stop', ending });
    setTimeout(() => this.kill(), (ending.noticeMs ?? 0) + STOP_MS).unref();
    return this.ended;
  }

  kill(): void {
    this.#worker.process.kill('SIGKILL');
  }

  /**
   * Kills a worker that does not serve in time: the start or a replacement would wait for it for ever. Also kills a worker that no longer
   * answers, such as a stopped one or one in an endless loop: its clients would get no answer, and a load balancer would keep sending
   * requests, because the other workers answer /readyz.
   */
  async #watch(): Promise<void> {
    const serves = within(this.#startMs, () => this.served).catch(() => {
      this.#killHung(`served after ${this.#startMs / 1_000} s`);
      return false;
    });
    if (!(await serves)) return;
    try {
      for (;;) {
        await this.channel.ask({ kind: 'ping' }, PING_MS);
        await delay(PING_EVERY_MS);
      }
    } catch (error) {
      // Any other error means that it has ended.
      if (error instanceof DeadlineError) this.#killHung(`answered for ${PING_MS / 1_000} s`);
    }
  }

  #killHung(what: string): void {
    this.kill();
    this.#onHung(`${this.name} has not ${what} and is killed`);
  }
}

/** Node's message that passes a connection to a worker, and the undocumented state of a worker. */
type Handover = { readonly act?: string; readonly seq?: number };
type Listening = Worker & { readonly state?: string };

/**
 * When a worker ends, gives the connection that it has not accepted to another worker, or closes it if there is none. Otherwise Node and
 * the client would wait for ever, and Node would not even emit `disconnect`. The worker has read nothing of the request.
 */
function returnUnaccepted(worker: Worker): void {
  const { process } = worker;
  // A worker that could not be spawned has no channel.
  if (!process.connected) return;
  const send = process.send.bind(process) as (message: Handover, ...rest: unknown[]) => boolean;
  // A worker gets the next connection when it has accepted the one before.
  let last: Handover | undefined;
  process.send = (message: Handover, ...rest: unknown[]) => {
    if (message.act === 'newconn') last = message;
    return send(message, ...rest);
  };
  // When `close` is emitted, the worker's last replies have been read. Node ignores a second reply.
  process.once('close', () => {
    process.emit('disconnect');
    const accepted = !Object.values(cluster.workers ?? {}).some((one) => (one as Listening).state === 'listening');
    (process as EventEmitter).emit('internalMessage', { cmd: 'NODE_CLUSTER', ack: last?.seq, accepted });
  });
}
