// Applies supabase/migrations to the database in DATABASE_URL: npm run migrate [-- --dry-run] [-- --serving URL]

import { basename } from 'node:path';
import { Command, Option } from 'commander';
import pg from 'pg';
import { connect } from '../src/admin/database.ts';
import { readConfig } from '../src/config.ts';
import {
  applyMigrations,
  distribute,
  findPendingMigrations,
  type Migration,
  readDistribution,
  readMigrations,
  toWarning,
} from '../src/store/migrations.ts';
import type { ServedDocuments } from './served-documents.ts';

const FOLDER = 'supabase/migrations';

type Options = { readonly dryRun?: boolean; readonly serving?: readonly string[] };

async function run({ dryRun: isDryRun = false, serving = [] }: Options): Promise<void> {
  const { store } = readConfig(process.env);
  if (store.kind !== 'postgres') {
    throw new Error(
      'DATABASE_URL is not set: expected the database to migrate, like postgres://user:password@host/name',
    );
  }
  const migrations = readMigrations(FOLDER);
  // Loaded only if used: the documents' compiler takes memory.
  const served = serving.length > 0 ? await (await import('./served-documents.ts')).readServed(serving) : undefined;
  const client = await connect(store.url, 'wellness-migrate');
  client.on('notice', (notice) => {
    const warning = toWarning(notice);
    if (warning) console.warn(`warning: ${warning}`);
  });
  try {
    const done = await (isDryRun ? listPending(client, migrations) : apply(client, migrations, served));
    if (done.length === 0) console.log('nothing to do');
  } finally {
    await client.end();
  }
}

async function listPending(client: pg.Client, migrations: readonly Migration[]): Promise<string[]> {
  const pending = await findPendingMigrations(client, migrations);
  for (const { file } of pending) console.log(`pending ${basename(file)}`);
  const steps = await readDistribution(client);
  for (const step of steps) console.log(`pending ${step}`);
  return [...pending.map(({ file }) => file), ...steps];
}

async function apply(
  client: pg.Client,
  migrations: readonly Migration[],
  served: ServedDocuments | undefined,
): Promise<string[]> {
  const reloadSchema = () => client.query(`notify pgrst, 'reload schema'`);
  try {
    const check = await served?.watch(client);
    const applied = await applyMigrations(
      client,
      migrations,
      ({ file }) => console.log(`applied ${basename(file)}`),
      check,
    );
    const steps = await distribute(client);
    for (const step of steps) console.log(`distributed: ${step}`);
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

new Command('npm run migrate --')
  .description('Applies the migrations to the database in DATABASE_URL.')
  .addOption(new Option('--dry-run', 'only list the migrations that it would apply').conflicts('serving'))
  .option('--serving <url...>', 'refuse a migration that breaks the document of this running gateway')
  .action(run)
  .parseAsync()
  .catch((error) => {
    console.error(error instanceof pg.DatabaseError ? describe(error) : error.message);
    process.exitCode = 1;
  });
