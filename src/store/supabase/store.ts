import { constants } from 'node:buffer';
import { createClient } from '@supabase/supabase-js';
import { type Dispatcher, Pool } from 'undici';
import { answerTooLarge, type Fault, messageOf, storeFault } from '../../errors.ts';
import { type PgError, toFailure } from '../sqlstate.ts';
import type { Call, Origin, Result, Rows, Store } from '../store.ts';
import { readPublished } from './description.ts';
import { BodyTooLarge, requestText } from './request.ts';

/** How to reach the Data API of a Supabase project, or a PostgREST of one's own. */
export type SupabaseOptions = {
  readonly url: string;
  /** A secret key, or a JWT whose role may execute the functions. */
  readonly key: string;
  /** The path of PostgREST behind the URL; a bare one has `/`. */
  readonly restPath: string;
  readonly connections: number;
  /** The longest that headers, or a part of the body, may take to come, in milliseconds. */
  readonly deadlineMs: number;
  /** The largest answer, in bytes; unless told the longest text that there can be. */
  readonly answerLimit?: number;
};

/** What a call says to supabase-js's fetch, and hears of its answer, past supabase-js. */
type Exchange = {
  readonly origin: Origin | undefined;
  contentRange: string | undefined;
  isTooLarge: boolean;
};

/** What supabase-js gives: an error that has Postgres's four fields, or that is a text which was no JSON. */
type Answer = {
  readonly error: (Partial<PgError> & { details?: string | null }) | null;
  readonly data: unknown;
  readonly status: number;
};

/** Opens the store of a Supabase project. Nothing is connected yet: a store that cannot be reached is no error here. */
export function openSupabase(options: SupabaseOptions): Store {
  const { origin } = new URL(options.url);
  const pool = new Pool(origin, {
    connections: options.connections,
    connectTimeout: options.deadlineMs,
    headersTimeout: options.deadlineMs,
    bodyTimeout: options.deadlineMs,
  });
  // The signal of a call is what goes through supabase-js as it is; a header of its own has three copied each time.
  const exchanges = new Map<AbortSignal, Exchange>();
  const client = createClient(options.url, options.key, {
    global: { fetch: createFetch(pool, options, exchanges) },
    // Without it every call would ask the client's authentication for a session, which there is none.
    accessToken: async () => options.key,
  });
  /** PostgREST's root says what it has read of the database, as an OpenAPI document. */
  const askRoot = async (
    method: 'GET' | 'HEAD',
    signal: AbortSignal,
  ): Promise<{ text: string } | { failure: Fault }> => {
    try {
      const headers = toHeaders(options.key);
      const { statusCode, body } = await pool.request({ method, path: options.restPath, headers, signal });
      const text = await body.text();
      return statusCode === 200
        ? { text }
        : storeFault('storeError', new Error(`it answers with status ${statusCode}`));
    } catch (cause) {
      return { failure: { kind: 'storeUnavailable', cause, connectionLost: true } };
    }
  };
  return {
    description: `Supabase at ${origin}`,
    call: async (call, signal, origin) => {
      if (signal.aborted) return storeFault('storeTimeout', signal.reason);
      const exchange: Exchange = { origin, contentRange: undefined, isTooLarge: false };
      exchanges.set(signal, exchange);
      try {
        // With this form supabase-js gives the text as it came; see createFetch for what is really asked for.
        const answer = await client.rpc(call.function, call.args).retry(false).abortSignal(signal).csv();
        if (signal.aborted) return storeFault('storeTimeout', signal.reason);
        if (exchange.isTooLarge) return answerTooLarge();
        return toResult(call, answer as Answer, exchange.contentRange);
      } finally {
        exchanges.delete(signal);
      }
    },
    check: async (signal) => {
      const answer = await askRoot('HEAD', signal);
      return 'failure' in answer ? answer.failure : undefined;
    },
    describe: async (signal) => {
      const answer = await askRoot('GET', signal);
      return 'failure' in answer ? answer : { functions: readPublished(answer.text) };
    },
    connections: () => ({ open: pool.stats.connected, idle: pool.stats.free }),
    close: () => pool.close(),
  };
}

/**
 * The `fetch` that supabase-js is given: on a pool of its own, with headers that are made once, and with nothing
 * of a Response but what supabase-js reads.
 */
function createFetch(
  pool: Pool,
  { url, key, restPath, answerLimit = constants.MAX_STRING_LENGTH }: SupabaseOptions,
  exchanges: ReadonlyMap<AbortSignal, Exchange>,
): typeof fetch {
  const common = toHeaders(key);
  const prefix = new URL('rest/v1', url.replace(/\/?$/, '/')).href;
  const path = restPath.replace(/\/$/, '');
  return async (input, init) => {
    const signal = init?.signal ?? undefined;
    const exchange = signal && exchanges.get(signal);
    const request = {
      method: init?.method as Dispatcher.HttpMethod,
      path: path + String(input).slice(prefix.length),
      headers: exchange?.origin ? { ...common, ...toTraceHeaders(exchange.origin) } : common,
      body: init?.body as string,
    };
    const answer = requestText(pool, request, answerLimit, signal).catch((error) => {
      if (exchange) exchange.isTooLarge = error instanceof BodyTooLarge;
      return throwWithMessage(error);
    });
    const { status, contentRange, text } = await answer;
    if (exchange) exchange.contentRange = contentRange;
    return {
      ok: status >= 200 && status <= 299,
      status,
      statusText: '',
      headers: new Map(),
      text: async () => text,
    } as unknown as Response;
  };
}

/** What PostgREST shows to the functions, and to a proxy in front of it, of the request that a call is made for. */
function toTraceHeaders({ requestId, traceparent }: Origin): Record<string, string> {
  return { 'x-request-id': requestId, ...(traceparent ? { traceparent } : {}) };
}

/** supabase-js makes a text of an error, and passes nothing on but that. */
function throwWithMessage(error: Error): never {
  throw error.message ? error : new Error(messageOf(error), { cause: error });
}

function toHeaders(key: string): Record<string, string> {
  return {
    accept: 'application/json',
    apikey: key,
    authorization: `Bearer ${key}`,
    'content-type': 'application/json',
    'content-profile': 'public',
    'user-agent': 'wellness-gateway',
  };
}

function toResult(call: Call, { error, data, status }: Answer, contentRange: string | undefined): Result {
  if (error) return { failure: toFailureOf(error, status) };
  const rows = typeof data === 'string' ? toRows(call, data, contentRange) : undefined;
  if (rows) return rows;
  return storeFault('storeError', new Error(`the answer, of status ${status}, is not what ${call.function} returns`));
}

/** A network failure has an empty code, a proxy's page has none; PostgREST's and Postgres's errors always have one. */
function toFailureOf(error: NonNullable<Answer['error']>, status: number): ReturnType<typeof toFailure> {
  const { code, message, details } = error;
  if (code === '') return { kind: 'storeUnavailable', cause: message, connectionLost: true };
  return toFailure({ code, message: message || `it answers with status ${status}`, detail: details ?? undefined });
}

/**
 * The text of the function's rows or its row, or undefined where it is none of that. The text itself goes to the
 * client, and not what was parsed of it: numbers that JavaScript cannot hold would change.
 */
function toRows(call: Call, text: string, contentRange: string | undefined): Rows | undefined {
  const count = readCount(text, contentRange) ?? countObjects(parse(text));
  if (count === undefined) return undefined;
  if (call.returns === 'rows') return { json: text, count };
  return count === 1 ? { json: text.trim().slice(1, -1).trim(), count } : undefined;
}

/** How many rows PostgREST says that it gives: to parse a page of them takes as long as to ask for it. */
function readCount(text: string, contentRange = ''): number | undefined {
  const [, first, last] = /^(\d+)-(\d+)\//.exec(contentRange) ?? [];
  const isWhole = text.startsWith('[{') && text.endsWith('}]');
  return isWhole && last !== undefined ? Number(last) - Number(first) + 1 : undefined;
}

function countObjects(rows: unknown): number | undefined {
  return Array.isArray(rows) && rows.every(isObject) ? rows.length : undefined;
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function isObject(value: unknown): boolean {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
