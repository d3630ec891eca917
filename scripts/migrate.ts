// Applies supabase/migrations to the database that DATABASE_URL names: npm run migrate [-- --dry-run]

import { basename } from 'node:path';
import { parseArgs } from 'node:util';
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

const USAGE = 'Usage: npm run migrate [-- --dry-run]';
const FOLDER = 'supabase/migrations';

async function main(args: string[]): Promise<void> {
  const isDryRun = readArguments(args);
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

function readArguments(args: string[]): boolean {
  try {
    return parseArgs({ args, options: { 'dry-run': { type: 'boolean', default: false } } }).values['dry-run'];
  } catch (error) {
    throw new Error(`${(error as Error).message}\n${USAGE}`);
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
    // The migrations before the one that failed stay.
    await reloadSchema().catch(() => {});
    throw error;
  }
}

main(process.argv.slice(2)).catch((error) => {
  console.error(error instanceof pg.DatabaseError ? `${error.message} (${error.code})` : error.message);
  process.exit(1);
});
