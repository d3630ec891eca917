// The data of a request that the log, the metrics, the traces and the usage of keys read.

import type { IncomingHttpHeaders } from 'node:http';
import type { Fault } from '../errors.ts';

/** A request as it arrived. */
export type RequestRecord = {
  /** Empty, as `url` and `headers` are, if the request could not be read. */
  readonly method: string;
  /** Path and query. */
  readonly url: string;
  readonly headers: IncomingHttpHeaders;
  /** The client's X-Request-Id, or a UUID. */
  readonly id: string;
  /** The client's valid traceparent header (W3C Trace Context, section 3.2). */
  readonly traceparent: string | undefined;
};

/** A request whose answer was sent. */
export type EndedRequest = RequestRecord & {
  /** The operationId, or the path of another endpoint; `none` for an unknown path. */
  readonly endpoint: string;
  readonly operation?: { readonly id: string } | undefined;
  /** The API key, which must never be written. */
  readonly key?: string | undefined;
  /** Whether the call was counted against the limits of its key when it was admitted. */
  readonly isAdmitted?: boolean;
  /** The status, or that of a tool call's operation; 499 if the client disconnected before the answer was sent. */
  readonly status: number;
  readonly durationMs: number;
  /** The duration of the store call, queue included, in milliseconds. */
  readonly storeMs?: number | undefined;
  /** Bytes sent on the socket, headers included. */
  readonly responseBytes: number;
  readonly fault?: Fault | undefined;
  /** The request's span, if traces are sent. */
  readonly span?: Span | undefined;
};

/** A span of a trace. */
export type Span = {
  /** The traceparent header for the next service (W3C Trace Context, section 3.2). */
  readonly traceparent: string;
  /** Starts a child span for a function call. */
  child(name: string): Span;
  end(attributes: Readonly<Record<string, string | number>>, fault?: Fault): void;
};

/** Paths that monitoring requests every few seconds: a success is logged at debug level only. */
export const PROBES: readonly string[] = ['/healthz', '/readyz', '/metrics'];

/** The percent-escape of a letter, a digit or an underscore, which can be part of a key. */
const ESCAPED_WORD = /%(?:3\d|[46][1-9a-f]|[57][\da]|5f)/gi;

/** The path to log: without the query, which may contain personal names, and without a key sent there by mistake. */
export function readPath({ url }: Pick<RequestRecord, 'url'>): string {
  const [path = ''] = url.split('?', 1);
  return path.replace(ESCAPED_WORD, decodeURIComponent).replace(/\w{24,}/g, '[hidden]');
}
