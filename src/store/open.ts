// Chooses the configured store, and loads the code of no other.

import { availableParallelism } from 'node:os';
import { basename } from 'node:path';
import type pg from 'pg';
import type { Config, StoreConfig } from '../config.ts';
import { readDatabaseUrl } from '../database-url.ts';
import { within } from '../deadline.ts';
import { OperatorError } from '../errors.ts';
import type { Content, EmbeddedServer } from './embedded/store.ts';
import { findPendingMigrations, type Migration, readMigrations, readScript } from './migrations.ts';
import type { Call, Result, Store } from './store.ts';
import { type LimitedStore, limited } from './turns.ts';

/** The files that a new embedded store is made from. */
type StoreFiles = { readonly migrations: string; readonly seed: string };

/** What npm run dev does to the embedded store of its own process. */
export type OwnStore = {
  /** Applies new migrations and gives their files. Throws MigrationError. */
  migrate(): Promise<string[]>;
  /** Calls a function, and rolls back what it did. */
  attempt(call: Call): Promise<Result>;
};

export type { Content, EmbeddedServer };

/** The configuration of an embedded store. */
export type EmbeddedConfig = Extract<StoreConfig, { kind: 'embedded' }>;

type StoreLog = { info(text: string): void; warn(text: string): void };

/**
 * Opens the configured store. Starts the server of an embedded one, except in a worker, whose primary process has done so. Throws
 * what openServer throws; a store that cannot be reached is not an error.
 */
export async function openStore(
  config: Config,
  files: StoreFiles,
  log: StoreLog,
  isWorker = false,
): Promise<{ readonly store: LimitedStore; readonly own?: OwnStore }> {
  const server = isWorker ? undefined : await openServer(config, files, log);
  const store = await openServed(config, log, server?.dataDir);
  if (!server) return { store };
  const own: OwnStore = {
    migrate: () => server.migrate(files.migrations).finally(store.renew),
    attempt: (call) => server.attempt(call, config.deadlineMs),
  };
  return { store: { ...store, close: () => store.close().finally(server.close) }, own };
}

/** Opens the configured store. The server of an embedded one must run already. */
export async function openServed(config: Config, log: StoreLog, dataDir?: string): Promise<LimitedStore> {
  const store = await openUnlimited(config, log, dataDir);
  const { connections, waiting, workers } = config;
  // A second batch of each worker would wait for a processor if the workers take more than half of them.
  const fastSlots = workers > 1 && workers > availableParallelism() / 2 ? 1 : undefined;
  return limited(store, { slots: connections, slotsOfShare: Math.ceil(connections / 2), fastSlots, waiting });
}

/**
 * Starts the server of an embedded store, and applies the migrations; undefined for another store. Throws FolderError,
 * MigrationError and ServerError.
 */
export async function openServer(
  { store, connections }: Pick<Config, 'store' | 'connections'>,
  files: StoreFiles,
  log: StoreLog,
): Promise<EmbeddedServer | undefined> {
  if (store.kind !== 'embedded') return undefined;
  return startServer({ ...store, connections }, log, toContent(store, files));
}

async function startServer(
  options: EmbeddedConfig & { connections?: number },
  { info, warn }: StoreLog,
  content: Content | undefined,
): Promise<EmbeddedServer> {
  const { openServer } = await import('./embedded/store.ts');
  const onCreate = () => info(`Creating a store in ${options.dataDir ?? 'a temporary folder'}`);
  return openServer({ ...options, onCreate, onWarning: warn }, content);
}

/** Timeout of connecting to the server of another process, in ms. */
const REACH_MS = 10_000;

/**
 * Starts the server of an embedded store, or finds the one that a gateway runs on it (`isServed`). Returns the URL of
 * its administrator. Throws as openServer does.
 */
export async function reachServer(
  store: EmbeddedConfig,
  content?: Content,
  log: StoreLog = { info: console.error, warn: console.error },
) {
  const [{ toUrl }, { FolderInUse }] = await Promise.all([
    import('./embedded/store.ts'),
    import('./embedded/folder.ts'),
  ]);
  try {
    const { dataDir, close } = await startServer(store, log, content);
    return { url: toUrl(dataDir, 'postgres'), isServed: false, close };
  } catch (error) {
    if (!(error instanceof FolderInUse) || !store.dataDir) throw error;
    const url = toUrl(store.dataDir, 'postgres');
    const { connectToPrimary } = await import('./postgres/servers.ts');
    const client = await connectToPrimary(readDatabaseUrl(url), { connectionTimeoutMillis: REACH_MS }).catch(() => {
      // The process that has the folder has not started its server yet: the message names it.
      throw error;
    });
    await client.end();
    return { url, isServed: true, close: async () => {} };
  }
}

/** The migrations and, if wanted, the demo data of an embedded store. */
export function toContent({ demoData }: EmbeddedConfig, { migrations, seed }: StoreFiles): Content {
  return {
    migrationsDir: migrations,
    seed: demoData ? readScript(seed) : undefined,
  };
}

/** Whether a start would create the embedded store. */
export async function isNewStore({ dataDir }: EmbeddedConfig): Promise<boolean> {
  const { hasStore } = await import('./embedded/folder.ts');
  return dataDir === undefined || !hasStore(dataDir);
}

/** All migrations are applied, some are missing, or why that is unknown. */
export type Pending =
  | { readonly applied: number }
  | { readonly missing: readonly string[] }
  | { readonly unknown: string };

/** A worker node of Citus has the objects of the migrations, but not the table that records them. */
const IS_WORKER = `
select to_regnamespace('private') is not null and to_regclass('supabase_migrations.schema_migrations') is null as "isWorker"`;

const INSUFFICIENT_PRIVILEGE = '42501';
const MAY_NOT_READ = 'the login may not read them; npm run migrate -- --dry-run shows them to the role that migrates';

/** Finds the missing migrations of the configured store. Changes nothing. Throws OperatorError if it cannot be opened. */
export async function inspectMigrations({ store, deadlineMs }: Config, folder: string): Promise<Pending> {
  if (store.kind === 'supabase') return { unknown: 'the Data API does not show them' };
  if (store.kind === 'postgres') return inspectDatabase(store.url, deadlineMs, folder);
  if (await isNewStore(store)) {
    const { checkFolder } = await import('./embedded/folder.ts');
    if (store.dataDir) checkFolder(store.dataDir);
    return { missing: ['all of them to a new store'] };
  }
  const server = await reachServer(store);
  return inspectDatabase(server.url, deadlineMs, folder).finally(server.close);
}

async function inspectDatabase(url: string, deadlineMs: number, folder: string): Promise<Pending> {
  const migrations = readMigrations(folder);
  const { connectToPrimary } = await import('./postgres/servers.ts');
  let client: pg.Client | undefined;
  try {
    const connected = await connectToPrimary(readDatabaseUrl(url), { connectionTimeoutMillis: deadlineMs });
    client = connected;
    // Another session may have locked the record.
    return await within(deadlineMs, () => inspectRecord(connected, migrations));
  } catch (error) {
    if (error instanceof OperatorError) throw error;
    const mayNotRead = (error as NodeJS.ErrnoException).code === INSUFFICIENT_PRIVILEGE;
    return { unknown: mayNotRead ? MAY_NOT_READ : 'the store cannot be asked' };
  } finally {
    await client?.end().catch(() => {});
  }
}

async function inspectRecord(client: pg.Client, migrations: readonly Migration[]): Promise<Pending> {
  const { rows } = await client.query<{ readonly isWorker: boolean }>(IS_WORKER);
  if (rows[0]?.isWorker) return { unknown: 'the coordinator of Citus has their record' };
  const missing = (await findPendingMigrations(client, migrations)).map(({ file }) => basename(file));
  return missing.length > 0 ? { missing } : { applied: migrations.length };
}

async function openUnlimited(
  { store, connections, deadlineMs, answerLimit }: Config,
  log: StoreLog,
  dataDir: string | undefined,
): Promise<Store> {
  if (store.kind === 'supabase') {
    const { openSupabase } = await import('./supabase/store.ts');
    return openSupabase({ ...store, connections, deadlineMs, answerLimit });
  }
  const { openPostgres } = await import('./postgres/store.ts');
  const onChange = (text: string, isProblem: boolean) => (isProblem ? log.warn : log.info)(text);
  return openPostgres({
    ...(store.kind === 'embedded' ? await toPostgres(store, dataDir) : store),
    connections,
    deadlineMs,
    answerLimit,
    onWarning: log.warn,
    onChange,
  });
}

/** The Postgres of an embedded store, which runs in its folder or in a temporary one. */
async function toPostgres(store: EmbeddedConfig, dataDir = store.dataDir ?? '') {
  const { toPsql, toUrl } = await import('./embedded/store.ts');
  const description = `embedded Postgres, data in ${store.dataDir ?? 'a temporary folder'}; ${toPsql(dataDir)}`;
  return { url: toUrl(dataDir), description };
}
