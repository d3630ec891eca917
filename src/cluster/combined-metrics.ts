// Combines the metrics of all workers. Loaded at the first request for metrics.

import { AggregatorRegistry, Registry } from 'prom-client';
import type { Figures } from '../telemetry/metrics.ts';

/** The metrics of all workers. */
export type GroupMetrics = {
  /** The media type of what `read` gives. */
  readonly contentType: string;
  /** Reads the metrics of the given workers, by worker id, and combines them in Prometheus's text format. */
  read(workers: ReadonlyMap<number, () => Promise<Figures>>): Promise<string>;
  /** Keeps the counters of a worker that has ended. */
  end(worker: number): void;
};

/**
 * Overrides prom-client's aggregation. An average would hide the slowest event loop. A flag holds for the gateway when it
 * holds for all workers. A restarted worker counts as a start, and all workers see one
 * failover.
 */
const AGGREGATORS: Readonly<Record<string, 'min' | 'max'>> = {
  gateway_ready: 'min',
  gateway_rate_limits_shared: 'min',
  gateway_traces_exported: 'min',
  gateway_store_server_role: 'max',
  gateway_store_failovers_total: 'max',
  process_start_time_seconds: 'max',
  nodejs_eventloop_lag_seconds: 'max',
  nodejs_eventloop_lag_mean_seconds: 'max',
  nodejs_eventloop_lag_stddev_seconds: 'max',
  nodejs_eventloop_lag_p50_seconds: 'max',
  nodejs_eventloop_lag_p90_seconds: 'max',
  nodejs_eventloop_lag_p99_seconds: 'max',
};

/** These must not decrease when a worker is missing: Prometheus would treat that as a counter reset. */
const CUMULATIVE: readonly unknown[] = ['counter', 'histogram'];

/** Creates the combined metrics, with no workers yet. */
export function createGroupMetrics(): GroupMetrics {
  const last = new Map<number, Figures>();
  let ended: Figures = [];
  return {
    contentType: Registry.PROMETHEUS_CONTENT_TYPE,
    read: async (workers) => {
      const unresponsive = new Set<number>();
      const read = async ([id, ask]: [number, () => Promise<Figures>]) => {
        try {
          last.set(id, await ask());
        } catch {
          unresponsive.add(id);
          // One that has never answered is not ready either.
          if (!last.has(id)) last.set(id, []);
        }
      };
      await Promise.all([...workers].map(read));
      const figures = [...last].map(([id, all]) =>
        unresponsive.has(id) ? [...keepCumulative(all), toGauge('gateway_ready', 0)] : all,
      );
      return add([...figures, ended, readOwn()]).metrics();
    },
    end: (worker) => {
      // The registry's metrics hold the same data as Figures, with an additional `get` method.
      ended = add([ended, keepCumulative(last.get(worker) ?? [])]).getMetricsAsArray() as unknown as Figures;
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

function keepCumulative(figures: Figures): Figures {
  return figures.filter(({ type }) => CUMULATIVE.includes(type));
}

function toGauge(name: string, value: number): Figures[number] {
  const gauge = { name, help: name, type: 'gauge', aggregator: 'sum', values: [{ value, labels: {} }] };
  // prom-client's types require fields that its JSON does not have.
  return gauge as unknown as Figures[number];
}

/** The memory and CPU use of the primary process itself. */
function readOwn(): Figures {
  const { user, system } = process.cpuUsage();
  return [
    toGauge('process_resident_memory_bytes', process.memoryUsage.rss()),
    toGauge('process_cpu_user_seconds_total', user / 1e6),
    toGauge('process_cpu_system_seconds_total', system / 1e6),
    toGauge('process_cpu_seconds_total', (user + system) / 1e6),
  ];
}
