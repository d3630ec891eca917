// The only place that writes bodies.

import { hash } from 'node:crypto';
import { type ServerResponse, STATUS_CODES } from 'node:http';
import type { Outcome } from '../api/handler.ts';
import { type Failure, toHttpError } from '../errors.ts';
import { SECURITY_HEADERS } from '../openapi/headers.ts';
import { chooseEncoding, encodeText } from './compression.ts';
import { contextOf } from './context.ts';

export type Headers = Readonly<Record<string, string>>;

/** A complete answer. */
export type Answer = {
  readonly status: number;
  readonly headers: Headers;
  /** Undefined for a status that has no content. */
  readonly body: string | Uint8Array | undefined;
};

const NO_CONTENT = 204;
/** A longer text is written as bytes. */
const LONG_TEXT = 32_768;

/** The headers of the answers of operations. */
const API_HEADERS: Headers = {
  ...SECURITY_HEADERS,
  'Content-Type': 'application/json; charset=utf-8',
  // The answer belongs to one tenant, and a shared cache ignores the key's header.
  'Cache-Control': 'no-store',
  Vary: 'Accept-Encoding',
};

/** Headers that middleware may have set too: their values are joined. */
const JOINED = ['Vary', 'RateLimit', 'RateLimit-Policy'];

/** Writes the answer to a request; does nothing after another answer, or when the client has disconnected. */
export function respond(res: ServerResponse, outcome: Outcome): void {
  write(res, toAnswer(outcome));
}

/** Writes an answer as sendText does, but refuses it if too many answers are unread. */
export function sendCounted(res: ServerResponse, answer: Answer): void {
  const refused = contextOf(res).admitAnswer(Buffer.byteLength(answer.body ?? ''));
  if (refused) respond(res, refused);
  else sendText(res, answer);
}

/** Writes an answer that is not an operation's outcome. */
export function sendText(res: ServerResponse, { headers, ...answer }: Answer): void {
  write(res, { ...answer, headers: { ...SECURITY_HEADERS, ...headers } });
}

function toAnswer(outcome: Outcome): Answer {
  if ('failure' in outcome) {
    const { status, error, headers } = toHttpError(outcome.failure);
    return { status, body: JSON.stringify({ error }), headers: toHeaders({ ...headers, ...outcome.headers }) };
  }
  const { status, json, headers, keyHeader } = outcome;
  if (json === '') {
    // A 204 must not have a Content-Length (RFC 9110, 8.6).
    return { status, body: status === NO_CONTENT ? undefined : '', headers: withoutType(toHeaders(headers)) };
  }
  const cached = keyHeader ? toCacheHeaders(json, keyHeader) : {};
  return { status, body: json, headers: toHeaders({ ...headers, ...cached }) };
}

/** The headers of an operation's answer. */
function toHeaders(own: Headers = {}): Headers {
  return { ...API_HEADERS, ...own, ...(own.Vary && { Vary: `${own.Vary}, ${API_HEADERS.Vary}` }) };
}

function withoutType({ 'Content-Type': _type, ...others }: Headers): Headers {
  return others;
}

/** The client may keep a copy, but must revalidate it each time (RFC 9111, 5.2.2.4). */
function toCacheHeaders(json: string, keyHeader: string): Headers {
  return { ETag: toEntityTag(json), 'Cache-Control': 'private, no-cache', Vary: keyHeader };
}

function write(res: ServerResponse, { status, headers, body }: Answer): void {
  if (!isAwaited(res)) return;
  if (headers.ETag && hasCopy(res.req.headers['if-none-match'], headers.ETag)) {
    // A 304 has no body to describe (RFC 9110, 15.4.5).
    send(res, 304, withoutType(headers));
    return;
  }
  // Bytes are sent as they are.
  const text = typeof body === 'string' ? body : '';
  const encoding = chooseEncoding(res.req, Buffer.byteLength(text));
  if (!encoding) {
    send(res, status, headers, body);
    return;
  }
  const encodedHeaders = { ...headers, 'Content-Encoding': encoding };
  if (res.req.method === 'HEAD') {
    // The length of the encoded body is not known (RFC 9110, 8.6).
    send(res, status, encodedHeaders);
    return;
  }
  const sendEncoded = (bytes: Buffer) => send(res, status, encodedHeaders, bytes);
  // Without a free thread or memory to encode it, the text is sent as it is.
  const sendPlain = () => send(res, status, headers, body);
  const encoded = encodeText(text, encoding);
  if (encoded instanceof Promise) encoded.then(sendEncoded, sendPlain);
  else if (encoded) sendEncoded(encoded);
  else sendPlain();
}

/** Whether the client is connected and has no answer yet. */
function isAwaited(res: ServerResponse): boolean {
  return !res.headersSent && !res.destroyed;
}

function send(res: ServerResponse, status: number, headers: Headers, body?: string | Uint8Array): void {
  // Another answer may have been sent while this one was encoded.
  if (!isAwaited(res)) return;
  // Pass all headers to writeHead at once: after setHeader, Node is slower for each of them.
  const all: Record<string, string | number> = { ...headers, 'X-Request-Id': contextOf(res).id };
  for (const name of JOINED) {
    const set = res.getHeader(name);
    if (set !== undefined) all[name] = [set, all[name] ?? []].flat().join(', ');
  }
  // A long string would take three times its length in memory until the client reads it.
  const payload = typeof body === 'string' && body.length > LONG_TEXT ? Buffer.from(body) : body;
  if (payload !== undefined) all['Content-Length'] = Buffer.byteLength(payload);
  res.writeHead(status, all).end(payload);
}

/**
 * Whether the client has the answer, by its If-None-Match (RFC 9110, 13.1.2). Ignores the request's Cache-Control, which is
 * for caches: fetch sends no-cache with each If-None-Match.
 */
function hasCopy(condition: string | undefined, tag: string): boolean {
  if (condition === undefined) return false;
  const toOpaque = (text: string) => text.trim().replace(/^W\//, '');
  return condition.trim() === '*' || condition.split(',').map(toOpaque).includes(toOpaque(tag));
}

/** The raw HTTP answer for a socket on which Node could not read a request. */
export function toRawResponse(failure: Failure, requestId: string): string {
  const { status, body = '', headers } = toAnswer({ failure });
  const own = { 'X-Request-Id': requestId, 'Content-Length': Buffer.byteLength(body), Connection: 'close' };
  // A server with a clock sends the date (RFC 9110, 6.6.1).
  const lines = Object.entries({ ...headers, Date: new Date().toUTCString(), ...own });
  return [
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
    ...lines.map(([name, value]) => `${name}: ${value}`),
    '',
    body,
  ].join('\r\n');
}

/** The entity tag of a text (RFC 9110, 8.8.3); weak, because compression changes the bytes. */
export function toEntityTag(text: string): string {
  return `W/"${hash('sha1', text, 'base64url')}"`;
}
