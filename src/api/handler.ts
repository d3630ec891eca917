// Handles one API request, from its parts to its outcome, without sockets.

import { type Failure, type Fault, isFault, RequestFailed } from '../errors.ts';
import type { CompiledDocument } from '../openapi/compile.ts';
import type { Operation } from '../openapi/operations.ts';
import type { Rows } from '../store/store.ts';
import type { RequestRecord } from '../telemetry/record.ts';
import { type CallerOptions, type CallResult, createCallStore, toCall } from './call.ts';
import { createDelayedRefusals } from './delayed-refusals.ts';
import type { AcceptedKeys } from './keys.ts';
import { toLink } from './links.ts';
import { localizeErrors } from './localize.ts';
import { toLocation } from './location.ts';
import { describeLargeAnswer } from './messages.ts';
import type { ApiRequest, HttpRequest } from './request.ts';
import type { Usage } from './usage.ts';
import { receive } from './validate.ts';

/** The store, the limits and the observers of a handler. */
export type HandlerOptions = CallerOptions & {
  /** The maximum size of a store's answer, in bytes. */
  readonly answerLimit: number;
  /** How many refusals per network, and per key over its limits, and minute are answered without delay; 0 delays none. */
  readonly refusalsPerMinute: number;
  readonly acceptedKeys: AcceptedKeys;
  /** Undefined if the document names no function that records usage. */
  readonly usage?: Usage | undefined;
  /** Receives every fault. Its cause is only for the log. */
  readonly onFault: (fault: Fault, record: RequestRecord) => void;
};

/** How a request ended. */
export type Outcome = Success | { readonly failure: Failure };

/** A successful answer: its JSON text, which is empty for no content, status and additional headers. */
export type Success = {
  readonly status: number;
  readonly json: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** The header with the key that the answer is for, if its client may keep a copy; undefined if nobody may. */
  readonly keyHeader?: string | undefined;
};

/** Handles one request; never throws. */
export type Handler = (request: HttpRequest) => Promise<Outcome>;

/** Creates the handler of a document's operations. */
export function createHandler(document: CompiledDocument, options: HandlerOptions): Handler {
  const { answerLimit, acceptedKeys, usage, onFault } = options;
  const callStore = createCallStore(options);
  const refusals = createDelayedRefusals(options.refusalsPerMinute);
  const slowed = createDelayedRefusals(options.refusalsPerMinute);

  async function handle(http: HttpRequest): Promise<Outcome> {
    const received = await receive(document, http, usage && ((key) => usage.admit(key, http.record)));
    if ('failure' in received) return received;
    const { operation, request, key } = received;
    const isAccepted = acceptedKeys.has(key);
    const permit = isAccepted ? undefined : refusals.takePermit(http.network);
    if (!isAccepted && !permit) return { failure: { kind: 'tooManyRefusals' } };
    const share = isAccepted ? key : `address ${http.network}`;
    const call = toCall(operation, request);
    let result: CallResult;
    try {
      result = await callStore(call, { record: http.record, controller: http.controller, share, operation });
    } finally {
      permit?.free();
    }
    if ('failure' in result) {
      if (result.failure.kind === 'refusedKey') acceptedKeys.record(key, false);
      const isTooLong = result.failure.kind === 'answerTooLarge' && operation.page !== undefined;
      if (isTooLong) return { failure: toInvalidLimit(operation.page.limit.name, answerLimit) };
      return result;
    }
    if (!isAccepted) acceptedKeys.record(key, true);
    if (usage && !usage.knows(key)) await usage.learn(key, http.record);
    return toSuccess(operation, request, result);
  }

  /** Decides what the client learns about a failure, and when. */
  async function settle(failure: Failure, http: HttpRequest): Promise<Outcome> {
    if (isFault(failure)) onFault(failure, http.record);
    if (failure.kind === 'invalidInput') {
      return { failure: localizeErrors(failure, http.headers, document.translations) };
    }
    const { signal } = http.controller;
    // A client that does not slow down by itself would cost others processor time. Where too many are delayed, it has its answer.
    if (failure.kind === 'tooManyRequests') await slowed.holdBack(http.record.key ?? '', signal);
    if (failure.kind !== 'refusedKey') return { failure };
    const isDelayed = await refusals.holdBack(http.network, signal);
    return { failure: isDelayed ? failure : { kind: 'tooManyRefusals' } };
  }

  return async (http) => {
    try {
      const outcome = await handle(http);
      return 'failure' in outcome ? await settle(outcome.failure, http) : outcome;
    } catch (error) {
      return settle(error instanceof RequestFailed ? error.failure : { kind: 'internal', cause: error }, http);
    }
  };
}

/** A list's answer is too large: the client can request a smaller page. */
function toInvalidLimit(name: string, answerLimit: number): Failure {
  return { kind: 'invalidInput', fields: { [name]: [describeLargeAnswer(answerLimit)] } };
}

function toSuccess(operation: Operation, request: ApiRequest, rows: Rows): Outcome {
  const link = toLink(operation, request, rows);
  const location = toLocation(operation, request, rows.json);
  return {
    status: operation.status,
    json: rows.json,
    headers: { ...(link ? { Link: link } : {}), ...(location ? { Location: location } : {}) },
    keyHeader: operation.source.method === 'get' ? operation.key.header : undefined,
  };
}
