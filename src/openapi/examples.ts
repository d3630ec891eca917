// Reads the document's examples as requests to send, with their expected answers.

import type { OpenAPIV3 } from 'openapi-types';
import type { Json } from '../store/store.ts';
import { type DocumentOperation, listSources } from './operations.ts';
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

/** State that the answer depends on and that the request itself does not cause. */
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
  /** Whether the document says which request leads to it: a success, an `x-request`, or an example of the request of its name. */
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

/** The name of an `example` of a success, a body or a parameter, which has none. */
const UNNAMED = 'example';

/** Reads the named response examples of all operations, and those without a name that say which request leads to them. */
export function readExamples(document: OpenAPIV3.Document): Example[] {
  return listSources(document).flatMap((readSource) => {
    const operation = readSource();
    return readOperationExamples(operation as Operation, findKeyScheme(document, operation.security));
  });
}

type Parameter = OpenAPIV3.ParameterObject & { readonly examples?: Named<{ value?: unknown }> };

/** An operation without references. */
type Operation = Omit<DocumentOperation, 'parameters' | 'requestBody' | 'responses'> & {
  readonly parameters: readonly Parameter[];
  readonly requestBody?: OpenAPIV3.RequestBodyObject;
  readonly responses: Named<OpenAPIV3.ResponseObject>;
};

function readOperationExamples(operation: Operation, scheme: KeyScheme | undefined): Example[] {
  const { operationId = '', method, path, parameters, requestBody, responses } = operation;
  const hasRequest = saysRequest(operation);
  const all = Object.entries(responses).map(([status, { content }]) => {
    return { status, content, examples: examplesOf<ResponseExample>(content, hasRequest && status.startsWith('2')) };
  });
  // A success without content has no example of its own: its request is the one that no other response has.
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
        operationId,
        name,
        status: Number(status),
        request: {
          method: method.toUpperCase(),
          target: toPath(operation, name, override) + toQuery(operation, name, override),
          headers: toHeaders(operation, name, override, scheme),
          ...toBody(operation, name, override),
        },
        value: example.value,
        generated: example['x-generated'] ?? [],
        store,
        rateLimit,
        connection,
        after,
        isCaused: status.startsWith('2') || example['x-request'] !== undefined || known.has(name),
      };
    }),
  );
}

/** Whether there are examples of all that a request needs: then an `example` of a success answers it. */
function saysRequest({ parameters, requestBody }: Operation): boolean {
  const isComplete = parameters.every((one) => !one.required || exampleOf(one, UNNAMED) !== undefined);
  return isComplete && (!requestBody?.required || Object.keys(examplesOf(requestBody.content)).length > 0);
}

/** Fills in the parameters of the path, with the override's values first. */
function toPath(operation: Operation, name: string, override: RequestOverride): string {
  const values = { ...readValues(operation, 'path', name), ...override.path };
  return writePath(operation.path, new Map(writeValues(operation, 'path', values)));
}

/** Fills in the parameters of the query, unless the override replaces it. */
function toQuery(operation: Operation, name: string, override: RequestOverride): string {
  if (override.rawQuery !== undefined) return `?${override.rawQuery}`;
  const values = { ...readValues(operation, 'query', name), ...override.query };
  const pairs = writeValues(operation, 'query', values).map(([name, text]) => `${encodeURIComponent(name)}=${text}`);
  return pairs.length > 0 ? `?${pairs.join('&')}` : '';
}

function toHeaders(
  operation: Operation,
  name: string,
  override: RequestOverride,
  scheme: KeyScheme | undefined,
): Record<string, string> {
  const key = override.apiKey === undefined ? scheme?.['x-example'] : override.apiKey;
  return {
    ...(scheme && typeof key === 'string' ? { [scheme.name]: key } : {}),
    ...Object.fromEntries(writeValues(operation, 'header', readValues(operation, 'header', name))),
    ...override.header,
    ...(override.headerOfBytes ? { 'X-Filler': '0'.repeat(override.headerOfBytes) } : {}),
  };
}

/** Reads the values of the parameters' examples of a name. */
function readValues({ parameters }: Operation, place: string, name: string): Named<Json> {
  const own = parameters.filter((parameter) => parameter.in === place).map((one) => [one.name, exampleOf(one, name)]);
  return Object.fromEntries(own.filter(([, value]) => value !== undefined));
}

/**
 * The value of a parameter's example of a name. Without one, a required parameter has its first example, so that nothing is wrong
 * except what the response example is about.
 */
function exampleOf({ required, schema = {}, examples = {}, ...parameter }: Parameter, name: string): Json | undefined {
  const { example = (schema as OpenAPIV3.SchemaObject).example } = parameter;
  const [first] = required ? Object.values(examples) : [];
  return ((examples[name] ?? first)?.value ?? (required ? example : undefined)) as Json | undefined;
}

/** Writes values in the styles of their parameters, as names and texts. An array that explodes has several. */
function writeValues({ parameters }: Operation, place: string, values: Named<Json | undefined>): [string, string][] {
  return Object.entries(values).flatMap(([name, value]) => {
    const declared = parameters.find((parameter) => parameter.in === place && parameter.name === name);
    const texts = value === undefined ? [] : writeValue({ ...declared, in: place }, value);
    return texts.map((text): [string, string] => [name, text]);
  });
}

/** The API key's scheme. `x-example` is a demo key with all permissions; `x-unknown-example` is no valid key. */
type KeyScheme = OpenAPIV3.ApiKeySecurityScheme & { 'x-example'?: string; 'x-unknown-example'?: string };

type Security = readonly OpenAPIV3.SecurityRequirementObject[];

/** Finds the scheme of the API key that an operation requires, by default that of the document or of its first operation. */
export function findKeyScheme(document: OpenAPIV3.Document, security?: Security): KeyScheme | undefined {
  const name = findKeyName(document, security);
  return name === undefined ? undefined : (schemeOf(document, name) as KeyScheme);
}

/** The name of that scheme. */
export function findKeyName(document: OpenAPIV3.Document, security = listSecurity(document)): string | undefined {
  const names = security.flatMap(Object.keys);
  return names.find((name) => schemeOf(document, name)?.type === 'apiKey');
}

function listSecurity({ security = [], paths }: OpenAPIV3.Document): Security {
  const items = Object.values(paths ?? {});
  return [...security, ...items.flatMap((item) => METHODS.flatMap((method) => item?.[method]?.security ?? []))];
}

function schemeOf(document: OpenAPIV3.Document, name: string): OpenAPIV3.SecuritySchemeObject | undefined {
  return follow(document, document.components?.securitySchemes?.[name]);
}

/**
 * Uses the body's example of the same name, or else the first one: then nothing is wrong except what the response
 * example is about. Without any, an optional body is not sent.
 */
function toBody({ requestBody }: Operation, name: string, override: RequestOverride): { body?: string } {
  if (!requestBody) return {};
  if (override.rawBody !== undefined) return { body: override.rawBody };
  if (override.bodyOfBytes !== undefined) return { body: ' '.repeat(override.bodyOfBytes) };
  const examples = examplesOf<{ value?: unknown }>(requestBody.content);
  const example = examples[name] ?? Object.values(examples)[0];
  if (!('body' in override) && !example && !requestBody.required) return {};
  return { body: JSON.stringify('body' in override ? override.body : example ? example.value : {}) };
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
