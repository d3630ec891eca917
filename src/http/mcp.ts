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
import type { OpenAPIV3 } from 'openapi-types';
import type { Outcome } from '../api/handler.ts';
import { MAX_INPUTS } from '../api/messages.ts';
import { readObject, readTexts, refuse } from '../api/request.ts';
import { createToolReader, readBodySchema, type ToolCall, toToolArgument } from '../api/tool-reader.ts';
import type { Config } from '../config.ts';
import { RequestFailed, toHttpError } from '../errors.ts';
import type { CompiledDocument } from '../openapi/compile.ts';
import { DocumentError } from '../openapi/document.ts';
import { type Operation, readAnswerSchema } from '../openapi/operations.ts';
import { allowsOnlyObjects, isHidden, isNullable, pick, type Schema } from '../openapi/schema.ts';
import { mapChildren } from '../openapi/structure.ts';
import { isJsonObject, type Json, type JsonObject } from '../store/store.ts';
import type { Endpoints, RunOperation } from './app.ts';
import { contextOf } from './context.ts';
import { sendText } from './respond.ts';

type CallTool = (operation: Operation) => Promise<CallToolResult>;

type McpOptions = Pick<Config, 'corsOrigins'> & {
  /** Reads the document that is served now. */
  readonly readDocument: () => CompiledDocument;
};

/** A message of the protocol, without the arguments of its tool call: the SDK would validate them several times. */
type Envelope = { readonly message: JsonObject; readonly args: Json; readonly texts: ToolCall['texts'] };

/** `x-instructions` is for models, which see no headers or paths. */
type Info = OpenAPIV3.InfoObject & { readonly 'x-instructions'?: string };

/** The maximum number of values in an envelope: the SDK takes microseconds for each. No real client sends so many. */
const MAX_VALUES = 1_000;

/** The maximum number of schemas within a tool's schema: 150 records that may contain each other would make a list of 20 MB. */
const MAX_SCHEMAS = 500;
/** Keywords that refuse a value, or choose the schema that does, because another schema allows it. */
const CONDITIONS = ['not', 'if', 'then', 'else'];

/** Serves /mcp. Each request gets a server of its own and no session, so any worker can answer it. Throws as readTools does. */
export function serveMcp({ readDocument, corsOrigins }: McpOptions): (run: RunOperation) => Endpoints {
  let served = readServed(readDocument());

  function createMcpServer(document: CompiledDocument, callTool: CallTool): Server {
    if (served.document !== document) served = readServed(document);
    const { tools, list } = served;
    const info = document.source.info as Info;
    const { title, version, description = '', 'x-instructions': instructions = description } = info;
    const options = { capabilities: { tools: {} }, instructions };
    const server = new Server({ name: title, version }, options);
    server.setRequestHandler('tools/list', () => ({ tools: list() }));
    server.setRequestHandler('tools/call', ({ params: { name } }) => {
      const operation = tools.get(name);
      if (!operation) throw new ProtocolError(ProtocolErrorCode.InvalidParams, `Unknown tool: ${name}`);
      return callTool(operation);
    });
    return server;
  }

  return (run) => ({
    '/mcp': async (req, res) => {
      refuseForeignPages(req, corsOrigins);
      const { message, args, texts } = readMessage(await contextOf(res).readBody());
      let structured = '{}';
      const server = createMcpServer(readDocument(), async (operation) => {
        if (!isJsonObject(args))
          throw new ProtocolError(ProtocolErrorCode.InvalidParams, 'arguments must be an object');
        takeBearer(req, operation);
        const outcome = await run(res, createToolReader({ operation, args, texts }));
        if ('json' in outcome) structured = toStructured(operation, outcome.json);
        return toResult(operation, outcome, res);
      });
      const transport = new WebStandardStreamableHTTPServerTransport({ enableJsonResponse: true });
      await server.connect(transport);
      const response = await transport.handleRequest(toWebRequest(req.headers), { parsedBody: message });
      const headers = {
        ...Object.fromEntries(response.headers),
        ...contextOf(res).admission?.headers,
        'Cache-Control': 'no-store',
        Vary: 'Accept-Encoding',
      };
      // Inserted as text, because parsing would round numbers. The match cannot be in a string: its quotes would be escaped.
      const body = (await response.text()).replace('"structuredContent":{}', () => `"structuredContent":${structured}`);
      sendText(res, { status: response.status, headers, body });
      await server.close();
    },
  });
}

/** The tools of a document. Their list is written once, because it is long: it repeats shared schemas. Throws as readTools does. */
function readServed(document: CompiledDocument) {
  const tools = readTools(document);
  const all = [...tools.values()];
  let written: Tool[] | undefined;
  const list = () => {
    written ??= all.map((operation) => toTool(operation, all));
    return written;
  };
  return { document, tools, list };
}

/** Parses a message. Throws RequestFailed, also for a batch: limits count requests, so each may have one tool call. */
function readMessage(bytes: Uint8Array): Envelope {
  const { fields, problems, texts } = readObject(bytes);
  if (problems.size > 0) refuse(Object.fromEntries(problems));
  const given = isJsonObject(fields.params) ? fields.params : {};
  // Checked before the object is copied: with many names, copying takes longer than parsing.
  if (countValues(fields, given.arguments) > MAX_VALUES) throw new RequestFailed({ kind: 'bodyTooLarge' });
  const { arguments: args = {}, ...params } = given;
  // A call with more arguments is refused.
  const isCall = isJsonObject(args) && Object.keys(args).length <= MAX_INPUTS;
  return {
    message: isJsonObject(fields.params) ? { ...fields, params } : fields,
    args,
    texts: isCall ? readTexts(readTexts(texts.get('params') ?? '').get('arguments') ?? '') : new Map(),
  };
}

/** Takes the token of `Authorization: Bearer` (RFC 6750) as the key: some clients cannot send the key's header. */
function takeBearer({ headers }: IncomingMessage, { key }: Operation): void {
  const [, token] = /^Bearer +(\S+) *$/i.exec(headers.authorization ?? '') ?? [];
  // An empty header counts as missing.
  if (token !== undefined) headers[key.header] ||= token;
}

/** Counts the values in a JSON value of bounded depth, except those within `omitted`. */
function countValues(value: Json, omitted: Json | undefined): number {
  if (typeof value !== 'object' || value === null || value === omitted) return 1;
  return Object.values(value).reduce<number>((sum, part) => sum + countValues(part, omitted), 1);
}

/** Refuses pages of other origins, against DNS rebinding (MCP, "Transports"). Throws RequestFailed. */
function refuseForeignPages({ headers: { origin } }: IncomingMessage, corsOrigins: readonly string[]): void {
  const isAllowed = origin === undefined || corsOrigins.includes('*') || corsOrigins.includes(origin);
  if (!isAllowed) throw new RequestFailed({ kind: 'originRefused' });
}

/** Creates the request for the SDK. Body and answer are JSON, whatever the client's Content-Type and Accept say. */
function toWebRequest({ 'mcp-protocol-version': version }: IncomingHttpHeaders): Request {
  const headers = new Headers({ accept: 'application/json, text/event-stream', 'content-type': 'application/json' });
  if (version !== undefined) headers.set('mcp-protocol-version', String(version));
  return new Request('http://localhost/mcp', { method: 'POST', headers });
}

/** The operations by the names of their tools. Throws DocumentError if two tools have the same name. */
export function readTools({ operations }: CompiledDocument): ReadonlyMap<string, Operation> {
  const tools = new Map<string, Operation>();
  for (const operation of operations.values()) {
    const name = toToolName(operation);
    const other = tools.get(name);
    if (other) {
      const text = `MCP: the operationIds ${other.id} and ${operation.id} give one name of a tool, ${name}: rename one`;
      throw new DocumentError([{ text }]);
    }
    tools.set(name, operation);
  }
  return tools;
}

/** The name of an operation's tool, with characters and a length that all model APIs accept. */
function toToolName({ id }: Operation): string {
  return id.replace(/[^\w-]/g, '_').slice(0, 64);
}

function toTool(operation: Operation, all: readonly Operation[]): Tool {
  const { id, body, inputs, readOnly, source } = operation;
  const { summary = id, description = '' } = source;
  const parameters = source.parameters.map((parameter) => {
    const input = inputs.find(({ name, in: place }) => name === parameter.name && place === parameter.in);
    return { ...parameter, name: input ? toToolArgument(input) : parameter.name };
  });
  const { properties, required = [] } = readBodySchema(body);
  const schemas = parameters.map(
    ({ name, schema, description }) => [name, { ...schema, ...(description && { description }) }] as const,
  );
  const requiredParameters = parameters.filter(({ required }) => required).map(({ name }) => name);
  return {
    name: toToolName(operation),
    title: summary,
    description: nameTools(`${summary}\n\n${description}`.trim(), all),
    inputSchema: toJsonSchema(
      {
        type: 'object',
        properties: { ...Object.fromEntries(schemas), ...properties },
        required: [...requiredParameters, ...required],
        additionalProperties: false,
      },
      all,
    ),
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

/** The schema of a success. Clients of the protocol's 2025 versions accept only objects: any other answer is the property `result`. */
function toOutputSchema(operation: Operation, all: readonly Operation[]): Pick<Tool, 'outputSchema'> {
  const answer = readAnswerSchema(operation);
  if (!answer) return {};
  const object = isObject(answer) ? answer : { properties: { result: answer }, required: ['result'] };
  return { outputSchema: toJsonSchema({ ...object, type: 'object', nullable: false }, all) };
}

/** A success in the form of `outputSchema`. */
function toStructured(operation: Operation, json: string): string {
  return isObject(readAnswerSchema(operation)) ? json : `{"result":${json}}`;
}

function isObject(schema: Schema = {}): boolean {
  return allowsOnlyObjects(schema) && !isNullable(schema);
}

/**
 * Converts the schema of a tool. A schema in it that contains others and is used several times becomes a definition. Beyond about
 * MAX_SCHEMAS, schemas are cut: they allow any value.
 */
function toJsonSchema(root: Schema, all: readonly Operation[]): Tool['inputSchema'] {
  const shown = new Map<unknown, Schema>();
  /** How often each schema is used. The loop also visits the schemas that it adds. */
  const uses = new Map<unknown, number>([[root, 1]]);
  const containers = new Set<unknown>();
  let found = 0;
  for (const schema of uses.keys()) {
    if (found > MAX_SCHEMAS) break;
    const own = showSchema(schema as Schema);
    shown.set(schema, own);
    mapChildren('schema', own, (_kind, part) => {
      found += 1;
      containers.add(schema);
      uses.set(part, (uses.get(part) ?? 0) + 1);
    });
  }
  const shared = [...uses.keys()].filter((schema) => uses.get(schema) !== 1 && containers.has(schema));
  const names = new Map(shared.map((schema, index) => [schema, `s${index}`]));
  const write = (schema: unknown): object => {
    const own: Readonly<Record<string, unknown>> = shown.get(schema) ?? {};
    const { nullable, ...converted } = mapChildren('schema', own, (_kind, part) => {
      const name = names.get(part);
      return name === undefined ? write(part) : { $ref: `#/$defs/${name}` };
    });
    // A cut schema allows any value, so a `not` with one would refuse every value.
    const cut = CONDITIONS.some((name) => name in own && !shown.has(own[name])) ? CONDITIONS : [];
    // Some models refuse keywords that JSON Schema does not have.
    const isKept = (name: string) => !cut.includes(name) && !/^(x-.*|discriminator|xml|externalDocs)$/.test(name);
    const { type, description, ...rest } = pick(converted, isKept);
    return {
      ...rest,
      ...(type === undefined ? {} : { type: nullable === true ? [type, 'null'].flat() : type }),
      ...(typeof description === 'string' ? { description: nameTools(description, all) } : {}),
    };
  };
  const definitions = Object.fromEntries(shared.map((schema) => [names.get(schema), write(schema)]));
  return { ...(write(root) as Tool['inputSchema']), ...(shared.length > 0 && { $defs: definitions }) };
}

/** Leaves out readOnly properties of requests and writeOnly ones of answers. */
function showSchema({ properties, oneOf, ...others }: Schema): Schema {
  const shown = Object.entries(properties ?? {}).filter(([, part]) => !isHidden(part));
  return {
    ...others,
    ...(properties && { properties: Object.fromEntries(shown) }),
    // A cut schema allows any value, so a `oneOf` with one would refuse the values of its other schemas.
    ...(oneOf && (others.anyOf ? { allOf: [...(others.allOf ?? []), { anyOf: oneOf }] } : { anyOf: oneOf })),
  };
}

/** The result of a tool call: the operation's answer as JSON text, and how to get the next page or how long to wait. */
function toResult(operation: Operation, outcome: Outcome, res: ServerResponse): CallToolResult {
  const context = contextOf(res);
  if (!('failure' in outcome)) {
    context.toolStatus = outcome.status;
    const { Link: link, 'Idempotent-Replayed': replayed } = outcome.headers ?? {};
    // A model would take an empty text for a failure.
    const texts = [outcome.json || 'Done; there is no content.', ...describeNext(operation, link)];
    if (replayed)
      texts.push('An earlier call with the same Idempotency-Key got this answer: nothing was changed again.');
    return {
      content: texts.map((text) => ({ type: 'text', text })),
      ...(readAnswerSchema(operation) && { structuredContent: {} }),
    };
  }
  const { status, error, headers = {} } = toHttpError(outcome.failure);
  context.toolStatus = status;
  const { 'Retry-After': seconds } = headers;
  const texts = [JSON.stringify({ error }), ...(seconds ? [`Wait ${seconds} seconds before the next call.`] : [])];
  return { content: texts.map((text) => ({ type: 'text', text })), isError: true };
}

/** Tells a model, which sees no Link header, how to get the next page; empty if there is none. */
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
