// Counts requests in the memory of this process, or in Redis while there is a connection.

import { LRUCache } from 'lru-cache';
import { RateLimiterMemory, RateLimiterRedis, RateLimiterRes } from 'rate-limiter-flexible';
import type { Redis } from './redis.ts';

/** A counter after a request was added to it. */
export type Count = {
  /** How many more requests the window allows. */
  readonly remaining: number;
  /** Seconds to the end of the window, at least 1. */
  readonly seconds: number;
  /** Whether the request is over the limit. */
  readonly isOver: boolean;
};

/** Whose requests are counted. A client cannot invent a proven name, so no flood makes a counter forget one. */
export type CounterName = { readonly name: string; readonly isProven: boolean };

/** Adds a request to the counter of a name. */
export type Counter = (name: CounterName) => Promise<Count>;

/** What is counted, the limit of a window, and the Redis shared with other processes. */
export type CounterOptions = {
  readonly prefix: string;
  readonly limit: number;
  readonly windowSeconds: number;
  readonly redis: Redis | undefined;
};

/** How many names of each kind are kept in memory, at about 550 bytes each. */
const MAX_NAMES = 50_000;

/** Creates a counter with fixed windows: each begins with the first request after the end of the one before. */
export function createCounter({ prefix, limit, windowSeconds, redis }: CounterOptions): Counter {
  const shape = { keyPrefix: prefix, points: limit, duration: windowSeconds };
  const memory = new BoundedMemory(shape);
  const limiter = redis
    ? new RateLimiterRedis({
        ...shape,
        storeClient: redis,
        useRedisPackage: true,
        rejectIfRedisNotReady: true,
        // A name over its limit costs Redis nothing until the end of the window.
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
 * Keeps the most recently used names. The library keeps all of them for a window, and a client can invent a key for each
 * request.
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
