import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';
import type { Connections } from '../store/store.ts';
import type { EndedRequest } from './record.ts';

/** The store's running and waiting calls, and its connections. */
export type StoreLoad = Connections & { readonly running: number; readonly waiting: number };

/** The open and refused client sockets, and the bytes of answers that clients have not read. */
export type SocketLoad = { readonly open: number; readonly refused: number; readonly unread: number };

/** Sources that are read when the metrics are read. */
export type MetricSources = {
  readonly readLoad: () => StoreLoad;
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
  /** Counts a request. */
  request(request: EndedRequest): void;
  /** Counts a call of the store: the function, the result (`ok` or the kind of failure) and the duration. */
  call(name: string, result: string, ms: number): void;
  /** All metrics in Prometheus's text format 0.0.4. */
  read(): Promise<string>;
  readFigures(): Promise<Figures>;
  /** Adds the gauges, whose sources are there once the gateway is. */
  observe(sources: MetricSources): void;
  readonly contentType: string;
};

/** Buckets in seconds; the default deadline of a call is 5 s. */
const DURATIONS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];
/** Buckets in bytes, from an empty list to a page of 1,000 records. */
const SIZES = [250, 1_000, 4_000, 16_000, 64_000, 256_000, 1_000_000];

/** The largest body that can be configured, in bytes. */
const MAX_SIZE = 10_000_000;

/** Creates the metrics of requests (named by OpenTelemetry's conventions), the store, Node and the process. */
export function createMetrics(): Metrics {
  const registry = new Registry();
  const registers = [registry];
  collectDefaultMetrics({ register: registry });
  const labelNames = ['operation', 'status'] as const;
  const durations = new Histogram({
    name: 'http_server_request_duration_seconds',
    help: 'Duration of a request until its answer was sent, by operation and status',
    labelNames,
    buckets: DURATIONS,
    registers,
  });
  const requestSizes = new Histogram({
    name: 'http_server_request_body_size_bytes',
    help: 'Content-Length of a request, by operation and status',
    labelNames,
    buckets: SIZES,
    registers,
  });
  const responseSizes = new Histogram({
    name: 'http_server_response_size_bytes',
    help: 'Bytes of an answer on the socket, headers included, by operation and status',
    labelNames,
    buckets: SIZES,
    registers,
  });
  const calls = new Histogram({
    name: 'gateway_store_call_duration_seconds',
    help: 'Duration of a store call, queue included, by function and result (ok or the kind of failure)',
    labelNames: ['function', 'result'] as const,
    buckets: DURATIONS,
    registers,
  });
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
    observe: ({ readLoad, readSockets, isReady, isCountingShared, isExporting }) => {
      addLoadGauges(registry, readLoad);
      addServerMetrics(registry, readLoad);
      addSocketMetrics(registry, readSockets);
      addFlag(registry, 'gateway_ready', 'Whether /readyz answers 200', isReady);
      if (isCountingShared) {
        addFlag(registry, 'gateway_rate_limits_shared', 'Whether requests are counted in Redis', isCountingShared);
      }
      if (isExporting) {
        addFlag(registry, 'gateway_traces_exported', 'Whether the collector takes the spans of traces', isExporting);
      }
    },
    contentType: registry.contentType,
  };
}

/** Adds a gauge that is 1 or 0. */
function addFlag(registry: Registry, name: string, help: string, read: () => boolean | Promise<boolean>): void {
  new Gauge({
    name,
    help,
    registers: [registry],
    async collect() {
      this.set((await read()) ? 1 : 0);
    },
  });
}

function addLoadGauges(registry: Registry, readLoad: () => StoreLoad): void {
  const registers = [registry];
  new Gauge({
    name: 'gateway_store_calls',
    help: 'Calls in the store (running) and in its queue (waiting)',
    labelNames: ['state'] as const,
    registers,
    collect() {
      const { running, waiting } = readLoad();
      this.set({ state: 'running' }, running);
      this.set({ state: 'waiting' }, waiting);
    },
  });
  new Gauge({
    name: 'gateway_store_connections',
    help: 'Connections to the store in use (used) and open for the next call (idle)',
    labelNames: ['state'] as const,
    registers,
    collect() {
      const { open, idle } = readLoad();
      this.set({ state: 'used' }, open - idle);
      this.set({ state: 'idle' }, idle);
    },
  });
  new Counter({
    name: 'gateway_store_connections_stalled_total',
    help: 'Connections to the store that were closed because a step took too long, by step',
    labelNames: ['step'] as const,
    registers,
    collect() {
      this.reset();
      for (const [step, count] of Object.entries(readLoad().stalled ?? {})) this.inc({ step }, count);
    },
  });
}

/** Adds the metrics of a database with several servers; they have no values for another one. */
function addServerMetrics(registry: Registry, readLoad: () => StoreLoad): void {
  const registers = [registry];
  new Gauge({
    name: 'gateway_store_server_role',
    help: '1 for the role of each database server: primary, standby, away or refused',
    labelNames: ['server', 'role'] as const,
    registers,
    collect() {
      this.reset();
      for (const { host, role } of readLoad().servers ?? []) this.set({ server: host, role }, 1);
    },
  });
  new Gauge({
    name: 'gateway_store_server_lag_seconds',
    help: 'How far a standby is behind the primary',
    labelNames: ['server'] as const,
    registers,
    collect() {
      this.reset();
      for (const { host, lagMs } of readLoad().servers ?? []) {
        if (lagMs !== undefined) this.set({ server: host }, lagMs / 1_000);
      }
    },
  });
  new Counter({
    name: 'gateway_store_server_calls_total',
    help: 'Calls by database server; a read that is asked again of the primary counts for both',
    labelNames: ['server'] as const,
    registers,
    collect() {
      this.reset();
      for (const { host, calls } of readLoad().servers ?? []) this.inc({ server: host }, calls);
    },
  });
  new Counter({
    name: 'gateway_store_failovers_total',
    help: 'How often another database server has become the primary',
    registers,
    collect() {
      this.reset();
      this.inc(readLoad().failovers ?? 0);
    },
  });
}

function addSocketMetrics(registry: Registry, readSockets: () => SocketLoad): void {
  const registers = [registry];
  new Gauge({
    name: 'gateway_client_sockets',
    help: 'Open sockets of clients',
    registers,
    collect() {
      this.set(readSockets().open);
    },
  });
  new Counter({
    name: 'gateway_client_sockets_refused_total',
    help: 'Sockets closed at once because of MAX_SOCKETS',
    registers,
    collect() {
      this.reset();
      this.inc(readSockets().refused);
    },
  });
  new Gauge({
    name: 'gateway_unread_bytes',
    help: 'Bytes of answers that clients have not read yet',
    registers,
    collect() {
      this.set(readSockets().unread);
    },
  });
}
