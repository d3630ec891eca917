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
  largestPage,
  MOST_ROWS,
  type Page,
  type Row,
  readPage,
  readPages,
} from './rows.ts';
import { createValid, type Values } from './values.ts';

/** No list is read in more pages than about this for one check. */
const MOST_PAGES = 25;

/** The checks of a list. The others among the lists may know values for a filter that its own records do not show. */
export function createListChecks(setting: Setting, operation: ListOperation, lists: readonly ListOperation[]): Check[] {
  const checks = new ListChecks(setting, operation, lists);
  const { filters } = operation.list;
  return [
    { name: 'gives pages that are together the whole list', run: () => checks.pagesAreComplete() },
    { name: 'gives the page of any limit and offset', run: () => checks.pagesAreParts() },
    { name: 'gives nothing beyond the end', run: () => checks.endsAtItsEnd() },
    { name: 'gives the same when asked again', run: () => checks.isStable() },
    ...(operation.headers.has('link')
      ? [{ name: 'links each page to those beside it', run: () => checks.pagesAreLinked() }]
      : []),
    ...filters.map((filter) => ({
      name: `filters by ${filter.input.name}${filter.match === 'none' ? ', which no property shows' : ''}`,
      run: () => checks.filters([filter]),
    })),
    ...(filters.length > 1 ? [{ name: 'filters by all of them together', run: () => checks.filters(filters) }] : []),
  ];
}

class ListChecks {
  readonly #setting: Setting;
  readonly #operation: ListOperation;
  readonly #lists: readonly ListOperation[];
  #whole: Promise<readonly Row[]> | undefined;

  constructor(setting: Setting, operation: ListOperation, lists: readonly ListOperation[]) {
    this.#setting = setting;
    this.#operation = operation;
    this.#lists = lists;
  }

  async pagesAreComplete(): Promise<void> {
    const whole = await this.#readWhole();
    for (const size of this.#sizes(whole.length)) {
      comparePages(await readPages(this.#setting, this.#operation, size), whole, whole);
    }
  }

  async pagesAreParts(): Promise<void> {
    const whole = await this.#readWhole();
    const { minimum = 1 } = this.#operation.list.limit.schema;
    const largest = largestPage(this.#operation);
    const places = fc.record({
      limit: fc.integer({ min: minimum, max: Math.max(minimum, Math.min(largest, whole.length + 2)) }),
      offset: fc.integer({ min: 0, max: whole.length + 2 }),
    });
    const edges = [0, whole.length - 1, whole.length].flatMap((offset) =>
      [minimum, largest].map((limit) => ({ limit, offset })),
    );
    await forAll(
      this.#setting,
      this.#operation,
      this.#setting.runs,
      { some: places, edges: edges.filter(({ offset }) => offset >= 0) },
      async ({ limit, offset }) => {
        const page = await readPage(this.#setting, this.#operation, { limit, offset });
        comparePages([page], whole.slice(offset, offset + limit), whole);
      },
    );
  }

  async endsAtItsEnd(): Promise<void> {
    const whole = await this.#readWhole();
    const { maximum = 2_147_483_647 } = this.#operation.list.offset.schema;
    // Far enough for what others may add meanwhile.
    const offsets = whole.length < MOST_ROWS ? [whole.length + 10_000, maximum] : [maximum];
    for (const offset of offsets.filter((offset) => offset <= maximum)) {
      const { request, rows } = await readPage(this.#setting, this.#operation, { offset });
      if (rows.length > 0) throw new Mismatch(request, 'no record', `${rows.length} records`);
    }
  }

  async isStable(): Promise<void> {
    const whole = await this.#readWhole();
    for (let times = 0; times < 2; times++) {
      comparePages([await readPage(this.#setting, this.#operation, {})], whole.slice(0, this.#defaultSize()), whole);
    }
  }

  /** The links lead through the whole list, and back again. */
  async pagesAreLinked(): Promise<void> {
    const whole = await this.#readWhole();
    const pages = await this.#followNext(this.#toSize(whole.length / 3));
    comparePages(pages, whole, whole);
    for (const [index, page] of pages.entries()) {
      const before = pages[index - 1];
      const { prev } = page.links;
      if (!before && prev !== undefined) throw new Mismatch(page.request, 'no Link to a page before', prev);
      if (!before) continue;
      if (prev === undefined) throw new Mismatch(page.request, 'a Link to the page before', 'none');
      comparePages([await followLink(this.#setting, this.#operation, page, prev)], before.rows, before.rows);
    }
  }

  async #followNext(limit: number): Promise<Page[]> {
    let page = await readPage(this.#setting, this.#operation, { limit, offset: 0 });
    const pages = [page];
    while (page.links.next !== undefined && pages.length < MOST_PAGES) {
      if (page.rows.length < limit) throw new Mismatch(page.request, 'no Link to a page after', page.links.next);
      page = await followLink(this.#setting, this.#operation, page, page.links.next);
      pages.push(page);
    }
    return pages;
  }

  /** The result of filters is the whole list, filtered. */
  async filters(filters: readonly Filter[]): Promise<void> {
    const whole = await this.#readWhole();
    const conditions = await Promise.all(filters.map((filter) => this.#conditionsOf(filter, whole)));
    const options = conditions.map(({ some }) => (filters.length > 1 ? fc.option(some, { nil: undefined }) : some));
    const chosen = fc.tuple(...options).map((choice) => choice.filter((condition) => condition !== undefined));
    const edges = filters.length > 1 ? [] : (conditions[0]?.edges ?? []).map((condition) => [condition]);
    await forAll(this.#setting, this.#operation, this.#setting.runs, { some: chosen, edges }, async (conditions) => {
      const pages = await readPages(this.#setting, this.#operation, largestPage(this.#operation), conditions);
      compareFiltered(pages, whole, conditions);
    });
  }

  async #conditionsOf(filter: Filter, whole: readonly Row[]) {
    const rows = filter.match === 'none' ? await this.#readElsewhere(filter.input.name) : whole;
    const property = filter.match === 'none' ? filter.input.name : filter.property;
    const values = valuesOf(filter, [...new Set(rows.map((row) => row[property]))]);
    const toCondition = (value: Json): Condition => ({ filter, value });
    return { some: values.some.map(toCondition), edges: values.edges.map(toCondition) };
  }

  /** The first records of another list that shows the property. */
  async #readElsewhere(property: string): Promise<readonly Row[]> {
    const other = this.#lists.find(({ list }) => list.properties.includes(property));
    return other ? (await readPage(this.#setting, other, {})).rows : [];
  }

  /** The whole list, read once: the other requests are held against what was there then. */
  #readWhole(): Promise<readonly Row[]> {
    this.#whole ??= readPages(this.#setting, this.#operation, largestPage(this.#operation)).then((pages) => {
      const rows = pages.flatMap((page) => page.rows);
      comparePages(pages, rows, rows);
      return rows;
    });
    return this.#whole;
  }

  #sizes(length: number): number[] {
    const sizes = [1, 2, 3, 7, MOST_PAGES].map((count) => this.#toSize(length / count));
    return [...new Set(sizes)].sort((a, b) => a - b);
  }

  /** About so many records, as a limit that the list takes. */
  #toSize(count: number): number {
    const { minimum = 1 } = this.#operation.list.limit.schema;
    return Math.min(Math.max(Math.ceil(count), minimum), largestPage(this.#operation));
  }

  #defaultSize(): number {
    return this.#operation.list.limit.schema.default ?? largestPage(this.#operation);
  }
}

/** Values that records have, in the ways in which a filter may be given them, and values that hardly any has. */
function valuesOf({ input, match }: Filter, found: readonly (Json | undefined)[]): Values {
  const texts = found.filter((value) => value !== null && value !== undefined).map(String);
  const { some } = createValid(input);
  if (texts.length === 0) return { some, edges: [] };
  const text = fc.constantFrom(...texts);
  const taken = match === 'contains' ? text.chain(partOf) : text;
  const accepts = (value: Json) => input.validate(value) === true;
  return {
    some: fc.oneof({ weight: 3, arbitrary: taken.filter(accepts) }, some),
    edges: texts.slice(0, 3).filter(accepts),
  };
}

/** A part of a text, in letters of either case. */
function partOf(text: string): fc.Arbitrary<string> {
  const letters = [...text];
  return fc
    .tuple(fc.nat(letters.length - 1), fc.integer({ min: 1, max: 8 }), fc.constantFrom(same, upper, lower))
    .map(([from, length, change]) => change(letters.slice(from, from + length).join('')));
}

const same = (text: string): string => text;
/** A letter whose other case is no single letter of its own, such as ß, stays. */
const upper = (text: string): string =>
  text.toUpperCase().toLowerCase() === text.toLowerCase() ? text.toUpperCase() : text;
const lower = (text: string): string => text.toLowerCase();

function compareFiltered(pages: readonly Page[], whole: readonly Row[], conditions: readonly Condition[]): void {
  const told = conditions.map(describeCondition).join(' and ');
  for (const { request, rows } of pages) {
    const wrong = rows.find((row) => !conditions.every((condition) => isMet(condition, row)));
    if (wrong) throw new Mismatch(request, `only records with ${told}`, describeRow(wrong));
  }
  const found = new Set(
    knownOf(
      pages.flatMap(({ rows }) => rows),
      whole,
    ),
  );
  const isShown = conditions.every(({ filter }) => filter.match !== 'none');
  const expected = whole.filter((row) => (isShown ? conditions.every((c) => isMet(c, row)) : found.has(idOf(row))));
  comparePages(pages, expected, whole);
}

function isMet({ filter, value }: Condition, row: Row): boolean {
  const { match, property } = filter;
  const held = row[property];
  if (match === 'none') return true;
  if (held === null || held === undefined) return false;
  if (match === 'from') return String(held) >= String(value);
  if (match === 'contains') return String(held).toLowerCase().includes(String(value).toLowerCase());
  return String(held) === String(value);
}

function describeCondition({ filter: { match, property, input }, value }: Condition): string {
  const told = JSON.stringify(value);
  if (match === 'none') return `${input.name} ${told}`;
  return `${property} ${{ equals: '=', from: 'from', contains: 'containing' }[match]} ${told}`;
}
