import { OpenAPIRouter, type ParsedRequest, type Request } from 'openapi-backend';
import type { OpenAPIV3 } from 'openapi-types';
import type { DocumentOperation } from './operations.ts';
import { type ApiRequest, decode, normalizePath } from './request.ts';

type Route = { readonly pattern: RegExp; readonly names: readonly string[]; readonly operation: DocumentOperation };

/**
 * openapi-backend's router with what is constant computed once: its own flattens the document several times a
 * request, and parses each request three times. Requests come here taken apart already (see request.ts).
 */
export class Router extends OpenAPIRouter<OpenAPIV3.Document> {
  readonly #operations: DocumentOperation[];
  readonly #routes: readonly Route[];
  readonly #exact = new Map<string, Route[]>();

  constructor(definition: OpenAPIV3.Document, apiRoot: string) {
    super({ definition, apiRoot });
    this.#operations = super.getOperations();
    this.#routes = this.#operations.map(toRoute).sort(mostLiteralFirst);
    for (const route of this.#routes) {
      const path = normalizePath(route.operation.path);
      if (route.names.length === 0) this.#exact.set(path, [...(this.#exact.get(path) ?? []), route]);
    }
  }

  override getOperations(): DocumentOperation[] {
    return this.#operations;
  }

  override matchOperation(request: Request): DocumentOperation {
    const routes = this.#routesOf(request.path);
    if (routes.length === 0) throw new Error('404-notFound');
    // A HEAD is a GET whose answer has no body (RFC 9110, 9.3.2); Node leaves the body out.
    const method = request.method === 'head' && !has(routes, 'head') ? 'get' : request.method;
    const route = routes.find(({ operation }) => operation.method === method);
    if (!route) throw new Error('405-methodNotAllowed');
    readPathParameters(route, this.#relative(request.path), request as unknown as ApiRequest);
    return route.operation;
  }

  override parseRequest(request: Request): ParsedRequest {
    return request as unknown as ParsedRequest;
  }

  /** The methods of a path, as the header Allow lists them. */
  methodsOf(path: string): string[] {
    const routes = this.#routesOf(path);
    const methods = routes.map(({ operation }) => operation.method.toUpperCase());
    return (has(routes, 'get') ? [...methods, 'HEAD'] : methods).sort();
  }

  #routesOf(path: string): readonly Route[] {
    const relative = this.#relative(path);
    return this.#exact.get(relative) ?? this.#routes.filter(({ pattern }) => pattern.test(relative));
  }

  #relative(path: string): string {
    const root = this.apiRoot === '/' ? '' : this.apiRoot;
    return path.startsWith(`${root}/`) ? path.slice(root.length) : '';
  }
}

function toRoute(operation: DocumentOperation): Route {
  const names = [...operation.path.matchAll(/\{([^}]+)\}/g)].map(([, name]) => name ?? '');
  const literals = operation.path
    .split(/\{[^}]+\}/)
    .map((literal) => normalizePath(literal).replace(/[.*+?^${}()|[\]\\]/g, '\\$&'));
  return { pattern: new RegExp(`^${literals.join('([^/]+)')}$`), names, operation };
}

function mostLiteralFirst(a: Route, b: Route): number {
  return a.names.length - b.names.length;
}

function has(routes: readonly Route[], method: string): boolean {
  return routes.some(({ operation }) => operation.method === method);
}

function readPathParameters(route: Route, path: string, request: ApiRequest): void {
  const values = route.pattern.exec(path)?.slice(1) ?? [];
  route.names.forEach((name, index) => {
    request.params[name] = decode(values[index] ?? '');
  });
}
