// What holds for an operation that creates a record.

import { randomInt, randomUUID } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import type { OpenAPIV3 } from 'openapi-types';
import { readExamples } from '../../src/openapi/examples.ts';
import type { Json } from '../../src/store/store.ts';
import { type Check, expectAnswer, Mismatch, type Setting, type Skipped } from './check.ts';
import type { Input, Operation } from './operations.ts';
import { type Assignment, type Request, toRequest } from './request.ts';
import { type Condition, describeRow, type ListOperation, maxLimit, type Row, readPages } from './rows.ts';
import { pickValid } from './values.ts';

const CREATED = 201;
const CONFLICT = 409;
/** How often other values are tried after a conflict. */
const MAX_ATTEMPTS = 10;

/** The checks of an operation that creates a record, and those that cannot be made; none for other operations. */
export function createCreationChecks(
  setting: Setting,
  operation: Operation,
  lists: readonly ListOperation[],
  document: OpenAPIV3.Document,
): { checks: Check[]; skipped: Skipped[] } {
  const { status, inputs, path } = operation;
  if (status !== CREATED) return { checks: [], skipped: [] };
  // Only the database knows which values keep a rule, such as the id of a gym. An example has one for the demo data.
  const known = setting.demo ? readExampleFields(document, operation) : {};
  const unknown = inputs.filter(({ required, rule, name }) => required && rule && !(name in known));
  if (unknown.length > 0) {
    const names = unknown.map(({ name }) => name).join(', ');
    const reason = `a value of ${names} that keeps its x-rule is known only from an example, with --demo`;
    return { checks: [], skipped: [{ name: 'creates what was sent', reason }] };
  }
  const assign = () => assignUnique(operation, known);
  const list = lists.find((other) => other.path === path);
  const header = inputs.find((input) => input.in === 'header' && /^idempotency-key$/i.test(input.name));
  const send = (request: Request) => expectAnswer(setting, operation, request, { status });

  const create = async (attempts = MAX_ATTEMPTS): Promise<Row> => {
    const assignments = assign();
    const request = toRequest(operation, assignments);
    // Another record may have what has to be unique.
    const mayRaise = attempts > 1 && operation.answers.has(CONFLICT);
    const answer = await expectAnswer(setting, operation, request, { status, mayRaise });
    if (answer.status !== status) return create(attempts - 1);
    const row = answer.body as Row;
    for (const { input, value } of assignments) {
      // A field has its argument's prefix; the property of the record has none.
      const property = input.name.replace(/^p_/, '');
      if (!(property in row) || isSame(input as Input, row[property], value as Json)) continue;
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
    const request = toRequest(operation, [{ input: header, value: randomUUID() }, ...assign()]);
    const [first, second] = [await send(request), await send(request)].map(
      ({ status, body }) => `${status} ${JSON.stringify(body)}`,
    );
    if (second !== first) throw new Mismatch(request, `the first answer, ${first}`, second ?? '');
  };
  const reuse = async (header: Input) => {
    const key: Assignment = { input: header, value: randomUUID() };
    await send(toRequest(operation, [key, ...assign()]));
    const other = toRequest(operation, [key, ...assign()]);
    await expectAnswer(setting, operation, other, { status: 422, fields: [header.name] });
  };

  const checks: Check[] = [
    { name: 'creates what was sent', run: () => create().then(() => {}) },
    ...(list ? [{ name: 'creates what the list shows', run: () => findInList(list) }] : []),
    ...(header
      ? [
          { name: `gives the same answer to the same ${header.name}`, run: () => repeat(header) },
          { name: `refuses another body with the same ${header.name}`, run: () => reuse(header) },
        ]
      : []),
  ];
  return { checks, skipped: [] };
}

/** The fields of the body that the examples of a creation send. */
function readExampleFields(document: OpenAPIV3.Document, { id }: Operation): Readonly<Record<string, Json>> {
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

/** Values for all required inputs, unique where the schema allows it; known ones where a rule decides. */
function assignUnique({ inputs }: Operation, known: Readonly<Record<string, Json>>): Assignment[] {
  const required = inputs.filter((input) => input.required);
  return required.map((input) => {
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
  return isDeepStrictEqual(value, sent);
}
