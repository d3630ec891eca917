// Makes the guessing of keys cost time. A key that is right is never held back, and a refusal only where its address
// has had more of them than a mistake explains.

import type { ServerResponse } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import ipaddr from 'ipaddr.js';
import { LRUCache } from 'lru-cache';

/** Waits for as long as a refusal is to be held back; false where too many are, so that this one has to be dropped. */
export type HoldBack = (address: string | undefined, res: ServerResponse) => Promise<boolean>;

const MINUTE_MS = 60_000;
/** The longest that a refusal is held back: a client that waits for its answer is to get it. */
const MAX_DELAY_MS = 5_000;
/** How many are held back at once, each of which keeps a request in memory. */
const MAX_HELD = 2_000;
/** How many addresses are remembered; the one that was quiet for the longest is forgotten. */
const MAX_ADDRESSES = 10_000;

/**
 * Counts refusals by client address. Each address is given so many in a minute at once; beyond that they come at
 * that rate (the generic cell rate algorithm, ITU-T I.371), until they are 5 s late. 0 holds nothing back.
 */
export function createRefusals(perMinute: number): HoldBack {
  if (perMinute === 0) return async () => true;
  /** When the allowance of an address will be whole again. */
  const whole = new LRUCache<string, number>({ max: MAX_ADDRESSES });
  let held = 0;

  return async (address, res) => {
    const network = toNetwork(address ?? '');
    const now = performance.now();
    const next = Math.max(whole.get(network) ?? 0, now) + MINUTE_MS / perMinute;
    const at = Math.min(next, now + MINUTE_MS + MAX_DELAY_MS);
    whole.set(network, at);
    const ms = at - now - MINUTE_MS;
    if (ms <= 0) return true;
    if (held >= MAX_HELD) return false;
    held += 1;
    await delayUntilGone(ms, res);
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

/**
 * What one client has to itself: an address of IPv4, 64 bits of one of IPv6 (RFC 6177). A proxy may name the port
 * too, which is another with each connection.
 */
function toNetwork(address: string): string {
  const text = address.replace(/^\[(.*)\](:\d+)?$/, '$1').replace(/^([\d.]+):\d+$/, '$1');
  if (!ipaddr.isValid(text)) return text.slice(0, 100);
  const parsed = ipaddr.process(text);
  return 'parts' in parsed ? parsed.parts.slice(0, 4).join(':') : parsed.toString();
}
