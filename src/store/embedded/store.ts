import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { Worker } from 'node:worker_threads';
import { type Fault, isFault, OperatorError, storeFault } from '../../errors.ts';
import { DESCRIPTION, toDescription } from '../catalog.ts';
import { readMigrations } from '../migrations.ts';
import { toFailure } from '../sqlstate.ts';
import { CHECK, createStatementWriter, toResult } from '../statement.ts';
import type { Call, Description, Result, Store } from '../store.ts';
import { Claims } from './claims.ts';
import { lockFolder } from './folder.ts';
import { type Answer, SessionError, type SessionWork } from './sessions.ts';
import { type AdministratorSession, serveSocket } from './socket.ts';
import type { Work, WorkEnd, WorkerInput, WorkerReply, WorkerRequest } from './thread.ts';

/** Where an embedded store keeps its data, and how it starts. */
export type EmbeddedOptions = {
  /** The data folder; without one the data is in memory and gone with the process. */
  readonly dataDir?: string | undefined;
  /** Whether an answer waits until its rows are on the disk; by default it does. */
  readonly fsync?: boolean;
  readonly migrationsDir: string;
  /** A script for a new store. */
  readonly seed?: WorkerInput['seed'];
  /** Statement timeout in milliseconds; a statement is ended by ending its thread. */
  readonly statementLimitMs: number;
  /** The largest answer, in bytes; by default the longest possible text. */
  readonly answerLimit?: number;
  /** How long an administrator's transaction may be idle, in milliseconds; one minute by default. */
  readonly idleTransactionMs?: number;
  /** Called before a new database is created, which takes a few seconds. */
  readonly onCreate?: () => void;
  /**
   * Receives warnings: Postgres's while migrations are applied, of permissions that were repaired, of a small memory limit, and
   * of a socket that fails.
   */
  readonly onWarning?: (warning: string) => void;
};

/** The embedded Postgres does not start; the message says why. */
class EmbeddedStoreError extends OperatorError {}

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

/** How a job ended: as the thread says, or with the loss of the thread. */
type JobEnd = Exclude<WorkEnd, { skipped: true }> | Loss;
type Loss = ReturnType<typeof storeFault>;

/** A thread that serves, until it is lost. */
type Thread = { readonly worker: Worker; readonly lost: Promise<Loss>; readonly lose: (loss: Loss) => void };

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

/**
 * How many jobs are sent to the thread at a time: the running one, and one so that the thread need not wait. With one alone the
 * gateway serves half as many lists of 10 (4,500 instead of 8,700 a second at 16 connections).
 */
const MAX_IN_FLIGHT = 2;

/**
 * Opens a Postgres inside this process, applies the migrations, and loads the seed into a new store. Administrators reach it
 * over a socket in its folder. Throws FolderError, MigrationError and EmbeddedStoreError.
 */
export async function openEmbedded(options: EmbeddedOptions): Promise<EmbeddedStore> {
  const input: Input = {
    folder: options.dataDir && join(options.dataDir, 'postgres'),
    fsync: options.fsync ?? true,
    migrations: readMigrations(options.migrationsDir),
    seed: options.seed,
  };
  const unlock = options.dataDir ? lockFolder(options.dataDir, options.onWarning) : () => {};
  if (input.folder && !existsSync(input.folder)) options.onCreate?.();
  const store = new WorkerStore(options, input, unlock);
  try {
    await store.open();
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
  #thread: Thread | undefined;
  /** Starts the next thread, if one is wanted. */
  #wake = () => {};
  /** The end of the last thread. */
  #ended: Promise<void> = Promise.resolve();
  #closed = false;
  /**
   * The session that is in a transaction. Until its end only the session's jobs run: those of others would be in the same
   * transaction.
   */
  #turn: Session | undefined;
  #sessionCount = 0;
  #closeSocket = () => {};

  constructor(options: EmbeddedOptions, input: Input, unlock: () => void) {
    const place = options.dataDir ?? 'memory';
    const risk = options.dataDir && !input.fsync ? ', which a loss of power may destroy (FSYNC=off)' : '';
    this.description = `embedded Postgres, data in ${place}${risk}`;
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

  /** Lets administrators in. If the socket fails, the gateway serves without it. */
  async serveAdministrators(dataDir: string, idleMs?: number): Promise<void> {
    try {
      this.#closeSocket = await serveSocket(dataDir, () => this.#openSession(), idleMs);
    } catch (error) {
      const { message } = error as Error;
      this.#onWarning(`npm run admin, npm run sql and psql cannot work while the gateway runs: ${message}`);
    }
  }

  /** Starts the first thread. Throws EmbeddedStoreError. */
  async open(): Promise<void> {
    this.#ended = this.#follow(await this.#startThread());
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#dropWaiting(new Error('the store is closed'));
    this.#closeSocket();
    this.#closeThread();
    this.#wake();
    await this.#ended;
    this.#unlock();
  }

  /** Serves with one thread after the other: each starts when the one before has ended, because two would lose rows. */
  async #follow(first: Thread): Promise<void> {
    for (let thread: Thread | undefined = first; thread; thread = await this.#startNext()) {
      this.#thread = thread;
      if (this.#closed) this.#closeThread();
      this.#next();
      const loss = await thread.lost;
      this.#thread = undefined;
      this.#settleSent(loss);
      await thread.worker.terminate();
    }
  }

  /** Waits for work, and starts a thread for it; undefined when the store is closed. */
  async #startNext(): Promise<Thread | undefined> {
    while (!this.#closed) {
      try {
        if (this.#waiting.length > 0) return await this.#startThread();
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
        });
      } catch (error) {
        this.#dropWaiting(error as Error);
      }
    }
    return undefined;
  }

  /** Starts a thread; resolves when it serves, and fails with the reason if it does not. */
  async #startThread(): Promise<Thread> {
    const workerData: WorkerInput = { ...this.#input, claims: this.#claims.memory, postgres };
    const worker = new Worker(new URL('./thread.ts', import.meta.url), { workerData });
    const ready = Promise.withResolvers<void>();
    const { promise: lost, resolve: lose } = Promise.withResolvers<Loss>();
    worker.on('message', (reply: WorkerReply) => {
      if ('ready' in reply) {
        postgres = reply.ready;
        ready.resolve();
      } else if ('failed' in reply) ready.reject(new EmbeddedStoreError(reply.failed));
      else if ('warning' in reply) this.#onWarning(reply.warning);
      // A lost thread may still reply.
      else if (worker === this.#thread?.worker) this.#finish(reply);
    });
    const onEnd = (error: Error) => {
      ready.reject(error);
      lose(storeFault('storeUnavailable', error));
    };
    worker.on('error', onEnd);
    worker.on('exit', (code) => onEnd(new Error(`the thread of the embedded store ended with code ${code}`)));
    try {
      await ready.promise;
    } catch (error) {
      // It may still have the folder open.
      await worker.terminate();
      throw error;
    }
    return { worker, lost, lose };
  }

  /** After the loss of the thread the running job fails, and the others wait for the next thread. */
  #settleSent(loss: Loss): void {
    clearTimeout(this.#limit);
    this.#turn = undefined;
    const sent = this.#sent.splice(0);
    const unbegun = sent.filter(({ slot }) => this.#claims.claim(slot));
    this.#waiting.unshift(...unbegun.map(({ job }) => job));
    // Those that had been taken back are settled.
    for (const one of sent) if (!unbegun.includes(one)) one.job.settle(loss);
  }

  /** Lets the thread finish its job, unless that takes too long. */
  #closeThread(): void {
    const { worker } = this.#thread ?? {};
    if (!worker) return;
    worker.postMessage('close' satisfies WorkerRequest);
    const cut = setTimeout(() => void worker.terminate(), CLOSE_MS);
    worker.once('exit', () => clearTimeout(cut));
  }

  /** Fails the jobs that have not begun. */
  #dropWaiting(error: Error): void {
    for (const job of [...this.#sent.map(({ job }) => job), ...this.#waiting]) {
      if (this.#takeBack(job)) job.settle(storeFault('storeUnavailable', error));
    }
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
      this.#add(job);
    });
  }

  #add(job: Job): void {
    this.#waiting.push(job);
    if (this.#closed) this.#dropWaiting(new Error('the store is closed'));
    else this.#next();
  }

  /** Sends the next jobs to the thread, if there is one. */
  #next(): void {
    if (!this.#thread) {
      this.#wake();
      return;
    }
    // Nothing is sent behind a session's job, which may begin a transaction.
    while (this.#sent.length < MAX_IN_FLIGHT && !this.#sent.at(-1)?.job.session) {
      const index = this.#turn ? this.#waiting.findIndex(({ session }) => session === this.#turn) : 0;
      const [job] = index === -1 ? [] : this.#waiting.splice(index, 1);
      if (!job) return;
      // The thread replies in the order of the slots, so the next one is free.
      const slot = this.#sentCount % MAX_IN_FLIGHT;
      this.#sentCount += 1;
      this.#claims.free(slot);
      this.#sent.push({ job, slot });
      if (this.#sent.length === 1) this.#watch();
      this.#thread.worker.postMessage({ slot, work: job.work } satisfies WorkerRequest);
    }
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
  #watch(): void {
    clearTimeout(this.#limit);
    const [first] = this.#sent;
    if (!first || !this.#input.folder) return;
    const { work, session } = first.job;
    if ('migrations' in work || (session && !session.isGone)) return;
    const end = () => {
      const text = 'text' in work ? work.text : "an administrator's statement";
      const cause = new Error(`ended after ${this.#limitMs} ms: ${text}`);
      if (first === this.#sent[0]) this.#thread?.lose(storeFault('storeTimeout', cause));
    };
    // A reply that arrived while this thread was busy is read first.
    this.#limit = setTimeout(() => setImmediate(end), this.#limitMs);
  }

  /** Settles the job that ran, unless it had been taken back. */
  #finish(end: WorkEnd): void {
    const ended = this.#sent.shift();
    this.#watch();
    if (ended && !('skipped' in end)) {
      if (ended.job.session) this.#turn = isIdle(end) ? undefined : ended.job.session;
      ended.job.settle(end);
    }
    this.#next();
  }

  #openSession(): AdministratorSession {
    this.#sessionCount += 1;
    const session: Session = { id: this.#sessionCount, isGone: false };
    return {
      run: async (messages, isSynced, settings) => {
        // Nobody would end what began behind the end.
        if (session.isGone) throw new SessionError(ADMIN_SHUTDOWN, 'the session has ended');
        const work = { session: session.id, messages, isSynced, ...(settings ? { settings } : {}) };
        return ((await this.#administer(session, work)) as { answer: Answer }).answer;
      },
      cancel: () => this.#cancel(session, new Error('canceling statement due to user request')),
      end: () => {
        if (session.isGone) return;
        session.isGone = true;
        // Fails only with the thread, and with it the session ends as well.
        this.#administer(session, { session: session.id, end: true }).catch(() => {});
        if (this.#sent[0]?.job.session === session) this.#watch();
      },
    };
  }

  /** Does an administrator's work. Throws SessionError. */
  async #administer(session: Session, work: SessionWork): Promise<WorkEnd> {
    const end = await new Promise<JobEnd>((settle) => this.#add({ work, session, settle }));
    if ('error' in end) throw new SessionError(end.error.code ?? INTERNAL_ERROR, end.error.message);
    if ('failure' in end) throw new SessionError(ADMIN_SHUTDOWN, (end.failure.cause as Error).message);
    return end;
  }

  /** Ends the statement of a session. A running one ends with its thread, because PGlite cannot be interrupted. */
  #cancel(session: Session, cause: Error): void {
    const job = [...this.#sent.map(({ job }) => job), ...this.#waiting].find((one) => one.session === session);
    if (!job) return;
    if (this.#takeBack(job)) job.settle(storeFault('storeTimeout', cause));
    else if (job === this.#sent[0]?.job) this.#thread?.lose(storeFault('storeTimeout', cause));
  }
}

/** Whether a session's work ended outside of a transaction. After an error the turn is the session's until it ends. */
function isIdle(end: WorkEnd): boolean {
  if ('answer' in end) return end.answer.isIdle;
  return !('error' in end);
}

function toStoreResult(end: JobEnd): Result {
  if ('failure' in end) return end;
  if ('error' in end) return { failure: toFailure(end.error) };
  return toResult('row' in end ? end.row : undefined);
}
