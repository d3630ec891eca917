// HTTP servers: their limits, what Node cannot parse, listening and closing.

import { once } from 'node:events';
import { createServer as createHttpServer, IncomingMessage, type Server, ServerResponse } from 'node:http';
import { type AddressInfo, createServer as createNetServer, Server as NetServer } from 'node:net';
import type { Duplex } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import { getSystemErrorMessage } from 'node:util';
import type { Express } from 'express';
import type { Config } from '../config.ts';
import { type Failure, OperatorError, toHttpError } from '../errors.ts';
import type { Log } from '../telemetry/log.ts';
import type { RequestRecord } from '../telemetry/record.ts';
import { createApp, type Endpoints } from './app.ts';
import { contextOf, createContexts, createFaultHandler, createRecord, type Sink } from './context.ts';
import { limitReading } from './memory.ts';
import { respond, toRawResponse } from './respond.ts';

/** An HTTP server that can stop without failing its current requests. */
export type GatewayServer = Server & {
  /**
   * Ends the server. For `noticeMs` milliseconds it keeps serving, but every answer closes its socket, so that balancers and
   * clients go elsewhere without losing a request. Then it accepts no more sockets, closes idle ones, waits at most
   * `finishMs` for the answers on the others, and destroys the rest.
   */
  drain(times: { readonly noticeMs: number; readonly finishMs: number }): Promise<void>;
  /** The number of open client sockets, and the number refused so far. */
  sockets(): { readonly open: number; readonly refused: number };
};

/** The maximum number of unanswered requests of a socket. */
const MAX_PIPELINED = 32;
/**
 * Inactivity timeout of a socket, in milliseconds: longer than the maximum deadline and the delay of a refusal. After
 * that, the client is not reading its answer.
 */
const INACTIVITY_MS = 75_000;

/** The time for requests in progress after the port is closed, in milliseconds. */
const FINISH_MS = 10_000;

/** Failures by the code of Node's error; any other error is a bad request. */
const FAILURES: Record<string, Failure> = {
  HPE_HEADER_OVERFLOW: { kind: 'headersTooLarge' },
  HPE_INVALID_URL: { kind: 'malformedUrl' },
  ERR_HTTP_REQUEST_TIMEOUT: { kind: 'requestTimeout' },
};

/**
 * Creates the HTTP server: sets its limits, and answers requests that Node cannot parse in the gateway's JSON form.
 * Clients may have `maxSockets` sockets open. The server handles pipelined requests of a socket one at a time, so a
 * socket holds at most one answer in memory. The sinks receive the requests that do not reach the application.
 */
export function createServer(
  app: Express,
  { maxSockets }: Pick<Config, 'maxSockets'>,
  sinks: readonly Sink[],
): GatewayServer {
  /** Every open socket with its unfinished answers; the first one is being handled. */
  const sockets = new Map<Duplex, ServerResponse[]>();
  /** The last request of each socket that was answered before its body ended. */
  const answered = new WeakMap<Duplex, IncomingMessage>();
  let refused = 0;
  let isDraining = false;

  const onRequest = (req: IncomingMessage, res: ServerResponse): void => {
    const pending = sockets.get(req.socket);
    if (!pending || pending.length >= MAX_PIPELINED) {
      req.socket.destroy();
      return;
    }
    res.on('prefinish', () => limitReading(res));
    res.on('close', () => {
      pending.splice(pending.indexOf(res), 1);
      if (!req.complete) answered.set(req.socket, req);
      const [next] = pending;
      // A request with an unreadable body was answered before its turn (see clientError).
      if (next && !next.headersSent && req.socket.writable) serve(next);
      else if (!next && !server.listening) req.socket.end();
    });
    pending.push(res);
    if (pending.length === 1) serve(res);
  };

  const serve = (res: ServerResponse): void => {
    const { req } = res;
    // Node does not parse the bytes after an upgrade request as HTTP.
    if (isDraining || req.headers.upgrade !== undefined) res.setHeader('Connection', 'close');
    req.url = toOriginForm(req.url ?? '/');
    app(req, res);
  };

  const server = createHttpServer(
    {
      ...createMessageClasses(app),
      headersTimeout: 5_000,
      requestTimeout: 10_000,
      connectionsCheckingInterval: 1_000,
      // Buffer size for a body that is not read yet: a pipelined request that waits its turn may have one.
      highWaterMark: 16_384,
      // Longer than proxies keep an idle socket: otherwise a proxy could send a request on a socket that just closed.
      keepAliveTimeout: 75_000,
      // Node's own answer to a request without Host has no body, so the application checks for Host.
      requireHostHeader: false,
      // Otherwise Node would silently drop the second of two Host headers.
      joinDuplicateHeaders: true,
    },
    onRequest,
  );
  server.timeout = INACTIVITY_MS;
  server.maxConnections = maxSockets;
  Object.assign(server, {
    // Without this, a worker would return an excess socket to the primary process, which would offer it repeatedly.
    dropMaxConnection: true,
    // Node treats a socket with a written but unread answer as idle. `drain` closes the idle ones instead.
    closeIdleConnections: () => {},
  });
  server.on('drop', () => {
    refused += 1;
  });
  server.on('connection', (socket) => {
    sockets.set(socket, []);
    socket.once('close', () => sockets.delete(socket));
  });
  // readBody sends 100 Continue when the body is wanted.
  server.on('checkContinue', onRequest);
  server.on('checkExpectation', onRequest);
  const passOn = (record: RequestRecord, failure: Failure, responseBytes: number): void => {
    const { status } = toHttpError(failure);
    for (const sink of sinks) sink({ ...record, endpoint: 'none', status, durationMs: 0, responseBytes });
  };
  const refuse = (socket: Duplex, failure: Failure, record: RequestRecord): void => {
    const answer = toRawResponse(failure, record.id);
    end(socket, answer);
    passOn(record, failure, Buffer.byteLength(answer));
  };
  server.on('connect', ({ method = '', url = '', headers }, socket) => {
    refuse(socket, { kind: 'methodNotAllowed', allow: [] }, createRecord(method, url, headers));
  });
  server.on('clientError', (error: NodeJS.ErrnoException, socket) => {
    const failure = FAILURES[error.code ?? ''] ?? { kind: 'badRequest' };
    const pending = sockets.get(socket) ?? [];
    const isAnswered = pending.length === 0 && answered.get(socket)?.complete === false;
    if (!socket.writable || error.code === 'ECONNRESET' || isAnswered) {
      socket.destroy();
    } else if (pending.length === 0) {
      refuse(socket, failure, createRecord('', '', {}));
    } else {
      // A request with an unreadable body gets this answer. Bad bytes after a complete request get none: the client
      // would take it for the answer to that request.
      closeAfter(pending);
      for (const res of pending.filter(({ req, headersSent }) => !req.complete && !headersSent)) {
        respond(res, { failure });
        // The application reports the request that it is handling itself.
        if (res !== pending[0]) passOn(contextOf(res), failure, 0);
      }
    }
  });

  const drain: GatewayServer['drain'] = async ({ noticeMs, finishMs }) => {
    isDraining = true;
    for (const pending of sockets.values()) closeAfter(pending);
    if (noticeMs > 0) await delay(noticeMs);
    const timer = setTimeout(() => {
      for (const socket of sockets.keys()) socket.destroy();
    }, finishMs);
    const closed = once(server, 'close');
    // Unlike the HTTP server's own close, this keeps Node's check of stalled requests, until the last request ends.
    NetServer.prototype.close.call(server);
    for (const [socket, pending] of sockets) if (pending.length === 0) socket.destroy();
    await closed;
    server.close();
    clearTimeout(timer);
  };
  return Object.assign(server, { drain, sockets: () => ({ open: sockets.size, refused }) });
}

/** Checks the ports before a store is created. Throws OperatorError if the gateway cannot listen on one. */
export async function checkPorts({ port, metricsPort, host }: Config): Promise<void> {
  for (const [variable, number] of Object.entries({ PORT: port, METRICS_PORT: metricsPort })) {
    if (number === undefined) continue;
    const probe = createNetServer();
    await listen(probe, variable, number, host);
    await new Promise((resolve) => probe.close(resolve));
  }
}

/** Opens METRICS_PORT, if it is set, with these endpoints. Throws OperatorError if it cannot listen. */
export async function openOperationalServer(
  config: Config,
  operational: Endpoints,
  log: Pick<Log, 'request' | 'fault'>,
): Promise<GatewayServer | undefined> {
  const { metricsPort, host } = config;
  if (metricsPort === undefined) return undefined;
  const sinks = [log.request];
  const contexts = createContexts({ sinks, proxyHops: 0, bodyLimit: 0 });
  const app = createApp({ contexts, operational, onFault: createFaultHandler(log) });
  const server = createServer(app, config, sinks);
  await listen(server, 'METRICS_PORT', metricsPort, host);
  return server;
}

/** Listens on the port that an environment variable gives. Throws OperatorError if it cannot. */
export async function listen(server: NetServer, variable: string, port: number, host: string): Promise<void> {
  server.listen(port, host);
  try {
    await once(server, 'listening');
  } catch (cause) {
    const { code, errno = 0 } = cause as NodeJS.ErrnoException;
    const message =
      code === 'EADDRINUSE'
        ? `port ${port} of ${host} is in use: set ${variable} to another port`
        : `cannot listen on ${host} port ${port}: ${getSystemErrorMessage(errno)} (${code})`;
    throw new OperatorError(message, { cause });
  }
}

/** Closes a port if it is open: keeps serving for `noticeMs` milliseconds, and finishes the requests in progress. */
export async function close(server: GatewayServer | undefined, noticeMs = 0): Promise<void> {
  if (server?.listening) await server.drain({ noticeMs, finishMs: FINISH_MS });
}

/** The origin of a listening server, for clients on this machine. */
export function toOrigin(server: Server): string {
  const { address, family, port } = server.address() as AddressInfo;
  const reachable = address === '0.0.0.0' ? '127.0.0.1' : address === '::' ? '::1' : address;
  return `http://${family === 'IPv6' ? `[${reachable}]` : reachable}:${port}`;
}

/**
 * The classes of the messages that Express works with. Express would otherwise change the prototype of each message, which
 * makes Node's own code slower.
 */
function createMessageClasses(app: Express) {
  class Request extends IncomingMessage {}
  class Response extends ServerResponse {}
  app.request = Object.setPrototypeOf(Request.prototype, app.request);
  app.response = Object.setPrototypeOf(Response.prototype, app.response);
  return { IncomingMessage: Request, ServerResponse: Response };
}

/** Converts the absolute form of a request target, which a server has to accept (RFC 9112, 3.2.2). */
function toOriginForm(target: string): string {
  if (target.startsWith('/')) return target;
  const path = target.replace(/^https?:\/\/[^/?#]*/i, '');
  return path.startsWith('/') ? path : `/${path}`;
}

/** Closes a socket after the last one of its unfinished answers. */
function closeAfter(pending: readonly ServerResponse[]): void {
  const last = pending.at(-1);
  if (last && !last.headersSent) last.setHeader('Connection', 'close');
}

/** Sends an answer on an unusable socket and closes it, whether the client closes its end or not. */
function end(socket: Duplex, answer: string): void {
  // Node has removed its own error listener in some of these cases; without one, an error would crash the process.
  socket.on('error', () => socket.destroy());
  socket.end(answer, () => socket.destroy());
}
