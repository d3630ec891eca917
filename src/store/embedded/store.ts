import { join } from 'node:path';
import { Worker } from 'node:worker_threads';
import { type Fault, isFault, OperatorError, storeFault } from '../../errors.ts';
import { DESCRIPTION, toDescription } from '../catalog.ts';
import { readMigrations } from '../migrations.ts';
import { toFailure } from '../sqlstate.ts';
import { CHECK, createStatementWriter, toResult } from '../statement.ts';
import type { Call, Description, Result, Store } from '../store.ts';
import { Claims } from './claims.ts';
import { lockFolder } from './lock.ts';
import { type Answer, SessionError, type SessionWork, type Settings } from './sessions.ts';
import { type AdministratorSession, serveSocket } from './socket.ts';
import type { Work, WorkEnd, WorkerInput, WorkerReply, WorkerRequest } from './thread.ts';

/** Where an embedded store keeps its data, and how it starts. */
export type EmbeddedOptions = {
  /** The data folder; without one the data is in memory and gone with the process. */
  readonly dataDir?: string | undefined;
  readonly migrationsDir: string;
  /** A script for a new store. */
  readonly seed?: WorkerInput['seed'];
  /** Statement timeout in milliseconds; a statement is ended by ending its thread. */
  readonly statementLimitMs: number;
  /** The largest answer, in bytes; by default the longest possible text. */
  readonly answerLimit?: number;
  /** How long an administrator's transaction may be idle, in milliseconds; one minute by default. */
  readonly idleTransactionMs?: number;
  /** Receives warnings: Postgres's while migrations are applied, of a small memory limit, and of a socket that fails. */
  readonly onWarning?: (warning: string) => void;
};

/** The embedded Postgres does not start; the message says why. */
export class EmbeddedStoreError extends OperatorError {}

/** How long a running statement may delay the end of the store, in milliseconds. */
const CLOSE_MS = 2_000;

/** Codes of Postgres. */
const ADMIN_SHUTDOWN = '57P01';
const INTERNAL_ERROR = 'XX000';

/** A store whose database belongs to the gateway, which migrates it. */
export type EmbeddedStore = Store & {
  /** Applies new migrations and gives their files. Throws EmbeddedStoreError for one that fails. */
  migrate(): Promise<string[]>;
};

/** How a job ended: as the thread says, or without it. */
type JobEnd = Exclude<WorkEnd, { skipped: true }> | Failed;
type Failed = ReturnType<typeof storeFault>;

type Job = {
  readonly work: Work;
  /** Of an administrator; undefined for the gateway. */
  readonly session: Session | undefined;
  readonly settle: (end: JobEnd) => void;
};

/** A session of an administrator. */
type Session = { readonly id: number; isGone: boolean };

/** A job that was sent to the thread, until it replies. */
type SentJob = { readonly job: Job; readonly slot: number };

/** How many jobs are sent to the thread at a time: the running one, and one so that the thread need not wait. */
const MAX_IN_FLIGHT = 2;

/**
 * Opens a Postgres inside this process, applies the migrations, and loads the seed into a new store. Administrators reach it
 * over a socket in its folder. Throws FolderError, MigrationError and EmbeddedStoreError.
 */
export async function openEmbedded(options: EmbeddedOptions): Promise<EmbeddedStore> {
  const input: Input = {
    folder: options.dataDir && join(options.dataDir, 'postgres'),
    migrations: readMigrations(options.migrationsDir),
    seed: options.seed,
  };
  const unlock = options.dataDir ? lockFolder(options.dataDir) : () => {};
  const store = new WorkerStore(options, input, unlock);
  try {
    await store.start();
  } catch (error) {
    unlock();
    throw error;
  }
  if (options.dataDir) await store.serveAdministrators(options.dataDir, options.idleTransactionMs);
  return store;
}

/** A store's part of the input of its threads. */
type Input = Omit<WorkerInput, 'claims' | 'postgres'>;

/** Postgres, compiled by the first thread of this process. */
let postgres: WebAssembly.Module | undefined;

/** Sends statements to the thread, and takes back abandoned ones before they begin. */
class WorkerStore implements EmbeddedStore {
  readonly description: string;
  #input: Input;
  readonly #migrationsDir: string;
  readonly #limitMs: number;
  readonly #unlock: () => void;
  readonly #onWarning: (warning: string) => void;
  /** Writes statements with names, so that each thread prepares a statement once. */
  readonly #write: ReturnType<typeof createStatementWriter>;
  /**
   * In order. Not a Set: each of its tables refers to the next, so once one is old, everything in later ones is kept until a
   * full garbage collection.
   */
  #waiting: Job[] = [];
  /** In order; the first one runs. */
  #sent: SentJob[] = [];
  #sentCount = 0;
  readonly #claims = Claims.ofSlots(MAX_IN_FLIGHT);
  /** Ends the thread if the running job takes too long. */
  #limit: NodeJS.Timeout | undefined;
  /** The thread, while it serves. */
  #worker: Worker | undefined;
  /** The end of the previous thread: two on one folder would lose rows. */
  #ended: Promise<unknown> = Promise.resolve();
  #starting: Promise<void> | undefined;
  #closed = false;
  /**
   * The session that is in a transaction. Until its end only the session's jobs run: those of others would be in the same
   * transaction.
   */
  #turn: Session | undefined;
  #sessionCount = 0;
  #closeSocket = () => {};

  constructor(options: EmbeddedOptions, input: Input, unlock: () => void) {
    this.description = `embedded Postgres, data in ${options.dataDir ?? 'memory'}`;
    this.#input = input;
    this.#migrationsDir = options.migrationsDir;
    this.#limitMs = options.statementLimitMs;
    this.#write = createStatementWriter(options.answerLimit);
    this.#unlock = unlock;
    this.#onWarning = options.onWarning ?? (() => {});
  }

  call(call: Call, signal: AbortSignal): Promise<Result> {
    return this.#run(this.#write(call, call.returns), signal);
  }

  attempt(call: Call, signal: AbortSignal): Promise<Result> {
    return this.#run({ ...this.#write(call, call.returns), isUndone: true }, signal);
  }

  async check(signal: AbortSignal): Promise<Fault | undefined> {
    const result = await this.#run(CHECK, signal);
    return 'failure' in result && isFault(result.failure) ? result.failure : undefined;
  }

  async describe(signal: AbortSignal): Promise<Description> {
    return toDescription(await this.#run(DESCRIPTION, signal));
  }

  async migrate(): Promise<string[]> {
    const migrations = readMigrations(this.#migrationsDir);
    const result = await this.#run({ migrations }, new AbortController().signal);
    if ('failure' in result) {
      const { cause } = result.failure as Fault;
      throw new EmbeddedStoreError((cause as Error).message, { cause });
    }
    // A new thread applies them too.
    this.#input = { ...this.#input, migrations };
    return JSON.parse(result.json);
  }

  /** Lets administrators in. Without a socket, the gateway serves all the same. */
  async serveAdministrators(dataDir: string, idleMs?: number): Promise<void> {
    try {
      this.#closeSocket = await serveSocket(dataDir, () => this.#openSession(), idleMs);
    } catch (error) {
      const { message } = error as Error;
      this.#onWarning(`npm run admin, npm run sql and psql cannot work while the gateway runs: ${message}`);
    }
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#dropWaiting(new Error('the store is closed'));
    this.#closeSocket();
    // A starting thread would go on using the folder.
    await this.#starting?.catch(() => {});
    const worker = this.#worker;
    if (worker) {
      const exited = new Promise((resolve) => worker.once('exit', resolve));
      const cut = setTimeout(() => void worker.terminate(), CLOSE_MS);
      worker.postMessage('close' satisfies WorkerRequest);
      await exited;
      clearTimeout(cut);
    }
    await this.#ended;
    this.#unlock();
  }

  /** Starts the thread; resolves when it serves, and fails with the reason if it does not. */
  async start(): Promise<void> {
    await this.#ended;
    const workerData: WorkerInput = { ...this.#input, claims: this.#claims.memory, postgres };
    const worker = new Worker(new URL('./thread.ts', import.meta.url), { workerData });
    const ready = new Promise<void>((resolve, reject) => {
      worker.on('message', (reply: WorkerReply) => {
        if ('ready' in reply) {
          postgres = reply.ready;
          resolve();
        } else if ('failed' in reply) reject(new EmbeddedStoreError(reply.failed));
        else if ('warning' in reply) this.#onWarning(reply.warning);
        // An abandoned thread may still reply.
        else if (worker === this.#worker) this.#finish(reply);
      });
      const onEnd = (error: Error) => {
        reject(error);
        this.#lose(worker, storeFault('storeUnavailable', error));
      };
      worker.on('error', onEnd);
      worker.on('exit', (code) => onEnd(new Error(`the thread of the embedded store ended with code ${code}`)));
    });
    try {
      await ready;
    } catch (error) {
      // It may still have the folder open.
      await worker.terminate();
      throw error;
    }
    this.#worker = worker;
  }

  #openSession(): AdministratorSession {
    this.#sessionCount += 1;
    const session: Session = { id: this.#sessionCount, isGone: false };
    return {
      begin: async (begin) => {
        const end = await this.#administer(session, { session: session.id, begin });
        return (end as { settings: Settings }).settings;
      },
      run: async (messages, isSynced) => {
        const end = await this.#administer(session, { session: session.id, messages, isSynced });
        return (end as { answer: Answer }).answer;
      },
      cancel: () => this.#cancel(session, new Error('canceling statement due to user request')),
      end: () => {
        if (session.isGone) return;
        session.isGone = true;
        // Fails only with the thread, and with it the session ends as well.
        this.#administer(session, { session: session.id, end: true }).catch(() => {});
        const [first] = this.#sent;
        if (this.#worker && first?.job.session === session) this.#watch(this.#worker);
      },
    };
  }

  /** Does an administrator's work. Throws SessionError. */
  async #administer(session: Session, work: SessionWork): Promise<WorkEnd> {
    // Nobody would end what began behind the end.
    if (session.isGone && !('end' in work)) throw new SessionError(ADMIN_SHUTDOWN, 'the session has ended');
    const end = await new Promise<JobEnd>((settle) => {
      this.#waiting.push({ work, session, settle });
      this.#next();
    });
    if ('error' in end) throw new SessionError(end.error.code ?? INTERNAL_ERROR, end.error.message);
    if ('failure' in end) throw new SessionError(ADMIN_SHUTDOWN, (end.failure.cause as Error).message);
    return end;
  }

  /** Ends the statement of a session. A running one ends with its thread, because PGlite cannot be interrupted. */
  #cancel(session: Session, cause: Error): void {
    const job = [...this.#sent.map(({ job }) => job), ...this.#waiting].find((one) => one.session === session);
    if (!job) return;
    if (this.#takeBack(job)) job.settle(storeFault('storeTimeout', cause));
    else if (this.#worker && job === this.#sent[0]?.job) this.#lose(this.#worker, storeFault('storeTimeout', cause));
  }

  #run(work: Work, signal: AbortSignal): Promise<Result> {
    if (signal.aborted) return Promise.resolve(storeFault('storeTimeout', signal.reason));
    return new Promise((resolve) => {
      const abandon = () => {
        if (this.#takeBack(job)) job.settle(storeFault('storeTimeout', signal.reason));
      };
      const job: Job = {
        work,
        session: undefined,
        settle: (end) => {
          signal.removeEventListener('abort', abandon);
          resolve(toStoreResult(end));
        },
      };
      signal.addEventListener('abort', abandon);
      this.#waiting.push(job);
      this.#next();
    });
  }

  #next(): void {
    // Nothing is sent behind a session's job, which may begin a transaction.
    while (this.#sent.length < MAX_IN_FLIGHT && !this.#sent.at(-1)?.job.session) {
      const index = this.#turn ? this.#waiting.findIndex(({ session }) => session === this.#turn) : 0;
      const job = this.#waiting[index];
      if (!job) return;
      if (!this.#worker) {
        this.#restart();
        return;
      }
      this.#waiting.splice(index, 1);
      this.#send(this.#worker, job);
    }
  }

  #send(worker: Worker, job: Job): void {
    // The thread replies in the order of the slots, so the next one is free.
    const slot = this.#sentCount % MAX_IN_FLIGHT;
    this.#sentCount += 1;
    this.#claims.free(slot);
    this.#sent.push({ job, slot });
    if (this.#sent.length === 1) this.#watch(worker);
    worker.postMessage({ slot, work: job.work } satisfies WorkerRequest);
  }

  /** Takes a job back; false if it has begun. */
  #takeBack(job: Job): boolean {
    const waiting = this.#waiting.indexOf(job);
    if (waiting !== -1) {
      this.#waiting.splice(waiting, 1);
      return true;
    }
    const sent = this.#sent.find((one) => one.job === job);
    return sent !== undefined && this.#claims.claim(sent.slot);
  }

  /**
   * Limits the running job. PGlite cannot be interrupted, but its thread can be ended if the data is in a folder. The
   * statement of an administrator may take its time, unless the administrator is gone.
   */
  #watch(worker: Worker): void {
    clearTimeout(this.#limit);
    const [first] = this.#sent;
    if (!first || !this.#input.folder) return;
    const { work, session } = first.job;
    if ('migrations' in work || (session && !session.isGone)) return;
    const end = () => {
      if (first !== this.#sent[0]) return;
      const text = 'text' in work ? work.text : "an administrator's statement";
      const cause = new Error(`ended after ${this.#limitMs} ms: ${text}`);
      this.#lose(worker, storeFault('storeTimeout', cause));
    };
    // A reply that arrived while this thread was busy is read first.
    this.#limit = setTimeout(() => setImmediate(end), this.#limitMs);
  }

  /** Settles the job that ran, unless it had been taken back. */
  #finish(end: WorkEnd): void {
    const ended = this.#sent.shift();
    if (this.#worker) this.#watch(this.#worker);
    if (ended?.job.session && !('skipped' in end)) this.#turn = isIdle(end) ? undefined : ended.job.session;
    if (!('skipped' in end)) ended?.job.settle(end);
    this.#next();
  }

  /** Abandons the thread: the running job fails, and the others go to the next thread. */
  #lose(worker: Worker, result: Failed): void {
    if (worker !== this.#worker) return;
    this.#worker = undefined;
    this.#turn = undefined;
    clearTimeout(this.#limit);
    const sent = this.#sent;
    this.#sent = [];
    const unbegun = sent.filter(({ slot }) => this.#claims.claim(slot));
    this.#waiting.unshift(...unbegun.map(({ job }) => job));
    this.#ended = worker.terminate();
    // Those that had been taken back are settled.
    for (const one of sent) if (!unbegun.includes(one)) one.job.settle(result);
    this.#next();
  }

  #restart(): void {
    if (this.#closed) this.#dropWaiting(new Error('the store is closed'));
    if (this.#closed || this.#starting) return;
    this.#starting = this.start();
    this.#starting
      .catch((error) => this.#dropWaiting(error))
      .finally(() => {
        this.#starting = undefined;
        this.#next();
      });
  }

  /** Fails the jobs that have not begun. */
  #dropWaiting(error: Error): void {
    for (const job of [...this.#sent.map(({ job }) => job), ...this.#waiting]) {
      if (this.#takeBack(job)) job.settle(storeFault('storeUnavailable', error));
    }
  }
}

/** Whether a session's work ended outside of a transaction. After an error the turn is the session's until it ends. */
function isIdle(end: WorkEnd): boolean {
  if ('answer' in end) return end.answer.status === 'I';
  return !('error' in end);
}

function toStoreResult(end: JobEnd): Result {
  if ('failure' in end) return end;
  if ('error' in end) return { failure: toFailure(end.error) };
  return toResult('row' in end ? end.row : undefined);
}
