// What holds for an operation that creates a record, and for the record until its end.

import { randomInt, randomUUID } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import { readExamples } from '../../src/openapi/examples.ts';
import type { Json } from '../../src/store/store.ts';
import { type Check, expectAnswer, Mismatch, type Setting, type Skipped } from './check.ts';
import type { Contract, Input, Operation } from './operations.ts';
import { type Assignment, type Request, toRequest } from './request.ts';
import {
  type Condition,
  comparePages,
  describeRow,
  idOf,
  type ListOperation,
  maxLimit,
  type Page,
  type Row,
  readPage,
  readPages,
} from './rows.ts';
import { assignRequired, pickValid } from './values.ts';

const CREATED = 201;
const CONFLICT = 409;
const GONE = 404;
/** The header that marks the answer to a repeated request. */
const REPLAYED = 'idempotent-replayed';
/** How often other values are tried after a conflict. */
const MAX_ATTEMPTS = 10;
/** How many records are created while a list is read, and a number of pages that it cannot have then. */
const MEANWHILE = 3;
const MAX_PAGES = 25;

type Creation = { readonly row: Row; readonly assignments: readonly Assignment[]; readonly location?: string };

/** The checks of an operation that creates a record, and those that cannot be made; none for other operations. */
export function createCreationChecks(
  setting: Setting,
  operation: Operation,
  contract: Omit<Contract, 'keyHeader'>,
  lists: readonly ListOperation[],
): { checks: Check[]; skipped: Skipped[] } {
  const { status, inputs, path } = operation;
  if (status !== CREATED) return { checks: [], skipped: [] };
  // Only the database knows which values keep a rule, such as the id of a gym. An example has one for the demo data.
  const known = setting.demo ? readExampleFields(contract, operation) : {};
  const unknown = inputs.filter(({ required, rule, name }) => required && rule && !(name in known));
  if (unknown.length > 0) {
    const names = unknown.map(({ name }) => name).join(', ');
    const reason = `a value of ${names} that keeps its x-rule is known only from an example, with --demo`;
    return { checks: [], skipped: [{ name: 'creates what was sent', reason }] };
  }
  const required = inputs.filter((input) => input.required);
  const assign = () => assignUnique(required, known);
  const list = lists.find((other) => other.path === path);
  const header = inputs.find((input) => input.in === 'header' && /^idempotency-key$/i.test(input.name));
  const send = (request: Request) => expectAnswer(setting, operation, request, { status });

  const create = async (attempts = MAX_ATTEMPTS): Promise<Creation> => {
    const assignments = assign();
    const request = toRequest(operation, assignments);
    // Another record may have what has to be unique.
    const mayRaise = attempts > 1 && operation.answers.has(CONFLICT);
    const answer = await expectAnswer(setting, operation, request, { status, mayRaise });
    if (answer.status !== status) return create(attempts - 1);
    const row = answer.body as Row;
    compareSent(request, assignments, row);
    const { location } = answer.headers;
    return { row, assignments, ...(location === undefined ? {} : { location }) };
  };
  const findInList = async (list: ListOperation) => {
    const { row } = await create();
    const pages = await readPages(setting, list, maxLimit(list), toConditions(list, row));
    const found = pages.flatMap(({ rows }) => rows).find(({ id }) => id === row.id);
    const [last] = pages.slice(-1);
    if (isDeepStrictEqual(found, row) || !last) return;
    throw new Mismatch(last.request, describeRow(row), found ? describeRow(found) : 'a list without it');
  };
  /** Who follows the pages with `after` meets every record that was there at the beginning, once. */
  const readWhileCreating = async (list: ListOperation) => {
    // What is changed or deleted meanwhile may be met twice, or not at all.
    await lived;
    const before = (await readPages(setting, list, maxLimit(list))).flatMap(({ rows }) => rows);
    const { minimum = 1 } = list.list.limit.schema;
    const limit = Math.min(maxLimit(list), Math.max(minimum, Math.ceil(before.length / (MEANWHILE + 1))));
    const pages: Page[] = [await readPage(setting, list, { limit })];
    for (let last = pages[0]?.rows.at(-1); last && pages.length < MAX_PAGES; last = pages.at(-1)?.rows.at(-1)) {
      if (pages.length <= MEANWHILE) await create();
      pages.push(await readPage(setting, list, { limit, after: idOf(last) }));
    }
    comparePages(pages, before, before);
  };
  const repeat = async (header: Input) => {
    const request = toRequest(operation, [{ input: header, value: randomUUID() }, ...assign()]);
    const isDeclared = operation.answers.get(status)?.headers.has(REPLAYED);
    const [first, second] = [await send(request), await send(request)];
    const [one, other] = [first, second].map(({ status, body }) => `${status} ${JSON.stringify(body)}`);
    if (other !== one) throw new Mismatch(request, `the first answer, ${one}`, other ?? '');
    const marks = [first, second].map(({ headers }) => `${REPLAYED}: ${headers[REPLAYED] ?? 'none'}`);
    const expected = [`${REPLAYED}: none`, `${REPLAYED}: true`];
    if (isDeclared && !isDeepStrictEqual(marks, expected)) {
      throw new Mismatch(request, expected.join(', then '), marks.join(', then '));
    }
  };
  const reuse = async (header: Input) => {
    const key: Assignment = { input: header, value: randomUUID() };
    await send(toRequest(operation, [key, ...assign()]));
    const other = toRequest(operation, [key, ...assign()]);
    await expectAnswer(setting, operation, other, { status: 422, fields: [header.name] });
  };
  /** What has to be unique is among the fields, so the same ones again are refused. */
  const conflict = async () => {
    const isMadeUp = ({ in: place, rule, schema }: Input) => place === 'body' && !rule && schema.format !== 'uuid';
    const fields = inputs.filter((input) => required.includes(input) || isMadeUp(input));
    const request = toRequest(operation, assignUnique(fields, known));
    // Another record may have what has to be unique.
    await expectAnswer(setting, operation, request, { status, mayRaise: true });
    await expectAnswer(setting, operation, request, { status: CONFLICT });
  };

  const items = contract.operations.filter((other) => isItem(path, other.path));
  const find = (...methods: string[]) => items.filter(({ method }) => methods.includes(method));
  const [read] = find('GET');
  const [remove] = find('DELETE');
  const changes = find('PUT', 'PATCH');
  const live = async () => {
    const { row, assignments, location } = await create();
    const requestOf = (item: Operation, fields: readonly Assignment[] = []) => {
      const place = item.inputs.filter((input) => input.in === 'path').map((input) => toPlace(input, assignments, row));
      return toRequest(item, [...place, ...fields]);
    };
    const readAs = async (expected: Row) => {
      if (!read) return;
      const request = requestOf(read, assignElsewhere(read));
      const { body } = await expectAnswer(setting, read, request, { status: read.status });
      const got = body as Row;
      const other = Object.keys(expected).find(
        (name) => name in got && !isDeepStrictEqual(got[name], expected[name] ?? null),
      );
      if (other !== undefined) throw new Mismatch(request, describeRow(expected), describeRow(got));
    };
    if (read && location !== undefined && !location.endsWith(requestOf(read).target)) {
      throw new Mismatch(toRequest(operation, assignments), `Location: ${requestOf(read).target}`, location);
    }
    await readAs(row);
    for (const change of changes) {
      const own = Object.fromEntries(Object.entries(row).map(([name, value]) => [`p_${name}`, value]));
      const fields = change.inputs.filter(({ in: place, rule, name }) => place === 'body' && (!rule || own[name]));
      const sent = [...assignElsewhere(change), ...assignUnique(fields, own)];
      const request = requestOf(change, sent);
      const { body } = await expectAnswer(setting, change, request, { status: change.status });
      compareSent(request, sent, body as Row);
      await readAs((body ?? {}) as Row);
    }
    if (!remove) return;
    await expectAnswer(setting, remove, requestOf(remove, assignElsewhere(remove)), { status: remove.status });
    for (const item of [read, ...changes].filter((item) => item?.raised.includes(GONE)) as Operation[]) {
      await expectAnswer(setting, item, requestOf(item, assignRequired(item).filter(isNoPlace)), { status: GONE });
    }
    if (!list) return;
    const pages = await readPages(setting, list, maxLimit(list), toConditions(list, row));
    const page = pages.find(({ rows }) => rows.some(({ id }) => id === row.id));
    if (page) throw new Mismatch(page.request, 'a list without what was deleted', describeRow(row));
  };

  let lived: Promise<unknown> = Promise.resolve();
  const startLife = () => {
    const life = live();
    lived = life.catch(() => {});
    return life;
  };
  const steps = [...(read ? ['read'] : []), ...(changes[0] ? ['changed'] : []), ...(remove ? ['deleted'] : [])];
  const checks: Check[] = [
    { name: 'creates what was sent', run: () => create().then(() => {}) },
    ...(list ? [{ name: 'creates what the list shows', run: () => findInList(list) }] : []),
    ...(steps.length > 0 ? [{ name: `creates what is ${steps.join(', ')}`, run: startLife }] : []),
    ...(list?.list.after
      ? [{ name: 'lists every record once while others are created', run: () => readWhileCreating(list) }]
      : []),
    ...(operation.conflicts ? [{ name: 'refuses the same fields again', run: conflict }] : []),
    ...(header
      ? [
          { name: `gives the same answer to the same ${header.name}`, run: () => repeat(header) },
          { name: `refuses another body with the same ${header.name}`, run: () => reuse(header) },
        ]
      : []),
  ];
  return { checks, skipped: [] };
}

/** Whether a path is that of one record of a collection. */
function isItem(collection: string, path: string): boolean {
  return path.startsWith(`${collection}/`) && /^\/\{[^/]+\}$/.test(path.slice(collection.length));
}

const isNoPlace = ({ input }: { readonly input: Input }): boolean => input.in !== 'path';

/** Values of what is required besides the path and the body. */
function assignElsewhere(operation: Operation): Assignment[] {
  return assignRequired(operation).filter(({ input }) => input.in !== 'path' && input.in !== 'body');
}

/** The value of a path's parameter for a record: as it was created, or as the record has it. */
function toPlace(input: Input, assignments: readonly Assignment[], row: Row): Assignment {
  const created = assignments.find(({ input: { in: place, name } }) => place === 'path' && name === input.name);
  return created ?? { input, value: row[input.name] ?? row.id ?? null };
}

/** Compares a record with what was sent. A field has its argument's prefix; the property of the record has none. */
function compareSent(request: Request, assignments: readonly Assignment[], row: Row): void {
  for (const { input, value } of assignments) {
    const property = input.name.replace(/^p_/, '');
    if (!(property in (row ?? {})) || isSame(input as Input, row[property], value as Json)) continue;
    throw new Mismatch(request, `${property} ${JSON.stringify(value)}`, describeRow(row));
  }
}

/** The fields of the body that the examples of a creation send. */
function readExampleFields(
  { document }: Pick<Contract, 'document'>,
  { id }: Operation,
): Readonly<Record<string, Json>> {
  const examples = readExamples(document).filter(({ operationId, status }) => operationId === id && status === CREATED);
  return Object.assign({}, ...examples.map(({ request }) => JSON.parse(request.body ?? '{}')));
}

/** A filter by a text of the record, which finds it in a long list too. */
function toConditions({ list }: ListOperation, row: Row): Condition[] {
  const filter = list.filters.find(
    ({ match, property, input }) =>
      match !== 'none' && typeof row[property] === 'string' && input.validate(row[property]),
  );
  return filter ? [{ filter, value: row[filter.property] ?? null }] : [];
}

/** Values for inputs, unique where the schema allows it; known ones where a rule decides. */
function assignUnique(inputs: readonly Input[], known: Readonly<Record<string, Json>>): Assignment[] {
  return inputs.map((input) => {
    if (input.rule) return { input, value: known[input.name] ?? null };
    const value = [`Contract test ${randomUUID()}`, pickInteger(input)].find((value) => input.validate(value));
    return { input, value: value ?? pickValid(input) };
  });
}

function pickInteger({ schema: { type, minimum = 0, maximum = 2 ** 31 - 1 } }: Input): number | null {
  if (type !== 'integer') return null;
  return randomInt(minimum, Math.min(maximum, minimum + 2 ** 40) + 1);
}

/** Whether a record has a value that was sent; the same time may be written in another zone. */
function isSame({ schema }: Input, value: Json | undefined, sent: Json): boolean {
  if (schema.format === 'date-time') return Date.parse(String(value)) === Date.parse(String(sent));
  // What was generated may be an object without a prototype.
  return isDeepStrictEqual(value, JSON.parse(JSON.stringify(sent)));
}
