import { type ApiRequest, decode, normalizePath } from '../api/request.ts';
import { RequestFailed } from '../errors.ts';
import type { DocumentOperation } from './operations.ts';

type Route = { readonly pattern: RegExp; readonly names: readonly string[]; readonly operation: DocumentOperation };

/**
 * Finds the operation of a request. Beside openapi-backend's router, which flattens the document several times a
 * request and reads each request three times, what is constant is computed once here.
 */
export class Router {
  /** The operations, dereferenced. */
  readonly operations: readonly DocumentOperation[];
  readonly #root: string;
  readonly #routes: readonly Route[];
  readonly #exact = new Map<string, Route[]>();

  constructor(operations: readonly DocumentOperation[], apiRoot: string) {
    this.operations = operations;
    this.#root = apiRoot === '/' ? '' : apiRoot;
    this.#routes = operations.map(toRoute).sort(mostLiteralFirst);
    for (const route of this.#routes) {
      const path = normalizePath(route.operation.path);
      if (route.names.length === 0) this.#exact.set(path, [...(this.#exact.get(path) ?? []), route]);
    }
  }

  /**
   * The operation of a request, whose path parameters are put into it. Throws RequestFailed where there is no such
   * path, or the path does not have the method.
   */
  match(request: ApiRequest): DocumentOperation {
    const path = request.path.startsWith(`${this.#root}/`) ? request.path.slice(this.#root.length) : '';
    const routes = this.#exact.get(path) ?? this.#routes.filter(({ pattern }) => pattern.test(path));
    if (routes.length === 0) throw new RequestFailed({ kind: 'notFound' });
    // A HEAD is a GET whose answer has no body (RFC 9110, 9.3.2); Node leaves the body out.
    const method = request.method === 'head' && !has(routes, 'head') ? 'get' : request.method;
    const route = routes.find(({ operation }) => operation.method === method);
    if (!route) throw new RequestFailed({ kind: 'methodNotAllowed', allow: toMethods(routes) });
    readPathParameters(route, path, request);
    return route.operation;
  }
}

function toRoute(operation: DocumentOperation): Route {
  const names = [...operation.path.matchAll(/\{([^}]+)\}/g)].map(([, name]) => name ?? '');
  const literals = operation.path
    .split(/\{[^}]+\}/)
    .map((literal) => normalizePath(literal).replace(/[.*+?^${}()|[\]\\]/g, '\\$&'));
  return { pattern: new RegExp(`^${literals.reduce(joinByParameter)}$`), names, operation };
}

/**
 * A parameter with another behind it in its segment ends where the literal between them first occurs. If it could end
 * anywhere, the time to find no match would grow with the square of the path, for three of them with its cube.
 */
function joinByParameter(before: string, literal: string, index: number, { length }: readonly string[]): string {
  const isLastOfSegment = literal.includes('/') || index === length - 1;
  return `${before}${isLastOfSegment ? '([^/]+)' : `((?:(?!${literal})[^/])+)`}${literal}`;
}

function mostLiteralFirst(a: Route, b: Route): number {
  return a.names.length - b.names.length;
}

function has(routes: readonly Route[], method: string): boolean {
  return routes.some(({ operation }) => operation.method === method);
}

/** The methods of a path, as the header Allow lists them. */
function toMethods(routes: readonly Route[]): string[] {
  const methods = routes.map(({ operation }) => operation.method.toUpperCase());
  return (has(routes, 'get') ? [...methods, 'HEAD'] : methods).sort();
}

function readPathParameters(route: Route, path: string, request: ApiRequest): void {
  if (route.names.length === 0) return;
  const values = route.pattern.exec(path)?.slice(1) ?? [];
  route.names.forEach((name, index) => {
    request.params[name] = decode(values[index] ?? '');
  });
}
