// Chooses the store that the configuration names, and loads no other.

import { existsSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import type pg from 'pg';
import type { Config } from '../config.ts';
import { readDatabaseUrl } from '../database-url.ts';
import { OperatorError } from '../errors.ts';
import { type LimitedStore, type Limits, limited } from './limits.ts';
import { type Database, findPendingMigrations, readMigrations } from './migrations.ts';
import type { Store } from './store.ts';

/** The files that a new embedded store is made from. */
export type StoreFiles = { readonly migrations: string; readonly seed: string };

/** An open store within its limits. */
export type OpenStore = {
  readonly store: LimitedStore;
  /** Applies new migrations and gives their files; undefined for a store that others share. */
  readonly migrate: (() => Promise<string[]>) | undefined;
};

/** What a store needs where the gateway has several processes. */
export type StoreGroup = {
  /** Whether this process logs what all of them see. */
  readonly isFirst: boolean;
  /** Tells the other processes what Store.noteWrite takes. */
  readonly shareWrite: (position: number) => Promise<void>;
};

/** Opens the configured store. Throws what an embedded store throws; one that cannot be reached is not an error. */
export async function openStore(
  config: Config,
  files: StoreFiles,
  log: { info(text: string): void; warn(text: string): void },
  group?: StoreGroup,
): Promise<OpenStore> {
  const { waiting } = config;
  const { store, migrate } = await openUnlimited(config, files, log, group);
  return { store: limited(store, { ...toSlots(config, store), waiting }), migrate };
}

function toSlots({ store: { kind }, connections }: Config, { hasStandbys }: Store): Omit<Limits, 'waiting'> {
  // An embedded store runs one call at a time. Two more are sent ahead, and any others would wait in a queue that keys
  // do not share fairly.
  if (kind === 'embedded') return { slots: Math.min(3, connections) };
  const slots = { slots: connections, slotsOfShare: Math.ceil(connections / 2) };
  // Writes that hang on the primary hold up no reads on standbys, and leave connections to the reads that need the primary.
  return hasStandbys ? { ...slots, slotsOfWrites: Math.ceil((connections * 3) / 4) } : slots;
}

/** Which migrations a store lacks: none of so many, some that the start or `npm run migrate` applies, or why that is unknown. */
export type Pending =
  | { readonly applied: number }
  | { readonly missing: readonly string[]; readonly byStart: boolean }
  | { readonly unknown: string };

/** A worker of Citus has what the migrations make, and not the table that records them. */
const IS_WORKER = `
select to_regnamespace('private') is not null and to_regclass('supabase_migrations.schema_migrations') is null as "isWorker"`;

/** Finds the migrations that the configured store lacks, and changes nothing. Throws OperatorError if it cannot be opened. */
export async function inspectMigrations({ store, deadlineMs }: Config, folder: string): Promise<Pending> {
  const migrations = readMigrations(folder);
  const find = async (db: Database, byStart: boolean): Promise<Pending> => {
    const missing = (await findPendingMigrations(db, migrations)).map(({ file }) => basename(file));
    return missing.length > 0 ? { missing, byStart } : { applied: migrations.length };
  };
  if (store.kind === 'supabase') return { unknown: 'the Data API does not show them' };
  if (store.kind === 'postgres') {
    const { connectToPrimary, needsPrivilege } = await import('./postgres/roles.ts');
    let client: pg.Client | undefined;
    try {
      client = await connectToPrimary(readDatabaseUrl(store.url), { connectionTimeoutMillis: deadlineMs });
      const { rows } = await client.query<{ readonly isWorker: boolean }>(IS_WORKER);
      if (rows[0]?.isWorker) return { unknown: 'the coordinator of Citus has their record' };
      return await find(client, false);
    } catch (error) {
      if (error instanceof OperatorError) throw error;
      if (needsPrivilege(error)) {
        return {
          unknown: 'the login may not read them; npm run migrate -- --dry-run shows them to the role that migrates',
        };
      }
      return { unknown: 'the store cannot be asked' };
    } finally {
      await client?.end().catch(() => {});
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
  group?: StoreGroup,
): Promise<{ store: Store; migrate: OpenStore['migrate'] }> {
  if (store.kind === 'postgres') {
    const { openPostgres } = await import('./postgres/store.ts');
    const { isFirst = true, shareWrite } = group ?? {};
    const onChange = (text: string, isProblem: boolean) => (isProblem ? log.warn : log.info)(text);
    const postgres = openPostgres({
      ...store,
      connections,
      deadlineMs,
      answerLimit,
      onWarning: log.warn,
      onChange: isFirst ? onChange : undefined,
      shareWrite,
    });
    return { store: postgres, migrate: undefined };
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
