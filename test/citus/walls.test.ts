// Tests that each wall alone holds on a cluster, by a node that is not the coordinator.

import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { openPostgres } from '../../src/store/postgres/store.ts';
import type { Store } from '../../src/store/store.ts';
import { copyCitusDatabase } from '../helpers/citus.ts';
import { type Db, openDatabase } from '../helpers/database.ts';
import { databaseUrl, loginUrl } from '../helpers/servers.ts';
import { answerOf, reads } from '../isolation/operations.ts';
import { findTables, ONE_WALL } from '../isolation/removal.ts';
import { findIsolated, OWN_TENANT } from '../isolation/shadow.ts';

/** The functions whose predicates go: without those of a creation or of changes Citus cannot plan a query, and gives an error. */
const REMOVABLE = /^(listar_(?!alteracoes)|search_)/;

describe.each(ONE_WALL)('with $walls', ({ remove }) => {
  let db: Db;
  let store: Store;

  beforeAll(async () => {
    const nodes = inject('nodes');
    const database = await copyCitusDatabase(nodes);
    db = await openDatabase(database);
    await remove(db, REMOVABLE);
    const url = loginUrl(databaseUrl(nodes[1] ?? '', database.name), 'gateway_test');
    store = openPostgres({ url, connections: 1, deadlineMs: 20_000 });
  });

  afterAll(() => store.close().finally(db.close));

  test('every read has only data of its tenant', async () => {
    const ask = () => Array.fromAsync(reads, (one) => answerOf(store, one));
    const whole = await ask();
    expect(whole.filter(({ status }) => status !== 200)).toEqual([]);
    const isolated = (await findIsolated(db)).map(({ name }) => name);
    const tables = (await findTables(db)).filter((name) => isolated.includes(name));
    for (const name of tables) await db.query(`delete from ${name} where tenant_id <> ${OWN_TENANT}`);
    expect(await ask()).toEqual(whole);
  });
});
