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
import { isOnlyAnswered, type Schema } from '../openapi/schema.ts';
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
    server.setRequestHandler('tools/list', () => ({ tools: [...operations.values()].map(toTool) }));
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
        return toResult(await run(res, toToolRequest(operation, root, args, req.headers)), res);
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

function toTool({ id, readOnly, body, source }: Operation): Tool {
  const { summary = id, description = '' } = source;
  const parameters = (source.parameters ?? []) as OpenAPIV3.ParameterObject[];
  const content = (source.requestBody as OpenAPIV3.RequestBodyObject | undefined)?.content['application/json'];
  const schema = (content?.schema ?? {}) as Schema;
  const whole = { properties: { body: schema }, required: body?.isRequired ? ['body'] : [] };
  const { properties: fields = {}, required: requiredFields = [] } = body && !body.fields ? whole : schema;
  const schemas = [
    ...parameters.map(
      ({ name, schema, description }) => [name, { ...schema, ...(description && { description }) }] as const,
    ),
    ...Object.entries(fields),
  ];
  const requiredParameters = parameters.filter(({ required }) => required).map(({ name }) => name);
  return {
    name: id,
    title: summary,
    description: `${summary}\n\n${description}`.trim(),
    inputSchema: {
      type: 'object',
      properties: Object.fromEntries(schemas.map(([name, schema]) => [name, toJsonSchema(schema)])),
      required: [...requiredParameters, ...requiredFields],
      additionalProperties: false,
    },
    annotations: { readOnlyHint: readOnly },
  };
}

/** Converts a schema of OpenAPI 3.0: some models refuse keywords that JSON Schema does not have. */
function toJsonSchema(schema: object): JsonSchema {
  const convert = (name: string, value: unknown) => {
    if (name.startsWith('x-')) return undefined;
    if (typeof value === 'object' && value !== null && isOnlyAnswered(value)) return undefined;
    if (typeof value !== 'object' || value === null || !('nullable' in value)) return value;
    const { nullable, ...others } = value as OpenAPIV3.NonArraySchemaObject;
    return nullable ? { ...others, type: [others.type, 'null'] } : others;
  };
  return JSON.parse(JSON.stringify(schema, convert));
}

/**
 * Converts a tool call to the HTTP request that would do the same. An argument that the document does not declare becomes
 * an unknown field or parameter, which is refused.
 */
function toToolRequest(
  { inputs, body, path, source }: Operation,
  root: string,
  args: JsonObject,
  sent: IncomingHttpHeaders,
): ToolRequest {
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
    // For a parameter, which cannot be null, a model means that it is left out.
    if (place && value === null) continue;
    const problem = typeof value === 'object' ? messages.isNoScalar.en : findProblem(value);
    if (!place && body) fields.push([name, value]);
    else if (!place) query.append(name, '');
    else if (problem) problems.set(name, [problem]);
    else if (place === 'query') query.append(name, String(value));
    else if (place === 'path') segments.set(name, encodeURIComponent(String(value)));
    // As Node decodes headers.
    else headers[name.toLowerCase()] = Buffer.from(String(value)).toString('latin1');
  }
  for (const [name, place] of places) {
    if (place === 'path' && !segments.has(name) && !problems.has(name)) problems.set(name, [messages.isRequired.en]);
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

/** The body with its fields, or the one that is an argument as a whole. */
function toBody(body: Body | undefined, { body: whole, ...others }: JsonObject): Buffer {
  if (!body || body.fields)
    return Buffer.from(JSON.stringify(whole === undefined ? others : { body: whole, ...others }));
  return Buffer.from(whole === undefined ? '' : JSON.stringify(whole));
}

/** The result of a tool call: the operation's answer as JSON text. */
function toResult(outcome: Outcome, res: ServerResponse): CallToolResult {
  const record = recordOf(res);
  if (!('failure' in outcome)) {
    record.toolStatus = outcome.status;
    return { content: [{ type: 'text', text: outcome.json }] };
  }
  const { status, error } = toHttpError(outcome.failure);
  record.toolStatus = status;
  return { content: [{ type: 'text', text: JSON.stringify({ error }) }], isError: true };
}
