import { isFault, storeFault } from '../errors.ts';
import type { Call, Origin, Result, Store } from './store.ts';

/** How much work a store is given at once. */
export type Limits = {
  /** Calls that the store works on. */
  readonly running: number;
  /** Calls that wait for their turn; beyond it the share with the most of them loses one. */
  readonly waiting: number;
};

/** A store that says how much work it has. */
export type LimitedStore = Store & Required<Pick<Store, 'connections'>> & { load(): Limits };

/** A call that waits: it begins, or ends without having begun. */
type Waiting = { readonly begin: () => void; readonly refuse: () => void };

/** The calls of one share that wait, in their order. */
type Share = { readonly name: string | undefined; readonly calls: Waiting[] };

/**
 * A store that is given no more work than it can take, and shares it out: those that wait have their turns round-robin by
 * share, so that one key's many calls hold up another key's call by one at most. It makes a read once more where the
 * connection was lost: a server that was restarted leaves dead connections behind. A call that writes is never made
 * twice.
 */
export function limited(store: Store, limits: Limits): LimitedStore {
  /**
   * The shares that have calls waiting; the first has the next turn. A list, which is searched, for a Map that things go
   * through keeps garbage (see embedded.ts).
   */
  const shares: Share[] = [];
  let running = 0;
  let waiting = 0;

  /** Waits for a turn. Gives the failure of a call that has none: the signal came first, or there were too many. */
  function turn(signal: AbortSignal, name: string | undefined): Promise<Result | undefined> {
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
        remove(call);
        settle(storeFault('storeTimeout', signal.reason));
      };
      signal.addEventListener('abort', giveUp, { once: true });
      add(call, name);
    });
  }

  function add(call: Waiting, name: string | undefined): void {
    let share = shares.find((one) => one.name === name);
    if (!share) {
      share = { name, calls: [] };
      shares.push(share);
    }
    share.calls.push(call);
    waiting += 1;
    if (waiting > limits.waiting) dropNewest();
  }

  /** Refuses the newest call of the share that has the most; of several the one that came last. */
  function dropNewest(): void {
    const largest = shares.reduce((most, share) => (share.calls.length >= most.calls.length ? share : most));
    const newest = largest.calls.at(-1);
    if (!newest) return;
    remove(newest);
    newest.refuse();
  }

  function remove(call: Waiting): void {
    const share = shares.find(({ calls }) => calls.includes(call));
    if (!share) return;
    share.calls.splice(share.calls.indexOf(call), 1);
    if (share.calls.length === 0) shares.splice(shares.indexOf(share), 1);
    waiting -= 1;
  }

  function release(): void {
    const share = shares.shift();
    const next = share?.calls.shift();
    if (!share || !next) {
      running -= 1;
      return;
    }
    if (share.calls.length > 0) shares.push(share);
    waiting -= 1;
    // The turn goes over to the next one: the number of those that run stays.
    next.begin();
  }

  async function call(call: Call, signal: AbortSignal, origin?: Origin): Promise<Result> {
    if (running < limits.running) running += 1;
    else {
      const failed = await turn(signal, origin?.share);
      if (failed) return failed;
    }
    try {
      const result = await store.call(call, signal, origin);
      const isRepeated = call.readOnly && isConnectionLost(result) && !signal.aborted;
      return isRepeated ? await store.call(call, signal, origin) : result;
    } finally {
      release();
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
