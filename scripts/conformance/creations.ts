// Checks an operation that creates records, and the life of a record until its deletion.

import { randomInt, randomUUID } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import { readExamples } from '../../src/openapi/examples.ts';
import { itemsOf, type Schema } from '../../src/openapi/schema.ts';
import type { Json } from '../../src/store/store.ts';
import {
  type Check,
  check,
  describeAnswer,
  type Expected,
  expectAnswer,
  refused,
  type Setting,
  skip,
  Unknown,
} from './check.ts';
import { type Answer, Mismatch } from './client.ts';
import { type Filter, type Input, isRaised, type ListOperation, type Operation } from './contract.ts';
import { type Assignment, OTHER_KEY, type Request, toValidRequest, withHeader } from './request.ts';
import { type Condition, comparePages, createReader, describeRow, hasId, type Page, type Row } from './rows.ts';
import { DOMAIN, pickAny, pickValid } from './values.ts';

type Assignments = readonly Assignment<Input>[];

export const CREATED = 201;
const CONFLICT = 409;
const GONE = 404;
/** The header that marks the answer to a repeated request. */
const REPLAYED = 'idempotent-replayed';
/** A text that a deployment might store in other characters: it has accents, also decomposed ones, and a character beyond 16 bits. */
const TEXT = 'Contract test ÁÇé e\u0301 😀';
/** Attempts with other values after a conflict. */
const MAX_ATTEMPTS = 10;
/** A text that assignUnique has made up. */
const UNIQUE = /[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}/;
/** Concurrent requests with the same idempotency key. */
const COPIES = 3;
/** Records created while a list is read. */
const MEANWHILE = 3;

/** The checks of an operation that creates a record; none for other operations. */
export function* createCreationChecks(setting: Setting, operation: Operation): Generator<Check> {
  const { status, inputs, path } = operation;
  if (status !== CREATED) return;
  // Only the database knows which values satisfy an x-rule, such as the id of a gym. The examples have some of the demo data.
  const known = setting.demo ? readExampleFields(setting, operation) : {};
  const required = inputs.filter((input) => input.required);
  const unknown = required.filter(({ rule, name }) => rule && !(name in known)).map(({ name }) => name);
  if (unknown.length > 0) {
    const reason = `a value of ${unknown.join(', ')} that keeps its x-rule is known only from an example, with --demo`;
    yield skip('creates what was sent', reason);
    return;
  }
  const expect = (request: Request, expected?: Expected) => expectAnswer(setting, operation, request, expected);
  const list = setting.contract.lists.find((other) => other.path === path);
  const items = setting.contract.operations.filter((other) => /^(.*)\/\{[^/]+\}$/.exec(other.path)?.[1] === path);
  const [read, remove] = ['GET', 'DELETE'].map((method) => items.find((item) => item.method === method));
  const changes = items.filter(({ method }) => ['PUT', 'PATCH'].includes(method));

  const hasRule = required.some(({ rule }) => rule);
  const assign = () => assignUnique(required, known);
  /** Creates a record with unique values, as far as they can be made up. */
  const send = async (build: () => Assignments | Promise<Assignments> = assign, copies = 1) => {
    for (let attempt = 1; ; attempt++) {
      const assignments = await build();
      const request = toValidRequest(operation, assignments);
      const sent = Array.from({ length: copies }, () => expect(request, { mayRaise: true }));
      const [answer, ...others] = (await Promise.all(sent)) as [Answer, ...Answer[]];
      for (const other of others) compareAnswers(request, answer, other);
      if (answer.status === status) return { request, assignments, answer, others };
      // Another record may have a unique value already.
      if (attempt < MAX_ATTEMPTS) continue;
      const got = describeAnswer(answer);
      if (answer.status === CONFLICT && !hasRule) throw new Mismatch(request, `${status} for new values`, got);
      throw new Unknown(`no values are known that the database takes; the last ones led to ${got}`);
    }
  };
  const create = async (build?: () => Promise<Assignments>) => {
    const { request, assignments, answer } = await send(build);
    const row = answer.body as Row;
    compareSent(request, assignments, row);
    return { row, request, assignments, location: answer.headers.location };
  };
  /** Looks for a record in the list. */
  const find = async (list: ListOperation, row: Row) => {
    const isSame = (one: Row) => (hasId(row) ? one.id === row.id : isDeepStrictEqual(one, row));
    const pages = await createReader(setting, list).readPages({ conditions: toConditions(list, row) });
    const { request, rows } = pages.find(({ rows }) => rows.some(isSame)) ?? (pages.at(-1) as Page);
    const others = pages.flatMap(({ rows }) => rows.filter((one) => !isSame(one)));
    return { request, found: rows.find(isSame), others };
  };
  /** Does what find does, and expects no second record with the texts that were made up for this creation. */
  const findOne = async (list: ListOperation, row: Row, assignments: Assignments) => {
    const { request, found, others } = await find(list, row);
    const unique = assignments
      .filter(({ input, value }) => !input.rule && UNIQUE.test(String(value)))
      .map(({ input }) => toProperty(input));
    const twin = others.find((one) => unique.some((name) => name in row && one[name] === row[name]));
    if (twin) throw new Mismatch(request, `one record of the creation, ${describeRow(row)}`, describeRow(twin));
    return { request, found };
  };

  yield check('creates what was sent', () => create());
  if (list) {
    yield check('creates what the list shows', async () => {
      let before: Page | undefined;
      const { row, assignments } = await create(async () => {
        const sent = assign();
        const values = Object.fromEntries(sent.map(({ input, value }) => [toProperty(input), value]));
        const { largest, readPage } = createReader(setting, list);
        before = await readPage({ limit: largest, conditions: toConditions(list, values) });
        return sent;
      });
      const { request, found } = await findOne(list, row, assignments);
      if (!isDeepStrictEqual(found, row)) throw new Mismatch(request, describeRow(row), describeRow(found));
      // A proxy may remove the tag; and the record may be on another page.
      if (!before?.tag || before.request.target !== request.target) return;
      const repeated = withHeader(request, 'If-None-Match', before.tag);
      const { status } = await setting.client.send(repeated);
      if (status === 304) throw new Mismatch(repeated, `a list with ${describeRow(row)}`, '304');
    });
  }

  const live = async () => {
    const { row, request, assignments, location } = await create();
    const requestOf = (item: Operation, fields: readonly Assignment[] = []) => {
      const places = item.inputs.filter((input) => input.in === 'path');
      return toValidRequest(item, [...places.map((input) => toPlace(input, assignments, row)), ...fields]);
    };
    let seen: Answer | undefined;
    const readAs = async (expected: Row) => {
      if (!read) return;
      const isOther = (got: Row) =>
        Object.keys(expected).some((name) => name in got && !isDeepStrictEqual(got[name], expected[name] ?? null));
      // After a change, the tag of an earlier copy must not lead to a 304.
      const tag = seen && isOther(seen.body as Row) ? seen.headers.etag : undefined;
      const request = tag ? withHeader(requestOf(read), 'If-None-Match', tag) : requestOf(read);
      seen = await expectAnswer(setting, read, request);
      const got = seen.body as Row;
      if (isOther(got)) throw new Mismatch(request, describeRow(expected), describeRow(got));
    };
    if (read && location !== undefined) {
      const { pathname: expected } = new URL(setting.url + requestOf(read).target);
      const { pathname } = new URL(location, setting.url + request.target);
      if (pathname !== expected) throw new Mismatch(request, `Location: ${expected}`, location);
    }
    await readAs(row);
    let last = row;
    for (const change of changes) {
      const own = Object.fromEntries(Object.entries(row).map(([name, value]) => [`p_${name}`, value]));
      const fields = change.inputs.filter(({ in: place, rule, name }) => place === 'body' && (!rule || own[name]));
      const sent = assignUnique(fields, own);
      const request = requestOf(change, sent);
      const changed = ((await expectAnswer(setting, change, request)).body ?? {}) as Row;
      compareSent(request, sent, changed);
      await readAs(changed);
      last = { ...last, ...changed };
    }
    if (!remove) return;
    await expectAnswer(setting, remove, requestOf(remove));
    for (const item of [...(read ? [read] : []), ...changes]) {
      if (isRaised(item, GONE)) await expectAnswer(setting, item, requestOf(item), { status: GONE });
    }
    if (!list) return;
    const { request: listed, found } = await find(list, last);
    if (found) throw new Mismatch(listed, 'a list without what was deleted', describeRow(row));
  };
  const steps = [read && 'read', changes[0] && 'changed', remove && 'deleted'].filter(Boolean);
  let life: Promise<void> | undefined;
  if (steps.length > 0) {
    yield check(`creates what is ${steps.join(', ')}`, () => {
      life = live();
      return life;
    });
  }

  if (list?.list.after) {
    // Pages with `after` contain every record that existed at the beginning exactly once.
    yield check('lists every record once while others are created', async () => {
      // The other check changes and deletes records, which may then be in two pages or none.
      await Promise.allSettled([life]);
      const { readRows, readPages, toLimit } = createReader(setting, list);
      const before = await readRows();
      const limit = toLimit(before.length / (MEANWHILE + 1));
      const createSome = async (pages: number) => pages <= MEANWHILE && (await create());
      comparePages(await readPages({ limit }, createSome), before);
    });
  }

  if (operation.conflicts) {
    yield check('refuses the same fields again', async () => {
      const isMadeUp = ({ in: place, rule, schema }: Input) => place === 'body' && (rule || schema.format !== 'uuid');
      const fields = inputs.filter((input) => required.includes(input) || isMadeUp(input));
      const assigned = assignUnique(fields, known);
      const sent = assigned.filter(({ input, value }) => input.required || value !== null);
      // Postgres accepts any number of nulls in a unique column.
      const absent = assigned.filter(({ value }) => value === null).map(({ input }) => input.name);
      /** Sends a creation twice. Returns the mismatch if the second one is accepted too. */
      const repeat = async (sent: readonly Assignment<Input>[]): Promise<Mismatch | undefined> => {
        const request = toValidRequest(operation, sent);
        // A field such as a boolean has few values, and an earlier run may have taken the one that is sent.
        const first = await expect(request, { mayRaise: true });
        if (![CREATED, CONFLICT].includes(first.status)) throw refused(first);
        const isTaken = (error: unknown) => error instanceof Mismatch && error.got.startsWith(`${CREATED} `);
        return expect(request, { status: CONFLICT }).then(
          () => undefined,
          (error) => (isTaken(error) ? error : Promise.reject(error)),
        );
      };
      const taken = await repeat(sent);
      // An optional field may be a condition of what has to be unique, such as the time of a deletion.
      const least = sent.filter(({ input }) => input.required);
      if (!taken || (least.length < sent.length && !(await repeat(least).catch(() => taken)))) return;
      if (absent.length === 0) throw taken;
      throw new Unknown(`no value is known of ${absent.join(', ')}, which may have to be unique`);
    });
  }

  const header = inputs.find((input) => input.in === 'header' && /^idempotency-key$/i.test(input.name));
  if (!header) return;
  const sendRepeatable = (copies?: number) => send(() => [{ input: header, value: randomUUID() }, ...assign()], copies);
  yield check(`creates one record for all requests with the same ${header.name}`, async () => {
    const { request, assignments, answer, others } = await sendRepeatable(COPIES);
    const last = await expect(request);
    compareAnswers(request, answer, last);
    if (list) await findOne(list, answer.body as Row, assignments);
    if (!operation.success.headers.has(REPLAYED)) return;
    const marks = [answer, ...others, last].map(({ headers }) => headers[REPLAYED] ?? 'none');
    const expected = `${REPLAYED}: none once, and true in each answer to a repetition`;
    const isMarked = marks.filter((mark) => mark === 'none').length === 1 && marks.at(-1) === 'true';
    if (!isMarked) throw new Mismatch(request, expected, marks.join(', '));
  });
  // The other tenant lacks the record that an x-rule asks for.
  if (setting.otherKey && !hasRule) {
    yield check(`keeps what was created with an ${header.name} from the other key`, async () => {
      const { request, answer: first } = await sendRepeatable();
      const other = { ...request, key: OTHER_KEY };
      const answer = await setting.client.send(other);
      const [one, another] = [first, answer].map(({ body }) => (body ?? {}) as Row) as [Row, Row];
      const isKnown = REPLAYED in answer.headers || answer.text.includes(header.name);
      if (isKnown || (hasId(one) && one.id === another.id)) {
        throw new Mismatch(other, 'another record than that of the own key', describeAnswer(answer));
      }
      if (answer.status !== status) throw new Unknown(`the other key may not create it: ${describeAnswer(answer)}`);
    });
  }
  yield check(`refuses another body with the same ${header.name}`, async () => {
    const { request, assignments } = await sendRepeatable();
    const key = assignments.filter(({ input }) => input === header);
    const other = toValidRequest(operation, [...key, ...assignUnique(required, known)]);
    if (isDeepStrictEqual(request, other)) {
      throw new Unknown('no value of the fields that it requires differs each time');
    }
    await expect(other, { status: 422, fields: [header.name] });
  });
}

function compareAnswers(request: Request, one: Answer, other: Answer): void {
  if (isDeepStrictEqual(one.body, other.body)) return;
  throw new Mismatch(request, `${describeAnswer(one)}, as for another copy of the request`, describeAnswer(other));
}

/** The value of a path parameter: the one used for the creation, or the record's. */
function toPlace(input: Input, assignments: readonly Assignment[], row: Row): Assignment {
  const created = assignments.find(({ input: { in: place, name } }) => place === 'path' && name === input.name);
  return created ?? { input, value: row[input.name] ?? row.id ?? null };
}

/** The name of the property of a record that shows a field. */
function toProperty({ name }: Input): string {
  return name.replace(/^p_/, '');
}

/** Compares a record with what was sent. Fields have the prefix `p_`, properties of the record do not. */
export function compareSent(request: Request, assignments: Assignments, row: Row): void {
  for (const { input, value } of assignments) {
    const property = toProperty(input);
    if (!(property in (row ?? {})) || isSame(input.schema, row[property], value)) continue;
    throw new Mismatch(request, `${property} ${JSON.stringify(value)}`, describeRow(row));
  }
}

/** The fields that the examples of a creation send. */
function readExampleFields({ contract }: Setting, { id }: Operation): Row {
  const examples = readExamples(contract.document).filter(
    ({ operationId, status }) => operationId === id && status === CREATED,
  );
  return Object.assign({}, ...examples.map(({ request }) => JSON.parse(request.body ?? '{}')));
}

/** Filters by a text of the record, so that it is found in a long list too. */
function toConditions({ list }: ListOperation, row: Row): Condition[] {
  const isText = ({ property }: Filter) => typeof row[property] === 'string';
  const input = list.filters.find((one) => one.match !== 'none' && isText(one) && one.validate(row[one.property]));
  return input ? [{ input, value: row[input.property] ?? null }] : [];
}

/** Values for inputs, unique if the schema allows it, and known ones for inputs with an x-rule. */
function assignUnique(inputs: readonly Input[], known: Row): Assignment<Input>[] {
  return inputs.map((input) => {
    if (input.rule) return { input, value: known[input.name] ?? null };
    const id = randomUUID();
    const texts = [`${TEXT} ${id}`, `${id}@${DOMAIN}`, id, id.slice(0, input.schema.maxLength)];
    const value = [...texts, pickNumber(input)].find((value) => input.validate(value));
    const filled = { ...input, schema: { ...input.schema, nullable: false } };
    return { input, value: value ?? (input.schema.pattern ? pickAny(filled) : pickValid(filled)) };
  });
}

/** The largest number that is made up: a 32-bit float holds all whole numbers up to this one. */
const MAX_PICKED = 2 ** 24;

function pickNumber({ schema: { type, minimum = 0, maximum = 2 ** 31 - 1 } }: Input): number | null {
  const least = Math.max(Math.ceil(minimum), -MAX_PICKED);
  const most = Math.min(Math.floor(maximum), least + MAX_PICKED);
  return (type === 'integer' || type === 'number') && least <= most ? randomInt(least, most + 1) : null;
}

/** Formats whose values a database writes in a form of its own. */
const REWRITTEN = ['duration', 'ipv6', 'time'];

/** Whether a record has a value that was sent; a time may be in another zone, and a float has 24 bits. */
function isSame(schema: Schema, value: Json | undefined, sent: Json): boolean {
  if (sent === null) return value === null;
  const items = itemsOf(schema);
  if (items && Array.isArray(sent) && Array.isArray(value)) {
    return sent.length === value.length && sent.every((one, n) => isSame(items, value[n], one));
  }
  if (schema.format === 'float') return Math.fround(Number(value)) === Math.fround(Number(sent));
  if (REWRITTEN.includes(schema.format ?? '')) return true;
  if (schema.format === 'date-time') return Date.parse(String(value)) === Date.parse(String(sent));
  // A generated object may have no prototype.
  const toComparable = (one: Json | undefined) => (schema.format === 'uuid' ? String(one).toLowerCase() : one);
  return isDeepStrictEqual(toComparable(value), toComparable(JSON.parse(JSON.stringify(sent))));
}
