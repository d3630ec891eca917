// Makes the guessing of keys cost time. An address that was refused more often than a mistake explains is given its
// refusals late, and only so many of them at a time. A key that was accepted before is never held back.

import type { ServerResponse } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { LRUCache } from 'lru-cache';
import { toNetwork } from './client-address.ts';

/** Holds refusals back by client address. */
export type Refusals = {
  /** Takes one of an address's places while a key that is not known to be right is verified for it. */
  takePlace(address: string): Place;
  /** Waits for as long as a refusal is to be held back; false where too many are, so that this one has to be dropped. */
  holdBack(address: string, res: ServerResponse): Promise<boolean>;
};

/** A place, unless all of them are taken. */
export type Place = { readonly isTaken: boolean; free(): void };

const MINUTE_MS = 60_000;
/** How late a refusal comes; a client that waits for its answer is to get it. */
const DELAY_MS = 5_000;
/** The places of an address that is over its rate: it can try 2 keys a second. */
const MAX_PLACES = 10;
/** How many are held back at once in all, each of which keeps a request in memory. */
const MAX_HELD = 2_000;
/** How many addresses are remembered; the one that was quiet for the longest is forgotten. */
const MAX_ADDRESSES = 10_000;

const UNLIMITED: Place = { isTaken: false, free: () => {} };
const NONE_LEFT: Place = { isTaken: true, free: () => {} };

/**
 * Counts refusals by client address, for a minute from the first one on. So many of them are given at once, and the
 * rest come 5 s late; 0 holds nothing back.
 */
export function createRefusals(perMinute: number): Refusals {
  if (perMinute === 0) return { takePlace: () => UNLIMITED, holdBack: async () => true };
  const counts = new LRUCache<string, number>({ max: MAX_ADDRESSES, ttl: MINUTE_MS, noUpdateTTL: true });
  /** How many places are taken, by address: of keys that are verified, and of refusals that are held back. */
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
    takePlace: (address) => {
      const network = toNetwork(address);
      if ((counts.get(network) ?? 0) < perMinute) return UNLIMITED;
      return (taken.get(network) ?? 0) < MAX_PLACES ? take(network) : NONE_LEFT;
    },
    holdBack: async (address, res) => {
      const network = toNetwork(address);
      const count = (counts.get(network) ?? 0) + 1;
      counts.set(network, count);
      if (count <= perMinute) return true;
      if (held >= MAX_HELD) return false;
      held += 1;
      const place = take(network);
      // For the whole delay: a client that gives up sooner would otherwise guess at any speed.
      setTimeout(() => {
        held -= 1;
        place.free();
      }, DELAY_MS).unref();
      await delayUntilGone(DELAY_MS, res);
      return true;
    },
  };
}

async function delayUntilGone(ms: number, res: ServerResponse): Promise<void> {
  if (res.closed) return;
  const controller = new AbortController();
  const gone = () => controller.abort();
  res.once('close', gone);
  // An abortion is the one way in which this fails.
  await delay(ms, undefined, { signal: controller.signal }).catch(() => {});
  res.off('close', gone);
}
