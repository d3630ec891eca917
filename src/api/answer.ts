// Converts the rows of a call to the answer of its operation. Runs in browsers too, in the client's handlers for msw.

import type { Input, Operation } from '../openapi/operations.ts';
import { unescapePointer } from '../openapi/pointer.ts';
import { EXPRESSIONS, fillTemplate, writeItems } from '../openapi/url.ts';
import type { Json, JsonObject, Rows } from '../store/store.ts';
import { type ApiRequest, findStringEnd } from './request.ts';

/** A successful answer. */
export type Success = {
  readonly status: number;
  /** The body; empty for no content. */
  readonly json: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** Whether the operation only reads, so that a client can repeat the request. */
  readonly isRead?: boolean;
  /** The key's header, if the client may cache the answer (for `Vary`); undefined if it may not. */
  readonly keyHeader?: string | undefined;
};

/** The answer of an operation. */
export function toSuccess(operation: Operation, request: ApiRequest, rows: Rows): Success {
  const link = toLink(operation, request, rows);
  const location = toLocation(operation, request, rows.json);
  return {
    status: operation.status,
    json: operation.optional.length > 0 ? leaveOutNulls(rows.json, operation) : rows.json,
    headers: {
      ...(link ? { Link: link } : {}),
      ...(location ? { Location: location } : {}),
      ...(rows.isReplayed ? { 'Idempotent-Replayed': 'true' } : {}),
    },
    isRead: operation.readOnly,
    keyHeader: operation.source.method === 'get' ? operation.key.header : undefined,
  };
}

/**
 * Removes optional properties that are null from the records in a JSON text: the document does not allow null there. Works on
 * the text, because parsing would round numbers and take longer.
 */
export function leaveOutNulls(json: string, { returns, optional }: Pick<Operation, 'returns' | 'optional'>): string {
  const depth = returns === 'rows' ? 2 : 1;
  const names = optional.map((name) => JSON.stringify(name));
  const isLeftOut = (property: string) =>
    property.trimEnd().endsWith('null') && names.includes(property.slice(0, property.lastIndexOf(':')).trim());
  let written = '';
  let level = 0;
  /** The start of the text that is not written yet; within a record, the start of a property. */
  let begin = 0;
  let isFirst = true;
  for (let at = 0; at < json.length; at += 1) {
    const sign = json[at];
    const isEnd = sign === '}' || sign === ']';
    if (sign === '"') at = findStringEnd(json, at);
    else if (level === depth && (sign === ',' || isEnd)) {
      const property = json.slice(begin, at);
      if (!isLeftOut(property)) {
        written += isFirst ? property : `,${property}`;
        isFirst = false;
      }
      begin = sign === ',' ? at + 1 : at;
    }
    if (isEnd) level -= 1;
    else if (sign === '{' || sign === '[') {
      level += 1;
      if (level !== depth) continue;
      written += json.slice(begin, at + 1);
      begin = at + 1;
      isFirst = true;
    }
  }
  return written + json.slice(begin);
}

/**
 * Creates the Link header (RFC 8288) with the next page, and for a request by offset the previous page; undefined if there
 * is neither. A full page always has a next page, which may be empty: checking would take a second query.
 */
export function toLink({ page }: Operation, { query, texts }: ApiRequest, { json, count }: Rows): string | undefined {
  if (!page) return undefined;
  const limit = Number(query[page.limit.name] ?? page.limit.default);
  // With limit=0 there are no other pages.
  if (limit === 0) return undefined;
  const linkTo = (relation: string, place: Input, target: Json, size = limit) => {
    const pairs = page.filters.flatMap((filter) => {
      // A number may have more digits than JavaScript holds.
      const numbers = texts.get(filter.argument)?.match(/[^\s,"[\]]+/g);
      return toPairs(filter, numbers ?? query[filter.name]);
    });
    pairs.push(...toPairs(page.limit, size), ...toPairs(place, target));
    // Relative, because the gateway does not know the public URL behind a proxy.
    return `<?${pairs.join('&')}>; rel="${relation}"`;
  };
  if (page.after && query[page.offset.name] === undefined) {
    return count === limit ? linkTo('next', page.after, JSON.parse(lastElement(json)).id) : undefined;
  }
  const offset = Number(query[page.offset.name] ?? page.offset.default);
  const next = count === limit ? linkTo('next', page.offset, offset + limit) : undefined;
  if (offset === 0) return next;
  // The previous page may be shorter than the limit.
  const previous = linkTo('prev', page.offset, Math.max(0, offset - limit), Math.min(limit, offset));
  return next ? `${next}, ${previous}` : previous;
}

/**
 * The last element of a JSON array of objects. Searches from the end: parsing the whole array would take longer than the rest
 * of the request.
 */
export function lastElement(json: string): string {
  const end = json.lastIndexOf('}');
  let depth = 0;
  for (let at = end; ; at -= 1) {
    const sign = json[at];
    if (sign === '"') at = findStringBegin(json, at);
    else if (sign === '}' || sign === ']') depth += 1;
    else if (sign === '{' || sign === '[') depth -= 1;
    if (depth === 0) return json.slice(at, end + 1);
  }
}

/** Returns the index of a string's opening quote, given that of its closing one. An odd number of backslashes escapes a quote. */
function findStringBegin(json: string, end: number): number {
  for (let at = json.lastIndexOf('"', end - 1); ; at = json.lastIndexOf('"', at - 1)) {
    let before = at;
    while (json[before - 1] === '\\') before -= 1;
    if ((at - before) % 2 === 0) return at;
  }
}

/** Writes a query parameter: an array as a pair for each item, or as one pair with its separator. */
function toPairs({ name, separator }: Input, value: Json | undefined): string[] {
  const texts = value === undefined ? [] : writeItems('query', separator, value);
  return texts.map((text) => `${encodeURIComponent(name)}=${text}`);
}

/**
 * Creates the Location header (RFC 9110, 10.2.2) from the response's link to the record; undefined without such a link, or if
 * the record lacks a value that the link needs.
 */
function toLocation({ location }: Operation, request: ApiRequest, json: string): string | undefined {
  if (!location) return undefined;
  const record: Json = JSON.parse(json || 'null');
  let isKnown = true;
  const fill = (_: string, expression: string) => {
    const value = evaluate(expression, request, record) ?? null;
    isKnown &&= value !== null;
    return String(value);
  };
  const path = fillTemplate(location.path, (name) =>
    encodeURIComponent((location.values[name] ?? '').replace(EXPRESSIONS, fill)),
  );
  return isKnown ? path : undefined;
}

/** The value of a runtime expression (OpenAPI, "Runtime Expressions"). */
function evaluate(expression: string, { params, query, headers }: ApiRequest, record: Json): Json | undefined {
  const [, pointer] = /^\$response\.body#\/(.*)$/s.exec(expression) ?? [];
  if (pointer !== undefined) {
    const enter = (value: Json | undefined, name: string) => (value as Partial<JsonObject> | null | undefined)?.[name];
    return pointer.split('/').map(unescapePointer).reduce(enter, record);
  }
  const [, place = '', name = ''] = /^\$request\.(path|query|header)\.(.*)$/s.exec(expression) ?? [];
  return { path: params, query, header: headers }[place]?.[place === 'header' ? name.toLowerCase() : name];
}
