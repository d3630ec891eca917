import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { openPostgres } from '../../src/store/postgres/store.ts';
import type { Store } from '../../src/store/store.ts';
import { copyCitusDatabase } from '../helpers/citus.ts';
import { as, type Db, openDatabase, rows } from '../helpers/database.ts';
import { isOnCitus, startGateway, type TestGateway } from '../helpers/gateway.ts';
import { databaseUrl, loginUrl } from '../helpers/servers.ts';
import { LISTS, scenario } from './arbitraries.ts';
import { openInProcess } from './in-process-store.ts';
import { Model } from './model.ts';
import { findReaders, findTables, functionsOf, removePredicates, removeRowSecurity } from './removal.ts';
import { type RawAnswer, type Request, send } from './request.ts';
import { SAMPLE } from './sample.ts';
import { emptyWorld, loadWorld, type World } from './world.ts';

/** WALLS_SEED makes the worlds of an earlier run again; a failure tells the path to its smallest case too. */
const SEED = Number(process.env.WALLS_SEED ?? Date.now() % 2 ** 31);
const isLong = inject('isLong');
const isDistributed = isOnCitus(inject('kind'));
const WORLDS = isLong ? 200 : 5;
// After this time a failure is reported with the smallest case so far.
const RUN = { seed: SEED, interruptAfterTimeLimit: 90_000 };
/** Answers that a long run contains; without them the property would say little. */
const KINDS_OF_ANSWERS = [
  ...LISTS.flatMap((id) => [`${id} 200`, `${id} 401`, `${id} nothing`]),
  'criarAluno 201',
  'criarAluno 401',
  'criarAluno 422',
];

type Variant = {
  readonly name: string;
  readonly remove: (db: Db) => Promise<string[]>;
  /** What the removal has to find. */
  readonly findExpected: (db: Db) => Promise<string[]>;
};

/** The functions whose predicates go: without those of a creation Citus cannot plan its queries, and gives an error. */
const REMOVABLE = isDistributed ? /^(listar|search)_/ : /./;

const VARIANTS: readonly Variant[] = [
  { name: 'both walls', remove: async () => [], findExpected: async () => [] },
  { name: 'the functions alone', remove: removeRowSecurity, findExpected: findTables },
  {
    name: 'row security alone',
    remove: (db) => removePredicates(db, REMOVABLE),
    findExpected: async (db) => (await findReaders(db)).filter((name) => REMOVABLE.test(name)),
  },
];

console.info(`The worlds of the walls come from WALLS_SEED=${SEED}`);

/** A database of a test's own and its store, on Citus that of another node than the coordinator. */
async function open(): Promise<{ readonly db: Db; readonly openStore: () => Store }> {
  if (!isDistributed) {
    const db = await openDatabase();
    return { db, openStore: () => openInProcess(db) };
  }
  const nodes = inject('nodes');
  const database = await copyCitusDatabase(nodes);
  const url = loginUrl(databaseUrl(nodes[1] ?? '', database.name), 'gateway_test');
  const openStore = () => openPostgres({ url, connections: 4, prepare: true, deadlineMs: 5_000 });
  return { db: await openDatabase(database), openStore };
}

describe.each(VARIANTS)('with $name', ({ name, remove, findExpected }) => {
  let db: Db;
  let gateway: TestGateway;
  let before: Awaited<ReturnType<typeof functionsOf>>;
  let expected: string[];
  let wasRemoved: string[];
  let asked = 0;

  const ask = (request: Request): Promise<RawAnswer> => {
    asked += 1;
    return send(gateway.url, request);
  };
  const load = async (world: World) => {
    await emptyWorld(db);
    await loadWorld(db, world);
  };

  beforeAll(async () => {
    const opened = await open();
    db = opened.db;
    [before, expected] = [await functionsOf(db), await findExpected(db)];
    wasRemoved = await remove(db);
    gateway = await startGateway({ store: opened.openStore() });
  });

  afterAll(async () => {
    console.info(`${asked} requests with ${name}`);
    await gateway.close();
    await gateway.store.close();
    await db.close();
  });

  test('only this wall is in place', async () => {
    const missing = expected.filter((item) => !wasRemoved.includes(item));
    expect(missing, 'each of them needs "tenant_id = v_tenant" in its queries').toEqual([]);
    const changed = (await functionsOf(db)).filter(({ definition }, n) => definition !== before[n]?.definition);
    expect(changed.map(({ name }) => name)).toEqual([...new Set(wasRemoved.filter((name) => !name.includes('.')))]);
    const condition = name === 'row security alone' ? /tenant_id (=|<>) [pv]_tenant/ : /current_tenant/;
    expect(changed.filter(({ definition }) => condition.test(definition))).toEqual([]);

    // On Citus a setting of the session does not reach the other nodes.
    if (isDistributed) return;
    await load(SAMPLE);
    const tenants = await as(db, 'gateway_functions', async () => {
      await db.query(`select set_config('wellness.tenant_id', $1, true)`, [SAMPLE.tenants[0]?.id]);
      return rows(db, 'select distinct tenant_id from private.academias');
    });
    expect(tenants).toHaveLength(remove === removeRowSecurity ? 2 : 1);
  });

  test("every answer has only data of the key's tenant", async () => {
    const kinds = new Set<string>();
    const property = fc.asyncProperty(scenario, async ({ world, requests }) => {
      await load(world);
      const model = new Model(world);
      for (const request of requests) {
        const { status, text } = await ask(request);
        const wrong = model.judge(request, { status, body: JSON.parse(text) });
        if (wrong !== undefined) throw new Error([wrong, ...gateway.faults.map(({ cause }) => cause)].join('\n  '));
        kinds.add(`${request.operation} ${text === '[]' ? 'nothing' : status}`);
      }
    });
    await fc.assert(property, { ...RUN, numRuns: WORLDS });
    if (isLong) expect([...kinds]).toEqual(expect.arrayContaining(KINDS_OF_ANSWERS));
  });
});
