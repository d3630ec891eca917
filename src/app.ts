import express, { type ErrorRequestHandler, type Express } from 'express';
import type { Fault } from './errors.ts';
import type { Gateway } from './gateway.ts';
import { respond } from './respond.ts';

/**
 * The express application: the order of the middleware and nothing else. The address of a client is what the last of
 * `proxyHops` proxies in front of it says; a header that a client could write itself is not believed.
 */
export function createApp(gateway: Gateway, onFault: (fault: Fault) => void, proxyHops = 0): Express {
  // Four parameters are what tells express that this one is for errors.
  const onError: ErrorRequestHandler = (error, _req, res, _next) => {
    const failure = { kind: 'internal', cause: error } as const;
    onFault(failure);
    respond(res, { failure });
  };
  return express().disable('x-powered-by').set('trust proxy', proxyHops).use(gateway).use(onError);
}
