// Chooses the store that the configuration names, and loads no other.

import { existsSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import type { Config } from '../config.ts';
import { OperatorError } from '../errors.ts';
import { type LimitedStore, limited } from './limits.ts';
import { type Connection, findPendingMigrations, readMigrations } from './migrations.ts';
import type { Store } from './store.ts';

/** A privilege is missing (SQLSTATE 42501). */
const INSUFFICIENT_PRIVILEGE = '42501';

/** The files that a new embedded store is made from. */
export type StoreFiles = { readonly migrations: string; readonly seed: string };

/** An open store within its limits. */
export type OpenStore = {
  readonly store: LimitedStore;
  /** Applies new migrations and gives their files; undefined for a store that others share. */
  readonly migrate: (() => Promise<string[]>) | undefined;
};

/** Opens the configured store. Throws what an embedded store throws; one that cannot be reached is not an error. */
export async function openStore(
  config: Config,
  files: StoreFiles,
  log: { info(text: string): void; warn(text: string): void },
): Promise<OpenStore> {
  const { connections, waiting } = config;
  const { store, migrate } = await openUnlimited(config, files, log);
  // An embedded store runs one call at a time. Two more are sent ahead, and any others would wait in a queue that keys
  // do not share fairly.
  const limits =
    config.store.kind === 'embedded'
      ? { slots: Math.min(3, connections) }
      : { slots: connections, slotsOfShare: Math.ceil(connections / 2) };
  return { store: limited(store, { ...limits, waiting }), migrate };
}

/** Which migrations a store lacks: none of so many, some that the start or `npm run migrate` applies, or why that is unknown. */
export type Pending =
  | { readonly applied: number }
  | { readonly missing: readonly string[]; readonly byStart: boolean }
  | { readonly unknown: string };

/** Finds the migrations that the configured store lacks, and changes nothing. Throws OperatorError if it cannot be opened. */
export async function findPending({ store, deadlineMs }: Config, folder: string): Promise<Pending> {
  const migrations = readMigrations(folder);
  const find = async (db: Connection, byStart: boolean): Promise<Pending> => {
    const missing = (await findPendingMigrations(db, migrations)).map(({ file }) => basename(file));
    return missing.length > 0 ? { missing, byStart } : { applied: migrations.length };
  };
  if (store.kind === 'supabase') return { unknown: 'the Data API does not show them' };
  if (store.kind === 'postgres') {
    const { default: pg } = await import('pg');
    const client = new pg.Client({ connectionString: store.url, connectionTimeoutMillis: deadlineMs });
    client.on('error', () => {});
    try {
      await client.connect();
      return await find(client, false);
    } catch (error) {
      if (error instanceof OperatorError) throw error;
      if ((error as { code?: string }).code === INSUFFICIENT_PRIVILEGE) {
        return {
          unknown: 'the login may not read them; npm run migrate -- --dry-run shows them to the role that migrates',
        };
      }
      return { unknown: 'the store cannot be asked' };
    } finally {
      await client.end().catch(() => {});
    }
  }
  const { dataDir } = store;
  const [{ checkNewFolder, lockFolder }, { openPGlite }] = await Promise.all([
    import('./embedded/folder.ts'),
    import('./embedded/pglite.ts'),
  ]);
  if (!dataDir || !existsSync(join(dataDir, 'postgres'))) {
    if (dataDir) checkNewFolder(dataDir);
    return { missing: ['all of them to a new store'], byStart: true };
  }
  const unlock = lockFolder(dataDir);
  try {
    const db = await openPGlite(join(dataDir, 'postgres'), { fsync: store.fsync });
    return await find(db, true).finally(() => db.close());
  } finally {
    unlock();
  }
}

async function openUnlimited(
  { store, connections, deadlineMs, answerLimit }: Config,
  files: StoreFiles,
  log: { info(text: string): void; warn(text: string): void },
): Promise<{ store: Store; migrate: OpenStore['migrate'] }> {
  if (store.kind === 'postgres') {
    const { openPostgres } = await import('./postgres/store.ts');
    const options = { ...store, connections, deadlineMs, answerLimit, onWarning: log.warn };
    return { store: openPostgres(options), migrate: undefined };
  }
  if (store.kind === 'supabase') {
    const { openSupabase } = await import('./supabase/store.ts');
    return { store: openSupabase({ ...store, connections, deadlineMs, answerLimit }), migrate: undefined };
  }
  const { openEmbedded } = await import('./embedded/store.ts');
  const embedded = await openEmbedded({
    dataDir: store.dataDir,
    fsync: store.fsync,
    migrationsDir: files.migrations,
    seed: store.demoData ? { file: files.seed, sql: readFileSync(files.seed, 'utf8') } : undefined,
    statementLimitMs: deadlineMs,
    answerLimit,
    onCreate: () => log.info(`Creating a store in ${store.dataDir}, which takes a few seconds`),
    onWarning: log.warn,
  });
  return { store: embedded, migrate: () => embedded.migrate() };
}
