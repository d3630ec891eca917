// Random worlds of tenants on a cluster, asked on a worker: every answer has what the model says, with either wall removed too.

import fc from 'fast-check';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { openPostgres } from '../../src/store/postgres/store.ts';
import { copyCitusDatabase } from '../helpers/citus.ts';
import type { Sql } from '../helpers/database.ts';
import { startGateway, type TestGateway } from '../helpers/gateway.ts';
import { type Database, databaseUrl, loginUrl } from '../helpers/servers.ts';
import { scenario } from '../isolation/arbitraries.ts';
import { Model } from '../isolation/model.ts';
import { removePredicates, removeRowSecurity } from '../isolation/removal.ts';
import { send } from '../isolation/request.ts';
import { emptyWorld, loadWorld } from '../isolation/world.ts';

/** WALLS_SEED makes the worlds of an earlier run again, and WALLS_WORLDS more of them. */
const SEED = Number(process.env.WALLS_SEED ?? Date.now() % 2 ** 31);
const WORLDS = Number(process.env.WALLS_WORLDS ?? 5);

describe.each<[string, (db: Sql) => Promise<string[]>, number]>([
  ['both walls', async () => [], 0],
  ['the functions alone', removeRowSecurity, 13],
  // Without the predicates of a creation Citus cannot plan its queries, and gives an error.
  ['row security alone', (db) => removePredicates(db, /^(listar|search)_/), 28],
])('with %s', (_, remove, removals) => {
  let database: Database;
  let client: pg.Client;
  let db: Sql;
  let gateway: TestGateway;

  beforeAll(async () => {
    const nodes = inject('nodes');
    database = await copyCitusDatabase(nodes);
    client = new pg.Client(database.adminUrl);
    await client.connect();
    db = { query: <T>(sql: string, values?: unknown[]) => client.query<T & pg.QueryResultRow>(sql, values) };
    expect(await remove(db)).toHaveLength(removals);
    const url = loginUrl(databaseUrl(nodes[1] ?? '', database.name), 'gateway_test');
    gateway = await startGateway({ store: openPostgres({ url, connections: 4, prepare: true, deadlineMs: 5_000 }) });
  });

  afterAll(async () => {
    await gateway.close();
    await gateway.store.close();
    await client.end();
    await database.drop();
  });

  test("every answer has only data of the key's tenant", async () => {
    const property = fc.asyncProperty(scenario, async ({ world, requests }) => {
      await emptyWorld(db);
      await loadWorld(db, world);
      const model = new Model(world);
      for (const request of requests) {
        const { status, text } = await send(gateway.url, request);
        const wrong = model.judge(request, { status, body: JSON.parse(text) });
        if (wrong !== undefined) throw new Error([wrong, ...gateway.faults.map(({ cause }) => cause)].join('\n  '));
      }
    });
    await fc.assert(property, { seed: SEED, numRuns: WORLDS, interruptAfterTimeLimit: 90_000 });
  });
});
