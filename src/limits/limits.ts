// Every limit: on the requests of a network, on the calls of a key, and on refusals.

import type { Config } from '../config.ts';
import { messageOf } from '../errors.ts';
import { type Admission, MINUTE, toAdmission } from './account.ts';
import { createBuckets, NETWORK, type TakeToken } from './buckets.ts';
import { createRedisBuckets, openRedis } from './redis.ts';
import { createGuard, type Guard } from './refusals.ts';
import { openUsage, type Usage, type UsageOptions } from './usage.ts';

/** The limits of a gateway. */
export type Limits = Guard &
  Omit<Usage, 'flush'> & {
    /** Counts a request of a network; undefined if networks have no limit. */
    readonly admitNetwork: ((network: string) => Promise<Admission>) | undefined;
    /** Whether buckets are in Redis now; undefined without Redis. */
    readonly isShared: (() => boolean) | undefined;
  };

/** For a document without a function that records usage. */
const NO_USAGE: Omit<Usage, 'flush'> = {
  learn: () => undefined,
  admit: () => undefined,
  forget: () => {},
  request: () => {},
  close: async () => {},
};

type LimitsOptions = Omit<UsageOptions, 'function' | 'takeToken'> &
  Pick<Config, 'rateLimits'> & {
    /** The log for events that every process sees: only one process writes them. */
    readonly outside: UsageOptions['log'];
    /** The refusals per minute that are not delayed, for each network and for each key over its limits; 0 delays none. */
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
  const redis = redisUrl === undefined ? undefined : await openRedis(redisUrl, onLost, onBack);
  const takeOwn = options.takeToken ?? createBuckets();
  const takeToken = redis ? createRedisBuckets(redis, takeOwn) : takeOwn;
  const usage = usageFunction ? openUsage({ ...options, function: usageFunction, takeToken }) : NO_USAGE;
  return {
    ...createGuard(options.refusalsPerMinute),
    ...usage,
    admitNetwork: perAddress > 0 ? (network) => admitNetwork(takeToken, network, perAddress) : undefined,
    isShared: redis && (() => redis.isReady),
    close: async () => {
      await usage.close();
      redis?.close();
    },
  };
}

async function admitNetwork(take: TakeToken, network: string, perMinute: number): Promise<Admission> {
  const size = { perMinute, burst: perMinute };
  const { retryAfter, ...taken } = await take(NETWORK + network, size);
  const state = { name: 'address', quota: perMinute, window: MINUTE, ...taken };
  return toAdmission([state], retryAfter);
}
