// Reads the document's examples as requests to send, with their expected answers.

import type { OpenAPIV3 } from 'openapi-types';
import { METHODS } from './path.ts';
import { readPointer } from './pointer.ts';

/** The request of an example. */
export type ExampleRequest = {
  readonly method: string;
  /** Path and query, relative to the document's server. */
  readonly target: string;
  /** The header parameters, and the API key unless the example omits it. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string;
};

/** State that the answer depends on and that the request itself does not cause. */
type State = {
  readonly store?: 'unavailable' | 'demo';
  readonly rateLimit?: 'reached';
  /** `stalled`: the client starts the request and never completes it. */
  readonly connection?: 'stalled';
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
  readonly after?: string;
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

/** Reads all response examples of all operations. */
export function readExamples(document: OpenAPIV3.Document): Example[] {
  return Object.entries(document.paths).flatMap(([path, item]) =>
    METHODS.flatMap((method) => {
      const operation = item?.[method];
      if (!item || !operation) return [];
      const parameters = [...(operation.parameters ?? []), ...(item.parameters ?? [])];
      return readOperationExamples(document, path, method, { ...operation, parameters });
    }),
  );
}

function readOperationExamples(
  document: OpenAPIV3.Document,
  path: string,
  method: string,
  operation: OpenAPIV3.OperationObject,
): Example[] {
  const all = Object.entries(operation.responses).map(([status, source]) => {
    const { content } = resolve(document, source);
    return { status, content, examples: examplesOf<ResponseExample>(content) };
  });
  // A success without content has no example of its own: its request is the one that no other response has.
  const named = new Set(all.flatMap(({ examples }) => Object.keys(examples)));
  const isPlain = !operation.requestBody && !path.includes('{');
  const rest =
    readRequestNames(document, operation).find((name) => !named.has(name)) ?? (isPlain ? 'empty' : undefined);
  const withoutContent: Named<ResponseExample> = rest === undefined ? {} : { [rest]: { value: '' } };
  return all.flatMap(({ status, content, examples }) =>
    Object.entries(content || !status.startsWith('2') ? examples : withoutContent).map(([name, example]) => {
      const override = example['x-request'] ?? {};
      const { store, rateLimit, connection, after } = override;
      return {
        operationId: operation.operationId ?? '',
        name,
        status: Number(status),
        request: {
          method: method.toUpperCase(),
          target: toPath(document, operation, path, name, override) + toQuery(document, operation, name, override),
          headers: toHeaders(document, operation, name, override),
          ...toBody(document, operation, name, override),
        },
        value: example.value,
        generated: example['x-generated'] ?? [],
        ...(store ? { store } : {}),
        ...(rateLimit ? { rateLimit } : {}),
        ...(connection ? { connection } : {}),
        ...(after ? { after } : {}),
      };
    }),
  );
}

/** The names of the examples of parameters and body. */
function readRequestNames(document: OpenAPIV3.Document, operation: OpenAPIV3.OperationObject): string[] {
  const parameters = (operation.parameters ?? []).map((source) => resolve(document, source).examples ?? {});
  const body = operation.requestBody ? examplesOf(resolve(document, operation.requestBody).content) : {};
  return [...parameters, body].flatMap((examples) => Object.keys(examples));
}

/**
 * Fills in the parameters of the path: with the override's values, or else the parameters' examples of the same name, or else
 * their first ones, so that nothing is wrong except what the response example is about.
 */
function toPath(
  document: OpenAPIV3.Document,
  operation: OpenAPIV3.OperationObject,
  path: string,
  name: string,
  override: RequestOverride,
): string {
  const own = { ...readParameters(document, operation, name, 'path'), ...override.path };
  return path.replace(/\{([^}]+)\}/g, (whole, parameter) => {
    const value = own[parameter] ?? readFirst(document, operation, parameter);
    return value === undefined ? whole : encodeURIComponent(value);
  });
}

function readFirst(
  document: OpenAPIV3.Document,
  operation: OpenAPIV3.OperationObject,
  name: string,
): string | undefined {
  const parameters = (operation.parameters ?? []).map((source) => resolve(document, source));
  const { examples = {}, example } = parameters.find((one) => one.in === 'path' && one.name === name) ?? {};
  const [first] = Object.values(examples).map((source) => resolve(document, source).value);
  const value = first ?? example;
  return value === undefined ? undefined : String(value);
}

/** Uses the parameters' examples of the same name, unless the override replaces the query. */
function toQuery(
  document: OpenAPIV3.Document,
  operation: OpenAPIV3.OperationObject,
  name: string,
  override: RequestOverride,
): string {
  if (override.rawQuery !== undefined) return `?${override.rawQuery}`;
  const query = new URLSearchParams({ ...override.query, ...readParameters(document, operation, name, 'query') });
  return query.size > 0 ? `?${query}` : '';
}

function toHeaders(
  document: OpenAPIV3.Document,
  operation: OpenAPIV3.OperationObject,
  name: string,
  override: RequestOverride,
): Record<string, string> {
  const scheme = findKeyScheme(document);
  const key = override.apiKey === undefined ? scheme?.['x-example'] : override.apiKey;
  return {
    ...(scheme && typeof key === 'string' ? { [scheme.name]: key } : {}),
    ...readParameters(document, operation, name, 'header'),
    ...override.header,
    ...(override.headerOfBytes ? { 'X-Filler': '0'.repeat(override.headerOfBytes) } : {}),
  };
}

function readParameters(
  document: OpenAPIV3.Document,
  operation: OpenAPIV3.OperationObject,
  name: string,
  place: 'query' | 'header' | 'path',
): Record<string, string> {
  const entries = (operation.parameters ?? []).flatMap((source) => {
    const parameter = resolve(document, source);
    const example = parameter.in === place ? parameter.examples?.[name] : undefined;
    return example ? [[parameter.name, String(resolve(document, example).value)]] : [];
  });
  return Object.fromEntries(entries);
}

/** The API key's scheme. `x-example` is a demo key with all permissions; `x-unknown-example` is no valid key. */
export type KeyScheme = OpenAPIV3.ApiKeySecurityScheme & { 'x-example'?: string; 'x-unknown-example'?: string };

/** Finds the document's first API key scheme. */
export function findKeyScheme(document: OpenAPIV3.Document): KeyScheme | undefined {
  const schemes = Object.values(document.components?.securitySchemes ?? {});
  return schemes.map((scheme) => resolve(document, scheme)).find((scheme) => scheme.type === 'apiKey');
}

/**
 * Uses the body's example of the same name, or else the first one: then nothing is wrong except what the response
 * example is about.
 */
function toBody(
  document: OpenAPIV3.Document,
  operation: OpenAPIV3.OperationObject,
  name: string,
  override: RequestOverride,
): { body?: string } {
  if (!operation.requestBody) return {};
  if (override.rawBody !== undefined) return { body: override.rawBody };
  if (override.bodyOfBytes !== undefined) return { body: ' '.repeat(override.bodyOfBytes) };
  const examples = examplesOf<{ value?: unknown }>(resolve(document, operation.requestBody).content);
  const example = examples[name] ?? Object.values(examples)[0];
  return { body: JSON.stringify(override.body ?? example?.value ?? {}) };
}

function examplesOf<T>(content: Named<OpenAPIV3.MediaTypeObject> | undefined): Named<T> {
  return (content?.['application/json']?.examples ?? {}) as Named<T>;
}

/** Resolves a reference within the document; returns any other value unchanged. */
function resolve<T extends object>(document: OpenAPIV3.Document, value: T | OpenAPIV3.ReferenceObject): T {
  if (!('$ref' in value)) return value;
  return readPointer(value.$ref).reduce<unknown>((node, name) => (node as Named<unknown>)[name], document) as T;
}
