import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';
import type { Connections, Result, Store } from '../store/store.ts';
import type { RequestRecord } from './record.ts';

/** What the store is doing: calls that it works on, calls that wait for their turn, and its connections. */
export type StoreLoad = Connections & { readonly running: number; readonly waiting: number };

/** The sockets of clients, and the bytes of answers that wait in them. */
export type SocketLoad = { readonly open: number; readonly refused: number; readonly unread: number };

/** What the metrics ask for when they are read. */
export type MetricSources = {
  readonly readLoad: () => StoreLoad;
  readonly readSockets: () => SocketLoad;
  readonly isReady: () => Promise<boolean>;
};

/** Metrics as they can be sent to another process and added up there. */
export type Figures = Awaited<ReturnType<Registry['getMetricsAsJSON']>>;

/** The metrics of the process. */
export type Metrics = {
  /** Counts a request. */
  request(record: RequestRecord): void;
  /** A store whose calls are counted. */
  measured(store: Store): Store;
  /** All of it as Prometheus reads it (text format 0.0.4). */
  read(): Promise<string>;
  readFigures(): Promise<Figures>;
  readonly contentType: string;
};

/** Seconds; the deadline of a call is 5 s unless configured. */
const DURATIONS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];
/** Bytes, from an empty list to a page of 1,000 records. */
const SIZES = [250, 1_000, 4_000, 16_000, 64_000, 256_000, 1_000_000];

/** The largest body that can be configured, in bytes. */
const MAX_SIZE = 10_000_000;

/** Starts the metrics: requests under the names of OpenTelemetry's conventions, the store, Node and the process. */
export function createMetrics({ readLoad, readSockets, isReady }: MetricSources): Metrics {
  const registry = new Registry();
  const registers = [registry];
  collectDefaultMetrics({ register: registry });
  const labelNames = ['operation', 'status'] as const;
  const durations = new Histogram({
    name: 'http_server_request_duration_seconds',
    help: 'How long a request took until its answer was out, by operation and status',
    labelNames,
    buckets: DURATIONS,
    registers,
  });
  const requestSizes = new Histogram({
    name: 'http_server_request_body_size_bytes',
    help: 'The length of a body that a request announced, by operation and status',
    labelNames,
    buckets: SIZES,
    registers,
  });
  const responseSizes = new Histogram({
    name: 'http_server_response_size_bytes',
    help: 'What an answer took on the connection, its headers included, by operation and status',
    labelNames,
    buckets: SIZES,
    registers,
  });
  const calls = new Histogram({
    name: 'gateway_store_call_duration_seconds',
    help: 'How long a call of the store took, its queue included, by function and result: ok or the kind of failure',
    labelNames: ['function', 'result'] as const,
    buckets: DURATIONS,
    registers,
  });
  addLoadGauges(registry, readLoad);
  addSocketMetrics(registry, readSockets);
  new Gauge({
    name: 'gateway_ready',
    help: 'Whether /readyz is 200',
    registers,
    async collect() {
      this.set((await isReady()) ? 1 : 0);
    },
  });

  return {
    request: ({ req, route, status, durationMs, responseBytes }) => {
      const labels = { operation: route, status };
      durations.observe(labels, durationMs / 1_000);
      responseSizes.observe(labels, responseBytes);
      const length = Number(req.headers['content-length']);
      // One that announces more is refused.
      if (length > 0 && length <= MAX_SIZE) requestSizes.observe(labels, length);
    },
    measured: (store) => ({
      description: store.description,
      check: (signal) => store.check(signal),
      describe: (signal) => store.describe(signal),
      close: () => store.close(),
      call: (call, signal, origin) => {
        const begun = performance.now();
        return store.call(call, signal, origin).then((result) => {
          calls.observe({ function: call.function, result: toLabel(result) }, (performance.now() - begun) / 1_000);
          return result;
        });
      },
    }),
    read: () => registry.metrics(),
    readFigures: () => registry.getMetricsAsJSON(),
    contentType: registry.contentType,
  };
}

function addLoadGauges(registry: Registry, readLoad: () => StoreLoad): void {
  const registers = [registry];
  new Gauge({
    name: 'gateway_store_calls',
    help: 'Calls that the store works on (running) and that wait for their turn (waiting)',
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
    help: 'Connections to the store that are in use (used) and that are open for the next call (idle)',
    labelNames: ['state'] as const,
    registers,
    collect() {
      const { open, idle } = readLoad();
      this.set({ state: 'used' }, open - idle);
      this.set({ state: 'idle' }, idle);
    },
  });
}

function addSocketMetrics(registry: Registry, readSockets: () => SocketLoad): void {
  const registers = [registry];
  new Gauge({
    name: 'gateway_client_sockets',
    help: 'Sockets that clients have open',
    registers,
    collect() {
      this.set(readSockets().open);
    },
  });
  new Counter({
    name: 'gateway_client_sockets_refused_total',
    help: 'Sockets that were closed at once, since more than MAX_SOCKETS were open',
    registers,
    collect() {
      this.reset();
      this.inc(readSockets().refused);
    },
  });
  new Gauge({
    name: 'gateway_unread_bytes',
    help: 'Bytes of answers that wait in sockets until their clients read them',
    registers,
    collect() {
      this.set(readSockets().unread);
    },
  });
}

function toLabel(result: Result): string {
  return 'failure' in result ? result.failure.kind : 'ok';
}
