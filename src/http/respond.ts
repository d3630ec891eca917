// The only place that writes bodies.

import { hash } from 'node:crypto';
import { type IncomingMessage, type ServerResponse, STATUS_CODES } from 'node:http';
import helmet from 'helmet';
import { type Failure, toHttpError } from '../errors.ts';
import { observe } from '../telemetry/record.ts';
import { chooseEncodingOf, encodeText } from './compression.ts';

type Headers = Readonly<Record<string, string>>;

/** How a request ended: JSON text with its status, or a failure. */
export type Outcome = Success | { readonly failure: Failure };

/** JSON text with its status, and headers of its own. */
export type Success = {
  readonly status: number;
  readonly json: string;
  readonly headers?: Headers;
  /** The request header that tells one client's copy from another's; without it no copy may be kept. */
  readonly keptBy?: string | undefined;
};

/** A whole answer. */
export type Answer = { readonly status: number; readonly headers: Headers; readonly body: string | Uint8Array };

/** From so many letters on a text is written as bytes. */
const LONG_TEXT = 32_768;

const SECURITY = readSecurityHeaders();
const HEADERS: Headers = {
  ...SECURITY,
  'Content-Type': 'application/json; charset=utf-8',
  // The answer is one tenant's, told apart by a header that a shared cache does not look at.
  'Cache-Control': 'no-store',
  // Whether this one was compressed or not.
  Vary: 'Accept-Encoding',
};

/** Writes the answer; does nothing where one was begun or the client is gone. */
export function respond(res: ServerResponse, outcome: Outcome): void {
  write(res, toAnswer(outcome));
}

/** Writes an answer that is no outcome of an operation, with the security headers that nobody has set by then. */
export function sendText(res: ServerResponse, { headers, ...answer }: Answer): void {
  const missing = Object.entries(SECURITY).filter(([name]) => !res.hasHeader(name));
  write(res, { ...answer, headers: { ...Object.fromEntries(missing), ...headers } });
}

function write(res: ServerResponse, { status, headers, body }: Answer): void {
  if (!isAwaited(res)) return;
  if (headers.ETag && isKept(res.req.headers['if-none-match'], headers.ETag)) {
    // It describes a body, and there is none (RFC 9110, 15.4.5).
    const { 'Content-Type': _type, ...others } = headers;
    send(res, 304, others);
    return;
  }
  // Bytes are encoded already, or are not to be.
  const text = typeof body === 'string' ? body : '';
  const encoding = chooseEncodingOf(text, res.req);
  if (!encoding) {
    send(res, status, headers, body);
    return;
  }
  const encodedHeaders = { ...headers, 'Content-Encoding': encoding };
  if (res.req.method === 'HEAD') {
    // The length of what is not encoded would be wrong, and the other one is not known (RFC 9110, 8.6).
    send(res, status, encodedHeaders);
    return;
  }
  const sendEncoded = (bytes: Buffer) => send(res, status, encodedHeaders, bytes);
  // Where there is no thread or no memory to encode it, the text itself will do.
  const sendPlain = () => send(res, status, headers, body);
  const encoded = encodeText(text, encoding);
  if (encoded instanceof Promise) encoded.then(sendEncoded, sendPlain);
  else if (encoded) sendEncoded(encoded);
  else sendPlain();
}

/** Whether there is somebody to answer, and nothing of an answer yet. */
function isAwaited(res: ServerResponse): boolean {
  return !res.headersSent && !res.destroyed;
}

function send(res: ServerResponse, status: number, headers: Headers, body?: string | Uint8Array): void {
  // Another answer may have come first while this one was encoded.
  if (!isAwaited(res)) return;
  // All at once, for as soon as one is set by itself Node takes a slower way for each of them.
  const all: Record<string, string | number> = { ...headers, 'X-Request-Id': observe(res.req, res).id };
  // What middleware has set is added to, and no header is there twice.
  const vary = res.getHeader('Vary');
  if (vary !== undefined) all.Vary = [vary, headers.Vary ?? []].flat().join(', ');
  // A long text would take three times its length in memory while its client does not read it.
  const payload = typeof body === 'string' && body.length > LONG_TEXT ? Buffer.from(body) : body;
  if (payload !== undefined) all['Content-Length'] = Buffer.byteLength(payload);
  res.writeHead(status, all).end(payload);
}

/**
 * Whether the client has the answer, by its If-None-Match (RFC 9110, 13.1.2). Its Cache-Control does not matter: that
 * speaks to caches on the way, and fetch sends no-cache by itself with each If-None-Match.
 */
function isKept(condition: string | undefined, tag: string): boolean {
  if (condition === undefined) return false;
  const toOpaque = (text: string) => text.trim().replace(/^W\//, '');
  return condition.trim() === '*' || condition.split(',').map(toOpaque).includes(toOpaque(tag));
}

/** The whole answer as it goes over the wire, for a connection on which Node could not read a request. */
export function toRawResponse(failure: Failure): string {
  const { status, body, headers } = toAnswer({ failure });
  const lines = Object.entries({ ...headers, 'Content-Length': Buffer.byteLength(body), Connection: 'close' });
  return [
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
    ...lines.map(([name, value]) => `${name}: ${value}`),
    '',
    body,
  ].join('\r\n');
}

function toAnswer(outcome: Outcome): Answer {
  if ('failure' in outcome) {
    const { status, error, headers } = toHttpError(outcome.failure);
    const vary = headers?.Vary ? { Vary: `${headers.Vary}, ${HEADERS.Vary}` } : {};
    return { status, body: JSON.stringify({ error }), headers: { ...HEADERS, ...headers, ...vary } };
  }
  const { status, json, headers, keptBy } = outcome;
  return { status, body: json, headers: { ...HEADERS, ...headers, ...(keptBy ? toKept(json, keptBy) : {}) } };
}

/** The tag that tells a text from others (RFC 9110, 8.8.3): a weak one, because its bytes differ by their compression. */
export function toEntityTag(text: string): string {
  return `W/"${hash('sha1', text, 'base64url')}"`;
}

/** The client may keep its copy, and asks each time whether it still holds (RFC 9111, 5.2.2.4). */
function toKept(json: string, keptBy: string): Headers {
  return { ETag: toEntityTag(json), 'Cache-Control': 'private, no-cache', Vary: `${keptBy}, ${HEADERS.Vary}` };
}

/** helmet's headers for answers that no browser shows; they do not depend on the request. */
function readSecurityHeaders(): Headers {
  const headers: Record<string, string> = {};
  const setHeaders = helmet({
    contentSecurityPolicy: { useDefaults: false, directives: { defaultSrc: ["'none'"], frameAncestors: ["'none'"] } },
    // Other hosts of the domain are none of the gateway's business.
    strictTransportSecurity: { includeSubDomains: false },
    crossOriginOpenerPolicy: false,
    originAgentCluster: false,
    xDnsPrefetchControl: false,
    xDownloadOptions: false,
    xFrameOptions: false,
    xPermittedCrossDomainPolicies: false,
    xXssProtection: false,
  });
  const res = {
    setHeader: (name: string, value: string) => {
      headers[name] = value;
    },
    removeHeader: () => {},
  };
  setHeaders({} as IncomingMessage, res as unknown as ServerResponse, () => {});
  return headers;
}
