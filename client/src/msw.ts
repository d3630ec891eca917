// Handlers for msw that answer as the gateway does, from the document's examples. The gateway's own code routes and validates
// the requests, and makes the messages and links.

import { type HttpHandler, http } from 'msw';
import { toLink } from '../../src/api/answer.ts';
import { toCall } from '../../src/api/call.ts';
import { localizeErrors } from '../../src/api/messages.ts';
import type { ApiRequest } from '../../src/api/request.ts';
import { type Received, type Routes, receive } from '../../src/api/validate.ts';
import { type Failure, RequestFailed, toHttpError } from '../../src/errors.ts';
import type { Operation } from '../../src/openapi/operations.ts';
import { createMatch, normalizePath } from '../../src/openapi/url.ts';
import type { Json } from '../../src/store/store.ts';
import { document, type MockAnswer } from './mock-document.js';
import type { operations } from './openapi.ts';

/** The operationId of an operation of the document. */
export type OperationId = keyof operations;

/** A status that the document declares for an operation. */
export type StatusOf<Id extends OperationId> = keyof operations[Id]['responses'] & number;

export type HandlersOptions = {
  /** The base URL of the operations' paths, the same as the client's. */
  readonly baseUrl: string;
};

export type RespondOptions = {
  /** The name of one of the status's examples in the document; by default its first. */
  readonly example?: string;
  /** Whether only the first request gets the answer. */
  readonly once?: boolean;
};

/** The handlers of all operations, for `setupServer` and `setupWorker`. */
export type Handlers = readonly HttpHandler[] & {
  /**
   * Creates a handler for `use` that answers every request of an operation with an example of this status, whatever the
   * request. Throws RangeError if the document has no such example.
   */
  respond<Id extends OperationId>(operation: Id, status: StatusOf<Id>, options?: RespondOptions): HttpHandler;
};

/** Creates handlers that validate a request as the gateway does, and answer it with the document's example. */
export function createHandlers({ baseUrl }: HandlersOptions): Handlers {
  // In a browser it may be relative to the page.
  const base = new Request(baseUrl).url.replace(/\/$/, '');
  const urls = new RegExp(`^${base.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')}(?=/|$)`);
  const targetOf = ({ url }: Request) => document.apiRoot + url.slice(base.length).replace(/#.*/s, '');

  const answerAll = http.all(urls, ({ request }) => answer(request, targetOf(request)));

  function respond(id: string, status: number, { example, once = false }: RespondOptions = {}): HttpHandler {
    // `choose` leaves out the same headers. With the example's link, a client would read pages without end.
    const { value, headers: all } = findAnswer(id, status, example);
    const { Link: _link, ETag: _tag, ...headers } = all;
    let isUsed = false;
    return http.all(urls, ({ request }) => {
      if ((once && isUsed) || findId(request, targetOf(request)) !== id) return undefined;
      isUsed = true;
      return toResponse(request, { status, headers }, value);
    });
  }

  return Object.assign([answerAll], { respond });
}

const byId = new Map(document.operations.map((operation) => [operation.id, operation]));
const routes: Routes = {
  match: createMatch(byId, document.apiRoot),
  validators: new Map(Object.entries(document.validators)),
  translations: new Map(document.translations),
};

function findAnswer(id: string, status: number, name: string | undefined): MockAnswer {
  const operation = byId.get(id);
  if (!operation) throw new RangeError(`${id} is no operation of the document: it has ${[...byId.keys()].join(', ')}`);
  const answers = operation.answers.filter((answer) => answer.status === status);
  if (!operation.statuses.includes(String(status))) {
    const declared = operation.statuses.join(', ');
    throw new RangeError(`${id} does not declare the status ${status}: it declares ${declared}`);
  }
  const found = answers.find((answer) => name === undefined || answer.name === name);
  if (found) return found;
  const names = answers.flatMap((answer) => answer.name ?? []).join(', ');
  throw new RangeError(
    `${id} ${status} has no example${name === undefined ? '' : ` ${name}: it has ${names || 'none'}`}`,
  );
}

/** The operation of a request; undefined for an unknown path or method. */
function findId({ method }: Request, target: string): string | undefined {
  try {
    return routes.match(method.toLowerCase(), normalizePath(target.replace(/\?.*/s, ''))).id;
  } catch {
    return undefined;
  }
}

async function answer(request: Request, target: string): Promise<Response> {
  const { method, headers } = request;
  const readBody = async () => new Uint8Array(await request.arrayBuffer());
  const incoming = { method, url: target, headers: Object.fromEntries(headers), readBody };
  const received = await receive(routes, incoming).catch(toFailed);
  const chosen = 'failure' in received ? received : choose(received);
  if (!('failure' in chosen)) return toResponse(request, chosen, chosen.value);
  const { failure } = chosen;
  const isInvalid = failure.kind === 'invalidInput';
  const localized = isInvalid ? localizeErrors(failure, incoming.headers, routes.translations) : failure;
  const { status, error, headers: own } = toHttpError(localized);
  const declared = byId.get(findId(request, target) ?? '')?.answers.find((answer) => answer.status === status);
  return toResponse(request, { status, headers: { ...declared?.headers, ...own } }, { error });
}

function toFailed(error: unknown): { readonly failure: Failure } {
  if (error instanceof RequestFailed) return { failure: error.failure };
  throw error;
}

/** The answer to a valid request: the example with its key or its arguments, or else the first example of success. */
function choose({ operation, request, key }: Received): MockAnswer | { readonly failure: Failure } {
  const { answers = [] } = byId.get(operation.id) ?? {};
  const { [operation.key.argument]: _key, ...args } = toCall(operation, request).args;
  const call = JSON.stringify(args);
  const caused =
    answers.find(({ cause }) => cause && 'key' in cause && cause.key === key) ??
    answers.find(({ cause }) => cause && 'args' in cause && JSON.stringify(cause.args) === call);
  if (caused && caused.status !== operation.status) return { failure: toRefusal(caused) };
  const found = caused ?? answers.find(({ status }) => status === operation.status);
  if (!found) throw new Error(`${operation.id} ${operation.status} has no example in the document`);
  // The example's Link and ETag would be the same for every body.
  const { Link: _link, ETag: _tag, ...headers } = found.headers;
  if (!Array.isArray(found.value)) return { ...found, headers };
  const value = caused ? found.value : takePage(found.value, operation, request);
  const link = toLink(operation, request, { json: JSON.stringify(value), count: value.length });
  return { ...found, value, headers: { ...headers, ...(link ? { Link: link } : {}) } };
}

/** The failure that a store would have returned. */
function toRefusal({ status, value }: MockAnswer): Failure {
  const { error } = value as { error: never };
  if (status === 422) return { kind: 'invalidInput', fields: error };
  return status === 401
    ? { kind: 'refusedKey', text: error }
    : { kind: 'raised', status, text: error, error: undefined };
}

/** The requested page, as if the records were the whole list: otherwise a client would read pages without end. */
function takePage(records: readonly Json[], { page }: Operation, { query }: ApiRequest): readonly Json[] {
  if (!page) return records;
  const limit = Number(query[page.limit.name] ?? page.limit.default);
  const offset = Number(query[page.offset.name] ?? page.offset.default);
  const after = page.after && query[page.after.name];
  if (after === undefined) return records.slice(offset, offset + limit);
  const before = records.findIndex((record) => (record as { id?: Json }).id === after);
  return before === -1 ? [] : records.slice(before + 1, before + 1 + limit);
}

function toResponse(
  request: Request,
  { status, headers }: Pick<MockAnswer, 'status' | 'headers'>,
  value?: Json,
): Response {
  const body = value === undefined || request.method === 'HEAD' ? null : JSON.stringify(value);
  const type = value === undefined ? {} : { 'Content-Type': 'application/json; charset=utf-8' };
  const id = request.headers.get('X-Request-Id') ?? crypto.randomUUID();
  return new Response(body, { status, headers: { ...type, ...headers, 'X-Request-Id': id } });
}
