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

/** A store with its load. */
export type LimitedStore = Store & Required<Pick<Store, 'connections'>> & { load(): Load };

/** A waiting call: it begins, or is refused. */
type Waiting = { readonly begin: () => void; readonly refuse: () => void };

/** The calls of one share: how many run, and the queue. */
type Share = { readonly name: string | undefined; readonly calls: Waiting[]; running: number };

/**
 * Limits the calls in a store and shares it fairly: waiting calls take turns round-robin by share, and one share cannot take
 * every place, so one key's many calls do not hold up another's. A read is retried once after a lost connection, because a
 * restarted server leaves dead connections behind. A call that writes is never retried.
 */
export function limited(store: Store, limits: Limits): LimitedStore {
  const { runningOfShare = limits.running } = limits;
  /**
   * The shares with calls; the first has the next turn. An array, because a Map with many insertions and deletions keeps
   * garbage alive (see embedded/store.ts).
   */
  const shares: Share[] = [];
  let running = 0;
  let waiting = 0;

  function findShare(name: string | undefined): Share {
    const known = shares.find((share) => share.name === name);
    if (known) return known;
    const share = { name, calls: [], running: 0 };
    shares.push(share);
    return share;
  }

  function forgetIfIdle(share: Share): void {
    if (share.running === 0 && share.calls.length === 0) shares.splice(shares.indexOf(share), 1);
  }

  /** Waits for a turn. Gives the failure of a call without one: its signal aborted, or too many were waiting. */
  function turn(share: Share, signal: AbortSignal): Promise<Result | undefined> {
    return new Promise((resolve) => {
      const settle = (result?: Result) => {
        signal.removeEventListener('abort', giveUp);
        resolve(result);
      };
      const call: Waiting = {
        begin: () => settle(),
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
  }

  function hasPlaceFor(share: Share): boolean {
    return running < limits.running && share.running < runningOfShare;
  }

  function occupy(share: Share): void {
    running += 1;
    share.running += 1;
  }

  function release(share: Share): void {
    running -= 1;
    share.running -= 1;
    forgetIfIdle(share);
    const index = waiting === 0 ? -1 : shares.findIndex((one) => one.calls.length > 0 && hasPlaceFor(one));
    const [next] = index === -1 ? [] : shares.splice(index, 1);
    if (!next) return;
    shares.push(next);
    waiting -= 1;
    occupy(next);
    next.calls.shift()?.begin();
  }

  async function call(call: Call, signal: AbortSignal, origin?: Origin): Promise<Result> {
    const share = findShare(origin?.share);
    if (hasPlaceFor(share)) occupy(share);
    else {
      const failed = await turn(share, signal);
      if (failed) return failed;
    }
    try {
      const result = await store.call(call, signal, origin);
      const isRepeated = call.readOnly && isConnectionLost(result) && !signal.aborted;
      return isRepeated ? await store.call(call, signal, origin) : result;
    } finally {
      release(share);
    }
  }

  return {
    description: store.description,
    call,
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
