// The metrics for Prometheus.

import { AggregatorRegistry, Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';
import type { Connections } from '../store/store.ts';
import type { Load } from '../store/turns.ts';
import type { EndedRequest } from './record.ts';

/** The open and refused client sockets, and the bytes of answers that clients have not read. */
type SocketLoad = { readonly open: number; readonly refused: number; readonly unread: number };

/** Sources that are read when the metrics are read. */
export type MetricSources = {
  readonly readLoad: () => Load & Connections;
  readonly readSockets: () => SocketLoad;
  readonly isReady: () => Promise<boolean>;
  /** Whether requests are counted in Redis; undefined without Redis. */
  readonly isCountingShared?: (() => boolean) | undefined;
  /** Whether the collector takes the spans; undefined without a collector. */
  readonly isExporting?: (() => boolean) | undefined;
};

/** Metrics as data, which the primary process can combine. */
export type Figures = Awaited<ReturnType<Registry['getMetricsAsJSON']>>;

/** The metrics of the process. */
export type Metrics = {
  request(request: EndedRequest): void;
  /** Counts a call of the store: the function, the result (`ok` or the kind of failure) and the duration. */
  call(name: string, result: string, ms: number): void;
  /** All metrics in Prometheus's text format 0.0.4. */
  read(): Promise<string>;
  readFigures(): Promise<Figures>;
  /** Adds the metrics whose sources exist only once the gateway is open. */
  observe(sources: MetricSources): void;
  readonly contentType: string;
};

/** Buckets in seconds; the default deadline of a call is 5 s. */
const DURATIONS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];
/** Buckets in bytes, from an empty list to a page of 1,000 records. */
const SIZES = [250, 1_000, 4_000, 16_000, 64_000, 256_000, 1_000_000];

/** The largest body that can be configured, in bytes. */
const MAX_SIZE = 10_000_000;

/**
 * Creates the metrics of requests (named by OpenTelemetry's conventions), the store, Node and the process. The label `worker`
 * tells the series of several processes apart.
 */
export function createMetrics(worker?: number | 'primary'): Metrics {
  const registry = new Registry();
  if (worker !== undefined) registry.setDefaultLabels({ worker });
  collectDefaultMetrics({ register: registry });
  const histogram = (name: string, help: string, labelNames: string[], buckets: number[]) =>
    new Histogram({ name, help, labelNames, buckets, registers: [registry] });
  const ofRequests = (name: string, what: string, buckets: number[]) =>
    histogram(name, `${what}, by operation and status`, ['operation', 'status'], buckets);
  const durations = ofRequests('http_server_request_duration_seconds', 'Duration until the answer was sent', DURATIONS);
  const requestSizes = ofRequests('http_server_request_body_size_bytes', 'Content-Length of a request', SIZES);
  const responseSizes = ofRequests('http_server_response_size_bytes', 'Bytes of an answer, headers included', SIZES);
  const calls = histogram(
    'gateway_store_call_duration_seconds',
    'Duration of a store call, queue included, by function and result (ok or the kind of failure)',
    ['function', 'result'],
    DURATIONS,
  );
  return {
    request: ({ headers, endpoint, status, durationMs, responseBytes }) => {
      const labels = { operation: endpoint, status };
      durations.observe(labels, durationMs / 1_000);
      responseSizes.observe(labels, responseBytes);
      const length = Number(headers['content-length']);
      // A larger body is refused.
      if (length > 0 && length <= MAX_SIZE) requestSizes.observe(labels, length);
    },
    call: (name, result, ms) => calls.observe({ function: name, result }, ms / 1_000),
    read: () => registry.metrics(),
    readFigures: () => registry.getMetricsAsJSON(),
    observe: (sources) => observe(registry, sources),
    contentType: registry.contentType,
  };
}

type Sample = readonly [value: number, labels?: Readonly<Record<string, string>>];

/** Converts values by the text of a label to samples. */
const by = (label: string, values: Readonly<Record<string, number>>): Sample[] =>
  Object.entries(values).map(([text, value]) => [value, { [label]: text }]);

/** Adds the metrics that are read from their sources. The metrics of database servers have no values if there is one server. */
function observe(registry: Registry, sources: MetricSources): void {
  const { readLoad, readSockets, isReady, isCountingShared, isExporting } = sources;
  type Read = () => number | readonly Sample[] | Promise<number>;
  const add = (Kind: typeof Gauge | typeof Counter, name: string, help: string, labelNames: string[], read: Read) =>
    new Kind({
      ...{ name, help, labelNames, registers: [registry] },
      async collect() {
        const samples = await read();
        this.reset();
        for (const [value, labels = {}] of typeof samples === 'number' ? [[samples] as const] : samples) {
          if (this instanceof Gauge) this.set(labels, value);
          else this.inc(labels, value);
        }
      },
    });
  const gauge = add.bind(undefined, Gauge);
  const total = add.bind(undefined, Counter);
  const flag = (name: string, help: string, read: () => boolean | Promise<boolean>) =>
    gauge(name, help, [], async () => Number(await read()));
  const servers = () => readLoad().servers ?? [];

  gauge('gateway_store_calls', 'Calls in the store (running) and in its queue (waiting)', ['state'], () => {
    const { running, waiting } = readLoad();
    return by('state', { running, waiting });
  });
  const CONNECTIONS = 'Connections to the store in use (used) and open for the next call (idle)';
  gauge('gateway_store_connections', CONNECTIONS, ['state'], () => {
    const { open, idle } = readLoad();
    return by('state', { used: open - idle, idle });
  });
  const STALLED = 'Connections to the store that were closed because a step took too long, by step';
  total('gateway_store_connections_stalled_total', STALLED, ['step'], () => by('step', readLoad().stalled ?? {}));
  const ROLE = '1 for the role of each database server: primary, standby, away or refused';
  gauge('gateway_store_server_role', ROLE, ['server', 'role'], () =>
    servers().map(({ host, role }) => [1, { server: host, role }]),
  );
  total('gateway_store_server_calls_total', 'Calls by database server', ['server'], () =>
    servers().map(({ host, calls }) => [calls, { server: host }]),
  );
  const FAILOVERS = 'How often another database server has become the primary';
  total('gateway_store_failovers_total', FAILOVERS, [], () => readLoad().failovers ?? 0);
  gauge('gateway_client_sockets', 'Open sockets of clients', [], () => readSockets().open);
  const REFUSED_SOCKETS = 'Sockets closed at once because too many are open';
  total('gateway_client_sockets_refused_total', REFUSED_SOCKETS, [], () => readSockets().refused);
  gauge('gateway_unread_bytes', 'Bytes of answers that clients have not read yet', [], () => readSockets().unread);
  flag('gateway_ready', 'Whether /readyz answers 200', isReady);
  if (isCountingShared) flag('gateway_rate_limits_shared', 'Whether requests are counted in Redis', isCountingShared);
  if (isExporting) flag('gateway_traces_exported', 'Whether the collector takes the spans of traces', isExporting);
}

/**
 * Creates the metrics of all processes, which the label `worker` tells apart. `askEach` asks each worker for its figures. A
 * worker that does not answer is reported as not ready, without other series.
 */
export function createGroupMetrics(askEach: () => readonly Promise<Figures>[]): Pick<Metrics, 'contentType' | 'read'> {
  const own = createMetrics('primary');
  return {
    contentType: own.contentType,
    read: async () => {
      const asked = askEach().map((figures, n) => figures.catch(() => toNotReady(`${n + 1}`)));
      const all = await Promise.all([...asked, own.readFigures()]);
      // Each series belongs to one process, so nothing is added up.
      const toSums = (figures: Figures) => figures.map((metric) => ({ ...metric, aggregator: 'sum' as const }));
      return AggregatorRegistry.aggregate(all.map(toSums)).metrics();
    },
  };
}

function toNotReady(worker: string): Figures {
  const name = 'gateway_ready';
  // prom-client's types require fields that its JSON does not have.
  return [{ name, help: name, type: 'gauge', values: [{ value: 0, labels: { worker } }] }] as unknown as Figures;
}
