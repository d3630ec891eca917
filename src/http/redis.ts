// A connection to Redis that never delays a request for long: commands have a short timeout, and fail at once while there
// is no connection.

import { setTimeout as delay } from 'node:timers/promises';
import type { createClient } from '@redis/client';
import { within } from '../deadline.ts';

/** The part of Redis that is used, under the names of its client. */
export type Redis = {
  /** Whether there is a connection on which Redis accepts commands that write. */
  readonly isReady: boolean;
  eval(script: string, options: { keys: string[]; arguments: string[] }): Promise<unknown>;
  close(): Promise<void>;
};

/** Called once when Redis is lost and once when it works again, however many connections fail. */
export type RedisWatch = { readonly onLost: (cause: Error) => void; readonly onBack: () => void };

/** Command timeout in milliseconds. A request may wait for two commands, the network's and the key's. */
const ANSWER_MS = 120;
/** Connection timeout in milliseconds, handshake included. */
const CONNECT_MS = 2_000;
/** Delay before the next connection, in milliseconds. */
const RETRY_MS = 1_000;

/**
 * Connects to Redis, and reconnects whenever the connection is lost. Resolves when the first attempt has succeeded or
 * failed. Throws TypeError for an invalid URL.
 */
export async function openRedis(url: string, { onLost, onBack }: RedisWatch): Promise<Redis> {
  const { createClient } = await import('@redis/client');
  const closing = new AbortController();
  const tried = Promise.withResolvers<void>();
  let current: Connection | undefined;
  let isLost = false;

  async function stayConnected(): Promise<void> {
    while (!closing.signal.aborted) {
      const connection = new Connection(toClient(createClient, url));
      const close = () => connection.lose(new Error('closed'));
      closing.signal.addEventListener('abort', close);
      const cause = await connection.use(() => {
        current = connection;
        if (isLost) onBack();
        isLost = false;
        tried.resolve();
      });
      closing.signal.removeEventListener('abort', close);
      current = undefined;
      tried.resolve();
      if (!isLost && !closing.signal.aborted) onLost(cause);
      isLost = true;
      await delay(RETRY_MS, undefined, { signal: closing.signal, ref: false }).catch(() => {});
    }
  }

  const staying = stayConnected();
  await Promise.race([tried.promise, staying]);
  return {
    get isReady() {
      return current !== undefined;
    },
    eval: async (script, options) => {
      if (!current) throw new Error('there is no connection');
      return current.run((client) => client.eval(script, options));
    },
    close: () => {
      closing.abort();
      return staying;
    },
  };
}

type Client = ReturnType<typeof toClient>;

function toClient(create: typeof createClient, url: string) {
  return create({
    url,
    disableOfflineQueue: true,
    maintNotifications: 'disabled',
    // The client's own timeout covers only the queue before a command is sent.
    commandOptions: { timeout: 0 },
    socket: { connectTimeout: CONNECT_MS, reconnectStrategy: false },
  });
}

/** A connection until its first error. */
class Connection {
  readonly #client: Client;
  readonly #lost = Promise.withResolvers<never>();
  readonly lose = this.#lost.reject;

  constructor(client: Client) {
    this.#client = client.on('error', this.lose);
  }

  /** Connects, calls `onReady`, and gives the reason for the connection's end. */
  async use(onReady: () => void): Promise<Error> {
    try {
      await Promise.race([within(CONNECT_MS, () => this.#client.connect()), this.#lost.promise]);
      // A Redis that is too slow or refuses to write fails here and not in a request.
      await within(ANSWER_MS, () => this.#client.set('gateway:check', '', { expiration: { type: 'PX', value: 1 } }));
      onReady();
      return await this.#lost.promise;
    } catch (cause) {
      return cause as Error;
    } finally {
      // A client that is destroyed while it connects still connects.
      this.#client.once('connect', () => this.#client.destroy());
      this.#client.destroy();
    }
  }

  /** Runs a command. An error ends the connection, and with it the commands behind this one. */
  async run<T>(command: (client: Client) => Promise<T>): Promise<T> {
    try {
      return await within(ANSWER_MS, () => command(this.#client));
    } catch (cause) {
      this.lose(cause);
      throw cause;
    }
  }
}
