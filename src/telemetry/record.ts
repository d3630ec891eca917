import { randomUUID } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { type Failure, type Fault, isFault } from '../errors.ts';
import type { Origin } from '../store/store.ts';

/** What becomes known of a request on its way, for its line in the log, the metrics and its trace. */
export type Observation = {
  readonly req: IncomingMessage;
  /** What the client calls the request in X-Request-Id, or a UUID. */
  readonly id: string;
  /** When it began, in milliseconds of performance.now(). */
  readonly begunAt: number;
  /** The client's place in a trace (W3C Trace Context, section 3.2). */
  readonly traceparent: string | undefined;
  /** Its own part of the trace, where traces are sent. */
  span?: Span;
  /** The operationId of the document. */
  operation?: string;
  /** How long the store took, its queue included, in milliseconds. */
  storeMs?: number;
  fault?: Fault;
  /** Whether its record is made: what comes later has no part in it. */
  isEnded?: boolean;
};

/** A part of a trace. */
export type Span = {
  /** What the next one along is told of it (W3C Trace Context, section 3.2). */
  readonly traceparent: string;
  /** Begins a part within this one: a call of a function. */
  child(name: string): Span;
  /** Ends it, with what became known of it. */
  end(attributes: Readonly<Record<string, string | number>>, fault?: Fault): void;
};

/** A request whose answer is out. */
export type RequestRecord = Observation & {
  /** The operation, or else the path of what the gateway serves beside them; `none` where there is no such path. */
  readonly route: string;
  /** The status, or 499 where the client was gone before the answer was out. */
  readonly status: number;
  readonly durationMs: number;
  /** What went over the connection, headers included, in bytes. */
  readonly responseBytes: number;
};

const SANE_ID = /^[\w.:/+=@~-]{1,128}$/;
/** An API key, or more of one than the prefix that lists and logs show. */
const KEY_SHAPE = /wms_[a-z]{1,10}_[0-9A-Za-z]{9}/;
/** Version 00, and those to come, which may add to it; an id of zeros alone is none. */
const TRACEPARENT = /^(?!ff|00.{54})[0-9a-f]{2}-(?!0+-)[0-9a-f]{32}-(?!0+-)[0-9a-f]{16}-[0-9a-f]{2}(?:$|-)/;

const OBSERVATION = Symbol('observation');
type Observed = ServerResponse & { [OBSERVATION]?: Observation };

/** The observation of a request, which begins when it is first asked for. */
export function observe(req: IncomingMessage, res: ServerResponse): Observation {
  const observed: Observed = res;
  observed[OBSERVATION] ??= begin(req);
  return observed[OBSERVATION];
}

function begin(req: IncomingMessage): Observation {
  const { 'x-request-id': id, traceparent } = req.headers;
  return {
    req,
    // The id is logged here and by the store, so a key that a client put there by mistake is not taken.
    id: typeof id === 'string' && SANE_ID.test(id) && !KEY_SHAPE.test(id) ? id : randomUUID(),
    begunAt: performance.now(),
    traceparent: typeof traceparent === 'string' && TRACEPARENT.test(traceparent) ? traceparent : undefined,
  };
}

/** What is asked every few seconds is of no interest while it goes well. */
export const PROBES: readonly string[] = ['/healthz', '/readyz', '/metrics'];

/** The escape of a letter, a digit or an underscore: such a character can be part of a key. */
const ESCAPED_WORD = /%(?:3\d|[46][1-9a-f]|[57][\da]|5f)/gi;

/** The path without its query, which holds names of people, and without a key that a client put there by mistake. */
export function readPath({ url = '' }: IncomingMessage): string {
  const [path = ''] = url.split('?', 1);
  return path.replace(ESCAPED_WORD, decodeURIComponent).replace(/\w{24,}/g, '[hidden]');
}

/** Makes a call of the store as a part of the request: it is timed, and the store is told of the request. */
export async function callObserved<T extends object>(
  observation: Observation,
  name: string,
  call: (origin: Origin) => Promise<T | { readonly failure: Failure }>,
): Promise<T | { readonly failure: Failure }> {
  const span = observation.span?.child(name);
  const begunAt = performance.now();
  const result = await call({
    requestId: observation.id,
    traceparent: span?.traceparent ?? observation.traceparent,
  });
  observation.storeMs = performance.now() - begunAt;
  span?.end({}, 'failure' in result && isFault(result.failure) ? result.failure : undefined);
  return result;
}
