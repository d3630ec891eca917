import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Db, openDatabase } from '../helpers/database.ts';
import { behaviourChecks } from './behaviour.ts';
import { catalogChecks } from './catalog.ts';
import type { Check } from './check.ts';
import { kinds, type Mutation } from './mutations.ts';
import { functionsOf } from './removal.ts';

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

let db: Db;
/** How many changes each check has caught, and how long it takes, in milliseconds. */
const caughtBy = new Map<string, number>();
const takes = new Map<string, number>();
const names: string[] = [];

beforeAll(async () => {
  db = await openDatabase();
});

afterAll(async () => {
  console.info(`${names.length} changes; caught by\n${[...caughtBy].map(([name, n]) => `${n} ${name}`).join('\n')}`);
  await db.close();
});

describe('a check catches a change of', () => {
  test.each(kinds)('$kind', async ({ kind, derive }) => {
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

/** Makes a change and takes it back; whether a check sees it. */
async function isCaught({ name, sql }: Mutation): Promise<boolean> {
  await db.exec('begin');
  try {
    await db.exec(sql).catch((error) => {
      throw new Error(`${name} cannot be made`, { cause: error });
    });
    // The dear ones are asked where the cheap ones see nothing: first those that have caught nothing yet, then the quickest.
    const costOf = ({ name }: Check) => (caughtBy.has(name) ? (takes.get(name) ?? 0) : 0);
    const dear = behaviourChecks.toSorted((one, other) => costOf(one) - costOf(other));
    const caught = await firstOf([...catalogChecks, ...dear]);
    if (caught !== undefined) caughtBy.set(caught, (caughtBy.get(caught) ?? 0) + 1);
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
