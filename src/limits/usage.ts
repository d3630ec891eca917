// Counts the calls of each key by day, operation and class of status, records them in the store in batches, and holds keys to
// the limits that the store answers with.

import { hash, randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { LRUCache } from 'lru-cache';
import { type Failure, isFault, messageOf } from '../errors.ts';
import type { CompiledDocument } from '../openapi/compile.ts';
import type { Call, Rows } from '../store/store.ts';
import type { EndedRequest } from '../telemetry/record.ts';
import { Account, type Admission, createCalendar, type KeyState, REFUSED_CLASS, type UsageRow } from './account.ts';
import type { TakeToken } from './buckets.ts';

/** The usage of keys in one process. */
export type Usage = {
  /**
   * Starts to count the calls of a key, after the store has answered the first one, and admits that call; undefined if they are counted
   * already. If the call was not accepted, only a key that the store knows is counted. Never rejects.
   */
  learn(key: string, isAccepted: boolean): Promise<Admission | undefined> | undefined;
  /** Counts a call against the limits of its key; undefined for a key without limits. Never rejects. */
  admit(key: string): Promise<Admission | undefined> | undefined;
  /** Stops counting the calls of a key. */
  forget(key: string): void;
  /** Counts a request that has ended. */
  request(request: EndedRequest): void;
  /** Sends the counted calls; for tests. Never rejects. */
  flush(): Promise<void>;
  /** Sends everything, if the store takes it. */
  close(): Promise<void>;
};

/** Calls the store within the given time in ms. */
type CallStore = (call: Call, deadlineMs: number) => Promise<CallResult>;
type CallResult = Rows | { readonly failure: Failure };

/** How usage is recorded. */
export type UsageOptions = {
  readonly callStore: CallStore;
  readonly deadlineMs: number;
  /** The function that records usage. */
  readonly function: string;
  /** The time zone of the days. */
  readonly timeZone: string;
  readonly takeToken: TakeToken;
  readonly log: { info(text: string): void; warn(text: string): void };
  /** How often a batch is sent, in ms; 5 s by default. */
  readonly recordEveryMs?: number;
  /** The time in ms since 1970. */
  readonly now?: () => number;
};

/** Rows that the store adds once, however often they are sent. */
type Batch = { readonly sequence: number; readonly rows: UsageRow[]; readonly accounts: Account[] };

/** How often a batch is sent, in ms. A process that is killed loses the counts of this time. */
const RECORD_EVERY_MS = 5_000;
/** How many days the store keeps. */
const KEEP_DAYS = 400;
/** How often the store deletes older days, in ms. */
const CLEAN_EVERY_MS = 60_000;
/** How long the first call of a key waits for its limits, and close() for the store, in ms. */
const BRIEFLY_MS = 2_000;
/** How long close() may take, in ms. The deadline of a batch that is being sent may be later. */
const CLOSE_MS = 8_000;
/** The delay between two attempts of close(), in ms. */
const RETRY_MS = 100;
/** The maximum number of known keys. A dropped key is learned again. */
const MAX_KEYS = 10_000;
/** The maximum number of rows in memory, at some 200 bytes each. */
const MAX_ROWS = 200_000;
/** The maximum number of rows and of keys in a batch, which has the deadline of a call: 1,000 keys took up to 3 s on a busy machine. */
const MAX_BATCH_ROWS = 1_000;
const MAX_BATCH_KEYS = 200;

/** The function of a document that records usage; undefined if it names none. */
export function findUsageFunction({ operations }: CompiledDocument): string | undefined {
  return [...operations.values()].find(({ key }) => key.usedFunction)?.key.usedFunction;
}

/**
 * Opens the usage of keys. A call counts once: a batch whose answer was lost is sent again as it was, and the store knows its
 * number. While the store is away, counts wait in memory.
 */
export function openUsage(options: UsageOptions): Usage {
  const { callStore, deadlineMs, timeZone, takeToken, log, recordEveryMs = RECORD_EVERY_MS, now = Date.now } = options;
  const brieflyMs = Math.min(deadlineMs, BRIEFLY_MS);
  const readCalendar = createCalendar(timeZone, now);
  const p_writer = randomUUID();

  const accounts = new LRUCache<string, Account>({ max: MAX_KEYS });
  const learning = new Map<string, Promise<void>>();
  /** The accounts with rows to record, by key: an account that was dropped from `accounts` keeps its rows. */
  const pending = new Map<string, Account>();
  let rows = 0;
  let lost = 0;
  let sequence = 0;
  let unanswered: Batch | undefined;
  let sending: Promise<boolean> | undefined;
  let cleanedAt = Number.NEGATIVE_INFINITY;
  let isFailing = false;
  let closesAt = Number.POSITIVE_INFINITY;

  function toBatchCall(batch: readonly object[], p_sequence: number | null): Call {
    const args = {
      p_writer,
      p_sequence,
      p_day: readCalendar().day,
      p_keep_days: KEEP_DAYS,
      p_rows: { json: JSON.stringify(batch) },
    };
    return { function: options.function, args, returns: 'rows', readOnly: false };
  }

  async function ask(key: string, isAccepted: boolean): Promise<void> {
    const keyHash = hash('sha256', key, 'hex');
    // An account that was dropped while its calls are being recorded still has their counts.
    const sent = unanswered?.accounts.find((account) => account.hash === keyHash);
    const account = accounts.get(key) ?? pending.get(key) ?? sent ?? new Account(keyHash);
    const { day } = readCalendar();
    const result = await callStore(toBatchCall([{ key: account.hash }], null), brieflyMs);
    learning.delete(key);
    // Invented keys would evict the others.
    if (!isAccepted && ('failure' in result || result.json === '[]')) return;
    accounts.set(key, account);
    // After a failure the answer to the next batch has the limits.
    updateAccounts([account], day, [], 'failure' in result ? '[]' : result.json);
  }

  /** Takes over the store's answer to the `recorded` calls of a day. */
  function updateAccounts(known: readonly Account[], day: string, recorded: readonly UsageRow[], json: string): void {
    const states = new Map((JSON.parse(json) as readonly KeyState[]).map((state) => [state.key, state]));
    const calls = Map.groupBy(recorded, (row) => row.key);
    for (const account of known) {
      const state = states.get(account.hash);
      if (state) account.update(state, day, calls.get(account.hash) ?? []);
      account.askedAt = now();
    }
  }

  /** Asks for the limits of a key, once for all calls that need them meanwhile. */
  function askOnce(key: string, isAccepted = true): Promise<void> {
    const asked = learning.get(key) ?? ask(key, isAccepted);
    learning.set(key, asked);
    return asked;
  }

  function admit(key: string): Promise<Admission | undefined> | undefined {
    const account = accounts.get(key);
    return account?.isLimited ? admitTo(account, key) : undefined;
  }

  async function admitTo(account: Account, key: string): Promise<Admission | undefined> {
    const admission = await account.admit(readCalendar(), takeToken);
    // No batch has asked for the limits of an idle key, and they may be higher by now.
    const mayHaveChanged = !isFailing && now() - account.askedAt > 2 * recordEveryMs;
    if (admission.retryAfter === undefined || !mayHaveChanged) return admission;
    await askOnce(key);
    return account.isLimited ? account.admit(readCalendar(), takeToken) : undefined;
  }

  const isFull = ({ accounts, rows }: Batch) => accounts.length === MAX_BATCH_KEYS || rows.length >= MAX_BATCH_ROWS;

  function takeBatch(): Batch | undefined {
    if (pending.size === 0) return undefined;
    sequence += 1;
    const batch: Batch = { sequence, rows: [], accounts: [] };
    for (const [key, account] of pending) {
      if (isFull(batch)) break;
      pending.delete(key);
      batch.accounts.push(account);
      batch.rows.push(...account.rows.values());
      rows -= account.rows.size;
      account.rows.clear();
    }
    return batch;
  }

  /** Sends the counted calls, and once a minute has the store delete expired ones. Returns whether that succeeded. */
  async function send(ms: number): Promise<boolean> {
    for (let goesOn = true; goesOn && performance.now() < closesAt; ) {
      unanswered ??= takeBatch();
      if (!unanswered) break;
      const { day } = readCalendar();
      const result = await callStore(toBatchCall(unanswered.rows, unanswered.sequence), ms);
      if (!noteResult(result)) return false;
      updateAccounts(unanswered.accounts, day, unanswered.rows, result.json);
      goesOn = isFull(unanswered);
      unanswered = undefined;
    }
    if (now() - cleanedAt < CLEAN_EVERY_MS) return true;
    cleanedAt = now();
    return noteResult(await callStore(toBatchCall([], null), ms));
  }

  /** Returns whether a call has succeeded. Logs the first failure, and the first success after it. */
  function noteResult(result: CallResult): result is Rows {
    if (!('failure' in result)) {
      if (isFailing) log.info(`Usage is recorded again${lost > 0 ? `; ${lost} calls are missing` : ''}`);
      isFailing = false;
      lost = 0;
      return true;
    }
    const { failure } = result;
    const cause = isFault(failure) ? failure.cause : 'error' in failure ? failure.error : failure.kind;
    const why = cause instanceof Error ? messageOf(cause) : String(cause);
    if (!isFailing) log.warn(`Usage cannot be recorded, and is kept until it can: ${why}`);
    isFailing = true;
    return false;
  }

  function flush(ms = deadlineMs): Promise<boolean> {
    sending ??= send(ms).finally(() => {
      sending = undefined;
    });
    return sending;
  }

  const timer = setInterval(() => void flush(), recordEveryMs).unref();

  return {
    // accounts.has would not mark the key as recently used.
    learn: (key, isAccepted) => (accounts.get(key) ? undefined : askOnce(key, isAccepted).then(() => admit(key))),
    admit,
    forget: (key) => void accounts.delete(key),
    request: ({ operation, key, status, isAdmitted = false }) => {
      const account = key === undefined ? undefined : accounts.peek(key);
      if (operation === undefined || key === undefined || !account) return;
      const moment = readCalendar();
      const name = toClass(status);
      account.add(Number(name !== REFUSED_CLASS) - Number(isAdmitted), moment);
      const kind = `${moment.day} ${name} ${operation.id}`;
      const row = account.rows.get(kind);
      if (row) row.calls += 1;
      else if (rows === MAX_ROWS) lost += 1;
      else {
        const { day } = moment;
        account.rows.set(kind, { key: account.hash, day, class: name, operation: operation.id, calls: 1 });
        pending.set(key, account);
        rows += 1;
      }
    },
    flush: async () => void (await flush()),
    close: async () => {
      clearInterval(timer);
      const begun = performance.now();
      const since = () => performance.now() - begun;
      closesAt = begun + CLOSE_MS;
      while (sending || unanswered || rows > 0) {
        const over = delay(Math.max(0, CLOSE_MS - since()), undefined, { ref: false });
        const isSent = await Promise.race([flush(brieflyMs), over]);
        if (isSent && since() < CLOSE_MS) continue;
        // The connection may have been lost meanwhile.
        if (isSent === false && since() < BRIEFLY_MS && (await delay(RETRY_MS, true))) continue;
        const left = [...pending.values()].flatMap((account) => [...account.rows.values()]);
        const count = [...left, ...(unanswered?.rows ?? [])].reduce((sum, { calls }) => sum + calls, lost);
        if (count > 0) log.warn(`The usage of ${count} calls is lost`);
        return;
      }
    },
  };
}

/** A 304 counts as a success. */
function toClass(status: number): string {
  if (status === 429) return REFUSED_CLASS;
  return status < 400 ? '2xx' : status < 500 ? '4xx' : '5xx';
}
