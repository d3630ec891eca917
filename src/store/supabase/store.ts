// The Supabase store: calls functions through the Data API of a project, or through another PostgREST.

import { constants } from 'node:buffer';
import type { IncomingHttpHeaders } from 'node:http';
import { createClient } from '@supabase/supabase-js';
import { type Dispatcher, Pool } from 'undici';
import { answerTooLarge, messageOf, noRecord, storeFault } from '../../errors.ts';
import { blameNamed, type PgError, toFailure } from '../sqlstate.ts';
import {
  type Call,
  type DatabaseFunction,
  type Description,
  isJsonObject,
  type Json,
  type Origin,
  type Result,
  type Store,
} from '../store.ts';

/** How to reach the Data API of a Supabase project, or another PostgREST. */
type SupabaseOptions = {
  readonly url: string;
  /** A secret key, or a JWT whose role may execute the functions. */
  readonly key: string;
  /** The path of PostgREST after the URL; `/` for a PostgREST alone. */
  readonly restPath: string;
  readonly connections: number;
  /** Store call timeout in milliseconds, including time in the queue. */
  readonly deadlineMs: number;
  /** The largest answer, in bytes; by default the longest possible text. */
  readonly answerLimit?: number;
};

/** What a call and createFetch exchange, because supabase-js does not pass it on. */
type Exchange = {
  readonly origin: Origin | undefined;
  /** The arguments as JSON. */
  readonly body: string;
  isTooLarge: boolean;
  isReplayed: boolean;
  /** The status of PostgREST's answer: supabase-js takes an empty 404 for a success. */
  status: number;
};

/** The answer of supabase-js: data, or an error with Postgres's fields. */
type RpcAnswer = {
  readonly error: (Partial<PgError> & { details?: string | null }) | null;
  readonly data: unknown;
  readonly status: number;
};

/** What to do if PostgREST's root is refused or missing. */
const ADVICE: Readonly<Record<number, string>> = {
  401: ': check SUPABASE_KEY',
  404: ': check SUPABASE_URL and SUPABASE_REST_PATH',
};

/** The header with the number of a call's exchange; it is not sent. */
const EXCHANGE = 'x-exchange';

/** How much longer than a call's deadline connecting may take, in milliseconds. */
const LATE_MS = 1_000;

/** Opens the store of a Supabase project. It connects later: a project that cannot be reached is not an error here. */
export function openSupabase(options: SupabaseOptions): Store {
  const { origin } = new URL(options.url);
  // A call times out at its deadline. An earlier timeout of its connection would look like a lost connection.
  const pool = new Pool(origin, { connections: options.connections, connectTimeout: options.deadlineMs + LATE_MS });
  /** The running calls by the number that supabase-js passes on in the header EXCHANGE. */
  const exchanges = new Map<string, Exchange>();
  let count = 0;
  const client = createClient(options.url, options.key, {
    global: { fetch: createFetch(pool, options, exchanges) },
    // Otherwise supabase-js looks for a session at every call.
    accessToken: async () => options.key,
  });
  /** Asks PostgREST's root, which describes the database as an OpenAPI document. The answer to HEAD has no functions. */
  const askRoot = async (method: 'GET' | 'HEAD', signal: AbortSignal): Promise<Description> => {
    try {
      const headers = toHeaders(options.key);
      const { statusCode, body } = await pool.request({ method, path: options.restPath, headers, signal });
      const text = await body.text();
      if (statusCode === 200) return { functions: readPublished(text) };
      return storeFault('storeError', new Error(`it answers with status ${statusCode}${ADVICE[statusCode] ?? ''}`));
    } catch (cause) {
      return { failure: { kind: 'storeUnavailable', cause, connectionLost: true } };
    }
  };
  /** The types of a function's arguments by name; none if PostgREST does not describe it. */
  const readTypes = async (name: string, signal: AbortSignal): Promise<ReadonlyMap<string, string>> => {
    const description = await askRoot('GET', signal);
    const found = 'failure' in description ? undefined : description.functions.find((one) => one.name === name);
    return new Map(found?.arguments.map((argument) => [argument.name, argument.type]));
  };
  return {
    description: `Supabase at ${origin}`,
    call: async (call, signal, origin) => {
      if (signal.aborted) return storeFault('storeTimeout', signal.reason);
      const exchange: Exchange = {
        origin,
        body: writeArguments(call),
        isTooLarge: false,
        isReplayed: false,
        status: 0,
      };
      count += 1;
      const number = String(count);
      exchanges.set(number, exchange);
      try {
        // With csv(), supabase-js returns the text of the answer, which is JSON (createFetch asks for it). To parse it and
        // write it again would change numbers that JavaScript cannot hold.
        const answer = await client
          .rpc(call.function, {})
          .retry(false)
          .setHeader(EXCHANGE, number)
          .abortSignal(signal)
          .csv();
        if (signal.aborted) return storeFault('storeTimeout', signal.reason);
        if (exchange.isTooLarge) return answerTooLarge();
        const result = toResult(call, { ...(answer as RpcAnswer), status: exchange.status });
        if (exchange.isReplayed && 'json' in result) return { ...result, isReplayed: true };
        return await blameNamed(result, call, () => readTypes(call.function, signal));
      } finally {
        exchanges.delete(number);
      }
    },
    check: async (signal) => {
      const answer = await askRoot('HEAD', signal);
      return 'failure' in answer ? answer.failure : undefined;
    },
    describe: (signal) => askRoot('GET', signal),
    connections: () => ({ open: pool.stats.connected, idle: pool.stats.free }),
    // pool.close() would wait for the connections of abandoned calls, one after the other.
    close: () => pool.destroy(),
  };
}

/** Creates the `fetch` for supabase-js: on the store's pool, with constant headers. */
function createFetch(
  pool: Pool,
  { url, key, restPath, answerLimit = constants.MAX_STRING_LENGTH }: SupabaseOptions,
  exchanges: ReadonlyMap<string, Exchange>,
): typeof fetch {
  const NO_HEADERS = new Headers();
  const common = toHeaders(key);
  const prefix = new URL('rest/v1', url.replace(/\/?$/, '/')).href;
  const path = restPath.replace(/\/$/, '');
  return async (input, init) => {
    const signal = init?.signal ?? undefined;
    const exchange = exchanges.get(new Headers(init?.headers).get(EXCHANGE) ?? '') as Exchange;
    const request = {
      method: init?.method as Dispatcher.HttpMethod,
      path: path + String(input).slice(prefix.length),
      headers: exchange.origin ? { ...common, ...toTraceHeaders(exchange.origin) } : common,
      body: exchange.body,
    };
    const { status, headers, text } = await requestText(pool, request, answerLimit, signal).catch((error) => {
      exchange.isTooLarge = error instanceof BodyTooLarge;
      // supabase-js passes on nothing but the message.
      throw error.message ? error : new Error(messageOf(error), { cause: error });
    });
    Object.assign(exchange, { status, isReplayed: 'idempotent-replayed' in headers });
    // This is no Response, which takes a tenth of a call's processor time for streaming the text.
    return {
      // A function may raise an error with a success status. PostgREST adds Content-Range to real successes only.
      ok: status >= 200 && status < 300 && 'content-range' in headers,
      status,
      statusText: '',
      headers: NO_HEADERS,
      text: async () => text,
    } as Response;
  };
}

/** An answer with its whole body. */
type TextAnswer = {
  readonly status: number;
  /** By lower-case name. */
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
};

class BodyTooLarge extends Error {}

/**
 * Sends a request and reads the answer as text; the signal cancels it. Rejects with BodyTooLarge for more than `limit` bytes, and
 * otherwise as `pool.request` does. That makes a stream of each body and takes twice the processor time.
 */
function requestText(
  pool: Pool,
  request: Dispatcher.DispatchOptions,
  limit: number,
  signal: AbortSignal | undefined,
): Promise<TextAnswer> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    const answer = { status: 0, headers: {} as IncomingHttpHeaders };
    let length = 0;
    let abort = (): void => {};
    pool.dispatch(request, {
      onRequestStart: (controller) => {
        abort = () => controller.abort(signal?.reason);
        if (signal?.aborted) abort();
        else signal?.addEventListener('abort', abort);
      },
      onResponseStart: (_controller, status, headers) => void Object.assign(answer, { status, headers }),
      onResponseData: (controller, chunk) => {
        length += chunk.length;
        if (length > limit) controller.abort(new BodyTooLarge(`more than ${limit} bytes`));
        else chunks.push(chunk);
      },
      onResponseEnd: () => {
        signal?.removeEventListener('abort', abort);
        resolve({ ...answer, text: Buffer.concat(chunks).toString('utf8') });
      },
      onResponseError: (_controller, error) => {
        signal?.removeEventListener('abort', abort);
        reject(error);
      },
    });
  });
}

/** Writes the arguments as JSON. The JSON of an argument stays as it was written. */
function writeArguments({ args }: Call): string {
  const pairs = Object.entries(args).map(([name, value]) => {
    const isText = typeof value === 'object' && value !== null && 'json' in value;
    return `${JSON.stringify(name)}:${isText ? value.json : JSON.stringify(value)}`;
  });
  return `{${pairs}}`;
}

/** Identifies the request to proxies and, through PostgREST, to functions. */
function toTraceHeaders({ requestId, traceparent }: Origin): Record<string, string> {
  return { 'x-request-id': requestId, ...(traceparent ? { traceparent } : {}) };
}

function toHeaders(key: string): Record<string, string> {
  return {
    accept: 'application/json',
    apikey: key,
    authorization: `Bearer ${key}`,
    'content-type': 'application/json',
    'content-profile': 'public',
    // Without this, times would be in the zone of the database, unlike on Postgres.
    prefer: 'timezone=UTC',
    'user-agent': 'wellness-gateway',
  };
}

function toResult(call: Call, { error, data, status }: RpcAnswer): Result {
  if (error) return { failure: toRpcFailure(error, status) };
  // A function may set the status of a success, so any 2xx counts.
  const result = status < 300 ? readResult(call, typeof data === 'string' ? data : '') : undefined;
  if (result) return result;
  return storeFault('storeError', new Error(`the answer, of status ${status}, is not what ${call.function} returns`));
}

/** A network failure has an empty code, a proxy's error page has none; errors of PostgREST and Postgres always have one. */
function toRpcFailure(error: NonNullable<RpcAnswer['error']>, status: number): ReturnType<typeof toFailure> {
  const { code, message, details, hint } = error;
  // PostgREST writes the message of a raised status into the status line of HTTP.
  if (/HTTP\/1\.1 protocol \(.*(response line|header token)/.test(message ?? '')) {
    return { kind: 'storeError', cause: `${message}: does a message that SQL raises have a line break?` };
  }
  if (code === '') return { kind: 'storeUnavailable', cause: message, connectionLost: true };
  const text = message || `it answers with status ${status}`;
  return toFailure({ code, message: text, detail: details ?? undefined, hint: hint ?? undefined });
}

/** Reads the answer of a call; undefined if it is not what the call returns. */
function readResult({ returns }: Call, text: string): Result | undefined {
  const value = parse(text);
  const isEmpty = Array.isArray(value) && value.length === 0;
  // The answer of a function that returns void has no body.
  if (returns === 'nothing') return isEmpty ? noRecord() : { json: '', count: 1 };
  if ((returns === 'value' || returns === 'row') && value === null) return noRecord();
  if (returns === 'value') return value === undefined ? undefined : { json: text, count: 1 };
  // A function that returns a row type, not a set, gives one object; all its values are null if there is no record.
  if (returns === 'row' && isJsonObject(value)) {
    return Object.values(value).every((part) => part === null) ? noRecord() : { json: text, count: 1 };
  }
  if (!Array.isArray(value) || (returns !== 'values' && !value.every(isJsonObject))) return undefined;
  const count = value.length;
  if (returns !== 'row') return { json: text, count };
  if (isEmpty) return noRecord();
  return count === 1 ? { json: text.trim().slice(1, -1).trim(), count } : undefined;
}

function parse(text: string): Json | undefined {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

type Published = {
  readonly paths?: Readonly<Record<string, { readonly get?: { readonly parameters?: readonly DescribedParameter[] } }>>;
};
type DescribedParameter = { readonly name?: string; readonly format?: string; readonly required?: boolean };

const PREFIX = '/rpc/';

/**
 * Reads the functions in the OpenAPI 2.0 document at the root of a PostgREST: the names and arguments of those that the caller may
 * execute. The document does not describe their results.
 */
function readPublished(text: string): DatabaseFunction[] {
  const { paths = {} } = (parse(text) ?? {}) as Published;
  const functions = Object.entries(paths).filter(([path]) => path.startsWith(PREFIX));
  return functions.map(([path, { get }]) => {
    const named = (get?.parameters ?? []).filter(({ name }) => name !== undefined);
    const args = named.map(({ name = '', format, required }) => ({
      name,
      // The document gives no type for a variadic argument.
      type: format ?? 'variadic array',
      hasDefault: required !== true,
    }));
    return { name: path.slice(PREFIX.length), arguments: args };
  });
}
