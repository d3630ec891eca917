// The records of a list, read in pages, and how lists are compared while others may add to them.

import type { Json } from '../../src/store/store.ts';
import { expectAnswer, Mismatch, type Setting } from './check.ts';
import type { Filter, List, Operation } from './operations.ts';
import { type Assignment, type Request, toRequest } from './request.ts';

export type Row = Readonly<Record<string, Json>>;

/** A list is looked at so far. */
export const MOST_ROWS = 5_000;

/** An operation that is a list. */
export type ListOperation = Operation & { readonly list: List };

/** A value for a filter. */
export type Condition = { readonly filter: Filter; readonly value: Json };

/** A page, with the request that gave it and the pages beside it. */
export type Page = { readonly request: Request; readonly rows: readonly Row[]; readonly links: Links };

/** The queries of the pages after and before a page, by their relation. */
export type Links = Readonly<Record<string, string>>;

/** Reads one page; leaves the limit or the offset to their defaults where it is not told them. */
export async function readPage(
  setting: Setting,
  operation: ListOperation,
  place: { readonly limit?: number; readonly offset?: number },
  conditions: readonly Condition[] = [],
): Promise<Page> {
  const { limit, offset } = operation.list;
  const assignments: Assignment[] = conditions.map(({ filter, value }) => ({ input: filter.input, value }));
  if (place.limit !== undefined) assignments.push({ input: limit, value: place.limit });
  if (place.offset !== undefined) assignments.push({ input: offset, value: place.offset });
  const request = toRequest(operation, assignments);
  return sendForPage(setting, operation, request, place.limit ?? limit.schema.default);
}

/** Reads the page that a link of another one leads to. */
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

/** Reads page after page of this size up to the end of the list, or to MOST_ROWS. */
export async function readPages(
  setting: Setting,
  operation: ListOperation,
  size: number,
  conditions: readonly Condition[] = [],
): Promise<Page[]> {
  const pages: Page[] = [];
  for (let offset = 0; offset < MOST_ROWS; offset += size) {
    const page = await readPage(setting, operation, { limit: size, ...(offset > 0 ? { offset } : {}) }, conditions);
    pages.push(page);
    if (page.rows.length < size) break;
  }
  return pages;
}

/** The queries of the header Link (RFC 8288, 3); a proxy may have made the references absolute. */
function readLinks(field = ''): Links {
  const links = [...field.matchAll(/<([^>]*)>\s*;\s*rel="?([^";,\s]+)/g)];
  const pairs = links.map(([, reference = '', relation = '']) => [relation, reference.replace(/^[^?]*/, '')]);
  return Object.fromEntries(pairs);
}

/** The largest page that a list gives. */
export function largestPage({ list }: ListOperation): number {
  return Math.min(list.limit.schema.maximum ?? MOST_ROWS, MOST_ROWS);
}

/** What tells one record from another. */
export function idOf(row: Row): string {
  return typeof row.id === 'string' ? row.id : JSON.stringify(row);
}

/** The records as far as they are among those known: others may have come meanwhile. */
export function knownOf(rows: readonly Row[], known: readonly Row[]): string[] {
  const ids = new Set(known.map(idOf));
  return rows.map(idOf).filter((id) => ids.has(id));
}

/** Throws Mismatch where these pages have a record twice, or not the expected ones in their order. */
export function comparePages(pages: readonly Page[], expected: readonly Row[], known: readonly Row[]): void {
  const wanted = expected.map(idOf);
  const seen = new Set<string>();
  let at = 0;
  for (const { request, rows } of pages) {
    const isKnown = new Set(knownOf(rows, known));
    for (const [index, row] of rows.entries()) {
      const id = idOf(row);
      const got = `${describeRow(row)} as its record ${index + 1}`;
      if (seen.has(id)) throw new Mismatch(request, 'every record once', `${got}, which was there before`);
      seen.add(id);
      if (!isKnown.has(id)) continue;
      if (id !== wanted[at]) throw new Mismatch(request, `${wanted[at] ?? 'no more records'} in that place`, got);
      at++;
    }
  }
  const last = pages.at(-1);
  if (last && at < wanted.length && at < MOST_ROWS) {
    throw new Mismatch(last.request, `${wanted[at]} too, ${wanted.length} records in all`, `${at} records without it`);
  }
}

/** A record in some words. */
export function describeRow(row: Row): string {
  const { id, ...rest } = row;
  return id === undefined ? JSON.stringify(rest) : `${id} ${JSON.stringify(rest)}`;
}
