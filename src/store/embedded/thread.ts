// A thread with Postgres in it: PGlite runs a query to its end without giving way, so on the gateway's own thread a
// slow one would stop everything. It runs one statement at a time, in the order in which embedded.ts sends them.

import { existsSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { parentPort, workerData } from 'node:worker_threads';
import { PGlite } from '@electric-sql/pglite';
import {
  applyMigrations,
  type Connection,
  type Migration,
  type Notice,
  runScript,
  type Script,
  toWarning,
} from '../migrations.ts';
import type { PgError } from '../sqlstate.ts';
import type { Row, Statement } from '../statement.ts';
import { Claims } from './claims.ts';
import { EmbeddedSession } from './session.ts';

/** What the thread is started with. */
export type WorkerInput = {
  /** The folder of the database; without one it is in memory, and new at every start. */
  readonly folder: string | undefined;
  readonly migrations: readonly Migration[];
  /** Loaded into a database that is new. */
  readonly seed: Script | undefined;
  /** The memory of the claims, of which the thread takes those of the work that it begins. */
  readonly claims: SharedArrayBuffer;
};

/** A statement to run, or migrations to apply. */
export type Work = Statement | { readonly migrations: readonly Migration[] };

/** What the thread is sent: work, or word to end. */
export type WorkerRequest = { readonly slot: number; readonly work: Work } | 'close';

/**
 * What the thread sends: that it is ready or why it never will be, what a migration warns of, and how each work ended,
 * in their order.
 */
export type WorkerReply =
  | { readonly ready: true }
  | { readonly failed: string }
  | { readonly warning: string }
  | WorkEnd;

/** How work ended: with its first row, with an error, or before it began, since it had been taken back. */
export type WorkEnd = { readonly row: Row | undefined } | { readonly error: PgError } | { readonly skipped: true };

const port = parentPort;
if (!port) throw new Error('embedded-worker.ts runs as a worker thread');

const reply = (message: WorkerReply): void => port.postMessage(message);

try {
  const input = workerData as WorkerInput;
  const db = await prepare(input);
  const session = new EmbeddedSession(db);
  const claims = new Claims(input.claims);
  let last = Promise.resolve();
  port.on('message', (request: WorkerRequest) => {
    last = last.then(async () => {
      if (request === 'close') {
        await db.close();
        port.close();
      } else {
        reply(claims.claim(request.slot) ? await serve(session, request.work) : { skipped: true });
      }
    });
  });
  reply({ ready: true });
} catch (error) {
  reply({ failed: toMessage(error) });
}

/** Opens the database, brings it up to date, and becomes the role that may execute the functions and nothing else. */
async function prepare({ folder, migrations, seed }: WorkerInput): Promise<PGlite> {
  if (folder && !existsSync(join(folder, 'PG_VERSION'))) await create(folder, migrations, seed);
  const db = await open(folder);
  await bringUpToDate(db, migrations);
  if (!folder && seed) await runScript(db, seed);
  await db.exec(`set timezone = 'UTC'; set role gateway`);
  return db;
}

/** Applies what is not applied yet, as the administrator, and gives the files of it. */
async function migrate(session: EmbeddedSession, migrations: readonly Migration[]): Promise<WorkEnd> {
  const { db } = session;
  await db.exec('reset role');
  try {
    const applied = await bringUpToDate(db, migrations);
    return { row: [JSON.stringify(applied.map(({ file }) => file))] };
  } catch (error) {
    return { error: { message: toMessage(error) } };
  } finally {
    await db.exec('set role gateway');
    await session.forget();
  }
}

/** Makes a database aside and puts it in its place when it is whole: a first start that is killed leaves none. */
async function create(folder: string, migrations: readonly Migration[], seed: Script | undefined): Promise<void> {
  const aside = `${folder}.new`;
  rmSync(aside, { recursive: true, force: true });
  const db = await open(aside);
  try {
    await bringUpToDate(db, migrations);
    if (seed) await runScript(db, seed);
  } finally {
    await db.close();
  }
  renameSync(aside, folder);
}

/** Applies the pending migrations, and sends the warnings of Postgres. */
function bringUpToDate(db: PGlite, migrations: readonly Migration[]): Promise<Migration[]> {
  const onNotice = (notice: Notice) => {
    const warning = toWarning(notice);
    if (warning) reply({ warning });
  };
  const connection: Connection = {
    query: (sql, values) => db.query(sql, values, { onNotice }),
    exec: (sql) => db.exec(sql, { onNotice }),
  };
  return applyMigrations(connection, migrations);
}

function open(folder: string | undefined): Promise<PGlite> {
  // PGlite has the whole cache in memory from the start on, and the system caches the files too. With 300,000 students
  // half of the default answers about as fast; with a quarter of it long lists take a third longer.
  const startParams = [...PGlite.defaultStartParams, '-c', 'shared_buffers=64MB'];
  return PGlite.create({ ...(folder ? { dataDir: folder } : {}), startParams });
}

/** PGlite throws objects too that are no errors, such as those of its file system. */
function toMessage(error: unknown): string {
  const { message, code } = error as { message?: string; code?: string };
  return message ?? `${code ?? JSON.stringify(error)}`;
}

function serve(session: EmbeddedSession, work: Work): Promise<WorkEnd> {
  return 'migrations' in work ? migrate(session, work.migrations) : run(session, work);
}

async function run(session: EmbeddedSession, statement: Statement): Promise<WorkEnd> {
  try {
    return { row: await session.queryRow(statement) };
  } catch (error) {
    const { code, message, detail } = error as PgError;
    return { error: { code, message, detail } };
  }
}
