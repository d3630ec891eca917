// Sends requests to the deployment, a limited number at once.

import { errors, Pool } from 'undici';
import type { Json } from '../../src/store/store.ts';
import { isRead, type Request } from './request.ts';

/** The deployment does not answer. */
export class Unreachable extends Error {
  override readonly name = 'Unreachable';
  /** What the run had created. */
  created: Created = [];
}

/** The ids of created records, with the operation that created them. */
export type Created = readonly { readonly by: string; readonly id: string }[];

export type Answer = {
  readonly status: number;
  readonly contentType: string;
  /** By lower-case name; repeated headers are joined. */
  readonly headers: Readonly<Record<string, string>>;
  readonly text: string;
  /** Undefined if the text is not JSON. */
  readonly body: Json | undefined;
};

/** An answer, or why there is none. */
export type Reply = Answer | { readonly missing: string };

/** Sends a request; rejects if no answer comes. */
export type Exchange = (request: Request) => Promise<Answer>;

export type ClientOptions = {
  /** The URL before the operations' paths, without a slash at its end. */
  readonly url: string;
  readonly keyHeader: string;
  readonly keys: ReadonlyMap<symbol, string>;
  /** Throw for a request that could change something. */
  readonly readOnly: boolean;
  readonly timeoutMs: number;
  /** What comes between the checks and HTTP, such as a fault that they have to find. */
  readonly intercept?: ((exchange: Exchange) => Exchange) | undefined;
};

/** Concurrent requests. */
export const CONCURRENCY = 8;

export class Client {
  readonly #options: ClientOptions;
  readonly #pool: Pool;
  readonly #exchange: Exchange;
  readonly #root: string;
  readonly #created = new Map<string, string>();
  /** Number of requests. */
  sent = 0;
  #unreachable: Unreachable | undefined;

  constructor(options: ClientOptions) {
    const { origin, pathname } = new URL(options.url);
    const { timeoutMs, intercept = (exchange) => exchange } = options;
    this.#options = options;
    this.#exchange = intercept((request) => this.#overHttp(request));
    this.#root = pathname.replace(/\/$/, '');
    this.#pool = new Pool(origin, {
      connections: CONCURRENCY,
      connectTimeout: timeoutMs,
      headersTimeout: timeoutMs,
      bodyTimeout: timeoutMs,
    });
  }

  get created(): Created {
    return [...this.#created].map(([id, by]) => ({ by, id }));
  }

  /** Throws Unreachable if the deployment cannot be reached any more, from then on at once. */
  async send(request: Request): Promise<Reply> {
    if (this.#unreachable) throw this.#unreachable;
    if (this.#options.readOnly && !isRead(request)) throw new Error(`${request.method} in a run that only reads`);
    try {
      const answer = await this.#exchangeSafely(request);
      this.#note(request, answer);
      return answer;
    } catch (error) {
      await this.probe();
      return { missing: describeFailure(error, this.#options.timeoutMs) };
    }
  }

  /** Throws Unreachable if not even the simplest request is answered. */
  async probe(): Promise<void> {
    try {
      await this.#exchange({ method: 'GET', target: '/', headers: {}, key: null });
    } catch (error) {
      const reason = describeFailure(error, this.#options.timeoutMs);
      this.#unreachable = new Unreachable(`${this.#options.url} cannot be reached: ${reason}`, { cause: error });
      throw this.#unreachable;
    }
  }

  async close(): Promise<void> {
    await this.#pool.destroy();
  }

  /** A server may close an idle connection just as it is reused; requests that only read are then repeated once. */
  async #exchangeSafely(request: Request): Promise<Answer> {
    try {
      return await this.#exchange(request);
    } catch (error) {
      const wasClosed = error instanceof errors.SocketError || (error as NodeJS.ErrnoException).code === 'ECONNRESET';
      if (!wasClosed || !isRead(request)) throw error;
      return this.#exchange(request);
    }
  }

  #note(request: Request, { status, body }: Answer): void {
    if (isRead(request) || status < 200 || status > 299) return;
    const [, last = ''] = /([^/]*)$/.exec(request.target) ?? [];
    if (request.method === 'DELETE') this.#created.delete(last);
    if (typeof body !== 'object' || body === null) return;
    const { id } = body as { id?: Json };
    if (typeof id === 'string') this.#created.set(id, `${request.method} ${request.target.replace(/\?.*/s, '')}`);
  }

  async #overHttp({ method, target, headers, key, body }: Request): Promise<Answer> {
    const { keys, keyHeader } = this.#options;
    const sentKey = typeof key === 'symbol' ? keys.get(key) : key;
    this.sent++;
    const response = await this.#pool.request({
      method: method as 'GET',
      path: this.#root + target,
      headers: {
        accept: 'application/json',
        ...(body === undefined || 'Content-Type' in headers ? {} : { 'content-type': 'application/json' }),
        // Letters outside ASCII travel as the bytes of UTF-8.
        ...Object.fromEntries(
          Object.entries(headers).map(([name, text]) => [name, Buffer.from(text).toString('latin1')]),
        ),
        ...(typeof sentKey === 'string' ? { [keyHeader]: sentKey } : {}),
      },
      body: body ?? null,
    });
    const text = await response.body.text();
    const fields = Object.entries(response.headers).map(([name, value]) => [name, [value].flat().join(', ')]);
    const received: Answer['headers'] = Object.fromEntries(fields);
    const contentType = received['content-type'] ?? '';
    return { status: response.statusCode, contentType, headers: received, text, body: parse(text) };
  }
}

function parse(text: string): Json | undefined {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function describeFailure(error: unknown, timeoutMs: number): string {
  const isLate = error instanceof errors.HeadersTimeoutError || error instanceof errors.BodyTimeoutError;
  if (isLate) return `no answer within ${timeoutMs / 1_000} s`;
  // A name with several addresses gives an error without a message, and a list with the error of each.
  const cause = error instanceof AggregateError ? (error.errors[0] ?? error) : error;
  return cause instanceof Error ? cause.message || String((cause as NodeJS.ErrnoException).code) : String(cause);
}
