// The Express application: the order of its parts.

import type { ServerResponse } from 'node:http';
import cors from 'cors';
import express, { type ErrorRequestHandler, type Express, type RequestHandler } from 'express';
import type { Handler, Outcome } from '../api/handler.ts';
import type { Reader, RequestContext } from '../api/request.ts';
import type { Config } from '../config.ts';
import { type Fault, isFault, RequestFailed } from '../errors.ts';
import type { Limits } from '../limits/limits.ts';
import { EXPOSED_HEADERS } from '../openapi/headers.ts';
import { contextOf } from './context.ts';
import { respond, sendText } from './respond.ts';

/** The gateway's own endpoints by their paths. */
export type Endpoints = Readonly<Record<string, RequestHandler>>;

/** The parts of the application. An undefined part is not served. */
export type AppParts = Partial<Pick<Config, 'corsOrigins'>> & {
  readonly contexts: RequestHandler;
  /** Health and metrics: no limit applies to them. */
  readonly operational: Endpoints;
  readonly docs?: Endpoints | undefined;
  readonly limitNetworks?: RequestHandler | undefined;
  /** Creates the endpoint of MCP. */
  readonly mcp?: ((run: RunOperation) => Endpoints) | undefined;
  /** Handles the operations of the document. */
  readonly handler?: Handler;
  readonly onFault: (fault: Fault, context: RequestContext) => void;
};

/** Runs the operation of a request, which is read as HTTP by default. */
export type RunOperation = (res: ServerResponse, reader?: Reader) => Promise<Outcome>;

/** Creates the application of a port. */
export function createApp(parts: AppParts): Express {
  const { contexts, operational, corsOrigins = [], docs, limitNetworks, mcp, onFault } = parts;
  const { handler = async () => ({ failure: { kind: 'notFound' } }) } = parts;
  const run: RunOperation = async (res, reader) => {
    const context = contextOf(res);
    const outcome = await handler(context, reader);
    // Always answer a write: it has taken effect.
    if ('failure' in outcome || !outcome.isRead) return outcome;
    // A tool's result contains the answer as text and as structured content.
    const bytes = Buffer.byteLength(outcome.json) * (reader ? 2 : 1);
    return context.admitAnswer(bytes) ?? outcome;
  };
  const app = express().disable('x-powered-by');
  const allowOrigins = createCors(corsOrigins);
  app.use(contexts, createRefusal(allowOrigins));
  app.use(serveOwn(operational));
  if (corsOrigins.length > 0) app.use(allowOrigins, answerPreflight);
  if (docs) app.use(serveOwn(docs));
  if (limitNetworks) app.use(limitNetworks);
  if (mcp) app.use(serveOwn(mcp(run), ['POST']));
  // The operations of the document. Every other request ends here with a 404 or 405.
  app.use(async (_req, res) => respond(res, await run(res)));
  return app.use(answerErrors(onFault));
}

/** Serves the gateway's own endpoints. Paths are exact: a proxy's rule for one of them must not miss another spelling. */
export function serveOwn(endpoints: Endpoints, allow: readonly string[] = ['GET', 'HEAD']): RequestHandler {
  const handlers = new Map(Object.entries(endpoints));
  return (req, res, next) => {
    const [path = ''] = req.url.split('?', 1);
    const handle = handlers.get(path);
    if (!handle) return next();
    contextOf(res).ownPath = path;
    if (allow.includes(req.method)) return handle(req, res, next);
    respond(res, { failure: { kind: 'methodNotAllowed', allow } });
  };
}

/** Creates the middleware that refuses requests of a network over its limit. `identify` finds their operation, for the log. */
export function createNetworkLimit(
  admit: Limits['admitNetwork'],
  identify: (context: RequestContext) => void,
): RequestHandler | undefined {
  if (!admit) return undefined;
  return async (_req, res, next) => {
    const context = contextOf(res);
    const { headers, retryAfter } = await admit(context.network);
    res.setHeaders(new Map(Object.entries(headers)));
    if (retryAfter === undefined) return next();
    identify(context);
    respond(res, { failure: { kind: 'tooManyRequests', retryAfter } });
  };
}

function answerErrors(onFault: AppParts['onFault']): ErrorRequestHandler {
  // Express recognizes an error handler by its four parameters.
  return (cause, _req, res, _next) => {
    const failure = cause instanceof RequestFailed ? cause.failure : ({ kind: 'internal', cause } as const);
    if (isFault(failure)) onFault(failure, contextOf(res));
    respond(res, { failure });
  };
}

/** A host with or without a port (RFC 3986, 3.2.2). */
const HOST = /^([\w.~%!$&'()*+,;=-]+|\[[\da-f:.]+\])(:\d*)?$/i;

/** Refuses requests that HTTP forbids and Node's parser accepts (RFC 9112, 3.2 and 6.1, and RFC 9110, 10.1.1). */
function createRefusal(allowOrigins: RequestHandler): RequestHandler {
  return (req, res, next) => {
    const isOld = req.httpVersion === '1.0';
    const host = req.headers.host ?? (isOld ? 'none' : '');
    const refuse = (kind: 'badRequest' | 'expectationFailed') =>
      allowOrigins(req, res, () => respond(res, { failure: { kind } }));
    const coding = req.headers['transfer-encoding'];
    // A proxy may find another end of such a body, which allows request smuggling.
    const isUnclear = coding !== undefined && (isOld || !/^chunked$/i.test(coding));
    if (isUnclear) res.setHeader('Connection', 'close');
    if (isUnclear || !HOST.test(host)) refuse('badRequest');
    else if (req.headers.expect && !/^100-continue$/i.test(req.headers.expect)) refuse('expectationFailed');
    else next();
  };
}

/** How long a browser may remember the answer to a preflight request. */
const PREFLIGHT_SECONDS = 600;

/** Lets pages of the origins read the answer. */
function createCors(origins: readonly string[]): RequestHandler {
  if (origins.length === 0) return (_req, _res, next) => next();
  const origin = origins.includes('*') ? '*' : [...origins];
  // cors would answer any OPTIONS, with a Content-Length that a 204 must not have (RFC 9110, 8.6).
  const exposedHeaders = [...EXPOSED_HEADERS];
  return cors({ origin, exposedHeaders, maxAge: PREFLIGHT_SECONDS, preflightContinue: true });
}

/** Answers preflight requests, which have both headers (Fetch, 3.3.2). Any other OPTIONS is an ordinary request. */
const answerPreflight: RequestHandler = ({ method, headers }, res, next) => {
  const isPreflight =
    method === 'OPTIONS' && headers.origin !== undefined && headers['access-control-request-method'] !== undefined;
  if (isPreflight) sendText(res, { status: 204, headers: {}, body: undefined });
  else next();
};
