// Checks of every operation of the document, whoever added it. They make the calls of the document's examples, on the demo data with a
// shadow of their tenant.

import { isDeepStrictEqual } from 'node:util';
import { leaveOutNulls } from '../../src/api/answer.ts';
import { toCall, toDeclared } from '../../src/api/call.ts';
import { receiveExample } from '../../src/api/validate.ts';
import { toHttpError } from '../../src/errors.ts';
import { type Example, readExamples } from '../../src/openapi/examples.ts';
import type { Operation } from '../../src/openapi/operations.ts';
import { readProperties, type Schema } from '../../src/openapi/schema.ts';
import type { Argument, Call, Store } from '../../src/store/store.ts';
import type { Db } from '../helpers/database.ts';
import { compileOnce } from '../helpers/gateway.ts';
import { column } from './check.ts';
import { openWithinTransaction, tried } from './in-process-store.ts';
import { copyRows, FOREIGN_IDS, findIsolated, MISSING_ID, OWN_KEY, OWN_TENANT, SHADOW_KEY } from './shadow.ts';

const NEVER = new AbortController().signal;
const UUID = /^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$/i;

/** A call of an example's request, or one that was made from it. */
type Asked = { readonly example: Example; readonly operation: Operation; readonly call: Call };
type Caller = Pick<Store, 'call'>;

/** The statuses that the gateway itself answers a valid request with. */
const OF_GATEWAY = [408, 429, 431, 502];

const compiled = await compileOnce();
export const ids = [...compiled.operations.keys()];

/** The examples that the database answers. */
const asked = (await Array.fromAsync(readExamples(compiled.source), toAsked)).filter((one) => one !== undefined);

async function toAsked(example: Example): Promise<Asked | undefined> {
  if (OF_GATEWAY.includes(example.status)) return undefined;
  const received = await receiveExample(compiled, example.request);
  return received && { example, operation: received.operation, call: toCall(received.operation, received.request) };
}

/** The examples of an operation's success. */
export function successesOf(id: string): Asked[] {
  return asked.filter(({ example, operation }) => {
    return example.operationId === id && example.status === operation.status && !example.after;
  });
}

/** The calls that read. */
export const reads = ids.flatMap(callsOf).filter(({ call }) => call.readOnly);

/** The calls of the examples of success, and for a read those without what could hide rows of others. */
function callsOf(id: string): Asked[] {
  const all = successesOf(id).flatMap((one) => (one.call.readOnly ? [one, ...withLess(one)] : [one]));
  return [...new Map(all.map((one) => [JSON.stringify(one.call), one])).values()];
}

/** A call without its inputs, and without those of its page: whole, its first record, and its second one. */
function withLess(one: Asked): Asked[] {
  const { key, inputs, page } = one.operation;
  const needed = [key, ...inputs.filter((input) => input.in === 'path')].map(({ argument }) => argument);
  const bare = withArguments(one, (name) => needed.includes(name));
  if (!page) return [bare];
  const [limit, offset] = [page.limit.argument, page.offset.argument];
  const isFilter = (name: string) => ![limit, offset, page.after?.argument].includes(name);
  const first = { [limit]: 1 };
  return [bare, ...[{}, first, { ...first, [offset]: 1 }].map((args) => withArguments(one, isFilter, args))];
}

/** A call with some of its arguments and with these. */
function withArguments(one: Asked, has: (name: string) => boolean, args: Call['args'] = {}): Asked {
  const kept = Object.entries(one.call.args).filter(([name]) => has(name));
  return { ...one, call: { ...one.call, args: { ...Object.fromEntries(kept), ...args } } };
}

const withArgument = (one: Asked, name: string, value: Argument) => withArguments(one, () => true, { [name]: value });

/** What a client sees of the answer to a call, without what the server generates. */
export async function answerOf(store: Caller, { example, operation, call }: Asked) {
  const result = await store.call(call, NEVER);
  if ('failure' in result) {
    const { status, error } = toHttpError(toDeclared(operation, result.failure));
    return { status, body: { error } };
  }
  const body = result.json && JSON.parse(leaveOutNulls(result.json, operation));
  return { status: operation.status, body: withoutGenerated(example, body) };
}

/** Makes a call as answerOf does, and takes back what it writes. */
function tryCall(db: Db, store: Caller, one: Asked) {
  return one.call.readOnly ? answerOf(store, one) : tried(db, () => answerOf(store, one));
}

function withoutGenerated({ generated }: Example, body: unknown): unknown {
  if (generated.length === 0) return body;
  return Object.fromEntries(Object.entries(Object(body)).filter(([name]) => !generated.includes(name)));
}

/** Adds the shadow, which has already created what the examples create. */
export async function addShadow(db: Db): Promise<void> {
  await db.exec('begin');
  await copyRows(db);
  const store = openWithinTransaction(db);
  for (const one of ids.flatMap(successesOf)) {
    if (one.operation.status === 201) await answerOf(store, withArgument(one, one.operation.key.argument, SHADOW_KEY));
  }
  await db.exec('commit');
}

/** Finds the examples that are not answered as the document says. */
export async function findOtherAnswers(db: Db): Promise<string[]> {
  const store = openWithinTransaction(db);
  const findings: string[] = [];
  for (const one of asked.filter(({ example }) => example.isCaused)) {
    const { operationId, name, after, status, value } = one.example;
    const first = asked.find(({ example }) => example.operationId === operationId && example.name === after);
    const answer = await tried(db, async () => {
      if (first) await answerOf(store, first);
      return answerOf(store, one);
    });
    if (isDeepStrictEqual(answer, { status, body: withoutGenerated(one.example, value) })) continue;
    findings.push(`${operationId} answers the example ${name} with ${JSON.stringify(answer)}`);
  }
  return findings;
}

/** Whether an operation takes a key that is unknown, or lacks the permission, or refuses one that has only this permission. */
export async function findUnverified(db: Db, id: string): Promise<string[]> {
  const [one] = successesOf(id);
  if (!one) return [];
  const { function: name, key, status } = one.operation;
  const others = `array(select proname::text from pg_proc where pronamespace = 'public'::regnamespace and proname <> '${name}')`;
  const askWith = (value: string, permissions: string) =>
    tried(db, async () => {
      await db.exec(`update private.api_keys set permissions = ${permissions} where key_hash = sha256('${OWN_KEY}')`);
      return (await answerOf(openWithinTransaction(db), withArgument(one, key.argument, value))).status;
    });
  const statuses = [
    await askWith('nobody', 'null'),
    await askWith(OWN_KEY, others),
    await askWith(OWN_KEY, `array['${name}']`),
  ];
  const why = `public.${name} has to begin with private.verify_key(p_api_key, '${name}')`;
  if (isDeepStrictEqual(statuses, [401, 401, status])) return [];
  return [`${why}: an unknown key, one without the permission, and one with it alone get ${statuses.join(', ')}`];
}

/** Finds the first call whose answer changes when the rows of other tenants are gone, or that changes one of these rows. */
export async function findLeaks(db: Db, chosen: readonly string[]): Promise<string[]> {
  const store = openWithinTransaction(db);
  const tables = (await findIsolated(db)).map(({ name }) => name);
  const others = `where tenant_id <> ${OWN_TENANT}`;
  const sums = tables.map((name) => `select md5(string_agg(t::text, '')) from ${name} t ${others}`);
  const readOthers = () => column(db, sums.join(' union all '));
  // A call that writes is made twice, because a repeated creation takes another way.
  const ask = async (one: Asked) => {
    if (one.call.readOnly) return [await answerOf(store, one)];
    return tried(db, async () => {
      const before = await readOthers();
      const first = await answerOf(store, one);
      return [first, isDeepStrictEqual(await readOthers(), before), await answerOf(store, one)];
    });
  };
  const calls = chosen.flatMap(callsOf);
  const alone = await tried(db, async () => {
    const deletions = tables.map((name) => `delete from ${name} ${others};`).join(' ');
    await db.exec(
      `set local session_replication_role = replica; ${deletions} set local session_replication_role = origin`,
    );
    return Array.fromAsync(calls, ask);
  });
  for (const [index, one] of calls.entries()) {
    const whole = await ask(one);
    if (isDeepStrictEqual(whole, alone[index])) continue;
    const { function: name, args } = one.call;
    const where = `the example ${one.example.name}`;
    if (!isDeepStrictEqual(await ask(one), whole)) {
      return [`${name} answers ${where} otherwise each time: name what is generated in x-generated`];
    }
    const why = 'every query needs "tenant_id = v_tenant", and every table private.isolate';
    return [`${name} shows rows of another tenant in ${where}, or changes them, with ${JSON.stringify(args)}: ${why}`];
  }
  return [];
}

/** Finds the first call that answers an id of another tenant differently from an id that does not exist. */
export async function findForeign(db: Db, chosen: readonly string[]): Promise<string[]> {
  const store = openWithinTransaction(db);
  for (const one of chosen.flatMap(successesOf)) {
    const answersTo = (id: string) => Array.fromAsync(withIds(one, id), (other) => tryCall(db, store, other));
    const missing = await answersTo(MISSING_ID);
    for (const id of FOREIGN_IDS) {
      if (isDeepStrictEqual(await answersTo(id), missing)) continue;
      return [`${one.call.function} accepts ${id}, which belongs to another tenant`];
    }
  }
  return [];
}

/** The call with another id in each place that has one, in an argument, an array or a body, or that could have one. */
function withIds(one: Asked, id: string): Asked[] {
  const { args } = one.call;
  const unused = readIdArguments(one.operation).filter((name) => !(name in args));
  const replaced = Object.entries(args).flatMap(([name, value]) =>
    replaceIds(value, id).map((other) => withArgument(one, name, other)),
  );
  return [...unused.map((name) => withArgument(one, name, id)), ...replaced];
}

/** The arguments that are ids by their format. */
function readIdArguments({ inputs, body, source }: Operation): string[] {
  const isId = (schema: unknown) => (schema as Schema | undefined)?.format === 'uuid';
  const { parameters } = source;
  const { properties } = readProperties(body?.schema ?? {});
  const fields = (body?.fields ?? []).map(({ argument }) => argument);
  return [
    ...inputs.filter((_input, index) => isId(parameters[index]?.schema)).map(({ argument }) => argument),
    ...fields.filter((name) => isId(properties[name])),
  ];
}

function replaceIds(value: Argument | undefined, id: string): Argument[] {
  if (typeof value === 'string') {
    return UUID.test(value) ? [value.includes('-') ? id : id.replaceAll('-', '')] : [];
  }
  if (typeof value !== 'object' || value === null) return [];
  const json = JSON.stringify(value);
  const parts = [...json.matchAll(/[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/gi)];
  return parts.map(({ index, 0: text }) => JSON.parse(json.slice(0, index) + id + json.slice(index + text.length)));
}
