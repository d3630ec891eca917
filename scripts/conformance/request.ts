// Builds requests from values, and writes them as curl commands.

import { writePath, writeValue } from '../../src/openapi/url.ts';
import type { Json } from '../../src/store/store.ts';
import type { Input, Operation } from './contract.ts';
import { findUnused, pickValid } from './values.ts';

/** The keys of a run, named by their variables in reports; only the client knows the values. */
export const OWN_KEY = Symbol('API_KEY');
export const OTHER_KEY = Symbol('OTHER_KEY');
export const READ_KEY = Symbol('READ_KEY');
export const LIMITED_KEY = Symbol('LIMITED_KEY');

/** Keys that a careless comparison takes for the run's own. Each has the name that bash gives it. */
export const NEAR_KEYS: ReadonlyMap<symbol, (key: string) => string> = new Map([
  [Symbol('{API_KEY%?}~'), (key) => `${key.slice(0, -1)}~`],
  [Symbol('{API_KEY}x'), (key) => `${key}x`],
  [Symbol('{API_KEY^^}'), (key) => key.toUpperCase()],
  [Symbol('{API_KEY,,}'), (key) => key.toLowerCase()],
]);

export type Request = {
  readonly method: string;
  /** Path and query, after the deployment's URL. */
  readonly target: string;
  /** Without the key's header. */
  readonly headers: Readonly<Record<string, string>>;
  /** Null omits the header. */
  readonly key: string | symbol | null;
  readonly body?: string;
};

/** A value for an input, or for a name that is not in the document. */
export type Assignment<I = Pick<Input, 'name' | 'in' | 'style' | 'explode'>> = {
  readonly input: I;
  readonly value: Json;
};

/** Whether a method only reads. */
export function isRead({ method }: { readonly method: string }): boolean {
  return method === 'GET' || method === 'HEAD';
}

/** Builds a request with exactly these values. */
export function toRequest(operation: Operation, assignments: readonly Assignment[]): Request {
  const assigned = (place: Input['in']) => assignments.filter(({ input }) => input.in === place);
  const textsOf = (place: Input['in']) =>
    assigned(place).flatMap(({ input, value }) => writeValue(input, value).map((text) => [input.name, text] as const));
  const path = writePath(operation.path, new Map(textsOf('path')));
  const query = textsOf('query').map(([name, text]) => `${encodeURIComponent(name)}=${text}`);
  const fields = assigned('body').map(({ input, value }) => [input.name, value] as const);
  const isWhole = operation.inputs.some((input) => input === operation.whole);
  const missing = operation.whole?.required ? null : undefined;
  const body = isWhole ? (fields.length > 0 ? fields[0]?.[1] : missing) : Object.fromEntries(fields);
  return {
    method: operation.method,
    target: query.length > 0 ? `${path}?${query.join('&')}` : path,
    headers: Object.fromEntries(textsOf('header')),
    key: OWN_KEY,
    ...(operation.body && body !== undefined ? { body: JSON.stringify(body) } : {}),
  };
}

/** Builds a request with these values, and valid ones for all other required inputs. */
export function toValidRequest(operation: Operation, assignments: readonly Assignment[] = []): Request {
  return toRequest(operation, withRequired(operation, assignments));
}

export function withHeader(request: Request, name: string, value: string): Request {
  return { ...request, headers: { ...request.headers, [name]: value } };
}

/** These values, and valid ones for all other required inputs. */
export function withRequired(operation: Operation, assignments: readonly Assignment[]): Assignment[] {
  const isGiven = ({ input }: Assignment) =>
    assignments.some(({ input: other }) => other.in === input.in && other.name === input.name);
  const required = assignRequired(operation).filter((assignment) => !isGiven(assignment));
  return [...required, ...assignments];
}

/** Whether the fields among these values make a valid body. */
export function isValidBody({ whole, inputs }: Operation, assignments: readonly Assignment[]): boolean {
  if (!whole || inputs.includes(whole)) return true;
  const fields = assignments.filter(({ input }) => input.in === 'body').map(({ input, value }) => [input.name, value]);
  return whole.validate(Object.fromEntries(fields)) === true;
}

/** Valid values for all required inputs, and for other fields that the body needs, such as those of one schema of `oneOf`. */
export function assignRequired(operation: Operation): Assignment<Input>[] {
  const { inputs, whole } = operation;
  const required = inputs.filter((input) => input.required).map((input) => assignValid(operation, input));
  if (!whole || isValidBody(operation, required)) return required;
  const body = (pickValid(whole) ?? {}) as Readonly<Record<string, Json>>;
  const toField = ([name, value]: [string, Json]) => {
    const input = inputs.find((one) => one.in === 'body' && one.name === name);
    return { input: input ?? { ...whole, name }, value };
  };
  return [...required.filter(({ input }) => input.in !== 'body'), ...Object.entries(body).map(toField)];
}

/** The path of an operation, with valid values in it. */
export function toValidPath(operation: Operation): string {
  const inputs = operation.inputs.filter((input) => input.in === 'path');
  const places = inputs.map((input) => assignValid(operation, input));
  return toRequest(operation, places).target;
}

function assignValid({ method }: Operation, input: Input): Assignment<Input> {
  // An example's record may be read, but not changed.
  const value = method === 'GET' ? input.example : findUnused(input);
  return { input, value: value ?? pickValid(input) };
}

/** Longer fillers are generated with printf: shells limit the length of a line. */
const MAX_TEXT = 4_000;

/** Writes a request as a curl command, with $API_KEY for the run's own key. */
export function toCurl(url: string, keyHeader: string, request: Request): string {
  const { method, target, key, body, headers } = request;
  const parts = ['curl -i'];
  if (method === 'HEAD') parts[0] = 'curl -I';
  else if (method !== (body === undefined ? 'GET' : 'POST')) parts.push(`-X ${method}`);
  if (typeof key === 'symbol') parts.push(`-H "${keyHeader}: $${key.description}"`);
  else if (key !== null) parts.push(`-H ${toHeader(keyHeader, key)}`);
  for (const [name, value] of Object.entries(headers)) parts.push(`-H ${toHeader(name, value)}`);
  if (body !== undefined && !('Content-Type' in headers)) parts.push("-H 'Content-Type: application/json'");
  const isFiller = body !== undefined && body.length > MAX_TEXT && /^ +$/.test(body);
  // Unlike --data-binary, --data-raw does not read @… as a file name.
  if (body !== undefined) parts.push(isFiller ? '--data-binary @-' : `--data-raw ${quote(body)}`);
  const curl = [...parts, quote(url + target)].join(' ');
  return isFiller ? `printf '%${body.length}s' '' | ${curl}` : curl;
}

/** curl sends an empty header only with a semicolon in place of the colon. */
function toHeader(name: string, value: string): string {
  if (value.length > MAX_TEXT && /^0+$/.test(value)) return `"${name}: $(printf '%0${value.length}d' 0)"`;
  return quote(value === '' ? `${name};` : `${name}: ${value}`);
}

function quote(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}
