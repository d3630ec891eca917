import { setImmediate } from 'node:timers/promises';
import { LRUCache } from 'lru-cache';
import { isFault, storeFault } from '../errors.ts';
import type { Call, Origin, Result, Store } from './store.ts';

/** The work of a store. */
export type Load = {
  /** Calls in the store. */
  readonly running: number;
  /** Calls in the queue. */
  readonly waiting: number;
};

/** The limits of a store. When the queue is full, the share with the most waiting calls loses its newest. */
export type Limits = Load & {
  /** Calls of one share in the store; by default as many as of all. */
  readonly runningOfShare?: number;
};

/** The reads of a share are quick while they take less than this on average, in milliseconds. */
const QUICK_MS = 20;
/** How much of the average is that of the last read. */
const LAST = 1 / 8;
/** For how many shares the average is known; the reads of others are not taken for quick. */
const MAX_AVERAGES = 10_000;

/** A store with its load. */
export type LimitedStore = Store & Required<Pick<Store, 'connections'>> & { load(): Load };

type Failed = ReturnType<typeof storeFault>;

/** A waiting call: it begins, or is refused. */
type Waiting = { readonly readOnly: boolean; readonly begin: (cost: number) => void; readonly refuse: () => void };

/** The calls of one share: what the running ones cost, the queue, and how long its reads take on average. */
type Share = { readonly name: string | undefined; readonly calls: Waiting[]; used: number; averageMs: number };

/**
 * Limits the calls in a store and shares it fairly: waiting calls take turns round-robin by share, and one share cannot take
 * every place, so one key's many calls do not hold up another's. A read is retried once after a lost connection, because a
 * restarted server leaves dead connections behind. A call that writes is never retried.
 */
export function limited(store: Store, limits: Limits): LimitedStore {
  const { runningOfShare = limits.running } = limits;
  const { readsPerConnection = 1 } = store;
  /**
   * The shares with calls; the first has the next turn. An array, because a Map with many insertions and deletions keeps
   * garbage alive (see embedded/store.ts).
   */
  const shares: Share[] = [];
  const averages = new LRUCache<string, number>({ max: MAX_AVERAGES });
  let running = 0;
  /** What the running calls cost: 1 each, or a part of it for a quick read. */
  let used = 0;
  let waiting = 0;
  /** Whether the next call waits for others to end: it would never have a whole place if later ones took each part of it. */
  let isHeld = false;

  function findShare(name: string | undefined): Share {
    const known = shares.find((share) => share.name === name);
    if (known) return known;
    const share = { name, calls: [], used: 0, averageMs: averages.get(name ?? '') ?? QUICK_MS };
    shares.push(share);
    return share;
  }

  function forgetIfIdle(share: Share): void {
    if (share.used > 0 || share.calls.length > 0) return;
    averages.set(share.name ?? '', share.averageMs);
    shares.splice(shares.indexOf(share), 1);
  }

  /** Waits for a turn, and gives its cost, or the failure of a call without one: its signal aborted, or too many were waiting. */
  function turn(share: Share, readOnly: boolean, signal: AbortSignal): Promise<number | Failed> {
    return new Promise((resolve) => {
      const settle = (result: number | Failed) => {
        signal.removeEventListener('abort', giveUp);
        resolve(result);
      };
      const call: Waiting = {
        readOnly,
        begin: settle,
        refuse: () => settle(storeFault('storeOverloaded', `STORE_WAITING: ${limits.waiting} calls are waiting`)),
      };
      const giveUp = () => {
        remove(call, share);
        settle(storeFault('storeTimeout', signal.reason));
      };
      signal.addEventListener('abort', giveUp, { once: true });
      share.calls.push(call);
      waiting += 1;
      if (waiting > limits.waiting) dropNewest();
    });
  }

  /** Refuses the newest call of the largest share. */
  function dropNewest(): void {
    const largest = shares.reduce((most, share) => (share.calls.length >= most.calls.length ? share : most));
    const newest = largest.calls.at(-1);
    if (!newest) return;
    remove(newest, largest);
    newest.refuse();
  }

  function remove(call: Waiting, share: Share): void {
    share.calls.splice(share.calls.indexOf(call), 1);
    waiting -= 1;
    forgetIfIdle(share);
    beginWaiting();
  }

  /** Begins a call if there is room for it, and gives its cost. */
  function tryToBegin(share: Share, readOnly: boolean): number | undefined {
    const cost = readOnly && share.averageMs < QUICK_MS ? 1 / readsPerConnection : 1;
    if (share.used + cost > runningOfShare) return undefined;
    isHeld = used + cost > limits.running;
    if (isHeld) return undefined;
    running += 1;
    used += cost;
    share.used += cost;
    return cost;
  }

  function end(share: Share, cost: number): void {
    running -= 1;
    used -= cost;
    share.used -= cost;
    forgetIfIdle(share);
    beginWaiting();
  }

  function beginWaiting(): void {
    isHeld = false;
    let index = 0;
    while (!isHeld && waiting > 0 && index < shares.length) {
      const share = shares[index] as Share;
      const [next] = share.calls;
      const cost = next && tryToBegin(share, next.readOnly);
      if (cost === undefined) {
        index += 1;
        continue;
      }
      share.calls.shift();
      shares.splice(index, 1);
      shares.push(share);
      waiting -= 1;
      next?.begin(cost);
    }
  }

  async function call(call: Call, signal: AbortSignal, origin?: Origin): Promise<Result> {
    const share = findShare(origin?.share);
    const { readOnly } = call;
    const isNext = share.calls.length === 0 && !isHeld;
    const begun = isNext ? tryToBegin(share, readOnly) : undefined;
    const cost = begun ?? (await turn(share, readOnly, signal));
    if (typeof cost !== 'number') return cost;
    const startedAt = performance.now();
    try {
      const result = await store.call(call, signal, origin, cost === 1);
      if (!readOnly || !isConnectionLost(result)) return result;
      // By then the other connections that were lost in the same moment are known.
      await setImmediate();
      return signal.aborted ? result : await store.call(call, signal, origin, cost === 1);
    } finally {
      if (readOnly) share.averageMs += (performance.now() - startedAt - share.averageMs) * LAST;
      end(share, cost);
    }
  }

  return {
    description: store.description,
    call,
    ...(store.attempt ? { attempt: (call, signal) => store.attempt?.(call, signal) as Promise<Result> } : {}),
    check: (signal) => store.check(signal),
    describe: (signal) => store.describe(signal),
    connections: () => store.connections?.() ?? { open: 0, idle: 0 },
    load: () => ({ running, waiting }),
    close: () => store.close(),
  };
}

function isConnectionLost(result: Result): boolean {
  return 'failure' in result && isFault(result.failure) && result.failure.connectionLost === true;
}
