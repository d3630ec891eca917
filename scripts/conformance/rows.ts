// Reads a list in pages, and compares them while others may add records.

import { isDeepStrictEqual } from 'node:util';
import type { Json } from '../../src/store/store.ts';
import { expectAnswer, type Setting } from './check.ts';
import { Mismatch } from './client.ts';
import type { Filter, ListOperation } from './contract.ts';
import { type Assignment, type Request, toValidRequest } from './request.ts';

export type Row = Readonly<Record<string, Json>>;

/** Maximum number of records read of a list. */
export const MAX_ROWS = 5_000;

/** A filter and its value. */
export type Condition = Assignment<Filter>;

/** A page, its request, its ETag, and the queries of other pages by relation. */
export type Page = {
  readonly request: Request;
  readonly tag: string | undefined;
  readonly rows: readonly Row[];
  readonly links: Readonly<Record<string, string>>;
};

/** The size, start and filters of a page. */
export type Place = {
  readonly limit?: number;
  readonly offset?: number;
  readonly after?: string;
  readonly conditions?: readonly Condition[];
};

/** Reads the pages of a list. */
export function createReader(setting: Setting, operation: ListOperation) {
  const { limit, offset, after } = operation.list;
  const largest = Math.min(limit.schema.maximum ?? MAX_ROWS, MAX_ROWS);

  /** Reads one page. Required inputs that are not given have valid values, the same for every page. */
  async function readPage(place: Place = {}): Promise<Page> {
    const { conditions = [], ...values } = place;
    const places = [limit, offset, after].flatMap((input, index) => {
      const value = [values.limit, values.offset, values.after][index];
      return input && value !== undefined ? [{ input, value }] : [];
    });
    const request = toValidRequest(operation, [...conditions, ...places]);
    return receive(request, place.limit ?? limit.schema.default);
  }

  function followLink({ request }: Page, query: string): Promise<Page> {
    const most = new URLSearchParams(query).get(limit.name);
    const target = request.target.replace(/\?.*|$/s, query);
    return receive({ ...request, target }, most === null ? undefined : Number(most));
  }

  async function receive(request: Request, most: number = Number.POSITIVE_INFINITY): Promise<Page> {
    const { body, headers } = await expectAnswer(setting, operation, request);
    const rows = body as readonly Row[];
    if (rows.length > most) throw new Mismatch(request, `at most ${most} records`, `${rows.length} records`);
    if (setting.otherKey && setting.sender === undefined) {
      const shown = setting.shown.get(operation) ?? new Map<string, Request>();
      setting.shown.set(operation, shown);
      for (const row of rows) shown.set(identify(row), request);
    }
    return { request, rows, tag: headers.etag, links: readLinks(request, headers.link) };
  }

  /** The queries of the next and the previous page. A proxy may make links absolute, and add others. */
  function readLinks(request: Request, header = ''): Page['links'] {
    const places = [limit, offset, after].map((input) => input?.name);
    /** The parts of the URL that a link has to repeat. */
    const describeList = ({ pathname, searchParams }: URL) => {
      const others = [...searchParams].filter(([name]) => !places.includes(name)).sort();
      return `${pathname}?${new URLSearchParams(others)}`;
    };
    const base = new URL(setting.url + request.target);
    const expected = describeList(base);
    // RFC 8288, section 3.
    const links = [...header.matchAll(/<([^>]*)>\s*;\s*rel="?(next|prev)(?![^";,\s])/g)];
    const pairs = links.map(([, reference = '', relation]) => {
      const url = URL.parse(reference, base.href);
      if (url && describeList(url) === expected) return [relation, url.search];
      throw new Mismatch(request, `a Link to ${expected}`, reference);
    });
    return Object.fromEntries(pairs);
  }

  /** Reads all pages of a size, up to MAX_ROWS records, with `after` if the list has it, or else with `offset`. */
  async function readPages(
    place: Place = {},
    onPage: (count: number) => Promise<unknown> = async () => {},
  ): Promise<Page[]> {
    const { limit = largest } = place;
    const pages: Page[] = [];
    const seen = new Set<string>();
    let start: Place = {};
    for (let offset = limit; offset < MAX_ROWS + limit; offset += limit) {
      const page = await readPage({ ...place, limit, ...start });
      pages.push(page);
      const last = page.rows.at(-1);
      // A page that ends like an earlier one would start an endless loop.
      if (!last || page.rows.length < limit || (hasId(last) && seen.has(idOf(last)))) break;
      seen.add(idOf(last));
      await onPage(pages.length);
      start = after ? { after: idOf(last) } : { offset };
    }
    return pages;
  }

  return {
    largest,
    /** The valid limit that is closest to a number of records. */
    toLimit: (count: number) => Math.min(Math.max(Math.ceil(count), limit.schema.minimum ?? 1), largest),
    readPage,
    readPages,
    readRows: async () => rowsOf(await readPages()),
    followLink,
  };
}

export function rowsOf(pages: readonly Page[]): readonly Row[] {
  return pages.flatMap(({ rows }) => rows);
}

/** Without an id, different records may look the same. */
export function hasId({ id }: Row): boolean {
  return typeof id === 'string' || typeof id === 'number';
}

/** Identifies a record among those of all tenants. A number may also be the id of another tenant's record. */
export function identify(row: Row): string {
  return typeof row.id === 'number' ? JSON.stringify(row) : idOf(row);
}

export function idOf(row: Row): string {
  return hasId(row) ? String(row.id) : JSON.stringify(row);
}

/** Throws Mismatch if pages have a record twice, or if their known records are not the expected ones, with their values and in order. */
export function comparePages(pages: readonly Page[], expected: readonly Row[], known = expected): void {
  const wanted = expected.map(idOf);
  const knownById = new Map(known.map((row) => [idOf(row), row]));
  const seen = new Set<string>();
  let at = 0;
  for (const { request, rows } of pages) {
    for (const [index, row] of rows.entries()) {
      const id = idOf(row);
      const got = `${describeRow(row)} as its record ${index + 1}`;
      if (hasId(row) && seen.has(id)) throw new Mismatch(request, 'every record once', `${got}, for the second time`);
      seen.add(id);
      const same = knownById.get(id);
      if (!same) continue;
      if (id !== wanted[at]) throw new Mismatch(request, `${wanted[at] ?? 'no more records'} in that place`, got);
      if (!isDeepStrictEqual(row, same)) throw new Mismatch(request, `${describeRow(same)}, as in the whole list`, got);
      at++;
    }
  }
  const last = pages.at(-1);
  if (last && at < wanted.length && at < MAX_ROWS) {
    throw new Mismatch(last.request, `${wanted[at]} too, ${wanted.length} records in all`, `${at} records without it`);
  }
}

export function describeRow(row: Row | undefined): string {
  if (!row) return 'a list without it';
  const { id, ...rest } = row;
  return id === undefined ? JSON.stringify(rest) : `${id} ${JSON.stringify(rest)}`;
}
