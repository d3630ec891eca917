import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Fault } from '../errors.ts';
import type { Log } from '../telemetry/log.ts';
import { type Observation, observe, PROBES, type RequestRecord, readPath, type Span } from '../telemetry/record.ts';

/** Is told of each request whose answer is out. */
export type Sink = (record: RequestRecord) => void;

/** Begins the part of a trace that a request is. */
export type BeginSpan = (observation: Observation) => Span;

/** Status of a request whose client was gone before the answer was out; nobody is sent it. */
const CLIENT_GONE = 499;

/** The middleware that comes first: tells of each request soon after its end. */
export function createObserver(sinks: readonly Sink[], beginSpan?: BeginSpan) {
  let ended: RequestRecord[] = [];
  // All that end in one turn of the event loop are told of together, when the turn's answers are out: the processor has
  // the code of each sink at hand from the second one on, which is a tenth of what a short request takes.
  const tell = (record: RequestRecord): void => {
    if (ended.push(record) > 1) return;
    setImmediate(() => {
      const records = ended;
      ended = [];
      for (const sink of sinks) for (const record of records) sink(record);
    });
  };
  return (req: IncomingMessage, res: ServerResponse, next: () => unknown): unknown => {
    const observation = observe(req, res);
    const readBytes = countBytes(req, res);
    if (beginSpan && !PROBES.includes(readPath(req))) observation.span = beginSpan(observation);
    res.on('close', () => {
      observation.isEnded = true;
      const record = {
        ...observation,
        route: observation.operation ?? toRoute(req),
        status: res.writableFinished ? res.statusCode : CLIENT_GONE,
        durationMs: performance.now() - observation.begunAt,
        responseBytes: readBytes(),
      };
      const attributes = { 'http.route': record.route, 'http.response.status_code': record.status };
      observation.span?.end(attributes, observation.fault);
      tell(record);
    });
    return next();
  };
}

/** Counts what an answer takes on its connection: those of requests in front of it may still be under way. */
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

/** A fault stands on the line of its request; where that is made, or has one, on a line of its own. */
export function createFaultHandler(log: Pick<Log, 'fault'>): (fault: Fault, observation: Observation) => void {
  return (fault, observation) => {
    if (observation.isEnded || observation.fault) log.fault('A fault beside an answer', fault, observation);
    else observation.fault = fault;
  };
}

/** What express matched beside the operations; a path that a client made up is no name for a metric. */
function toRoute(req: IncomingMessage & { route?: { path?: unknown } }): string {
  return typeof req.route?.path === 'string' ? req.route.path : 'none';
}
