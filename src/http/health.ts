// The endpoints for operators: health, readiness and metrics. They need no key.

import { setTimeout as delay } from 'node:timers/promises';
import { DeadlineError, within } from '../deadline.ts';
import { type Fault, OperatorError, storeFault, toHttpError } from '../errors.ts';
import type { CompiledDocument } from '../openapi/compile.ts';
import { DriftError, describeDrift } from '../openapi/drift.ts';
import type { ServerReport, Store } from '../store/store.ts';
import type { Log } from '../telemetry/log.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import type { Endpoints } from './app.ts';
import { respond, sendText } from './respond.ts';

/** Serves /healthz (the process runs) and /readyz (it can serve requests). */
export function serveHealth(readiness: Pick<Readiness, 'read'>): Endpoints {
  return {
    '/healthz': (_req, res) => respond(res, { status: 200, json: '{"status":"ok"}' }),
    '/readyz': async (_req, res) => {
      const report = await readiness.read();
      respond(res, { status: report.status === 'ready' ? 200 : 503, json: JSON.stringify(report) });
    },
  };
}

/** Serves /metrics for Prometheus. */
export function serveMetrics(metrics: Pick<Metrics, 'read' | 'contentType'>): Endpoints {
  const headers = { 'Content-Type': metrics.contentType, 'Cache-Control': 'no-store', Vary: 'Accept-Encoding' };
  return {
    '/metrics': async (_req, res) => {
      try {
        sendText(res, { status: 200, headers, body: await metrics.read() });
      } catch (error) {
        // The primary process collects the metrics of all workers, and did not answer.
        if (!(error instanceof DeadlineError)) throw error;
        respond(res, { status: 503, json: '{"error":"No metrics in time"}' });
      }
    },
  };
}

type ReadinessOptions = {
  readonly store: Store;
  /** Reads the document that is served now. */
  readonly readDocument: () => CompiledDocument;
  readonly deadlineMs: number;
  /** Whether drift makes the gateway not ready. */
  readonly isDriftFatal: boolean;
  readonly log: Pick<Log, 'info' | 'warn' | 'fault'>;
};

/** Whether the gateway can serve, and the state of its dependencies; any state but `ok` is a problem. */
export type ReadinessReport = {
  readonly status: 'ready' | 'not ready' | 'stopping';
  readonly checks?: { readonly store: string; readonly contract: string };
  /** The servers of a database that has several. */
  readonly servers?: readonly Pick<ServerReport, 'host' | 'role'>[];
};

/** Whether the gateway can serve. */
export type Readiness = {
  /**
   * Checks the store at the start, and compares it with the document. If drift is fatal, throws DriftError, and
   * OperatorError for a store that is set up wrong.
   */
  checkAtStart(): Promise<Fault | undefined>;
  /** Retries and logs until a store that could not be reached at the start answers. */
  reportUntilReachable(fault: Fault): Promise<void>;
  read(): Promise<ReadinessReport>;
  /** As `read`, but reports the last known state if reading takes long: metrics must not wait for a store that hangs. */
  readSoon(): Promise<ReadinessReport>;
  /** Reports `stopping` from now on. */
  end(): void;
};

/** How long a result is cached, in milliseconds: anyone may call these endpoints, and each check queries the store. */
const STORE_EVERY_MS = 1_000;
const DRIFT_EVERY_MS = 10_000;

/** How long `readSoon` waits, in milliseconds. */
const SOON_MS = 400;

/** Postgres: invalid authorization, or no such database. PostgREST: the token. */
const LOGIN_REFUSED = /^(28|3D|PGRST30)/;

const OK = 'ok';
const DRIFTED = 'document and database disagree';
const ADDED = 'the database has more than the document';
const UNKNOWN = 'unknown: the store does not answer';

/** Creates the readiness of a gateway. Reading it checks the dependencies. */
export function createReadiness(options: ReadinessOptions): Readiness {
  const { store, readDocument, deadlineMs, isDriftFatal, log } = options;
  let lastWarning = '';
  let isStopping = false;
  let lastFault: string | undefined;
  let last: ReadinessReport = { status: 'not ready' };
  /** Ends with a fault at the deadline, even if the store ignores its signal. */
  const inTime = <T>(work: (signal: AbortSignal) => Promise<T>): Promise<T | { readonly failure: Fault }> =>
    within(deadlineMs, work).catch((cause) => {
      if (cause instanceof DeadlineError) return storeFault('storeTimeout', cause);
      throw cause;
    });
  const readDrift = () => inTime(() => describeDrift({ document: readDocument(), store, deadlineMs }));
  const checkStore = async () => (await inTime(async (signal) => ({ failure: await store.check(signal) }))).failure;
  const warnOnce = (lines: readonly string[]) => {
    const text = lines.join('\n');
    if (text !== lastWarning) for (const line of lines) log.warn(line);
    lastWarning = text;
  };
  const readStore = cached(STORE_EVERY_MS, async () => {
    const fault = await checkStore();
    const text = fault && describeFault(fault);
    if (fault && text && text !== lastFault) log.fault(text, fault);
    if (!fault && lastFault) log.info('The store answers again');
    lastFault = text;
    return fault ? String(toHttpError(fault).error) : OK;
  });
  const readContract = cached(DRIFT_EVERY_MS, async () => {
    const drift = await readDrift();
    if ('failure' in drift) return undefined;
    warnOnce(drift.lines);
    if (drift.lines.length === 0) return OK;
    return drift.broken.size > 0 ? DRIFTED : ADDED;
  });

  const checkAtStart = async () => {
    const fault = await checkStore();
    if (fault?.cause instanceof OperatorError && isDriftFatal) throw fault.cause;
    if (fault) return fault;
    const login = await inTime(async (signal) => ({ risk: await store.inspectLogin?.(signal) }));
    if ('risk' in login && login.risk) log.warn(login.risk);
    const drift = await readDrift();
    if ('failure' in drift) return drift.failure;
    if (drift.broken.size > 0 && isDriftFatal) throw new DriftError(drift.lines.join('\n'));
    warnOnce(drift.lines);
    return undefined;
  };
  const read = async (): Promise<ReadinessReport> => {
    if (isStopping) return { status: 'stopping' };
    const state = await readStore();
    const contract = (state === OK ? await readContract() : undefined) ?? UNKNOWN;
    const holds = contract === OK || contract === ADDED || (contract === DRIFTED && !isDriftFatal);
    const status = holds ? 'ready' : 'not ready';
    const servers = store.connections?.().servers?.map(({ calls, ...server }) => server) ?? [];
    last = { status, checks: { store: state, contract }, ...(servers.length > 0 ? { servers } : {}) };
    return last;
  };
  return {
    checkAtStart,
    reportUntilReachable: async (first) => {
      let fault: Fault | undefined = first;
      for (let attempt = 1; fault && !isStopping; attempt += 1) {
        const seconds = Math.min(attempt, 30);
        log.fault(`${describeFault(fault)}; next attempt in ${seconds} s`, fault);
        await delay(seconds * 1_000, undefined, { ref: false });
        fault = await checkAtStart();
      }
      if (!isStopping) log.info('The store answers');
    },
    read,
    readSoon: () =>
      within(SOON_MS, read).catch((error) => {
        if (error instanceof DeadlineError) return last;
        throw error;
      }),
    end: () => {
      isStopping = true;
    },
  };
}

/** Describes a fault to the operator. An OperatorError says what to do; an error from the store shows that it answers. */
export function describeFault({ kind, cause }: Fault): string {
  if (cause instanceof OperatorError) return cause.message;
  if (kind !== 'storeError') return 'The store does not answer';
  const { code = '', message }: { code?: string; message?: string } = Object(cause);
  return LOGIN_REFUSED.test(code) ? `The store refuses the login: ${message}` : 'The store answers with an error';
}

/** Caches a value for `ms` milliseconds, except undefined and failures. Concurrent readers share one read. */
function cached<T>(ms: number, read: () => Promise<T>): () => Promise<T> {
  let last: Promise<T> | undefined;
  const forget = () => {
    last = undefined;
  };
  return () => {
    if (last) return last;
    last = read();
    last.then((value) => (value === undefined ? forget() : setTimeout(forget, ms).unref()), forget);
    return last;
  };
}
