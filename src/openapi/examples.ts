// Reads the document's examples as requests to send, with their expected answers.

import type { OpenAPIV3 } from 'openapi-types';
import type { Json } from '../store/store.ts';
import { METHODS } from './path.ts';
import { readPointer } from './pointer.ts';
import { writeValue } from './styles.ts';

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
  readonly path?: Readonly<Record<string, Json>>;
  readonly query?: Readonly<Record<string, Json>>;
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
  const parameters = (operation.parameters ?? []).map((source) => resolveParameter(document, source));
  const all = Object.entries(operation.responses).map(([status, source]) => {
    const { content } = resolve(document, source);
    return { status, content, examples: examplesOf<ResponseExample>(content) };
  });
  // A success without content has no example of its own: its request is the one that no other response has.
  const named = new Set(all.flatMap(({ examples }) => Object.keys(examples)));
  const isPlain = !operation.requestBody && !path.includes('{');
  const rest =
    readRequestNames(document, operation, parameters).find((name) => !named.has(name)) ??
    (isPlain ? 'empty' : undefined);
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
          target: toPath(parameters, path, name, override) + toQuery(parameters, name, override),
          headers: toHeaders(document, parameters, name, override),
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
function readRequestNames(
  document: OpenAPIV3.Document,
  { requestBody }: OpenAPIV3.OperationObject,
  parameters: Parameters,
): string[] {
  const body = requestBody ? examplesOf(resolve(document, requestBody).content) : {};
  return [...parameters.map(({ examples = {} }) => examples), body].flatMap((examples) => Object.keys(examples));
}

type Parameters = readonly OpenAPIV3.ParameterObject[];

/**
 * Fills in the parameters of the path: with the override's values, or else the parameters' examples of the same name, or else
 * their first ones, so that nothing is wrong except what the response example is about.
 */
function toPath(parameters: Parameters, path: string, name: string, override: RequestOverride): string {
  const first = parameters
    .filter((parameter) => parameter.in === 'path')
    .map(({ name, example, examples }) => [
      name,
      Object.values(examples as Named<OpenAPIV3.ExampleObject>)[0]?.value ?? example,
    ]);
  const values = { ...Object.fromEntries(first), ...readValues(parameters, 'path', name), ...override.path };
  const texts = new Map(writeValues(parameters, 'path', values));
  return path.replace(/\{([^}]+)\}/g, (whole, parameter) => texts.get(parameter) ?? whole);
}

/** Uses the parameters' examples of the same name, unless the override replaces the query. */
function toQuery(parameters: Parameters, name: string, override: RequestOverride): string {
  if (override.rawQuery !== undefined) return `?${override.rawQuery}`;
  const values = { ...override.query, ...readValues(parameters, 'query', name) };
  const pairs = writeValues(parameters, 'query', values).map(([name, text]) => `${encodeURIComponent(name)}=${text}`);
  return pairs.length > 0 ? `?${pairs.join('&')}` : '';
}

function toHeaders(
  document: OpenAPIV3.Document,
  parameters: Parameters,
  name: string,
  override: RequestOverride,
): Record<string, string> {
  const scheme = findKeyScheme(document);
  const key = override.apiKey === undefined ? scheme?.['x-example'] : override.apiKey;
  return {
    ...(scheme && typeof key === 'string' ? { [scheme.name]: key } : {}),
    ...Object.fromEntries(writeValues(parameters, 'header', readValues(parameters, 'header', name))),
    ...override.header,
    ...(override.headerOfBytes ? { 'X-Filler': '0'.repeat(override.headerOfBytes) } : {}),
  };
}

/** The values that the parameters' examples of a name have. */
function readValues(parameters: Parameters, place: string, name: string): Named<Json> {
  const own = parameters.flatMap((parameter) => {
    const example = parameter.in === place ? (parameter.examples?.[name] as OpenAPIV3.ExampleObject) : undefined;
    return example ? [[parameter.name, example.value]] : [];
  });
  return Object.fromEntries(own);
}

/** Names and texts as the styles of the parameters write the values, several of an array that explodes. */
function writeValues(parameters: Parameters, place: string, values: Named<Json | undefined>): [string, string][] {
  return Object.entries(values).flatMap(([name, value]) => {
    const declared = parameters.find((parameter) => parameter.in === place && parameter.name === name);
    const texts = value === undefined ? [] : writeValue({ ...declared, in: place }, value);
    return texts.map((text): [string, string] => [name, text]);
  });
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

/** A parameter whose examples are no references either. */
function resolveParameter(
  document: OpenAPIV3.Document,
  source: OpenAPIV3.ParameterObject | OpenAPIV3.ReferenceObject,
): OpenAPIV3.ParameterObject {
  const parameter = resolve(document, source);
  const examples = Object.entries(parameter.examples ?? {}).map(([name, example]) => [
    name,
    resolve(document, example),
  ]);
  return { ...parameter, examples: Object.fromEntries(examples) };
}

/** Resolves a reference within the document; returns any other value unchanged. */
function resolve<T extends object>(document: OpenAPIV3.Document, value: T | OpenAPIV3.ReferenceObject): T {
  if (!('$ref' in value)) return value;
  return readPointer(value.$ref).reduce<unknown>((node, name) => (node as Named<unknown>)[name], document) as T;
}
