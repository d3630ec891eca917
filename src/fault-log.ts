import type { IncomingMessage } from 'node:http';
import { type Fault, messageOf } from './errors.ts';

/** Is told of a fault, and of the request that met it where there was one. */
export type OnFault = (fault: Fault, req?: IncomingMessage) => void;

/** A shorter text is no key, and to blot it out would make the rest unreadable. */
const MIN_KEY_LENGTH = 8;

/**
 * Writes each fault as a line of JSON, without the API key: a database may repeat in an error what it was given.
 * `keyHeaders` are the headers that carry a key, in lower case.
 */
export function createFaultLog(keyHeaders: readonly string[], write: (line: string) => void): OnFault {
  return (fault, req) => {
    const keys = keyHeaders
      .map((name) => String(req?.headers[name] ?? ''))
      .filter((key) => key.length >= MIN_KEY_LENGTH);
    const withoutKey = (_name: string, value: unknown) =>
      typeof value === 'string' ? keys.reduce((text, key) => text.replaceAll(key, '[API key]'), value) : value;
    const path = req?.url?.replace(/\?.*$/s, '');
    const line = { time: new Date().toISOString(), method: req?.method, path, ...describe(fault) };
    write(JSON.stringify(line, withoutKey));
  };
}

function describe({ kind, cause }: Fault): Record<string, unknown> {
  if (!(cause instanceof Error)) return { fault: kind, cause };
  // What Postgres adds to an error says in which function it came up.
  const { code, detail, hint, where } = cause as Error & Record<string, string | undefined>;
  return {
    fault: kind,
    cause: messageOf(cause),
    code,
    detail,
    hint,
    where,
    stack: kind === 'internal' ? cause.stack : undefined,
  };
}
