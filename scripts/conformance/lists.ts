// Checks the pages, order and filters of a list.

import { isDeepStrictEqual } from 'node:util';
import fc from 'fast-check';
import type { Json } from '../../src/store/store.ts';
import { type Check, check, describeAnswer, forAll, type Setting, skip, Unknown } from './check.ts';
import { Mismatch } from './client.ts';
import type { Filter, ListOperation } from './contract.ts';
import { withHeader } from './request.ts';
import type { Page, Place, Row } from './rows.ts';
import { type Condition, comparePages, createReader, describeRow, idOf, MAX_ROWS, rowsOf } from './rows.ts';
import { createValid, isValid, keepValid, someOf, type Values } from './values.ts';

/** About the maximum number of pages per check. */
const MAX_PAGES = 25;
/** Attempts to compare two answers while others change the list. */
const MAX_TRIES = 3;
/** Records whose values a filter gets first. */
const MAX_EDGES = 3;

/** The checks of a list. */
export function* createListChecks(setting: Setting, operation: ListOperation): Generator<Check> {
  const { limit, offset, after, filters } = operation.list;
  const { minimum = 1, default: defaultLimit } = limit.schema;
  const { largest, toLimit, readPage, readPages, followLink } = createReader(setting, operation);
  const test = <T>(values: Values<T>, run: (value: T) => Promise<unknown>) => forAll(setting, operation, values, run);

  /** The whole list, read once to compare all answers with it. */
  let whole: Promise<readonly Row[]> | undefined;
  const readWhole = () => {
    whole ??= readPages().then((pages) => {
      const rows = rowsOf(pages);
      comparePages(pages, rows);
      return rows;
    });
    return whole;
  };
  /** A check that is skipped if the list has no records. */
  const checkRecords = (name: string, run: () => Promise<unknown>) =>
    check(name, async () => {
      const rows = await readWhole();
      await run().catch(async (error) => {
        // Other clients may change a record. If they create two at once, the first in the list may be committed last.
        whole = undefined;
        const now = await readWhole();
        if (isDeepStrictEqual(rows, now.slice(0, rows.length))) throw error;
        await run();
      });
      if ((await readWhole()).length === 0) throw new Unknown('the list has no records');
    });
  /** Tests pages of any size at any start after the first `min` records. */
  const testPages = async (min: number, toPlace: (start: number, rows: readonly Row[]) => Place) => {
    const rows = await readWhole();
    const { length } = rows;
    if (length < min) return;
    const some = fc.record({
      limit: fc.integer({ min: minimum, max: Math.max(minimum, Math.min(largest, length + 2)) }),
      start: fc.integer({ min, max: length }),
    });
    const starts = [min, length - 1, length].filter((start) => start >= min);
    const edges = starts.flatMap((start) => [minimum, largest].map((limit) => ({ limit, start })));
    await test({ some, edges }, async ({ limit, start }) =>
      comparePages([await readPage({ limit, ...toPlace(start, rows) })], rows.slice(start, start + limit), rows),
    );
  };

  yield checkRecords('gives pages that are together the whole list', async () => {
    const rows = await readWhole();
    const sizes = new Set([MAX_PAGES, 7, 3, 2, 1].map((count) => toLimit(rows.length / count)));
    for (const limit of sizes) comparePages(await readPages({ limit }), rows);
  });
  yield checkRecords('gives the page of any limit and offset', () => testPages(0, (offset) => ({ offset })));
  if (after) {
    yield checkRecords('continues after any record', () =>
      testPages(1, (start, rows) => ({ after: idOf(rows[start - 1] as Row) })),
    );
  }
  yield checkRecords('fills every page', async () => {
    const pages = await readPages();
    const page = pages.at(-1);
    const last = page?.rows.at(-1);
    if (!page || !last || page.rows.length >= largest) return;
    const beyond = after ? { after: idOf(last) } : { offset: rowsOf(pages).length };
    // A refusal counts as the end: the last record may have been deleted meanwhile, and an offset may have a maximum.
    const hasMore = () =>
      readPage({ limit: largest, ...beyond }).then(
        ({ rows }) => rows.length > 0,
        (error) => !(error instanceof Mismatch) && Promise.reject(error),
      );
    if (!(await hasMore())) return;
    // Others may have added records.
    const { rows } = await followLink(page, page.request.target.replace(/^[^?]*/, ''));
    if (rows.length > page.rows.length || !(await hasMore())) return;
    throw new Mismatch(page.request, 'a full page, or the last one', `${rows.length} records, and more behind them`);
  });
  yield checkRecords('gives nothing beyond the end', async () => {
    const { length } = await readWhole();
    const { maximum = 2_147_483_647 } = offset.schema;
    // Others may add records meanwhile.
    const offsets = length < MAX_ROWS ? [length + 10_000, maximum] : [maximum];
    for (const offset of offsets.filter((offset) => offset <= maximum)) {
      const { request, rows } = await readPage({ offset });
      if (rows.length > 0) throw new Mismatch(request, 'no record', `${rows.length} records`);
    }
  });
  yield checkRecords('gives the same when repeated', async () => {
    const rows = await readWhole();
    for (const page of [await readPage(), await readPage()]) {
      comparePages([page], rows.slice(0, defaultLimit ?? largest), rows);
    }
  });
  yield checkRecords('gives the same in any encoding', async () => {
    const { length } = await readWhole();
    if (length === 0) return;
    // The page has no more records than the list had, because others may add some meanwhile.
    const { request } = await readPage({ limit: toLimit(length) });
    const encoded = withHeader(request, 'Accept-Encoding', 'gzip, br');
    const { client } = setting;
    for (let tries = 1; ; tries++) {
      const [before, got] = [await client.send(request), await client.send(encoded)];
      const [expected, found] = [before, got].map(describeAnswer) as [string, string];
      if (found === expected) return;
      // If the list is shorter than its smallest limit, the page shows what others add.
      if (isBeginning(before.body, got.body) && isBeginning(got.body, (await client.send(request)).body)) return;
      if (tries === MAX_TRIES) throw new Mismatch(encoded, expected, found);
    }
  });

  const followNext = async (place: { readonly limit: number; readonly offset?: number }): Promise<Page[]> => {
    let page = await readPage(place);
    const pages = [page];
    while (page.links.next !== undefined && pages.length < MAX_PAGES) {
      if (page.rows.length < place.limit) throw new Mismatch(page.request, 'no Link to a next page', page.links.next);
      page = await followLink(page, page.links.next);
      pages.push(page);
    }
    return pages;
  };
  if (operation.success.headers.has('link')) {
    yield checkRecords('links each page to the next and the previous one', async () => {
      const smallest = toLimit(1);
      const rows = await readWhole();
      const filtered = rows.slice(0, 1).flatMap(describeAll);
      for (const conditions of [filtered, ...filtered.map((condition) => [condition])]) {
        // readPage compares the links with the request.
        const { request, rows: found, links } = await readPage({ limit: smallest, conditions });
        const isFull = found.length === smallest && rows.filter((row) => meetsAll(row, conditions)).length > smallest;
        if (isFull && links.next === undefined) throw new Mismatch(request, 'a Link to the next page', 'none');
      }
      const limit = toLimit(rows.length / 3);
      comparePages(await followNext({ limit }), rows);
      const pages = await followNext({ limit, offset: 0 });
      comparePages(pages, rows);
      for (const [index, page] of pages.entries()) {
        const { request, links } = page;
        const before = pages[index - 1];
        const expected = before ? 'a Link to the previous page' : 'no Link to a previous page';
        if (!before !== (links.prev === undefined)) throw new Mismatch(request, expected, links.prev ?? 'none');
        if (before) comparePages([await followLink(page, links.prev ?? '')], before.rows);
      }
    });
  }

  const toConditions = async (filter: Filter): Promise<Values<readonly Condition[]>> => {
    const { name, match, property } = filter;
    // Another list may have values for a filter that no property of this one shows.
    const other = setting.contract.lists.find(({ list }) => list.properties.includes(name));
    const readOther = async () => (other ? (await createReader(setting, other).readPage()).rows : []);
    const rows = match === 'none' ? await readOther() : await readWhole();
    const found = rows.map((row) => row[match === 'none' ? name : property]);
    const { some, edges } = toValues(filter, [...new Set(found)]);
    const toCondition = (value: Json) => [{ input: filter, value }];
    return { some: some.map(toCondition), edges: edges.map(toCondition) };
  };
  /** The conditions of all filters that a record meets. */
  const describeAll = (row: Row): Condition[] =>
    filters.flatMap((input) => {
      const [value] = input.match === 'none' ? [] : toForms(input, [row[input.property]]);
      return value === undefined ? [] : [{ input, value }];
    });
  const checkFilter = (name: string, readValues: () => Promise<Values<readonly Condition[]>>) =>
    checkRecords(name, async () => {
      const found = await test(await readValues(), async (conditions) => {
        const pages = await readPages({ conditions });
        compareFiltered(pages, await readWhole(), conditions);
        return conditions.length > 0 && rowsOf(pages).length > 0;
      });
      const isEmpty = (await readWhole()).length === 0;
      if (found === 0 && !isEmpty) throw new Unknown('no value is known that leads to a record');
    });

  for (const filter of filters) {
    const { match, 'x-filter': described } = filter;
    const name = `filters by ${filter.name}`;
    yield checkFilter(`${name}${match === 'none' ? ', which no property shows' : ''}`, () => toConditions(filter));
    if (match !== 'none' || described?.match === 'none') continue;
    yield skip(name, 'no property has its name: say with x-filter what it compares');
  }
  if (filters.length > 1) {
    yield checkFilter('filters by all of them together', async () => {
      const values = await Promise.all(filters.map(toConditions));
      const some = someOf(values.map(({ some }) => some)).map((all) => all.flat());
      return { some, edges: (await readWhole()).slice(0, MAX_EDGES).map(describeAll) };
    });
  }
}

/** Values of existing records that a filter accepts, and generated values, which hardly any record has. */
function toValues(filter: Filter, found: readonly (Json | undefined)[]): Values {
  const { some } = createValid(filter);
  const edges = toForms(filter, found);
  const texts = toKnown(found).map(String).filter(Boolean);
  const parts = filter.match === 'contains' && texts.length > 0 ? fc.constantFrom(...texts).chain(partOf) : undefined;
  const own = parts ? keepValid(filter, parts) : edges.length > 0 ? fc.constantFrom(...edges) : undefined;
  if (!own) return { some, edges: [] };
  const changed = edges.flatMap((value) => changeCase(filter, value)).find((value) => isValid(filter, value));
  const tried = [...edges.slice(0, MAX_EDGES), ...(changed === undefined ? [] : [changed])];
  return { some: fc.oneof({ weight: 3, arbitrary: own }, some), edges: tried };
}

/** The values of records as a filter accepts them: it may take a number as a text, or a list of values. */
function toForms(filter: Filter, found: readonly (Json | undefined)[]): Json[] {
  return toKnown(found).flatMap((value) =>
    [value, String(value), [value]].filter((form) => isValid(filter, form)).slice(0, 1),
  );
}

function toKnown(found: readonly (Json | undefined)[]): Json[] {
  return found.flat().filter((value) => value !== null && value !== undefined);
}

/** A part of a text, in any case, with or without accents. */
function partOf(text: string): fc.Arbitrary<string> {
  const letters = [...text];
  const change = fc.constantFrom((part: string) => part, upper, lower, withoutAccents);
  const parts = fc.tuple(fc.nat(letters.length - 1), fc.integer({ min: 1, max: 8 }), change);
  return parts.map(([from, length, change]) => change(letters.slice(from, from + length).join('')));
}

const lower = (text: string): string => text.toLowerCase();
/** Leaves texts with letters such as ß, which have no single capital. */
const upper = (text: string): string => (lower(text.toUpperCase()) === lower(text) ? text.toUpperCase() : text);
const UUID = /^[\da-f]{8}(-?)([\da-f]{4}\1){3}[\da-f]{12}$/i;

/** A text in other cases; none if SQL may read it as a value of another type, which ignores case. */
function changeCase({ match, schema: { format } }: Filter, value: Json): string[] {
  const text = String(value);
  const isText = match === 'equals' && typeof value === 'string' && format === undefined && !UUID.test(text);
  return format === 'uuid' || isText ? [upper(text), lower(text)].filter((other) => other !== text) : [];
}

const withoutAccents = (text: string): string =>
  text
    .normalize('NFD')
    .replaceAll(/[\u0300-\u036f]/g, '')
    .normalize('NFC');
const toSearchable = (value: Json): string => withoutAccents(lower(String(value)));

function compareFiltered(pages: readonly Page[], whole: readonly Row[], conditions: readonly Condition[]): void {
  for (const { request, rows } of pages) {
    const wrong = rows.find((row) => !meetsAll(row, conditions));
    if (!wrong) continue;
    throw new Mismatch(request, `only records with ${conditions.map(describe).join(' and ')}`, describeRow(wrong));
  }
  const found = new Set(rowsOf(pages).map(idOf));
  const isShown = conditions.every(({ input }) => input.match !== 'none');
  const expected = whole.filter((row) => (isShown ? meetsAll(row, conditions) : found.has(idOf(row))));
  comparePages(pages, expected, whole);
}

/** Whether a list begins with another one. */
function isBeginning(rows: Json | undefined, list: Json | undefined): boolean {
  return Array.isArray(rows) && Array.isArray(list) && isDeepStrictEqual(list.slice(0, rows.length), rows);
}

/** How a filter compares the value of a record with its own, and the word for it. */
const COMPARISONS: Readonly<Record<Filter['match'], readonly [string, typeof isEqual]>> = {
  equals: ['=', isEqual],
  from: ['from', (actual, value) => !isLess(actual, value)],
  until: ['until', (actual, value) => !isLess(value, actual)],
  contains: ['containing', (actual, value) => toSearchable(actual).includes(toSearchable(value))],
  none: ['', () => true],
};

/** If the filter or the record has a list, one common value is enough. */
function isEqual(actual: Json, value: Json, { schema: { format } }: Filter): boolean {
  const toComparable = (one: Json) => (format === 'uuid' ? lower(String(one)) : toInstant(one));
  const wanted = [value].flat().map(toComparable);
  return [actual].flat().some((one) => wanted.includes(toComparable(one)));
}

function meetsAll(row: Row, conditions: readonly Condition[]): boolean {
  return conditions.every(({ input, value }) => {
    const actual = row[input.property] ?? null;
    const [, isMet] = COMPARISONS[input.match];
    return input.match === 'none' || (actual !== null && isMet(actual, value, input));
  });
}

/** Whether one value comes before another in a filter. */
export function isLess(one: Json, other: Json): boolean {
  // Numbers in a query may be texts; dates sort as texts.
  const areNumbers = [one, other].every((value) => value !== '' && Number.isFinite(Number(value)));
  return areNumbers ? Number(one) < Number(other) : toInstant(one) < toInstant(other);
}

const INSTANT = /^\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.(\d+))?(?:Z|[+-]\d\d:\d\d)$/i;

/** The text of a value. A time is in UTC, so that it sorts; a Date would have no microseconds. */
function toInstant(value: Json): string {
  const text = String(value);
  const [whole, fraction = ''] = INSTANT.exec(text) ?? [];
  return whole ? `${new Date(whole).toISOString().slice(0, 19)}.${fraction.padEnd(6, '0')}` : text;
}

function describe({ input: { match, property, name }, value }: Condition): string {
  const [word] = COMPARISONS[match];
  return `${match === 'none' ? name : `${property} ${word}`} ${JSON.stringify(value)}`;
}
