import { hash } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { RateLimitConfig } from '../config.ts';
import { messageOf } from '../errors.ts';
import { toNetwork } from './client-address.ts';
import type { Count, Counter, CounterName, CounterOptions } from './counters.ts';
import { openRedis } from './redis.ts';
import { respond } from './respond.ts';

/** What counts requests, and refuses those that are too many. */
export type RateLimits = {
  /** Counts every request that it is given: it belongs before whatever serves the interface, and nothing else. */
  readonly middleware: (req: IncomingMessage, res: ServerResponse, next: () => unknown) => Promise<unknown>;
  close(): Promise<void>;
};

/** What rate limits need beside how many. */
export type RateLimitOptions = {
  /** The headers that a key comes in. */
  readonly keyHeaders: readonly string[];
  /** Which address a request came from. */
  readonly addressOf: (req: IncomingMessage) => string;
  /** Whether the store has accepted a key. */
  readonly isAccepted: (key: string) => boolean;
  /** How long requests are counted together, in whole seconds; a minute unless told. */
  readonly windowSeconds?: number;
  /** Makes the counters; in the memory of this process, or in Redis, unless told. */
  readonly createCounter?: ((options: CounterOptions) => Counter) | undefined;
  /** Told once when Redis is lost: from then on each process counts by itself. */
  readonly onFault: (error: Error) => void;
  /** Told once when requests are counted in Redis again. */
  readonly onRecovered: () => void;
};

/** A limit under its name in the header fields, and the counters that a request is added to. */
type Policy = {
  readonly name: 'address' | 'key';
  readonly limit: number;
  readonly namesOf: (req: IncomingMessage) => readonly CounterName[];
};

/**
 * Opens the limits of requests in a minute by client address and by key; undefined where neither is limited. A minute
 * is a fixed window that begins with the first request, so that at the border of two windows twice as many can come.
 * The address is counted first: a request that is refused by it takes nothing from its key. Throws TypeError where the
 * URL is none of a Redis; one that is away is no error.
 */
export async function openRateLimits(
  { perAddress, perKey, redisUrl }: RateLimitConfig,
  { keyHeaders, addressOf, isAccepted, windowSeconds = 60, onFault, onRecovered, ...options }: RateLimitOptions,
): Promise<RateLimits | undefined> {
  const all: Policy[] = [
    { name: 'address', limit: perAddress, namesOf: (req) => [{ name: toNetwork(addressOf(req)), isProven: false }] },
    { name: 'key', limit: perKey, namesOf: (req) => hashKeys(req, keyHeaders, isAccepted) },
  ];
  const policies = all.filter(({ limit }) => limit > 0);
  if (policies.length === 0) return undefined;

  const onLost = (cause: Error) =>
    onFault(new Error(`Redis is lost, and each gateway counts requests by itself: ${messageOf(cause)}`, { cause }));
  const redis = redisUrl === undefined ? undefined : await openRedis(redisUrl, { onLost, onBack: onRecovered });
  const createCounter = options.createCounter ?? (await import('./counters.ts')).createCounter;
  const counted = policies.map((policy) => ({
    ...policy,
    counter: createCounter({ prefix: `gateway:${policy.name}`, limit: policy.limit, windowSeconds, redis }),
  }));
  const policyField = policies.map(({ name, limit }) => `"${name}";q=${limit};w=${windowSeconds}`).join(', ');

  return {
    middleware: async (req, res, next) => {
      // draft-ietf-httpapi-ratelimit-headers-11, sections 3 and 4.
      res.setHeader('RateLimit-Policy', policyField);
      const items: string[] = [];
      for (const { name, counter, namesOf } of counted) {
        const count = await countAll(counter, namesOf(req));
        if (!count) continue;
        items.push(`"${name}";r=${count.remaining};t=${count.seconds}`);
        res.setHeader('RateLimit', items.join(', '));
        if (count.isOver) return respond(res, { failure: { kind: 'tooManyRequests', retryAfter: count.seconds } });
      }
      return next();
    },
    close: async () => redis?.close(),
  };
}

/** Adds a request to each counter until one is over; gives the one that allows the least, if there is any. */
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
 * The keys of a request by their hash, so that they are neither kept nor sent to Redis. All that are given are counted:
 * which of them an operation takes is not known yet, and one that it ignores must not hide another.
 */
function hashKeys(
  { headers }: IncomingMessage,
  keyHeaders: readonly string[],
  isAccepted: RateLimitOptions['isAccepted'],
): CounterName[] {
  const keys = new Set(keyHeaders.map((name) => String(headers[name.toLowerCase()] ?? '')).filter(Boolean));
  return [...keys].map((key) => ({ name: hash('sha256', key, 'base64url'), isProven: isAccepted(key) }));
}
