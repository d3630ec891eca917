import type { Operation } from '../openapi/operations.ts';
import { unescapePointer } from '../openapi/pointer.ts';
import type { Json } from '../store/store.ts';
import type { ApiRequest } from './request.ts';

/**
 * Creates the header Location (RFC 9110, 10.2.2) from the link of the response that leads to the record; undefined without
 * one, or if the record lacks what the link needs.
 */
export function toLocation({ location }: Operation, request: ApiRequest, json: string): string | undefined {
  if (!location) return undefined;
  const record: Json = JSON.parse(json || 'null');
  const values = Object.entries(location.values).map(([name, expression]) => [
    name,
    evaluate(expression, request, record),
  ]);
  const known: Readonly<Record<string, Json | undefined>> = Object.fromEntries(values);
  const names = [...location.path.matchAll(/\{([^}]+)\}/g)].map(([, name = '']) => name);
  if (names.some((name) => known[name] === undefined || known[name] === null)) return undefined;
  return location.path.replace(/\{([^}]+)\}/g, (_whole, name) => encodeURIComponent(String(known[name])));
}

/** The value of a runtime expression (OpenAPI, "Runtime Expressions"), or the constant that it is. */
function evaluate(expression: string, { params, query, headers }: ApiRequest, record: Json): Json | undefined {
  const [, pointer] = /^\$response\.body#\/(.*)$/s.exec(expression) ?? [];
  if (pointer !== undefined) {
    return pointer
      .split('/')
      .map(unescapePointer)
      .reduce<Json | undefined>(
        (value, name) => (value as Readonly<Record<string, Json>> | null | undefined)?.[name],
        record,
      );
  }
  const [, place, name = ''] = /^\$request\.(path|query|header)\.(.*)$/s.exec(expression) ?? [];
  if (place === undefined) return expression;
  return { path: params, query, header: headers }[place]?.[place === 'header' ? name.toLowerCase() : name];
}
