import { execFileSync } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { OpenAPIV3 } from 'openapi-types';
import { type Config, readConfig } from '../../src/config.ts';
import type { Fault } from '../../src/errors.ts';
import { type GatewayServer, toOrigin } from '../../src/http/server.ts';
import { findUsageFunction } from '../../src/limits/usage.ts';
import { type CompiledDocument, compile, compileFile } from '../../src/openapi/compile.ts';
import { readApiRoot } from '../../src/openapi/document.ts';
import { type Group, openService } from '../../src/service.ts';
import { distribute, runScript } from '../../src/store/migrations.ts';
import { openPostgres } from '../../src/store/postgres/store.ts';
import type { Result, Store } from '../../src/store/store.ts';
import { openSupabase } from '../../src/store/supabase/store.ts';
import { type LimitedStore, limited } from '../../src/store/turns.ts';
import type { EndedRequest } from '../../src/telemetry/record.ts';
import { copyCitusDatabase } from './citus.ts';
import { asAdmin, createDatabase, databaseUrl, loginUrl, POSTGREST_KEY, startPostgrest } from './servers.ts';

export const MIGRATIONS = 'supabase/migrations';
export const SEED = { file: 'supabase/seed.sql', sql: readFileSync('supabase/seed.sql', 'utf8') };

/** Copies the migrations into a folder of the test's own, with more files by their names. */
export function copyMigrations(more: Readonly<Record<string, string | Buffer>> = {}): string {
  const folder = mkdtempSync(join(tmpdir(), 'migrations-'));
  cpSync(MIGRATIONS, folder, { recursive: true });
  for (const [name, sql] of Object.entries(more)) writeFileSync(join(folder, name), sql);
  return folder;
}

/** The kinds of store. A gateway uses Citus directly or through PostgREST. */
export type StoreKind = 'postgres' | 'supabase' | 'citus' | 'citus by PostgREST';

/** A gateway's store and document, and the configuration in which it differs from CONFIG. */
export type TestGatewayOptions = Partial<Omit<Config, 'store'>> & {
  readonly store: Store;
  readonly document?: OpenAPIV3.Document | undefined;
  /** Whether the store also gets the calls for the demo data and the use of keys, and not only the calls of requests. */
  readonly hasWholeStore?: boolean;
  /** What it shares with other processes. */
  readonly group?: Group | undefined;
  /** Receives each request that has ended. */
  readonly onEnd?: (request: EndedRequest) => void;
};

export type TestGateway = {
  /** The base URL of the operations' paths. */
  readonly url: string;
  readonly server: GatewayServer;
  readonly store: Store;
  /** The faults of requests that were logged. */
  readonly faults: Fault[];
  /** The other messages of the log. */
  readonly told: string[];
  close(): Promise<void>;
};

/** The databases that createDatabase and copyCitusDatabase copy. */
type Templates = { readonly adminUrl: string; readonly nodes?: readonly string[] };

/** The maximum size of a store's answer, and SQL that the test adds. */
type DemoStoreOptions = { readonly answerLimit?: number; readonly sql?: string };

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
  if (kind === 'citus' || kind === 'postgres') {
    // Any node of Citus can answer: use one that is not the coordinator.
    const adminUrl = kind === 'citus' ? databaseUrl(nodes[1] ?? '', database.name) : database.adminUrl;
    const url = loginUrl(adminUrl, 'gateway_test');
    return closing(openPostgres({ url, connections: 4, deadlineMs, ...limits }), database.drop);
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

/** Copies a data directory with the demo data beside itself. Creating a new one takes seconds. */
export function copyDataDir(dataDir: string): string {
  const copy = mkdtempSync(`${dataDir}-`);
  // Node's own copy gives folders other permissions.
  execFileSync('cp', ['-a', `${dataDir}/.`, copy]);
  return copy;
}

/** A store that stops its servers when it is closed. */
function closing(store: Store, stop: () => Promise<void>): Store {
  const { close } = store;
  return Object.assign(store, {
    close: async () => {
      await close.call(store);
      await stop();
    },
  });
}

const ownProgram = compileFile('openapi.yaml');
const programs = new WeakMap<OpenAPIV3.Document, Promise<CompiledDocument>>();

/** Compiles a document once, by default openapi.yaml: most gateways of the tests have the same one, and none changes it. */
export function compileOnce(document?: OpenAPIV3.Document): Promise<CompiledDocument> {
  if (!document) return ownProgram;
  const program = programs.get(document) ?? compile(document);
  programs.set(document, program);
  return program;
}

/** The configuration of a test's gateway, whose store is given. */
const CONFIG = readConfig({
  PORT: '0',
  DATABASE_URL: 'postgres://test@127.0.0.1/test',
  CONTRACT_CHECK: 'warn',
  REFUSALS_PER_MINUTE: '0',
});

/** The answers to calls that do not reach the store: there is no demo data, and no key has limits. */
const NO_DEMO: Result = { failure: { kind: 'refusedKey', text: 'no demo data' } };
const RECORDED: Result = { json: '[]', count: 0 };

/** Creates a log that keeps its messages. */
export function createTestLog(onEnd?: (request: EndedRequest) => void) {
  const faults: Fault[] = [];
  const told: string[] = [];
  const tell = (text: string) => void told.push(text);
  const log = {
    ...{ info: tell, warn: tell, error: tell, flush: async () => {} },
    request: (request: EndedRequest) => {
      if (request.fault) {
        faults.push(request.fault);
        console.error(request.fault);
      }
      onEnd?.(request);
    },
    fault: (text: string, fault: Fault, record?: object) => void (record ? faults.push(fault) : tell(text)),
  };
  return { log, faults, told };
}

/** Starts a gateway in this process from environment variables, as a process does. Returns the URL of its operations, and its log. */
export async function startConfigured(env: Record<string, string>) {
  const { log, told } = createTestLog();
  const document = await compileOnce();
  const service = await openService(readConfig({ PORT: '0', ...env }), { document, log });
  await service.welcome({ workers: 1 });
  return { url: toOrigin(service.server) + readApiRoot(document.source), told, close: () => service.close() };
}

/** Starts a gateway in this process that is closed after the test; the store stays open. */
export async function startOwnGateway(options: TestGatewayOptions): Promise<TestGateway> {
  const { onTestFinished } = await import('vitest');
  const gateway = await startGateway(options);
  onTestFinished(gateway.close);
  return gateway;
}

/** Starts a gateway in this process, on a port of its own; closing it leaves the store open. */
export async function startGateway(options: TestGatewayOptions): Promise<TestGateway> {
  const { store, document, hasWholeStore = false, group, onEnd, ...own } = options;
  const config = { ...CONFIG, ...own };
  const { log, faults, told } = createTestLog(onEnd);
  const compiled = await compileOnce(document);
  const turns =
    'load' in store ? (store as LimitedStore) : limited(store, { slots: config.connections, waiting: 1_000 });
  let isStarting = true;
  const callOfRequest: Store['call'] = async (asked, ...others) => {
    if (isStarting) return NO_DEMO;
    return asked.function === findUsageFunction(compiled) ? RECORDED : turns.call(asked, ...others);
  };
  const served = { ...turns, call: hasWholeStore ? turns.call : callOfRequest, close: async () => {} };
  const service = await openService(config, {
    document: compiled,
    log,
    openStore: async () => ({ store: served }),
    ...(group && { group }),
  });
  isStarting = false;
  const { server } = service;
  return {
    url: toOrigin(server) + readApiRoot(compiled.source),
    ...{ server, store, faults, told },
    close: async () => {
      server.closeAllConnections();
      await service.close();
    },
  };
}
