// Applies supabase/migrations to the database that DATABASE_URL names: npm run migrate [-- --dry-run]

import { basename } from 'node:path';
import { parseArgs } from 'node:util';
import pg from 'pg';
import { readConfig } from '../src/config.ts';
import { applyMigrations, findPendingMigrations, type Migration, readMigrations } from '../src/store/migrations.ts';

const USAGE = 'Usage: npm run migrate [-- --dry-run]';
const FOLDER = 'supabase/migrations';
/** How long the server may take to accept the connection, in milliseconds. */
const CONNECT_MS = 10_000;

/** What to do about an error of a connection, by the code of Postgres or of the system. */
const ADVICE: Readonly<Record<string, string>> = {
  '28000': 'check the user in DATABASE_URL, and what the server lets in',
  '28P01': 'check the user and the password in DATABASE_URL',
  '3D000': 'create the database, or check its name in DATABASE_URL',
  ECONNREFUSED: 'check that the server runs, and the host and port in DATABASE_URL',
  ENOTFOUND: 'check the host in DATABASE_URL',
};

async function main(args: string[]): Promise<void> {
  const isDryRun = readArguments(args);
  const { store } = readConfig(process.env);
  if (store.kind !== 'postgres') {
    throw new Error(
      'DATABASE_URL is not set: expected the database to migrate, like postgres://user:password@host/name',
    );
  }
  const migrations = readMigrations(FOLDER);
  const client = await connect(store.url);
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

async function connect(url: string): Promise<pg.Client> {
  let client: pg.Client;
  try {
    client = new pg.Client({
      connectionString: url,
      connectionTimeoutMillis: CONNECT_MS,
      application_name: 'wellness-migrate',
    });
  } catch (error) {
    throw new Error(`DATABASE_URL cannot be read: ${(error as Error).message}; percent-encode the password in it`);
  }
  // Without a listener the end of the connection would end the process; the query that runs is told of it too.
  client.on('error', () => {});
  try {
    await client.connect();
  } catch (error) {
    await client.end().catch(() => {});
    throw toConnectionError(client, error);
  }
  return client;
}

/** Without the database: a password with an unencoded slash would be taken for a part of its name. */
function toConnectionError({ host, port }: pg.Client, error: unknown): Error {
  // A host with several addresses gives an error without a message.
  const { code = '', message } = error as { code?: string; message: string };
  return new Error(`Cannot connect to ${host}:${port}: ${message || code}; ${ADVICE[code] ?? 'check DATABASE_URL'}`);
}

main(process.argv.slice(2)).catch((error) => {
  console.error(error instanceof pg.DatabaseError ? `${error.message} (${error.code})` : error.message);
  process.exit(1);
});
