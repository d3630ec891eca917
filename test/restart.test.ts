import { afterAll, beforeAll, expect, test } from 'vitest';
import { openPostgres } from '../src/store/postgres/store.ts';
import { limited } from '../src/store/turns.ts';
import { startGateway } from './helpers/gateway.ts';
import { GatewayProcess } from './helpers/process.ts';
import {
  createDatabase,
  type Database,
  findPort,
  loginUrl,
  POSTGREST_KEY,
  type PostgresServer,
  startPostgres,
  startPostgrest,
} from './helpers/servers.ts';
import { waitFor } from './helpers/wait-for.ts';

const headers = { 'X-Api-Key': 'wms_demo_aurora' };
let server: PostgresServer;
let database: Database;

const FAULT = '"fault":{"kind":"storeUnavailable"';
const onSupabase = (port: number) => ({
  SUPABASE_URL: `http://127.0.0.1:${port}`,
  SUPABASE_KEY: POSTGREST_KEY,
  SUPABASE_REST_PATH: '/',
});

/** Students that are created while Postgres crashes. */
const CREATES = 3_000;

beforeAll(async () => {
  server = await startPostgres();
  database = await createDatabase(server.adminUrl);
});

afterAll(async () => {
  await database.drop();
  await server.stop();
});

test('reports an unreachable store at the start, answers 502 until it is up, and then serves', async () => {
  const [port, storePort] = [await findPort(), await findPort()];
  const gateway = new GatewayProcess({ PORT: `${port}`, ...onSupabase(storePort) });
  const get = async () => {
    const answer = await fetch(`http://127.0.0.1:${port}/v1/academias?limit=1`, { headers });
    return [answer.status, await answer.json()];
  };

  const output = await gateway.printed(FAULT);
  expect(output).toContain(`Store: Supabase at http://127.0.0.1:${storePort}"`);
  expect(output).toContain('ECONNREFUSED');
  expect(await get()).toEqual([502, { error: 'Data store unavailable' }]);

  const postgrest = await startPostgrest(database, storePort);
  await waitFor(async () => expect(await get()).toMatchObject([200, [{ nome: 'Aurora Centro' }]]));
  await gateway.printed('The store answers');
  expect(gateway.output()).not.toContain(POSTGREST_KEY);

  expect(await gateway.stop()).toBe(0);
  await postgrest.stop();
});

test('stops at drift that it finds after the start', async () => {
  const drifted = await createDatabase(server.adminUrl);
  await drifted.query('alter function public.listar_secoes(text, integer, integer, uuid) rename to listar_outras');
  const storePort = await findPort();
  const gateway = new GatewayProcess(onSupabase(storePort));
  await gateway.printed(FAULT);
  const postgrest = await startPostgrest(drifted, storePort);
  expect(await gateway.ended).toBe(1);
  expect(gateway.errors()).toMatch(
    /^openapi\.yaml:\d+: listarSecoes → listar_secoes: in the document x-rpc names the function; in the database there is none of that name in schema public\n$/,
  );
  await postgrest.stop();
  await drifted.drop();
});

test('a crash of Postgres during creates loses none that was acknowledged and makes none twice, sent again or not', async () => {
  if (!server.crash) return expect(process.env.TEST_DATABASE_URL).toBeDefined();
  const url = loginUrl(database.adminUrl, 'gateway_test');
  const opened = openPostgres({ url, connections: 8, prepare: true, deadlineMs: 5_000 });
  const store = limited(opened, { slots: 8, waiting: 1_000 });
  const gateway = await startGateway({ store });
  const names = Array.from({ length: CREATES }, (_, n) => `Queda ${n}`);
  const statuses = new Map<string, number>();
  const create = async (name: string, idempotent: boolean) => {
    const answer = await fetch(`${gateway.url}/alunos`, {
      method: 'POST',
      headers: { ...headers, ...(idempotent ? { 'Idempotency-Key': name.replace(' ', '-') } : {}) },
      body: JSON.stringify({ p_nome: name, p_email: 'queda@aurora.example' }),
    });
    await answer.arrayBuffer();
    statuses.set(name, answer.status);
  };
  /** Every other one may be sent again. */
  const mayRepeat = (name: string) => names.indexOf(name) % 2 === 0;
  const sendAll = async (all: readonly string[]) => {
    const pending = [...all];
    const clients = Array.from({ length: 16 }, async () => {
      for (let name = pending.pop(); name; name = pending.pop()) await create(name, mayRepeat(name));
    });
    await Promise.all(clients);
  };
  const readRows = async () => {
    const rows = await database.query(`select nome from private.alunos where nome like 'Queda %'`);
    return rows.map(({ nome }) => nome as string);
  };

  const sent = sendAll(names);
  await waitFor(() => expect(statuses.size).toBeGreaterThan(0.3 * CREATES));
  const crashed = performance.now();
  await server.crash();
  const restarted = performance.now();
  await waitFor(async () => expect((await fetch(`${gateway.url}/academias`, { headers })).status).toBe(200));
  const recovered = performance.now();
  await sent;

  const found = await readRows();
  const acknowledged = names.filter((name) => statuses.get(name) === 201);
  expect(new Set(statuses.values())).toEqual(new Set([201, 502]));
  expect(acknowledged.length).toBeGreaterThan(0.3 * CREATES);
  const rows = new Set(found);
  expect(acknowledged.filter((name) => !rows.has(name))).toEqual([]);
  expect(found).toHaveLength(rows.size);

  const repeatable = names.filter(mayRepeat);
  await sendAll(repeatable);
  expect(new Set(repeatable.map((name) => statuses.get(name)))).toEqual(new Set([201]));
  expect((await readRows()).toSorted()).toEqual([...new Set([...found, ...repeatable])].toSorted());
  console.log(
    `acknowledged ${acknowledged.length}, refused ${names.length - acknowledged.length}, rows ${found.length}; ` +
      `Postgres was back after ${Math.round(restarted - crashed)} ms, the gateway ${Math.round(recovered - restarted)} ms later; ` +
      `${repeatable.length} sent again`,
  );
  await gateway.close();
  await store.close();
}, 120_000);
