// Counts requests: in the memory of this process, or in a Redis for as long as there is one.

import { LRUCache } from 'lru-cache';
import { RateLimiterMemory, RateLimiterRedis, RateLimiterRes } from 'rate-limiter-flexible';
import type { Redis } from './redis.ts';

/** Where a counter stands after a request was added to it. */
export type Count = {
  /** How many more are allowed before its window ends. */
  readonly remaining: number;
  /** In how many seconds its window ends, at least 1. */
  readonly seconds: number;
  /** Whether the request is one too many. */
  readonly isOver: boolean;
};

/** Whose requests are counted. Names that nobody can invent are proven: of them no flood makes a counter forget one. */
export type CounterName = { readonly name: string; readonly isProven: boolean };

/** Adds a request to the counter of a name. */
export type Counter = (name: CounterName) => Promise<Count>;

/** What is counted, how many are allowed in a window, and where other processes count the same. */
export type CounterOptions = {
  readonly prefix: string;
  readonly limit: number;
  readonly windowSeconds: number;
  readonly redis: Redis | undefined;
};

/** How many names of each kind are remembered in memory, each of which takes about 550 bytes. */
const MAX_NAMES = 50_000;

/** Makes a counter whose windows are fixed: each begins with the first request after the one before has ended. */
export function createCounter({ prefix, limit, windowSeconds, redis }: CounterOptions): Counter {
  const shape = { keyPrefix: prefix, points: limit, duration: windowSeconds };
  const memory = new BoundedMemory(shape);
  const limiter = redis
    ? new RateLimiterRedis({
        ...shape,
        storeClient: redis,
        useRedisPackage: true,
        rejectIfRedisNotReady: true,
        // Whoever has used up a window costs Redis nothing until its end.
        inMemoryBlockOnConsumed: limit,
        insuranceLimiter: memory,
      })
    : memory;
  return async ({ name, isProven }) => {
    try {
      return toCount(await limiter.consume(name, 1, { isProven }), false);
    } catch (rejection) {
      if (rejection instanceof RateLimiterRes) return toCount(rejection, true);
      throw rejection;
    }
  };
}

/**
 * Remembers so many names and forgets the one that was quiet for the longest. The library remembers all of them for a
 * window, and a client can invent as many keys as it sends requests. One that is counted often is not forgotten.
 */
class BoundedMemory extends RateLimiterMemory {
  readonly #invented = this.#createNames();
  readonly #proven = this.#createNames();

  override consume(name: string, points?: number, options?: { readonly isProven?: boolean }): Promise<RateLimiterRes> {
    if (options?.isProven) {
      this.#invented.delete(name);
      this.#proven.set(name, true);
    } else if (!this.#proven.has(name)) {
      this.#invented.set(name, true);
    }
    return super.consume(name, points);
  }

  #createNames(): LRUCache<string, true> {
    return new LRUCache({
      max: MAX_NAMES,
      dispose: (_, name, reason) => {
        if (reason === 'evict') void this.delete(name);
      },
    });
  }
}

function toCount({ remainingPoints, msBeforeNext }: RateLimiterRes, isOver: boolean): Count {
  return { remaining: remainingPoints, seconds: Math.max(1, Math.ceil(msBeforeNext / 1_000)), isOver };
}
