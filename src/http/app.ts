import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import cors from 'cors';
import express, { type ErrorRequestHandler, type RequestHandler } from 'express';
import type { Gateway } from '../api/handler.ts';
import type { Fault } from '../errors.ts';
import { type Observation, observe } from '../telemetry/record.ts';
import { respond } from './respond.ts';

/** Answers a request, or lets the next one do so; the form of express's, without what express adds to a request. */
export type Middleware = (req: IncomingMessage, res: ServerResponse, next: (error?: unknown) => void) => unknown;

/** The parts of the application; what is left out is not served. */
export type AppParts = {
  readonly gateway: Gateway;
  readonly onFault: (fault: Fault, observation: Observation) => void;
  readonly observer?: Middleware | undefined;
  /** What is served beside the operations, to whom no limit applies. */
  readonly management?: readonly RequestHandler[];
  readonly docs?: RequestHandler | undefined;
  readonly rateLimiter?: Middleware | undefined;
  /** The origins whose pages may call the gateway; `*` among them means all. */
  readonly corsOrigins?: readonly string[];
};

/** The paths beside the operations. */
const BESIDE = /^\/(healthz|readyz|metrics|docs(\/[^?]*)?|openapi\.(json|yaml))?(\?|$)/;
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

/**
 * The application: the order of its parts and nothing else. Express serves what stands beside the operations; they
 * themselves do without it, because its router and the prototypes that it gives each request cost more than all that
 * the gateway does.
 */
export function createApp({ gateway, onFault, ...parts }: AppParts): RequestListener {
  const shareWithPages = createCors(parts.corsOrigins ?? []);
  const beside = createExpress(
    [...(parts.management ?? []), shareWithPages, parts.docs].filter((part) => part !== undefined),
    onFault,
  );
  const serveBeside: Middleware = (req, res, next) => (BESIDE.test(req.url ?? '') ? beside(req, res) : next());
  const operations = [shareWithPages, parts.rateLimiter, gateway];
  const all = [parts.observer, refuseUnfit, serveBeside, ...operations];
  const serve = toListener(all.filter((part) => part !== undefined));
  return (req, res) => serve(req, res, (error) => failInside(error, req, res, onFault));
}

/** The application of a port of its own, which need not be within the reach of clients. */
export function createManagementApp(
  observer: Middleware,
  parts: readonly RequestHandler[],
  onFault: AppParts['onFault'],
): RequestListener {
  const app = createExpress(parts, onFault);
  return (req, res) => observer(req, res, () => app(req, res));
}

/** Runs middleware one after the other, until one does not call the next; what one throws is given to `onError`. */
function toListener(middleware: readonly Middleware[]) {
  return (req: IncomingMessage, res: ServerResponse, onError: (error: unknown) => void): void => {
    let index = 0;
    const next = (error?: unknown): void => {
      const part = middleware[index];
      index += 1;
      try {
        if (error !== undefined) throw error;
        const end = part?.(req, res, next);
        if (end instanceof Promise) end.catch(onError);
      } catch (thrown) {
        onError(thrown);
      }
    };
    next();
  };
}

function createExpress(parts: readonly (RequestHandler | Middleware)[], onFault: AppParts['onFault']): RequestListener {
  const notFound: RequestHandler = (_req, res) => respond(res, { failure: { kind: 'notFound' } });
  // Four parameters are what tells express that this one is for errors.
  const onError: ErrorRequestHandler = (error, req, res, _next) => failInside(error, req, res, onFault);
  return express()
    .disable('x-powered-by')
    .use([...(parts as RequestHandler[]), notFound])
    .use(onError);
}

function failInside(cause: unknown, req: IncomingMessage, res: ServerResponse, onFault: AppParts['onFault']): void {
  const failure = { kind: 'internal', cause } as const;
  onFault(failure, observe(req, res));
  respond(res, { failure });
}

/** A host with or without a port (RFC 3986, 3.2.2). */
const HOST = /^([\w.~%!$&'()*+,;=-]+|\[[\da-f:.]+\])(:\d*)?$/i;

/** What HTTP forbids, and Node's parser lets through (RFC 9112, 3.2, and RFC 9110, 10.1.1). */
const refuseUnfit: Middleware = (req, res, next) => {
  const host = req.headers.host ?? (req.httpVersion === '1.1' ? '' : 'none');
  if (!HOST.test(host)) respond(res, { failure: { kind: 'badRequest' } });
  else if (req.headers.expect && !/^100-continue$/i.test(req.headers.expect)) {
    respond(res, { failure: { kind: 'expectationFailed' } });
  } else next();
};

function createCors(origins: readonly string[]): Middleware | undefined {
  if (origins.length === 0) return undefined;
  const origin = origins.includes('*') ? '*' : [...origins];
  const apply = cors({ origin, exposedHeaders: EXPOSED_HEADERS, maxAge: PREFLIGHT_SECONDS });
  return (req, res, next) => {
    // These it answers by itself.
    if (req.method === 'OPTIONS') res.setHeader('X-Request-Id', observe(req, res).id);
    apply(req, res, next);
  };
}
