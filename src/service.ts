// The gateway in one process: opens all parts in order, and closes them.

import type { AddressInfo } from 'node:net';
import { setImmediate } from 'node:timers/promises';
import { createCallStore } from './api/call.ts';
import { createHandler } from './api/handler.ts';
import { identify } from './api/validate.ts';
import { type Config, FILES, LOOPBACK, type StoreConfig } from './config.ts';
import type { Fault } from './errors.ts';
import { type AppParts, createApp, createNetworkLimit } from './http/app.ts';
import { createContexts, createFaultHandler } from './http/context.ts';
import { type Demo, DemoError, findDemo, refuseNewDemo } from './http/demo.ts';
import { serveDocs } from './http/docs.ts';
import { createReadiness, type ReadinessReport, serveHealth, serveMetrics } from './http/health.ts';
import { createMemoryBudget } from './http/memory.ts';
import {
  checkPorts,
  close as closePort,
  createServer,
  type GatewayServer,
  listen,
  openOperationalServer,
  toOrigin,
} from './http/server.ts';
import type { TakeToken } from './limits/buckets.ts';
import { openLimits } from './limits/limits.ts';
import { findUsageFunction } from './limits/usage.ts';
import { type CompiledDocument, compileFile } from './openapi/compile.ts';
import { openStore as openConfiguredStore } from './store/open.ts';
import { type Log, openLog } from './telemetry/log.ts';
import { createMetrics, type Figures } from './telemetry/metrics.ts';
import type { Tracing } from './telemetry/tracing.ts';

/** A gateway that serves. */
export type Service = {
  /** The server of clients. */
  readonly server: GatewayServer;
  /** Logs the listen address. */
  welcome(welcome: Welcome): Promise<void>;
  /** Watches files and the store. Throws DriftError if a store that was unreachable at the start turns out to drift. */
  follow(): Promise<void>;
  /** The metrics of this process. */
  readFigures(): Promise<Figures>;
  /** Whether this process can serve. */
  readReadiness(): Promise<ReadinessReport>;
  /** Finishes the requests in progress, and closes every part. */
  close(ending?: Ending): Promise<void>;
};

/** The part of the start message that depends on other processes. */
export type Welcome = {
  /** The number of processes that serve. */
  readonly workers: number;
  /** The origin of METRICS_PORT, if another process serves it. */
  readonly metricsOrigin?: string | undefined;
};

/** How a service ends. */
export type Ending = {
  /** How long the service serves on, in milliseconds, so that balancers and clients go elsewhere; 0 by default. */
  readonly noticeMs?: number;
  /** Whether another worker takes its place: then it does not report that it is stopping. */
  readonly isReplaced?: boolean;
};

/** What a worker shares with the other workers. */
export type Group = {
  /** The number of this process, from 1, for its metrics and its log. */
  readonly worker: number;
  /** The metrics of all services. */
  readonly readMetrics: () => Promise<string>;
  /** Takes a token from buckets of all services. */
  readonly takeToken: TakeToken;
};

type ServiceOptions = {
  /** Whether it applies the document and the migrations when they are saved. */
  readonly isWatching?: boolean;
  readonly group?: Group;
  /** For tests: another document and log, and what opens another store. */
  readonly document?: CompiledDocument;
  readonly log?: Log;
  readonly openStore?: typeof openConfiguredStore;
};

/** Opens a gateway and listens. Throws OperatorError for what an operator can fix. */
export async function openService(config: Config, options: ServiceOptions = {}): Promise<Service> {
  const { isWatching = false, group, openStore = openConfiguredStore } = options;
  const isFirst = group === undefined || group.worker === 1;

  // Before the store: an applied migration stays, even if the document is invalid.
  const document = options.document ?? (await compileFile(FILES.document));
  if (!group) await checkPorts(config);
  // The key's header and the usage function are those of the first document: npm run dev needs a restart to change them.
  const log = options.log ?? openLog(config, readKeyHeaders(document), group?.worker);
  // All processes see the same store, Redis and collector: only the first one logs about them.
  const ignore = () => {};
  const outside: Log = isFirst ? log : { ...log, info: ignore, warn: ignore, fault: ignore };
  if (!group) await refuseNewDemo(config);
  const { store, own } = await openStore(config, FILES, outside, group !== undefined);

  const metrics = createMetrics(group?.worker);
  const onFault = createFaultHandler(log);
  const callStore = createCallStore({ ...config, store, onCall: metrics.call });
  const limits = await openLimits({
    ...config,
    callStore: (call, ms) => callStore(call, undefined, ms),
    usageFunction: findUsageFunction(document),
    takeToken: group?.takeToken,
    log,
    outside,
  });
  const serve = (next: CompiledDocument, demoKey?: string) => ({
    document: next,
    handle: createHandler(next, { ...config, callStore, limits, onFault }),
    shown: { ...next, demoKey },
  });
  /** What is served now. npm run dev replaces the document, and the demo data is found after the start. */
  let served = serve(document);
  const readDocument = () => served.document;
  const readiness = createReadiness({
    store,
    readDocument,
    deadlineMs: config.deadlineMs,
    log: outside,
    isDriftFatal: config.contractCheck === 'error' && !isWatching,
  });

  const unread = createMemoryBudget(config.unreadLimit);
  // Of their own: bodies need no key, and must not keep answers from being sent.
  const incoming = createMemoryBudget(config.unreadLimit);
  const tracing = await openTraces(config, outside);
  const health = serveHealth(readiness);
  const metricsEndpoint = serveMetrics({ ...metrics, read: group?.readMetrics ?? metrics.read });
  const sinks = [log.request, metrics.request, limits.request];
  const app = createApp({
    contexts: createContexts({ ...config, sinks, startSpan: tracing?.start, unread, incoming }),
    operational: config.metricsPort === undefined ? { ...health, ...metricsEndpoint } : health,
    corsOrigins: config.corsOrigins,
    docs: config.docs ? serveDocs(() => served.shown) : undefined,
    limitNetworks: createNetworkLimit(limits.admitNetwork, (context) =>
      Object.assign(context, identify(served.document, context)),
    ),
    mcp: await openMcp(config, readDocument),
    handler: (context, reader) => served.handle(context, reader),
    onFault,
  });
  const server = createServer(app, config, sinks);
  metrics.observe({
    readLoad: () => ({ ...store.load(), ...store.connections() }),
    readSockets: () => ({ ...server.sockets(), unread: unread.bytes }),
    isReady: async () => (await readiness.readSoon()).status === 'ready',
    isCountingShared: limits.isShared,
    isExporting: tracing?.isExporting,
  });

  let demo: Demo | undefined;
  /** Looks for the demo data, and returns the fault of a store that does not answer. Others must not reach keys that everybody knows. */
  const lookForDemo = async (): Promise<Fault | undefined> => {
    const found = await findDemo(document, store, config.deadlineMs);
    if (found && 'failure' in found) return found.failure;
    if (found && isFirst && !config.demoKeys) throw new DemoError(config.host);
    demo = found;
    served = { ...served, shown: { ...served.shown, demoKey: demo?.key } };
    return undefined;
  };

  let operational: GatewayServer | undefined;
  let stopWatching = () => {};
  const finish = async ({ noticeMs = 0, isReplaced = false }: Ending) => {
    stopWatching();
    if (!isReplaced) readiness.end();
    await closePort(server, noticeMs);
    await closePort(operational);
    // The last requests are counted in the next turn of the event loop.
    await setImmediate();
    await limits.close();
    await Promise.all([tracing?.close(), store.close()]);
    await log.flush();
  };
  let closing: Promise<void> | undefined;
  const close = (ending: Ending = {}) => {
    closing ??= finish(ending);
    return closing;
  };
  try {
    // If the store does not answer yet, `follow` looks again later.
    const fault = (isFirst ? await readiness.checkAtStart() : undefined) ?? (await lookForDemo());
    // With workers, the primary process opens METRICS_PORT: no worker can hold it up.
    if (!group) operational = await openOperationalServer(config, { ...health, ...metricsEndpoint }, log);
    await listen(server, 'PORT', config.port, config.host);
    return {
      server,
      welcome: async ({ workers, metricsOrigin = operational && toOrigin(operational) }) => {
        const origin = toOrigin(server);
        // A stopped server has no address.
        const { address } = server.address() as AddressInfo;
        const url = origin + document.apiRoot;
        log.info(`Listening on ${url}`);
        if (config.docs) log.info(`Documentation: ${origin}/docs`);
        if (config.mcp) log.info(`MCP: ${origin}/mcp`);
        if (metricsOrigin) log.info(`Metrics: ${metricsOrigin}/metrics`);
        if (workers > 1) log.info(`Workers: ${workers}`);
        log.info(`Store: ${store.description}`);
        if (demo) welcomeToDemo(demo, url, LOOPBACK.test(address), config.store, log);
      },
      follow: async () => {
        if (isWatching) {
          const { develop } = await import('./dev.ts');
          const replace = (next: CompiledDocument) => {
            served = serve(next, served.shown.demoKey);
          };
          stopWatching = develop({ ...config, store, own, serve: replace, log }, document);
        }
        for (let last = fault; last && isFirst && !closing; last = await lookForDemo()) {
          await readiness.reportUntilReachable(last);
        }
      },
      readFigures: metrics.readFigures,
      readReadiness: readiness.read,
      close: (ending = {}) => {
        const { noticeMs = 0, isReplaced = false } = ending;
        const notice = noticeMs > 0 ? ` in ${noticeMs} ms (DRAIN_MS), not ready until then, and` : '';
        if (isFirst && !isReplaced) log.info(`Stopping${notice} after the requests in progress`);
        return close(ending);
      },
    };
  } catch (error) {
    await close();
    throw error;
  }
}

/** Logs an example request of the demo data. */
function welcomeToDemo({ headers, target }: Demo, url: string, isLocal: boolean, store: StoreConfig, log: Log): void {
  const header = Object.entries(headers).map(([name, value]) => ` -H '${name}: ${value}'`);
  log.info(`Demo data: try curl${header.join('')} '${url}${target}'`);
  const isWanted = store.kind === 'embedded' && store.demoData;
  if (!isLocal || !isWanted) log.warn('The demo data is in this store, and everybody knows its keys');
}

async function openTraces({ traces }: Config, { warn }: Log): Promise<Tracing | undefined> {
  if (!traces) return undefined;
  const { openTracing } = await import('./telemetry/tracing.ts');
  return openTracing({ ...traces, warn });
}

async function openMcp(config: Config, readDocument: () => CompiledDocument): Promise<AppParts['mcp']> {
  if (!config.mcp) return undefined;
  const { serveMcp } = await import('./http/mcp.ts');
  return serveMcp({ ...config, readDocument });
}

function readKeyHeaders({ operations }: CompiledDocument): string[] {
  return [...new Set([...operations.values()].map(({ key }) => key.header))];
}
