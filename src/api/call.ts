// Converts a validated request to a call of its Postgres function, and makes the call.

import { DeadlineError, within } from '../deadline.ts';
import { type Failure, isFault, OperatorError, storeFault } from '../errors.ts';
import { BODY_ARGUMENT, declares, type Operation } from '../openapi/operations.ts';
import type { Form } from '../openapi/schema.ts';
import type { Argument, Call, Json, Result, Store } from '../store/store.ts';
import { type ApiRequest, type HttpRequest, sourceOf } from './request.ts';

/**
 * Converts a validated request to a call. A missing input takes the document's default. Without one, the call omits the
 * argument and the function's own default applies.
 */
export function toCall(operation: Operation, request: ApiRequest): Call {
  const { key, inputs, body } = operation;
  const args: Record<string, Argument> = { [key.argument]: String(request.headers[key.header] ?? '') };
  for (const input of inputs) {
    const [source, name] = sourceOf(request, input);
    const value = source[name] ?? input.default;
    if (value !== undefined) args[input.argument] = toArgument(value, input.form);
  }
  // In the document's order, not the client's: each order of the arguments is another prepared statement, and a client
  // without a valid key could fill Postgres's memory with them.
  for (const { argument, form, default: fallback } of body?.fields ?? []) {
    const fields = request.requestBody as Readonly<Record<string, Json>> | undefined;
    const value = fields?.[argument] ?? (fields && argument in fields ? null : fallback);
    if (value !== undefined) args[argument] = toArgument(value, form, request.texts?.get(argument));
  }
  if (body && !body.fields && request.requestBody !== undefined) {
    args[BODY_ARGUMENT] = toArgument(request.requestBody, 'json', request.texts?.get('body'));
  }
  return {
    function: operation.function,
    args,
    returns: operation.returns,
    readOnly: operation.readOnly,
  };
}

/** Converts a value to an argument. JSON keeps its text, if it has one. */
function toArgument(value: Json, form: Form, text?: string): Argument {
  if (value === null) return null;
  if (form === 'json') return { json: text ?? JSON.stringify(value) };
  if (form === 'bytes') return `\\x${toHexadecimal(atob(String(value)))}`;
  return value as Argument;
}

/** Postgres reads bytes as hexadecimal digits. */
function toHexadecimal(bytes: string): string {
  return Array.from(bytes, (byte) => byte.charCodeAt(0).toString(16).padStart(2, '0')).join('');
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
export type Caller = Pick<HttpRequest, 'record' | 'controller'> & {
  readonly share: string;
  readonly operation: Operation;
};

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
    const called = await within<CallResult>(
      deadlineMs,
      (signal) => store.call(call, signal, origin),
      caller?.controller,
    ).catch(toFailure);
    const result = caller && 'failure' in called ? { failure: toDeclared(caller.operation, called.failure) } : called;
    const ms = performance.now() - startedAt;
    const failure = 'failure' in result ? result.failure : undefined;
    if (record) record.storeMs = ms;
    span?.end({}, failure && isFault(failure) ? failure : undefined);
    onCall?.(call.function, failure?.kind ?? 'ok', ms);
    return result;
  };
}

/** A status that SQL raised is the answer if the document declares it, and otherwise a fault. */
function toDeclared(operation: Operation, failure: Failure): Failure {
  if (failure.kind !== 'raised') return failure;
  const { status, text, constraint = '', error } = failure;
  const { id, function: name, conflicts = {} } = operation;
  // The name of a shard's constraint has the shard's number at the end (Citus).
  const own = conflicts[constraint] ?? conflicts[constraint.replace(/_\d+$/, '')];
  if (declares(operation, status)) return { ...failure, text: own ?? text };
  const why = `${id} declares no response ${status}, for which ${name} gives a reason: ${(error as Error).message}`;
  return storeFault('storeError', new OperatorError(why, { cause: error })).failure;
}

/** Converts the end of a call by the client or the deadline to a failure; rethrows anything else. */
function toFailure(error: unknown): CallResult {
  if (error instanceof ClientGone) return { failure: { kind: 'clientGone' } };
  if (error instanceof DeadlineError) return storeFault('storeTimeout', error);
  throw error;
}

/** The client disconnected before its answer was ready. */
export class ClientGone extends Error {}
