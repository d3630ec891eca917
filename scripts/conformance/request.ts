// A request before it is sent, and as a line for a shell.

import type { Json } from '../../src/store/store.ts';
import type { Input, Operation } from './operations.ts';

/** The key that the run was given, which is known to the client alone. */
export const OWN_KEY = Symbol('own key');

export type Request = {
  readonly method: string;
  /** Path and query, behind the deployment's URL. */
  readonly target: string;
  /** The key's header is not among them. */
  readonly headers: Readonly<Record<string, string>>;
  /** Null leaves the header out. */
  readonly key: string | typeof OWN_KEY | null;
  readonly body?: string;
};

/** A value for an input, or for a name that the document does not describe. */
export type Assignment = { readonly input: Pick<Input, 'name' | 'in'>; readonly value: Json };

/** The request that carries these values and no others. */
export function toRequest(operation: Operation, assignments: readonly Assignment[]): Request {
  const of = (place: Input['in']) =>
    assignments.flatMap(({ input, value }) => (input.in === place ? [[input.name, value] as const] : []));
  const path = of('path').reduce(
    (text, [name, value]) => text.replace(`{${name}}`, () => encodeURIComponent(String(value))),
    operation.path,
  );
  const query = of('query').map((pair) => pair.map((part) => encodeURIComponent(String(part))).join('='));
  return {
    method: operation.method,
    target: query.length > 0 ? `${path}?${query.join('&')}` : path,
    headers: Object.fromEntries(of('header').map(([name, value]) => [name, String(value)])),
    key: OWN_KEY,
    ...(operation.hasBody ? { body: JSON.stringify(Object.fromEntries(of('body'))) } : {}),
  };
}

/** A longer body or header is made by a command: nobody wants to paste it, and a shell may not take it. */
const LONGEST_TEXT = 4_000;

/** The request as a line that can be pasted into a shell, with $API_KEY in the place of the key. */
export function toCurl(url: string, keyHeader: string, request: Request): string {
  const { method, target, key, body, headers } = request;
  const parts = ['curl -i'];
  if (method === 'HEAD') parts[0] = 'curl -I';
  else if (method !== (body === undefined ? 'GET' : 'POST')) parts.push(`-X ${method}`);
  if (key === OWN_KEY) parts.push(`-H "${keyHeader}: $API_KEY"`);
  else if (key !== null) parts.push(`-H ${toHeader(keyHeader, key)}`);
  for (const [name, value] of Object.entries(headers)) parts.push(`-H ${toHeader(name, value)}`);
  if (body !== undefined) parts.push("-H 'Content-Type: application/json'");
  const isMade = body !== undefined && body.length > LONGEST_TEXT && /^ +$/.test(body);
  // Not --data-binary, which takes a body that begins with @ for the name of a file.
  if (body !== undefined) parts.push(isMade ? '--data-binary @-' : `--data-raw ${quote(body)}`);
  const curl = [...parts, quote(url + target)].join(' ');
  return isMade ? `printf '%${body.length}s' '' | ${curl}` : curl;
}

/** curl leaves out a header that has nothing behind the colon, and sends one that ends in a semicolon. */
function toHeader(name: string, value: string): string {
  if (value.length > LONGEST_TEXT && /^0+$/.test(value)) return `"${name}: $(printf '%0${value.length}d' 0)"`;
  return quote(value === '' ? `${name};` : `${name}: ${value}`);
}

function quote(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}
