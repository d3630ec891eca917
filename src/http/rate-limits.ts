import { hash } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { RequestHandler } from 'express';
import type { TakeToken } from '../api/account.ts';
import type { RateLimitConfig } from '../config.ts';
import { messageOf } from '../errors.ts';
import type { RequestRecord } from '../telemetry/record.ts';
import { createBuckets } from './buckets.ts';
import { toNetwork } from './client-address.ts';
import type { Count, Counter, CounterName, CounterOptions } from './counters.ts';
import { recordOf } from './recorder.ts';
import { openRedis } from './redis.ts';
import { respond } from './respond.ts';

/** Counts requests, and refuses those over a limit. */
export type RateLimits = {
  /** Counts every request that it gets: it belongs before the operations. Undefined without a limit that all have. */
  readonly middleware: RequestHandler | undefined;
  /** Takes a token for a key with a limit of its own. */
  readonly takeToken: TakeToken;
  /** Whether requests are counted in Redis now; undefined without Redis. */
  readonly isShared: (() => boolean) | undefined;
  close(): Promise<void>;
};

/** What rate limits need besides the numbers. */
export type RateLimitOptions = {
  /** The headers that may carry a key. */
  readonly keyHeaders: readonly string[];
  /** The address that a request came from. */
  readonly addressOf: (req: IncomingMessage) => string;
  /** Whether the store has accepted a key. */
  readonly isAccepted: (key: string) => boolean;
  /** Records the operation of a request that is refused before it is routed. */
  readonly identify: (record: RequestRecord) => void;
  /** The length of a window in whole seconds; a minute but in tests. */
  readonly windowSeconds?: number;
  /** Creates the counters; by default in this process's memory or in Redis. */
  readonly createCounter?: ((options: CounterOptions) => Counter) | undefined;
  /** Takes a token where there is no Redis; by default in this process's memory. */
  readonly takeToken?: TakeToken | undefined;
  /** Called once when Redis is lost: from then on each process counts by itself. */
  readonly onFault: (error: Error) => void;
  /** Called once when requests are counted in Redis again. */
  readonly onRecovered: () => void;
};

/** A limit with its name in the header fields, and the counters that a request is added to. */
type Policy = {
  readonly name: 'address' | 'key';
  readonly limit: number;
  readonly namesOf: (req: IncomingMessage) => readonly CounterName[];
};

/**
 * Opens the limits of requests per minute by client network and by key. A window is fixed and
 * begins with the first request, so twice as many requests can come around its end. The network is counted first: a
 * request that it refuses is not counted for its key. A Redis that cannot be reached is
 * not an error.
 */
export async function openRateLimits(
  { perAddress, perKey, redisUrl }: RateLimitConfig,
  {
    keyHeaders,
    addressOf,
    isAccepted,
    identify,
    windowSeconds = 60,
    onFault,
    onRecovered,
    ...options
  }: RateLimitOptions,
): Promise<RateLimits> {
  const all: Policy[] = [
    { name: 'address', limit: perAddress, namesOf: (req) => [{ name: toNetwork(addressOf(req)), isProven: false }] },
    { name: 'key', limit: perKey, namesOf: (req) => hashKeys(req, keyHeaders, isAccepted) },
  ];
  const policies = all.filter(({ limit }) => limit > 0);

  const onLost = (cause: Error) =>
    onFault(new Error(`Redis is lost, and each gateway counts requests by itself: ${messageOf(cause)}`, { cause }));
  const redis = redisUrl === undefined ? undefined : await openRedis(redisUrl, { onLost, onBack: onRecovered });
  const createCounter = options.createCounter ?? (await import('./counters.ts')).createCounter;
  const counted = policies.map((policy) => ({
    ...policy,
    counter: createCounter({ prefix: `gateway:${policy.name}`, limit: policy.limit, windowSeconds, redis }),
  }));
  const policyField = policies.map(({ name, limit }) => `"${name}";q=${limit};w=${windowSeconds}`).join(', ');

  const countRequest: RequestHandler = async (req, res, next) => {
    // draft-ietf-httpapi-ratelimit-headers-11, sections 3 and 4.
    res.setHeader('RateLimit-Policy', policyField);
    const items: string[] = [];
    for (const { name, counter, namesOf } of counted) {
      const count = await countAll(counter, namesOf(req));
      if (!count) continue;
      items.push(`"${name}";r=${count.remaining};t=${count.seconds}`);
      res.setHeader('RateLimit', items.join(', '));
      if (count.isOver) {
        identify(recordOf(res));
        respond(res, { failure: { kind: 'tooManyRequests', retryAfter: count.seconds } });
        return;
      }
    }
    next();
  };
  return {
    middleware: policies.length > 0 ? countRequest : undefined,
    takeToken: redis ? createBuckets(redis) : (options.takeToken ?? createBuckets()),
    isShared: redis && (() => redis.isReady),
    close: async () => redis?.close(),
  };
}

/** Adds a request to each counter until one is over its limit; gives the count with the least remaining. */
async function countAll(counter: Counter, names: readonly CounterName[]): Promise<Count | undefined> {
  let least: Count | undefined;
  for (const name of names) {
    const count = await counter(name);
    if (count.isOver) return count;
    if (!least || count.remaining < least.remaining) least = count;
  }
  return least;
}

/**
 * The hashes of a request's keys, so that keys are neither kept nor sent to Redis. Every key is counted: which of them the
 * operation takes is not known yet, and one that it ignores must not hide another.
 */
function hashKeys(
  { headers }: IncomingMessage,
  keyHeaders: readonly string[],
  isAccepted: RateLimitOptions['isAccepted'],
): CounterName[] {
  const keys = new Set(keyHeaders.map((name) => String(headers[name.toLowerCase()] ?? '')).filter(Boolean));
  return [...keys].map((key) => ({ name: hash('sha256', key, 'base64url'), isProven: isAccepted(key) }));
}
