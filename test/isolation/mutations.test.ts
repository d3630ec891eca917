import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Db, useConnection } from '../helpers/database.ts';
import { canTestOnDebian } from '../helpers/debian-postgres.ts';
import { addPgtap, readScript, runTap } from '../helpers/tap.ts';
import { catalogChecks } from './catalog.ts';
import type { Check } from './check.ts';
import { tried } from './in-process-store.ts';
import { kinds, type Mutation } from './mutations.ts';
import { addShadow, findForeign, findLeaks, findOtherAnswers, findUnverified, ids } from './operations.ts';
import { functionsOf, ONE_WALL, removeRowSecurity } from './removal.ts';

/** The index of names, which is for a tenant of more than 200 students, finds what is of one tenant alone. */
const BY_INDEX = 'nothing is shown for it: at most rows are missing, as test/sql/plans.test.ts sees in a large tenant';

/** The key's id is of one tenant alone. */
const BY_KEY = 'the usage of a key has the tenant of the key';

/** Positions are of the time, and compared within a tenant only. */
const BY_TIME = 'nothing is shown for it: it matters where the clock goes back, as supabase/tests/changes.sql sees';

const CITUS = 'only Citus has it, where test/citus/schema.test.ts needs it';

/** Changes that change nothing which could be seen or which matters, and why. */
const EQUIVALENT: Record<string, string> = {
  'verify_key: "v_key.permissions is null or " removed':
    'for null, "= any" gives null, and "if not null" does not raise',
  "verify_key: \"perform set_config('citus.propagate_set_commands', 'local', true);\" removed": CITUS,
  'consultar_uso: "u.tenant_id = v_tenant" removed': BY_KEY,
  'consultar_uso: "u.tenant_id = v_tenant" removed, place 2': BY_KEY,
  'next_position: "c.tenant_id = p_tenant" removed': BY_TIME,
  'next_position: "c.tenant_id = p_tenant" inverted': BY_TIME,
  'find_limits: "u.tenant_id = v_tenant" removed': BY_KEY,
  'search_alunos: "(p_tenant" replaced': BY_INDEX,
  'search_alunos: "m.tenant_id = p_tenant" removed': BY_INDEX,
  'search_alunos: "m.tenant_id = p_tenant" inverted': BY_INDEX,
  'search_alunos: "and m.tenant_id = private.current_tenant()" removed': BY_INDEX,
  'alter table private.erasures drop constraint erasures_pkey cascade':
    'its id is for tools that want a primary key: erasures_once keeps an erasure once',
  'search_alunos: "m.tenant_id = " inverted': BY_INDEX,
};

const db = useConnection();
/** How many changes each check has caught, and how long it takes, in milliseconds. */
const caughtBy = new Map<string, number>();
const takes = new Map<string, number>();
const names: string[] = [];
let last: string | undefined;

/** Checks of what the functions do, by every operation of the document and by two scripts of supabase/tests. */
const behaviourChecks: readonly Check[] = [
  { name: 'the examples are answered as the document says', find: findOtherAnswers },
  {
    name: 'every operation verifies the key, and asks for the permission to call its function',
    find: async (db) => (await Array.fromAsync(ids, (id) => findUnverified(db, id))).flat(),
  },
  {
    name: 'with the functions alone an id of another tenant is answered like one that does not exist',
    find: within(removeRowSecurity, findForeign),
  },
  ...ONE_WALL.map(({ walls, remove }) => ({
    name: `with ${walls} every answer has only data of its tenant`,
    find: within(remove, findLeaks),
  })),
  passes('row_security.sql'),
  passes('usage.sql'),
];

/** Creates a check of all operations without a wall, which is put back. */
function within(remove: (db: Db) => Promise<unknown>, find: typeof findLeaks): Check['find'] {
  return (db) =>
    tried(db, async () => {
      await remove(db);
      return find(db, ids);
    });
}

/** Creates a check that a script passes within the open transaction, which a failing statement ends. */
function passes(name: string): Check {
  const { file, sql } = readScript(name);
  const part = sql
    .replace(/^begin;$/m, 'savepoint script;')
    .replace(/^rollback;$/m, 'rollback to savepoint script; release savepoint script;');
  const find: Check['find'] = (db) =>
    runTap(db, { file, sql: part }).then(
      ({ failed }) => [...failed],
      (error) => [String(error)],
    );
  return { name: `${name} passes`, find };
}

describe.skipIf(!canTestOnDebian('pgtap'))('the campaign of mutations', () => {
  beforeAll(async () => {
    await addShadow(db);
    await addPgtap(db);
    // Granted once here, because each script would grant it again.
    await db.exec('grant usage on schema extensions to public');
    await db.exec('grant execute on all functions in schema extensions to public');
  });

  afterAll(() =>
    console.info(`${names.length} changes; caught by\n${[...caughtBy].map(([name, n]) => `${n} ${name}`).join('\n')}`),
  );

  test.each(kinds)('a check catches a change of $kind', async ({ kind, derive }) => {
    const mutations = await derive(db);
    const survivors: string[] = [];
    names.push(...mutations.map(({ name }) => name));
    for (const mutation of mutations) {
      if (!(await isCaught(mutation))) survivors.push(mutation.name);
    }
    console.info(`${mutations.length - survivors.length} of ${mutations.length} caught: ${kind}`);
    expect(survivors).toEqual(mutations.map(({ name }) => name).filter((name) => name in EQUIVALENT));
    expect(mutations.length).toBeGreaterThan(survivors.length);
  });

  test('has no change twice, and includes those without an effect', () => {
    expect(new Set(names).size).toBe(names.length);
    expect(Object.keys(EQUIVALENT).filter((name) => !names.includes(name))).toEqual([]);
  });

  test('includes the removal of every refusal of a key', async () => {
    const verification = (await functionsOf(db)).find(({ name }) => name === 'verify_key');
    const refusals = names.filter((name) => /^verify_key: .*raise exception .* removed$/.test(name));
    expect(refusals).toHaveLength(verification?.definition.match(/raise exception/g)?.length ?? 0);
  });

  test('every check catches something', () => {
    const checks = [...catalogChecks, ...behaviourChecks].map(({ name }) => name);
    expect(checks.filter((name) => !caughtBy.has(name))).toEqual([]);
  });
});

/** Makes a change and takes it back; whether a check sees it. */
async function isCaught({ name, sql }: Mutation): Promise<boolean> {
  await db.exec('begin');
  try {
    await db.exec(sql).catch((error) => {
      throw new Error(`${name} cannot be made`, { cause: error });
    });
    // The dear ones are asked where the cheap ones see nothing: first what caught the change before, then the quickest.
    const costOf = ({ name }: Check) => (name === last ? 0 : (takes.get(name) ?? 0));
    const dear = behaviourChecks.toSorted((one, other) => costOf(one) - costOf(other));
    const caught = await firstOf([...catalogChecks, ...dear]);
    if (caught !== undefined) caughtBy.set(caught, (caughtBy.get(caught) ?? 0) + 1);
    last = caught;
    return caught !== undefined;
  } finally {
    await db.exec('rollback');
  }
}

/** The name of the first check that sees something. */
async function firstOf(checks: readonly Check[]): Promise<string | undefined> {
  for (const { name, find } of checks) {
    const startedAt = performance.now();
    const findings = await find(db);
    // Where it finds something it ends early.
    if (findings.length > 0) return name;
    takes.set(name, performance.now() - startedAt);
  }
  return undefined;
}
