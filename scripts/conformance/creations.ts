// What holds for an operation that creates.

import { randomUUID } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import type { Json } from '../../src/store/store.ts';
import { type Check, expectAnswer, Mismatch, type Setting } from './check.ts';
import { type Input, isRead, type Operation } from './operations.ts';
import { type Assignment, type Request, toRequest } from './request.ts';
import { type Condition, describeRow, type ListOperation, largestPage, type Row, readPages } from './rows.ts';
import { pickValid } from './values.ts';

const CREATED = 201;

/** The checks of an operation that creates a record; none of another one. */
export function createCreationChecks(setting: Setting, operation: Operation, lists: readonly ListOperation[]): Check[] {
  if (isRead(operation) || operation.status !== CREATED) return [];
  const list = lists.find(({ path }) => path === operation.path);
  const idempotency = operation.inputs.find(
    ({ in: place, name }) => place === 'header' && /^idempotency-key$/i.test(name),
  );
  return [
    { name: 'creates what was sent', run: () => create(setting, operation).then(() => {}) },
    ...(list ? [{ name: 'creates what the list shows', run: () => findInList(setting, operation, list) }] : []),
    ...(idempotency
      ? [
          {
            name: `gives the same answer to the same ${idempotency.name}`,
            run: () => repeat(setting, operation, idempotency),
          },
          {
            name: `refuses another body with the same ${idempotency.name}`,
            run: () => reuse(setting, operation, idempotency),
          },
        ]
      : []),
  ];
}

/** Creates a record of its own and holds its properties against the fields that were sent. */
async function create(setting: Setting, operation: Operation): Promise<{ request: Request; row: Row }> {
  const assignments = assign(operation);
  const request = toRequest(operation, assignments);
  const { body } = await expectAnswer(setting, operation, request, { status: operation.status });
  const row = body as Row;
  for (const { input, value } of assignments) {
    // A field has the prefix that its argument has; the property of the record has none.
    const property = input.name.replace(/^p_/, '');
    if (!(property in row) || row[property] === value) continue;
    throw new Mismatch(request, `${property} ${JSON.stringify(value)}`, describeRow(row));
  }
  return { request, row };
}

async function findInList(setting: Setting, operation: Operation, list: ListOperation): Promise<void> {
  const { row } = await create(setting, operation);
  const conditions = narrow(list, row);
  const pages = await readPages(setting, list, largestPage(list), conditions);
  const found = pages.flatMap(({ rows }) => rows).find(({ id }) => id === row.id);
  const [last] = pages.slice(-1);
  if (isDeepStrictEqual(found, row) || !last) return;
  throw new Mismatch(last.request, describeRow(row), found ? describeRow(found) : 'a list without it');
}

/** A filter by a text of the record, so that it is found in a long list too. */
function narrow({ list }: ListOperation, row: Row): Condition[] {
  const filter = list.filters.find(
    ({ match, property, input }) =>
      match !== 'none' && typeof row[property] === 'string' && input.validate(row[property]),
  );
  return filter ? [{ filter, value: row[filter.property] ?? null }] : [];
}

async function repeat(setting: Setting, operation: Operation, header: Input): Promise<void> {
  const request = toRequest(operation, [{ input: header, value: randomUUID() }, ...assign(operation)]);
  const first = await expectAnswer(setting, operation, request, { status: operation.status });
  const second = await expectAnswer(setting, operation, request, { status: operation.status });
  if (toText(second) === toText(first)) return;
  throw new Mismatch(request, `the first answer, ${toText(first)}`, toText(second));
}

async function reuse(setting: Setting, operation: Operation, header: Input): Promise<void> {
  const key: Assignment = { input: header, value: randomUUID() };
  const first = toRequest(operation, [key, ...assign(operation)]);
  await expectAnswer(setting, operation, first, { status: operation.status });
  const other = toRequest(operation, [key, ...assign(operation)]);
  await expectAnswer(setting, operation, other, { status: 422, fields: [header.name] });
}

/** A value for all that is required, unlike any before where the schema leaves room for it. */
function assign({ inputs }: Operation): Assignment[] {
  return inputs
    .filter(({ required }) => required)
    .map((input) => {
      const value = `Contract test ${randomUUID()}`;
      return { input, value: input.validate(value) ? value : pickValid(input) };
    });
}

function toText({ status, body }: { status: number; body: Json }): string {
  return `${status} ${JSON.stringify(body)}`;
}
