// Nodes of Citus that fail, join and hand over shards while gateways on several nodes serve tenants of several nodes:
//
// | Event | Tenants of other nodes | Tenants of the node |
// |---|---|---|
// | worker killed | served | 502 at once, served again within 5 s after its start |
// | worker hung | served | 502 at the deadline, served again when it goes on |
// | coordinator killed | served | has none |
// | node added, tenant moved to it alone | served | reads served; a create may wait, or be a 502 |
// | shards rebalanced | served | reads served; a create may wait, or be a 502 |
//
// In each case no acknowledged student is lost, none is created twice when requests with an Idempotency-Key are sent again,
// and no answer has rows of another tenant. Usage cannot be recorded while any node is away, because all nodes have the keys: no
// request fails for it, and it is recorded afterwards.

import type pg from 'pg';
import { afterAll, afterEach, beforeAll, expect, inject, test } from 'vitest';
import { openPostgres } from '../../src/store/postgres/store.ts';
import { limited } from '../../src/store/turns.ts';
import { addCitusNode, type Citus, createCitusDatabase, startCitus } from '../helpers/citus.ts';
import { type Client, type ClientOptions, findMistakes, serves, underLoad } from '../helpers/clients.ts';
import type { BareDebianPostgres } from '../helpers/debian-postgres.ts';
import { startGateway, type TestGateway } from '../helpers/gateway.ts';
import { asAdmin, type Database, databaseUrl, loginUrl } from '../helpers/servers.ts';
import { waitFor } from '../helpers/wait-for.ts';

const DEADLINE_MS = 5_000;
/** The deadline, with headroom for a busy machine. */
const IN_TIME_MS = DEADLINE_MS * 1.1 + 2_000;
/** How soon a node that is back has to be used. */
const BACK_MS = 5_000;
/** What a client waits between two requests: a move of shards would take much longer beside clients that never wait. */
const PAUSE_MS = 20;
const TENANTS_PER_NODE = 2;

/** A tenant and what it has. */
type Tenant = { readonly id: string; readonly key: string; readonly name: string; readonly gyms: readonly string[] };

let citus: Citus;
let database: Database;
let coordinator: BareDebianPostgres;
let worker: BareDebianPostgres;
let other: BareDebianPostgres;
let spare: BareDebianPostgres;
/** Tenants of each worker. */
let tenants: Map<BareDebianPostgres, Tenant[]>;
let gateways: TestGateway[] = [];
/** The clients of all tests: what one has created is there afterwards too. */
const all: Client[] = [];

beforeAll(async () => {
  citus = await startCitus(4);
  [coordinator, worker, other, spare] = citus.nodes as [
    BareDebianPostgres,
    BareDebianPostgres,
    BareDebianPostgres,
    BareDebianPostgres,
  ];
  database = await createCitusDatabase([coordinator, worker, other].map(({ adminUrl }) => adminUrl));
  tenants = await createTenants();
});

afterEach(async () => {
  for (const gateway of gateways) {
    await gateway.close();
    await gateway.store.close();
  }
  gateways = [];
});

afterAll(() => citus.stop());

/** Creates tenants until each worker has enough. */
async function createTenants(): Promise<Map<BareDebianPostgres, Tenant[]>> {
  const found = new Map<BareDebianPostgres, Tenant[]>([
    [worker, []],
    [other, []],
  ]);
  for (let n = 1; [...found.values()].some(({ length }) => length < TENANTS_PER_NODE); n += 1) {
    const tenant = await createTenant(`Academia ${n}`);
    found.get(await ownerOf(tenant))?.push(tenant);
  }
  return new Map([...found].map(([node, all]) => [node, all.slice(0, TENANTS_PER_NODE)]));
}

async function createTenant(name: string): Promise<Tenant> {
  const [{ id }] = (await database.query('select private.create_tenant($1) as id', [name])) as [{ id: string }];
  const gyms = ['Centro', 'Norte', 'Sul'].map((place) => `${name} ${place}`);
  for (const gym of gyms)
    await database.query('insert into private.academias (tenant_id, nome) values ($1, $2)', [id, gym]);
  return { id, key: await issueKey(id), name, gyms };
}

async function issueKey(tenant: string): Promise<string> {
  return (await database.query('select key from private.issue_key($1, $2)', [tenant, 'Teste']))[0]?.key;
}

/** The server that has a tenant's rows. */
async function ownerOf({ id }: Tenant): Promise<BareDebianPostgres> {
  const [place] = await database.query(
    `select n.nodeport
       from pg_dist_placement p
       join pg_dist_node n using (groupid)
      where p.shardid = get_shard_id_for_distribution_column('private.alunos', $1::uuid)`,
    [id],
  );
  const owner = citus.nodes.find(({ adminUrl }) => new URL(adminUrl).port === String(place?.nodeport));
  if (!owner) throw new Error(`no server has the rows of ${id}`);
  return owner;
}

const tenantsOf = (node: BareDebianPostgres) => tenants.get(node) ?? [];
const allTenants = () => [...tenants.values()].flat();

/** Starts a gateway that is connected to a node. */
async function startOn(node: BareDebianPostgres): Promise<TestGateway> {
  const url = loginUrl(databaseUrl(node.adminUrl, database.name), 'gateway_test');
  const opened = openPostgres({ url, connections: 10, deadlineMs: DEADLINE_MS });
  const store = limited(opened, { slots: 10, waiting: 1_000, slotsOfShare: 5 });
  const gateway = await startGateway({ store, deadlineMs: DEADLINE_MS, hasWholeStore: true });
  gateways.push(gateway);
  return gateway;
}

const namesOf = (body: unknown) => (body as { nome: string }[]).map(({ nome }) => nome);

/** Sends requests of each tenant to each gateway while something happens. */
async function underTenants(
  on: readonly TestGateway[],
  work: (clients: readonly Client[]) => Promise<unknown>,
): Promise<Client[]> {
  const options = on.flatMap(({ url }) =>
    allTenants().map(({ key, name, gyms }): ClientOptions => {
      const lists = [
        { path: '/academias', isRight: (names: readonly string[]) => names.join() === gyms.join() },
        {
          path: '/alunos?limit=5&nome=aluno',
          isRight: (names: readonly string[]) => names.every((nome) => nome.startsWith(`${name},`)),
        },
      ];
      return { url, keys: [key], prefix: `${name}, aluno `, creates: 'repeated', pauseMs: PAUSE_MS, lists };
    }),
  );
  const clients = await underLoad(options, work);
  all.push(...clients);
  return clients;
}

const isOf = (node: BareDebianPostgres) => (client: Client) =>
  tenantsOf(node).some(({ key }) => client.options.keys.includes(key));
const failuresOf = (clients: readonly Client[]) =>
  clients.flatMap(({ options, failures }) => failures.map((answer) => ({ ...options, ...answer })));

/** The students of all tests are those that were acknowledged, each once and in its tenant, and no answer was wrong. */
async function expectNothingLost(on: readonly TestGateway[]): Promise<void> {
  expect(await findMistakes(all, on[0]?.url)).toEqual([]);
}

/** The server may need some time for what the old processes hold. */
const startAgain = (node: BareDebianPostgres) => waitFor(() => node.start());

test('a killed worker fails only its own tenants, and they are served again when it is back', async () => {
  const late = await Promise.all([1, 2].map(() => issueKey(tenantsOf(other)[0]?.id ?? '')));
  const readLateUses = () => {
    const sum = `select coalesce(sum(u.calls), 0)::integer as calls from private.usage u
                   join private.api_keys k on k.id = u.key_id where k.key_hash = sha256($1::text::bytea)`;
    return Promise.all(late.map(async (key) => (await database.query(sum, [key]))[0]?.calls));
  };
  const on = [await startOn(coordinator), await startOn(other)];
  let backAt = 0;
  const clients = await underTenants(on, async (clients) => {
    const [lost, kept] = [clients.filter(isOf(worker)), clients.filter(isOf(other))];
    await worker.kill();
    await waitFor(() => {
      for (const client of lost) expect(failuresOf([client]).length).toBeGreaterThan(20);
    });
    await serves(kept);

    // Keys that the gateways do not know yet.
    for (const [n, { url }] of gateways.entries()) {
      const answer = await fetch(`${url}/academias`, { headers: { 'X-Api-Key': late[n] ?? '' } });
      expect([answer.status, namesOf(await answer.json())]).toEqual([200, tenantsOf(other)[0]?.gyms]);
    }
    const away = 'Usage cannot be recorded, and is kept until it can: ';
    await waitFor(() => {
      for (const { told } of gateways) expect(told.filter((text) => text.startsWith(away))).toHaveLength(1);
    });

    await startAgain(worker);
    backAt = performance.now();
    await serves(clients);
  });
  const lost = clients.filter(isOf(worker));
  const lastFailedAt = Math.max(backAt, ...failuresOf(lost).map(({ at }) => at));

  expect(failuresOf(clients.filter(isOf(other)))).toEqual([]);
  for (const { status, body, ms } of failuresOf(lost)) {
    expect([status, body]).toEqual([502, { error: expect.stringMatching(/^Data store (unavailable|error)$/) }]);
    expect(ms).toBeLessThan(IN_TIME_MS);
  }
  expect(lastFailedAt - backAt).toBeLessThan(BACK_MS);
  await expectNothingLost(on);
  for (const { close } of gateways) await close();
  expect(await readLateUses()).toEqual([1, 1]);
});

test('a hung worker fails only its own tenants, at the deadline', async () => {
  const on = [await startOn(coordinator), await startOn(other)];
  const clients = await underTenants(on, async (clients) => {
    const [lost, kept] = [clients.filter(isOf(worker)), clients.filter(isOf(other))];
    const thaw = worker.freeze();
    try {
      await waitFor(() => {
        for (const client of lost) expect(failuresOf([client]).length).toBeGreaterThan(0);
      });
      await serves(kept);
    } finally {
      thaw();
    }
    await serves(clients);
  });
  expect(failuresOf(clients.filter(isOf(other)))).toEqual([]);
  for (const { status, body, ms } of failuresOf(clients)) {
    expect([status, body]).toEqual([502, { error: 'Data store timeout' }]);
    expect(ms).toBeLessThan(IN_TIME_MS);
  }
  await expectNothingLost(on);
});

test('a killed coordinator fails no request of gateways on workers', async () => {
  const on = [await startOn(worker), await startOn(other)];
  const clients = await underTenants(on, async (clients) => {
    await coordinator.kill();
    await serves(clients);
    await startAgain(coordinator);
    await serves(clients);
  });
  expect(failuresOf(clients)).toEqual([]);
  await expectNothingLost(on);
});

test.runIf(inject('isLong'))('a tenant moves to a new node of its own while it is used', async () => {
  const [tenant] = tenantsOf(worker);
  if (!tenant) throw new Error('there is no tenant');
  await database.query(
    `insert into private.alunos (tenant_id, nome, email)
       select $1::uuid, $2::text || ', antigo ' || n, 'aluno@academia.example' from generate_series(1, 10000) n`,
    [tenant.id, tenant.name],
  );
  const on = [await startOn(coordinator), await startOn(worker)];
  const clients = await underTenants(on, async (clients) => {
    await addCitusNode(database, spare.adminUrl);
    await isolate(tenant, spare);
    await serves(clients);
  });
  expectOnlyCreationsToFail(clients);
  await expectNothingLost(on);
  expect(await countShards()).toBe(1);

  // The new node serves as the others do.
  const served = await underTenants([await startOn(spare)], serves);
  expect(failuresOf(served)).toEqual([]);
  await expectNothingLost(on);
});

test('shards move to a new node while they are used', async () => {
  const on = [await startOn(coordinator), await startOn(other)];
  let before = 0;
  const clients = await underTenants(on, async (clients) => {
    if (!inject('isLong')) await addCitusNode(database, spare.adminUrl);
    before = await countShards();
    await change(`select rebalance_table_shards('private.alunos', shard_transfer_mode => 'force_logical')`);
    await serves(clients);
  });
  expectOnlyCreationsToFail(clients);
  await expectNothingLost(on);
  expect(await countShards()).toBeGreaterThan(before);
});

/** Changes the cluster. What Citus cannot end, it tries for ever; what it rolls back to resolve a deadlock can be repeated. */
async function change(text: string, values: readonly unknown[] = []) {
  return asAdmin(database.adminUrl, async (admin) => {
    await admin.query(`set statement_timeout = '80s'`);
    for (;;) {
      try {
        return (await admin.query(text, [...values])).rows;
      } catch (error) {
        if ((error as pg.DatabaseError).code !== '40P01') throw error;
      }
    }
  });
}

/** Gives a tenant shards of its own, and moves them to a node. */
async function isolate(tenant: Tenant, node: BareDebianPostgres): Promise<void> {
  // Without `block_writes` Citus 13.2 splits shards for ever when rows are updated meanwhile (its issue 6790).
  const [isolated] = await change(
    `select isolate_tenant_to_new_shard('private.alunos', $1::uuid, 'CASCADE', shard_transfer_mode => 'block_writes') as shard`,
    [tenant.id],
  );
  const places = [await ownerOf(tenant), node].map(({ adminUrl }) => new URL(adminUrl));
  await change(`select citus_move_shard_placement($1, $2, $3, $4, $5, 'force_logical')`, [
    isolated.shard,
    ...places.flatMap(({ hostname, port }) => [hostname, port]),
  ]);
}

/** How many parts of the students are on the node that was added. */
async function countShards(): Promise<number> {
  const [count] = await database.query(
    `select count(*)::int as n from citus_shards where table_name = 'private.alunos'::regclass and nodeport = $1`,
    [new URL(spare.adminUrl).port],
  );
  return count?.n;
}

/** A move makes creations wait at its end, perhaps until their deadline. */
function expectOnlyCreationsToFail(clients: readonly Client[]): void {
  for (const { action, status, body, ms } of failuresOf(clients)) {
    expect([action, status, body]).toEqual(['create', 502, { error: expect.stringMatching(/^Data store /) }]);
    expect(ms).toBeLessThan(IN_TIME_MS);
  }
}
