// Handles one API request, from its parts to its outcome, without sockets.

import type { Config } from '../config.ts';
import { type Failure, type Fault, isFault, RequestFailed } from '../errors.ts';
import type { Limits } from '../limits/limits.ts';
import type { CompiledDocument } from '../openapi/compile.ts';
import type { Operation } from '../openapi/operations.ts';
import type { Rows } from '../store/store.ts';
import { type Success, toSuccess } from './answer.ts';
import { type CallResult, type CallStore, toCall } from './call.ts';
import { describeLargeAnswer, localizeErrors } from './messages.ts';
import { type ApiRequest, httpReader, type Reader, type RequestContext, refuse, takeKey } from './request.ts';
import { validate } from './validate.ts';

type HandlerOptions = Pick<Config, 'answerLimit'> & {
  readonly callStore: CallStore;
  readonly limits: Limits;
  /** Receives every fault. Its cause is only for the log. */
  readonly onFault: (fault: Fault, context: RequestContext) => void;
};

/** How a request ended. */
export type Outcome = Success | Failed;
type Failed = { readonly failure: Failure; readonly headers?: Readonly<Record<string, string>> };

/** Handles one request; never throws. */
export type Handler = (context: RequestContext, reader?: Reader) => Promise<Outcome>;

/** Creates the handler of a document's operations. */
export function createHandler(document: CompiledDocument, options: HandlerOptions): Handler {
  const { callStore, answerLimit, limits, onFault } = options;

  async function handle(context: RequestContext, reader: Reader): Promise<Success> {
    const request = reader.read(context);
    const operation = reader.route(document.match, request);
    context.operation = operation;
    const key = takeKey(request, operation);
    context.key = key;
    await admit(context, key);
    await reader.takeInputs(context, operation, request);
    validate(document, operation, request);
    const result = await call(context, operation, request);
    await learn(context, key, result);
    return toSuccess(operation, request, toRows(operation, result));
  }

  /** Counts the request against the limits of its key, before its body is read. */
  async function admit(context: RequestContext, key: string): Promise<void> {
    context.admission = await limits.admit(key);
    const { retryAfter } = context.admission ?? {};
    if (retryAfter !== undefined) throw new RequestFailed({ kind: 'tooManyRequests', retryAfter });
  }

  function call(context: RequestContext, operation: Operation, request: ApiRequest): Promise<CallResult> {
    const call = toCall(operation, request);
    return limits.callWithPermit(context, (share) => callStore(call, { context, operation, share }));
  }

  /** Starts counting a key's calls after its first answered call: its limits refuse only later calls. Forgets an invalid key. */
  async function learn(context: RequestContext, key: string, result: CallResult): Promise<void> {
    const isAccepted = !('failure' in result);
    if (!isAccepted && provesKeyInvalid(result.failure)) limits.forget(key);
    const learned = isAccepted || provesKeyValid(result.failure) ? limits.learn(key, isAccepted) : undefined;
    if (learned) context.admission = await learned;
  }

  function toRows({ page }: Operation, result: CallResult): Rows {
    if (!('failure' in result)) return result;
    const { failure } = result;
    // The client can request a smaller page.
    if (failure.kind === 'answerTooLarge' && page) refuse({ [page.limit.name]: [describeLargeAnswer(answerLimit)] });
    throw new RequestFailed(failure);
  }

  /** Decides what the client learns about a failure, and when. */
  async function settle(failure: Failure, context: RequestContext): Promise<Failure> {
    if (isFault(failure)) onFault(failure, context);
    if (failure.kind === 'invalidInput') return localizeErrors(failure, context.headers, document.translations);
    return limits.holdBack(failure, context);
  }

  return async (context, reader = httpReader) => {
    let outcome: Outcome;
    try {
      outcome = await handle(context, reader);
    } catch (error) {
      const failure = error instanceof RequestFailed ? error.failure : ({ kind: 'internal', cause: error } as const);
      outcome = { failure: await settle(failure, context) };
    }
    if (!context.admission) return outcome;
    return { ...outcome, headers: { ...outcome.headers, ...context.admission.headers } };
  };
}

/** Whether a failure proves that the function accepted the key. Without proof, headers with its limits would give away a valid key. */
function provesKeyValid(failure: Failure): boolean {
  if (failure.kind === 'invalidInput') return !failure.isUnread;
  if (failure.kind === 'refusedKey') return failure.lacksPermission === true;
  return failure.kind === 'raised' || failure.kind === 'answerTooLarge';
}

/** Whether a failure proves that the key is invalid. A rotated key shares its limits with its successor, and must not spend them. */
function provesKeyInvalid(failure: Failure): boolean {
  return failure.kind === 'refusedKey' && !failure.lacksPermission && !failure.isBare;
}
