// The record of each request, from its arrival to the end of its answer.

import type { IncomingMessage, ServerResponse } from 'node:http';
import type { RequestHandler } from 'express';
import type { Fault } from '../errors.ts';
import type { Log } from '../telemetry/log.ts';
import {
  createRecord,
  type EndedRequest,
  PROBES,
  type RequestRecord,
  readPath,
  type Span,
} from '../telemetry/record.ts';

/** Receives each request whose answer was sent. */
export type Sink = (request: EndedRequest) => void;

/** Starts the span of a request. */
export type StartSpan = (record: RequestRecord) => Span;

/** The status of a request whose client disconnected before the answer was sent; it is never sent. */
const CLIENT_GONE = 499;

const RECORD = Symbol('record');
type Recorded = ServerResponse & { [RECORD]?: RequestRecord };

/** The record of a request, by its response; it starts when it is first asked for. */
export function recordOf(res: ServerResponse): RequestRecord {
  const recorded: Recorded = res;
  recorded[RECORD] ??= createRecord(res.req.method ?? '', res.req.url ?? '/', res.req.headers);
  return recorded[RECORD];
}

/** Creates the middleware that comes first: it passes each request to the sinks soon after its end. */
export function createRecorder(sinks: readonly Sink[], startSpan?: StartSpan): RequestHandler {
  let ended: EndedRequest[] = [];
  // All requests that end in one turn of the event loop are passed on together, after the turn's answers were written:
  // each sink's code is then in the processor's caches, which saves a tenth of the time of a short request.
  const passOn = (request: EndedRequest): void => {
    if (ended.push(request) > 1) return;
    setImmediate(() => {
      const requests = ended;
      ended = [];
      for (const sink of sinks) for (const request of requests) sink(request);
    });
  };
  return (req, res, next) => {
    const record = recordOf(res);
    const readBytes = countBytes(req, res);
    if (startSpan && !PROBES.includes(readPath(record))) record.span = startSpan(record);
    res.on('close', () => {
      // Of a tool call the route is the path of MCP.
      const own = readExpressRoute(req);
      const route = own ?? record.route;
      const request = Object.assign(record, {
        endpoint: record.operation ?? own ?? 'none',
        status: res.writableFinished ? (record.toolStatus ?? res.statusCode) : CLIENT_GONE,
        durationMs: performance.now() - record.startedAt,
        responseBytes: readBytes(),
      });
      const attributes = { 'http.response.status_code': request.status, ...(route && { 'http.route': route }) };
      record.span?.end(attributes, record.fault);
      passOn(request);
    });
    next();
  };
}

/** Counts the bytes of an answer on its socket, which may still be sending the answers of earlier requests. */
function countBytes({ socket }: IncomingMessage, res: ServerResponse): () => number {
  let begin: number | undefined;
  let end: number | undefined;
  const onTurn = () => {
    begin = socket.bytesWritten;
  };
  if (res.socket) onTurn();
  else res.on('socket', onTurn);
  // Before Node's own listener, which writes the next answer.
  res.prependListener('finish', () => {
    end = socket.bytesWritten;
  });
  return () => (begin === undefined ? 0 : (end ?? socket.bytesWritten) - begin);
}

/** Records a fault on its request's line; on a separate line if that line is written already or has a fault. */
export function createFaultHandler(log: Pick<Log, 'fault'>): (fault: Fault, record: RequestRecord) => void {
  return (fault, record) => {
    if ('status' in record || record.fault) log.fault('A fault beside an answer', fault, record);
    else record.fault = fault;
  };
}

/** The path of an endpoint that Express matched. A path that a client made up must not become a metric's label. */
function readExpressRoute(req: IncomingMessage & { route?: { path?: unknown } }): string | undefined {
  return typeof req.route?.path === 'string' ? req.route.path : undefined;
}
