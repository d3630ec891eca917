// Starts and stops the process. The only reader of process.env.

import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import type { IncomingMessage, Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import type { OpenAPIV3 } from 'openapi-types';
import { createApp } from './app.ts';
import { type Config, readConfig } from './config.ts';
import { readApiRoot, readDocument } from './document.ts';
import type { Fault } from './errors.ts';
import { readExamples } from './examples.ts';
import { createGateway } from './gateway.ts';
import { createServer } from './server.ts';
import { openEmbedded } from './store/embedded.ts';
import type { Store } from './store/store.ts';

const ROOT = join(import.meta.dirname, '..');
/** How long requests that are under way at the signal to stop may go on, in milliseconds. */
const DRAIN_MS = 10_000;

async function main(): Promise<void> {
  const config = readConfig(process.env);
  const document = readDocument(join(ROOT, 'openapi.yaml'));
  const store = await openStore(config);
  const gateway = await createGateway({ ...config, document, store, onFault: logFault });
  const server = createServer(createApp(gateway, logFault));
  server.listen(config.port, config.host);
  await once(server, 'listening');
  stopOnSignal(server, store);
  await printWelcome(server, store, document);
}

function openStore(config: Config): Promise<Store> {
  const seed = join(ROOT, 'supabase/seed.sql');
  return openEmbedded({
    dataDir: config.dataDir,
    migrationsDir: join(ROOT, 'supabase/migrations'),
    seed: config.demoData ? { file: seed, sql: readFileSync(seed, 'utf8') } : undefined,
    statementLimitMs: config.deadlineMs,
  });
}

/** Says where it listens, and how to make a first call: only one that was just seen to work. */
async function printWelcome(server: Server, store: Store, document: OpenAPIV3.Document): Promise<void> {
  const { address, family, port } = server.address() as AddressInfo;
  const reachable = address === '0.0.0.0' ? '127.0.0.1' : address === '::' ? '::1' : address;
  const url = `http://${family === 'IPv6' ? `[${reachable}]` : reachable}:${port}${readApiRoot(document)}`;
  console.log(`Listening on ${url}\nStore: ${store.description}`);

  const example = readExamples(document).find(({ request, status }) => request.method === 'GET' && status === 200);
  if (!example) return;
  const { target, headers } = example.request;
  const answer = await fetch(url + target, { headers });
  if (!answer.ok) return;
  const header = Object.entries(headers).map(([name, value]) => ` -H '${name}: ${value}'`);
  console.log(`Demo data: try\n  curl${header.join('')} '${url}${target}'`);
  if (!['127.0.0.1', '::1'].includes(address)) {
    console.log("Everybody knows the demo data's keys, and this address is not this machine's alone");
  }
}

function logFault(fault: Fault, req?: IncomingMessage): void {
  const path = req?.url?.replace(/\?.*$/s, '');
  console.error(JSON.stringify({ time: new Date().toISOString(), method: req?.method, path, ...describe(fault) }));
}

function describe({ kind, cause }: Fault): Record<string, unknown> {
  if (!(cause instanceof Error)) return { fault: kind, cause };
  return { fault: kind, cause: cause.message, stack: kind === 'internal' ? cause.stack : undefined };
}

function stopOnSignal(server: Server, store: Store): void {
  const stop = async () => {
    process.off('SIGINT', stop).off('SIGTERM', stop);
    const cut = setTimeout(() => server.closeAllConnections(), DRAIN_MS);
    server.close();
    server.closeIdleConnections();
    await once(server, 'close');
    clearTimeout(cut);
    await store.close();
  };
  process.on('SIGINT', stop).on('SIGTERM', stop);
}

main().catch((error) => {
  const expected = ['ConfigError', 'DocumentError', 'FolderInUseError'].includes(error?.name);
  console.error(expected || error?.code === 'EADDRINUSE' ? error.message : error);
  process.exit(1);
});
