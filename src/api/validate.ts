// Validates a request against its operation, and creates the error messages. Runs in browsers too, in the client's handlers
// for msw.

import type { ErrorObject } from 'ajv';
import type { Failure, FieldErrors, InvalidInput } from '../errors.ts';
import type { CompiledDocument } from '../openapi/compile.ts';
import { unescapePointer } from '../openapi/document.ts';
import type { Input, Operation } from '../openapi/operations.ts';
import type { Translations } from '../openapi/translations.ts';
import { describeManyErrors, MAX_ERRORS, MAX_INPUTS, messages, toPortuguese } from './messages.ts';
import { type ApiRequest, convertInputs, type HttpRequest, type Problems, readRequest, takeBody } from './request.ts';

/** A valid request, its operation and its API key. */
export type Received = { readonly operation: Operation; readonly request: ApiRequest; readonly key: string };

/** What `receive` needs of a document. */
export type Routes = Pick<CompiledDocument, 'match' | 'validators' | 'translations'>;

/** What `receive` needs of a request; it sets the record's operation and route. */
export type Incoming = Pick<HttpRequest, 'method' | 'url' | 'headers' | 'problems' | 'readBody'> & {
  readonly record: { operation?: string; route?: string };
};

/** Reads and validates a request, without verifying its key. Throws RequestFailed for a request that cannot be read. */
export async function receive(document: Routes, http: Incoming): Promise<Received | { readonly failure: Failure }> {
  const request = readRequest(http);
  const operation = document.match(request.method, request.path);
  http.record.operation = operation.id;
  http.record.route = operation.route;
  convertInputs(request, operation);
  const key = String(request.headers[operation.key.header] ?? '');
  // Checks the key before reading the body.
  if (key === '') return { failure: { kind: 'missingKey', header: operation.key.name } };
  if (operation.hasBody) takeBody(request, await http.readBody());
  const invalid = validate(document, operation, request);
  return invalid ? { failure: invalid } : { operation, request, key };
}

/** Returns all errors in a request's inputs and body; undefined if it is valid. */
function validate(
  { validators, translations }: Routes,
  { id, inputs }: Operation,
  request: ApiRequest,
): InvalidInput | undefined {
  const { params, query, headers, cookies, requestBody, problems } = request;
  if (Object.keys(query).length > MAX_INPUTS) {
    return { kind: 'invalidInput', fields: { query: [messages.hasTooManyParameters.en] } };
  }
  const parts = { path: params, query, header: headers, cookie: cookies, requestBody };
  const errors = (validators.get(id) ?? []).flatMap((isValid) => (isValid(parts) ? [] : (isValid.errors ?? [])));
  if (errors.length === 0 && problems.size === 0) return undefined;
  const fields = toFieldErrors(errors, problems, inputs);
  return { kind: 'invalidInput', fields, compose: () => translateErrors(errors, translations) };
}

/** Groups the messages by parameter or field, with the document's names. Problems of a field replace its Ajv errors. */
export function toFieldErrors(
  errors: readonly ErrorObject[],
  problems: Problems,
  inputs: readonly Input[],
): FieldErrors {
  const result = new Map<string, string[]>(problems);
  const listed = errors.slice(0, MAX_ERRORS);
  const malformed = new Set(listed.filter(({ keyword }) => keyword === 'format').map((error) => error.instancePath));
  for (const error of listed) {
    // A date or a UUID has a fixed length, so the format's message is enough.
    if (error.keyword === 'maxLength' && malformed.has(error.instancePath)) continue;
    const [source, name, message] = toFieldError(error);
    // openapi-backend validates headers by lower-case names.
    const header =
      source === 'header' && inputs.find((input) => input.in === 'header' && input.name.toLowerCase() === name);
    const field = header ? header.name : name;
    if (problems.has(field)) continue;
    const earlier = result.get(field);
    if (earlier) earlier.push(message);
    else result.set(field, [message]);
  }
  if (errors.length > MAX_ERRORS) {
    result.set('body', [...(result.get('body') ?? []), describeManyErrors(errors.length).en]);
  }
  return Object.fromEntries(result);
}

/** Maps the English messages of errors to Portuguese; omits messages without a translation. */
export function translateErrors(errors: readonly ErrorObject[], translations: Translations): Map<string, string> {
  const texts = errors.slice(0, MAX_ERRORS).map((error) => {
    const [, , english] = toFieldError(error);
    const [, , portuguese] = toFieldError(translateOwn(toPortuguese(error), translations));
    return [english, portuguese] as const;
  });
  const many = describeManyErrors(errors.length);
  texts.push([many.en, many['pt-BR']]);
  return new Map(texts.filter(([english, portuguese]) => english !== portuguese));
}

/** Translates the document's own message for a pattern or a format. */
function translateOwn(error: ErrorObject, translations: Translations): ErrorObject {
  const name = `x-${error.keyword}-message`;
  const text = error.parentSchema?.[name];
  return { ...error, parentSchema: { ...error.parentSchema, [name]: translations.get(text) ?? text } };
}

/**
 * `/query/limit` → query, limit. For a missing or undeclared field the name is in the error's params, not in its path.
 */
function toFieldError(error: ErrorObject): [source: string, name: string, message: string] {
  const [, source = '', field, ...rest] = error.instancePath.split('/').map(unescapePointer);
  const place = rest.length > 0 ? `/${rest.join('/')} ` : '';
  if (field !== undefined) return [source, field, place + toMessage(error)];
  const name = error.params.missingProperty ?? error.params.additionalProperty ?? 'body';
  if (error.keyword === 'required') return [source, name, messages.isRequired.en];
  if (error.keyword !== 'additionalProperties') return [source, name, toMessage(error)];
  return [source, name, (source === 'requestBody' ? messages.isNoField : messages.isNoParameter).en];
}

function toMessage(error: ErrorObject): string {
  const message = error.message ?? 'is invalid';
  if (error.keyword === 'enum') return `${message}: ${error.params.allowedValues.join(', ')}`;
  return error.parentSchema?.[`x-${error.keyword}-message`] ?? message;
}
