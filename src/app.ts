import express, { type ErrorRequestHandler, type Express } from 'express';
import type { Fault } from './errors.ts';
import type { Gateway } from './gateway.ts';
import { respond } from './respond.ts';

/** The express application: the order of the middleware and nothing else. */
export function createApp(gateway: Gateway, onFault: (fault: Fault) => void): Express {
  // Four parameters are what tells express that this one is for errors.
  const onError: ErrorRequestHandler = (error, _req, res, _next) => {
    const failure = { kind: 'internal', cause: error } as const;
    onFault(failure);
    respond(res, { failure });
  };
  return express().disable('x-powered-by').use(gateway).use(onError);
}
