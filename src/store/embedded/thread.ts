// A thread with Postgres in it: PGlite runs a query to its end, so on the gateway's own thread a slow one would stop
// everything. It runs one statement at a time, in the order in which store.ts sends them.

import { existsSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { constrainedMemory } from 'node:process';
import { setFlagsFromString } from 'node:v8';
import { parentPort, workerData } from 'node:worker_threads';
import { messages, type PGlite, protocol } from '@electric-sql/pglite';
import {
  applyMigrations,
  type Database,
  type Migration,
  type Notice,
  runScript,
  type Script,
  toWarning,
} from '../migrations.ts';
import type { PgError } from '../sqlstate.ts';
import type { Row, Statement } from '../statement.ts';
import { Claims } from './claims.ts';
import { putInPlace } from './folder.ts';
import { openPGlite } from './pglite.ts';
import { type Answer, SessionError, Sessions, type SessionWork } from './sessions.ts';

declare global {
  /** Node has it; TypeScript declares it only together with what browsers have. */
  namespace WebAssembly {
    type Module = object;
    function compile(bytes: Uint8Array): Promise<Module>;
  }
}

/** The thread's input. */
export type WorkerInput = {
  /** The database's folder; without one it is in memory, and new at every start. */
  readonly folder: string | undefined;
  /** Whether a commit waits until it is on the disk. */
  readonly fsync: boolean;
  readonly migrations: readonly Migration[];
  /** Loaded into a new database. */
  readonly seed: Script | undefined;
  /** Postgres, compiled by an earlier thread. */
  readonly postgres: WebAssembly.Module | undefined;
  /** The memory of the claims. */
  readonly claims: SharedArrayBuffer;
};

/** A statement to run, migrations to apply, or work of an administrator's session. */
export type Work = Statement | { readonly migrations: readonly Migration[] } | SessionWork;

/** A message to the thread. */
export type WorkerRequest = { readonly slot: number; readonly work: Work } | 'close';

/**
 * A message from the thread: that it is ready, with Postgres for the next thread, or why not, a warning, or the end of a work,
 * in order.
 */
export type WorkerReply =
  | { readonly ready: WebAssembly.Module }
  | { readonly failed: string }
  | { readonly warning: string }
  | WorkEnd;

/** How work ended: with its first row, with what a session gets, with an error, or skipped because it had been taken back. */
export type WorkEnd =
  | { readonly row: Row | undefined }
  | { readonly answer: Answer }
  | { readonly sessionEnded: true }
  | { readonly error: PgError }
  | { readonly skipped: true };

/** How often the size of the WAL is looked at, in milliseconds, and from which size on in bytes it is cut. */
const CHECKPOINT_MS = 10_000;
const WAL_BYTES = 32 * 2 ** 20;

/** V8 takes 600 MB for a moment to optimize one function of Postgres; with a smaller limit the kernel would kill the process. */
const OPTIMIZING_BYTES = 1280 * 2 ** 20;

const { serialize } = protocol;

const SYNC = serialize.sync();
const EXECUTE_AND_SYNC = Buffer.concat([serialize.execute({}), SYNC]);

/**
 * Runs statements in PGlite one at a time, and prepares those with a name. PGlite's own `query` sends six messages one by one
 * and plans the statement each time, which takes longer than a list of 10.
 */
class EmbeddedSession {
  readonly db: PGlite;
  readonly #prepared = new Set<string>();

  constructor(db: PGlite) {
    this.db = db;
  }

  /** Gives the first row of a statement, if any. Throws Postgres's error. */
  async queryRow({ text, values, name = '' }: Statement): Promise<Row | undefined> {
    if (!this.#prepared.has(name)) {
      await this.#send(serialize.parse({ name, text }), SYNC);
      if (name !== '') this.#prepared.add(name);
    }
    const bind = serialize.bind({ statement: name, values: [...values] });
    const answers = await this.#send(bind, EXECUTE_AND_SYNC);
    return answers.find((answer) => answer instanceof messages.DataRowMessage)?.fields;
  }

  /**
   * Prepares every statement again: a function may have been redefined with other types, or an administrator has dropped
   * the statements. Those of an administrator stay.
   */
  async forget(): Promise<void> {
    const names = [...this.#prepared];
    this.#prepared.clear();
    await this.#send(...names.map((name) => serialize.close({ type: 'S', name })), SYNC);
  }

  #send(...parts: Uint8Array[]) {
    return this.db.execProtocolStream(Buffer.concat(parts));
  }
}

const port = parentPort;
if (!port) throw new Error('thread.ts runs as a worker thread');

const reply = (message: WorkerReply): void => port.postMessage(message);

try {
  const input = workerData as WorkerInput;
  if (constrainedMemory() < OPTIMIZING_BYTES) turnOptimizationOff();
  const postgres = input.postgres ?? (await compile());
  const db = await prepare(input, postgres);
  const session = new EmbeddedSession(db);
  const sessions = new Sessions(db, async () => {
    await db.exec(`set timezone = 'UTC'; set role gateway`);
    await session.forget();
  });
  await sessions.toGateway();
  const claims = new Claims(input.claims);
  let last = Promise.resolve();
  port.on('message', (request: WorkerRequest) => {
    last = last.then(async () => {
      if (request === 'close') {
        await db.close();
        port.close();
      } else {
        reply(claims.claim(request.slot) ? await serve(session, sessions, request.work) : { skipped: true });
      }
    });
  });
  setInterval(() => {
    last = last.then(() => cutWal(db, sessions));
  }, CHECKPOINT_MS).unref();
  reply({ ready: postgres });
} catch (error) {
  reply({ failed: toMessage(error) });
}

/** Only code that is compiled after this stays unoptimized. */
function turnOptimizationOff(): void {
  setFlagsFromString('--no-wasm-dynamic-tiering');
  setFlagsFromString('--no-wasm-tier-up');
  const limit = OPTIMIZING_BYTES / 2 ** 20;
  reply({
    warning: `The memory limit is below ${limit} MiB: the embedded Postgres runs unoptimized, at two thirds of its speed`,
  });
}

/** Compiles Postgres. PGlite would do it for every thread, which takes half of the processor time of a later start. */
function compile(): Promise<WebAssembly.Module> {
  return WebAssembly.compile(readFileSync(new URL('pglite.wasm', import.meta.resolve('@electric-sql/pglite'))));
}

/** Opens and migrates the database. */
async function prepare(input: WorkerInput, pgliteWasmModule: WebAssembly.Module): Promise<PGlite> {
  const { folder, fsync, migrations, seed } = input;
  if (folder && !existsSync(join(folder, 'PG_VERSION'))) await create(folder, input, pgliteWasmModule);
  const db = await openPGlite(folder, { fsync, pgliteWasmModule });
  await bringUpToDate(db, migrations);
  if (!folder && seed) await runScript(db, seed);
  return db;
}

/** Applies new migrations as the administrator, and gives their files. */
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

/**
 * Makes a checkpoint if the WAL is long. Postgres does that in a process of its own, which PGlite lacks: the WAL would grow without
 * limit, and so would the start after a crash.
 */
async function cutWal(db: PGlite, sessions: Sessions): Promise<void> {
  // It would end up in an administrator's transaction, or throw away what a backup needs.
  if (!sessions.isGateway || sessions.hasBackup) return;
  await db.exec('reset role');
  const { rows } = await db.query(
    'select from pg_control_checkpoint() where pg_current_wal_insert_lsn() - redo_lsn > $1',
    [WAL_BYTES],
  );
  if (rows.length > 0) await db.exec('checkpoint');
  await db.exec('set role gateway');
}

/**
 * Creates a database in another folder and renames that when it is complete and on the disk: a first start that was killed
 * leaves none.
 */
async function create(
  folder: string,
  { migrations, seed }: WorkerInput,
  pgliteWasmModule: WebAssembly.Module,
): Promise<void> {
  const aside = `${folder}.new`;
  rmSync(aside, { recursive: true, force: true });
  const db = await openPGlite(aside, { fsync: false, pgliteWasmModule });
  try {
    await bringUpToDate(db, migrations);
    if (seed) await runScript(db, seed);
  } finally {
    await db.close();
  }
  await putInPlace(aside, folder);
}

/** Applies the pending migrations, and sends the warnings of Postgres. */
function bringUpToDate(db: PGlite, migrations: readonly Migration[]): Promise<Migration[]> {
  const onNotice = (notice: Notice) => {
    const warning = toWarning(notice);
    if (warning) reply({ warning });
  };
  const connection: Database = {
    query: (sql, values) => db.query(sql, values, { onNotice }),
    exec: (sql) => db.exec(sql, { onNotice }),
  };
  return applyMigrations(connection, migrations);
}

/** PGlite also throws objects that are not errors, such as those of its file system. */
function toMessage(error: unknown): string {
  const { message, code } = error as { message?: string; code?: string };
  return message ?? `${code ?? JSON.stringify(error)}`;
}

async function serve(session: EmbeddedSession, sessions: Sessions, work: Work): Promise<WorkEnd> {
  if ('session' in work) return administer(sessions, work);
  if (!sessions.isGateway) await sessions.toGateway();
  return 'migrations' in work ? migrate(session, work.migrations) : run(session, work);
}

async function administer(sessions: Sessions, work: SessionWork): Promise<WorkEnd> {
  try {
    if ('messages' in work) {
      return { answer: await sessions.run(work.session, work.messages, work.isSynced, work.settings) };
    }
    await sessions.end(work.session);
    return { sessionEnded: true };
  } catch (error) {
    // Anything else ends the thread, and the next one recovers the database.
    if (!(error instanceof SessionError)) throw error;
    const { code, message } = error;
    return { error: { code, message } };
  }
}

async function run(session: EmbeddedSession, statement: Statement): Promise<WorkEnd> {
  try {
    if (statement.isUndone) await session.db.exec('begin');
    return { row: await session.queryRow(statement) };
  } catch (error) {
    const { severity, code, message, detail, hint, where, constraint } = error as PgError & { severity?: string };
    // Postgres has ended, and would never answer again.
    if (severity === 'FATAL' || severity === 'PANIC') throw error;
    return { error: { code, message, detail, hint, where, constraint } };
  } finally {
    if (statement.isUndone) await session.db.exec('rollback');
  }
}
