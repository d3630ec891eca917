import compression from 'compression';
import cors from 'cors';
import express, { type ErrorRequestHandler, type Express, type RequestHandler } from 'express';
import type { Fault } from './errors.ts';
import type { Gateway } from './gateway.ts';
import { type Observation, observe } from './observation.ts';
import { respond } from './respond.ts';

/** The parts of the application; what is left out is not served. */
export type AppParts = {
  readonly gateway: Gateway;
  readonly onFault: (fault: Fault, observation: Observation) => void;
  readonly observer?: RequestHandler | undefined;
  /** What is served beside the operations, to whom no limit applies. */
  readonly management?: readonly RequestHandler[];
  readonly docs?: RequestHandler | undefined;
  readonly rateLimiter?: RequestHandler | undefined;
  /** How many proxies stand in front and say where a request came from; what a client says of itself is not believed. */
  readonly proxyHops?: number;
  /** The origins whose pages may call the gateway; `*` among them means all. */
  readonly corsOrigins?: readonly string[];
};

/** What a page of another origin may read of an answer, beside its body. */
const EXPOSED_HEADERS = [
  'Content-Language',
  'ETag',
  'Link',
  'RateLimit',
  'RateLimit-Policy',
  'Retry-After',
  'X-Request-Id',
];
/** How long a browser need not ask again what it may send, in seconds. */
const PREFLIGHT_SECONDS = 600;

/** The express application: the order of the middleware and nothing else. */
export function createApp({ gateway, onFault, proxyHops = 0, ...parts }: AppParts): Express {
  const middleware = [
    parts.observer,
    refuseUnfit,
    ...(parts.management ?? []),
    createCors(parts.corsOrigins ?? []),
    compression(),
    parts.docs,
    parts.rateLimiter,
    gateway,
  ].filter((part) => part !== undefined);
  return assemble(middleware, onFault).set('trust proxy', proxyHops);
}

/** The application of a port of its own, which need not be within the reach of clients. */
export function createManagementApp(parts: readonly RequestHandler[], onFault: AppParts['onFault']): Express {
  const notFound: RequestHandler = (_req, res) => respond(res, { failure: { kind: 'notFound' } });
  return assemble([...parts, notFound], onFault);
}

function assemble(middleware: RequestHandler[], onFault: AppParts['onFault']): Express {
  // Four parameters are what tells express that this one is for errors.
  const onError: ErrorRequestHandler = (error, req, res, _next) => {
    const failure = { kind: 'internal', cause: error } as const;
    onFault(failure, observe(req, res));
    respond(res, { failure });
  };
  return express().disable('x-powered-by').use(middleware).use(onError);
}

/** What HTTP forbids, and Node's parser lets through (RFC 9112, 3.2, and RFC 9110, 10.1.1). */
const refuseUnfit: RequestHandler = (req, res, next) => {
  if (req.httpVersion === '1.1' && !req.headers.host) respond(res, { failure: { kind: 'badRequest' } });
  else if (req.headers.expect && !/^100-continue$/i.test(req.headers.expect)) {
    respond(res, { failure: { kind: 'expectationFailed' } });
  } else next();
};

function createCors(origins: readonly string[]): RequestHandler | undefined {
  if (origins.length === 0) return undefined;
  const origin = origins.includes('*') ? '*' : [...origins];
  return cors({ origin, exposedHeaders: EXPOSED_HEADERS, maxAge: PREFLIGHT_SECONDS });
}
