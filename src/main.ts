// Starts and stops the process. The only reader of process.env.

import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { createApp, createManagementApp } from './app.ts';
import { type Config, readConfig } from './config.ts';
import { createDocs } from './docs.ts';
import { createLocator, DocumentError, readDocument } from './document.ts';
import { compile, createGateway, type Program } from './gateway.ts';
import { createLog, type Log } from './log.ts';
import { createHealth, createMetricsRoute } from './management.ts';
import { createMetrics } from './metrics.ts';
import { createAddressReader } from './network.ts';
import { createFaultHandler, createObserver } from './observer.ts';
import { openRateLimits } from './rate-limits.ts';
import { createReadiness } from './readiness.ts';
import { createServer, type GatewayServer } from './server.ts';
import { type EmbeddedStore, openEmbedded } from './store/embedded.ts';
import { limited } from './store/limited.ts';
import { openPostgres } from './store/postgres.ts';
import type { Store } from './store/store.ts';
import { openSupabase } from './store/supabase.ts';
import type { Tracing } from './tracing.ts';
import { welcome } from './welcome.ts';

const ROOT = join(import.meta.dirname, '..');
const DOCUMENT = join(ROOT, 'openapi.yaml');
const MIGRATIONS = join(ROOT, 'supabase/migrations');
const FILES = { document: DOCUMENT, migrations: MIGRATIONS, types: join(ROOT, 'src/generated/openapi.ts') };
/** npm run dev: whoever edits a document and a database has one of them first. */
const IS_WATCHING = process.argv.includes('--watch');
/** How long requests that are under way at the signal to stop may go on, in milliseconds. */
const DRAIN_MS = 10_000;

async function main(): Promise<void> {
  // Until it serves there is nothing to finish; and the first process of a container is not ended by a signal that
  // nobody listens for.
  let stop = async (): Promise<void> => process.exit(0);
  stopOnSignal(() => stop());
  const config = readConfig(process.env);
  // Before the store: a migration that was applied stays, whatever is wrong with the document.
  let program = await compile(readDocument(DOCUMENT));
  const keyHeaders = readKeyHeaders(program);
  const { isTTY: isTerminal } = process.stdout;
  const hasColors = isTerminal && process.stdout.hasColors();
  const log = createLog({ ...config.log, keyHeaders, isTerminal, hasColors });
  const opened = await openStore(config, log);
  const bounded = limited(opened, { running: config.connections, waiting: config.waiting });
  const metrics = createMetrics(
    () => ({ ...bounded.load(), ...bounded.connections() }),
    async () => (await readiness.read()).status === 'ready',
  );
  const store = metrics.measured(bounded);
  const readiness = createReadiness({
    ...{ store, log, document: DOCUMENT, deadlineMs: config.deadlineMs },
    readProgram: () => program,
    isDriftFatal: config.contractCheck === 'error' && !IS_WATCHING,
  });

  const addressOf = createAddressReader(config.proxyHops);
  const options = { ...config, store, addressOf, onFault: createFaultHandler(log) };
  let gateway = createGateway(program, options);
  const tracing = await openTraces(config, log);
  const rateLimits = await openRateLimits(config.rateLimits, {
    ...{ keyHeaders, addressOf },
    onFault: ({ message }) => log.warn(message),
    onRecovered: () => log.info('Requests are counted in Redis again'),
  });
  const health = createHealth(readiness);
  const metricsRoute = createMetricsRoute(metrics);
  const hasMetricsPort = config.metricsPort !== undefined;
  const app = createApp({
    ...{ ...config, ...options },
    gateway: (req, res) => gateway(req, res),
    observer: createObserver([log.request, metrics.request], tracing?.begin),
    management: hasMetricsPort ? [health] : [health, metricsRoute],
    docs: config.docs ? createDocs(() => program.document) : undefined,
    rateLimiter: rateLimits?.middleware,
  });
  const server = createServer(app);
  const management = hasMetricsPort
    ? createServer(createManagementApp(createObserver([log.request]), [health, metricsRoute], options.onFault))
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
    const fault = await readiness.checkAtStart();
    if (management) await listen(management, config.metricsPort ?? 0, config.host);
    await listen(server, config.port, config.host);
    stop = close;
    await welcome({
      ...{ server, management, log, docs: config.docs, program, store },
      isDemoWanted: config.store.kind === 'embedded' && config.store.demoData,
    });
    if (IS_WATCHING) {
      const { develop } = await import('./dev.ts');
      const migrate = 'migrate' in opened ? () => opened.migrate() : undefined;
      const serve = (next: Program) => {
        program = next;
        gateway = createGateway(program, options);
      };
      stopWatching = develop({ ...FILES, ...options, migrate, serve, log: log.info }, program);
    }
    if (fault) await readiness.reportUntilReachable(fault);
  } catch (error) {
    await close();
    throw error;
  }
}

async function openTraces({ traces }: Config, { warn }: Log): Promise<Tracing | undefined> {
  if (!traces) return undefined;
  const { openTracing } = await import('./tracing.ts');
  return openTracing({ ...traces, warn });
}

function readKeyHeaders({ operations }: Program): string[] {
  return [...new Set([...operations.values()].map(({ key }) => key.header))];
}

async function listen(server: GatewayServer, port: number, host: string): Promise<void> {
  server.listen(port, host);
  await once(server, 'listening');
}

async function drain(server: GatewayServer): Promise<void> {
  if (server.listening) await server.drain(DRAIN_MS);
}

function openStore({ store, connections, deadlineMs }: Config, log: Log): Store | Promise<EmbeddedStore> {
  if (store.kind === 'postgres') return openPostgres({ ...store, connections, deadlineMs });
  if (store.kind === 'supabase') return openSupabase({ ...store, connections, deadlineMs });
  if (store.dataDir && !existsSync(join(store.dataDir, 'postgres'))) {
    log.info(`Making a store in ${store.dataDir}, which takes some seconds`);
  }
  const seed = join(ROOT, 'supabase/seed.sql');
  return openEmbedded({
    dataDir: store.dataDir,
    migrationsDir: MIGRATIONS,
    seed: store.demoData ? { file: seed, sql: readFileSync(seed, 'utf8') } : undefined,
    statementLimitMs: deadlineMs,
  });
}

function stopOnSignal(stop: () => Promise<void>): void {
  const onSignal = async () => {
    process.off('SIGINT', onSignal).off('SIGTERM', onSignal);
    await stop();
  };
  process.on('SIGINT', onSignal).on('SIGTERM', onSignal);
}

/** Mistakes of whoever runs it are told in a line; the stack is for those that are ours. */
const EXPECTED = ['ConfigError', 'ContractError', 'FolderError', 'MigrationError', 'EmbeddedStoreError'];

main().catch((error) => {
  if (error instanceof DocumentError) {
    console.error(error.describe(basename(DOCUMENT), createLocator(DOCUMENT)));
    process.exit(1);
  }
  const isExpected = EXPECTED.includes(error?.name) || typeof error?.syscall === 'string';
  console.error(isExpected ? error.message : error);
  process.exit(1);
});
