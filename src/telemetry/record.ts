// The record of a request, for the log, the metrics and the trace.

import { randomUUID } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import type { Fault } from '../errors.ts';

/** A request as far as it is known; each stage adds what it learns. */
export type RequestRecord = {
  /** Empty, as `url` and `headers` are, if the request could not be read. */
  readonly method: string;
  /** Path and query. */
  readonly url: string;
  readonly headers: IncomingHttpHeaders;
  /** The client's X-Request-Id, or a UUID. */
  readonly id: string;
  /** Arrival time, from performance.now(). */
  readonly startedAt: number;
  /** The client's valid traceparent header (W3C Trace Context, section 3.2). */
  readonly traceparent: string | undefined;
  /** The request's span, if traces are sent. */
  span?: Span;
  /** The operationId of the document. */
  operation?: string;
  /** The API key of the request, which is written nowhere. */
  key?: string;
  /** Whether the call counts against the limits of its key already. */
  isAdmitted?: boolean;
  /** The values of RateLimit-Policy and RateLimit for the limits of its key (draft-ietf-httpapi-ratelimit-headers-11). */
  limits?: { readonly policy: string; readonly state: string };
  /** The template of the operation's path, such as /v1/alunos/{id}. */
  route?: string;
  /** The status that the operation of a tool call ended with; the HTTP status is 200. */
  toolStatus?: number;
  /** The duration of the store call, queue included, in milliseconds. */
  storeMs?: number;
  fault?: Fault;
};

/** A span of a trace. */
export type Span = {
  /** The traceparent header for the next service (W3C Trace Context, section 3.2). */
  readonly traceparent: string;
  /** Starts a child span for a function call. */
  child(name: string): Span;
  end(attributes: Readonly<Record<string, string | number>>, fault?: Fault): void;
};

/** A request whose answer was sent. */
export type EndedRequest = RequestRecord & {
  /** The operationId, or the path of another endpoint; `none` for an unknown path. */
  readonly endpoint: string;
  /** The status, of a tool call its operation's; 499 if the client disconnected before the answer was sent. */
  readonly status: number;
  readonly durationMs: number;
  /** Bytes sent on the socket, headers included. */
  readonly responseBytes: number;
};

const SANE_ID = /^[\w.:/+=@~-]{1,128}$/;
/** An API key, or a part longer than the prefix that logs and lists show. */
const KEY_SHAPE = /wms_[a-z]{1,10}_[0-9A-Za-z]{9}/;
/** Version 00, or a later one, which may add fields. All-zero ids are invalid. */
const TRACEPARENT = /^(?!ff|00.{54})[0-9a-f]{2}-(?!0+-)[0-9a-f]{32}-(?!0+-)[0-9a-f]{16}-[0-9a-f]{2}(?:$|-)/;

/** Starts the record of a request. */
export function createRecord(method: string, url: string, headers: IncomingHttpHeaders): RequestRecord {
  const { 'x-request-id': id, traceparent } = headers;
  return {
    method,
    url,
    headers,
    // The gateway and the store log the id, so an API key sent here by mistake is not accepted.
    id: typeof id === 'string' && SANE_ID.test(id) && !KEY_SHAPE.test(id) ? id : randomUUID(),
    startedAt: performance.now(),
    traceparent: typeof traceparent === 'string' && TRACEPARENT.test(traceparent) ? traceparent : undefined,
  };
}

/** Paths that monitoring requests every few seconds: a success is logged at debug level only. */
export const PROBES: readonly string[] = ['/healthz', '/readyz', '/metrics'];

/** The percent-escape of a letter, a digit or an underscore, which can be part of a key. */
const ESCAPED_WORD = /%(?:3\d|[46][1-9a-f]|[57][\da]|5f)/gi;

/** The path to log: without the query, which may contain personal names, and without a key sent there by mistake. */
export function readPath({ url }: RequestRecord): string {
  const [path = ''] = url.split('?', 1);
  return path.replace(ESCAPED_WORD, decodeURIComponent).replace(/\w{24,}/g, '[hidden]');
}
