import {
  createServer as createHttpServer,
  type IncomingMessage,
  type RequestListener,
  type Server,
  type ServerResponse,
} from 'node:http';
import type { Duplex } from 'node:stream';
import type { Failure } from '../errors.ts';
import { ExpressRequest, ExpressResponse } from './app.ts';
import { respond, toRawResponse } from './respond.ts';
import { limitReading } from './unread.ts';

/** An HTTP server that can be stopped without failing a request that it has begun. */
export type GatewayServer = Server & {
  /**
   * Takes no more connections, ends those on which nothing is under way, and gives every other one its answer, for
   * at most `ms` milliseconds; then the rest is cut.
   */
  drain(ms: number): Promise<void>;
  /** The sockets that clients have open, and how many more have been refused so far. */
  sockets(): { readonly open: number; readonly refused: number };
};

/** How many requests a socket may have sent that are not answered yet. */
const MAX_PIPELINED = 32;
/**
 * How long a connection may be silent, in milliseconds: beyond what an answer may take, which is the longest deadline
 * and a refusal that comes late, it is a client that reads nothing of its answer.
 */
const SILENT_MS = 75_000;

/** What Node's parser refuses by itself, by its error code; any other is a bad request. */
const failures: Record<string, Failure> = {
  HPE_HEADER_OVERFLOW: { kind: 'headersTooLarge' },
  ERR_HTTP_REQUEST_TIMEOUT: { kind: 'requestTimeout' },
};

/**
 * Builds the HTTP server: its limits, and the one form of errors for what never becomes a request. Clients may have
 * `maxSockets` open. The requests of a socket are worked on one at a time, so that it keeps one answer in memory, however
 * many it has asked for.
 */
export function createServer(
  listener: RequestListener,
  { maxSockets }: { readonly maxSockets: number },
): GatewayServer {
  /** Every connection, with the answers that it still waits for; the first of them is worked on. */
  const connections = new Map<Duplex, ServerResponse[]>();
  let refused = 0;

  const onRequest = (req: IncomingMessage, res: ServerResponse): void => {
    const awaited = connections.get(req.socket);
    if (!awaited || awaited.length >= MAX_PIPELINED) {
      req.socket.destroy();
      return;
    }
    res.on('prefinish', () => limitReading(res));
    res.on('close', () => {
      awaited.splice(awaited.indexOf(res), 1);
      const [next] = awaited;
      // One whose body cannot be read was answered before its turn (see clientError).
      if (next && !next.headersSent && req.socket.writable) serve(next);
      else if (!next && !server.listening) req.socket.end();
    });
    awaited.push(res);
    if (awaited.length === 1) serve(res);
  };

  const serve = (res: ServerResponse): void => {
    const { req } = res;
    // What comes behind a request for another protocol would not be read as HTTP.
    if (!server.listening || req.headers.upgrade !== undefined) res.setHeader('Connection', 'close');
    req.url = toOriginForm(req.url ?? '/');
    listener(req, res);
  };

  const server = createHttpServer(
    {
      IncomingMessage: ExpressRequest,
      ServerResponse: ExpressResponse,
      headersTimeout: 5_000,
      requestTimeout: 10_000,
      connectionsCheckingInterval: 1_000,
      // Of a body that nobody reads yet so many bytes are kept: requests that wait behind another may have one.
      highWaterMark: 16_384,
      // Longer than the proxies in front keep a connection, or one would be closed under a request.
      keepAliveTimeout: 75_000,
      // Node's own answer to a request without Host has no body.
      requireHostHeader: false,
      // Of two lines of Host Node would drop one.
      joinDuplicateHeaders: true,
    },
    onRequest,
  );
  server.timeout = SILENT_MS;
  server.maxConnections = maxSockets;
  Object.assign(server, {
    // A worker would hand a socket that is too many back to the primary process, which would offer it again and again.
    dropMaxConnection: true,
    // Node takes a socket for idle whose answer is written and not read yet. `drain` ends those that are idle.
    closeIdleConnections: () => {},
  });
  server.on('drop', () => {
    refused += 1;
  });
  server.on('connection', (socket) => {
    connections.set(socket, []);
    socket.once('close', () => connections.delete(socket));
  });
  // The client is told to go on when its body is wanted (see body.ts), and not before.
  server.on('checkContinue', onRequest);
  server.on('checkExpectation', onRequest);
  server.on('connect', (_req, socket) => refuse(socket, { kind: 'methodNotAllowed', allow: [] }));
  server.on('clientError', (error: NodeJS.ErrnoException, socket) => {
    const failure = failures[error.code ?? ''] ?? { kind: 'badRequest' };
    const awaited = connections.get(socket) ?? [];
    if (!socket.writable || error.code === 'ECONNRESET') {
      socket.destroy();
    } else if (awaited.length === 0) {
      refuse(socket, failure);
    } else {
      // Where it is the body of a request that cannot be read, this is its answer. What came behind a whole request
      // gets none: it would be taken for the answer of that.
      closeAfter(awaited);
      for (const res of awaited) if (!res.req.complete) respond(res, { failure });
    }
  });

  const drain = (ms: number): Promise<void> =>
    new Promise((resolve) => {
      const cut = setTimeout(() => {
        for (const socket of connections.keys()) socket.destroy();
      }, ms);
      server.close(() => {
        clearTimeout(cut);
        resolve();
      });
      for (const [socket, awaited] of connections) {
        if (awaited.length === 0) socket.destroy();
        closeAfter(awaited);
      }
    });
  return Object.assign(server, { drain, sockets: () => ({ open: connections.size, refused }) });
}

/** A request to a proxy names the whole URL, and a server has to accept that form (RFC 9112, 3.2.2). */
function toOriginForm(target: string): string {
  if (target.startsWith('/')) return target;
  const path = target.replace(/^https?:\/\/[^/?#]*/i, '');
  return path.startsWith('/') ? path : `/${path}`;
}

function closeAfter(awaited: readonly ServerResponse[]): void {
  for (const res of awaited) if (!res.headersSent) res.setHeader('Connection', 'close');
}

/** Answers on a connection that is no use any more, and closes it whether its client does or not. */
function refuse(socket: Duplex, failure: Failure): void {
  // For some of these Node has taken its own listener away, and without any an error would end the process.
  socket.on('error', () => socket.destroy());
  socket.end(toRawResponse(failure), () => socket.destroy());
}
