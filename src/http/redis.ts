// A connection to Redis that never delays a request for long: commands have a short timeout, and fail at once while there
// is no connection.

import { within } from '../deadline.ts';

/** The part of Redis that is used, under the names of the limiter's package. */
export type Redis = {
  /** Whether there is a connection on which Redis accepts commands that write. */
  readonly isReady: boolean;
  eval(script: string, options: { keys: string[]; arguments: string[] }): Promise<unknown>;
  close(): void;
};

/** Called once when Redis is lost and once when it works again, however many connections fail. */
export type RedisWatch = { readonly onLost: (cause: Error) => void; readonly onBack: () => void };

/** Command timeout in milliseconds. A request may wait for two commands, the network's and the key's. */
const ANSWER_MS = 120;
/** Connection timeout in milliseconds. */
const CONNECT_MS = 2_000;
/** Delay before the next connection, in milliseconds. */
const RETRY_MS = 1_000;

/**
 * Connects to Redis, and reconnects whenever the connection is lost. Resolves when the first attempt has succeeded or
 * failed.
 */
export async function openRedis(url: string, { onLost, onBack }: RedisWatch): Promise<Redis> {
  const { Redis: Client } = await import('ioredis');
  const client = new Client(url, {
    // Only for ioredis's own commands. `run` bounds the others: ioredis's timer would also fail those whose answers had arrived
    // while this process was busy.
    commandTimeout: CONNECT_MS,
    connectTimeout: CONNECT_MS,
    // A connection that hangs is not closed but cut.
    disconnectTimeout: 0,
    retryStrategy: () => RETRY_MS,
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    enableReadyCheck: false,
  });
  const tried = Promise.withResolvers<void>();
  let isReady = false;
  let isLost = false;
  const lose = (cause: Error): void => {
    isReady = false;
    if (!isLost) onLost(cause);
    isLost = true;
    tried.resolve();
  };
  /** Runs a command. An error ends the connection, and with it the commands behind this one. */
  const run = async <T>(command: Promise<T>): Promise<T> => {
    try {
      return await within(ANSWER_MS, () => command);
    } catch (cause) {
      lose(cause as Error);
      client.disconnect(true);
      throw cause;
    }
  };
  client.on('error', lose);
  client.on('close', () => lose(new Error('the connection was closed')));
  client.on('ready', () => {
    // A Redis that is too slow or refuses to write fails here and not in a request.
    const check = async () => {
      await run(client.set('gateway:check', '', 'PX', 1));
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
    eval: (script, { keys, arguments: args }) => run(client.eval(script, keys.length, ...keys, ...args)),
    close: () => {
      client.removeAllListeners();
      client.on('error', () => {});
      client.disconnect();
    },
  };
}
