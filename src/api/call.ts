// Converts a validated request to a call of its Postgres function, and makes the call.

import { DeadlineError, within } from '../deadline.ts';
import { type Failure, isFault, storeFault } from '../errors.ts';
import type { Operation } from '../openapi/operations.ts';
import type { Call, Json, Result, Store } from '../store/store.ts';
import { type ApiRequest, type HttpRequest, locate } from './request.ts';

/**
 * Converts a validated request to a call. A missing input takes the document's default. Without one, the call omits the
 * argument and the function's own default applies.
 */
export function toCall(operation: Operation, request: ApiRequest): Call {
  const args: Record<string, Json> = { [operation.key.argument]: request.headers[operation.key.header] ?? '' };
  for (const input of operation.inputs) {
    const [source, name] = locate(request, input);
    const value = source[name] ?? input.default;
    if (value !== undefined) args[input.argument] = value;
  }
  // In the document's order, not the client's: each order of the arguments is another prepared statement, and a client
  // without a valid key could fill Postgres's memory with them.
  for (const { argument, default: fallback } of operation.fields) {
    const value = request.requestBody?.[argument];
    if (value !== undefined) args[argument] = value;
    else if (fallback !== undefined) args[argument] = fallback;
  }
  return {
    function: operation.function,
    args,
    returns: operation.returns,
    readOnly: operation.readOnly,
  };
}

/** Options for all calls of a gateway. */
export type CallerOptions = {
  readonly store: Store;
  /** Store call timeout in milliseconds, including time in the queue. */
  readonly deadlineMs: number;
  /** Receives the function, the result (`ok` or the kind of failure) and the duration in milliseconds of each call. */
  readonly onCall?: ((name: string, result: string, ms: number) => void) | undefined;
};

/** The request behind a call. */
export type Caller = Pick<HttpRequest, 'record' | 'controller'> & { readonly share: string };

/** The result of a call; `clientGone` if the client disconnected first. */
export type CallResult = Result | { readonly failure: Failure };

/** Calls the store within the deadline and measures the call. Rejects only if the store does. */
export type CallStore = (call: Call, caller?: Caller) => Promise<CallResult>;

/** Creates the function that makes all store calls for requests. */
export function createCallStore({ store, deadlineMs, onCall }: CallerOptions): CallStore {
  return async (call, caller) => {
    const { record } = caller ?? {};
    const span = record?.span?.child(call.function);
    const startedAt = performance.now();
    const origin = caller && {
      requestId: caller.record.id,
      share: caller.share,
      traceparent: span?.traceparent ?? caller.record.traceparent,
    };
    const result = await within<CallResult>(
      deadlineMs,
      (signal) => store.call(call, signal, origin),
      caller?.controller,
    ).catch(toFailure);
    const ms = performance.now() - startedAt;
    const failure = 'failure' in result ? result.failure : undefined;
    if (record) record.storeMs = ms;
    span?.end({}, failure && isFault(failure) ? failure : undefined);
    onCall?.(call.function, failure?.kind ?? 'ok', ms);
    return result;
  };
}

/** Rethrows an error that is a fault of the program. */
function toFailure(error: unknown): CallResult {
  if (error instanceof ClientGone) return { failure: { kind: 'clientGone' } };
  if (error instanceof DeadlineError) return storeFault('storeTimeout', error);
  throw error;
}

/** The client disconnected before its answer was ready. */
export class ClientGone extends Error {}
