// Validates a request against its operation, and creates the error messages. Runs in browsers too, in the client's handlers
// for msw.

import type { IncomingHttpHeaders } from 'node:http';
import type { ErrorObject } from 'ajv';
import { type Failure, type FieldErrors, type InvalidInput, type Message, RequestFailed } from '../errors.ts';
import type { CompiledDocument } from '../openapi/compile.ts';
import type { Input, Operation } from '../openapi/operations.ts';
import { unescapePointer } from '../openapi/pointer.ts';
import type { RequestRecord } from '../telemetry/record.ts';
import { describeError, describeManyErrors, MAX_ERRORS, MAX_INPUTS, MAX_NAMES, messages } from './messages.ts';
import { type ApiRequest, convertInputs, type HttpRequest, type Problems, readRequest, takeBody } from './request.ts';
import { takeArguments } from './tool-call.ts';

/** A valid request, its operation and its API key. */
export type Received = { readonly operation: Operation; readonly request: ApiRequest; readonly key: string };

/** What `receive` needs of a document. */
export type Routes = Pick<CompiledDocument, 'match' | 'validators' | 'translations'>;

/** What `receive` needs of a request; it sets the record's operation, route and key. */
export type Incoming = Pick<HttpRequest, 'method' | 'url' | 'headers' | 'toolCall' | 'readBody'> & {
  readonly record: { operation?: string; route?: string; key?: string };
};

/** Records the operation and the key of a request that is not received, if it has one. */
export function identify({ match }: Pick<Routes, 'match'>, record: RequestRecord): void {
  try {
    const { method, path } = readRequest(record);
    const operation = match(method, path);
    Object.assign(record, { operation: operation.id, route: operation.route, key: readKey(record, operation) });
  } catch (error) {
    if (!(error instanceof RequestFailed)) throw error;
  }
}

/**
 * Reads and validates a request, without verifying its key; before its body is read, `admit` may refuse it. Throws RequestFailed
 * for a request that cannot be read.
 */
export async function receive(
  document: Routes,
  http: Incoming,
  admit?: (key: string) => Promise<Failure | undefined> | undefined,
): Promise<Received | { readonly failure: Failure }> {
  const { toolCall } = http;
  // Of the parts of HTTP a tool call has the headers, to which its arguments are added.
  const request = readRequest(toolCall ? { method: '', url: '', headers: { ...http.headers } } : http);
  const operation = toolCall?.operation ?? document.match(request.method, request.path);
  http.record.operation = operation.id;
  http.record.route = operation.route;
  convertInputs(request, operation);
  const key = readKey(request, operation);
  http.record.key = key;
  // Checks the key before reading the body.
  if (key === '') return { failure: { kind: 'missingKey', header: operation.key.name } };
  // Undefined for a key without limits: to wait for a promise would take a turn of the event loop.
  const admission = admit?.(key);
  const refused = admission && (await admission);
  if (refused) return { failure: refused };
  if (toolCall) takeArguments(request, toolCall);
  else if (operation.body) takeBody(request, operation.body, await http.readBody());
  const invalid = validate(document, operation, request);
  return invalid ? { failure: invalid } : { operation, request, key };
}

function readKey(
  { headers }: { readonly headers: IncomingHttpHeaders | ApiRequest['headers'] },
  { key }: Operation,
): string {
  return String(headers[key.header] ?? '');
}

/** Returns all errors in a request's inputs and body; undefined if it is valid. */
function validate(
  { validators }: Routes,
  { id, inputs, page }: Operation,
  request: ApiRequest,
): InvalidInput | undefined {
  const { params, query, headers, cookies, requestBody, problems } = request;
  if (Object.keys(query).length > MAX_INPUTS) {
    return { kind: 'invalidInput', fields: { query: [messages.hasTooManyParameters] } };
  }
  if (page?.after && query[page.after.name] !== undefined && query[page.offset.name] !== undefined) {
    problems.set(page.after.name, [messages.isWithOffset]);
  }
  const parts = { path: params, query, header: headers, cookie: cookies, requestBody };
  const errors = (validators.get(id) ?? []).flatMap((isValid) => (isValid(parts) ? [] : (isValid.errors ?? [])));
  if (errors.length === 0 && problems.size === 0) return undefined;
  return { kind: 'invalidInput', fields: toFieldErrors(errors, problems, inputs) };
}

/** Groups the messages by parameter or field, with the document's names. Problems of a field replace its Ajv errors. */
export function toFieldErrors(
  errors: readonly ErrorObject[],
  problems: Problems,
  inputs: readonly Input[],
): FieldErrors {
  const result = new Map<string, Message[]>(problems);
  const listed = errors.slice(0, MAX_ERRORS);
  const malformed = new Set(listed.filter(({ keyword }) => keyword === 'format').map((error) => error.instancePath));
  for (const error of listed) {
    if (result.size >= MAX_NAMES) break;
    // A date or a UUID has a fixed length, so the format's message is enough.
    if (error.keyword === 'maxLength' && malformed.has(error.instancePath)) continue;
    const { source, path, message } = toFieldError(error);
    const [name = 'body', ...rest] = path;
    // openapi-backend validates headers by lower-case names.
    const header =
      source === 'header' && inputs.find((input) => input.in === 'header' && input.name.toLowerCase() === name);
    const top = header ? header.name : name;
    if (problems.has(top)) continue;
    const field = [top, ...rest].join('.');
    const earlier = result.get(field);
    if (earlier) earlier.push(message);
    else result.set(field, [message]);
  }
  if (errors.length > MAX_ERRORS || result.size >= MAX_NAMES) {
    result.set('body', [...(result.get('body') ?? []), describeManyErrors(errors.length)]);
  }
  return Object.fromEntries(result);
}

/**
 * `/requestBody/itens/0` → requestBody, itens 0. The name of a missing or undeclared field is in the error's params, not in
 * its path.
 */
function toFieldError(error: ErrorObject): { source: string; path: readonly string[]; message: Message } {
  const [, source = '', ...path]: string[] = error.instancePath.split('/').map(unescapePointer);
  const { missingProperty, additionalProperty, unevaluatedProperty } = error.params as Readonly<Record<string, string>>;
  const missing = error.keyword === 'required' ? missingProperty : undefined;
  if (missing !== undefined) return { source, path: [...path, missing], message: messages.isRequired };
  const unknown = additionalProperty ?? unevaluatedProperty;
  if (unknown === undefined) return { source, path, message: describeError(error) };
  const message = source === 'requestBody' ? messages.isNoField : messages.isNoParameter;
  return { source, path: [...path, unknown], message };
}
