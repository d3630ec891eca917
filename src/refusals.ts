// Makes the guessing of keys cost time. A key that is right is never held back, and a refusal only where its address
// has had more of them than a mistake explains.

import type { ServerResponse } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { LRUCache } from 'lru-cache';
import { toNetwork } from './network.ts';

/** Waits for as long as a refusal is to be held back; false where too many are, so that this one has to be dropped. */
export type HoldBack = (address: string, res: ServerResponse) => Promise<boolean>;

const MINUTE_MS = 60_000;
/** How late a refusal comes; a client that waits for its answer is to get it. */
const DELAY_MS = 5_000;
/** How many are held back at once, each of which keeps a request in memory. */
const MAX_HELD = 2_000;
/** How many addresses are remembered; the one that was quiet for the longest is forgotten. */
const MAX_ADDRESSES = 10_000;

/**
 * Counts refusals by client address, for a minute from the first one on. So many of them are given at once, and the
 * rest come 5 s late; 0 holds nothing back.
 */
export function createRefusals(perMinute: number): HoldBack {
  if (perMinute === 0) return async () => true;
  const counts = new LRUCache<string, number>({ max: MAX_ADDRESSES, ttl: MINUTE_MS, noUpdateTTL: true });
  let held = 0;

  return async (address, res) => {
    const network = toNetwork(address);
    const count = (counts.get(network) ?? 0) + 1;
    counts.set(network, count);
    if (count <= perMinute) return true;
    if (held >= MAX_HELD) return false;
    held += 1;
    await delayUntilGone(DELAY_MS, res);
    held -= 1;
    return true;
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
