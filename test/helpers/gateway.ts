import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import type { OpenAPIV3 } from 'openapi-types';
import { createBuckets } from '../../src/api/buckets.ts';
import { createHandler, type HandlerOptions } from '../../src/api/handler.ts';
import { createAcceptedKeys } from '../../src/api/keys.ts';
import { openUsage, type Usage, type UsageOptions } from '../../src/api/usage.ts';
import type { RateLimitConfig } from '../../src/config.ts';
import type { Fault } from '../../src/errors.ts';
import { type AppParts, createApp } from '../../src/http/app.ts';
import { createAddressReader } from '../../src/http/client-address.ts';
import { openRateLimits, type RateLimitOptions, type RateLimits } from '../../src/http/rate-limits.ts';
import { createRecorder } from '../../src/http/recorder.ts';
import { createServer, type GatewayServer } from '../../src/http/server.ts';
import { createUnread } from '../../src/http/unread.ts';
import { type CompiledDocument, compile } from '../../src/openapi/compile.ts';
import { readApiRoot, readDocument } from '../../src/openapi/document.ts';
import { distribute, runScript } from '../../src/store/migrations.ts';
import { openPostgres } from '../../src/store/postgres/store.ts';
import type { Store } from '../../src/store/store.ts';
import { openSupabase } from '../../src/store/supabase/store.ts';
import { copyCitusDatabase } from './citus.ts';
import { asAdmin, createDatabase, databaseUrl, loginUrl, POSTGREST_KEY, startPostgrest } from './servers.ts';

export const MIGRATIONS = 'supabase/migrations';
export const SEED = { file: 'supabase/seed.sql', sql: readFileSync('supabase/seed.sql', 'utf8') };

/** The kinds of store; Citus by each of its two ways. */
export type StoreKind = 'postgres' | 'supabase' | 'citus' | 'citus by PostgREST';

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
  readonly usage?: Usage;
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

/** What createDatabase and copyCitusDatabase copy. */
export type Templates = { readonly adminUrl: string; readonly nodes?: readonly string[] };

/** The largest answer of a store, and a migration of a test's own. */
export type DemoStoreOptions = { readonly answerLimit?: number; readonly sql?: string };

/** Opens a store of a kind with its own copy of the demo data. */
export async function openDemoStore(
  kind: StoreKind,
  { adminUrl, nodes = [] }: Templates,
  { sql, ...limits }: DemoStoreOptions = {},
): Promise<Store> {
  const deadlineMs = 5_000;
  const database = await (isOnCitus(kind) ? copyCitusDatabase(nodes) : createDatabase(adminUrl));
  if (sql) {
    await asAdmin(database.adminUrl, async (admin) => {
      await runScript(admin, { file: 'test.sql', sql });
      await distribute(admin);
    });
  }
  if (kind === 'citus') {
    // Any node answers; here one that is not the coordinator.
    const url = loginUrl(databaseUrl(nodes[1] ?? '', database.name), 'gateway_test');
    return closing(openPostgres({ url, connections: 4, prepare: true, deadlineMs, ...limits }), database.drop);
  }
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

/** Whether a kind of store needs the nodes of Citus. */
export function isOnCitus(kind: StoreKind): boolean {
  return kind.startsWith('citus');
}

/** Opens a store of the running project's kind with its own copy of the demo data. */
export async function openTestStore(options?: DemoStoreOptions): Promise<Store> {
  const { inject } = await import('vitest');
  const templates = { adminUrl: inject('adminUrl'), nodes: inject('nodes') };
  return openDemoStore(inject('kind'), templates, options);
}

/** Copies a data directory with the demo data beside itself. Making one anew takes seconds. */
export function copyDataDir(dataDir: string): string {
  const copy = mkdtempSync(`${dataDir}-`);
  // Node's own copy gives folders other permissions.
  execFileSync('cp', ['-a', `${dataDir}/.`, copy]);
  return copy;
}

/** A store that stops its servers when it is closed. */
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

/** Opens the usage of a test, which records when it is told to. */
export function openTestUsage(options: Pick<UsageOptions, 'store'> & Partial<UsageOptions>): Usage {
  const common = { function: 'record_usage', timeZone: 'America/Sao_Paulo', deadlineMs: 5_000 };
  const log = { info: () => {}, warn: () => {} };
  const takeToken = createBuckets();
  return openUsage({ ...common, answerLimit: 4_000_000, log, takeToken, recordEveryMs: 2 ** 31 - 1, ...options });
}

/** Opens the limits of a test's requests, of which there are none unless told. */
export function openTestRateLimits(
  limits: Partial<RateLimitConfig>,
  options: Partial<RateLimitOptions> = {},
): Promise<RateLimits> {
  return openRateLimits(
    { perAddress: 0, redisUrl: undefined, ...limits },
    {
      addressOf: createAddressReader(0),
      identify: () => {},
      onFault: () => {},
      onRecovered: () => {},
      ...options,
    },
  );
}

let ownDocument: Promise<OpenAPIV3.Document> | undefined;

/** Reads openapi.yaml once. */
export function readOwnDocument(): Promise<OpenAPIV3.Document> {
  ownDocument ??= readDocument('openapi.yaml');
  return ownDocument;
}

const programs = new WeakMap<OpenAPIV3.Document, Promise<CompiledDocument>>();

/** Compiles a document once, by default openapi.yaml: most gateways of the tests have the same one, and none changes it. */
export async function compileOnce(document?: OpenAPIV3.Document): Promise<CompiledDocument> {
  const source = document ?? (await readOwnDocument());
  const program = programs.get(source) ?? compile(source);
  programs.set(source, program);
  return program;
}

/** A gateway in this process, on a port of its own; closing it leaves the store open. */
export async function startGateway(options: TestGatewayOptions): Promise<TestGateway> {
  const faults: Fault[] = [];
  const onFault = (fault: Fault) => faults.push(fault);
  const recorder = createRecorder(options.usage ? [options.usage.request] : []);
  const compiled = await compileOnce(options.document);
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
    url: `http://127.0.0.1:${port}${readApiRoot(compiled.source)}`,
    server,
    store: options.store,
    faults,
    close: async () => {
      server.close();
      server.closeAllConnections();
    },
  };
}
