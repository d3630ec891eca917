// The Model Context Protocol (streamable HTTP, stateless): one tool for each operation. Loaded only if configured.

import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
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
import { MAX_INPUTS } from '../api/messages.ts';
import { readObject, readTexts } from '../api/request.ts';
import { createToolReader, readBodySchema, type ToolCall } from '../api/tool-reader.ts';
import { RequestFailed, toHttpError } from '../errors.ts';
import type { CompiledDocument } from '../openapi/compile.ts';
import { DocumentError } from '../openapi/document.ts';
import type { Operation } from '../openapi/operations.ts';
import { allowsOnlyObjects, isNullable, isRequestOnly, isResponseOnly, type Schema } from '../openapi/schema.ts';
import { mapChildren } from '../openapi/structure.ts';
import { isJsonObject, type Json, type JsonObject } from '../store/store.ts';
import type { RunOperation } from './app.ts';
import { readBody } from './body.ts';
import { contextOf } from './context.ts';
import { allowOnly, type Endpoints, respond, sendText } from './respond.ts';

type CallTool = (operation: Operation) => Promise<CallToolResult>;

/** What the endpoint needs. */
type McpOptions = {
  /** Reads the document that is served now. */
  readonly readDocument: () => CompiledDocument;
  /** The largest body, in bytes. */
  readonly bodyLimit: number;
  /** The origins whose pages may call the gateway; `*` allows all. */
  readonly corsOrigins: readonly string[];
};

type JsonSchema = NonNullable<Tool['inputSchema']['properties']>[string];

/** A message of the protocol, and apart from it the arguments of its tool call: the SDK would validate them several times. */
type Envelope = { readonly message: JsonObject; readonly args: Json; readonly texts: ToolCall['texts'] };

/** `x-instructions` is for a model, which sees no headers and paths. */
type Info = OpenAPIV3.InfoObject & { readonly 'x-instructions'?: string };

/** The maximum number of values in an envelope: the SDK takes microseconds for each. No real client sends so many. */
const MAX_VALUES = 1_000;

/** Serves /mcp. Each request gets a server of its own and no session, so any worker can answer it. Throws as readTools. */
export function serveMcp({ readDocument, bodyLimit, corsOrigins }: McpOptions): (run: RunOperation) => Endpoints {
  // Throws at the start, and not in a request.
  readTools(readDocument());

  function createMcpServer(document: CompiledDocument, callTool: CallTool): Server {
    const info = document.source.info as Info;
    const { title, version, description = '', 'x-instructions': instructions = description } = info;
    const options = { capabilities: { tools: {} }, instructions };
    const server = new Server({ name: title, version }, options);
    const tools = readTools(document);
    server.setRequestHandler('tools/list', () => {
      const all = [...tools.values()];
      return { tools: all.map((operation) => toTool(operation, all)) };
    });
    server.setRequestHandler('tools/call', ({ params: { name } }) => {
      const operation = tools.get(name);
      if (!operation) throw new ProtocolError(ProtocolErrorCode.InvalidParams, `Unknown tool: ${name}`);
      return callTool(operation);
    });
    return server;
  }

  return (run) => {
    const serve = async (req: IncomingMessage, res: ServerResponse): Promise<void> => {
      const { message, args, texts } = readMessage(await readBody(req, res, bodyLimit));
      let structured = '{}';
      const server = createMcpServer(readDocument(), async (operation) => {
        if (!isJsonObject(args))
          throw new ProtocolError(ProtocolErrorCode.InvalidParams, 'arguments must be an object');
        takeBearer(req, operation);
        const outcome = await run(res, createToolReader({ operation, args, texts }));
        structured = 'json' in outcome ? toStructured(operation, outcome.json) : structured;
        return toResult(operation, outcome, res);
      });
      const transport = new WebStandardStreamableHTTPServerTransport({ enableJsonResponse: true });
      await server.connect(transport);
      const response = await transport.handleRequest(toWebRequest(req.headers), { parsedBody: message });
      const headers = { ...Object.fromEntries(response.headers), 'Cache-Control': 'no-store', Vary: 'Accept-Encoding' };
      // Written as it is: parsing it would round numbers. In a text the quotes would be escaped.
      const body = (await response.text()).replace('"structuredContent":{}', () => `"structuredContent":${structured}`);
      sendText(res, { status: response.status, headers, body });
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
function readMessage(bytes: Uint8Array): Envelope {
  const { fields, problems, texts } = readObject(bytes);
  if (problems.size > 0) throw new RequestFailed({ kind: 'invalidInput', fields: Object.fromEntries(problems) });
  const given = isJsonObject(fields.params) ? fields.params : {};
  // Counted first: copying an object with many names takes longer than parsing it.
  if (countValues(fields, given.arguments) > MAX_VALUES) throw new RequestFailed({ kind: 'bodyTooLarge' });
  const { arguments: args = {}, ...params } = given;
  return {
    message: isJsonObject(fields.params) ? { ...fields, params } : fields,
    args,
    // With more arguments than an operation can have, the call is refused.
    texts: isJsonObject(args) && Object.keys(args).length <= MAX_INPUTS ? readArgumentTexts(texts) : new Map(),
  };
}

function readArgumentTexts(texts: Envelope['texts']): Envelope['texts'] {
  return readTexts(readTexts(texts.get('params') ?? '').get('arguments') ?? '');
}

/** Takes the token of `Authorization: Bearer` (RFC 6750) for the key, where the client cannot send its header. */
function takeBearer({ headers }: IncomingMessage, { key }: Operation): void {
  const [, token] = /^Bearer +(\S+) *$/i.exec(headers.authorization ?? '') ?? [];
  if (token !== undefined) headers[key.header] ??= token;
}

/** Counts the values in a JSON value, whose depth must be bounded, without those in one part of it. */
function countValues(value: Json, omitted: Json | undefined): number {
  if (typeof value !== 'object' || value === null || value === omitted) return 1;
  return Object.values(value).reduce<number>((sum, part) => sum + countValues(part, omitted), 1);
}

/** Refuses a page of another origin, which DNS rebinding can make look like the gateway's own (MCP, "Transports"). */
function refuseForeignPages(corsOrigins: readonly string[]): RequestHandler {
  return ({ headers: { origin } }, res, next) => {
    if (origin === undefined || corsOrigins.includes('*') || corsOrigins.includes(origin)) next();
    else respond(res, { failure: { kind: 'originRefused' } });
  };
}

/** The request for the SDK. The body is JSON whatever its type says, and so is the answer whatever the client accepts. */
function toWebRequest({ 'mcp-protocol-version': version }: IncomingHttpHeaders): Request {
  const headers = { accept: 'application/json, text/event-stream', 'content-type': 'application/json' };
  const own = version === undefined ? {} : { 'mcp-protocol-version': String(version) };
  return new Request('http://localhost/mcp', { method: 'POST', headers: { ...headers, ...own } });
}

/** The operations by the names of their tools. Throws DocumentError if two have the same. */
function readTools({ operations }: CompiledDocument): ReadonlyMap<string, Operation> {
  const tools = new Map([...operations.values()].map((operation) => [toToolName(operation), operation]));
  if (tools.size === operations.size) return tools;
  throw new DocumentError([{ text: "MCP: two operationIds differ only in what a tool's name leaves out: rename one" }]);
}

/** The name of an operation's tool, of the characters and the length that all model APIs take. */
function toToolName({ id }: Operation): string {
  return id.replace(/[^\w-]/g, '_').slice(0, 64);
}

function toTool(operation: Operation, all: readonly Operation[]): Tool {
  const { id, body, readOnly, source } = operation;
  const { summary = id, description = '' } = source;
  const parameters = (source.parameters ?? []) as OpenAPIV3.ParameterObject[];
  const { properties = {}, required = [] } = readBodySchema(body);
  const fields = Object.entries(properties).filter(([, schema]) => !isResponseOnly(schema));
  const schemas = [
    ...parameters.map(
      ({ name, schema, description }) => [name, { ...schema, ...(description && { description }) }] as const,
    ),
    ...fields,
  ];
  const requiredParameters = parameters.filter(({ required }) => required).map(({ name }) => name);
  return {
    name: toToolName(operation),
    title: summary,
    description: nameTools(`${summary}\n\n${description}`.trim(), all),
    inputSchema: {
      type: 'object',
      properties: Object.fromEntries(schemas.map(([name, schema]) => [name, toJsonSchema(schema, all) as JsonSchema])),
      required: [...requiredParameters, ...required],
      additionalProperties: false,
    },
    ...toOutputSchema(operation, all),
    annotations: {
      readOnlyHint: readOnly,
      destructiveHint: !readOnly && source.method !== 'post',
      idempotentHint: readOnly || source.method === 'put' || source.method === 'delete',
    },
  };
}

/** Replaces references such as `GET /alunos?nome=` by the names of tools: a model sees no paths. */
function nameTools(text: string, operations: readonly Operation[]): string {
  return text.replace(/`(GET|PUT|POST|DELETE|PATCH) (\/[^\s`?]*)(?:\?(\w+)=)?`/g, (whole, method, path, argument) => {
    const found = operations.find(({ source }) => source.path === path && source.method.toUpperCase() === method);
    if (!found) return whole;
    const name = `\`${toToolName(found)}\``;
    return argument === undefined ? name : `${name} as \`${argument}\``;
  });
}

/** What a success consists of. Clients of the protocol's versions of 2025 take objects only: anything else is a property. */
function toOutputSchema(operation: Operation, all: readonly Operation[]): Pick<Tool, 'outputSchema'> {
  const answer = readAnswerSchema(operation);
  if (!answer) return {};
  const schema = toJsonSchema(answer, all) as NonNullable<Tool['outputSchema']>;
  if (isObject(answer)) return { outputSchema: { ...schema, type: 'object' } };
  return { outputSchema: { type: 'object', properties: { result: schema as JsonSchema }, required: ['result'] } };
}

/** A success as its schema describes it. */
function toStructured(operation: Operation, json: string): string {
  return isObject(readAnswerSchema(operation)) ? json : `{"result":${json}}`;
}

function readAnswerSchema({ source, status }: Operation): Schema | undefined {
  const { content } = source.responses[status] as OpenAPIV3.ResponseObject;
  return content?.['application/json']?.schema as Schema | undefined;
}

function isObject(schema: Schema = {}): boolean {
  return allowsOnlyObjects(schema) && !isNullable(schema);
}

/**
 * Converts a schema of the document: some models refuse keywords that JSON Schema does not have. Leaves out properties that
 * only the other side has. Within itself a schema allows any value.
 */
function toJsonSchema(schema: unknown, all: readonly Operation[], around: readonly unknown[] = []): unknown {
  if (typeof schema !== 'object' || schema === null) return schema;
  if (around.includes(schema)) return {};
  const { properties, ...others } = schema as Schema;
  const shown = Object.entries(properties ?? {}).filter(([, part]) => !isResponseOnly(part) && !isRequestOnly(part));
  const own = properties ? { ...others, properties: Object.fromEntries(shown) } : others;
  const { nullable, ...converted } = mapChildren('schema', own, (_kind, part) =>
    toJsonSchema(part, all, [...around, schema]),
  );
  const kept = Object.entries(converted).filter(([name]) => !name.startsWith('x-'));
  const { type, description, ...rest } = Object.fromEntries(kept);
  return {
    ...rest,
    ...(type === undefined ? {} : { type: nullable === true ? [type, 'null'].flat() : type }),
    ...(typeof description === 'string' ? { description: nameTools(description, all) } : {}),
  };
}

/** The result of a tool call: the operation's answer as JSON text, and how to get the next page. */
function toResult(operation: Operation, outcome: Outcome, res: ServerResponse): CallToolResult {
  const context = contextOf(res);
  if (!('failure' in outcome)) {
    context.toolStatus = outcome.status;
    // A model would take an empty text for a failure.
    const texts = [outcome.json || 'Done; there is no content.', ...describeNext(operation, outcome.headers?.Link)];
    return {
      content: texts.map((text) => ({ type: 'text', text })),
      ...(readAnswerSchema(operation) && { structuredContent: {} }),
    };
  }
  const { status, error } = toHttpError(outcome.failure);
  context.toolStatus = status;
  return { content: [{ type: 'text', text: JSON.stringify({ error }) }], isError: true };
}

/** A sentence that says how to get the next page, which a model sees no header for; none if there is no next page. */
function describeNext(operation: Operation, link = ''): string[] {
  const { page } = operation;
  const [, query] = /<\?([^>]*)>; rel="next"/.exec(link) ?? [];
  if (!page || query === undefined) return [];
  const next = new URLSearchParams(query);
  const place = page.after && next.has(page.after.name) ? page.after : page.offset;
  const text = next.get(place.name) ?? '';
  const value = place.type === 'string' ? JSON.stringify(text) : text;
  const name = toToolName(operation);
  return [`There may be more records: call ${name} again with the same arguments and ${place.name} ${value}.`];
}
