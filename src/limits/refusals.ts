// Slows down guessing of API keys: the refusals of a network with too many refused keys are delayed, and only a few run at a
// time. A key that was accepted before is delayed only if it exceeds its limits again and again.

import { setTimeout as delay } from 'node:timers/promises';
import { LRUCache } from 'lru-cache';
import type { Failure } from '../errors.ts';
import type { Rows } from '../store/store.ts';

/** Remembers the keys that the store has accepted, and delays refusals. */
export type Guard = {
  /**
   * Makes a store call in the share of the key if it was accepted before, because a client cannot invent such a key, or else in the share
   * of the network. A network with too many refused keys may make a few such calls at a time; more are refused.
   */
  callWithPermit<R extends Rows | RefusedCall>(
    client: Client,
    call: (share: string) => Promise<R>,
  ): Promise<R | RefusedCall>;
  /** Delays a refusal where needed, and returns the failure to send. */
  holdBack(failure: Failure, client: Client): Promise<Failure>;
};

type Client = {
  readonly key: string | undefined;
  readonly network: string;
  /** Aborted when the client disconnects. */
  readonly controller: AbortController;
};

type RefusedCall = { readonly failure: Failure };

/** Frees the permit of a key that is being verified, or of a delayed refusal. */
type Free = () => void;

/** The maximum number of remembered keys; a dropped key counts as unknown until the store accepts it again. */
const MAX_KEYS = 10_000;
const MINUTE_MS = 60_000;
/** The delay of a refusal, in milliseconds. */
const DELAY_MS = 5_000;
/** The permits of a network over its rate: with the delay, it can try 2 keys a second. */
const MAX_PERMITS = 10;
/** The maximum number of delayed refusals of all sources; each keeps a request in memory. */
const MAX_DELAYED = 2_000;
/** The maximum number of sources whose refusals are counted. */
const MAX_SOURCES = 10_000;

const UNLIMITED: Free = () => {};

/** Creates the guard. `perMinute` refusals per network, and per key over its limits, are immediate; with 0 all are. */
export function createGuard(perMinute: number): Guard {
  const accepted = new LRUCache<string, true>({ max: MAX_KEYS });
  const refusals = createDelays(perMinute);
  const slowed = createDelays(perMinute);

  return {
    callWithPermit: async (client, call) => {
      const { key = '', network } = client;
      // accepted.has would not mark the key as recently used.
      const isAccepted = accepted.get(key) === true;
      const free = isAccepted ? UNLIMITED : refusals.takePermit(network);
      if (!free) return { failure: { kind: 'tooManyRefusals' } };
      try {
        const result = await call(isAccepted ? key : `address ${network}`);
        const failure = 'failure' in result ? result.failure : undefined;
        if (failure && isWrongKey(failure)) accepted.delete(key);
        // A key that only lacks the permission for this call is valid.
        else if (!isAccepted && (!failure || failure.kind === 'refusedKey')) accepted.set(key, true);
        return result;
      } finally {
        free();
      }
    },
    holdBack: async (failure, client) => {
      // A client that ignores Retry-After costs others processor time. Its refusal is not delayed if too many are already.
      if (failure.kind === 'tooManyRequests') await slowed.holdBack(client.key ?? '', client.controller.signal);
      const isSent = !isWrongKey(failure) || (await refusals.holdBack(client.network, client.controller.signal));
      return isSent ? failure : { kind: 'tooManyRefusals' };
    },
  };
}

function isWrongKey(failure: Failure): boolean {
  return failure.kind === 'refusedKey' && !failure.lacksPermission;
}

/** Creates the delays of refusals. They are counted by source, a network or a key over its limits, for a minute from the first one. */
export function createDelays(perMinute: number) {
  const counts = new LRUCache<string, number>({ max: MAX_SOURCES, ttl: MINUTE_MS, noUpdateTTL: true });
  /** The number of taken permits by source: keys being verified and delayed refusals. */
  const taken = new Map<string, number>();
  let delayed = 0;

  function take(source: string): Free {
    taken.set(source, (taken.get(source) ?? 0) + 1);
    return () => {
      const rest = (taken.get(source) ?? 1) - 1;
      if (rest > 0) taken.set(source, rest);
      else taken.delete(source);
    };
  }

  return {
    /** Takes one of a source's permits, and returns the function that frees it; undefined if none is left. */
    takePermit: (source: string): Free | undefined => {
      if (perMinute === 0 || (counts.get(source) ?? 0) < perMinute) return UNLIMITED;
      return (taken.get(source) ?? 0) < MAX_PERMITS ? take(source) : undefined;
    },
    /** Waits for the delay of a refusal. Returns false if too many are delayed already, and this one must be dropped. */
    holdBack: async (source: string, signal: AbortSignal): Promise<boolean> => {
      if (perMinute === 0) return true;
      const count = (counts.get(source) ?? 0) + 1;
      counts.set(source, count);
      if (count <= perMinute) return true;
      if (delayed >= MAX_DELAYED) return false;
      delayed += 1;
      const free = take(source);
      // Keeps the permit for the whole delay: otherwise a client that disconnects early could guess at any speed.
      setTimeout(() => {
        delayed -= 1;
        free();
      }, DELAY_MS).unref();
      // Rejects only if the client has disconnected.
      await delay(DELAY_MS, undefined, { signal }).catch(() => {});
      return true;
    },
  };
}
