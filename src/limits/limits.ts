// What is too much: the requests of a network, the calls of a key, and refusals. Every limit is asked here.

import type { RateLimitConfig } from '../config.ts';
import { messageOf } from '../errors.ts';
import type { EndedRequest } from '../telemetry/record.ts';
import type { Admission } from './account.ts';
import { createBuckets, type TakeToken } from './buckets.ts';
import { createRedisBuckets, openRedis } from './redis.ts';
import { createGuard, type Guard } from './refusals.ts';
import { openUsage, type UsageOptions } from './usage.ts';

/** The limits of a gateway. */
export type Limits = Guard & {
  /** Counts a request of a network; undefined if networks have no limit. */
  readonly admitNetwork: ((network: string) => Promise<Admission>) | undefined;
  /** Counts a call against the limits of its key; undefined for a key without limits. */
  admit(key: string): Promise<Admission> | undefined;
  /** Makes the calls of a key count, after the store has accepted the first; undefined if they do already. */
  learn(key: string): Promise<Admission | undefined> | undefined;
  /** Counts a request that has ended. */
  request(request: EndedRequest): void;
  /** Whether buckets are in Redis now; undefined without Redis. */
  readonly isShared: (() => boolean) | undefined;
  /** Records what has been counted. */
  close(): Promise<void>;
};

/** What limits need beside the numbers. */
type LimitsOptions = Omit<UsageOptions, 'function' | 'takeToken'> & {
  readonly rateLimits: RateLimitConfig;
  /** Receives what all processes see. */
  readonly outside: UsageOptions['log'];
  /** How many refusals per network, and per key over its limits, and minute are answered without delay; 0 delays none. */
  readonly refusalsPerMinute: number;
  /** The function that records the usage of keys; undefined if the document names none. */
  readonly usageFunction: string | undefined;
  /** Takes a token while there is no Redis; by default in this process's memory. */
  readonly takeToken?: TakeToken | undefined;
};

/** Opens the limits. A Redis that cannot be reached is not an error. */
export async function openLimits({ rateLimits, usageFunction, ...options }: LimitsOptions): Promise<Limits> {
  const { perAddress, redisUrl } = rateLimits;
  const { outside } = options;
  const onLost = (cause: Error) =>
    outside.warn(`Redis is lost, and each gateway counts requests by itself: ${messageOf(cause)}`);
  const onBack = () => outside.info('Requests are counted in Redis again');
  const redis = redisUrl === undefined ? undefined : await openRedis(redisUrl, { onLost, onBack });
  const takeOwn = options.takeToken ?? createBuckets();
  const takeToken = redis ? createRedisBuckets(redis, takeOwn) : takeOwn;
  const usage = usageFunction ? openUsage({ ...options, function: usageFunction, takeToken }) : undefined;
  return {
    ...createGuard(options.refusalsPerMinute),
    admitNetwork: perAddress > 0 ? (network) => admitNetwork(takeToken, network, perAddress) : undefined,
    admit: (key) => usage?.admit(key),
    learn: (key) => (usage && !usage.knows(key) ? usage.learn(key) : undefined),
    request: (request) => usage?.request(request),
    isShared: redis && (() => redis.isReady),
    close: async () => {
      await usage?.close();
      redis?.close();
    },
  };
}

async function admitNetwork(take: TakeToken, network: string, perMinute: number): Promise<Admission> {
  const size = { perMinute, burst: perMinute };
  const { isOver, remaining, seconds } = await take(`address:${network}`, size, false);
  const headers = {
    'RateLimit-Policy': `"address";q=${perMinute};w=60`,
    RateLimit: `"address";r=${remaining};t=${seconds}`,
  };
  return isOver ? { headers, retryAfter: seconds } : { headers };
}
