// A worker process, which the primary process controls.

import cluster from 'node:cluster';
import type { Config } from '../config.ts';
import { type BucketSize, createBuckets, type Taken, type TakeToken } from '../limits/buckets.ts';
import { type Ending, openService, type Service } from '../service.ts';
import { type Channel, openChannel } from './channel.ts';
import { divide, readNumber, type ToPrimary, type ToWorker, toShare, type WorkerNumber } from './protocol.ts';

/** How long to wait for the primary process to count a request or note a failure, in milliseconds. */
const PRIMARY_MS = 120;
/** How long to wait for the combined metrics, in milliseconds: longer than the primary process waits for the workers. */
const METRICS_MS = 2_000;

/**
 * Serves as one of several workers until the primary process stops it or disappears. Rejects if the service fails. After the
 * start, it tells the primary process first.
 */
export async function work(config: Config, args: readonly string[]): Promise<void> {
  const worker = readNumber(args);
  let service: Service | undefined;
  let stopping: Promise<void> | undefined;
  // Before the service is open there is nothing to finish.
  const stop = (ending?: Ending) => {
    stopping ??= service ? service.close(ending) : process.exit(0);
    return stopping;
  };
  const channel = openChannel<ToPrimary, ToWorker>(process as Parameters<typeof openChannel>[0], (message) => {
    if (message.kind === 'stop') return stop(message.ending).then(leave);
    if (message.kind === 'welcome') return service?.welcome(message.welcome);
    if (message.kind === 'ping') return true;
    if (message.kind === 'readReadiness') return service?.readReadiness();
    return service?.readFigures();
  });
  leaveSignalsToPrimary(stop);
  service = await openService(toShare(config, worker), {
    group: {
      worker: worker.number,
      readMetrics: () => channel.ask({ kind: 'readMetrics' }, METRICS_MS),
      takeToken: createSharedBuckets(channel, worker),
    },
  });
  channel.tell({ kind: 'serving' });
  try {
    await service.follow();
  } catch (error) {
    await channel.ask({ kind: 'failed' }, PRIMARY_MS).catch(() => {});
    await stop();
    throw error;
  }
}

/**
 * Ignores SIGINT, SIGTERM and SIGHUP: a terminal or a service manager sends them to the whole process group, and the
 * primary process tells its workers what to do. A worker that loses the primary process stops itself, and ignores only SIGHUP.
 */
function leaveSignalsToPrimary(stop: () => Promise<void>): void {
  const ignore = () => {};
  process.on('SIGINT', ignore).on('SIGTERM', ignore).on('SIGHUP', ignore);
  cluster.worker?.once('disconnect', () => {
    expectDisconnect();
    process.off('SIGINT', ignore).off('SIGTERM', ignore);
    void stop();
  });
}

/** Closes the channel, and ends: a DNS lookup, which cannot be cancelled, would hold the process. */
function leave(): void {
  expectDisconnect();
  process.once('disconnect', () => process.exit());
  if (process.connected) process.disconnect();
}

/** Without this flag Node exits a worker that loses its channel, and drops its current requests. */
function expectDisconnect(): void {
  if (cluster.worker) cluster.worker.exitedAfterDisconnect = true;
}

/**
 * Takes tokens from the primary process's buckets. If it does not answer in time, the worker takes them from a bucket of its own, with
 * its share of the tokens, and at least one.
 */
function createSharedBuckets(channel: Channel<ToPrimary>, worker: WorkerNumber): TakeToken {
  const takeOwn = createBuckets();
  const shareOf = ({ perMinute, burst }: BucketSize) => ({
    perMinute: perMinute / worker.of,
    burst: Math.max(1, divide(burst, worker)),
  });
  return (name, size, tokens = 1) =>
    channel
      .ask<Taken>({ kind: 'take', args: [name, size, tokens] }, PRIMARY_MS)
      .catch(() => takeOwn(name, shareOf(size), tokens));
}
