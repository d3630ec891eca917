// Makes guessing of keys slow. A network with more refused keys than a mistake explains gets its refusals late, and only
// a few at a time. A key that was accepted before is never delayed.

import { setTimeout as delay } from 'node:timers/promises';
import { LRUCache } from 'lru-cache';

/** Delays refusals by network. */
export type DelayedRefusals = {
  /** Takes one of a network's places while a key that was not accepted yet is verified for it. */
  takePlace(network: string): Place;
  /** Waits for the delay of a refusal; gives false if too many are delayed, so that this one has to be dropped. */
  holdBack(network: string, signal: AbortSignal): Promise<boolean>;
};

/** A place, unless all of them are taken. */
export type Place = { readonly isTaken: boolean; free(): void };

const MINUTE_MS = 60_000;
/** The delay of a refusal. */
const DELAY_MS = 5_000;
/** The places of a network that is over its rate: it can try 2 keys a second. */
const MAX_PLACES = 10;
/** How many refusals are delayed at once in all; each keeps a request in memory. */
const MAX_HELD = 2_000;
/** How many networks are remembered. */
const MAX_NETWORKS = 10_000;

const UNLIMITED: Place = { isTaken: false, free: () => {} };
const NONE_LEFT: Place = { isTaken: true, free: () => {} };

/**
 * Creates the delay. Refusals are counted by network, for a minute from the first one on: `perMinute` of them are
 * immediate, and the rest come 5 s late. 0 delays nothing.
 */
export function createDelayedRefusals(perMinute: number): DelayedRefusals {
  if (perMinute === 0) return { takePlace: () => UNLIMITED, holdBack: async () => true };
  const counts = new LRUCache<string, number>({ max: MAX_NETWORKS, ttl: MINUTE_MS, noUpdateTTL: true });
  /** How many places each network has taken: by keys that are being verified, and by delayed refusals. */
  const taken = new Map<string, number>();
  let held = 0;

  function take(network: string): Place {
    taken.set(network, (taken.get(network) ?? 0) + 1);
    const free = () => {
      const rest = (taken.get(network) ?? 1) - 1;
      if (rest > 0) taken.set(network, rest);
      else taken.delete(network);
    };
    return { isTaken: false, free };
  }

  return {
    takePlace: (network) => {
      if ((counts.get(network) ?? 0) < perMinute) return UNLIMITED;
      return (taken.get(network) ?? 0) < MAX_PLACES ? take(network) : NONE_LEFT;
    },
    holdBack: async (network, signal) => {
      const count = (counts.get(network) ?? 0) + 1;
      counts.set(network, count);
      if (count <= perMinute) return true;
      if (held >= MAX_HELD) return false;
      held += 1;
      const place = take(network);
      // The place is taken for the whole delay: a client that disconnects sooner could otherwise guess at any speed.
      setTimeout(() => {
        held -= 1;
        place.free();
      }, DELAY_MS).unref();
      // It rejects only when the client has disconnected.
      await delay(DELAY_MS, undefined, { signal }).catch(() => {});
      return true;
    },
  };
}
