// Buckets of tokens, in the memory of this process. A bucket is the time at which it will be full (the generic cell rate
// algorithm): taking a token moves it by the time in which one flows in.

import { LRUCache } from 'lru-cache';

/** A bucket of tokens, of which each call takes one. */
export type BucketSize = { readonly perMinute: number; readonly burst: number };

/** A bucket after a call. */
export type Taken = {
  /** Whether there was no token left. */
  readonly isOver: boolean;
  readonly remaining: number;
  /** Seconds until the bucket is full; without a token, until there is one. */
  readonly seconds: number;
};

/** Takes a token from the bucket of a name. A client can invent a name that is not proven, but no flood of them empties proven ones. */
export type TakeToken = (name: string, size: BucketSize, isProven?: boolean) => Promise<Taken>;

/** How many buckets of each kind are kept in memory. One that is dropped is full. */
const MAX_BUCKETS = 50_000;
const MINUTE_MS = 60_000;
/** A token that comes so soon is there: a millisecond is not worth a refusal. */
export const TOLERANCE_MS = 1;

/** Creates buckets, which are full at first. The clock only goes forward. */
export function createBuckets(clock = () => performance.now()): TakeToken {
  /** When each will be full. */
  const proven = new LRUCache<string, number>({ max: MAX_BUCKETS });
  const invented = new LRUCache<string, number>({ max: MAX_BUCKETS });

  return async (name, size, isProven = true) => {
    const buckets = isProven ? proven : invented;
    const interval = intervalOf(size);
    const now = clock();
    const known = buckets.get(name) ?? 0;
    const full = Math.min(Math.max(known, now), now + interval * size.burst);
    const wait = full + interval - now - interval * size.burst;
    if (wait > TOLERANCE_MS) return toTaken(size, wait, full - now);
    buckets.set(name, full + interval);
    return toTaken(size, 0, full + interval - now);
  };
}

/** The time in which a token flows into a bucket, in milliseconds. */
export const intervalOf = ({ perMinute }: BucketSize): number => MINUTE_MS / perMinute;

/** A bucket that has a token after `wait` milliseconds, where it is positive, and is full after `full` milliseconds. */
export function toTaken(size: BucketSize, wait: number, full: number): Taken {
  // The time of a token may be a fraction of a microsecond more than a whole second.
  const toSeconds = (ms: number) => Math.max(1, Math.ceil(ms / 1_000 - 0.001));
  if (wait > 0) return { isOver: true, remaining: 0, seconds: toSeconds(wait) };
  const remaining = Math.max(0, Math.floor(size.burst - full / intervalOf(size) + 0.01));
  return { isOver: false, remaining, seconds: toSeconds(full) };
}
