// One of several processes that serve, as the primary process tells it to.

import cluster from 'node:cluster';
import type { Config } from '../config.ts';
import { type Count, type Counter, type CounterOptions, createCounter } from '../http/counters.ts';
import { openService, type Service } from '../service.ts';
import { type Channel, openChannel } from './channel.ts';
import { divide, type Place, readPlace, type ToPrimary, type ToWorker, toShare } from './protocol.ts';

/** How long a count may take that the primary process makes, in milliseconds. */
const COUNT_MS = 120;
/** How much longer than the primary process waits for the metrics of the workers, in milliseconds. */
const METRICS_MS = 2_000;

/**
 * Serves as one of several workers until the primary process tells it to stop, or is gone. Fails where the service
 * does; the primary process has been told then.
 */
export async function work(config: Config, args: readonly string[]): Promise<void> {
  const place = readPlace(args);
  let service: Service | undefined;
  let stopping: Promise<void> | undefined;
  // Until it serves there is nothing to finish.
  const stop = () => {
    stopping ??= service ? service.close() : process.exit(0);
    return stopping;
  };
  const channel = openChannel<ToPrimary, ToWorker>(process as Parameters<typeof openChannel>[0], ({ kind }) => {
    if (kind === 'stop') return stop().then(leave);
    if (kind === 'welcome') return service?.welcome(place.of);
    return service?.readFigures();
  });
  stopWithPrimary(stop);
  service = await openService(toShare(config, place), {
    group: {
      isFirst: place.number === 1,
      readMetrics: () => channel.ask({ kind: 'readMetrics' }, config.deadlineMs + METRICS_MS),
      createCounter: createCounters(channel, place),
    },
  });
  channel.tell({ kind: 'serving' });
  try {
    await service.follow();
  } catch (error) {
    await channel.ask({ kind: 'failed' }, COUNT_MS).catch(() => {});
    await stop();
    throw error;
  }
}

/**
 * Leaves SIGINT and SIGTERM to the primary process: a terminal and a service manager send them to every process of the
 * group, and then each would be told to stop twice. Without the primary process there is nobody else to end this one.
 */
function stopWithPrimary(stop: () => Promise<void>): void {
  const ignore = () => {};
  process.on('SIGINT', ignore).on('SIGTERM', ignore);
  cluster.worker?.once('disconnect', () => {
    expectDisconnect();
    process.off('SIGINT', ignore).off('SIGTERM', ignore);
    void stop();
  });
}

/** The channel is all that keeps a process alive that serves no more. */
function leave(): void {
  expectDisconnect();
  if (process.connected) process.disconnect();
}

/** Node ends a worker at once that loses its channel, and with it the requests under way, unless this says no. */
function expectDisconnect(): void {
  if (cluster.worker) cluster.worker.exitedAfterDisconnect = true;
}

/**
 * Counters in the primary process. Where that does not answer soon a worker counts by itself, up to its part of the
 * limit: all of them together let no more through than is configured.
 */
function createCounters(channel: Channel<ToPrimary>, place: Place) {
  return ({ redis, ...counter }: CounterOptions): Counter => {
    if (redis) return createCounter({ ...counter, redis });
    const own = createCounter({ ...counter, limit: Math.max(1, divide(counter.limit, place)), redis });
    return (name) => channel.ask<Count>({ kind: 'count', counter, name }, COUNT_MS).catch(() => own(name));
  };
}
