// A client of the API for Node and browsers. Only the document's types describe the operations; the code names none.

import createFetchClient from 'openapi-fetch';
import { separators as own, keyHeader as ownHeader, type paths, type Readable, type Writable } from './openapi.ts';

export type { components, paths, Readable, Writable } from './openapi.ts';

const DEFAULT_PAGE_SIZE = 100;
/** The default interval between two requests of `follow` for new items. */
const INTERVAL_MS = 5_000;

/** Statuses of temporary failures, of the gateway and of proxies in front of it: a later call may succeed. */
const TEMPORARY = [429, 502, 503, 504];
/** The minimum wait before the first retry without `Retry-After`; it doubles with each further retry. */
const FIRST_WAIT_MS = 250;
/** Timers cannot wait longer. */
const MAX_TIMEOUT_MS = 2 ** 31 - 1;

export type ClientOptions = {
  /** The base URL of the operations' paths, such as `https://gateway.example/v1`. */
  readonly baseUrl: string;
  readonly apiKey: string;
  /** The language of the messages of invalid fields, such as `pt-BR`; English by default. Any `Accept-Language` will do. */
  readonly language?: string;
  /** The timeout of a call in ms, with its retries and the waits between them; 30,000 by default. */
  readonly timeout?: number;
  /**
   * The number of retries of a safe call, a GET or one with an `Idempotency-Key`, that had no answer, a 429, 502, 503 or 504; 2 by
   * default. A retry waits as long as `Retry-After` says. If that is beyond the timeout, the call fails at once.
   */
  readonly retry?: number;
  /** Sends the requests; by default the global `fetch`. */
  readonly fetch?: (request: Request) => Promise<Response>;
  /** The header of the API key, for a document other than the gateway's: `scripts/client-types.ts` writes it. */
  readonly keyHeader?: string;
  /** The separators of arrays, for a document other than the gateway's: `scripts/client-types.ts` writes them. */
  readonly separators?: Separators;
};

/** The separators of the items of arrays in query parameters, by operation (`GET /alunos`) and parameter. */
export type Separators = Readonly<Record<string, Readonly<Record<string, ',' | ' ' | '|'>>>>;

/** The result of a call: data, or a failure as a value. */
export type Result<Data> = { readonly ok: true; readonly data: Data } | Failure;

/** Every way a call can fail, by `kind`. */
export type Failure = {
  readonly ok: false;
  /** The request's id in the gateway's log, to quote in a report; missing if there is no answer or it has no id. */
  readonly requestId?: string;
} & (
  | { readonly kind: 'badRequest'; readonly status: 400; readonly message: string }
  | { readonly kind: 'refusedKey'; readonly status: 401; readonly message: string }
  /** `fields` has the messages for each invalid parameter or field. */
  | { readonly kind: 'invalidInput'; readonly status: 422; readonly fields: FieldMessages }
  /** Nothing was changed. Repeat the call after `retryAfterSeconds`. */
  | ({ readonly kind: 'tooManyRequests'; readonly status: 429 } & Retryable)
  /** A create without an `Idempotency-Key` may have succeeded. */
  | ({ readonly kind: 'storeFailure'; readonly status: 502 } & Retryable)
  /** Any other 4xx with the API's form, such as a 403, 404 or 409 that the operation declares. */
  | { readonly kind: 'refused'; readonly status: number; readonly message: string }
  /** Any other status, or a body that is not from the API. */
  | ({ readonly kind: 'unexpectedAnswer'; readonly status: number } & Retryable)
  /** No answer or an incomplete one, or the call was aborted. `message` names the first cause, such as ECONNREFUSED. */
  | { readonly kind: 'unreachable'; readonly message: string; readonly cause: unknown }
);

type FieldMessages = Readonly<Record<string, readonly string[]>>;
type Retryable = { readonly message: string; readonly retryAfterSeconds?: number };

/** A failure as an error, whose message has the status, the cause and the request's id. Thrown by `all`. */
export class ClientError extends Error {
  override readonly name = 'ClientError';
  readonly failure: Failure;

  constructor(failure: Failure) {
    super(describe(failure), failure.kind === 'unreachable' ? { cause: failure.cause } : undefined);
    this.failure = failure;
  }
}

type Method = 'get' | 'put' | 'post' | 'delete' | 'patch';

type PathWith<Paths, M extends Method> = {
  [P in keyof Paths]: Paths[P] extends Record<M, object> ? P : never;
}[keyof Paths];

type Operation<Paths, P extends keyof Paths, M extends Method> = Paths[P] extends Record<M, infer O> ? O : never;

type Json<T> = T extends { content: { 'application/json': infer Value } } ? Value : undefined;

/** The body of the one success that an operation declares, without write-only properties. */
type Data<O> = O extends { responses: infer R }
  ? { [S in keyof R & number]: `${S}` extends `2${string}` ? Readable<Json<R[S]>> : never }[keyof R & number]
  : never;

/** The body of a request, without read-only properties. */
type Body<O> = O extends { requestBody: { content: { 'application/json': infer T } } }
  ? { readonly body: Writable<T> }
  : O extends { requestBody?: infer B }
    ? { readonly body?: Writable<Json<NonNullable<B>>> }
    : unknown;

type Parameters<O> = O extends { parameters: infer P } ? Pick<P, keyof P & ('query' | 'header' | 'path')> : unknown;
type Init<O> = Parameters<O> & Body<O> & { readonly signal?: AbortSignal };

/** The argument is optional if none of its properties is required. */
type Argument<T> = Record<never, never> extends T ? [init?: T] : [init: T];

type Call<Paths, M extends Method> = <P extends PathWith<Paths, M>>(
  path: P,
  ...init: Argument<Init<Operation<Paths, P, M>>>
) => Promise<Result<Data<Operation<Paths, P, M>>>>;

type Query<O> = O extends { parameters: { query?: infer Q } } ? NonNullable<Q> : never;

/** The paths that return an array in pages. */
export type ListPath<Paths = paths> = {
  [P in PathWith<Paths, 'get'>]: IsList<Operation<Paths, P, 'get'>> extends true ? P : never;
}[PathWith<Paths, 'get'>];

type IsList<O> = [Query<O>] extends [never]
  ? false
  : 'limit' | 'offset' extends keyof Query<O>
    ? Data<O> extends readonly unknown[]
      ? true
      : false
    : false;

/** The type of one element of a list. */
export type Item<P extends ListPath<Paths>, Paths = paths> =
  Data<Operation<Paths, P, 'get'>> extends readonly (infer T)[] ? T : never;

type ListInit<O> = Omit<Init<O>, 'query' | 'body'> &
  Filters<Omit<Query<O>, 'limit' | 'offset'>> & {
    /** Items per page; 100 by default. */
    readonly pageSize?: number;
  };
type Filters<Q> = Record<never, never> extends Q ? { readonly query?: Q } : { readonly query: Q };

/** The operations of a document, by method and path. None of them throws for a failed call. */
export type Client<Paths = paths> = { readonly [M in Method as Uppercase<M>]: Call<Paths, M> } & {
  /** Yields the pages of a list. The first failure is yielded too and ends the iteration. */
  pages<P extends ListPath<Paths>>(
    path: P,
    ...init: Argument<ListInit<Operation<Paths, P, 'get'>>>
  ): AsyncGenerator<Result<Item<P, Paths>[]>, void>;
  /** Yields the items of all pages of a list. Throws ClientError if a page cannot be read. */
  all<P extends ListPath<Paths>>(
    path: P,
    ...init: Argument<ListInit<Operation<Paths, P, 'get'>>>
  ): AsyncGenerator<Item<P, Paths>, void>;
  /**
   * Yields the pages of a list after the item `after`, and then new items at its end, such as changes of `/alteracoes`, until the signal is
   * aborted. Continues after a temporary failure, and throws ClientError for any other.
   */
  follow<P extends ListPath<Paths>>(
    path: P,
    ...init: Argument<ListInit<Operation<Paths, P, 'get'>> & { readonly intervalMs?: number }>
  ): AsyncGenerator<Item<P, Paths>[], void>;
};

/** Creates a client of the gateway. Throws TypeError or RangeError for an invalid option. */
export function createClient<Paths = paths>(options: ClientOptions): Client<Paths> {
  const send = createSender(options);
  const call = (method: string) => async (path: string, init?: AnyInit) => (await send(method, path, init)).result;
  const pages = (path: string, init?: AnyListInit) => readPages(send, path, init);
  const client = {
    ...Object.fromEntries(['GET', 'PUT', 'POST', 'DELETE', 'PATCH'].map((method) => [method, call(method)])),
    pages,
    all: (path: string, init?: AnyListInit) => readItems(pages(path, init)),
    follow: (path: string, init?: AnyListInit) => followPages(send, path, init),
  };
  return client as unknown as Client<Paths>;
}

type Values = Readonly<Record<string, unknown>>;
type AnyInit = { query?: Values; header?: Values; path?: Values; body?: unknown; signal?: AbortSignal };
type AnyListInit = AnyInit & { pageSize?: number; intervalMs?: number };
/** A result, its response, and whether the request reached `fetch`. */
type Answer<Data = unknown> = { readonly result: Result<Data>; readonly response?: Response; readonly isSent: boolean };
type Row = { readonly id?: unknown };
type Sender = (method: string, path: string, init?: AnyInit) => Promise<Answer>;

function createSender(options: ClientOptions): Sender {
  // A test may replace the global fetch after the client was created.
  const { baseUrl, retry = 2, fetch = (request) => globalThis.fetch(request), separators = own } = options;
  // It may be the text of an environment variable.
  const timeout = Number(options.timeout ?? 30_000);
  if (!(timeout > 0 && timeout <= MAX_TIMEOUT_MS)) throw new RangeError(`timeout must be 1 to ${MAX_TIMEOUT_MS} ms`);
  if (!(retry >= 0)) throw new RangeError('retry must be a number of calls');
  if (/^[\w.-]+(:\d+)?(\/|$)/.test(baseUrl))
    throw new TypeError(`baseUrl ${baseUrl} must begin with https:// or http://`);
  // A redirect would send the key to another server, and the gateway never redirects.
  const http = createFetchClient<Record<string, Record<'get', object>>>({
    baseUrl,
    headers: createHeaders(options),
    redirect: 'manual',
  });

  /** Sends one request, without retries. */
  async function attempt(method: string, path: string, init: AnyInit): Promise<Answer> {
    const { query, header, path: names, body, signal } = init;
    let isSent = false;
    const send = (request: Request) => {
      isSent = true;
      return fetch(request);
    };
    try {
      signal?.throwIfAborted();
      const querySerializer = () => toQuery(query, separators[`${method} ${path}`]);
      const params = { query, header: toHeader(header), path: names };
      const pathSerializer = (url: string) => toPath(url, names);
      const sent = { params, body, signal, fetch: send, parseAs: 'text', querySerializer, pathSerializer };
      const { response, data, error } = await http.request(method as 'get', path, sent as Record<string, unknown>);
      const result = response.ok ? readData(response, data) : toAnsweredFailure(response, error);
      return { result, response, isSent };
    } catch (cause) {
      return { result: { ok: false, kind: 'unreachable', message: explain(cause), cause }, isSent };
    }
  }

  return (method, path, init = {}) =>
    withTimeout(timeout, init.signal, async (signal) => {
      const end = performance.now() + timeout;
      const isSafe = method === 'GET' || hasIdempotencyKey(init.header);
      for (let count = 0; ; count += 1) {
        const answer = await attempt(method, path, { ...init, signal });
        const wait = toWait(answer.result, count);
        const isRetried = isSafe && answer.isSent && count < retry && !signal.aborted;
        if (!isRetried || wait === undefined || performance.now() + wait >= end) return answer;
        // An aborted wait ends in an attempt that fails with the reason.
        await sleep(wait, signal);
      }
    });
}

/** Runs a function with a signal that is aborted after a time, or with the caller's signal. */
async function withTimeout<T>(
  ms: number,
  own: AbortSignal | undefined,
  run: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  // AbortSignal.timeout would keep its timer until the end of the time.
  const controller = new AbortController();
  const late = () => controller.abort(new DOMException(`no answer within ${ms} ms`, 'TimeoutError'));
  const abort = () => controller.abort(own?.reason);
  const timer = setTimeout(late, ms);
  own?.addEventListener('abort', abort);
  if (own?.aborted) abort();
  try {
    return await run(controller.signal);
  } finally {
    clearTimeout(timer);
    own?.removeEventListener('abort', abort);
  }
}

/** Waits for a time, or until the caller's signal is aborted. */
function sleep(ms: number, own: AbortSignal | undefined): Promise<void> {
  return withTimeout(ms, own, async (signal) => {
    if (!signal.aborted) await new Promise((resolve) => signal.addEventListener('abort', resolve));
  });
}

/** Writes the query, without null and arrays without items, which no URL can carry. */
function toQuery(values: Values = {}, separators: Separators[string] = {}): string {
  const pairs = readValues(values).flatMap(([name, items]) => {
    const separator = Array.isArray(values[name]) ? separators[name] : undefined;
    const texts = separator === undefined ? items.map(encodeURIComponent) : [join(name, items, separator)];
    return texts.map((text) => `${encodeURIComponent(name)}=${text}`);
  });
  return pairs.join('&');
}

function toPath(template: string, values: Values = {}): string {
  const texts = readValues(values).map(([name, items]) => [name, join(name, items, ',')] as const);
  return texts.reduce((path, [name, text]) => {
    // An empty segment or dots make another path, perhaps that of another operation.
    if (/^\.{0,2}$/.test(text)) throw new RangeError(`${name} cannot be ${JSON.stringify(text)} in a path`);
    return path.replace(`{${name}}`, () => text);
  }, template);
}

/** Encodes header values as UTF-8, because a header carries bytes. */
function toHeader(values: Values = {}): Record<string, string> {
  const texts = readValues(values).map(([name, items]) => {
    const isList = items.length > 1 || Array.isArray(values[name]);
    if (items.some((item) => item !== item.trim() || (isList && item.includes(',')))) {
      throw new RangeError(
        `${name} cannot have spaces at its ends in a header${isList ? ', nor a comma in an item' : ''}`,
      );
    }
    return [name, String.fromCharCode(...new TextEncoder().encode(items.join()))];
  });
  return Object.fromEntries(texts);
}

/** The values that are sent, each as the texts of its items. */
function readValues(values: Values): [name: string, items: string[]][] {
  return Object.entries(values)
    .map(([name, value]): [string, string[]] => [name, [value ?? []].flat().map(String)])
    .filter(([, items]) => items.length > 0);
}

/** Joins the items in one text. An encoded comma belongs to an item; other separators are encoded like items. */
function join(name: string, items: readonly string[], separator: ',' | ' ' | '|'): string {
  if (separator === ',') return items.map(encodeURIComponent).join(',');
  if (items.some((item) => item.includes(separator))) {
    throw new RangeError(`${name} cannot have ${JSON.stringify(separator)} in an item: it separates the items`);
  }
  return encodeURIComponent(items.join(separator));
}

function hasIdempotencyKey(header: Values = {}): boolean {
  return Object.entries(header).some(([name, value]) => name.toLowerCase() === 'idempotency-key' && value);
}

/** The time until a call may be repeated, in ms; undefined if the same answer would come again. */
function toWait(result: Result<unknown>, count: number): number | undefined {
  if (result.ok || ('status' in result && !TEMPORARY.includes(result.status))) return undefined;
  if ('retryAfterSeconds' in result) return result.retryAfterSeconds * 1_000;
  // Clients that failed together must not come back together.
  return FIRST_WAIT_MS * 2 ** count * (1 + Math.random());
}

/** Replaces the error of Headers, whose message contains the key. */
function createHeaders({ apiKey, keyHeader = ownHeader, language }: ClientOptions): Headers {
  // An environment variable that is not set would be sent as the text `undefined`.
  if (typeof apiKey !== 'string') throw new TypeError(`apiKey is ${apiKey}`);
  const headers = new Headers(language === undefined ? {} : { 'Accept-Language': language });
  try {
    headers.set(keyHeader, apiKey);
    return headers;
  } catch {
    throw new TypeError('apiKey has characters that a header cannot have');
  }
}

function readData(response: Response, text: unknown): Result<unknown> {
  // An answer without content has no Content-Type either.
  if (!text && !response.headers.has('Content-Type')) return { ok: true, data: undefined };
  try {
    return { ok: true, data: JSON.parse(String(text)) };
  } catch {
    return toUnexpected(response, 'The body is not JSON');
  }
}

/** The failure for a 2xx whose body is not from the API. */
function toUnexpected({ status, headers }: Response, message: string): Failure {
  return { ...readFailed(headers), kind: 'unexpectedAnswer', status, message };
}

function toAnsweredFailure({ type, status, headers }: Response, body: unknown): Failure {
  const failed = readFailed(headers);
  const error = typeof body === 'object' && body !== null && 'error' in body ? body.error : undefined;
  const isText = typeof error === 'string';
  // Browsers hide the status of a redirect.
  const message = isText ? error : type === 'opaqueredirect' ? 'A redirection' : `HTTP ${status}`;
  const retryable = { message, ...readRetryAfter(headers) };
  if (status === 400) return { ...failed, kind: 'badRequest', status, message };
  if (status === 401) return { ...failed, kind: 'refusedKey', status, message };
  if (status === 422 && isFieldMessages(error)) return { ...failed, kind: 'invalidInput', status, fields: error };
  if (status === 429) return { ...failed, kind: 'tooManyRequests', status, ...retryable };
  if (status === 502) return { ...failed, kind: 'storeFailure', status, ...retryable };
  if (isText && status > 400 && status < 500) return { ...failed, kind: 'refused', status, message };
  return { ...failed, kind: 'unexpectedAnswer', status, ...retryable };
}

/** The first cause of an error: `fetch` itself only says that it failed. */
function explain(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  if (error.cause instanceof Error) return explain(error.cause);
  // It has one error for each address of the host.
  if (error instanceof AggregateError) return error.errors.map(explain).join('; ');
  return error.message || error.name;
}

/** The properties of every answered failure. */
function readFailed(headers: Headers): { ok: false; requestId?: string } {
  const requestId = headers.get('X-Request-Id');
  return { ok: false, ...(requestId === null ? {} : { requestId }) };
}

function isFieldMessages(error: unknown): error is FieldMessages {
  return typeof error === 'object' && error !== null && Object.values(error).every(Array.isArray);
}

/** The gateway sends seconds. A proxy may send a date. */
function readRetryAfter(headers: Headers): { retryAfterSeconds?: number } {
  const text = headers.get('Retry-After') ?? '';
  // `Date.parse` takes numbers too, such as 1.5.
  const [number] = /^-?\d+(?:\.\d+)?(?=\s*(?:,|$))/.exec(text) ?? [];
  const seconds = number === undefined ? (Date.parse(text) - Date.now()) / 1_000 : Number(number);
  return Number.isNaN(seconds) ? {} : { retryAfterSeconds: Math.max(Math.ceil(seconds), 0) };
}

async function* readPages(send: Sender, path: string, init: AnyListInit = {}): AsyncGenerator<Result<unknown[]>, void> {
  const { query } = init;
  const pageSize = toPageSize(init);
  let place: Values = {};
  for (let offset = pageSize; ; offset += pageSize) {
    const { result: page, response } = await readPage(send, path, init, place);
    yield page;
    if (!page.ok || page.data.length !== pageSize) return;
    // A proxy may have removed the header. `offset` beside the caller's `after` would be refused.
    place = readNext(response) ?? (query?.after == null ? { offset } : { after: page.data.at(-1)?.id });
  }
}

/** Reads the page size, which may be the text of an environment variable. */
function toPageSize({ pageSize = DEFAULT_PAGE_SIZE }: AnyListInit): number {
  if (Number.isInteger(Number(pageSize)) && Number(pageSize) > 0) return Number(pageSize);
  throw new RangeError('pageSize must be a number of items');
}

async function readPage(send: Sender, path: string, init: AnyListInit, place: Values): Promise<Answer<Row[]>> {
  const answer = await send('GET', path, { ...init, query: { ...init.query, limit: toPageSize(init), ...place } });
  const { result, response } = answer;
  if (!response || !result.ok || Array.isArray(result.data)) return answer as Answer<Row[]>;
  return { ...answer, result: toUnexpected(response, 'The body is not a list') };
}

/** Reads where the next page begins from a header `Link` (RFC 8288). The caller has the rest of that query. */
function readNext(response: Response | undefined): Values | undefined {
  const [, text] = /<[^>?]*\?([^>]*)>\s*;\s*rel="?next\b/.exec(response?.headers.get('Link') ?? '') ?? [];
  const query = new URLSearchParams(text);
  return ['after', 'offset'].map((name) => ({ [name]: query.get(name) })).find((place) => Object.values(place)[0]);
}

async function* readItems(pages: AsyncIterable<Result<unknown[]>>): AsyncGenerator<unknown, void> {
  for await (const page of pages) {
    if (!page.ok) throw new ClientError(page);
    yield* page.data;
  }
}

async function* followPages(send: Sender, path: string, init: AnyListInit = {}): AsyncGenerator<unknown[], void> {
  const { intervalMs = INTERVAL_MS, signal } = init;
  if (!(intervalMs >= 0)) throw new RangeError('intervalMs must be a number of ms');
  let place: Values = {};
  while (!signal?.aborted) {
    const { result, isSent } = await readPage(send, path, init, place);
    const page = result.ok ? result.data : [];
    if (page.length > 0) {
      yield page;
      place = { after: page.at(-1)?.id };
    }
    if (signal?.aborted) return;
    const retryMs = toWait(result, 0);
    if (!result.ok && !(isSent && retryMs !== undefined)) throw new ClientError(result);
    const wait = Math.max(intervalMs, retryMs ?? 0);
    if (page.length < toPageSize(init)) await sleep(Math.min(wait, MAX_TIMEOUT_MS), signal);
  }
}

function describe(failure: Failure): string {
  if (failure.kind === 'unreachable') return `The gateway gave no answer: ${failure.message}`;
  const { status, requestId } = failure;
  const request = requestId === undefined ? '' : ` (request ${requestId})`;
  return `${status}: ${failure.kind === 'invalidInput' ? describeFields(failure.fields) : failure.message}${request}`;
}

function describeFields(fields: FieldMessages): string {
  return Object.entries(fields)
    .map(([name, messages]) => `${name} ${messages.join(', ')}`)
    .join('; ');
}
