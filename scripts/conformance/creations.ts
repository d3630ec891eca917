// What holds for an operation that creates a record.

import { randomUUID } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import { type Check, expectAnswer, Mismatch, type Setting } from './check.ts';
import type { Input, Operation } from './operations.ts';
import { type Assignment, type Request, toRequest } from './request.ts';
import { type Condition, describeRow, type ListOperation, maxLimit, type Row, readPages } from './rows.ts';
import { pickValid } from './values.ts';

const CREATED = 201;

/** The checks of an operation that creates a record; none for other operations. */
export function createCreationChecks(setting: Setting, operation: Operation, lists: readonly ListOperation[]): Check[] {
  const { status, inputs, path } = operation;
  if (status !== CREATED) return [];
  const list = lists.find((other) => other.path === path);
  const header = inputs.find((input) => input.in === 'header' && /^idempotency-key$/i.test(input.name));
  const send = (request: Request) => expectAnswer(setting, operation, request, { status });

  const create = async (): Promise<Row> => {
    const assignments = assign(operation);
    const request = toRequest(operation, assignments);
    const row = (await send(request)).body as Row;
    for (const { input, value } of assignments) {
      // A field has its argument's prefix; the property of the record has none.
      const property = input.name.replace(/^p_/, '');
      if (!(property in row) || row[property] === value) continue;
      throw new Mismatch(request, `${property} ${JSON.stringify(value)}`, describeRow(row));
    }
    return row;
  };
  const findInList = async (list: ListOperation) => {
    const row = await create();
    const pages = await readPages(setting, list, maxLimit(list), toConditions(list, row));
    const found = pages.flatMap(({ rows }) => rows).find(({ id }) => id === row.id);
    const [last] = pages.slice(-1);
    if (isDeepStrictEqual(found, row) || !last) return;
    throw new Mismatch(last.request, describeRow(row), found ? describeRow(found) : 'a list without it');
  };
  const repeat = async (header: Input) => {
    const request = toRequest(operation, [{ input: header, value: randomUUID() }, ...assign(operation)]);
    const [first, second] = [await send(request), await send(request)].map(
      ({ status, body }) => `${status} ${JSON.stringify(body)}`,
    );
    if (second !== first) throw new Mismatch(request, `the first answer, ${first}`, second ?? '');
  };
  const reuse = async (header: Input) => {
    const key: Assignment = { input: header, value: randomUUID() };
    await send(toRequest(operation, [key, ...assign(operation)]));
    const other = toRequest(operation, [key, ...assign(operation)]);
    await expectAnswer(setting, operation, other, { status: 422, fields: [header.name] });
  };

  return [
    { name: 'creates what was sent', run: () => create().then(() => {}) },
    ...(list ? [{ name: 'creates what the list shows', run: () => findInList(list) }] : []),
    ...(header
      ? [
          { name: `gives the same answer to the same ${header.name}`, run: () => repeat(header) },
          { name: `refuses another body with the same ${header.name}`, run: () => reuse(header) },
        ]
      : []),
  ];
}

/** A filter by a text of the record, which finds it in a long list too. */
function toConditions({ list }: ListOperation, row: Row): Condition[] {
  const filter = list.filters.find(
    ({ match, property, input }) =>
      match !== 'none' && typeof row[property] === 'string' && input.validate(row[property]),
  );
  return filter ? [{ filter, value: row[filter.property] ?? null }] : [];
}

/** Values for all required inputs, unique where the schema allows it. */
function assign({ inputs }: Operation): Assignment[] {
  const required = inputs.filter((input) => input.required);
  return required.map((input) => {
    const value = `Contract test ${randomUUID()}`;
    return { input, value: input.validate(value) ? value : pickValid(input) };
  });
}
