// The context of each request, from its arrival to the end of its answer, and the reading of its body.

import { randomUUID } from 'node:crypto';
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import type { RequestHandler } from 'express';
import ipaddr from 'ipaddr.js';
import proxyAddr from 'proxy-addr';
import { ClientGone } from '../api/call.ts';
import type { RequestContext } from '../api/request.ts';
import type { Config } from '../config.ts';
import { type Failure, type Fault, RequestFailed, storeFault, toHttpError } from '../errors.ts';
import type { Log } from '../telemetry/log.ts';
import { type EndedRequest, PROBES, type RequestRecord, readPath, type Span } from '../telemetry/record.ts';
import type { MemoryBudget } from './memory.ts';

/** Receives each request whose answer was sent. */
export type Sink = (request: EndedRequest) => void;

type ContextOptions = Pick<Config, 'bodyLimit' | 'proxyHops'> & {
  /** They receive every request, soon after its end. */
  readonly sinks: readonly Sink[];
  readonly startSpan?: ((record: RequestRecord) => Span) | undefined;
  /** Bounds the memory of answers that clients have not read yet; undefined for no bound. */
  readonly unread?: MemoryBudget | undefined;
  /** Bounds the memory of bodies that have not arrived completely. */
  readonly incoming?: MemoryBudget | undefined;
};

/** The status in logs and metrics if the client disconnected before the answer was sent. */
const CLIENT_GONE = toHttpError({ kind: 'clientGone' }).status;
const SANE_ID = /^[\w.:/+=@~-]{1,128}$/;
/** Matches an API key, or a part of one that is longer than the prefix in logs and lists. */
const KEY_SHAPE = /wms_[a-z]{1,10}_[0-9A-Za-z]{9}/;
/** Version 00, or a later one, which may add fields. All-zero ids are invalid. */
const TRACEPARENT = /^(?!ff|00.{54})[0-9a-f]{2}-(?!0+-)[0-9a-f]{32}-(?!0+-)[0-9a-f]{16}-[0-9a-f]{2}(?:$|-)/;

/** Creates the record of a request. */
export function createRecord(method: string, url: string, headers: IncomingHttpHeaders): RequestRecord {
  return { method, url, headers, id: readId(headers), traceparent: readTraceparent(headers) };
}

/** The gateway and the store log the id, so it must not be an API key that was sent by mistake. */
function readId({ 'x-request-id': id }: IncomingHttpHeaders): string {
  return typeof id === 'string' && SANE_ID.test(id) && !KEY_SHAPE.test(id) ? id : randomUUID();
}

function readTraceparent({ traceparent }: IncomingHttpHeaders): string | undefined {
  return typeof traceparent === 'string' && TRACEPARENT.test(traceparent) ? traceparent : undefined;
}

/**
 * A request on a socket. What only some requests need is computed on demand. Its functions are methods: closures in its
 * fields would outlive young garbage collections, which then take four times as long.
 */
class HttpContext implements RequestContext, EndedRequest {
  readonly method: string;
  readonly url: string;
  readonly headers: IncomingHttpHeaders;
  readonly id: string;
  readonly traceparent: string | undefined;
  readonly startedAt = performance.now();
  operation: RequestContext['operation'];
  /** The path of the gateway's own endpoint. A path that a client made up must not become a metric's label. */
  ownPath: string | undefined;
  key: string | undefined;
  admission: RequestContext['admission'];
  storeMs: number | undefined;
  /** The status of a tool call's operation; the HTTP status is 200. */
  toolStatus: number | undefined;
  fault: Fault | undefined;
  span: Span | undefined;
  hasEnded = false;
  status = CLIENT_GONE;
  durationMs = 0;
  responseBytes = 0;
  readonly #res: ServerResponse;
  readonly #options: ContextOptions | undefined;
  #network: string | undefined;
  #controller: AbortController | undefined;

  constructor(res: ServerResponse, options?: ContextOptions) {
    const { method = '', url = '/', headers } = res.req;
    this.method = method;
    this.url = url;
    this.headers = headers;
    this.id = readId(headers);
    this.traceparent = readTraceparent(headers);
    this.#res = res;
    this.#options = options;
  }

  get endpoint(): string {
    return this.operation?.id ?? this.ownPath ?? 'none';
  }

  get isAdmitted(): boolean {
    return this.admission !== undefined && this.admission.retryAfter === undefined;
  }

  get network(): string {
    this.#network ??= toNetwork(readAddress(this.#res.req, this.#options?.proxyHops));
    return this.#network;
  }

  get controller(): AbortController {
    this.#controller ??= createController(this.#res);
    return this.#controller;
  }

  async readBody(): Promise<Uint8Array> {
    const { bodyLimit = 0, incoming } = this.#options ?? {};
    let counted = 0;
    const admit = (size: number): Fault | undefined => {
      if (!incoming || size <= UNCOUNTED_BYTES) return undefined;
      if (!incoming.take(this.network, size - counted, counted)) {
        return storeFault('storeOverloaded', `${incoming.bytes} bytes wait for the rest of their bodies`).failure;
      }
      counted = size;
      return undefined;
    };
    const release = () => {
      if (counted > 0) incoming?.give(this.network, counted);
      counted = 0;
    };
    // After the client has disconnected, the body may never end.
    this.#res.once('close', release);
    return readBody(this.#res, bodyLimit, admit).finally(release);
  }

  /** Counts an answer until the client has read it. Returns a fault if too many answers are unread. */
  admitAnswer(bytes: number): { readonly failure: Fault } | undefined {
    const { unread } = this.#options ?? {};
    if (!unread || unread.admit(this.#res, this.key ?? this.network, bytes)) return undefined;
    const refused = storeFault('storeOverloaded', `${unread.bytes} bytes wait for clients to read them`);
    this.fault ??= refused.failure;
    return refused;
  }

  /** Records how the request ended. */
  close(responseBytes: number): void {
    this.durationMs = performance.now() - this.startedAt;
    this.responseBytes = responseBytes;
    this.status = this.#res.writableFinished ? (this.toolStatus ?? this.#res.statusCode) : CLIENT_GONE;
    // The route of a tool call is the path of MCP.
    const route = this.ownPath ?? this.operation?.route;
    this.span?.end({ 'http.response.status_code': this.status, ...(route && { 'http.route': route }) }, this.fault);
  }
}

function createController(res: ServerResponse): AbortController {
  const controller = new AbortController();
  const abort = () => controller.abort(new ClientGone('the client has disconnected'));
  if (res.closed) abort();
  else {
    res.once('close', () => {
      if (!res.writableFinished) abort();
    });
  }
  return controller;
}

/**
 * The address of a request's client, as the outermost of `proxyHops` trusted proxies reports it. A header that the client could
 * have written itself is ignored.
 */
export function readAddress(req: IncomingMessage, proxyHops = 0): string {
  const address = proxyHops === 0 ? req.socket.remoteAddress : proxyAddr(req, (_address, hop) => hop < proxyHops);
  return address ?? '';
}

/**
 * The network of one client: an IPv4 address, or 64 bits of an IPv6 address (RFC 6177). A proxy may add the port, which is
 * ignored.
 */
export function toNetwork(address: string): string {
  const text = address.replace(/^\[(.*)\](:\d+)?$/, '$1').replace(/^([\d.]+):\d+$/, '$1');
  if (!ipaddr.isValid(text)) return text.slice(0, 100);
  const parsed = ipaddr.process(text);
  return 'parts' in parsed ? parsed.parts.slice(0, 4).join(':') : parsed.toString();
}

const CONTEXT = Symbol('context');
type WithContext = ServerResponse & { [CONTEXT]?: HttpContext };

/** Finds the context of a response's request. Creates one, without a body, if the request did not reach the application. */
export function contextOf(res: WithContext): HttpContext {
  res[CONTEXT] ??= new HttpContext(res);
  return res[CONTEXT];
}

/** Creates the first middleware: it creates the context of each request, and passes it to the sinks when the request ends. */
export function createContexts(options: ContextOptions): RequestHandler {
  const { sinks, startSpan } = options;
  let closed: HttpContext[] = [];
  // All requests that end in one turn of the event loop are passed on together, after the turn's answers were written:
  // each sink's code is then in the processor's caches, which saves a tenth of the time of a short request.
  const passOn = (context: HttpContext): void => {
    if (closed.push(context) > 1) return;
    setImmediate(() => {
      const requests = closed;
      closed = [];
      for (const request of requests) request.hasEnded = true;
      for (const sink of sinks) for (const request of requests) sink(request);
    });
  };
  return (req, res: WithContext, next) => {
    const context = new HttpContext(res, options);
    res[CONTEXT] = context;
    if (startSpan && !PROBES.includes(readPath(context))) context.span = startSpan(context);
    const { socket } = req;
    const begin = socket.bytesWritten;
    // Runs before the server's listener, which serves the next request of the socket.
    res.prependListener('close', () => {
      context.close(socket.bytesWritten - begin);
      passOn(context);
    });
    next();
  };
}

/** Records a fault on its request's log line; on a separate line if that one is already written or has a fault. */
export function createFaultHandler(log: Pick<Log, 'fault'>): (fault: Fault, context: RequestContext) => void {
  return (fault, context) => {
    if (context.hasEnded || context.fault) log.fault('A fault beside an answer', fault, context);
    else context.fault = fault;
  };
}

/** Reading one chunk takes as long as reading this many bytes, so a body may have as many chunks as its limit divided by this. */
const BYTES_PER_CHUNK = 40;
/** Every body may have this many chunks. */
const MIN_CHUNKS = 100;

/** A body up to this size is not counted: nearly all bodies are smaller, and arrive at once. */
const UNCOUNTED_BYTES = 4_000;

/**
 * Reads the body of a request. Fails with `bodyTooLarge` as soon as it is known to have more than `limit` bytes or too
 * many chunks, with `invalidJson` if the client does not send all of it, and with the fault that `admit` returns for its size so far.
 */
function readBody(res: ServerResponse, limit: number, admit: (size: number) => Fault | undefined): Promise<Uint8Array> {
  const { req } = res;
  return new Promise((resolve, reject) => {
    const fail = (failure: Failure) => {
      // The rest is read and dropped: a client that is busy sending would never see the answer.
      req.off('data', onData).resume();
      chunks.length = 0;
      reject(new RequestFailed(failure));
    };
    const chunks: Buffer[] = [];
    let size = 0;
    const onData = (chunk: Buffer) => {
      chunks.push(chunk);
      size += chunk.length;
      const failure = size > limit ? ({ kind: 'bodyTooLarge' } as const) : admit(size);
      if (failure) fail(failure);
      else if (isChunked && chunks.length > maxChunks) {
        // Reading the rest would cost more than a new connection.
        res.setHeader('Connection', 'close');
        fail({ kind: 'bodyTooLarge' });
      }
    };
    const isChunked = req.headers['transfer-encoding'] !== undefined;
    const maxChunks = Math.max(MIN_CHUNKS, limit / BYTES_PER_CHUNK);
    if (Number(req.headers['content-length'] ?? 0) > limit) {
      fail({ kind: 'bodyTooLarge' });
      return;
    }
    // A client of HTTP/1.0 would take 100 Continue for the answer (RFC 9110, 15.2).
    if (req.headers.expect && req.httpVersion !== '1.0') res.writeContinue();
    req.on('data', onData);
    req.once('end', () => resolve(Buffer.concat(chunks)));
    req.once('error', () => fail({ kind: 'invalidJson' }));
  });
}
