// What is recorded of a request, for its line in the log, the metrics and its trace.

import { randomUUID } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import type { Fault } from '../errors.ts';

/** A request from its arrival on; later stages add what they learn. */
export type RequestRecord = {
  readonly method: string;
  /** Path and query. */
  readonly url: string;
  readonly headers: IncomingHttpHeaders;
  /** The client's X-Request-Id, or a UUID. */
  readonly id: string;
  /** When it arrived, in milliseconds of performance.now(). */
  readonly startedAt: number;
  /** The client's place in a trace (W3C Trace Context, section 3.2). */
  readonly traceparent: string | undefined;
  /** Its span, where traces are sent. */
  span?: Span;
  /** The operationId of the document. */
  operation?: string;
  /** The duration of the store call, queue included, in milliseconds. */
  storeMs?: number;
  fault?: Fault;
};

/** A span of a trace. */
export type Span = {
  /** Identifies the span to the next service (W3C Trace Context, section 3.2). */
  readonly traceparent: string;
  /** Starts a span within this one, for the call of a function. */
  child(name: string): Span;
  end(attributes: Readonly<Record<string, string | number>>, fault?: Fault): void;
};

/** A request whose answer was sent. */
export type EndedRequest = RequestRecord & {
  /** The operation, or the path of another endpoint; `none` for an unknown path. */
  readonly route: string;
  /** The status; 499 if the client disconnected before the answer was sent. */
  readonly status: number;
  readonly durationMs: number;
  /** Bytes sent on the socket, headers included. */
  readonly responseBytes: number;
};

const SANE_ID = /^[\w.:/+=@~-]{1,128}$/;
/** An API key, or more of it than the prefix in logs and lists. */
const KEY_SHAPE = /wms_[a-z]{1,10}_[0-9A-Za-z]{9}/;
/** Version 00, or a later one, which may add fields; ids of zeros alone are invalid. */
const TRACEPARENT = /^(?!ff|00.{54})[0-9a-f]{2}-(?!0+-)[0-9a-f]{32}-(?!0+-)[0-9a-f]{16}-[0-9a-f]{2}(?:$|-)/;

/** Starts the record of a request. */
export function createRecord(method: string, url: string, headers: IncomingHttpHeaders): RequestRecord {
  const { 'x-request-id': id, traceparent } = headers;
  return {
    method,
    url,
    headers,
    // The id is logged here and by the store, so a key that a client put there by mistake is not taken.
    id: typeof id === 'string' && SANE_ID.test(id) && !KEY_SHAPE.test(id) ? id : randomUUID(),
    startedAt: performance.now(),
    traceparent: typeof traceparent === 'string' && TRACEPARENT.test(traceparent) ? traceparent : undefined,
  };
}

/** Paths that monitoring asks for every few seconds: a success is not worth a line in the log. */
export const PROBES: readonly string[] = ['/healthz', '/readyz', '/metrics'];

/** The escape of a letter, a digit or an underscore: such a character can be part of a key. */
const ESCAPED_WORD = /%(?:3\d|[46][1-9a-f]|[57][\da]|5f)/gi;

/** The path without its query, which holds names of people, and without a key that a client put there by mistake. */
export function readPath({ url }: RequestRecord): string {
  const [path = ''] = url.split('?', 1);
  return path.replace(ESCAPED_WORD, decodeURIComponent).replace(/\w{24,}/g, '[hidden]');
}
