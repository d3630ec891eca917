import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { operations } from '../helpers/api.ts';
import { as, useConnection } from '../helpers/database.ts';
import { addShadow, findForeign, findLeaks, findUnverified, successesOf } from './operations.ts';
import { findReaders, ONE_WALL, removePredicates } from './removal.ts';

const HELP = 'see docs/adding-an-operation.md, "The function"';
const expectNone = (findings: readonly string[]) => expect(findings, HELP).toEqual([]);

const db = useConnection();
/** The functions that query a table of tenants, and those that name the tenant as they do. */
let readers: readonly string[];
let naming: readonly string[];

/** Does something in a transaction that is taken back. */
const undone = <T>(work: () => Promise<T>) => as(db, 'postgres', work);

beforeAll(async () => {
  readers = await findReaders(db);
  naming = await undone(() => removePredicates(db));
  await addShadow(db);
});

describe.each(operations)('$id', ({ id, rpc: name }) => {
  test('has an example of success, so that it can be tested', () => {
    expect(successesOf(id), `${id} has no example of its success: add one to its response`).not.toEqual([]);
  });

  test('verifies the key, and asks for the permission to call this function', async () => {
    expectNone(await undone(() => findUnverified(db, id)));
  });

  test('names the tenant in its queries', () => {
    const why = `public.${name} queries a table of tenants without "tenant_id = v_tenant": ${HELP}`;
    expect(readers.includes(name) && !naming.includes(name), why).toBe(false);
  });
});

test('the functions that these call name the tenant too', () => {
  expect(readers.filter((name) => !naming.includes(name))).toEqual([]);
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
describe.each(ONE_WALL)('with $walls', ({ remove }) => {
  beforeAll(async () => {
    await db.exec('begin');
    await remove(db);
  });

  afterAll(() => db.exec('rollback'));

  test.each(operations)('$id has only data of its tenant', async ({ id }) => {
    expectNone(await findLeaks(db, [id]));
  });

  test.each(operations)('$id answers an id of another tenant like one that does not exist', async ({ id }) => {
    expectNone(await findForeign(db, [id]));
  });
});
