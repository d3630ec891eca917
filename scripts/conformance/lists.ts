// What holds for every list: its pages, its order and its filters.

import fc from 'fast-check';
import type { Json } from '../../src/store/store.ts';
import { type Check, forAll, Mismatch, type Setting } from './check.ts';
import type { Filter } from './operations.ts';
import {
  type Condition,
  comparePages,
  describeRow,
  followLink,
  idOf,
  knownOf,
  type ListOperation,
  MAX_ROWS,
  maxLimit,
  type Page,
  type Row,
  readPage,
  readPages,
} from './rows.ts';
import { createValid, type Values } from './values.ts';

/** Roughly the maximum number of pages that a list is read in for one check. */
const MAX_PAGES = 25;

/** The checks of a list. Other lists may show values for a filter whose property its own records do not show. */
export function createListChecks(setting: Setting, operation: ListOperation, lists: readonly ListOperation[]): Check[] {
  const { limit, offset, after, filters } = operation.list;
  const { minimum = 1, default: defaultLimit } = limit.schema;
  const largest = maxLimit(operation);
  const test = <T>(values: { some: fc.Arbitrary<T>; edges: readonly T[] }, run: (value: T) => Promise<unknown>) =>
    forAll(setting, operation, setting.runs, values, run);
  /** About `count` records, as a valid limit. */
  const toSize = (count: number) => Math.min(Math.max(Math.ceil(count), minimum), largest);

  /** The whole list, read once: all answers are compared with it. */
  let whole: Promise<readonly Row[]> | undefined;
  const readWhole = () => {
    whole ??= readPages(setting, operation, largest).then((pages) => {
      const rows = pages.flatMap((page) => page.rows);
      comparePages(pages, rows, rows);
      return rows;
    });
    return whole;
  };

  const pagesAreComplete = async () => {
    const rows = await readWhole();
    const sizes = new Set([MAX_PAGES, 7, 3, 2, 1].map((count) => toSize(rows.length / count)));
    for (const size of sizes) comparePages(await readPages(setting, operation, size), rows, rows);
  };
  const pagesAreParts = async () => {
    const rows = await readWhole();
    const { length } = rows;
    const some = fc.record({
      limit: fc.integer({ min: minimum, max: Math.max(minimum, Math.min(largest, length + 2)) }),
      offset: fc.integer({ min: 0, max: length + 2 }),
    });
    const offsets = [0, length - 1, length].filter((offset) => offset >= 0);
    const edges = offsets.flatMap((offset) => [minimum, largest].map((limit) => ({ limit, offset })));
    await test({ some, edges }, async ({ limit, offset }) => {
      const page = await readPage(setting, operation, { limit, offset });
      comparePages([page], rows.slice(offset, offset + limit), rows);
    });
  };
  const continuesAfterRecords = async () => {
    const rows = await readWhole();
    const { length } = rows;
    if (length === 0) return;
    const some = fc.record({
      limit: fc.integer({ min: minimum, max: Math.max(minimum, Math.min(largest, length + 2)) }),
      index: fc.nat({ max: length - 1 }),
    });
    const edges = [0, length - 1].flatMap((index) => [minimum, largest].map((limit) => ({ limit, index })));
    await test({ some, edges }, async ({ limit, index }) => {
      const page = await readPage(setting, operation, { limit, after: idOf(rows[index] as Row) });
      comparePages([page], rows.slice(index + 1, index + 1 + limit), rows);
    });
  };
  const endsAtItsEnd = async () => {
    const { length } = await readWhole();
    const { maximum = 2_147_483_647 } = offset.schema;
    // Others may add some records meanwhile.
    const offsets = length < MAX_ROWS ? [length + 10_000, maximum] : [maximum];
    for (const offset of offsets.filter((offset) => offset <= maximum)) {
      const { request, rows } = await readPage(setting, operation, { offset });
      if (rows.length > 0) throw new Mismatch(request, 'no record', `${rows.length} records`);
    }
  };
  const isStable = async () => {
    const rows = await readWhole();
    for (let times = 0; times < 2; times++) {
      comparePages([await readPage(setting, operation, {})], rows.slice(0, defaultLimit ?? largest), rows);
    }
  };

  const followNext = async (place: { readonly limit: number; readonly offset?: number }): Promise<Page[]> => {
    let page = await readPage(setting, operation, place);
    const pages = [page];
    while (page.links.next !== undefined && pages.length < MAX_PAGES) {
      if (page.rows.length < place.limit) throw new Mismatch(page.request, 'no Link to a next page', page.links.next);
      page = await followLink(setting, operation, page, page.links.next);
      pages.push(page);
    }
    return pages;
  };
  /** The links lead through the whole list and back. */
  const pagesAreLinked = async () => {
    const rows = await readWhole();
    const limit = toSize(rows.length / 3);
    comparePages(await followNext({ limit }), rows, rows);
    const pages = await followNext({ limit, offset: 0 });
    comparePages(pages, rows, rows);
    for (const [index, page] of pages.entries()) {
      const before = pages[index - 1];
      const { prev } = page.links;
      if (!before && prev !== undefined) throw new Mismatch(page.request, 'no Link to a previous page', prev);
      if (!before) continue;
      if (prev === undefined) throw new Mismatch(page.request, 'a Link to the previous page', 'none');
      comparePages([await followLink(setting, operation, page, prev)], before.rows, before.rows);
    }
  };

  const toConditions = async (filter: Filter) => {
    const { input, match } = filter;
    const property = match === 'none' ? input.name : filter.property;
    const other = lists.find(({ list }) => list.properties.includes(property));
    const otherRows = async () => (other ? (await readPage(setting, other, {})).rows : []);
    const rows = match === 'none' ? await otherRows() : await readWhole();
    const { some, edges } = toValues(filter, [...new Set(rows.map((row) => row[property]))]);
    const toCondition = (value: Json): Condition => ({ filter, value });
    return { some: some.map(toCondition), edges: edges.map(toCondition) };
  };
  /** A filtered list is the whole list, filtered. */
  const filtersBy = async (filters: readonly Filter[]) => {
    const rows = await readWhole();
    const conditions = await Promise.all(filters.map(toConditions));
    const options = conditions.map(({ some }) => (filters.length > 1 ? fc.option(some, { nil: undefined }) : some));
    const some = fc.tuple(...options).map((choice) => choice.filter((condition) => condition !== undefined));
    const edges = filters.length > 1 ? [] : (conditions[0]?.edges ?? []).map((condition) => [condition]);
    await test({ some, edges }, async (conditions) =>
      compareFiltered(await readPages(setting, operation, largest, conditions), rows, conditions),
    );
  };

  const hasLinks = operation.answers.get(operation.status)?.headers.has('link');
  return [
    { name: 'gives pages that are together the whole list', run: pagesAreComplete },
    { name: 'gives the page of any limit and offset', run: pagesAreParts },
    ...(after ? [{ name: 'continues after any record', run: continuesAfterRecords }] : []),
    { name: 'gives nothing beyond the end', run: endsAtItsEnd },
    { name: 'gives the same when repeated', run: isStable },
    ...(hasLinks ? [{ name: 'links each page to the next and the previous one', run: pagesAreLinked }] : []),
    ...filters.map((filter) => ({
      name: `filters by ${filter.input.name}${filter.match === 'none' ? ', which no property shows' : ''}`,
      run: () => filtersBy([filter]),
    })),
    ...(filters.length > 1 ? [{ name: 'filters by all of them together', run: () => filtersBy(filters) }] : []),
  ];
}

/** Values of records in the spellings that a filter accepts, and values that hardly any record has. */
function toValues({ input, match }: Filter, found: readonly (Json | undefined)[]): Values {
  const texts = found.filter((value) => value !== null && value !== undefined).map(String);
  const { some } = createValid(input);
  if (texts.length === 0) return { some, edges: [] };
  const text = fc.constantFrom(...texts);
  const accepts = (value: Json) => input.validate(value) === true;
  const own = (match === 'contains' ? text.chain(partOf) : text).filter(accepts);
  return { some: fc.oneof({ weight: 3, arbitrary: own }, some), edges: texts.slice(0, 3).filter(accepts) };
}

/** A part of a text, in either case, with its accents or without. */
function partOf(text: string): fc.Arbitrary<string> {
  const letters = [...text];
  return fc
    .tuple(
      fc.nat(letters.length - 1),
      fc.integer({ min: 1, max: 8 }),
      fc.constantFrom(same, upper, lower, withoutAccents),
    )
    .map(([from, length, change]) => change(letters.slice(from, from + length).join('')));
}

const same = (text: string): string => text;
const withoutAccents = (text: string): string =>
  text
    .normalize('NFD')
    .replaceAll(/[\u0300-\u036f]/g, '')
    .normalize('NFC');
const toSearchable = (value: Json): string => withoutAccents(String(value).toLowerCase());
const lower = (text: string): string => text.toLowerCase();
/** Without letters such as ß, whose other case is not a single letter. */
const upper = (text: string): string => (lower(text.toUpperCase()) === lower(text) ? text.toUpperCase() : text);

function compareFiltered(pages: readonly Page[], whole: readonly Row[], conditions: readonly Condition[]): void {
  const meetsAll = (row: Row) => conditions.every((condition) => isMet(condition, row));
  for (const { request, rows } of pages) {
    const wrong = rows.find((row) => !meetsAll(row));
    const text = () => conditions.map(describeCondition).join(' and ');
    if (wrong) throw new Mismatch(request, `only records with ${text()}`, describeRow(wrong));
  }
  const rows = pages.flatMap(({ rows }) => rows);
  const found = new Set(knownOf(rows, whole));
  const isShown = conditions.every(({ filter }) => filter.match !== 'none');
  const expected = whole.filter((row) => (isShown ? meetsAll(row) : found.has(idOf(row))));
  comparePages(pages, expected, whole);
}

function isMet({ filter: { match, property }, value }: Condition, row: Row): boolean {
  const actual = row[property];
  if (match === 'none') return true;
  if (actual === null || actual === undefined) return false;
  if (match === 'from') return !isLess(actual, value);
  if (match === 'until') return !isLess(value, actual);
  if (match === 'contains') return toSearchable(actual).includes(toSearchable(value));
  return String(actual) === String(value);
}

function isLess(one: Json, other: Json): boolean {
  // A number of the query may be a text; dates are in the order of their texts.
  const areNumbers = [one, other].every((value) => value !== '' && Number.isFinite(Number(value)));
  return areNumbers ? Number(one) < Number(other) : String(one) < String(other);
}

function describeCondition({ filter: { match, property, input }, value }: Condition): string {
  const text = JSON.stringify(value);
  if (match === 'none') return `${input.name} ${text}`;
  return `${property} ${{ equals: '=', from: 'from', until: 'until', contains: 'containing' }[match]} ${text}`;
}
