// Validates a request against its operation, and creates the error messages. Runs in browsers too, in the client's handlers
// for msw.

import type { ErrorObject, ValidateFunction } from 'ajv';
import { type FieldErrors, type Message, RequestFailed } from '../errors.ts';
import type { CompiledDocument } from '../openapi/compile.ts';
import type { ExampleRequest } from '../openapi/examples.ts';
import type { Input, Operation } from '../openapi/operations.ts';
import { unescapePointer } from '../openapi/pointer.ts';
import type { Json } from '../store/store.ts';
import { describeError, describeManyErrors, MAX_ERRORS, MAX_INPUTS, MAX_NAMES, messages } from './messages.ts';
import { type ApiRequest, httpReader, type Incoming, type Problems, readKey, refuse, takeKey } from './request.ts';

/** A valid request, its operation and its API key. */
export type Received = { readonly operation: Operation; readonly request: ApiRequest; readonly key: string };

/** The parts of a document that `receive` needs. */
export type Routes = Pick<CompiledDocument, 'match' | 'validators' | 'translations'>;

/** Finds the operation and key of a request that is refused before it is handled; undefined if it has no operation. */
export function identify(
  { match }: Pick<Routes, 'match'>,
  arrived: Parameters<typeof httpReader.read>[0],
): Pick<Received, 'operation' | 'key'> | undefined {
  try {
    const request = httpReader.read(arrived);
    const operation = httpReader.route(match, request);
    return { operation, key: readKey(request, operation) };
  } catch (error) {
    return ignoreRefusal(error);
  }
}

/** Receives the request of an example; undefined if it is not valid. */
export function receiveExample(
  document: Routes & Pick<CompiledDocument, 'apiRoot'>,
  { method, target, headers, body = '' }: ExampleRequest,
): Promise<Received | undefined> {
  const lowerCase = Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]);
  const incoming = {
    method,
    url: document.apiRoot + target,
    headers: Object.fromEntries(lowerCase),
    readBody: async () => new TextEncoder().encode(body),
  };
  return receive(document, incoming).catch(ignoreRefusal);
}

function ignoreRefusal(error: unknown): undefined {
  if (!(error instanceof RequestFailed)) throw error;
}

/** Reads and validates a request to which no limit applies, such as that of an example. Throws RequestFailed. */
export async function receive(document: Routes, incoming: Incoming): Promise<Received> {
  const request = httpReader.read(incoming);
  const operation = httpReader.route(document.match, request);
  const key = takeKey(request, operation);
  await httpReader.takeInputs(incoming, operation, request);
  validate(document, operation, request);
  return { operation, request, key };
}

/** Throws RequestFailed with all errors in a request's inputs and body. */
export function validate(
  { validators }: Pick<Routes, 'validators'>,
  { id, inputs, page }: Operation,
  request: ApiRequest,
): void {
  const { params, query, headers, requestBody, problems } = request;
  if (Object.keys(query).length > MAX_INPUTS) refuse({ query: [messages.hasTooManyParameters] });
  if (page?.after && query[page.after.name] !== undefined && query[page.offset.name] !== undefined) {
    problems.set(page.after.name, [messages.isWithOffset]);
  }
  const parts = { path: params, query, header: headers, cookie: {}, requestBody };
  const errors = (validators.get(id) ?? []).flatMap((isValid) => findErrors(isValid, parts));
  if (errors.length > 0 || problems.size > 0) refuse(toFieldErrors(errors, problems, inputs));
}

function findErrors(
  isValid: ValidateFunction,
  parts: { readonly requestBody: Json | undefined },
): readonly ErrorObject[] {
  try {
    return isValid(parts) ? [] : (isValid.errors ?? []);
  } catch (error) {
    // The regular expression of a format or a pattern may overflow the stack on a text of several MB, which only a body can have.
    if (error instanceof RangeError && parts.requestBody !== undefined) refuse({ body: [messages.isTooLong] });
    throw error;
  }
}

/** Groups the messages by parameter or field, with the document's names. Problems of a field replace its Ajv errors. */
function toFieldErrors(errors: readonly ErrorObject[], problems: Problems, inputs: readonly Input[]): FieldErrors {
  const result = new Map<string, Message[]>(problems);
  const listed = errors.slice(0, MAX_ERRORS);
  const placesOf = (...keywords: string[]) =>
    new Set(listed.filter(({ keyword }) => keywords.includes(keyword)).map((error) => error.instancePath));
  const malformed = placesOf('format');
  const undecided = placesOf('anyOf', 'oneOf');
  for (const error of listed) {
    if (result.size >= MAX_NAMES) break;
    // A date or a UUID has a fixed length, so the format's message is enough.
    if (error.keyword === 'maxLength' && malformed.has(error.instancePath)) continue;
    // An error of `if` only says that there are other errors: those of the schema that applies, which come before it.
    if (error.keyword === 'if') {
      undecided.add(error.instancePath);
      continue;
    }
    // These fields may belong to a schema that the object does not match.
    if (error.keyword === 'unevaluatedProperties' && undecided.has(error.instancePath)) continue;
    const { source, path, message } = toFieldError(error);
    const [name = 'body', ...rest] = path;
    // openapi-backend validates headers by lower-case names.
    const header =
      source === 'header' && inputs.find((input) => input.in === 'header' && input.name.toLowerCase() === name);
    const top = header ? header.name : name;
    if (problems.has(top)) continue;
    const field = [top, ...rest].join('.');
    const earlier = result.get(field);
    // These errors only say that the field has other errors, or belongs to a schema that the object does not match.
    if (earlier && ['propertyNames', 'unevaluatedProperties'].includes(error.keyword)) continue;
    if (earlier) earlier.push(message);
    else result.set(field, [message]);
  }
  if (errors.length > MAX_ERRORS || result.size >= MAX_NAMES) {
    result.set('body', [...(result.get('body') ?? []), describeManyErrors(errors.length)]);
  }
  return Object.fromEntries(result);
}

/**
 * Splits an error's path, such as `/requestBody/itens/0`, into its source and the names in it. The name of a missing or undeclared
 * field is in the error's params, not in its path.
 */
function toFieldError(error: ErrorObject): { source: string; path: readonly string[]; message: Message } {
  const [, source = '', ...path]: string[] = error.instancePath.split('/').map(unescapePointer);
  const params = error.params as Readonly<Record<string, string>>;
  const unknown = params.additionalProperty ?? params.unevaluatedProperty;
  // `propertyNames` refuses the name of a field, not its value.
  const name = error.propertyName ?? params.propertyName ?? params.missingProperty ?? unknown;
  let message = error.keyword === 'required' ? messages.isRequired : describeError(error);
  if (unknown !== undefined) message = source === 'requestBody' ? messages.isNoField : messages.isNoParameter;
  return { source, path: name === undefined ? path : [...path, name], message };
}
