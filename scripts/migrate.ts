// Applies supabase/migrations to the database in DATABASE_URL: npm run migrate [-- --dry-run] [-- --serving URL]

import { basename } from 'node:path';
import { Command, CommanderError, Option } from 'commander';
import pg from 'pg';
import { connect } from '../src/admin/database.ts';
import { type Environment, preferDatabase, readConfig } from '../src/config.ts';
import {
  applyMigrations,
  distribute,
  findPendingMigrations,
  type Migration,
  readDistribution,
  readMigrations,
  toWarning,
} from '../src/store/migrations.ts';
import type { WatchDocuments } from './served-documents.ts';

const FOLDER = 'supabase/migrations';

type Options = { readonly dryRun?: boolean; readonly serving?: readonly string[] };

/** The environment, the folder of the migrations, and the outputs of the command. */
type Surroundings = {
  readonly env: Environment;
  readonly folder: string;
  print(line: string): void;
  printError(line: string): void;
};

/** Runs the command and returns the exit code. */
export async function migrate(args: readonly string[], surroundings: Surroundings): Promise<number> {
  const { print, printError } = surroundings;
  const command = new Command('npm run migrate --')
    .description('Applies the migrations to the database in DATABASE_URL.')
    .addOption(new Option('--dry-run', 'only list the migrations that it would apply').conflicts('serving'))
    .option('--serving <url...>', 'refuse a migration that breaks the document of this running gateway')
    .exitOverride()
    .configureOutput({ writeOut: (text) => print(text.trimEnd()), writeErr: (text) => printError(text.trimEnd()) })
    .action((options: Options) => run(options, surroundings));
  try {
    await command.parseAsync(args, { from: 'user' });
    return 0;
  } catch (error) {
    // Commander has printed it.
    if (error instanceof CommanderError) return error.exitCode;
    printError(error instanceof pg.DatabaseError ? describe(error) : (error as Error).message);
    return 1;
  }
}

async function run({ dryRun: isDryRun = false, serving = [] }: Options, surroundings: Surroundings): Promise<void> {
  const { env, folder, print, printError } = surroundings;
  const { store } = readConfig(preferDatabase(env));
  if (store.kind !== 'postgres') {
    throw new Error(
      'DATABASE_URL is not set: expected the database to migrate, like postgres://user:password@host/name',
    );
  }
  const migrations = readMigrations(folder);
  // Loaded on demand: the document compiler needs memory.
  const watch = serving.length > 0 ? await (await import('./served-documents.ts')).readServed(serving) : undefined;
  const client = await connect(store.url, 'wellness-migrate');
  client.on('notice', (notice) => {
    const warning = toWarning(notice);
    if (warning) printError(`warning: ${warning}`);
  });
  try {
    const done = await (isDryRun ? listPending(client, migrations, print) : apply(client, migrations, watch, print));
    if (done.length === 0) print('nothing to do');
  } finally {
    await client.end();
  }
}

async function listPending(
  client: pg.Client,
  migrations: readonly Migration[],
  print: (line: string) => void,
): Promise<string[]> {
  const files = (await findPendingMigrations(client, migrations)).map(({ file }) => basename(file));
  const pending = [...files, ...(await readDistribution(client))];
  for (const one of pending) print(`pending ${one}`);
  return pending;
}

async function apply(
  client: pg.Client,
  migrations: readonly Migration[],
  watch: WatchDocuments | undefined,
  print: (line: string) => void,
): Promise<string[]> {
  const reloadSchema = () => client.query(`notify pgrst, 'reload schema'`);
  try {
    const check = await watch?.(client);
    const applied = await applyMigrations(client, migrations, ({ file }) => print(`applied ${basename(file)}`), check);
    const steps = await distribute(client);
    for (const step of steps) print(`distributed: ${step}`);
    await reloadSchema();
    return [...applied.map(({ file }) => file), ...steps];
  } catch (error) {
    // The migrations before the failed one are applied.
    await reloadSchema().catch(() => {});
    throw error;
  }
}

const ADVICE: Readonly<Record<string, string>> = {
  '25006': '; this server takes no writes, as a standby does: name the primary in DATABASE_URL, or all servers',
  '42501': "; connect as the database's owner, not with the gateway's login",
};

function describe({ code = '', message }: pg.DatabaseError): string {
  return `${message} (${code})${ADVICE[code] ?? ''}`;
}

if (import.meta.main) {
  const { env } = process;
  // The reader may exit early, as `head` does: the rest is still applied.
  process.stdout.on('error', () => {});
  const surroundings = { env, folder: FOLDER, print: console.log, printError: console.error };
  process.exitCode = await migrate(process.argv.slice(2), surroundings);
}
