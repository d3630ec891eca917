import { afterAll, beforeAll, expect, test } from 'vitest';
import { openPostgres } from '../src/store/postgres/store.ts';
import { limited } from '../src/store/turns.ts';
import { findMistakes, serves, underLoad } from './helpers/clients.ts';
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
  const { crash } = server;
  // Every other one does not send a creation again.
  const all = Array.from({ length: 16 }, (_, n) => {
    const creates = n % 2 === 0 ? ('repeated' as const) : ('once' as const);
    return { url: gateway.url, keys: [headers['X-Api-Key']], creates, pauseMs: 0 };
  });
  let [crashed, restarted] = [0, 0];
  const clients = await underLoad(all, async (clients) => {
    await serves(clients, 100);
    crashed = performance.now();
    await crash();
    restarted = performance.now();
    await serves(clients);
  });

  const failures = clients.flatMap((client) => client.failures);
  expect(new Set(failures.map(({ status }) => status))).toEqual(new Set([502]));
  for (const client of clients.filter((_, n) => n % 2 === 0)) {
    expect(await client.repeat()).toEqual(new Set([201]));
  }
  expect(await findMistakes(clients)).toEqual([]);
  const acknowledged = clients.reduce((sum, { created }) => sum + created.size, 0);
  console.log(
    `acknowledged ${acknowledged}, failed ${failures.length}; Postgres was back after ${Math.round(restarted - crashed)} ms, ` +
      `the last failure came ${Math.round(Math.max(...failures.map(({ at }) => at)) - restarted)} ms later`,
  );
  await gateway.close();
  await store.close();
});
