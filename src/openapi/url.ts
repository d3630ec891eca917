// Requests as URLs: paths and their templates, the operation of a path, and how the values of parameters are written. Runs in
// browsers too, in the client's handlers for msw.

import { OpenAPIRouter } from 'openapi-backend/router.js';
import type { OpenAPIV3 } from 'openapi-types';
import { RequestFailed } from '../errors.ts';
import type { Json } from '../store/store.ts';
import type { Operation } from './operations.ts';

/** The methods of operations that the gateway serves, and all that OpenAPI has. */
export const METHODS = ['get', 'put', 'post', 'delete', 'patch'] as const;
export const ALL_METHODS: readonly string[] = [...METHODS, 'options', 'head', 'trace'];

/** The paths that the gateway answers itself, before those of the document. */
export const OWN_PATHS: readonly string[] = `/ /docs /docs/ /docs/openapi.json /docs/start.js /healthz /mcp /metrics
  /openapi.json /openapi.yaml /readyz`.split(/\s+/);

/** Characters that percent-encoding leaves unchanged, and the separators of segments and items. */
const PLAIN_PATH = /^[\w.!~*'()/,-]*$/;

/**
 * Normalizes the percent-encoding of a path. Slashes and commas stay, because they separate segments and the items of arrays.
 * Throws URIError for a malformed escape.
 */
export function normalizePath(path: string): string {
  if (PLAIN_PATH.test(path)) return path;
  return path.replace(/[^/,]+/g, (part) => encodeURIComponent(decodeURIComponent(part)));
}

/** Normalizes the literal parts of a path template. */
export function normalizeTemplate(template: string): string {
  const parts = template.split(/(\{[^}]+\})/);
  return parts.map((part) => (part.startsWith('{') ? part : normalizePath(part))).join('');
}

/** Whether a request can have the path of a template: clients resolve dots, and send no fragment. */
export function isPossible(template: string): boolean {
  const path = template.replace(/\{[^{}/]+\}/g, '-');
  try {
    const sent = new URL(`http://localhost${path}`).pathname;
    return !/[{}]/.test(path) && normalizePath(sent) === normalizePath(path);
  } catch {
    return false;
  }
}

const PARAMETER = /\{([^}]+)\}/g;

/** The names of the parameters in a path template. */
export function readTemplate(template: string): readonly string[] {
  return Array.from(template.matchAll(PARAMETER), ([, name = '']) => name);
}

/** Replaces the parameters of a path template. */
export function fillTemplate(template: string, write: (name: string) => string): string {
  return template.replace(PARAMETER, (_whole, name) => write(name));
}

/** The runtime expressions in braces in a text (OpenAPI, "Runtime Expressions"). */
export const EXPRESSIONS = /\{(\$[^{}]*)\}/g;

/** The path of a template with the texts of its parameters, encoded as clients send it. A parameter without a text stays. */
export function writePath(template: string, texts: ReadonlyMap<string, string>): string {
  return fillTemplate(normalizeTemplate(template), (name) => texts.get(name) ?? `{${name}}`);
}

/**
 * Finds the operation for a method in lower case and a normalized path. Throws RequestFailed with `notFound`,
 * `withoutRoot` or `methodNotAllowed`.
 */
export type Match = (method: string, path: string) => Operation;

/** Creates the function that finds an operation by method and path. All paths begin with `apiRoot`. */
export function createMatch(operations: ReadonlyMap<string, Operation>, apiRoot: string): Match {
  const all = [...operations.values()].map(({ source, path }) => ({ ...source, path }));
  /** The paths without parameters. They take precedence over templates (OpenAPI, "Paths Object"), also for methods that they lack. */
  const concrete = new Set(all.map(({ path }) => path).filter((path) => !path.includes('{')));
  const definition: OpenAPIV3.Document = { openapi: '3.0.3', info: { title: '', version: '' }, paths: {} };
  const router = new OpenAPIRouter({ definition, apiRoot, ignoreTrailingSlashes: false });
  // The router would compute this list twice for each match, which takes 7 µs instead of 0.3 µs.
  router.getOperations = () => all as never;
  const find = (method: string, path: string) => {
    const found = router.matchOperation({ method, path, headers: {} });
    const isOther = found?.path.includes('{') && concrete.has(router.normalizePath(path));
    return isOther ? undefined : operations.get(found?.operationId ?? '');
  };
  return (method, path) => {
    // A HEAD is a GET whose answer has no body (RFC 9110, 9.3.2); Node leaves the body out.
    const found = find(method === 'head' ? 'get' : method, path);
    if (found) return found;
    const methods = METHODS.filter((other) => find(other, path)).map((other) => other.toUpperCase());
    if (methods.length === 0) {
      const isWithoutRoot = METHODS.some((other) => find(other, apiRoot + path));
      throw new RequestFailed(isWithoutRoot ? { kind: 'withoutRoot', root: apiRoot } : { kind: 'notFound' });
    }
    if (methods.includes('GET')) methods.push('HEAD');
    throw new RequestFailed({ kind: 'methodNotAllowed', allow: methods.sort() });
  };
}

/** The properties of a parameter that say how its value is written. */
export type Styled = { readonly in: string; readonly style?: string; readonly explode?: boolean };

/** The separator of an array's items in one text. */
export type Separator = ',' | ' ' | '|';

/** The separators of the styles that the gateway serves, by style and place. */
export const SEPARATORS: Readonly<Record<string, Separator>> = {
  'form query': ',',
  'spaceDelimited query': ' ',
  'pipeDelimited query': '|',
  'simple path': ',',
  'simple header': ',',
};

/** The style of a parameter; without a separator if the gateway does not serve that style. */
export function readStyle({ in: place, style: own, explode }: Styled) {
  const style = own ?? (place === 'query' ? 'form' : 'simple');
  // In a query only `form` explodes by default. In a path or a header the separator is always a comma.
  const isExploded = place === 'query' && (explode ?? style === 'form');
  return { style, isExploded, separator: SEPARATORS[`${style} ${place}`] };
}

/** The texts of a parameter: one, or one for each item of an array that explodes. */
export function writeValue(parameter: Styled, value: Json): string[] {
  const { isExploded, separator = ',' } = readStyle(parameter);
  return writeItems(parameter.in, isExploded ? undefined : separator, value);
}

/** Writes a value as writeValue does, but with a given separator; without one an array explodes. */
export function writeItems(place: string, separator: Separator | undefined, value: Json): string[] {
  const items = [value].flat().map((part) => (place === 'header' ? String(part) : encodeURIComponent(String(part))));
  // A comma that is encoded belongs to an item (RFC 6570, 3.2.1).
  return separator === undefined || !Array.isArray(value) ? items : [items.join(encodeURI(separator))];
}
