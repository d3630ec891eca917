// What other keys may do: another tenant's sees and touches nothing of this one, a key that only reads writes nothing, and one over
// its limit is refused.

import { randomUUID } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import type { Json } from '../../src/store/store.ts';
import { type Check, describeReply, expectAnswer, Mismatch, type Setting } from './check.ts';
import type { Input, Operation } from './operations.ts';
import { isRead, LIMITED_KEY, OTHER_KEY, READ_KEY, toRequest } from './request.ts';
import { describeRow, type ListOperation, maxLimit, type Row, readPages } from './rows.ts';
import { assignRequired } from './values.ts';

/** How many records of a list stand for all, where a request is sent for each. */
const SAMPLE = 2;

/** The checks with another tenant's key. */
export type TenantChecks = {
  /** The checks of one operation, with this key and records of the other one. */
  ofOperation(operation: Operation): Check[];
  /** What is checked when all requests were sent. */
  atEnd(): Check[];
};

/** Creates the checks with another tenant's key, whose records are read once. */
export function createTenantChecks(setting: Setting, lists: readonly ListOperation[]): TenantChecks {
  const asOther = { ...setting, key: OTHER_KEY };
  const readAll = (list: ListOperation) =>
    readPages(asOther, list, maxLimit(list)).then((pages) => pages.flatMap(({ rows }) => rows).filter(hasId));
  const before = new Map<ListOperation, Promise<readonly Row[]>>();
  const readBefore = (list: ListOperation) => {
    const rows = before.get(list) ?? readAll(list);
    before.set(list, rows);
    return rows;
  };
  const readIds = async () => {
    const samples = await Promise.all(lists.map(async (list) => (await readBefore(list)).slice(0, SAMPLE)));
    return samples.flat().map(({ id }) => String(id));
  };

  const showsNothing = async (list: ListOperation) => {
    const foreign = new Set((await readBefore(list)).map(({ id }) => id));
    if (foreign.size === 0) return 'the other key has no records there';
    for (const { request, rows } of await readPages(setting, list, maxLimit(list))) {
      const shown = rows.find(({ id }) => foreign.has(id ?? null));
      if (shown)
        throw new Mismatch(request, 'no record of the other key, which must be of another tenant', describeRow(shown));
    }
    return undefined;
  };
  /** A record of the other key must be like one that nobody has. */
  const tellsNothing = async (operation: Operation, input: Input) => {
    const others = assignRequired(operation).filter((assignment) => assignment.input !== input);
    const send = async (id: string) => {
      const request = toRequest(operation, [...others, { input, value: toValue(input, id) }]);
      return { request, text: describeReply(await setting.client.send(request)).replaceAll(id, 'the id') };
    };
    const ids = (await readIds()).flatMap((id) => [id, id.replaceAll('-', '')]).filter((id) => takesId(input, id));
    if (ids.length === 0) return 'the other key has no records that it could name';
    for (const id of new Set(ids)) {
      const unknown = id.includes('-') ? randomUUID() : randomUUID().replaceAll('-', '');
      const [expected, got] = [await send(unknown), await send(id)];
      if (got.text !== expected.text)
        throw new Mismatch(got.request, `as for an unknown id: ${expected.text}`, got.text);
    }
    return undefined;
  };
  const isUntouched = async () => {
    for (const [list, rows] of before) {
      const now = new Map((await readAll(list)).map((row) => [row.id, row]));
      const touched = (await rows).find((row) => !isDeepStrictEqual(now.get(row.id as Json), row));
      if (!touched) continue;
      const got = now.get(touched.id as Json);
      throw new Mismatch(
        { ...toRequest(list, []), key: OTHER_KEY },
        describeRow(touched),
        got ? describeRow(got) : 'a list without it',
      );
    }
  };
  return {
    ofOperation: (operation) => {
      const list = lists.find(({ id }) => id === operation.id);
      const inputs = operation.inputs.filter((input) => takesId(input, randomUUID()) || takesId(input, 'a'.repeat(32)));
      return [
        ...(list ? [{ name: 'shows no record of the other key', run: () => showsNothing(list) }] : []),
        ...inputs.map((input) => ({
          name: `tells no record of the other key from an unknown one by ${input.name}`,
          run: () => tellsNothing(operation, input),
        })),
      ];
    },
    atEnd: () => [{ name: 'leaves the records of the other key as they were', run: isUntouched }],
  };
}

/** What an operation answers to a key that may only read. */
export function createReadKeyCheck(setting: Setting, operation: Operation): Check {
  const request = { ...toRequest(operation, assignRequired(operation)), key: READ_KEY };
  const expected = isRead(operation) ? { status: operation.status, mayRaise: true } : { status: 401 };
  return {
    name: isRead(operation) ? 'lets a key read that may only read' : 'refuses a key that may only read',
    run: async () => void (await expectAnswer(setting, operation, request, expected)),
  };
}

/** What an operation answers to a key that is over its limit. */
export function createLimitCheck(setting: Setting, operation: Operation): Check {
  const request = { ...toRequest(operation, assignRequired(operation)), key: LIMITED_KEY };
  return {
    name: 'refuses a key over its limit with 429 and Retry-After',
    run: async () => {
      const { headers } = await expectAnswer(setting, operation, request, { status: 429 });
      const seconds = headers['retry-after'] ?? 'none';
      if (!/^\d+$/.test(seconds)) throw new Mismatch(request, 'Retry-After in seconds', seconds);
    },
  };
}

const hasId = ({ id }: Row): boolean => typeof id === 'string';

/** Whether an input takes an id: in a body, which may create something, it must not take any other text. */
function takesId(input: Input, id: string): boolean {
  const isPlace = input.in === 'query' || input.in === 'path';
  return input.validate(toValue(input, id)) === true && (isPlace || !input.validate(toValue(input, 'x')));
}

function toValue({ schema }: Input, id: string): Json {
  return schema.type === 'array' ? [id] : id;
}
