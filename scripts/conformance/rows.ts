// A list's records, read in pages and compared while others may add records.

import type { Json } from '../../src/store/store.ts';
import { expectAnswer, Mismatch, type Setting } from './check.ts';
import type { Filter, List, Operation } from './operations.ts';
import { type Assignment, type Request, toRequest } from './request.ts';

export type Row = Readonly<Record<string, Json>>;

/** Maximum number of records that are read of a list. */
export const MAX_ROWS = 5_000;

export type ListOperation = Operation & { readonly list: List };

export type Condition = { readonly filter: Filter; readonly value: Json };

/** A page, its request, and the links to other pages. */
export type Page = { readonly request: Request; readonly rows: readonly Row[]; readonly links: Links };

/** Queries by relation. */
type Links = Readonly<Record<string, string>>;

/** Where a page begins, and its size. */
type PagePlace = { readonly limit?: number; readonly offset?: number; readonly after?: string };

/** Reads one page; the request has of its place only what is given. */
export async function readPage(
  setting: Setting,
  operation: ListOperation,
  place: PagePlace,
  conditions: readonly Condition[] = [],
): Promise<Page> {
  const { limit, offset, after } = operation.list;
  const assignments: Assignment[] = conditions.map(({ filter, value }) => ({ input: filter.input, value }));
  if (place.limit !== undefined) assignments.push({ input: limit, value: place.limit });
  if (place.offset !== undefined) assignments.push({ input: offset, value: place.offset });
  if (place.after !== undefined && after) assignments.push({ input: after, value: place.after });
  const request = toRequest(operation, assignments);
  return sendForPage(setting, operation, request, place.limit ?? limit.schema.default);
}

export function followLink(setting: Setting, operation: ListOperation, from: Page, query: string): Promise<Page> {
  const target = from.request.target.replace(/\?.*|$/s, query);
  const limit = new URLSearchParams(query).get(operation.list.limit.name);
  return sendForPage(setting, operation, { ...from.request, target }, limit === null ? undefined : Number(limit));
}

async function sendForPage(
  setting: Setting,
  operation: ListOperation,
  request: Request,
  most: number | undefined,
): Promise<Page> {
  const { body, headers } = await expectAnswer(setting, operation, request, { status: operation.status });
  const rows = body as readonly Row[];
  if (most === undefined || rows.length <= most) return { request, rows, links: readLinks(headers.link) };
  throw new Mismatch(request, `at most ${most} records`, `${rows.length} records`);
}

/** Reads all pages of a size, up to MAX_ROWS records; each after the last record of the one before, if the list has that. */
export async function readPages(
  setting: Setting,
  operation: ListOperation,
  size: number,
  conditions: readonly Condition[] = [],
): Promise<Page[]> {
  const pages: Page[] = [];
  const seen = new Set<string>();
  let place: PagePlace = {};
  for (let offset = size; offset <= MAX_ROWS; offset += size) {
    const page = await readPage(setting, operation, { limit: size, ...place }, conditions);
    pages.push(page);
    const last = page.rows.at(-1);
    // A page that ends like an earlier one would begin a circle.
    if (!last || page.rows.length < size || seen.has(idOf(last))) break;
    seen.add(idOf(last));
    place = operation.list.after ? { after: idOf(last) } : { offset };
  }
  return pages;
}

/** The header Link (RFC 8288, section 3); a proxy may have made the references absolute. */
function readLinks(field = ''): Links {
  const links = [...field.matchAll(/<([^>]*)>\s*;\s*rel="?([^";,\s]+)/g)];
  const pairs = links.map(([, reference = '', relation = '']) => [relation, reference.replace(/^[^?]*/, '')]);
  return Object.fromEntries(pairs);
}

export function maxLimit({ list }: ListOperation): number {
  return Math.min(list.limit.schema.maximum ?? MAX_ROWS, MAX_ROWS);
}

export function idOf(row: Row): string {
  return typeof row.id === 'string' ? row.id : JSON.stringify(row);
}

/** The ids of those records that are known; others may be new. */
export function knownOf(rows: readonly Row[], known: readonly Row[]): string[] {
  const ids = new Set(known.map(idOf));
  return rows.map(idOf).filter((id) => ids.has(id));
}

/** Throws Mismatch if pages have a record twice, or not the expected known records in their order. */
export function comparePages(pages: readonly Page[], expected: readonly Row[], known: readonly Row[]): void {
  const wanted = expected.map(idOf);
  const seen = new Set<string>();
  let at = 0;
  for (const { request, rows } of pages) {
    const isKnown = new Set(knownOf(rows, known));
    for (const [index, row] of rows.entries()) {
      const id = idOf(row);
      const got = `${describeRow(row)} as its record ${index + 1}`;
      if (seen.has(id)) throw new Mismatch(request, 'every record once', `${got}, for the second time`);
      seen.add(id);
      if (!isKnown.has(id)) continue;
      if (id !== wanted[at]) throw new Mismatch(request, `${wanted[at] ?? 'no more records'} in that place`, got);
      at++;
    }
  }
  const last = pages.at(-1);
  if (last && at < wanted.length && at < MAX_ROWS) {
    throw new Mismatch(last.request, `${wanted[at]} too, ${wanted.length} records in all`, `${at} records without it`);
  }
}

export function describeRow(row: Row): string {
  const { id, ...rest } = row;
  return id === undefined ? JSON.stringify(rest) : `${id} ${JSON.stringify(rest)}`;
}
