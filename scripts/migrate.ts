// Applies supabase/migrations to the database in DATABASE_URL: npm run migrate [-- --dry-run]

import { basename } from 'node:path';
import { Command } from 'commander';
import pg from 'pg';
import { readConfig } from '../src/config.ts';
import {
  applyMigrations,
  findPendingMigrations,
  type Migration,
  readMigrations,
  toWarning,
} from '../src/store/migrations.ts';
import { connect } from './database.ts';

const FOLDER = 'supabase/migrations';

async function run({ dryRun: isDryRun = false }: { dryRun?: boolean }): Promise<void> {
  const { store } = readConfig(process.env);
  if (store.kind !== 'postgres') {
    throw new Error(
      'DATABASE_URL is not set: expected the database to migrate, like postgres://user:password@host/name',
    );
  }
  const migrations = readMigrations(FOLDER);
  const client = await connect(store.url, 'wellness-migrate');
  client.on('notice', (notice) => {
    const warning = toWarning(notice);
    if (warning) console.warn(`warning: ${warning}`);
  });
  try {
    const done = await (isDryRun ? listPending(client, migrations) : apply(client, migrations));
    if (done.length === 0) console.log('nothing to do');
  } finally {
    await client.end();
  }
}

async function listPending(client: pg.Client, migrations: readonly Migration[]): Promise<Migration[]> {
  const pending = await findPendingMigrations(client, migrations);
  for (const { file } of pending) console.log(`pending ${basename(file)}`);
  return pending;
}

async function apply(client: pg.Client, migrations: readonly Migration[]): Promise<Migration[]> {
  const reloadSchema = () => client.query(`notify pgrst, 'reload schema'`);
  try {
    const applied = await applyMigrations(client, migrations, ({ file }) => console.log(`applied ${basename(file)}`));
    await reloadSchema();
    return applied;
  } catch (error) {
    // The migrations before the failed one are applied.
    await reloadSchema().catch(() => {});
    throw error;
  }
}

new Command('npm run migrate --')
  .description('Applies the migrations to the database in DATABASE_URL.')
  .option('--dry-run', 'only list the migrations that it would apply')
  .action(run)
  .parseAsync()
  .catch((error) => {
    console.error(error instanceof pg.DatabaseError ? `${error.message} (${error.code})` : error.message);
    process.exitCode = 1;
  });
