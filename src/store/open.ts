// Chooses the store that the configuration names, and loads no other.

import { readFileSync } from 'node:fs';
import type { Config } from '../config.ts';
import { type LimitedStore, limited } from './limits.ts';
import type { Store } from './store.ts';

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
