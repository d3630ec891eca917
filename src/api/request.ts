// Reads a request: its parts, the types that the document declares, and everything that no schema can say.

import type { IncomingHttpHeaders } from 'node:http';
import { parse } from 'node:querystring';
import { RequestFailed } from '../errors.ts';
import { type Input, normalizePath, type Operation } from '../openapi/operations.ts';
import type { Json } from '../store/store.ts';
import type { RequestRecord } from '../telemetry/record.ts';
import { MAX_DEPTH, MAX_INPUTS, messages } from './messages.ts';

/** An HTTP request without its socket. */
export type HttpRequest = {
  readonly method: string;
  /** Path and query. */
  readonly url: string;
  readonly headers: IncomingHttpHeaders;
  /** The client's network: what one client has to itself. */
  readonly network: string;
  /** Aborted with ClientGone when the client disconnects, and with DeadlineError after the deadline. */
  readonly controller: AbortController;
  readonly record: RequestRecord;
  /** Reads the body; fails with RequestFailed. */
  readBody(): Promise<Uint8Array>;
};

/** The parts of a request, under the names that openapi-backend uses for them. */
export type ApiRequest = {
  readonly method: string;
  /** Normalized, so that equal paths are equal texts. */
  readonly path: string;
  readonly headers: Record<string, Json>;
  readonly query: Record<string, Json>;
  readonly params: Record<string, Json>;
  readonly cookies: Record<string, never>;
  requestBody?: Readonly<Record<string, Json>>;
  /** What is wrong with inputs beyond what their schemas can say. */
  readonly problems: Problems;
};

/** Messages by the name of the parameter or field. */
export type Problems = Map<string, string[]>;

/** Splits a request into its parts, without the body. Throws RequestFailed with `malformedUrl`. */
export function readRequest({ method, url, headers }: HttpRequest): ApiRequest {
  const end = url.includes('?') ? url.indexOf('?') : url.length;
  return {
    method: method.toLowerCase(),
    path: decoded(() => normalizePath(url.slice(0, end))),
    // Node joins repeated headers with a comma; set-cookie, which it keeps as a list, is not an input.
    headers: headers as Record<string, Json>,
    query: parseQuery(url.slice(end + 1)),
    params: Object.create(null),
    cookies: {},
    problems: new Map(),
  };
}

/** The query by name; a repeated name has an array of its values. */
function parseQuery(query: string): Record<string, Json> {
  // The parser keeps a malformed escape as it is. No escape spans a separator, so one look at the whole finds it.
  if (query.includes('%')) decoded(() => decodeURIComponent(query));
  return parse(query, '&', '=', { maxKeys: 0 }) as Record<string, Json>;
}

/** Anything but percent-encoded UTF-8 is a malformed URL. */
function decoded(decode: () => string): string {
  try {
    return decode();
  } catch {
    throw new RequestFailed({ kind: 'malformedUrl' });
  }
}

/**
 * Gives the inputs of the matched operation the types that the document declares, in place. The coercion is strict:
 * a text that is not exactly how JSON writes a value of the type stays a text, and fails validation.
 */
export function convertInputs(request: ApiRequest, { inputs, key, path }: Operation): void {
  if (path.includes('{')) readPathParameters(request, path);
  decodeHeader(request, key.header);
  for (const input of inputs) {
    const [source, name] = locate(request, input);
    if (input.in === 'header') decodeHeader(request, name);
    const value = source[name];
    if (value === undefined) continue;
    const problem = Array.isArray(value) ? messages.isRepeated.en : findProblem(value);
    if (problem !== undefined) request.problems.set(input.name, [problem]);
    else if (typeof value === 'string') source[name] = convert(value, input.type);
  }
}

/** A segment has at most one parameter, and may have a literal before and after it. */
function readPathParameters({ path, params }: ApiRequest, template: string): void {
  const segments = path.split('/').reverse();
  for (const [index, part] of template.split('/').reverse().entries()) {
    const [before = '', name, after = ''] = part.split(/[{}]/);
    const segment = segments[index] ?? '';
    if (name) params[name] = decodeURIComponent(segment.slice(before.length, segment.length - after.length));
  }
}

/** Node reads the bytes of a header as Latin-1; clients that send other letters than ASCII's mean UTF-8. */
function decodeHeader({ headers }: ApiRequest, name: string): void {
  const value = headers[name];
  if (typeof value !== 'string' || !/[\x80-\xff]/.test(value)) return;
  const decoded = Buffer.from(value, 'latin1').toString('utf8');
  if (!decoded.includes('\ufffd')) headers[name] = decoded;
}

function locate(request: ApiRequest, input: Input): [Record<string, Json>, string] {
  if (input.in === 'header') return [request.headers, input.name.toLowerCase()];
  return [input.in === 'path' ? request.params : request.query, input.name];
}

function convert(text: string, type: Input['type']): Json {
  if (type === 'integer') return /^(0|-?[1-9]\d*)$/.test(text) ? Number(text) : text;
  if (type === 'number') return /^-?(0|[1-9]\d*)(\.\d+)?$/.test(text) ? Number(text) : text;
  if (type === 'boolean') return text === 'true' || (text === 'false' ? false : text);
  return text;
}

/**
 * Reads a body that has to be a JSON object, whatever its Content-Type says. Throws RequestFailed with `invalidJson` or
 * `invalidInput`.
 */
export function takeBody(request: ApiRequest, bytes: Uint8Array): void {
  const text = toText(bytes);
  const fields = parseJson(text);
  if (typeof fields !== 'object' || fields === null || Array.isArray(fields)) {
    throw new RequestFailed({ kind: 'invalidInput', fields: { body: [messages.isNoObject.en] } });
  }
  if (Object.keys(fields).length > MAX_INPUTS) {
    throw new RequestFailed({ kind: 'invalidInput', fields: { body: [messages.hasTooManyFields.en] } });
  }
  const problems = inspectText(text);
  for (const [name, value] of Object.entries(fields)) {
    const problem = problems.has(name) ? undefined : findProblem(value);
    if (problem !== undefined) problems.set(name, [problem]);
  }
  request.requestBody = fields as Readonly<Record<string, Json>>;
  for (const [field, found] of problems) request.problems.set(field, found);
}

function toText(bytes: Uint8Array): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    throw new RequestFailed({ kind: 'invalidJson' });
  }
}

function parseJson(text: string): Json {
  try {
    return JSON.parse(text);
  } catch {
    throw new RequestFailed({ kind: 'invalidJson' });
  }
}

/**
 * Finds the fields of a JSON object's text that contain a repeated name or are nested too deep. JSON.parse does not tell:
 * of two equal names it keeps the last. Hand-written, because libraries that report repeated names are recursive, and a
 * body of 100 kB can be nested 50,000 levels deep.
 */
function inspectText(text: string): Problems {
  const problems: Problems = new Map();
  /** The names seen in each open object; an array has none. */
  const open: (Set<string> | undefined)[] = [];
  let field = '';
  let string = '';
  for (let at = 0; at < text.length; at += 1) {
    const sign = text[at];
    if (sign === '"') {
      const end = findStringEnd(text, at);
      string = text.slice(at, end + 1);
      at = end;
    } else if (sign === '{' || sign === '[') {
      open.push(sign === '{' ? new Set() : undefined);
      // The object itself is a level of its own.
      if (open.length === MAX_DEPTH + 2) problems.set(field, [messages.isTooDeep.en]);
    } else if (sign === '}' || sign === ']') {
      open.pop();
    } else if (sign === ':') {
      const name: string = string.includes('\\') ? JSON.parse(string) : string.slice(1, -1);
      const names = open.at(-1);
      if (open.length === 1) field = name;
      if (names?.has(name) && !problems.has(field)) problems.set(field, [messages.isRepeated.en]);
      names?.add(name);
    }
  }
  return problems;
}

/** The index of the quote that ends the string at an index. The text is valid JSON. */
function findStringEnd(text: string, begin: number): number {
  let at = begin + 1;
  while (text[at] !== '"') at += text[at] === '\\' ? 2 : 1;
  return at;
}

/** Why Postgres cannot store a value as it is; undefined if it can. */
export function findProblem(value: Json): string | undefined {
  if (typeof value === 'string' && (value.includes('\0') || !value.isWellFormed())) {
    return messages.isNoText.en;
  }
  // JSON.parse reads 1e400 as infinity, which JSON cannot write again.
  if (typeof value === 'number' && !Number.isFinite(value)) return messages.isOutOfRange.en;
  if (typeof value !== 'object' || value === null) return undefined;
  for (const parts of Array.isArray(value) ? [value] : [Object.keys(value), Object.values(value)]) {
    for (const part of parts) {
      const problem = findProblem(part);
      if (problem !== undefined) return problem;
    }
  }
  return undefined;
}
