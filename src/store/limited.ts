import { isFault, storeFault } from '../errors.ts';
import type { Call, Origin, Result, Store } from './store.ts';

/** How much work a store is given at once. */
export type Limits = {
  /** Calls that the store works on. */
  readonly running: number;
  /** Calls that wait for their turn; one more is refused at once. */
  readonly waiting: number;
};

/** A store that says how much work it has. */
export type LimitedStore = Store & Required<Pick<Store, 'connections'>> & { load(): Limits };

/**
 * A store that is given no more work than it can take, and that makes a read once more where the connection was
 * lost: a server that was restarted leaves dead connections behind. A call that writes is never made twice.
 */
export function limited(store: Store, limits: Limits): LimitedStore {
  /** In their order; no Set, as in embedded.ts. */
  const waiting: (() => void)[] = [];
  let running = 0;

  /** Waits for a turn; false where the signal came first. */
  function turn(signal: AbortSignal): Promise<boolean> {
    return new Promise((resolve) => {
      const begin = () => {
        signal.removeEventListener('abort', give);
        resolve(true);
      };
      const give = () => {
        waiting.splice(waiting.indexOf(begin), 1);
        resolve(false);
      };
      signal.addEventListener('abort', give, { once: true });
      waiting.push(begin);
    });
  }

  function release(): void {
    const next = waiting.shift();
    if (!next) {
      running -= 1;
      return;
    }
    // The turn goes over to the next one: the number of those that run stays.
    next();
  }

  async function call(call: Call, signal: AbortSignal, origin?: Origin): Promise<Result> {
    if (running < limits.running) running += 1;
    else if (waiting.length >= limits.waiting)
      return storeFault('storeOverloaded', `${waiting.length} calls are waiting`);
    else if (!(await turn(signal))) return storeFault('storeTimeout', signal.reason);
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
    load: () => ({ running, waiting: waiting.length }),
    close: () => store.close(),
  };
}

function isConnectionLost(result: Result): boolean {
  return 'failure' in result && isFault(result.failure) && result.failure.connectionLost === true;
}
