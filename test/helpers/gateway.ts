import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import type { OpenAPIV3 } from 'openapi-types';
import { createHandler, type HandlerOptions } from '../../src/api/handler.ts';
import { createAcceptedKeys } from '../../src/api/keys.ts';
import type { Fault } from '../../src/errors.ts';
import { type AppParts, createApp } from '../../src/http/app.ts';
import { createAddressReader } from '../../src/http/client-address.ts';
import { createRecorder } from '../../src/http/recorder.ts';
import { createServer, type GatewayServer } from '../../src/http/server.ts';
import { createUnread } from '../../src/http/unread.ts';
import { compile } from '../../src/openapi/compile.ts';
import { readApiRoot, readDocument } from '../../src/openapi/document.ts';
import { openEmbedded } from '../../src/store/embedded/store.ts';
import { openPostgres } from '../../src/store/postgres/store.ts';
import type { Store } from '../../src/store/store.ts';
import { openSupabase } from '../../src/store/supabase/store.ts';
import { createDatabase, loginUrl, POSTGREST_KEY, startPostgrest } from './servers.ts';

export const MIGRATIONS = 'supabase/migrations';
export const SEED = { file: 'supabase/seed.sql', sql: readFileSync('supabase/seed.sql', 'utf8') };

/** The kinds of store that the interface's tests run through. */
export type StoreKind = 'embedded' | 'postgres' | 'supabase';

export type TestGatewayOptions = {
  readonly store: Store;
  readonly document?: OpenAPIV3.Document;
  readonly deadlineMs?: number;
  readonly bodyLimit?: number;
  readonly answerLimit?: number;
  readonly unreadLimit?: number;
  readonly maxSockets?: number;
  readonly refusalsPerMinute?: number;
  /** What the application has beside the gateway. */
  readonly parts?: Partial<AppParts>;
  readonly proxyHops?: number;
  readonly onCall?: HandlerOptions['onCall'];
};

export type TestGateway = {
  /** The URL that the operations' paths come behind. */
  readonly url: string;
  readonly server: GatewayServer;
  readonly store: Store;
  /** What was told to the log. */
  readonly faults: Fault[];
  close(): Promise<void>;
};

/** The demo data in a store of the kind that this run of the tests is for, and nobody else's. */
export async function openDemoStore(
  kind: StoreKind,
  adminUrl: string | undefined,
  limits: { readonly answerLimit?: number } = {},
): Promise<Store> {
  const deadlineMs = 5_000;
  if (kind === 'embedded') {
    return openEmbedded({ migrationsDir: MIGRATIONS, seed: SEED, statementLimitMs: deadlineMs, ...limits });
  }

  const database = await createDatabase(adminUrl ?? '');
  if (kind === 'postgres') {
    const url = loginUrl(database.adminUrl, 'gateway_test');
    return closing(openPostgres({ url, connections: 4, prepare: true, deadlineMs, ...limits }), database.drop);
  }
  const { url, stop } = await startPostgrest(database);
  const store = openSupabase({ url, key: POSTGREST_KEY, restPath: '/', connections: 4, deadlineMs, ...limits });
  return closing(store, async () => {
    await stop();
    await database.drop();
  });
}

/** As openDemoStore, of the kind that the running test's project is for. */
export async function openTestStore(limits?: { readonly answerLimit?: number }): Promise<Store> {
  const { inject } = await import('vitest');
  return openDemoStore(inject('kind'), inject('adminUrl'), limits);
}

/** A store whose end is the end of its servers too. */
function closing(store: Store, stop: () => Promise<void>): Store {
  return {
    description: store.description,
    call: (call, signal, origin) => store.call(call, signal, origin),
    check: (signal) => store.check(signal),
    describe: (signal) => store.describe(signal),
    connections: () => store.connections?.() ?? { open: 0, idle: 0 },
    close: async () => {
      await store.close();
      await stop();
    },
  };
}

/** A gateway in this process, on a port of its own; closing it leaves the store open. */
export async function startGateway(options: TestGatewayOptions): Promise<TestGateway> {
  const faults: Fault[] = [];
  const document = options.document ?? readDocument('openapi.yaml');
  const onFault = (fault: Fault) => faults.push(fault);
  const recorder = createRecorder([]);
  const compiled = await compile(document);
  const addressOf = createAddressReader(options.proxyHops ?? 0);
  const unread = createUnread(options.unreadLimit ?? 100_000_000);
  const acceptedKeys = createAcceptedKeys();
  const limits = { deadlineMs: 5_000, bodyLimit: 100_000, answerLimit: 4_000_000, refusalsPerMinute: 0 };
  const { bodyLimit, ...rest } = { ...limits, acceptedKeys, ...options };
  const handler = createHandler(compiled, { ...rest, onFault });
  const app = createApp({ handler, addressOf, bodyLimit, unread, onFault, recorder, ...options.parts });
  const server = createServer(app, { maxSockets: options.maxSockets ?? 10_000 });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}${readApiRoot(document)}`,
    server,
    store: options.store,
    faults,
    close: async () => {
      server.close();
      server.closeAllConnections();
    },
  };
}
