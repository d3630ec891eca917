import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { openPostgres } from '../../src/store/postgres/store.ts';
import { copyCitusDatabase } from '../helpers/citus.ts';
import { as, type Db, openDatabase, rows } from '../helpers/database.ts';
import { isOnCitus, startGateway, type TestGateway } from '../helpers/gateway.ts';
import { createDatabase, databaseUrl, loginUrl } from '../helpers/servers.ts';
import { LISTS, scenario } from './arbitraries.ts';
import { Model } from './model.ts';
import {
  ALL_WALLS,
  findReaders,
  findTables,
  functionsOf,
  ONE_WALL,
  removePredicates,
  removeRowSecurity,
} from './removal.ts';
import { type Request, send } from './request.ts';
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

/** The functions whose predicates go: without those of a creation Citus cannot plan its queries, and gives an error. */
const REMOVABLE = isDistributed ? /^(listar|search)_/ : /./;

console.info(`The worlds of the walls come from WALLS_SEED=${SEED}`);

describe.each(isLong ? ALL_WALLS : ONE_WALL)('with $walls', ({ walls, remove }) => {
  let db: Db;
  let gateway: TestGateway;
  let before: Awaited<ReturnType<typeof functionsOf>>;
  /** What the removal had to find, and what it has found. */
  let expected: readonly string[] = [];
  let wasRemoved: readonly string[];
  let asked = 0;

  const ask = (request: Request) => {
    asked += 1;
    return send(gateway.url, request);
  };
  const load = async (world: World) => {
    await emptyWorld(db);
    await loadWorld(db, world);
  };

  beforeAll(async () => {
    const nodes = inject('nodes');
    const database = await (isDistributed ? copyCitusDatabase(nodes) : createDatabase());
    db = await openDatabase(database);
    before = await functionsOf(db);
    if (remove === removeRowSecurity) expected = await findTables(db);
    if (remove === removePredicates) expected = (await findReaders(db)).filter((name) => REMOVABLE.test(name));
    wasRemoved = await remove(db, REMOVABLE);
    // On Citus that of another node than the coordinator.
    const adminUrl = isDistributed ? databaseUrl(nodes[1] ?? '', database.name) : database.adminUrl;
    const url = loginUrl(adminUrl, 'gateway_test');
    gateway = await startGateway({ store: openPostgres({ url, connections: 4, deadlineMs: 5_000 }) });
  });

  afterAll(async () => {
    console.info(`${asked} requests with ${walls}`);
    await gateway.close();
    await gateway.store.close();
    await db.close();
  });

  test('only this wall is in place', async () => {
    const missing = expected.filter((item) => !wasRemoved.includes(item));
    expect(missing, 'each of them needs "tenant_id = v_tenant" in its queries').toEqual([]);
    const changed = (await functionsOf(db)).filter(({ definition }, n) => definition !== before[n]?.definition);
    expect(changed.map(({ name }) => name)).toEqual([...new Set(wasRemoved.filter((name) => !name.includes('.')))]);
    const condition = remove === removePredicates ? /tenant_id (=|<>) [pv]_tenant/ : /current_tenant/;
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
