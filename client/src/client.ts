// A client of the API for Node and browsers. Only the document's types describe the operations; the code names none.

import createFetchClient, { type FetchResponse, type RequestBodyOption } from 'openapi-fetch';
import type { paths } from './openapi.ts';

export type { components, paths } from './openapi.ts';

const DEFAULT_PAGE_SIZE = 100;

export type ClientOptions = {
  /** The base URL of the operations' paths, such as `https://gateway.example/v1`. */
  readonly baseUrl: string;
  readonly apiKey: string;
  /** Sends the requests; by default the global `fetch`. */
  readonly fetch?: (request: Request) => Promise<Response>;
};

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
  /** Repeat a read. A create may have succeeded. */
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

type Operation<Paths, P extends keyof Paths, M extends Method> =
  Paths[P] extends Record<M, infer O extends Record<string, unknown>> ? O : never;

type Data<O extends Record<string, unknown>> = NonNullable<FetchResponse<O, unknown, 'application/json'>['data']>;

type Parameters<O> = O extends { parameters: infer P } ? Pick<P, keyof P & ('query' | 'header' | 'path')> : unknown;
type Init<O> = Parameters<O> & RequestBodyOption<O> & { readonly signal?: AbortSignal };

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

type IsList<O extends Record<string, unknown>> = [Query<O>] extends [never]
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
};

/** Creates a client of the gateway. Throws TypeError if the key has characters that a header cannot have. */
export function createClient<Paths = paths>(options: ClientOptions): Client<Paths> {
  const send = createSender(options);
  const call = (method: string) => async (path: string, init?: AnyInit) => (await send(method, path, init)).result;
  const pages = (path: string, init?: AnyListInit) => readPages(send, path, init);
  const client = {
    ...Object.fromEntries(['GET', 'PUT', 'POST', 'DELETE', 'PATCH'].map((method) => [method, call(method)])),
    pages,
    all: (path: string, init?: AnyListInit) => readItems(pages(path, init)),
  };
  return client as unknown as Client<Paths>;
}

type AnyInit = { query?: object; header?: object; path?: object; body?: unknown; signal?: AbortSignal };
type AnyListInit = AnyInit & { pageSize?: number };
/** A result, and the header `Link` of its answer. */
type Answer = { readonly result: Result<unknown>; readonly link?: string | null };
type Sender = (method: string, path: string, init?: AnyInit) => Promise<Answer>;

function createSender({ baseUrl, apiKey, fetch = currentFetch }: ClientOptions): Sender {
  // A redirect would send the key to another server, and the gateway never redirects.
  const options = { baseUrl, headers: createHeaders(apiKey), redirect: 'error' as const, fetch };
  const http = createFetchClient<Record<string, Record<'get', object>>>(options);
  return async (method, path, { query, header, path: names, body, signal } = {}) => {
    const init = { params: { query, header, path: names }, body, ...(signal && { signal }), parseAs: 'text' as const };
    try {
      const { response, data, error } = await http.request(method as 'get', path, init as Record<string, unknown>);
      const result = response.ok ? readData(response, data) : toFailure(response, error);
      return { result, link: response.headers.get('Link') };
    } catch (cause) {
      return { result: { ok: false, kind: 'unreachable', message: explain(cause), cause } };
    }
  };
}

/** A test may replace the global fetch after the client was created. */
function currentFetch(request: Request): Promise<Response> {
  return fetch(request);
}

/** Replaces the error of Headers, whose message contains the key. */
function createHeaders(apiKey: string): Headers {
  try {
    return new Headers({ 'X-Api-Key': apiKey });
  } catch {
    throw new TypeError('apiKey has characters that a header cannot have');
  }
}

function readData({ status, headers }: Response, text: unknown): Result<unknown> {
  if (status === 204) return { ok: true, data: undefined };
  try {
    return { ok: true, data: JSON.parse(String(text)) };
  } catch {
    return { ...readFailed(headers), kind: 'unexpectedAnswer', status, message: 'The body is not JSON' };
  }
}

function toFailure({ status, headers }: Response, body: unknown): Failure {
  const failed = readFailed(headers);
  const error = typeof body === 'object' && body !== null && 'error' in body ? body.error : undefined;
  const isText = typeof error === 'string';
  const message = isText ? error : `HTTP ${status}`;
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
  // One error for each address of a name.
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

/** The gateway sends seconds. A proxy may send a date, which is ignored. */
function readRetryAfter(headers: Headers): { retryAfterSeconds?: number } {
  const text = headers.get('Retry-After') ?? '';
  return /^\d+$/.test(text) ? { retryAfterSeconds: Number(text) } : {};
}

async function* readPages(send: Sender, path: string, init: AnyListInit = {}): AsyncGenerator<Result<unknown[]>, void> {
  const { pageSize = DEFAULT_PAGE_SIZE, query, ...rest } = init;
  let place: object = {};
  for (let offset = pageSize; ; offset += pageSize) {
    const answer = await send('GET', path, { ...rest, query: { ...query, limit: pageSize, ...place } });
    const page = answer.result as Result<unknown[]>;
    yield page;
    if (!page.ok || page.data.length !== pageSize) return;
    // A proxy may have removed the header.
    place = readNext(answer.link) ?? { offset };
  }
}

/** The query of the next page in a header `Link` (RFC 8288). */
function readNext(link: string | null | undefined): Record<string, string> | undefined {
  const [, query] = /<[^>?]*\?([^>]*)>\s*;\s*rel="?next\b/.exec(link ?? '') ?? [];
  return query === undefined ? undefined : Object.fromEntries(new URLSearchParams(query));
}

async function* readItems(pages: AsyncIterable<Result<unknown[]>>): AsyncGenerator<unknown, void> {
  for await (const page of pages) {
    if (!page.ok) throw new ClientError(page);
    yield* page.data;
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
