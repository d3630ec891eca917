// Starts and stops the process. The only reader of process.env.

import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { basename, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { OpenAPIV3 } from 'openapi-types';
import { createApp } from './app.ts';
import { type Config, readConfig } from './config.ts';
import { ContractError, findDrift } from './contract-check.ts';
import { createLocator, DocumentError, readApiRoot, readDocument } from './document.ts';
import type { Fault } from './errors.ts';
import { readExamples } from './examples.ts';
import { createFaultLog, type OnFault } from './fault-log.ts';
import { compile, createGateway, type Program } from './gateway.ts';
import { createServer } from './server.ts';
import { type EmbeddedStore, openEmbedded } from './store/embedded.ts';
import { limited } from './store/limited.ts';
import { openPostgres } from './store/postgres.ts';
import type { Store } from './store/store.ts';
import { openSupabase } from './store/supabase.ts';

const ROOT = join(import.meta.dirname, '..');
const DOCUMENT = join(ROOT, 'openapi.yaml');
const MIGRATIONS = join(ROOT, 'supabase/migrations');
const FILES = { document: DOCUMENT, migrations: MIGRATIONS, types: join(ROOT, 'src/generated/openapi.ts') };
/** npm run dev: whoever edits a document and a database has one of them first. */
const IS_WATCHING = process.argv.includes('--watch');
/** How long requests that are under way at the signal to stop may go on, in milliseconds. */
const DRAIN_MS = 10_000;

async function main(): Promise<void> {
  const config = readConfig(process.env);
  const document = readDocument(DOCUMENT);
  // Before the store: a migration that was applied stays, whatever is wrong with the document.
  const program = await compile(document);
  const opened = await openStore(config);
  const store = limited(opened, { running: config.connections, waiting: config.waiting });
  const keyHeaders = [...program.operations.values()].map(({ key }) => key.header);
  const logFault = createFaultLog([...new Set(keyHeaders)], console.error);
  const options = { ...config, store, onFault: logFault };
  let gateway = createGateway(program, options);
  const server = createServer(createApp((req, res) => gateway(req, res), logFault, config.proxyHops));
  let stopWatching = () => {};
  const stop = async () => {
    stopWatching();
    if (server.listening) await server.drain(DRAIN_MS);
    await store.close();
  };
  try {
    const check = () => checkContract(program, store, config);
    const fault = await check();
    server.listen(config.port, config.host);
    await once(server, 'listening');
    stopOnSignal(stop);
    await printWelcome(server, store, document, config);
    if (IS_WATCHING) {
      const { develop } = await import('./dev.ts');
      const migrate = 'migrate' in opened ? () => opened.migrate() : undefined;
      const serve = (next: Program) => {
        gateway = createGateway(next, options);
      };
      stopWatching = develop({ ...FILES, ...options, migrate, serve, log: console.log }, program);
    }
    if (fault) await reportUntilReachable(fault, check, logFault);
  } catch (error) {
    await stop();
    throw error;
  }
}

/**
 * Throws ContractError where document and database disagree, unless that is only to be told. Gives the fault of a
 * store that cannot say.
 */
async function checkContract(program: Program, store: Store, config: Config): Promise<Fault | undefined> {
  const { deadlineMs, contractCheck } = config;
  const isFatal = contractCheck === 'error' && !IS_WATCHING;
  const drift = await findDrift({ program, document: DOCUMENT, store, deadlineMs });
  if ('failure' in drift) return drift.failure;
  if (drift.lines.length > 0 && isFatal) throw new ContractError(drift.lines.join('\n'));
  for (const line of drift.lines) console.warn(`Warning: ${line}`);
  return undefined;
}

function openStore({ store, connections, deadlineMs }: Config): Store | Promise<EmbeddedStore> {
  if (store.kind === 'postgres') return openPostgres({ ...store, connections, deadlineMs });
  if (store.kind === 'supabase') return openSupabase({ ...store, connections, deadlineMs });
  if (store.dataDir && !existsSync(join(store.dataDir, 'postgres'))) {
    console.log(`Making a store in ${store.dataDir}, which takes some seconds`);
  }
  const seed = join(ROOT, 'supabase/seed.sql');
  return openEmbedded({
    dataDir: store.dataDir,
    migrationsDir: MIGRATIONS,
    seed: store.demoData ? { file: seed, sql: readFileSync(seed, 'utf8') } : undefined,
    statementLimitMs: deadlineMs,
  });
}

/** A store that cannot be reached at the start may come yet: until then the gateway answers 502 by itself. */
async function reportUntilReachable(
  first: Fault,
  check: () => Promise<Fault | undefined>,
  onFault: OnFault,
): Promise<void> {
  let fault: Fault | undefined = first;
  for (let attempt = 1; fault; attempt += 1) {
    onFault(fault);
    await delay(Math.min(attempt, 30) * 1_000, undefined, { ref: false });
    fault = await check();
  }
  console.log('The store answers');
}

/** Says where it listens, and how to make a first call: only one that was just seen to work. */
async function printWelcome(server: Server, store: Store, document: OpenAPIV3.Document, config: Config): Promise<void> {
  const { address, family, port } = server.address() as AddressInfo;
  const reachable = address === '0.0.0.0' ? '127.0.0.1' : address === '::' ? '::1' : address;
  const url = `http://${family === 'IPv6' ? `[${reachable}]` : reachable}:${port}${readApiRoot(document)}`;
  console.log(`Listening on ${url}\nStore: ${store.description}`);

  const example = readExamples(document).find(({ request, status }) => request.method === 'GET' && status === 200);
  if (!example) return;
  const { target, headers } = example.request;
  const answer = await fetch(url + target, { headers }).catch(() => undefined);
  if (!answer?.ok) return;
  const header = Object.entries(headers).map(([name, value]) => ` -H '${name}: ${value}'`);
  console.log(`Demo data: try\n  curl${header.join('')} '${url}${target}'`);
  const isPublic = !['127.0.0.1', '::1'].includes(address);
  const isUnwanted = config.store.kind !== 'embedded' || !config.store.demoData;
  if (isPublic || isUnwanted) console.warn('Warning: the demo data is in this store, and everybody knows its keys');
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
