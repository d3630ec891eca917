import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import { parse } from 'node:querystring';
import { RequestFailed } from '../errors.ts';
import type { Input, Operation } from '../openapi/operations.ts';
import type { Json } from '../store/store.ts';
import { messages } from './messages.ts';
import { findProblem, type Problems } from './problems.ts';

/** A request taken apart, under the names that openapi-backend uses for the parts. */
export type ApiRequest = {
  readonly method: string;
  /** The path, each segment percent-encoded in one way, so that equal paths are equal texts. */
  readonly path: string;
  readonly headers: Record<string, Json>;
  readonly query: Record<string, Json>;
  readonly params: Record<string, Json>;
  readonly cookies: Record<string, never>;
  requestBody?: Readonly<Record<string, Json>>;
  /** What is wrong with inputs beyond what their schemas can say. */
  readonly problems: Problems;
};

/** Takes a request apart, but for its body. Fails with `malformedUrl` where path or query cannot be decoded. */
export function readRequest(req: IncomingMessage): ApiRequest {
  const url = req.url ?? '/';
  const end = url.includes('?') ? url.indexOf('?') : url.length;
  return {
    method: (req.method ?? '').toLowerCase(),
    path: normalizePath(url.slice(0, end)),
    headers: toRecord(req.headers),
    query: parseQuery(url.slice(end + 1)),
    params: Object.create(null),
    cookies: {},
    problems: new Map(),
  };
}

/**
 * Gives the inputs of the matched operation the types that the document declares, in place. The coercion is strict:
 * a text that is not exactly how JSON writes a value of the type stays a text, and fails validation as that.
 */
export function convertInputs(request: ApiRequest, { inputs, key }: Operation): void {
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

/** What percent-encoding leaves as it is, and the sign between segments. */
const PLAIN_PATH = /^[\w.!~*'()/-]*$/;

/** A path with each segment percent-encoded in one way. */
export function normalizePath(path: string): string {
  if (PLAIN_PATH.test(path)) return path;
  return path
    .split('/')
    .map((segment) => encodeURIComponent(decode(segment)))
    .join('/');
}

/** The query by name; a repeated name has an array of its values. */
function parseQuery(query: string): Record<string, Json> {
  // The parser keeps a malformed escape as it is. No escape spans a separator, so one look at the whole finds it.
  if (query.includes('%')) decode(query);
  return parse(query, '&', '=', { maxKeys: 0 }) as Record<string, Json>;
}

/** Throws for anything but percent-encoded UTF-8. */
export function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw new RequestFailed({ kind: 'malformedUrl' });
  }
}

function toRecord(headers: IncomingHttpHeaders): Record<string, Json> {
  // Node joins repeated headers by a comma; the one that it keeps as a list is no input of ours.
  return headers as Record<string, Json>;
}
