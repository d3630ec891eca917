// The Model Context Protocol (streamable HTTP, stateless): one tool for each operation. Loaded only if configured.

import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import { posix } from 'node:path';
import {
  type CallToolResult,
  ProtocolError,
  ProtocolErrorCode,
  Server,
  type Tool,
  WebStandardStreamableHTTPServerTransport,
} from '@modelcontextprotocol/server';
import type { RequestHandler } from 'express';
import type { OpenAPIV3 } from 'openapi-types';
import type { Outcome } from '../api/handler.ts';
import { MAX_INPUTS, messages } from '../api/messages.ts';
import { findProblem, type Problems, readObject } from '../api/request.ts';
import { RequestFailed, toHttpError } from '../errors.ts';
import type { CompiledDocument } from '../openapi/compile.ts';
import { readApiRoot } from '../openapi/document.ts';
import type { Body, Operation } from '../openapi/operations.ts';
import { isNullable, isOnlyAnswered, type Schema } from '../openapi/schema.ts';
import type { Json } from '../store/store.ts';
import { readBody } from './body.ts';
import { recordOf } from './recorder.ts';
import { allowOnly, type Endpoints, respond, sendText } from './respond.ts';

/** Creates the endpoint from the function that runs an operation. */
export type Mcp = (run: RunOperation) => Endpoints;

/** Runs the operation that a request asks for: by its method and URL, or by the tool call in it. */
export type RunOperation = (res: ServerResponse, tool?: ToolRequest) => Promise<Outcome>;

/** A tool call as the HTTP request that would do the same. */
export type ToolRequest = {
  readonly method: string;
  /** Path and query. */
  readonly url: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: Uint8Array;
  /** Problems with arguments that a URL and headers cannot carry. */
  readonly problems: Problems;
};

/** Runs an operation of a document with this API root. */
type CallTool = (operation: Operation, root: string) => Promise<CallToolResult>;

/** What the endpoint needs. */
export type McpOptions = {
  /** Reads the document that is served now. */
  readonly readDocument: () => CompiledDocument;
  /** The largest body, in bytes. */
  readonly bodyLimit: number;
  /** The origins whose pages may call the gateway; `*` allows all. */
  readonly corsOrigins: readonly string[];
};

type JsonObject = { readonly [name: string]: Json };

type JsonSchema = NonNullable<Tool['inputSchema']['properties']>[string];

/** A message of the protocol without the arguments of its tool call: the SDK would validate them several times. */
type Message = { readonly envelope: JsonObject; readonly args: Json };

/** `x-instructions` is for a model, which sees no headers and paths. */
type Info = OpenAPIV3.InfoObject & { readonly 'x-instructions'?: string };

/** The maximum number of values in an envelope: the SDK takes microseconds for each. No real client sends so many. */
const MAX_VALUES = 1_000;

/** Serves /mcp. Each request gets a server of its own and no session, so any worker can answer it. */
export function serveMcp({ readDocument, bodyLimit, corsOrigins }: McpOptions): Mcp {
  function createMcpServer({ source, operations }: CompiledDocument, callTool: CallTool): Server {
    const { title, version, description = '', 'x-instructions': instructions = description } = source.info as Info;
    const options = { capabilities: { tools: {} }, instructions };
    const server = new Server({ name: title, version }, options);
    server.setRequestHandler('tools/list', () => {
      const all = [...operations.values()];
      return { tools: all.map((operation) => toTool(operation, all)) };
    });
    server.setRequestHandler('tools/call', ({ params: { name } }) => {
      const operation = operations.get(name);
      if (!operation) throw new ProtocolError(ProtocolErrorCode.InvalidParams, `Unknown tool: ${name}`);
      return callTool(operation, readApiRoot(source));
    });
    return server;
  }

  return (run) => {
    const serve = async (req: IncomingMessage, res: ServerResponse): Promise<void> => {
      const { envelope, args } = readMessage(await readBody(req, res, bodyLimit));
      const server = createMcpServer(readDocument(), async (operation, root) => {
        if (!isObject(args)) throw new ProtocolError(ProtocolErrorCode.InvalidParams, 'arguments must be an object');
        return toResult(operation, await run(res, toToolRequest(operation, root, args, req.headers)), res);
      });
      const transport = new WebStandardStreamableHTTPServerTransport({ enableJsonResponse: true });
      await server.connect(transport);
      const response = await transport.handleRequest(toWebRequest(req.headers), { parsedBody: envelope });
      const headers = { ...Object.fromEntries(response.headers), 'Cache-Control': 'no-store', Vary: 'Accept-Encoding' };
      sendText(res, { status: response.status, headers, body: await response.text() });
      await server.close();
    };
    const serveOrRefuse: RequestHandler = (req, res) =>
      serve(req, res).catch((error) => {
        if (!(error instanceof RequestFailed)) throw error;
        respond(res, { failure: error.failure });
      });
    return (router) => router.all('/mcp', allowOnly('POST'), refuseForeignPages(corsOrigins), serveOrRefuse);
  };
}

/** Parses a message. Throws RequestFailed, for several messages too: limits count requests, and so every tool call. */
function readMessage(bytes: Uint8Array): Message {
  const { fields, problems } = readObject(bytes);
  if (problems.size > 0) throw new RequestFailed({ kind: 'invalidInput', fields: Object.fromEntries(problems) });
  const given = isObject(fields.params) ? fields.params : {};
  // Counted first: copying an object with many names takes longer than parsing it.
  if (countValues(fields, given.arguments) > MAX_VALUES) throw new RequestFailed({ kind: 'bodyTooLarge' });
  const { arguments: args = {}, ...params } = given;
  return { envelope: isObject(fields.params) ? { ...fields, params } : fields, args };
}

/** Counts the values in a JSON value, whose depth must be bounded, without those in one part of it. */
function countValues(value: Json, omitted: Json | undefined): number {
  if (typeof value !== 'object' || value === null || value === omitted) return 1;
  return Object.values(value).reduce<number>((sum, part) => sum + countValues(part, omitted), 1);
}

function isObject(value: Json | undefined): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Refuses a page of another origin, which DNS rebinding can make look like the gateway's own (MCP, "Transports"). */
function refuseForeignPages(corsOrigins: readonly string[]): RequestHandler {
  return ({ headers: { origin } }, res, next) => {
    if (origin === undefined || corsOrigins.includes('*') || corsOrigins.includes(origin)) next();
    else respond(res, { failure: { kind: 'originRefused' } });
  };
}

/** The request for the SDK, which reads only the protocol's headers of it. */
function toWebRequest(headers: IncomingHttpHeaders): Request {
  const names = ['accept', 'content-type', 'mcp-protocol-version'];
  const sent = names.flatMap((name) => (headers[name] === undefined ? [] : [[name, String(headers[name])] as const]));
  return new Request('http://localhost/mcp', { method: 'POST', headers: Object.fromEntries(sent) });
}

function toTool(operation: Operation, all: readonly Operation[]): Tool {
  const { id, readOnly, source } = operation;
  const { summary = id, description = '' } = source;
  const parameters = (source.parameters ?? []) as OpenAPIV3.ParameterObject[];
  const body = readBodySchema(operation);
  const fields = Object.entries(body.properties ?? {}).filter(([, schema]) => !isOnlyAnswered(schema));
  const schemas = [
    ...parameters.map(
      ({ name, schema, description }) => [name, { ...schema, ...(description && { description }) }] as const,
    ),
    ...fields,
  ];
  const requiredParameters = parameters.filter(({ required }) => required).map(({ name }) => name);
  return {
    name: id,
    title: summary,
    description: nameTools(`${summary}\n\n${description}`.trim(), all),
    inputSchema: {
      type: 'object',
      properties: Object.fromEntries(schemas.map(([name, schema]) => [name, toJsonSchema(schema, all) as JsonSchema])),
      required: [...requiredParameters, ...(body.required ?? [])],
      additionalProperties: false,
    },
    annotations: { readOnlyHint: readOnly },
  };
}

/** The schema of the arguments that become the body: its fields, or `body` as a whole. */
function readBodySchema({ body, source }: Operation): Schema {
  const content = (source.requestBody as OpenAPIV3.RequestBodyObject | undefined)?.content['application/json'];
  const schema = (content?.schema ?? {}) as Schema;
  return body && !body.fields ? { properties: { body: schema }, required: body.isRequired ? ['body'] : [] } : schema;
}

/** Replaces references such as `GET /alunos?nome=` by the names of tools: a model sees no paths. */
function nameTools(text: string, operations: readonly Operation[]): string {
  return text.replace(/`(GET|PUT|POST|DELETE|PATCH) (\/[^\s`?]*)(?:\?(\w+)=)?`/g, (whole, method, path, argument) => {
    const found = operations.find(({ source }) => source.path === path && source.method.toUpperCase() === method);
    if (!found) return whole;
    return argument === undefined ? `\`${found.id}\`` : `\`${found.id}\` as \`${argument}\``;
  });
}

/**
 * Converts a schema of the document: some models refuse keywords that JSON Schema does not have. Leaves out properties that
 * only answers have. Within itself a schema allows any value.
 */
function toJsonSchema(schema: unknown, all: readonly Operation[], around: readonly unknown[] = []): unknown {
  if (typeof schema !== 'object' || schema === null) return schema;
  if (around.includes(schema)) return {};
  const convert = (part: unknown) => toJsonSchema(part, all, [...around, schema]);
  if (Array.isArray(schema)) return schema.map(convert);
  const { nullable, ...others } = schema as { readonly [keyword: string]: unknown };
  const kept = Object.entries(others).filter(
    ([name, part]) => !name.startsWith('x-') && !isOnlyAnswered(part as Schema),
  );
  const converted = Object.fromEntries(kept.map(([name, part]) => [name, convert(part)]));
  if (typeof others.description === 'string') converted.description = nameTools(others.description, all);
  return nullable === true ? { ...converted, type: [converted.type, 'null'].flat() } : { ...converted };
}

/**
 * Converts a tool call to the HTTP request that would do the same. An argument that the document does not declare becomes
 * an unknown field or parameter, which is refused.
 */
function toToolRequest(operation: Operation, root: string, args: JsonObject, sent: IncomingHttpHeaders): ToolRequest {
  const { inputs, body, path, source } = operation;
  const problems: Problems = new Map();
  const query = new URLSearchParams();
  const headers = { ...sent };
  const segments = new Map<string, string>();
  const fields: [string, Json][] = [];
  const places = new Map(inputs.map((input) => [input.name, input.in]));
  // With one argument more than an operation can have, one of them is unknown.
  for (const name of Object.keys(args).slice(0, MAX_INPUTS + 1)) {
    const value = args[name] as Json;
    const place = places.get(name);
    // Where null is no value, a model means that the argument is left out.
    if (value === null && (place || isOptional(operation, name))) continue;
    const problem = typeof value === 'object' ? messages.isNoScalar : findProblem(value);
    if (!place && body && !body.fields && name !== 'body') problems.set(name, [messages.isNoField]);
    else if (!place && body) fields.push([name, value]);
    else if (!place) query.append(name, '');
    else if (problem) problems.set(name, [problem]);
    else if (place === 'query') query.append(name, String(value));
    else if (place === 'path') segments.set(name, encodeURIComponent(String(value)));
    // As Node decodes headers.
    else headers[name.toLowerCase()] = Buffer.from(String(value)).toString('latin1');
  }
  if (body && !body.fields && body.isRequired && args.body === undefined) problems.set('body', [messages.isRequired]);
  for (const [name, place] of places) {
    if (place === 'path' && !segments.has(name) && !problems.has(name)) problems.set(name, [messages.isRequired]);
  }
  // Joined before it is filled in: `..` in an argument must not lead to another operation.
  const template = posix.join(root, path);
  // A missing segment still has to match, so that its problem is reported.
  const target = template.replace(/\{([^}]+)\}/g, (_whole, name) => segments.get(name) ?? '-');
  return {
    method: source.method,
    url: `${target}?${query}`,
    headers,
    body: toBody(body, Object.fromEntries(fields)),
    problems,
  };
}

/** Whether an argument of the body may be left out, and cannot be null. */
function isOptional(operation: Operation, name: string): boolean {
  const { properties = {}, required = [] } = readBodySchema(operation);
  const schema = Object.hasOwn(properties, name) ? properties[name] : undefined;
  return schema !== undefined && !required.includes(name) && !isNullable(schema);
}

/** The body with its fields, or the one that is an argument as a whole. */
function toBody(body: Body | undefined, fields: JsonObject): Buffer {
  if (!body || body.fields) return Buffer.from(JSON.stringify(fields));
  // One that is missing still has to be JSON, so that its problem is reported.
  if (fields.body === undefined) return Buffer.from(body.isRequired ? 'null' : '');
  return Buffer.from(JSON.stringify(fields.body));
}

/** The result of a tool call: the operation's answer as JSON text, and how to get the next page. */
function toResult(operation: Operation, outcome: Outcome, res: ServerResponse): CallToolResult {
  const record = recordOf(res);
  if (!('failure' in outcome)) {
    record.toolStatus = outcome.status;
    // A model would take an empty text for a failure.
    const texts = [outcome.json || 'Done; there is no content.', ...describeNext(operation, outcome.headers?.Link)];
    return { content: texts.map((text) => ({ type: 'text', text })) };
  }
  const { status, error } = toHttpError(outcome.failure);
  record.toolStatus = status;
  return { content: [{ type: 'text', text: JSON.stringify({ error }) }], isError: true };
}

/** A sentence that says how to get the next page, which a model sees no header for; none if there is no next page. */
function describeNext({ id, page }: Operation, link = ''): string[] {
  const [, query] = /<\?([^>]*)>; rel="next"/.exec(link) ?? [];
  if (!page || query === undefined) return [];
  const next = new URLSearchParams(query);
  const place = page.after && next.has(page.after.name) ? page.after : page.offset;
  const text = next.get(place.name) ?? '';
  const value = place.type === 'string' ? JSON.stringify(text) : text;
  return [`There may be more records: call ${id} again with the same arguments and ${place.name} ${value}.`];
}
