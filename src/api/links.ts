import type { Operation } from '../openapi/operations.ts';
import type { Json } from '../store/store.ts';
import type { ApiRequest } from './request.ts';

/**
 * Creates the Link header (RFC 8288) with the next and the previous page; undefined if there is neither. A full page
 * always has a next page, which may be empty: checking would take a second query.
 */
export function toLink({ page }: Operation, { query }: ApiRequest, count: number | undefined): string | undefined {
  if (!page) return undefined;
  const limit = Number(query[page.limit.name] ?? page.limit.default);
  const offset = Number(query[page.offset.name] ?? page.offset.default);
  const linkTo = (relation: string, target: number) => {
    const filters = Object.keys(query).filter((name) => name !== page.limit.name && name !== page.offset.name);
    const pairs = filters.map((name) => toPair(name, query[name]));
    pairs.push(toPair(page.limit.name, limit), toPair(page.offset.name, target));
    // Relative, because the gateway does not know the public URL behind a proxy.
    return `<?${pairs.join('&')}>; rel="${relation}"`;
  };
  const next = count === limit ? linkTo('next', offset + limit) : undefined;
  if (offset === 0) return next;
  const previous = linkTo('prev', Math.max(0, offset - limit));
  return next ? `${next}, ${previous}` : previous;
}

function toPair(name: string, value: Json | undefined): string {
  return `${encodeURIComponent(name)}=${encodeURIComponent(String(value))}`;
}
