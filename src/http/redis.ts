// A Redis that may be away, slow or hang, and holds up nobody: what it does not answer soon counts as not answered,
// and until it is back every command fails at once.

import { setTimeout as delay } from 'node:timers/promises';
import type { createClient } from '@redis/client';

/** What is used of a Redis, under the names of its client. */
export type Redis = {
  /** Whether there is a connection: without one a command need not be tried. */
  readonly isReady: boolean;
  eval(script: string, options: { keys: string[]; arguments: string[] }): Promise<unknown>;
  close(): Promise<void>;
};

/** Who is told when Redis is lost, and when it has worked again: once each, however many commands fail. */
export type RedisWatch = { readonly onLost: (cause: Error) => void; readonly onBack: () => void };

/** How long an answer is waited for, in milliseconds. A request waits for two of them, the address's and the key's. */
const ANSWER_MS = 120;
/** How long a connection may take to make, its handshake included. */
const CONNECT_MS = 2_000;
/** How long after the end of a connection the next one is tried. */
const RETRY_MS = 1_000;

/**
 * Opens a connection to Redis, and another one whenever it is lost. Waits until the first is made or has failed, which
 * is no error. Throws TypeError where the URL is none of a Redis.
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
      const reply = await current.run((client) => client.eval(script, options));
      // A connection alone proves nothing: it may be to a Redis that refuses to write.
      if (isLost) onBack();
      isLost = false;
      return reply;
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
    // The client's own timeout ends when a command is sent, and a Redis that hangs takes them.
    commandOptions: { timeout: 0 },
    socket: { connectTimeout: CONNECT_MS, reconnectStrategy: false },
  });
}

/** A connection from its making to the first thing that goes wrong with it. */
class Connection {
  readonly #client: Client;
  readonly #lost = Promise.withResolvers<never>();
  readonly lose = this.#lost.reject;

  constructor(client: Client) {
    this.#client = client.on('error', this.lose);
  }

  /** Connects, says when that is done, and gives the cause of the connection's end. */
  async use(onReady: () => void): Promise<Error> {
    try {
      await Promise.race([within(CONNECT_MS, this.#client.connect()), this.#lost.promise]);
      // One that is too slow is found out here, and not by requests.
      await within(ANSWER_MS, this.#client.ping());
      onReady();
      return await this.#lost.promise;
    } catch (cause) {
      return cause as Error;
    } finally {
      // A client that is destroyed while it connects goes on to do so.
      this.#client.once('connect', () => this.#client.destroy());
      this.#client.destroy();
    }
  }

  /** Runs a command; whatever goes wrong ends the connection, and with it the commands that wait behind this one. */
  async run<T>(command: (client: Client) => Promise<T>): Promise<T> {
    try {
      return await within(ANSWER_MS, command(this.#client));
    } catch (cause) {
      this.lose(cause);
      throw cause;
    }
  }
}

/** Fails when the time is over, though not before answers were read that came while this process was busy. */
function within<T>(ms: number, answer: Promise<T>): Promise<T> {
  const { promise, resolve, reject } = Promise.withResolvers<T>();
  const timer = setTimeout(() => setImmediate(reject, new Error(`no answer within ${ms} ms`)), ms);
  answer.then(resolve, reject).finally(() => clearTimeout(timer));
  return promise;
}
