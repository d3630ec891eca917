import { hash } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { RequestHandler } from 'express';
import type { RequestContext } from '../api/request.ts';
import type { RateLimitConfig } from '../config.ts';
import { messageOf } from '../errors.ts';
import { type BucketSize, createBuckets, type Taken, type TakeToken } from '../limits/buckets.ts';
import { createRedisBuckets, openRedis } from '../limits/redis.ts';
import { toNetwork } from './client-address.ts';
import { contextOf } from './context.ts';
import { respond } from './respond.ts';

/** Limits the requests of networks and keys. */
export type RateLimits = {
  /** Refuses requests over a limit: it belongs before the operations. Undefined without a limit that all have. */
  readonly middleware: RequestHandler | undefined;
  /** Takes a token, for a key with a limit of its own too. */
  readonly takeToken: TakeToken;
  /** Whether buckets are in Redis now; undefined without Redis. */
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
  readonly identify: (context: RequestContext) => void;
  /** Takes a token while there is no Redis; by default in this process's memory. */
  readonly takeToken?: TakeToken | undefined;
  /** Called once when Redis is lost: from then on each gateway limits by itself. */
  readonly onFault: (error: Error) => void;
  /** Called once when Redis is used again. */
  readonly onRecovered: () => void;
};

/** Whose bucket a request takes a token from. */
type Owner = { readonly name: string; readonly isProven: boolean };

/** A limit with its name in the header fields, and the owners of the buckets that a request takes a token from. */
type Policy = {
  readonly name: 'address' | 'key';
  readonly perMinute: number;
  readonly ownersOf: (req: IncomingMessage) => readonly Owner[];
};

/**
 * Opens the limits of requests per minute by client network and by key, each a bucket with as many tokens. The network is first:
 * a request that it refuses takes nothing from the key. A Redis that cannot be reached is not an error.
 */
export async function openRateLimits(
  { perAddress, perKey, redisUrl }: RateLimitConfig,
  { keyHeaders, addressOf, isAccepted, identify, onFault, onRecovered, ...options }: RateLimitOptions,
): Promise<RateLimits> {
  const all: Policy[] = [
    {
      name: 'address',
      perMinute: perAddress,
      ownersOf: (req) => [{ name: toNetwork(addressOf(req)), isProven: false }],
    },
    { name: 'key', perMinute: perKey, ownersOf: (req) => hashKeys(req, keyHeaders, isAccepted) },
  ];
  const policies = all.filter(({ perMinute }) => perMinute > 0);

  const onLost = (cause: Error) =>
    onFault(new Error(`Redis is lost, and each gateway counts requests by itself: ${messageOf(cause)}`, { cause }));
  const redis = redisUrl === undefined ? undefined : await openRedis(redisUrl, { onLost, onBack: onRecovered });
  const takeOwn = options.takeToken ?? createBuckets();
  const takeToken = redis ? createRedisBuckets(redis, takeOwn) : takeOwn;
  const policyField = policies.map(({ name, perMinute }) => `"${name}";q=${perMinute};w=60`).join(', ');

  const limit: RequestHandler = async (req, res, next) => {
    // draft-ietf-httpapi-ratelimit-headers-11, sections 3 and 4.
    res.setHeader('RateLimit-Policy', policyField);
    const items: string[] = [];
    for (const { name, perMinute, ownersOf } of policies) {
      const owners = ownersOf(req).map((owner) => ({ ...owner, name: `${name}:${owner.name}` }));
      const taken = await takeAll(takeToken, owners, { perMinute, burst: perMinute });
      if (!taken) continue;
      items.push(`"${name}";r=${taken.remaining};t=${taken.seconds}`);
      res.setHeader('RateLimit', items.join(', '));
      if (taken.isOver) {
        identify(contextOf(res));
        respond(res, { failure: { kind: 'tooManyRequests', retryAfter: taken.seconds } });
        return;
      }
    }
    next();
  };
  return {
    middleware: policies.length > 0 ? limit : undefined,
    takeToken,
    isShared: redis && (() => redis.isReady),
    close: async () => redis?.close(),
  };
}

/** Takes a token from each bucket until one has none; gives the one with the least remaining. */
async function takeAll(take: TakeToken, owners: readonly Owner[], size: BucketSize): Promise<Taken | undefined> {
  let least: Taken | undefined;
  for (const { name, isProven } of owners) {
    const taken = await take(name, size, isProven);
    if (taken.isOver) return taken;
    if (!least || taken.remaining < least.remaining) least = taken;
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
): Owner[] {
  const keys = new Set(keyHeaders.map((name) => String(headers[name.toLowerCase()] ?? '')).filter(Boolean));
  return [...keys].map((key) => ({ name: hash('sha256', key, 'base64url'), isProven: isAccepted(key) }));
}
