// Sends requests to the deployment, with limited concurrency.

import { setTimeout as delay } from 'node:timers/promises';
import { brotliDecompressSync, gunzipSync } from 'node:zlib';
import { errors, Pool } from 'undici';
import { messageOf } from '../../src/errors.ts';
import type { Json } from '../../src/store/store.ts';
import { isRead, LIMITED_KEY, type Request } from './request.ts';

/** The deployment gave a wrong answer, or none. */
export class Mismatch extends Error {
  readonly request: Request;
  readonly expected: string;
  readonly got: string;

  constructor(request: Request, expected: string, got: string) {
    super(`expected ${expected}, got ${got}`);
    this.request = request;
    this.expected = expected;
    this.got = got;
  }
}

/** The deployment does not answer, or the run is interrupted. */
export class Unreachable extends Error {}

/** The ids of created records, and the operations that created them. */
export type Created = readonly { readonly by: string; readonly id: string }[];

export type Answer = {
  readonly status: number;
  /** By lower-case name; repeated headers are joined. */
  readonly headers: Readonly<Record<string, string>>;
  readonly text: string;
  /** Undefined if the text is not JSON. */
  readonly body: Json | undefined;
};

/** Sends a request; rejects if no answer comes. */
export type Exchange = (request: Request) => Promise<Answer>;

export type ClientOptions = {
  /** The URL before the operations' paths, without a slash at its end. */
  readonly url: string;
  readonly keyHeader: string;
  /** The keys by the symbols that stand for them in requests. */
  readonly keys: ReadonlyMap<symbol, string | undefined>;
  /** Whether `send` throws for a request other than a read. */
  readonly readOnly?: boolean;
  /** Timeout of an answer. */
  readonly timeoutMs: number;
  /** Interrupts the run. */
  readonly signal?: AbortSignal | undefined;
  /** Wraps the exchange, such as with a fault that the checks must find. */
  readonly intercept?: (exchange: Exchange) => Exchange;
};

const DECODERS: Readonly<Record<string, (bytes: Uint8Array) => Uint8Array>> = {
  br: brotliDecompressSync,
  gzip: gunzipSync,
};

/** Concurrent requests. */
export const CONCURRENCY = 8;
/** Maximum time that a request waits until a rate limit allows it. */
const MAX_WAIT_SECONDS = 60;

export class Client {
  readonly #options: ClientOptions;
  readonly #pool: Pool;
  readonly #exchange: Exchange;
  readonly #root: string;
  /** The created records by the part of a path that names them in a DELETE. */
  readonly #created = new Map<string, Created[number]>();
  #unreachable: Unreachable | undefined;
  /** Number of requests. */
  sent = 0;

  constructor(options: ClientOptions) {
    const { origin, pathname } = new URL(options.url);
    const { timeoutMs, intercept = (exchange) => exchange } = options;
    this.#options = options;
    this.#exchange = intercept((request) => this.#overHttp(request));
    this.#root = pathname.replace(/\/$/, '');
    const timeouts = { connectTimeout: timeoutMs, headersTimeout: timeoutMs, bodyTimeout: timeoutMs };
    this.#pool = new Pool(origin, { connections: CONCURRENCY, ...timeouts });
  }

  get created(): Created {
    return [...this.#created.values()];
  }

  /** Throws Mismatch if no answer comes, and Unreachable once the deployment answers nothing any more. */
  async send(request: Request): Promise<Answer> {
    if (this.#options.signal?.aborted) this.#unreachable ??= new Unreachable('Interrupted');
    if (this.#unreachable) throw this.#unreachable;
    if (this.#options.readOnly && !isRead(request)) throw new Error(`${request.method} in a run that only reads`);
    try {
      // A read is repeated once, because the server may close an idle connection just as it is reused.
      const answer = await this.#exchangeInTime(request).catch((error) => {
        if (!isRead(request) || !wasClosed(error)) throw error;
        return this.#exchangeInTime(request);
      });
      this.#note(request, answer);
      return answer;
    } catch (error) {
      await this.probe();
      throw new Mismatch(request, 'an answer', `no answer: ${this.#describeFailure(error)}`);
    }
  }

  /** Throws Unreachable if even the simplest request gets no answer. */
  async probe(): Promise<void> {
    try {
      await this.#exchange({ method: 'GET', target: '/', headers: {}, key: null });
    } catch (error) {
      this.#unreachable = new Unreachable(`${this.#options.url} cannot be reached: ${this.#describeFailure(error)}`);
      throw this.#unreachable;
    }
  }

  async close(): Promise<void> {
    await this.#pool.destroy();
  }

  /** Replaces keys in a text for a report, because people share reports. */
  hideKeys(text: string): string {
    let hidden = text;
    for (const [{ description }, key] of this.#options.keys) {
      const spellings = key ? [key, JSON.stringify(key).slice(1, -1), encodeURIComponent(key)] : [];
      for (const spelling of spellings) hidden = hidden.replaceAll(spelling, () => `$${description}`);
    }
    return hidden;
  }

  #note({ method, target }: Request, { status, body }: Answer): void {
    if (isRead({ method }) || status < 200 || status > 299) return;
    const path = target.replace(/\?.*/s, '');
    const { id } = (body ?? {}) as { id?: Json };
    const by = `${method} ${path}`;
    if (method === 'DELETE') {
      this.#created.delete(path);
      this.#created.delete(path.replace(/.*\//, ''));
      // The path of a change contains the id of its record. A record of another list may have the same number as its id.
    } else if (typeof id === 'string' && !path.split('/').includes(id)) this.#created.set(id, { by, id });
    else if (typeof id === 'number' && !path.endsWith(`/${id}`))
      this.#created.set(`${path}/${id}`, { by, id: `${id}` });
  }

  /** Sends a request. If it is over a limit per minute, repeats it after the time in Retry-After, as a client should. */
  async #exchangeInTime(request: Request): Promise<Answer> {
    for (let left = MAX_WAIT_SECONDS; ; ) {
      const answer = await this.#exchange(request);
      const seconds = Number(answer.headers['retry-after'] ?? Number.NaN);
      left -= Math.max(seconds, 1);
      if (answer.status !== 429 || request.key === LIMITED_KEY || !(left >= 0)) return answer;
      await delay(seconds * 1_000, undefined, { signal: this.#options.signal });
    }
  }

  async #overHttp({ method, target, headers, key, body }: Request): Promise<Answer> {
    const { keys, keyHeader } = this.#options;
    const sentKey = typeof key === 'symbol' ? keys.get(key) : key;
    // Characters outside ASCII are sent as UTF-8.
    const own = Object.entries(headers).map(([name, text]) => [name, Buffer.from(text).toString('latin1')]);
    this.sent++;
    const response = await this.#pool.request({
      method: method as 'GET',
      path: this.#root + target,
      headers: {
        accept: 'application/json',
        ...(body === undefined || 'Content-Type' in headers ? {} : { 'content-type': 'application/json' }),
        ...Object.fromEntries(own),
        ...(typeof sentKey === 'string' ? { [keyHeader]: sentKey } : {}),
      },
      body: body ?? null,
    });
    const bytes = await response.body.bytes();
    const encoding = String(response.headers['content-encoding']);
    const text = new TextDecoder().decode(bytes.length > 0 ? (DECODERS[encoding]?.(bytes) ?? bytes) : bytes);
    const received = Object.entries(response.headers).map(([name, value]) => [name, [value].flat().join(', ')]);
    return { status: response.statusCode, headers: Object.fromEntries(received), text, body: parseJson(text) };
  }

  #describeFailure(error: unknown): string {
    const isLate = error instanceof errors.HeadersTimeoutError || error instanceof errors.BodyTimeoutError;
    if (isLate) return `no answer within ${this.#options.timeoutMs / 1_000} s`;
    const { code = '' } = error as NodeJS.ErrnoException;
    if (code === 'ERR_SSL_WRONG_VERSION_NUMBER') return 'it does not speak TLS; does its URL begin with http:?';
    const isUntrusted = /SELF_SIGNED|UNABLE_TO_/.test(code);
    return `${messageOf(error as Error)}${isUntrusted ? '; to trust an authority, set NODE_EXTRA_CA_CERTS to its file' : ''}`;
  }
}

function wasClosed(error: NodeJS.ErrnoException): boolean {
  return error instanceof errors.SocketError || error.code === 'ECONNRESET';
}

/** Undefined for a text that is not JSON. */
export function parseJson(text: string): Json | undefined {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
