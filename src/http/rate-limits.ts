import type { IncomingMessage } from 'node:http';
import type { RequestHandler } from 'express';
import type { RequestContext } from '../api/request.ts';
import type { RateLimitConfig } from '../config.ts';
import { messageOf } from '../errors.ts';
import { createBuckets, type TakeToken } from '../limits/buckets.ts';
import { createRedisBuckets, openRedis } from '../limits/redis.ts';
import { toNetwork } from './client-address.ts';
import { contextOf } from './context.ts';
import { respond } from './respond.ts';

/** The buckets of tokens of networks and keys, and the limit that all networks have. */
export type RateLimits = {
  /** Refuses requests of a network over the limit: it belongs before the operations. Undefined without a limit. */
  readonly middleware: RequestHandler | undefined;
  /** Takes a token, for a key with a limit of its own too. */
  readonly takeToken: TakeToken;
  /** Whether buckets are in Redis now; undefined without Redis. */
  readonly isShared: (() => boolean) | undefined;
  close(): Promise<void>;
};

/** What rate limits need besides the numbers. */
export type RateLimitOptions = {
  /** The address that a request came from. */
  readonly addressOf: (req: IncomingMessage) => string;
  /** Records the operation of a request that is refused before it is routed. */
  readonly identify: (context: RequestContext) => void;
  /** Takes a token while there is no Redis; by default in this process's memory. */
  readonly takeToken?: TakeToken | undefined;
  /** Called once when Redis is lost: from then on each gateway limits by itself. */
  readonly onFault: (error: Error) => void;
  /** Called once when Redis is used again. */
  readonly onRecovered: () => void;
};

/** Opens the buckets, and the limit of requests per network and minute. A Redis that cannot be reached is not an error. */
export async function openRateLimits(
  { perAddress, redisUrl }: RateLimitConfig,
  { addressOf, identify, onFault, onRecovered, ...options }: RateLimitOptions,
): Promise<RateLimits> {
  const onLost = (cause: Error) =>
    onFault(new Error(`Redis is lost, and each gateway counts requests by itself: ${messageOf(cause)}`, { cause }));
  const redis = redisUrl === undefined ? undefined : await openRedis(redisUrl, { onLost, onBack: onRecovered });
  const takeOwn = options.takeToken ?? createBuckets();
  const takeToken = redis ? createRedisBuckets(redis, takeOwn) : takeOwn;
  const size = { perMinute: perAddress, burst: perAddress };

  const limit: RequestHandler = async (req, res, next) => {
    const { isOver, remaining, seconds } = await takeToken(`address:${toNetwork(addressOf(req))}`, size, false);
    // draft-ietf-httpapi-ratelimit-headers-11, sections 3 and 4.
    res.setHeader('RateLimit-Policy', `"address";q=${perAddress};w=60`);
    res.setHeader('RateLimit', `"address";r=${remaining};t=${seconds}`);
    if (!isOver) return next();
    identify(contextOf(res));
    respond(res, { failure: { kind: 'tooManyRequests', retryAfter: seconds } });
  };
  return {
    middleware: perAddress > 0 ? limit : undefined,
    takeToken,
    isShared: redis && (() => redis.isReady),
    close: async () => redis?.close(),
  };
}
