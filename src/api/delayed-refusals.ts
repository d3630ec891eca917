// Slows down guessing of API keys: a network with too many refused keys gets its refusals late and only a few at a time. A key
// that was accepted before is delayed only where it is over its limits again and again.

import { setTimeout as delay } from 'node:timers/promises';
import { LRUCache } from 'lru-cache';

/** Delays refusals by their source: a network, or a key that is over its limits. */
export type DelayedRefusals = {
  /** Takes one of a network's permits while the store verifies a key that was not accepted before; undefined if none is left. */
  takePermit(network: string): Permit | undefined;
  /** Waits for the delay of a refusal. Returns false if too many are delayed already, and this one must be dropped. */
  holdBack(source: string, signal: AbortSignal): Promise<boolean>;
};

/** The permit to verify one key, or to be delayed. */
export type Permit = { free(): void };

const MINUTE_MS = 60_000;
/** The delay of a refusal, in milliseconds. */
const DELAY_MS = 5_000;
/** The permits of a network over its rate: with the delay, it can try 2 keys a second. */
const MAX_PERMITS = 10;
/** The maximum number of delayed refusals of all sources; each keeps a request in memory. */
const MAX_DELAYED = 2_000;
/** The maximum number of sources whose refusals are counted. */
const MAX_SOURCES = 10_000;

const UNLIMITED: Permit = { free: () => {} };

/**
 * Creates the delay. Refusals are counted by source, for a minute from the first one: `perMinute` of them are
 * immediate, and the rest are delayed by 5 s. 0 delays none.
 */
export function createDelayedRefusals(perMinute: number): DelayedRefusals {
  if (perMinute === 0) return { takePermit: () => UNLIMITED, holdBack: async () => true };
  const counts = new LRUCache<string, number>({ max: MAX_SOURCES, ttl: MINUTE_MS, noUpdateTTL: true });
  /** The number of taken permits by source: keys being verified and delayed refusals. */
  const taken = new Map<string, number>();
  let delayed = 0;

  function take(source: string): Permit {
    taken.set(source, (taken.get(source) ?? 0) + 1);
    const free = () => {
      const rest = (taken.get(source) ?? 1) - 1;
      if (rest > 0) taken.set(source, rest);
      else taken.delete(source);
    };
    return { free };
  }

  return {
    takePermit: (network) => {
      if ((counts.get(network) ?? 0) < perMinute) return UNLIMITED;
      return (taken.get(network) ?? 0) < MAX_PERMITS ? take(network) : undefined;
    },
    holdBack: async (source, signal) => {
      const count = (counts.get(source) ?? 0) + 1;
      counts.set(source, count);
      if (count <= perMinute) return true;
      if (delayed >= MAX_DELAYED) return false;
      delayed += 1;
      const permit = take(source);
      // Keeps the permit for the whole delay: otherwise a client that disconnects early could guess at any speed.
      setTimeout(() => {
        delayed -= 1;
        permit.free();
      }, DELAY_MS).unref();
      // Rejects only if the client has disconnected.
      await delay(DELAY_MS, undefined, { signal }).catch(() => {});
      return true;
    },
  };
}
