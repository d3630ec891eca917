// Buckets of tokens, in the memory of this process. Each bucket is stored as the time when it will be full (the generic cell rate
// algorithm): taking a token moves that time later by the interval in which one token flows in.

import { LRUCache } from 'lru-cache';

/** The size of a bucket of tokens. Each call takes one token. */
export type BucketSize = { readonly perMinute: number; readonly burst: number };

/** A bucket after a call. */
export type Taken = {
  /** Seconds until there is a token; undefined if there was one. */
  readonly retryAfter?: number;
  readonly remaining: number;
  /** Seconds until the bucket is full. */
  readonly seconds: number;
};

/** Takes a token from the bucket of a name. With 0 tokens it only reads the bucket. */
export type TakeToken = (name: string, size: BucketSize, tokens?: 0 | 1) => Promise<Taken>;

/** The prefix of networks' buckets. They are kept apart: clients can invent networks, and a flood must not evict the keys' buckets. */
export const NETWORK = 'address:';

/** The maximum number of buckets of each kind in memory. A dropped bucket is full again. */
const MAX_BUCKETS = 50_000;
const MINUTE_MS = 60_000;
/** A token that is due this soon counts as there: a millisecond is not worth a refusal. */
export const TOLERANCE_MS = 1;

/** Creates buckets, full at first. The clock must be monotonic. */
export function createBuckets(clock = () => performance.now()): TakeToken {
  /** The time at which each bucket is full. */
  const ofKeys = new LRUCache<string, number>(upTo(MAX_BUCKETS));
  const ofNetworks = new LRUCache<string, number>(upTo(MAX_BUCKETS));

  return async (name, size, tokens = 1) => {
    const buckets = name.startsWith(NETWORK) ? ofNetworks : ofKeys;
    const interval = intervalOf(size);
    const now = clock();
    const known = buckets.get(name) ?? 0;
    const full = Math.min(Math.max(known, now), now + interval * size.burst) + interval * tokens;
    const wait = full - now - interval * size.burst;
    if (wait > TOLERANCE_MS) return toEmpty(size, wait);
    if (tokens > 0) buckets.set(name, full);
    return toTaken(size, full - now);
  };
}

/** Options of a cache of so many entries. With `max` it would reserve memory for all of them at once: 7 ms for 50,000. */
export const upTo = (entries: number) => ({ maxSize: entries, sizeCalculation: () => 1 });

/** The time in which a token flows into a bucket, in milliseconds. */
export const intervalOf = ({ perMinute }: BucketSize): number => MINUTE_MS / perMinute;

/** Describes a bucket that is full in `full` ms. */
export function toTaken(size: BucketSize, full: number): Taken {
  const remaining = Math.max(0, Math.floor(size.burst - full / intervalOf(size) + 0.01));
  return { remaining, seconds: full > 0 ? toSeconds(full) : 0 };
}

/** Describes a bucket without a token, which has one in `wait` ms. */
export function toEmpty(size: BucketSize, wait: number): Taken {
  const full = wait + intervalOf(size) * (size.burst - 1);
  return { retryAfter: toSeconds(wait), remaining: 0, seconds: toSeconds(full) };
}

/** Rounds up, except that a time may exceed a whole second by a fraction of a microsecond. */
const toSeconds = (ms: number): number => Math.max(1, Math.ceil(ms / 1_000 - 0.001));
