// The only place that writes bodies.

import { type ServerResponse, STATUS_CODES } from 'node:http';
import { type Failure, toHttpError } from './errors.ts';

/** How a request ended: JSON text with its status, or a failure. */
export type Outcome = { readonly status: number; readonly json: string } | { readonly failure: Failure };

const HEADERS = {
  'Content-Type': 'application/json; charset=utf-8',
  // The answer is one tenant's, told apart by a header that a shared cache does not look at.
  'Cache-Control': 'no-store',
  'X-Content-Type-Options': 'nosniff',
};

/** Writes the answer; does nothing where one was begun or the client is gone. */
export function respond(res: ServerResponse, outcome: Outcome): void {
  if (res.headersSent || res.destroyed) return;
  const { status, body, headers } = toAnswer(outcome);
  res.writeHead(status, { ...headers, 'Content-Length': Buffer.byteLength(body) }).end(body);
}

/** The whole answer as it goes over the wire, for a connection on which Node could not read a request. */
export function toRawResponse(failure: Failure): string {
  const { status, body, headers } = toAnswer({ failure });
  const lines = Object.entries({ ...headers, 'Content-Length': Buffer.byteLength(body), Connection: 'close' });
  return [
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
    ...lines.map(([name, value]) => `${name}: ${value}`),
    '',
    body,
  ].join('\r\n');
}

function toAnswer(outcome: Outcome): { status: number; body: string; headers: Record<string, string> } {
  if ('json' in outcome) return { status: outcome.status, body: outcome.json, headers: HEADERS };
  const { status, error, headers } = toHttpError(outcome.failure);
  return { status, body: JSON.stringify({ error }), headers: { ...HEADERS, ...headers } };
}
