// The metrics of several workers as those of one gateway. Loaded where they are asked for.

import { AggregatorRegistry } from 'prom-client';
import type { Figures } from '../telemetry/metrics.ts';

/** The metrics of all workers. */
export type GroupMetrics = {
  /** Reads all of it, as Prometheus does, from the workers by their ids. */
  read(workers: ReadonlyMap<number, () => Promise<Figures>>): Promise<string>;
  /** Keeps what a worker has counted that has ended. */
  end(worker: number): void;
};

/**
 * What is not the sum of the workers, and not what prom-client takes for it: the slowest event loop must not hide in an
 * average, the gateway is ready when all of them are, and a worker that starts anew is a start.
 */
const AGGREGATORS: Readonly<Record<string, 'min' | 'max'>> = {
  gateway_ready: 'min',
  process_start_time_seconds: 'max',
  nodejs_eventloop_lag_seconds: 'max',
  nodejs_eventloop_lag_mean_seconds: 'max',
  nodejs_eventloop_lag_stddev_seconds: 'max',
  nodejs_eventloop_lag_p50_seconds: 'max',
  nodejs_eventloop_lag_p90_seconds: 'max',
  nodejs_eventloop_lag_p99_seconds: 'max',
};

/** What counts up must not fall where a worker is missing: Prometheus would take the rest of it for new. */
const COUNTING: readonly unknown[] = ['counter', 'histogram'];

/** Starts with no workers. */
export function createGroupMetrics(): GroupMetrics {
  const last = new Map<number, Figures>();
  let ended: Figures = [];
  return {
    read: async (workers) => {
      const silent = new Set<number>();
      const read = async ([id, ask]: [number, () => Promise<Figures>]) => {
        try {
          last.set(id, await ask());
        } catch {
          silent.add(id);
        }
      };
      await Promise.all([...workers].map(read));
      const figures = [...last].map(([id, all]) =>
        silent.has(id) ? [...toLasting(all), toGauge('gateway_ready', 0)] : all,
      );
      return add([...figures, ended, readOwn()]).metrics();
    },
    end: (worker) => {
      // A copy with a method that gives it: what a registry is made of is what it can be made of again.
      ended = add([ended, toLasting(last.get(worker) ?? [])]).getMetricsAsArray() as unknown as Figures;
      last.delete(worker);
    },
  };
}

function add(figures: readonly Figures[]) {
  return AggregatorRegistry.aggregate(
    figures.map((all) =>
      all.map((metric) => ({ ...metric, aggregator: AGGREGATORS[metric.name] ?? metric.aggregator })),
    ),
  );
}

function toLasting(figures: Figures): Figures {
  return figures.filter(({ type }) => COUNTING.includes(type));
}

function toGauge(name: string, value: number): Figures[number] {
  const gauge = { name, help: name, type: 'gauge', aggregator: 'sum', values: [{ value, labels: {} }] };
  // prom-client's types ask for what JSON does not have.
  return gauge as unknown as Figures[number];
}

/** What this process takes beside the workers. */
function readOwn(): Figures {
  const { user, system } = process.cpuUsage();
  return [
    toGauge('process_resident_memory_bytes', process.memoryUsage.rss()),
    toGauge('process_cpu_user_seconds_total', user / 1e6),
    toGauge('process_cpu_system_seconds_total', system / 1e6),
    toGauge('process_cpu_seconds_total', (user + system) / 1e6),
  ];
}
