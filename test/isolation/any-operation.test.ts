import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { toCall } from '../../src/api/call.ts';
import { receiveExample } from '../../src/api/validate.ts';
import { toHttpError } from '../../src/errors.ts';
import type { CompiledDocument } from '../../src/openapi/compile.ts';
import { type Example, findKeyScheme, readExamples } from '../../src/openapi/examples.ts';
import type { Operation } from '../../src/openapi/operations.ts';
import { readProperties, type Schema } from '../../src/openapi/schema.ts';
import type { Argument, Call, Result } from '../../src/store/store.ts';
import { document, operations } from '../helpers/api.ts';
import { as, type Db, openDatabase, rows } from '../helpers/database.ts';
import { compileOnce } from '../helpers/gateway.ts';
import { column } from './check.ts';
import { openWithinTransaction, tried } from './in-process-store.ts';
import { findReaders, ONE_WALL, removePredicates } from './removal.ts';
import { MISSING_ID } from './world.ts';

// What holds for every operation of the document, whoever added it, with each wall between the tenants alone. The calls are
// those of the document's examples of success, in the demo data.

const HELP = 'see docs/adding-an-operation.md, "The function"';
const NEVER = new AbortController().signal;
const UUID = /^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$/i;
const KEY = findKeyScheme(document)?.['x-example'] ?? '';

let db: Db;
let compiled: CompiledDocument;
/** The calls of each operation. */
const calls = new Map<string, { readonly example: Example; readonly call: Call }[]>();
/** The other tenants' records, one of each table. */
let foreignIds: string[];
let tables: readonly string[];
/** The functions that query a table of tenants, and those that name the tenant as they do. */
let readers: readonly string[];
let naming: readonly string[];

beforeAll(async () => {
  db = await openDatabase();
  compiled = await compileOnce(document);
  for (const example of readExamples(document)) {
    const operation = compiled.operations.get(example.operationId);
    if (!operation || example.status !== operation.status || example.after) continue;
    calls.set(operation.id, [...(calls.get(operation.id) ?? []), { example, call: await toCallOf(example) }]);
  }
  readers = await findReaders(db);
  naming = await undone(() => removePredicates(db));
  const isolated = await rows<{ name: string; has_id: boolean }>(
    db,
    `select c.relname as name, exists (select from pg_attribute a where a.attrelid = c.oid and a.attname = 'id') as has_id
       from pg_class c join pg_policy p on p.polrelid = c.oid and p.polname = 'tenant_isolation'
      where c.relname <> 'tenants' order by 1`,
  );
  tables = isolated.map(({ name }) => name);
  foreignIds = [];
  for (const { name } of isolated.filter(({ has_id }) => has_id)) {
    const first = `select id from private.${name} where tenant_id <> ${OWN_TENANT} order by id limit 1`;
    foreignIds.push(...(await column(db, first)));
  }
});

afterAll(() => db.close());

const OWN_TENANT = `(select tenant_id from private.api_keys where key_hash = sha256('${KEY}'))`;

async function toCallOf({ operationId, name, request }: Example): Promise<Call> {
  const received = await receiveExample(compiled, request);
  if (!received) throw new Error(`the example ${name} of ${operationId} is not valid`);
  return toCall(received.operation, received.request);
}

/** What a client sees of a result, without what the server generates. */
function describeResult(result: Result, generated: readonly string[] = []): unknown {
  if ('failure' in result) return toHttpError(result.failure);
  const value = result.json === '' ? '' : JSON.parse(result.json);
  const others = Object.entries(value).filter(([name]) => !generated.includes(name));
  return generated.length > 0 ? Object.fromEntries(others) : value;
}

/** Does something in a transaction that is taken back. */
const undone = <T>(work: () => Promise<T>) => as(db, 'postgres', work);

/** An example, and for a read the same without its filters too, which could hide what is of others. */
function withoutFilters({ example, call }: { example: Example; call: Call }) {
  const operation = compiled.operations.get(example.operationId);
  const needed = [operation?.key, ...(operation?.inputs ?? []).filter((input) => input.in === 'path')];
  const args = Object.entries(call.args).filter(([name]) => needed.some((input) => input?.argument === name));
  const bare = { example, call: { ...call, args: Object.fromEntries(args) } };
  return call.readOnly ? [{ example, call }, bare] : [{ example, call }];
}

/** The call with another id in each place that has one, in an argument, an array or a body, or that could have one. */
function withIds(call: Call, id: string): Call[] {
  const operation = [...compiled.operations.values()].find((one) => one.function === call.function);
  const unused = operation ? readIdArguments(operation).filter((name) => !(name in call.args)) : [];
  const added = unused.map((name) => ({ ...call, args: { ...call.args, [name]: id } }));
  const replaced = Object.entries(call.args).flatMap(([name, value]) =>
    replaceIds(value, id).map((other) => ({ ...call, args: { ...call.args, [name]: other } })),
  );
  return [...added, ...replaced];
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

const ids = operations.map(({ id }) => id);

describe.each(ids)('%s', (id) => {
  test('has an example of success, so that it can be tested', () => {
    expect(calls.get(id) ?? [], `${id} has no example of its success: add one to its response`).not.toEqual([]);
  });

  test('verifies the key, and asks for the permission to call this function', async () => {
    const operation = compiled.operations.get(id);
    const [{ call } = { call: undefined }] = calls.get(id) ?? [];
    if (!operation || !call) return;
    const name = operation.function;
    const unknown = { ...call, args: { ...call.args, [operation.key.argument]: 'nobody' } };
    const why = `public.${name} has to begin with private.verify_key(p_api_key, '${name}'): ${HELP}`;
    const store = openWithinTransaction(db);
    const ofUnknown = await undone(() => store.call(unknown, NEVER));
    expect(describeResult(ofUnknown), why).toMatchObject({ status: 401 });
    const others = `array(select proname::text from pg_proc where pronamespace = 'public'::regnamespace and proname <> '${name}')`;
    const refused = await undone(async () => {
      await db.exec(`update private.api_keys set permissions = ${others} where key_hash = sha256('${KEY}')`);
      return store.call(call, NEVER);
    });
    expect(describeResult(refused), why).toMatchObject({ status: 401 });
  });

  test('names the tenant in its queries', () => {
    const name = compiled.operations.get(id)?.function ?? '';
    const why = `public.${name} queries a table of tenants without "tenant_id = v_tenant": ${HELP}`;
    expect(readers.includes(name) && !naming.includes(name), why).toBe(false);
  });
});

test('a predicate without blanks names the tenant too', async () => {
  const removed = await undone(async () => {
    await db.exec(`create function public.contar_fivelas(p_tenant uuid) returns bigint language sql
      as $$ select count(*) from private.alunos a where a.tenant_id=p_tenant $$`);
    return removePredicates(db, /^contar_fivelas$/);
  });
  expect(removed).toEqual(['contar_fivelas']);
});

// To remove a wall takes longer than most calls.
describe.each(ONE_WALL)('with $walls', ({ walls, remove }) => {
  let store: ReturnType<typeof openWithinTransaction>;

  beforeAll(async () => {
    await db.exec('begin');
    await remove(db);
    store = openWithinTransaction(db);
  });

  afterAll(() => db.exec('rollback'));

  test.each(ids)('%s has only data of its tenant', async (id) => {
    for (const { example, call } of (calls.get(id) ?? []).flatMap(withoutFilters)) {
      const whole = await tried(db, () => store.call(call, NEVER));
      const again = await tried(db, () => store.call(call, NEVER));
      expect(
        describeResult(again, example.generated),
        `${call.function} answers the example ${example.name} otherwise each time: name what is generated in x-generated`,
      ).toEqual(describeResult(whole, example.generated));
      const alone = await tried(db, async () => {
        // Nothing of another tenant is left.
        await db.exec('set local session_replication_role = replica');
        for (const table of tables) await db.exec(`delete from private.${table} where tenant_id <> ${OWN_TENANT}`);
        await db.exec('set local session_replication_role = origin');
        return store.call(call, NEVER);
      });
      const why = `${call.function} shows rows of another tenant in the example ${example.name}, with ${walls}: every query needs "tenant_id = v_tenant", and every table private.isolate (${HELP})`;
      expect(describeResult(whole, example.generated), why).toEqual(describeResult(alone, example.generated));
    }
  });

  test.each(ids)('%s answers an id of another tenant like one that does not exist', async (id) => {
    for (const { example, call } of calls.get(id) ?? []) {
      const describe_ = async (one: Call) =>
        describeResult(await tried(db, () => store.call(one, NEVER)), example.generated);
      const missing = await Array.fromAsync(withIds(call, MISSING_ID), describe_);
      for (const foreignId of foreignIds) {
        const why = `${call.function} accepts ${foreignId}, which belongs to another tenant: ${HELP}`;
        expect(await Array.fromAsync(withIds(call, foreignId), describe_), why).toEqual(missing);
      }
    }
  });
});
