// Reads the document's examples as requests to send, with their expected answers.

import type { OpenAPIV3 } from 'openapi-types';
import type { Json, JsonObject } from '../store/store.ts';
import { type DocumentOperation, type DocumentParameter, listSources } from './operations.ts';
import { follow } from './pointer.ts';
import { METHODS, writePath, writeValue } from './url.ts';

/** The request of an example. */
export type ExampleRequest = {
  readonly method: string;
  /** Path and query, relative to the document's server. */
  readonly target: string;
  /** The header parameters, and the API key unless the example omits it. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string;
};

/** State outside of the request that the answer depends on. */
type State = {
  readonly store?: 'unavailable' | 'demo' | undefined;
  readonly rateLimit?: 'reached' | undefined;
  /** `stalled`: the client starts the request and never completes it. */
  readonly connection?: 'stalled' | undefined;
};

/** A named example of an operation's response. */
export type Example = State & {
  readonly operationId: string;
  readonly name: string;
  readonly status: number;
  readonly request: ExampleRequest;
  /** The body of the answer. */
  readonly value: unknown;
  /** Body fields that the server generates: their values differ each time. */
  readonly generated: readonly string[];
  /** The example of the same operation whose request must be sent first. */
  readonly after?: string | undefined;
  /** Whether the document says which request leads to it: it is a success, has an `x-request`, or a request's example has its name. */
  readonly isCaused: boolean;
};

/** `x-request` of a response example: how its request differs from the documented one. */
type RequestOverride = State & {
  readonly apiKey?: string | null;
  readonly header?: Readonly<Record<string, string>>;
  readonly headerOfBytes?: number;
  readonly path?: Readonly<Record<string, string>>;
  readonly query?: Readonly<Record<string, string>>;
  readonly rawQuery?: string;
  readonly body?: unknown;
  readonly rawBody?: string;
  readonly bodyOfBytes?: number;
  readonly after?: string;
};
type ResponseExample = { value?: unknown; 'x-request'?: RequestOverride; 'x-generated'?: string[] };
type Named<T> = Readonly<Record<string, T>>;

/** The name given to the `example` of a success, a body or a parameter. */
const UNNAMED = 'example';

/** Reads the response examples of all operations. An unnamed one counts only for a success, and if examples give its whole request. */
export function readExamples(document: OpenAPIV3.Document): Example[] {
  return listSources(document).flatMap(({ read }) => {
    const operation = read();
    return readOperationExamples(operation, findKeyScheme(document, operation.security));
  });
}

/** The expected body of an example: fields that the server generates have the values of the actual `body`. */
export function expectedBody({ value, generated }: Example, body: unknown): Json {
  if (generated.length === 0) return value as Json;
  const own = Object.entries(Object(body)).filter(([name]) => generated.includes(name));
  return { ...(value as JsonObject), ...Object.fromEntries(own as [string, Json][]) };
}

function readOperationExamples(operation: DocumentOperation, scheme: KeyScheme | undefined): Example[] {
  const { operationId = '', path, parameters, requestBody, responses } = operation;
  const hasRequest = hasRequestExamples(operation);
  const all = Object.entries(responses).map(([status, { content }]) => {
    return { status, content, examples: examplesOf<ResponseExample>(content, hasRequest && status.startsWith('2')) };
  });
  // A success without content has no example of its own. Its request is the one whose name no response has.
  const named = new Set(all.flatMap(({ examples }) => Object.keys(examples)));
  const requests = [...parameters.map(({ examples = {} }) => examples), examplesOf(requestBody?.content)];
  const isPlain = !requestBody && !path.includes('{');
  const known = new Set(requests.flatMap(Object.keys));
  const rest = [...known].find((name) => !named.has(name)) ?? (isPlain ? 'empty' : undefined);
  const withoutContent: Named<ResponseExample> = rest === undefined ? {} : { [rest]: { value: '' } };
  return all.flatMap(({ status, content, examples }) =>
    Object.entries(content || !status.startsWith('2') ? examples : withoutContent).map(([name, example]) => {
      const override = example['x-request'] ?? {};
      const { store, rateLimit, connection, after } = override;
      return {
        ...{ operationId, name, status: Number(status), request: readRequest(operation, name, override, scheme) },
        ...{ value: example.value, generated: example['x-generated'] ?? [], store, rateLimit, connection, after },
        isCaused: status.startsWith('2') || example['x-request'] !== undefined || known.has(name),
      };
    }),
  );
}

/** Whether there are examples of every required part of a request, so that an unnamed example of a success is its answer. */
function hasRequestExamples({ parameters, requestBody }: DocumentOperation): boolean {
  const isComplete = parameters.every((one) => !one.required || exampleOf(one, UNNAMED) !== undefined);
  return isComplete && (!requestBody?.required || Object.keys(examplesOf(requestBody.content)).length > 0);
}

/** Builds the request of a response example from the request examples of its name. The override's parts replace theirs. */
function readRequest(
  { method, path, parameters, requestBody }: DocumentOperation,
  name: string,
  override: RequestOverride,
  scheme: KeyScheme | undefined,
): ExampleRequest {
  /** The names and texts of the parameters in a place. An array that explodes has several. */
  const write = (place: string, others: Named<Json> = {}): [string, string][] => {
    const declared = parameters.filter((parameter) => parameter.in === place);
    const values = { ...Object.fromEntries(declared.map((one) => [one.name, exampleOf(one, name)])), ...others };
    return Object.entries(values).flatMap(([own, value]) => {
      const styled = { ...declared.find((parameter) => parameter.name === own), in: place };
      return value === undefined ? [] : writeValue(styled, value).map((text): [string, string] => [own, text]);
    });
  };
  const pairs = write('query', override.query).map(([own, text]) => `${encodeURIComponent(own)}=${text}`);
  const query = override.rawQuery ?? (pairs.length > 0 ? pairs.join('&') : undefined);
  const key = override.apiKey === undefined ? scheme?.['x-example'] : override.apiKey;
  return {
    method: method.toUpperCase(),
    target: writePath(path, new Map(write('path', override.path))) + (query === undefined ? '' : `?${query}`),
    headers: {
      ...(scheme && typeof key === 'string' ? { [scheme.name]: key } : {}),
      ...Object.fromEntries(write('header')),
      ...override.header,
      ...(override.headerOfBytes ? { 'X-Filler': '0'.repeat(override.headerOfBytes) } : {}),
    },
    ...(requestBody ? readBody(requestBody, name, override) : {}),
  };
}

/**
 * The value of a parameter's example of this name. A required parameter without it takes its first example, so that the request
 * is wrong only in what the response example is about.
 */
function exampleOf({ required, schema, examples = {}, ...parameter }: DocumentParameter, name: string) {
  const { example = schema?.example } = parameter;
  const named = examples as Named<{ readonly value?: Json }>;
  const [first] = required ? Object.values(named) : [];
  return (named[name] ?? first)?.value ?? (required ? (example as Json | undefined) : undefined);
}

/** Uses the body's example of this name, or else its first one, as exampleOf does. An optional body without examples is not sent. */
function readBody(
  { content, required }: OpenAPIV3.RequestBodyObject,
  name: string,
  override: RequestOverride,
): { body?: string } {
  if (override.rawBody !== undefined) return { body: override.rawBody };
  if (override.bodyOfBytes !== undefined) return { body: ' '.repeat(override.bodyOfBytes) };
  const examples = examplesOf<{ value?: unknown }>(content);
  const example = examples[name] ?? Object.values(examples)[0];
  if (!('body' in override) && !example && !required) return {};
  return { body: JSON.stringify('body' in override ? override.body : example ? example.value : {}) };
}

/** The API key's scheme. `x-example` is a demo key with all permissions; `x-unknown-example` is no valid key. */
type KeyScheme = OpenAPIV3.ApiKeySecurityScheme & { 'x-example'?: string; 'x-unknown-example'?: string };

type Security = readonly OpenAPIV3.SecurityRequirementObject[];

/** Finds the scheme of the API key that an operation requires, by default that of the document or of its first operation. */
export function findKeyScheme(document: OpenAPIV3.Document, security?: Security): KeyScheme | undefined {
  const name = findKeyName(document, security);
  return name === undefined ? undefined : (schemeOf(document, name) as KeyScheme);
}

/** Finds the name of the API key's scheme, as findKeyScheme does. */
export function findKeyName(document: OpenAPIV3.Document, security?: Security): string | undefined {
  const items = Object.values(document.paths ?? {});
  const own = items.flatMap((item) => METHODS.flatMap((method) => item?.[method]?.security ?? []));
  const names = (security ?? [...(document.security ?? []), ...own]).flatMap(Object.keys);
  return names.find((name) => schemeOf(document, name)?.type === 'apiKey');
}

function schemeOf(document: OpenAPIV3.Document, name: string): OpenAPIV3.SecuritySchemeObject | undefined {
  return follow(document, document.components?.securitySchemes?.[name]);
}

/** The examples of a content by name; an `example` has the name UNNAMED. */
export function examplesOf<T extends { value?: unknown }>(
  content: Named<OpenAPIV3.MediaTypeObject> | undefined,
  takesUnnamed = true,
): Named<T> {
  const { schema = {}, examples, ...media } = content?.['application/json'] ?? {};
  const { example = (schema as OpenAPIV3.SchemaObject).example } = media;
  const unnamed = takesUnnamed && example !== undefined ? { [UNNAMED]: { value: example } } : {};
  return (examples ?? unnamed) as Named<T>;
}
