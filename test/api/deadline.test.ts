import { cpSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { OpenAPIV3 } from 'openapi-types';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { parse } from 'yaml';
import { ClientGone } from '../../src/api/call.ts';
import { openEmbedded } from '../../src/store/embedded/store.ts';
import type { Store } from '../../src/store/store.ts';
import { document } from '../helpers/api.ts';
import { copyDataDir, MIGRATIONS, startGateway, type TestGateway } from '../helpers/gateway.ts';
import { waitFor } from '../helpers/wait-for.ts';

const DEADLINE_MS = 400;

const PATHS = `
/dormir:
  get:
    operationId: dormir
    x-rpc: dormir
    parameters:
      - { name: segundos, in: query, required: true, schema: { type: number } }
    responses:
      '200': { description: Awake, content: { application/json: { schema: { type: array, items: { type: object } } } } }
`;

const SQL = `
create function public.dormir(p_api_key text, p_segundos float8) returns table (acordado boolean)
language sql volatile security definer set search_path = pg_catalog, pg_temp
as $$ select true from pg_sleep(p_segundos) $$;
select private.publish('public.dormir');
`;

const root = mkdtempSync(join(tmpdir(), 'deadline-'));
const headers = { 'X-Api-Key': 'wms_demo_aurora' };
let store: Store;
let gateway: TestGateway;

beforeAll(async () => {
  const migrationsDir = join(root, 'migrations');
  cpSync(MIGRATIONS, migrationsDir, { recursive: true });
  writeFileSync(join(migrationsDir, '20991231000000_dormir.sql'), SQL);
  store = await openEmbedded({ dataDir: copyDataDir(inject('dataDir')), migrationsDir, statementLimitMs: DEADLINE_MS });
  const paths = { ...document.paths, ...(parse(PATHS) as OpenAPIV3.PathsObject) };
  gateway = await startGateway({ store, document: { ...document, paths }, deadlineMs: DEADLINE_MS });
});

afterAll(async () => {
  await gateway.close();
  await store.close();
  rmSync(root, { recursive: true });
});

const get = async (path: string) => {
  const answer = await fetch(gateway.url + path, { headers });
  return [answer.status, await answer.json()];
};

/** The store starts its thread anew, which takes its time. */
const servesAgain = () =>
  waitFor(async () => expect(await get('/academias?limit=1')).toMatchObject([200, [{ ativo: true }]]));

test('a call that runs too long is a 502, its cause is in the log, and the gateway serves on', async () => {
  expect(await get('/dormir?segundos=0')).toEqual([200, [{ acordado: true }]]);
  expect(await get('/dormir?segundos=60')).toEqual([502, { error: 'Data store timeout' }]);
  expect(gateway.faults).toEqual([{ kind: 'storeTimeout', cause: expect.any(Error) }]);
  expect(String(gateway.faults[0]?.cause)).toMatch(/no answer within 400 ms|ended after 400 ms/);
  await servesAgain();
});

test('calls that wait behind it are answered within their own deadlines', async () => {
  const paths = ['/dormir?segundos=60', ...Array<string>(5).fill('/academias')];
  const started = performance.now();
  const answers = await Promise.all(paths.map(get));
  // Without a deadline of their own they would wait for a minute; the thread starts anew in about a second.
  expect(performance.now() - started).toBeLessThan(DEADLINE_MS + 20_000);
  expect(answers).toEqual(Array(6).fill([502, { error: 'Data store timeout' }]));
  await servesAgain();
});

test('a client that goes away ends the wait for its call, and is no fault', async () => {
  const signals: AbortSignal[] = [];
  const spy: Store = {
    ...store,
    call: (_call, signal) => {
      signals.push(signal);
      return new Promise(() => {});
    },
  };
  const other = await startGateway({ store: spy, deadlineMs: 60_000 });
  const controller = new AbortController();
  const answer = fetch(`${other.url}/academias`, { headers, signal: controller.signal });
  await waitFor(() => expect(signals).toHaveLength(1));
  expect(signals[0]?.aborted).toBe(false);
  controller.abort();
  await expect(answer).rejects.toThrow();
  await waitFor(() => expect(signals[0]?.reason).toEqual(new ClientGone('the client has disconnected')));
  expect(other.faults).toEqual([]);
  await other.close();
});
