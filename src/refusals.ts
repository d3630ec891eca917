// Makes the guessing of keys cost time. An address that was refused more often than a mistake explains is given its
// refusals late, and only so many of them at a time. A key that was accepted before is never held back.

import type { ServerResponse } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { LRUCache } from 'lru-cache';
import { toNetwork } from './network.ts';

/** Holds refusals back by client address. */
export type Refusals = {
  /** Whether a key that is not known to be right may be verified for an address. */
  admits(address: string): boolean;
  /** Waits for as long as a refusal is to be held back; false where too many are, so that this one has to be dropped. */
  holdBack(address: string, res: ServerResponse): Promise<boolean>;
};

const MINUTE_MS = 60_000;
/** How late a refusal comes; a client that waits for its answer is to get it. */
const DELAY_MS = 5_000;
/** How many refusals of one address are held back at once: beyond its rate it can try 2 keys a second. */
const MAX_HELD_PER_ADDRESS = 10;
/** How many are held back at once in all, each of which keeps a request in memory. */
const MAX_HELD = 2_000;
/** How many addresses are remembered; the one that was quiet for the longest is forgotten. */
const MAX_ADDRESSES = 10_000;

/**
 * Counts refusals by client address, for a minute from the first one on. So many of them are given at once, and the
 * rest come 5 s late; 0 holds nothing back.
 */
export function createRefusals(perMinute: number): Refusals {
  if (perMinute === 0) return { admits: () => true, holdBack: async () => true };
  const counts = new LRUCache<string, number>({ max: MAX_ADDRESSES, ttl: MINUTE_MS, noUpdateTTL: true });
  /** How many are held back, by address. */
  const held = new Map<string, number>();
  let heldInAll = 0;

  /** Takes a place for the whole delay: a client that gives up sooner would otherwise guess at any speed. */
  function takePlace(network: string): void {
    heldInAll += 1;
    held.set(network, (held.get(network) ?? 0) + 1);
    const free = () => {
      heldInAll -= 1;
      const rest = (held.get(network) ?? 1) - 1;
      if (rest > 0) held.set(network, rest);
      else held.delete(network);
    };
    setTimeout(free, DELAY_MS).unref();
  }

  return {
    admits: (address) => held.size === 0 || (held.get(toNetwork(address)) ?? 0) < MAX_HELD_PER_ADDRESS,
    holdBack: async (address, res) => {
      const network = toNetwork(address);
      const count = (counts.get(network) ?? 0) + 1;
      counts.set(network, count);
      if (count <= perMinute) return true;
      if (heldInAll >= MAX_HELD) return false;
      takePlace(network);
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
