// Buckets of tokens that gateways share in Redis, on a connection that never delays a request for long: commands have a short
// timeout, and fail at once while there is no connection.

import { LRUCache } from 'lru-cache';
import { within } from '../deadline.ts';
import { intervalOf, type TakeToken, TOLERANCE_MS, toEmpty, toTaken, upTo } from './buckets.ts';

/** The used part of a connection. */
type Redis = {
  /** Whether there is a connection on which Redis runs the script. */
  readonly isReady: boolean;
  eval(script: string, key: string, args: readonly number[]): Promise<unknown>;
  close(): void;
};

/** Command timeout in milliseconds. A request waits for one command after another: the network's and its key's. */
const ANSWER_MS = 120;
/** Connection timeout in milliseconds. */
const CONNECT_MS = 2_000;
/** Delay before the next connection, in milliseconds. */
const RETRY_MS = 1_000;
/** The prefix of all keys. Its hash tag puts them on one node of a cluster, so that one check shows whether this is that node. */
const KEYS = 'gateway:{bucket}';
/** The maximum number of remembered buckets without a token. */
const MAX_EMPTY = 50_000;

/**
 * Takes a token as createBuckets does. Returns the ms until there is a token; or if one was taken, 0 and the ms until the bucket is
 * full. They are text, because Redis truncates numbers.
 */
const SCRIPT = `
local time = redis.call('TIME')
local now = time[1] * 1000 + time[2] / 1000
local taken, whole = tonumber(ARGV[1]), tonumber(ARGV[2])
local full = math.min(math.max(tonumber(redis.call('GET', KEYS[1]) or 0), now), now + whole) + taken
local wait = full - now - whole
if wait > ${TOLERANCE_MS} then return { string.format('%.3f', wait) } end
if taken > 0 then redis.call('SET', KEYS[1], string.format('%.3f', full), 'PX', math.ceil(math.max(full - now, 1))) end
return { '0', string.format('%.3f', full - now) }`;

/** Creates buckets in Redis, full at first. While Redis is unavailable, `otherwise` takes the tokens. */
export function createRedisBuckets(redis: Redis, otherwise: TakeToken): TakeToken {
  /** When each empty bucket of a size has a token again (performance.now()): until then Redis is not asked. */
  const empty = new LRUCache<string, number>(upTo(MAX_EMPTY));

  return async (name, size, tokens = 1) => {
    if (!redis.isReady) return otherwise(name, size, tokens);
    const id = `${name} ${size.perMinute} ${size.burst}`;
    const left = (empty.get(id) ?? 0) - performance.now();
    if (left > TOLERANCE_MS) return toEmpty(size, left);
    const interval = intervalOf(size);
    try {
      const answer = await redis.eval(SCRIPT, `${KEYS}:${name}`, [interval * tokens, interval * size.burst]);
      const [wait = 0, full = 0] = (answer as string[]).map(Number);
      if (wait === 0) return toTaken(size, full);
      empty.set(id, performance.now() + wait);
      return toEmpty(size, wait);
    } catch {
      return otherwise(name, size, tokens);
    }
  };
}

/**
 * Connects to Redis, and reconnects whenever the connection is lost. Resolves when the first attempt has succeeded or failed.
 * Calls `onLost` once when Redis is lost and `onBack` once when it works again, however many connections fail.
 */
export async function openRedis(url: string, onLost: (cause: Error) => void, onBack: () => void): Promise<Redis> {
  const { Redis: Client } = await import('ioredis');
  const client = new Client(url, {
    // For ioredis's own commands. `run` bounds the others: ioredis's timer would fail commands whose answers arrived while this
    // process was busy.
    commandTimeout: CONNECT_MS,
    connectTimeout: CONNECT_MS,
    // A connection that hangs is destroyed at once.
    disconnectTimeout: 0,
    retryStrategy: () => RETRY_MS,
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    enableReadyCheck: false,
  });
  const tried = Promise.withResolvers<void>();
  let isConnected = false;
  let isReady = false;
  let isLost = false;
  const lose = (cause: Error): void => {
    isReady = false;
    if (!isLost) onLost(cause);
    isLost = true;
    tried.resolve();
  };
  /** Runs a command. The first error ends the connection, which fails the commands behind it. */
  const run = async <T>(command: Promise<T>): Promise<T> => {
    try {
      return await within(ANSWER_MS, () => command);
    } catch (cause) {
      lose(cause as Error);
      // Only once, because each call adds a listener to the socket, and Node warns of too many.
      if (isConnected) client.disconnect(true);
      isConnected = false;
      throw cause;
    }
  };
  client.on('error', lose);
  client.on('close', () => lose(new Error('the connection was closed')));
  client.on('ready', () => {
    isConnected = true;
    // A Redis that is too slow or refuses to run the script fails here and not in a request.
    const check = async () => {
      const { db } = client.options;
      // ioredis has selected it too, but continues in database 0 if the database does not exist.
      if (db) await run(client.select(db));
      await run(client.eval(SCRIPT, 1, `${KEYS}:check`, 1, 1));
      isReady = true;
      if (isLost) onBack();
      isLost = false;
      tried.resolve();
    };
    check().catch(() => {});
  });
  await tried.promise;
  return {
    get isReady() {
      return isReady;
    },
    eval: (script, key, args) => run(client.eval(script, 1, key, ...args)),
    close: () => {
      client.removeAllListeners();
      client.on('error', () => {});
      client.disconnect();
    },
  };
}
