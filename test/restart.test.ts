import { expect, test } from 'vitest';
import { GatewayProcess } from './helpers/process.ts';
import { createDatabase, findPort, POSTGREST_KEY, startPostgrest } from './helpers/servers.ts';
import { waitFor } from './helpers/wait-for.ts';

const headers = { 'X-Api-Key': 'wms_demo_aurora' };
const FAULT = '"fault":{"kind":"storeUnavailable"';
const onSupabase = (port: number) => ({
  SUPABASE_URL: `http://127.0.0.1:${port}`,
  SUPABASE_KEY: POSTGREST_KEY,
  SUPABASE_REST_PATH: '/',
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

  const database = await createDatabase();
  const postgrest = await startPostgrest(database, storePort);
  await waitFor(async () => expect(await get()).toMatchObject([200, [{ nome: 'Aurora Centro' }]]));
  await gateway.printed('The store answers');
  expect(gateway.output()).not.toContain(POSTGREST_KEY);

  expect(await gateway.stop()).toBe(0);
  await postgrest.stop();
  await database.drop();
});

test('stops at drift that it finds after the start', async () => {
  const drifted = await createDatabase();
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
