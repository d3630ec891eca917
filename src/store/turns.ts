// Gives calls to a store fair turns, and repeats a call once if it changed nothing.

import { setImmediate as nextTurn } from 'node:timers/promises';
import { isFault, storeFault } from '../errors.ts';
import type { Call, Failed, Origin, Result, Store } from './store.ts';

/** The number of calls in a store, and in its queue. */
export type Load = { readonly running: number; readonly waiting: number };

/** The limits of a store. When the queue is full, the newest call of the share with the most waiting calls is refused. */
export type StoreLimits = {
  /** The maximum number of slots in use. Each call takes one, or each batch of reads (Store.batch) while many reads wait. */
  readonly slots: number;
  /** The maximum number of slots of one share; by default all. */
  readonly slotsOfShare?: number;
  /**
   * The maximum number of slots of fast reads, if the store takes batches. By default two, which keep a gateway's process busy; with
   * more, Postgres's processes compete for processors (docs/performance.md).
   */
  readonly fastSlots?: number | undefined;
  /** The maximum number of waiting calls. */
  readonly waiting: number;
};

/** A store that limits its calls and reports its load. */
export type LimitedStore = Store & Required<Pick<Store, 'connections' | 'renew'>> & { load(): Load };

/** A taken slot: its number of calls, how many of them still run, when one last began or ended, and whether that is long ago. */
type Slot = { readonly size: number; running: number; movedAt: number; isSlow: boolean };

/** A slot is slow after this time without an answer, in milliseconds; waiting reads then take another. On a busy machine 2 is too short. */
const FAST_MS = 5;

/**
 * Errors after which a call is repeated: a transaction that was rolled back because of a deadlock or a serialization failure, as
 * Postgres's manual advises; a write to a server that has become a standby (25006), because the store looks for the primary now;
 * 25P02, which outside of a transaction only comes from a connection between Citus nodes whose own transaction had failed; and a missing
 * or duplicate prepared statement (26000, 42P05) in another client's session of a pooler, because the store prepares none from then on.
 */
const UNDONE = /^(40(001|P01)|25006|25P02|26000|42P05)$/;

type Waiting = {
  readonly share: Share;
  readonly readOnly: boolean;
  readonly signal: AbortSignal;
  /** Receives the slot of the call, or the failure if it gets none. */
  readonly settle: (turn: Slot | Failed) => void;
};

/** A share: its waiting calls, and the number of running ones and of their slots. A call in a batch of n reads counts 1/n slot. */
type Share = { readonly name: string | undefined; readonly calls: Waiting[]; running: number; slots: number };

/**
 * Limits the calls in a store, and divides it fairly: waiting calls take turns by share, and one share cannot take every slot, so
 * one key's many calls do not hold up another's. Retries once: a read after a lost connection, because a restarted server leaves
 * dead connections behind, and any call that Postgres has undone in favour of others, or refused as a standby.
 */
export function limited(store: Store, limits: StoreLimits): LimitedStore {
  const turns = createTurns(limits, store);

  async function call(call: Call, signal: AbortSignal, origin?: Origin): Promise<Result> {
    const share = turns.findShare(origin?.share);
    const turn = await turns.take(share, call.readOnly, signal);
    if ('failure' in turn) return turn;
    try {
      const result = await store.call(call, signal, origin, turn);
      if (!mayRepeat(call, result)) return result;
      // In the next turn the store knows which other connections were lost at the same time.
      await nextTurn();
      return signal.aborted ? result : await store.call(call, signal, origin);
    } finally {
      turns.end(share, turn);
    }
  }

  return {
    ...store,
    call,
    connections: () => store.connections?.() ?? { open: 0, idle: 0 },
    renew: () => store.renew?.(),
    load: turns.load,
  };
}

/** Creates the queue of a store's calls. */
function createTurns(limits: StoreLimits, store: Pick<Store, 'batch'>) {
  const { slotsOfShare = limits.slots, fastSlots = 2 } = limits;
  /**
   * The shares with calls; the first has the next turn. Not a Map: each of its rehashed tables refers to the next one, so an old
   * table keeps the entries of all later ones until a full garbage collection.
   */
  const shares: Share[] = [];
  /** The slots of reads. */
  const reading = new Set<Slot>();
  let free = limits.slots;
  let running = 0;
  let waiting = 0;
  let isBeginning = false;
  let isWatching = false;

  function findShare(name: string | undefined): Share {
    const known = shares.find((share) => share.name === name);
    if (known) return known;
    const share = { name, calls: [], running: 0, slots: 0 };
    shares.push(share);
    return share;
  }

  function forgetIfIdle(share: Share): void {
    if (share.running + share.calls.length === 0) shares.splice(shares.indexOf(share), 1);
  }

  /** Waits for a slot. Returns the failure of a call that gets none: its signal aborted, or too many were waiting. */
  function take(share: Share, readOnly: boolean, signal: AbortSignal): Promise<Slot | Failed> {
    return new Promise((settle) => {
      share.calls.push({ share, readOnly, signal, settle });
      waiting += 1;
      beginSoon();
    });
  }

  /** Refuses the newest call of the largest share. */
  function refuseNewest(): void {
    const largest = shares.reduce((most, share) => (share.calls.length >= most.calls.length ? share : most));
    const newest = largest.calls.at(-1);
    if (newest) remove(newest, storeFault('storeOverloaded', `${limits.waiting} calls are waiting`));
  }

  /** Removes the calls for which nobody waits any more. A listener for each signal would cost more. */
  function removeAborted(): void {
    const aborted = shares.flatMap(({ calls }) => calls.filter(({ signal }) => signal.aborted));
    for (const call of aborted) remove(call, storeFault('storeTimeout', call.signal.reason));
  }

  function remove(call: Waiting, failed: Failed): void {
    const { share } = call;
    share.calls.splice(share.calls.indexOf(call), 1);
    waiting -= 1;
    forgetIfIdle(share);
    call.settle(failed);
  }

  /** Gives slots at the end of this turn of the event loop: the reads that arrive in one turn make larger batches. */
  function beginSoon(): void {
    if (isBeginning) return;
    isBeginning = true;
    setImmediate(() => {
      isBeginning = false;
      beginWaiting();
      while (waiting > limits.waiting) refuseNewest();
    });
  }

  /** Gives the free slots to waiting calls. Reads get no more than `maxFast` slots that are not slow. */
  function beginWaiting(): void {
    removeAborted();
    const { batch: maxBatch = 1 } = store;
    const maxFast = maxBatch > 1 ? fastSlots : limits.slots;
    while (free > 0 && waiting > 0) {
      const fast = [...reading].filter(({ isSlow }) => !isSlow).length;
      const slots = Math.min(free, maxFast - fast);
      if (slots <= 0) watch();
      const batch = slots > 0 ? takeBatch(slots, maxBatch) : takeNext(({ readOnly }) => !readOnly);
      if (batch.length === 0) return;
      const slot = { size: batch.length, running: batch.length, movedAt: performance.now(), isSlow: false };
      free -= 1;
      running += slot.size;
      if (batch[0]?.readOnly) reading.add(slot);
      for (const { share, settle } of batch) {
        share.running += 1;
        share.slots += 1 / slot.size;
        settle(slot);
      }
    }
  }

  /** Marks slow slots as long as reads wait for one. */
  function watch(): void {
    if (isWatching) return;
    isWatching = true;
    setTimeout(async () => {
      // Answers that arrived while this process was busy are read first.
      await nextTurn();
      isWatching = false;
      const now = performance.now();
      for (const slot of reading) slot.isSlow = now - slot.movedAt > FAST_MS;
      beginWaiting();
    }, FAST_MS);
  }

  /** Whether a share may take another slot. */
  function isOpen({ slots }: Share): boolean {
    // Seven times a seventh is a little less than one.
    return slots < slotsOfShare - 1e-9;
  }

  /** Takes the next call from the queue. If it is a read, adds others, so that all waiting reads fit into the slots. */
  function takeBatch(slots: number, maxBatch: number): Waiting[] {
    const ready = shares.reduce((sum, share) => sum + (isOpen(share) ? share.calls.length : 0), 0);
    const size = Math.min(maxBatch, Math.ceil(ready / slots));
    const batch = takeNext();
    while (batch[0]?.readOnly && batch.length < size) {
      const next = takeNext(({ readOnly }) => readOnly);
      if (next.length === 0) break;
      batch.push(...next);
    }
    return batch;
  }

  function takeNext(isWanted: (call: Waiting) => boolean = () => true): Waiting[] {
    const share = shares.find((one) => isOpen(one) && one.calls[0] && isWanted(one.calls[0]));
    if (!share) return [];
    shares.push(...shares.splice(shares.indexOf(share), 1));
    waiting -= 1;
    return share.calls.splice(0, 1);
  }

  function end(share: Share, slot: Slot): void {
    running -= 1;
    share.running -= 1;
    share.slots -= 1 / slot.size;
    slot.running -= 1;
    slot.movedAt = performance.now();
    slot.isSlow = false;
    if (slot.running === 0) {
      free += 1;
      reading.delete(slot);
    }
    forgetIfIdle(share);
    beginSoon();
  }

  function load(): Load {
    removeAborted();
    return { running, waiting };
  }

  return { take, findShare, end, load };
}

function mayRepeat({ readOnly }: Call, result: Result): boolean {
  if (!('failure' in result && isFault(result.failure))) return false;
  const { connectionLost, cause } = result.failure;
  return (readOnly && connectionLost === true) || UNDONE.test(Object(cause).code);
}
