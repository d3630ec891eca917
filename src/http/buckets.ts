// Buckets of tokens, in the memory of this process, or in Redis while there is a connection. A bucket is the time at which it
// will be full (the generic cell rate algorithm): taking a token moves it by the time in which one flows in.

import { LRUCache } from 'lru-cache';
import type { BucketSize, Taken, TakeToken } from '../api/account.ts';
import type { Redis } from './redis.ts';

/** How many buckets of each kind are kept in memory. One that is dropped is full. */
const MAX_BUCKETS = 50_000;
const MINUTE_MS = 60_000;

/** Gives, in ms, the time until there is a token, which is 0 or less if one was taken, and until the bucket is full. */
const SCRIPT = `
local time = redis.call('TIME')
local now = time[1] * 1000 + time[2] / 1000
local interval, whole = tonumber(ARGV[1]), tonumber(ARGV[2])
local full = math.min(math.max(tonumber(redis.call('GET', KEYS[1]) or 0), now), now + whole)
local wait = full + interval - now - whole
if wait > 0 then return { math.ceil(wait), math.ceil(full - now) } end
redis.call('SET', KEYS[1], string.format('%.3f', full + interval), 'PX', math.ceil(full + interval - now))
return { 0, math.ceil(full + interval - now) }`;

/** Creates the buckets, which are full at first. Never rejects: without Redis each process has its own. */
export function createBuckets(redis?: Redis, clock = () => performance.now()): TakeToken {
  /** When each will be full, by a clock that only goes forward. */
  const proven = new LRUCache<string, number>({ max: MAX_BUCKETS });
  const invented = new LRUCache<string, number>({ max: MAX_BUCKETS });
  /** When Redis has a token again, of those that had none. */
  const empty = new LRUCache<string, number>({ max: MAX_BUCKETS });

  function takeHere(name: string, size: BucketSize, isProven: boolean): Taken {
    const interval = MINUTE_MS / size.perMinute;
    const now = clock();
    const known = proven.get(name) ?? invented.get(name) ?? 0;
    const full = Math.min(Math.max(known, now), now + interval * size.burst);
    const wait = full + interval - now - interval * size.burst;
    // A millisecond is not worth a refusal.
    if (wait > 1) return toTaken(size, wait, full - now);
    if (isProven) invented.delete(name);
    (isProven || proven.has(name) ? proven : invented).set(name, full + interval);
    return toTaken(size, 0, full + interval - now);
  }

  return async (name, size, isProven = true) => {
    if (!redis?.isReady) return takeHere(name, size, isProven);
    const left = (empty.get(name) ?? 0) - clock();
    if (left > 1) return toTaken(size, left, 0);
    const interval = MINUTE_MS / size.perMinute;
    try {
      const keys = [`gateway:bucket:${name}`];
      const args = [`${interval}`, `${interval * size.burst}`];
      const [wait, full] = (await redis.eval(SCRIPT, { keys, arguments: args })) as [number, number];
      if (wait > 0) empty.set(name, clock() + wait);
      return toTaken(size, wait, full);
    } catch {
      return takeHere(name, size, isProven);
    }
  };
}

function toTaken({ perMinute, burst }: BucketSize, wait: number, full: number): Taken {
  // The time of a token may be a fraction of a microsecond more than a whole second.
  const toSeconds = (ms: number) => Math.max(1, Math.ceil(ms / 1_000 - 0.001));
  if (wait > 0) return { isOver: true, remaining: 0, seconds: toSeconds(wait) };
  const remaining = Math.max(0, Math.floor(burst - (full * perMinute) / MINUTE_MS + 0.01));
  return { isOver: false, remaining, seconds: toSeconds(full) };
}
