import type { Operation } from './operations.ts';
import type { ApiRequest } from './request.ts';
import type { Json } from './store/store.ts';

/**
 * The header Link of a page of a list, with the pages after and before it (RFC 8288), or undefined where there are
 * none. A page that is full is followed by another, which may be empty: to know would take a second query.
 */
export function toLink({ page }: Operation, { query }: ApiRequest, count: number | undefined): string | undefined {
  if (!page) return undefined;
  const limit = Number(query[page.limit.name] ?? page.limit.default);
  const offset = Number(query[page.offset.name] ?? page.offset.default);
  const linkTo = (relation: string, target: number) => {
    const values = { ...query, [page.limit.name]: limit, [page.offset.name]: target };
    // Relative to the request's URL, which behind a proxy the gateway does not know.
    return `<?${Object.entries(values).map(toPair).join('&')}>; rel="${relation}"`;
  };
  const links = [
    ...(count === limit ? [linkTo('next', offset + limit)] : []),
    ...(offset > 0 ? [linkTo('prev', Math.max(0, offset - limit))] : []),
  ];
  return links.join(', ') || undefined;
}

function toPair([name, value]: [string, Json]): string {
  return `${encodeURIComponent(name)}=${encodeURIComponent(String(value))}`;
}
