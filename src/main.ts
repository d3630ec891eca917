// Starts and stops the process. The only reader of process.env.

import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { OpenAPIV3 } from 'openapi-types';
import { createApp } from './app.ts';
import { type Config, readConfig } from './config.ts';
import { readApiRoot, readDocument } from './document.ts';
import { readExamples } from './examples.ts';
import { createFaultLog, type OnFault } from './fault-log.ts';
import { compile, createGateway } from './gateway.ts';
import { createServer, type GatewayServer } from './server.ts';
import { openEmbedded } from './store/embedded.ts';
import { limited } from './store/limited.ts';
import { openPostgres } from './store/postgres.ts';
import type { Store } from './store/store.ts';
import { openSupabase } from './store/supabase.ts';

const ROOT = join(import.meta.dirname, '..');
/** How long requests that are under way at the signal to stop may go on, in milliseconds. */
const DRAIN_MS = 10_000;

async function main(): Promise<void> {
  const config = readConfig(process.env);
  const document = readDocument(join(ROOT, 'openapi.yaml'));
  // Before the store: a migration that was applied stays, whatever is wrong with the document.
  const program = await compile(document);
  const store = limited(await openStore(config), { running: config.connections, waiting: config.waiting });
  const keyHeaders = [...program.operations.values()].map(({ key }) => key.header);
  const logFault = createFaultLog([...new Set(keyHeaders)], console.error);
  const gateway = createGateway(program, { ...config, store, onFault: logFault });
  const server = createServer(createApp(gateway, logFault, config.proxyHops));
  server.listen(config.port, config.host);
  await once(server, 'listening');
  stopOnSignal(server, store);
  await printWelcome(server, store, document, config);
  if (config.store.kind !== 'embedded') await reportUntilReachable(store, config.deadlineMs, logFault);
}

function openStore({ store, connections, deadlineMs }: Config): Store | Promise<Store> {
  if (store.kind === 'postgres') return openPostgres({ ...store, connections, deadlineMs });
  if (store.kind === 'supabase') return openSupabase({ ...store, connections, deadlineMs });
  if (store.dataDir && !existsSync(join(store.dataDir, 'postgres'))) {
    console.log(`Making a store in ${store.dataDir}, which takes some seconds`);
  }
  const seed = join(ROOT, 'supabase/seed.sql');
  return openEmbedded({
    dataDir: store.dataDir,
    migrationsDir: join(ROOT, 'supabase/migrations'),
    seed: store.demoData ? { file: seed, sql: readFileSync(seed, 'utf8') } : undefined,
    statementLimitMs: deadlineMs,
  });
}

/** A store that cannot be reached at the start may come yet: until then the gateway answers 502 by itself. */
async function reportUntilReachable(store: Store, deadlineMs: number, onFault: OnFault): Promise<void> {
  for (let attempt = 1; ; attempt += 1) {
    const fault = await store.check(AbortSignal.timeout(deadlineMs));
    if (!fault) break;
    onFault(fault);
    await delay(Math.min(attempt, 30) * 1_000, undefined, { ref: false });
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

function stopOnSignal(server: GatewayServer, store: Store): void {
  const stop = async () => {
    process.off('SIGINT', stop).off('SIGTERM', stop);
    await server.drain(DRAIN_MS);
    await store.close();
  };
  process.on('SIGINT', stop).on('SIGTERM', stop);
}

/** Mistakes of whoever runs it are told in a line; the stack is for those that are ours. */
const EXPECTED = ['ConfigError', 'DocumentError', 'FolderError', 'MigrationError', 'EmbeddedStoreError'];

main().catch((error) => {
  const isExpected = EXPECTED.includes(error?.name) || typeof error?.syscall === 'string';
  console.error(isExpected ? error.message : error);
  process.exit(1);
});
