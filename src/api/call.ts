// Converts a validated request to a call of its Postgres function, and makes the call.

import type { Config } from '../config.ts';
import { DeadlineError, within } from '../deadline.ts';
import { type Failure, type FieldErrors, isFault, OperatorError, storeFault } from '../errors.ts';
import { BODY_ARGUMENT, declares, type Operation } from '../openapi/operations.ts';
import type { Form } from '../openapi/schema.ts';
import type { Argument, Call, Json, Result, Store } from '../store/store.ts';
import { type ApiRequest, type RequestContext, sourceOf, toPlainIntegers, toPlainNumber } from './request.ts';

/**
 * Converts a validated request to a call. A missing input takes the document's default. Without one, the call omits the
 * argument and the function's own default applies.
 */
export function toCall(operation: Operation, request: ApiRequest): Call {
  const { key, inputs, body, returns, readOnly } = operation;
  const args: Record<string, Argument> = { [key.argument]: String(request.headers[key.header] ?? '') };
  for (const input of inputs) {
    const [source, name] = sourceOf(request, input);
    const value = source[name] ?? input.default;
    if (value !== undefined) args[input.argument] = toArgument(value, input.form, request.texts.get(input.argument));
  }
  // In the document's order, not the client's: each order of the arguments is another prepared statement, and a client
  // without a valid key could fill Postgres's memory with them.
  for (const { argument, form, default: fallback } of body?.fields ?? []) {
    const fields = request.requestBody as Readonly<Record<string, Json>> | undefined;
    const value = fields?.[argument] ?? (fields && argument in fields ? null : fallback);
    if (value !== undefined) args[argument] = toArgument(value, form, request.texts.get(argument));
  }
  if (body && !body.fields) {
    const { requestBody: whole = body.schema.default as Json | undefined } = request;
    if (whole !== undefined) args[BODY_ARGUMENT] = toArgument(whole, 'json', request.texts.get('body'));
  }
  return { function: operation.function, args, returns, readOnly };
}

/** Converts a value to an argument. JSON keeps its text and a number its digits, if the text is known. */
function toArgument(value: Json, form: Form, text?: string): Argument {
  if (value === null) return null;
  if (form === 'json') return { json: toPlainIntegers(text ?? JSON.stringify(value)) };
  // Postgres reads bytes as hexadecimal digits.
  if (form === 'bytes') return `\\x${Buffer.from(String(value), 'base64').toString('hex')}`;
  if (typeof value === 'number' && text !== undefined) return toExact(value, text);
  if (form === 'array' && text !== undefined && Array.isArray(value)) return readNumbers(value, text);
  return value as Argument;
}

/** Returns a number, or its text if JavaScript cannot hold all of its digits. */
function toExact(value: number, text: string): number | string {
  const plain = toPlainNumber(text);
  return plain === String(value) ? value : plain;
}

/** Restores the digits of an array's numbers. All items are numbers, or none is; a model may have sent the numbers as strings. */
function readNumbers(values: readonly Json[], text: string): readonly Json[] {
  const items = text.match(/[^\s,"[\]]+/g) ?? [];
  return values.map((item, index) => (typeof item === 'number' ? toExact(item, items[index] ?? `${item}`) : item));
}

type CallerOptions = Pick<Config, 'deadlineMs'> & {
  readonly store: Store;
  /** Receives the function, the result (`ok` or the kind of failure) and the duration in milliseconds of each call. */
  readonly onCall?: ((name: string, result: string, ms: number) => void) | undefined;
};

/** The request that a call is made for. */
type Caller = {
  readonly context: RequestContext;
  readonly operation: Operation;
  /** The key or network whose share of the store the call takes. */
  readonly share: string;
};

/** The result of a call; `clientGone` if the client disconnected first. */
export type CallResult = Result | { readonly failure: Failure };

/** Calls the store within the deadline, or a given one in ms, and measures the call. Rejects only if the store does. */
export type CallStore = (call: Call, caller?: Caller, deadlineMs?: number) => Promise<CallResult>;

/** Creates the function that makes all store calls. */
export function createCallStore({ store, onCall, ...options }: CallerOptions): CallStore {
  return async (call, caller, deadlineMs = options.deadlineMs) => {
    const { context, operation, share } = caller ?? {};
    const span = context?.span?.child(call.function);
    const startedAt = performance.now();
    const origin = context && { requestId: context.id, share, traceparent: span?.traceparent ?? context.traceparent };
    const called = await within<CallResult>(
      deadlineMs,
      (signal) => store.call(call, signal, origin),
      context?.controller,
    ).catch(toInterruption);
    const result = operation && 'failure' in called ? { failure: toDeclared(operation, called.failure) } : called;
    const ms = performance.now() - startedAt;
    const failure = 'failure' in result ? result.failure : undefined;
    if (context) context.storeMs = ms;
    span?.end({}, failure && isFault(failure) ? failure : undefined);
    onCall?.(call.function, failure?.kind ?? 'ok', ms);
    return result;
  };
}

/** Names invalid fields as the document does, and turns a status that SQL raised but the document does not declare into a fault. */
export function toDeclared(operation: Operation, failure: Failure): Failure {
  if (failure.kind === 'invalidInput') return { ...failure, fields: toInputNames(operation, failure.fields) };
  if (failure.kind !== 'raised') return failure;
  const { status, text, constraint = '', error } = failure;
  const { id, function: name, conflicts = {} } = operation;
  // Citus appends the shard's number to the name of its constraint.
  const own = conflicts[constraint] ?? conflicts[constraint.replace(/_\d+$/, '')];
  if (declares(operation, status)) return { ...failure, text: own ?? text };
  const why = `${id} declares no response ${status}, for which ${name} gives a reason: ${(error as Error).message}`;
  return storeFault('storeError', new OperatorError(why, { cause: error })).failure;
}

/** Renames fields from arguments to inputs of the request: the store knows only the arguments. */
function toInputNames({ inputs, body }: Operation, fields: FieldErrors): FieldErrors {
  const nameOf = (field: string) => {
    if (field === BODY_ARGUMENT && body && !body.fields) return 'body';
    return inputs.find(({ argument }) => argument === field)?.name ?? field;
  };
  return Object.fromEntries(Object.entries(fields).map(([field, list]) => [nameOf(field), list]));
}

/** Converts the disconnection of the client or the end of the deadline to a failure; rethrows any other error. */
function toInterruption(error: unknown): CallResult {
  if (error instanceof ClientGone) return { failure: { kind: 'clientGone' } };
  if (error instanceof DeadlineError) return storeFault('storeTimeout', error);
  throw error;
}

/** The client disconnected before its answer was ready. */
export class ClientGone extends Error {}
