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
  const { createClient } = await import('@redis/client');
  const createConnection = () =>
    createClient({
      url,
      socket: { connectTimeout: CONNECT_MS, reconnectStrategy: false },
      // Commands fail at once without a connection, and nothing is sent that not every Redis and its users' rules know.
      disableOfflineQueue: true,
      RESP: 2,
      disableClientInfo: true,
      maintNotifications: 'disabled',
    });
  type Connection = ReturnType<typeof createConnection>;
  /** The connection in use; undefined between two. */
  let current: Connection | undefined;
  let isReady = false;
  let isLost = false;
  let retry: NodeJS.Timeout | undefined;

  /** Ends a connection, which fails its other commands, and plans the next one. */
  const lose = (connection: Connection, cause: Error): void => {
    if (connection !== current) return;
    current = undefined;
    isReady = false;
    connection.destroy();
    if (!isLost) onLost(cause);
    isLost = true;
    retry = setTimeout(connect, RETRY_MS);
  };
  /** Runs a command. The first error ends the connection. */
  const run = async <T>(connection: Connection, ms: number, command: () => Promise<T>): Promise<T> => {
    try {
      return await within(ms, command);
    } catch (cause) {
      lose(connection, cause as Error);
      throw cause;
    }
  };
  const evaluate = (connection: Connection, script: string, key: string, args: readonly number[]) =>
    run(connection, ANSWER_MS, () => connection.eval(script, { keys: [key], arguments: args.map(String) }));
  const connect = async (): Promise<void> => {
    const connection = createConnection();
    current = connection;
    connection.on('error', (cause) => lose(connection, cause));
    try {
      await run(connection, CONNECT_MS, () => connection.connect());
      // A Redis that is too slow or refuses to run the script fails here and not in a request.
      await evaluate(connection, SCRIPT, `${KEYS}:check`, [1, 1]);
    } catch {
      return;
    }
    isReady = true;
    if (isLost) onBack();
    isLost = false;
  };

  await connect();
  return {
    get isReady() {
      return isReady;
    },
    eval: async (script, key, args) => {
      if (!current) throw new Error('There is no connection to Redis');
      return evaluate(current, script, key, args);
    },
    close: () => {
      clearTimeout(retry);
      const last = current;
      current = undefined;
      last?.destroy();
    },
  };
}
