// The gateway with all that it consists of, in one process.

import { once } from 'node:events';
import { getSystemErrorMessage } from 'node:util';
import { createAcceptedKeys } from './api/accepted-keys.ts';
import { createGateway, type Program } from './api/handler.ts';
import type { Config } from './config.ts';
import { createApp, createManagementApp } from './http/app.ts';
import { createAddressReader } from './http/client-address.ts';
import type { Counter, CounterOptions } from './http/counters.ts';
import { createDocs } from './http/docs.ts';
import { createHealth, createMetricsRoute } from './http/management.ts';
import { createFaultHandler, createObserver } from './http/observer.ts';
import { openRateLimits } from './http/rate-limits.ts';
import { createReadiness } from './http/readiness.ts';
import { createServer, type GatewayServer } from './http/server.ts';
import { createUnread } from './http/unread.ts';
import { compileKept } from './openapi/kept-document.ts';
import type { Store } from './store/store.ts';
import type { Log } from './telemetry/log.ts';
import { createMetrics, type Figures, type StoreLoad } from './telemetry/metrics.ts';
import type { Tracing } from './telemetry/tracing.ts';
import { welcome } from './welcome.ts';

/** A gateway that serves. */
export type Service = {
  /** Says where it listens, and how many processes do. */
  welcome(workers: number): Promise<void>;
  /** Does what goes on beside requests. Throws ContractError where a store that was away at the start is a wrong one. */
  follow(): Promise<void>;
  /** The metrics of this process. */
  readFigures(): Promise<Figures>;
  /** Lets the requests finish that are under way, and closes all that was opened. */
  close(): Promise<void>;
};

/** What a service is made of. */
export type ServiceParts = {
  readonly document: string;
  /** The file that the document is kept in for the next start. */
  readonly keptDocument: string;
  readonly migrations: string;
  /** The file that the document's types are generated into. */
  readonly types: string;
  /** Whether it follows the files as they are saved. */
  readonly isWatching: boolean;
  readonly openLog: (config: Config, keyHeaders: readonly string[]) => Promise<Log>;
  readonly openStore: (config: Config, log: Log) => Promise<OpenStore>;
};

/** A store that is open, and what it is doing. */
export type OpenStore = {
  readonly store: Store;
  readonly readLoad: () => StoreLoad;
  /** Applies migrations that are new; a store that others share has none. */
  readonly migrate: (() => Promise<string[]>) | undefined;
};

/** What a service has in common with those of other processes. */
export type Group = {
  /** Whether it is the one that holds the document against the store, and tells of it. */
  readonly isFirst: boolean;
  /** The metrics of all. */
  readonly readMetrics: () => Promise<string>;
  /** Makes counters that all add to. */
  readonly createCounter: (options: CounterOptions) => Counter;
};

/** How long requests that are under way at the signal to stop may go on, in milliseconds. */
const DRAIN_MS = 10_000;

/**
 * Opens a gateway, which listens then. Throws DocumentError, ContractError, what the store throws, and what the system
 * has against the port.
 */
export async function openService(config: Config, parts: ServiceParts, group?: Group): Promise<Service> {
  const { isWatching, openLog, openStore, ...files } = parts;
  // Before the store: a migration that was applied stays, whatever is wrong with the document.
  let program = await compileKept(files.document, files.keptDocument);
  const keyHeaders = readKeyHeaders(program);
  const log = await openLog(config, keyHeaders);
  const opened = await openStore(config, log);
  const unread = createUnread(config.unreadLimit);
  const acceptedKeys = createAcceptedKeys();
  const metrics = createMetrics({
    readLoad: opened.readLoad,
    readSockets: () => ({ ...server.sockets(), unread: unread.bytes }),
    isReady: async () => (await readiness.read()).status === 'ready',
  });
  const store = metrics.measured(opened.store);
  const isFirst = group?.isFirst ?? true;
  const readiness = createReadiness({
    ...{ store, document: files.document, deadlineMs: config.deadlineMs },
    // Of a document and a database that disagree one process tells.
    log: isFirst ? log : { ...log, warn: () => {} },
    readProgram: () => program,
    isDriftFatal: config.contractCheck === 'error' && !isWatching,
  });

  const addressOf = createAddressReader(config.proxyHops);
  const options = { ...config, store, addressOf, acceptedKeys, unread, onFault: createFaultHandler(log) };
  let gateway = createGateway(program, options);
  const tracing = await openTraces(config, log);
  const rateLimits = await openRateLimits(config.rateLimits, {
    ...{ keyHeaders, addressOf, isAccepted: acceptedKeys.has, createCounter: group?.createCounter },
    onFault: ({ message }) => log.warn(message),
    onRecovered: () => log.info('Requests are counted in Redis again'),
  });
  const health = createHealth(readiness);
  const metricsRoute = createMetricsRoute({ ...metrics, read: group?.readMetrics ?? metrics.read });
  const hasMetricsPort = config.metricsPort !== undefined;
  const app = createApp({
    ...{ ...config, ...options },
    gateway: (req, res) => gateway(req, res),
    observer: createObserver([log.request, metrics.request], tracing?.begin),
    management: hasMetricsPort ? [health] : [health, metricsRoute],
    docs: config.docs ? createDocs(() => program.document) : undefined,
    rateLimiter: rateLimits?.middleware,
  });
  const server = createServer(app, options);
  const management = hasMetricsPort
    ? createServer(createManagementApp(createObserver([log.request]), [health, metricsRoute], options.onFault), options)
    : undefined;
  let stopWatching = () => {};
  const close = async () => {
    stopWatching();
    readiness.end();
    await drain(server);
    if (management) await drain(management);
    await Promise.all([rateLimits?.close(), tracing?.close(), store.close()]);
  };
  try {
    const fault = isFirst ? await readiness.checkAtStart() : undefined;
    if (management) await listen(management, config.metricsPort ?? 0, config.host);
    await listen(server, config.port, config.host);
    const isDemoWanted = config.store.kind === 'embedded' && config.store.demoData;
    return {
      welcome: (workers) =>
        welcome({ server, management, log, docs: config.docs, program, store, workers, isDemoWanted }),
      follow: async () => {
        if (isWatching) {
          const { develop } = await import('./dev.ts');
          const serve = (next: Program) => {
            program = next;
            gateway = createGateway(program, options);
          };
          stopWatching = develop({ ...files, ...options, migrate: opened.migrate, serve, log: log.info }, program);
        }
        if (fault) await readiness.reportUntilReachable(fault);
      },
      readFigures: metrics.readFigures,
      close,
    };
  } catch (error) {
    await close();
    throw error;
  }
}

async function openTraces({ traces }: Config, { warn }: Log): Promise<Tracing | undefined> {
  if (!traces) return undefined;
  const { openTracing } = await import('./telemetry/tracing.ts');
  return openTracing({ ...traces, warn });
}

function readKeyHeaders({ operations }: Program): string[] {
  return [...new Set([...operations.values()].map(({ key }) => key.header))];
}

async function listen(server: GatewayServer, port: number, host: string): Promise<void> {
  server.listen(port, host);
  try {
    await once(server, 'listening');
  } catch (error) {
    throw toListenError(error as NodeJS.ErrnoException);
  }
}

/** A worker is told by Node what its primary process could not do, in other words than a process of its own. */
function toListenError(error: NodeJS.ErrnoException): Error {
  const { syscall, code, errno = 0 } = error;
  if (syscall === 'bind') {
    error.message = error.message.replace(`bind ${code}`, `listen ${code}: ${getSystemErrorMessage(errno)}`);
  }
  return error;
}

async function drain(server: GatewayServer): Promise<void> {
  if (server.listening) await server.drain(DRAIN_MS);
}
