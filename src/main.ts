// Starts and stops the process. The only reader of process.env.

import cluster from 'node:cluster';
import { existsSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { isatty } from 'node:tty';
import { type Config, readConfig } from './config.ts';
import type { DocumentError } from './openapi/document.ts';
import type { OpenStore, ServiceParts } from './service.ts';
import type { Log } from './telemetry/log.ts';

const ROOT = join(import.meta.dirname, '..');
const DOCUMENT = join(ROOT, 'openapi.yaml');
const MIGRATIONS = join(ROOT, 'supabase/migrations');
const PARTS: ServiceParts = {
  document: DOCUMENT,
  keptDocument: join(ROOT, 'node_modules/.cache/document.json'),
  migrations: MIGRATIONS,
  types: join(ROOT, 'client/src/openapi.ts'),
  /** npm run dev: whoever edits a document and a database has one of them first. */
  isWatching: process.argv.includes('--watch'),
  openLog,
  openStore,
};
const STDOUT = 1;

/** What signals do: the first one lets the process finish, the second one does not. */
type Ending = { stop(): Promise<unknown>; cut(): void };

async function main(): Promise<void> {
  if (cluster.isWorker) return beWorker();
  // Until it serves there is nothing to finish; and the first process of a container is not ended by a signal that
  // nobody listens for.
  const ending: Ending = { stop: async () => process.exit(0), cut: () => {} };
  endOnSignal(ending);
  const config = readConfig(process.env);
  if (config.workers > 1 && !PARTS.isWatching) await bePrimary(config, ending);
  else await beAlone(config, ending);
}

async function beAlone(config: Config, ending: Ending): Promise<void> {
  const { openService } = await import('./service.ts');
  const service = await openService(config, PARTS);
  ending.stop = service.close;
  try {
    await service.welcome(1);
    await service.follow();
  } catch (error) {
    await service.close();
    throw error;
  }
}

async function bePrimary(config: Config, ending: Ending): Promise<void> {
  const { Primary } = await import('./cluster/primary.ts');
  const primary = new Primary(config, () => openLog(config, []));
  ending.stop = async () => primary.stop();
  ending.cut = () => primary.kill();
  process.exit(await primary.ended);
}

async function beWorker(): Promise<void> {
  const [{ work }, { readPlace }] = await Promise.all([import('./cluster/worker.ts'), import('./cluster/protocol.ts')]);
  await work(readConfig(process.env), readPlace(process.argv), async (config, group) => {
    const { openService } = await import('./service.ts');
    return openService(config, PARTS, group);
  });
}

async function openLog({ log, workers }: Config, keyHeaders: readonly string[]): Promise<Log> {
  const { createLog } = await import('./telemetry/log.ts');
  const isTerminal = isatty(STDOUT);
  const hasColors = isTerminal && process.stdout.hasColors();
  return createLog({ ...log, keyHeaders, isTerminal, hasColors, isShared: workers > 1 });
}

async function openStore(config: Config, log: Log): Promise<OpenStore> {
  const { connections, waiting } = config;
  const { limited } = await import('./store/limits.ts');
  const { store, migrate } = await openChosen(config, log);
  const bounded = limited(
    store,
    config.store.kind === 'embedded'
      ? // One that its thread runs, the next one, and one more; beyond that they would wait there in one queue for all.
        { running: Math.min(3, connections), waiting }
      : { running: connections, runningOfShare: Math.ceil(connections / 2), waiting },
  );
  return { store: bounded, readLoad: () => ({ ...bounded.load(), ...bounded.connections() }), migrate };
}

async function openChosen(
  { store, connections, deadlineMs, answerLimit }: Config,
  log: Log,
): Promise<Pick<OpenStore, 'store' | 'migrate'>> {
  if (store.kind === 'postgres') {
    const { openPostgres } = await import('./store/postgres/store.ts');
    return { store: openPostgres({ ...store, connections, deadlineMs, answerLimit }), migrate: undefined };
  }
  if (store.kind === 'supabase') {
    const { openSupabase } = await import('./store/supabase/store.ts');
    return { store: openSupabase({ ...store, connections, deadlineMs, answerLimit }), migrate: undefined };
  }
  if (store.dataDir && !existsSync(join(store.dataDir, 'postgres'))) {
    log.info(`Making a store in ${store.dataDir}, which takes some seconds`);
  }
  const seed = join(ROOT, 'supabase/seed.sql');
  const { openEmbedded } = await import('./store/embedded/store.ts');
  const embedded = await openEmbedded({
    dataDir: store.dataDir,
    migrationsDir: MIGRATIONS,
    seed: store.demoData ? { file: seed, sql: readFileSync(seed, 'utf8') } : undefined,
    statementLimitMs: deadlineMs,
    answerLimit,
    onWarning: log.warn,
  });
  return { store: embedded, migrate: () => embedded.migrate() };
}

function endOnSignal(ending: Ending): void {
  const onFirst = async () => {
    process.off('SIGINT', onFirst).off('SIGTERM', onFirst);
    process.once('SIGINT', onSecond).once('SIGTERM', onSecond);
    await ending.stop();
  };
  const onSecond = (signal: NodeJS.Signals) => {
    ending.cut();
    process.off('SIGINT', onSecond).off('SIGTERM', onSecond);
    process.kill(process.pid, signal);
  };
  process.on('SIGINT', onFirst).on('SIGTERM', onFirst);
}

/** Mistakes of whoever runs it are told in a line; the stack is for those that are ours. */
const EXPECTED = ['ConfigError', 'ContractError', 'FolderError', 'MigrationError', 'EmbeddedStoreError'];

main().catch(async (error) => {
  if (error?.name === 'DocumentError') {
    const { createLocator } = await import('./openapi/document.ts');
    console.error((error as DocumentError).describe(basename(DOCUMENT), createLocator(DOCUMENT)));
    process.exit(1);
  }
  const isExpected = EXPECTED.includes(error?.name) || typeof error?.syscall === 'string';
  console.error(isExpected ? error.message : error);
  process.exit(1);
});
