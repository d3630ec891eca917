// Checks other keys: another tenant's key must not see or change anything of this one, a read-only key must not write, and a key over
// its limit is refused.

import { randomUUID } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import type { Json } from '../../src/store/store.ts';
import { type Check, check, describeAnswer, expectAnswer, type Setting, Unknown } from './check.ts';
import { Mismatch } from './client.ts';
import type { Input, ListOperation, Operation } from './contract.ts';
import { isRead, LIMITED_KEY, OTHER_KEY, READ_KEY, type Request, toValidRequest } from './request.ts';
import { createReader, describeRow, hasId, identify, type Row } from './rows.ts';
import { findUnused } from './values.ts';

/** Records of each list that are tested with a request of their own. */
const SAMPLE = 2;

/** Reads the other tenant's lists, before anything is written. */
export async function readForeign(setting: Setting): Promise<void> {
  const { contract, foreign } = setting;
  for (const list of contract.lists) foreign.set(list, readRows(setting, list));
  // The checks report what fails.
  await Promise.allSettled(foreign.values());
}

/** The checks of a read-only key, and of inputs that name records of the other tenant. */
export function* createKeyChecks(setting: Setting, operation: Operation): Generator<Check> {
  const { client, contract, foreign } = setting;
  if (setting.readKey) {
    const request = { ...toValidRequest(operation), key: READ_KEY };
    const [name, expected] = isRead(operation)
      ? ['lets a key read that may only read', { mayRaise: true }]
      : ['refuses a key that may only read', { status: 401 }];
    yield check(name, () => expectAnswer(setting, operation, request, expected));
  }

  if (!setting.otherKey) return;
  for (const input of operation.inputs) {
    const largest = findUnused(input);
    if (!takesId(input, randomUUID()) && !takesId(input, 'a'.repeat(32)) && largest === undefined) continue;
    const send = async (id: string | number) => {
      const request = toValidRequest(operation, [{ input, value: toValue(input, id) }]);
      const answer = await client.send(request);
      // Each record that is created differs from the one before.
      const isCreated = input.in === 'body' && answer.status === operation.status;
      return { request, isCreated, text: describeAnswer({ ...answer, text: withoutId(answer.text, id) }) };
    };
    // The answer must not tell whether the other tenant has a record.
    yield check(`tells no record of the other key from an unknown one by ${input.name}`, async () => {
      const lists = await Promise.all(foreign.values());
      // Records of two tenants may have the same number, because both may count from 1.
      const own = new Set(largest === undefined ? [] : await readNumbers(setting, contract.lists));
      const known = lists.flatMap((rows) => rows.filter(({ id }) => !own.has(id ?? null)).slice(0, SAMPLE));
      const spellings = known.flatMap(({ id }): (string | number)[] =>
        typeof id === 'number' ? [id] : [String(id), String(id).replaceAll('-', '')],
      );
      const ids = spellings.filter((id) => takesId(input, id));
      if (ids.length === 0) throw new Unknown('the other key has no records that it could name');
      for (const id of new Set(ids)) {
        const random = randomUUID();
        const text = String(id).includes('-') ? random : random.replaceAll('-', '');
        const unknown = typeof id === 'number' ? (largest ?? id) : text;
        const [expected, got] = [await send(unknown), await send(id)];
        if (got.text === expected.text || (got.isCreated && expected.isCreated)) continue;
        throw new Mismatch(got.request, `as for an unknown id: ${expected.text}`, got.text);
      }
    });
  }
}

/** The checks of every page that was read, for each list. */
export function* createHiddenChecks({ foreign, shown }: Setting): Generator<Check> {
  for (const [list, own] of shown) {
    yield check(`no page of ${list.path} had a record of the other key`, async () => {
      const rows = (await foreign.get(list)) ?? [];
      if (rows.length === 0) throw new Unknown('the other key has no records there');
      const row = rows.find((one) => own.has(identify(one)));
      if (!row) return;
      const expected = 'no record of the other key, which must be of another tenant';
      throw new Mismatch(own.get(identify(row)) as Request, expected, describeRow(row));
    });
  }
}

/** The check after all requests, for lists whose records an operation writes. Others may change by themselves, such as a key's calls. */
export function createUntouchedCheck(setting: Setting): Check {
  const { contract, foreign, readOnly } = setting;
  const written = contract.operations.filter((operation) => !isRead(operation)).map(({ path }) => `${path}/`);
  return check('leaves the records of the other key as they were', async () => {
    if (readOnly) throw new Unknown('a run with --read-only changes nothing');
    let compared = 0;
    for (const [list, before] of foreign) {
      if (!written.some((path) => path.startsWith(`${list.path}/`))) continue;
      compared += (await before).length;
      const now = new Map((await readRows(setting, list)).map((row) => [row.id, row]));
      const touched = (await before).find((row) => !isDeepStrictEqual(now.get(row.id), row));
      if (!touched) continue;
      const request = { ...toValidRequest(list), key: OTHER_KEY };
      throw new Mismatch(request, describeRow(touched), describeRow(now.get(touched.id)));
    }
    if (compared === 0) throw new Unknown('the other key has no records in a list whose records an operation writes');
  });
}

async function readRows(setting: Setting, list: ListOperation): Promise<readonly Row[]> {
  const rows = await createReader({ ...setting, sender: OTHER_KEY }, list).readRows();
  return rows.filter(hasId);
}

/** The ids of the run's own records that are numbers. */
async function readNumbers(setting: Setting, lists: readonly ListOperation[]): Promise<Json[]> {
  const rows = (await Promise.all(lists.map((list) => createReader(setting, list).readRows()))).flat();
  return rows.flatMap(({ id }) => (typeof id === 'number' ? id : []));
}

/** Replaces the id in the text of an answer, because the answers to two ids differ by it. */
function withoutId(text: string, id: string | number): string {
  const isNumber = typeof id === 'number';
  return text.replaceAll(isNumber ? new RegExp(`(?<![\\w.-])${id}(?![\\w.])`, 'g') : id, 'the id');
}

/** The check of a key over its limit. */
export function createLimitCheck(setting: Setting, operation: Operation): Check {
  return check('refuses a key over its limit with 429 and Retry-After', async () => {
    const request = { ...toValidRequest(operation), key: LIMITED_KEY };
    const { headers } = await expectAnswer(setting, operation, request, { status: 429 });
    const seconds = headers['retry-after'] ?? 'none';
    if (!/^\d+$/.test(seconds)) throw new Mismatch(request, 'Retry-After in seconds', seconds);
  });
}

/** Whether an input accepts an id. A field of the body must accept nothing else, because any other text might create something. */
function takesId(input: Input, id: string | number): boolean {
  if (typeof id === 'number') return findUnused(input) !== undefined && input.validate(id);
  const isPlace = input.in === 'query' || input.in === 'path';
  return input.validate(toValue(input, id)) === true && (isPlace || !input.validate(toValue(input, 'x')));
}

function toValue({ schema }: Input, id: string | number): Json {
  return schema.type === 'array' ? [id] : id;
}
