import { createServer as createHttpServer, type RequestListener, type Server } from 'node:http';
import type { Duplex } from 'node:stream';
import type { Failure } from './errors.ts';
import { respond, toRawResponse } from './respond.ts';

/** What Node's parser refuses by itself, by its error code; any other is a bad request. */
const failures: Record<string, Failure> = {
  HPE_HEADER_OVERFLOW: { kind: 'headersTooLarge' },
  ERR_HTTP_REQUEST_TIMEOUT: { kind: 'requestTimeout' },
};

/** Builds the HTTP server: its time limits, and the one form of errors for what never becomes a request. */
export function createServer(listener: RequestListener): Server {
  const server = createHttpServer(
    {
      headersTimeout: 5_000,
      requestTimeout: 10_000,
      connectionsCheckingInterval: 1_000,
      // Node's own answer to a request without Host has no body; ours is below.
      requireHostHeader: false,
    },
    (req, res) => {
      const needsHost = req.httpVersion === '1.1' && !req.headers.host;
      if (needsHost) respond(res, { failure: { kind: 'badRequest' } });
      else listener(req, res);
    },
  );
  server.on('clientError', (error: NodeJS.ErrnoException, socket) => {
    // An answer is already under way, or there is nobody to read one.
    if (!socket.writable || error.code === 'ECONNRESET') socket.destroy();
    else refuse(socket, failures[error.code ?? ''] ?? { kind: 'badRequest' });
  });
  server.on('checkExpectation', (_req, res) => respond(res, { failure: { kind: 'expectationFailed' } }));
  server.on('connect', (_req, socket) => refuse(socket, { kind: 'methodNotAllowed', allow: [] }));
  return server;
}

function refuse(socket: Duplex, failure: Failure): void {
  socket.end(toRawResponse(failure));
}
