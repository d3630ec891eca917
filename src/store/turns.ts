import { setImmediate } from 'node:timers/promises';
import { isFault, storeFault } from '../errors.ts';
import type { Call, Failed, Origin, Result, Store } from './store.ts';

/** The work of a store. */
export type Load = {
  /** Calls in the store. */
  readonly running: number;
  /** Calls in the queue. */
  readonly waiting: number;
};

/** The limits of a store. When the queue is full, the share with the most waiting calls loses its newest. */
export type StoreLimits = {
  /** How many calls run at once. While more reads wait than two slots take, a batch of them takes one (Store.batch). */
  readonly slots: number;
  /** How many slots one share takes; by default all. */
  readonly slotsOfShare?: number;
  /** How many calls wait. */
  readonly waiting: number;
};

/** A store with its load. */
export type LimitedStore = Store & Required<Pick<Store, 'connections' | 'renew'>> & { load(): Load };

/** A slot that is taken: the number of its calls, of those that have not ended, when the last one ended, and whether that is long ago. */
type Slot = { readonly size: number; running: number; movedAt: number; isSlow: boolean };

/**
 * How many slots reads take while they are fast. A process of Postgres for each of many short reads makes them wait for a
 * processor; two keep one gateway's process busy (docs/performance.md).
 */
const FEW = 2;
/**
 * A slot without an answer for longer, in milliseconds, is slow: reads that wait take another one. With 2 ms, a busy machine makes
 * slots slow whose reads are fast.
 */
const FAST_MS = 5;

/** A waiting call: it begins, or is refused. */
type Waiting = {
  readonly share: Share;
  readonly readOnly: boolean;
  readonly begin: (slot: Slot) => void;
  readonly refuse: () => void;
};

/**
 * The calls of one share: the queue, the number of running ones, and the slots that these take: a batch of n reads takes one, so
 * each of its calls counts 1/n.
 */
type Share = { readonly name: string | undefined; readonly calls: Waiting[]; running: number; slots: number };

/** Gives turns to the calls of a store. */
type Turns = {
  /** Waits for a turn, and gives its slot, or the failure of a call without one: its signal aborted, or too many were waiting. */
  take(share: Share, readOnly: boolean, signal: AbortSignal): Promise<Slot | Failed>;
  findShare(name: string | undefined): Share;
  end(share: Share, slot: Slot): void;
  load(): Load;
};

/**
 * Limits the calls in a store and shares it fairly: waiting calls take turns round-robin by share, and one share cannot take
 * every slot, so one key's many calls do not hold up another's. A read is retried once after a lost connection, because a
 * restarted server leaves dead connections behind. A call that writes is never retried.
 */
export function limited(store: Store, limits: StoreLimits): LimitedStore {
  const turns = createTurns(limits, store.batch);

  async function call(call: Call, signal: AbortSignal, origin?: Origin): Promise<Result> {
    const share = turns.findShare(origin?.share);
    const turn = await turns.take(share, call.readOnly, signal);
    if ('failure' in turn) return turn;
    try {
      const result = await store.call(call, signal, origin, turn);
      if (!call.readOnly || !isConnectionLost(result)) return result;
      // By then the other connections that were lost in the same moment are known.
      await setImmediate();
      return signal.aborted ? result : await store.call(call, signal, origin);
    } finally {
      turns.end(share, turn);
    }
  }

  return {
    description: store.description,
    call,
    check: (signal) => store.check(signal),
    inspectLogin: async (signal) => store.inspectLogin?.(signal),
    describe: (signal) => store.describe(signal),
    connections: () => store.connections?.() ?? { open: 0, idle: 0 },
    renew: () => store.renew?.(),
    load: turns.load,
    close: () => store.close(),
  };
}

function createTurns(limits: StoreLimits, maxBatch = 1): Turns {
  const { slotsOfShare = limits.slots } = limits;
  /**
   * The shares with calls; the first has the next turn. An array, because each table of a Map refers to the next one: once one is
   * old, everything in later ones is kept until a full garbage collection.
   */
  const shares: Share[] = [];
  const few = maxBatch > 1 ? FEW : limits.slots;
  /** The slots with reads. */
  const reading = new Set<Slot>();
  let free = limits.slots;
  let running = 0;
  let waiting = 0;
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

  function take(share: Share, readOnly: boolean, signal: AbortSignal): Promise<Slot | Failed> {
    return new Promise((resolve) => {
      let isWaiting = true;
      const settle = (result: Slot | Failed) => {
        isWaiting = false;
        signal.removeEventListener('abort', giveUp);
        resolve(result);
      };
      const call: Waiting = {
        share,
        readOnly,
        begin: settle,
        refuse: () => settle(storeFault('storeOverloaded', `${limits.waiting} calls are waiting`)),
      };
      const giveUp = () => {
        remove(call);
        settle(storeFault('storeTimeout', signal.reason));
      };
      share.calls.push(call);
      waiting += 1;
      beginWaiting();
      if (!isWaiting) return;
      signal.addEventListener('abort', giveUp, { once: true });
      if (waiting > limits.waiting) refuseNewest();
    });
  }

  /** Refuses the newest call of the largest share. */
  function refuseNewest(): void {
    const largest = shares.reduce((most, share) => (share.calls.length >= most.calls.length ? share : most));
    const newest = largest.calls.at(-1);
    if (!newest) return;
    remove(newest);
    newest.refuse();
  }

  function remove(call: Waiting): void {
    const { share } = call;
    share.calls.splice(share.calls.indexOf(call), 1);
    waiting -= 1;
    forgetIfIdle(share);
  }

  /** Fills the free slots: with reads as many as they may take. */
  function beginWaiting(): void {
    while (free > 0 && waiting > 0) {
      const slots = Math.min(free, few - countFast());
      if (slots <= 0) watch();
      const batch = slots > 0 ? takeBatch(slots) : takeNext(({ readOnly }) => !readOnly);
      if (batch.length === 0) return;
      const slot = { size: batch.length, running: batch.length, movedAt: performance.now(), isSlow: false };
      free -= 1;
      running += slot.size;
      if (batch[0]?.readOnly) reading.add(slot);
      for (const { share, begin } of batch) {
        share.running += 1;
        share.slots += 1 / slot.size;
        begin(slot);
      }
    }
  }

  function countFast(): number {
    let count = 0;
    for (const { isSlow } of reading) if (!isSlow) count += 1;
    return count;
  }

  /** Finds slow slots, as long as reads wait for a fast one. */
  function watch(): void {
    if (isWatching) return;
    isWatching = true;
    setTimeout(async () => {
      // Answers that came while this process was busy are read first.
      await setImmediate();
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

  /** Takes the next call from the queue; if it reads, as many reads as the slots leave for one. */
  function takeBatch(slots: number): Waiting[] {
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
    beginWaiting();
  }

  return { take, findShare, end, load: () => ({ running, waiting }) };
}

function isConnectionLost(result: Result): boolean {
  return 'failure' in result && isFault(result.failure) && result.failure.connectionLost === true;
}
