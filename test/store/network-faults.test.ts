import { setTimeout as delay } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { openPostgres } from '../../src/store/postgres/store.ts';
import type { Call, Result } from '../../src/store/store.ts';
import { type LimitedStore, limited } from '../../src/store/turns.ts';
import { createCall } from '../helpers/calls.ts';
import {
  HARMS,
  type MessageFault,
  type MessageProxy,
  type Place,
  startMessageProxy,
} from '../helpers/message-proxy.ts';
import { createDatabase, type Database, loginUrl } from '../helpers/servers.ts';
import { waitFor } from '../helpers/wait-for.ts';

// Every message between the gateway and Postgres is lost, late, cut off, split and garbled. Whatever happens, no call gets another
// one's answer, none is done twice, all end in time, and the store serves again when the fault is over.

const DEADLINE_MS = 1_000;
/**
 * How much longer than its deadline a call may take, and how soon after a fault calls succeed and all is at rest: a second, and
 * another one for a busy machine.
 */
const HEADROOM_MS = 2_000;
/** The deadline of calls when all is well again, on a busy machine too. A call that nothing ends is found by it. */
const LONG_MS = 5_000;
/** How long closing may take. */
const CLOSE_MS = 2_000;
/** The short campaign takes every nth case. Cases run side by side: most of the time they wait. */
const [EVERY, AT_ONCE] = inject('isLong') ? [1, 12] : [83, 6];
/** How long the whole campaign may take. */
const CAMPAIGN_MS = 900_000;

const KEYS = ['wms_demo_aurora', 'wms_demo_bosque'] as const;
const SQL = `
create function public.dormir(p_api_key text, p_segundos float8) returns table (acordado boolean)
language sql stable security definer set search_path = pg_catalog, pg_temp
as $$ select true from pg_sleep(p_segundos) $$;
select private.publish('public.dormir');
`;

let database: Database;
/** What each read is answered with. */
const answers = new Map<string, string>();
let places: readonly Place[];
let count = 0;

beforeAll(async () => {
  database = await createDatabase();
  await database.query(SQL);
  // A busy machine may not say goodbye in time.
  await waitFor(async () => {
    places = await findPlaces();
    expect(places.some((place) => place.startsWith('end'))).toBe(true);
  });
});

/** The messages of a store's life, and of its cancellations. */
async function findPlaces(): Promise<Place[]> {
  const proxy = await openProxy();
  const store = openStore(proxy, 1);
  for (const read of READS) answers.set(JSON.stringify(read), (await send(store, read)).json);
  await send(store, toCreate());
  await Promise.all([abandon(store), abandon(store)]);
  await store.close();
  await proxy.close();
  return [...proxy.places].toSorted();
}

afterAll(() => database.drop());

function openProxy(): Promise<MessageProxy> {
  const { hostname, port } = new URL(database.adminUrl);
  return startMessageProxy({ host: hostname, port: Number(port) });
}

function openStore({ port }: MessageProxy, connections: number): LimitedStore {
  const url = new URL(loginUrl(database.adminUrl, 'gateway_test'));
  url.port = `${port}`;
  url.searchParams.set('sslmode', 'no-verify');
  const store = openPostgres({ url: url.href, connections, prepare: true, deadlineMs: LONG_MS });
  return limited(store, { slots: connections, slotsOfShare: Math.ceil(connections / 2), waiting: 200 });
}

const READS: readonly Call[] = KEYS.flatMap((p_api_key) =>
  ['listar_academias', 'listar_personais', 'listar_secoes'].map((name) => ({
    function: name,
    args: { p_api_key, p_limit: 3 },
    returns: 'rows',
    readOnly: true,
  })),
);

function toCreate(): Call {
  count += 1;
  return createCall({ p_api_key: KEYS[count % 2] as string, p_nome: `Aluno ${count}` });
}

/** Sends a call that has to succeed. */
async function send(store: LimitedStore, call: Call): Promise<{ json: string }> {
  const result = await store.call(call, AbortSignal.timeout(20_000));
  if ('json' in result) return result;
  throw new Error('it failed', { cause: result.failure });
}

/** Sends a slow read and gives it up, so that it is cancelled. */
async function abandon(store: LimitedStore): Promise<void> {
  const args = { p_api_key: KEYS[0], p_segundos: 60 };
  await store.call({ function: 'dormir', args, returns: 'rows', readOnly: true }, AbortSignal.timeout(100));
}

/** What is wrong with the result of a call. */
function findMistake(call: Call, result: Result): string | undefined {
  if (!('json' in result)) return 'cause' in result.failure ? undefined : `refused: ${JSON.stringify(result.failure)}`;
  const expected = call.readOnly ? answers.get(JSON.stringify(call)) : `"${call.args.p_nome}"`;
  const isRight = call.readOnly ? result.json === expected : result.json.includes(expected ?? '');
  return isRight ? undefined : `another answer: ${result.json}`;
}

type Case = MessageFault & { readonly connections: number; readonly isBusy: boolean };

function toCases(): Case[] {
  const faults = places.flatMap((place) =>
    (place === 'connect' ? (['cut'] as const) : HARMS).flatMap((harm) =>
      [true, false].map((once) => ({ place, harm, once })),
    ),
  );
  return faults.flatMap((fault) =>
    [1, 4, 10].flatMap((connections) => [true, false].map((isBusy) => ({ ...fault, connections, isBusy }))),
  );
}

/** Plays a case, and gives what went wrong. */
async function play({ connections, isBusy, ...fault }: Case): Promise<string[]> {
  const mistakes: string[] = [];
  const proxy = await openProxy();
  const store = openStore(proxy, connections);
  const acknowledged: string[] = [];
  const created: string[] = [];
  const ask = async (call: Call, timeoutMs: number) => {
    if (!call.readOnly) created.push(String(call.args.p_nome));
    const begin = performance.now();
    const origin = { requestId: `r${count}`, share: String(call.args.p_api_key) };
    const result = await store.call(call, AbortSignal.timeout(timeoutMs), origin);
    const ms = performance.now() - begin;
    if (ms > timeoutMs + HEADROOM_MS) mistakes.push(`a call took ${Math.round(ms)} ms`);
    const mistake = findMistake(call, result);
    if (mistake) mistakes.push(mistake);
    if ('json' in result && !call.readOnly) acknowledged.push(String(call.args.p_nome));
    return 'json' in result ? [] : [result.failure.kind];
  };
  const batch = async (timeoutMs = DEADLINE_MS) =>
    (await Promise.all([...READS, toCreate()].map((call) => ask(call, timeoutMs)))).flat();

  // Half of the cases begin with open connections: the login has its own faults.
  if (fault.place.startsWith('serve') || fault.place.startsWith('cancel')) await batch(LONG_MS);
  proxy.fail(fault);
  // Connections end at the end.
  const isDue = () => proxy.hasHappened() || fault.place.startsWith('end');
  const begin = performance.now();
  for (let round = 0; round < 5 && (round === 0 || !isDue()); round += 1) {
    await Promise.all(Array.from({ length: isBusy ? 4 : 1 }, () => Promise.all([abandon(store), batch()])));
  }
  if (fault.harm === 'delay' || fault.harm === 'swallow')
    await delay(Math.max(0, DEADLINE_MS + 100 - (performance.now() - begin)));
  if (!isDue()) mistakes.push('the fault did not happen');
  proxy.heal();

  const healed = performance.now();
  let failures = await batch(LONG_MS);
  while (failures.length > 0 && performance.now() - healed < HEADROOM_MS) failures = await batch(LONG_MS);
  failures.push(...(await batch(LONG_MS)));
  if (failures.length > 0) mistakes.push(`it does not serve again: ${failures}`);
  const readLoad = () => ({ ...store.load(), ...store.connections() });
  const isAtRest = ({ running, waiting, open, idle } = readLoad()) => running + waiting === 0 && open === idle;
  const resting = performance.now();
  while (!isAtRest() && performance.now() - resting < HEADROOM_MS) await delay(10);
  if (!isAtRest()) mistakes.push(`it does not come to rest: ${JSON.stringify(readLoad())}`);
  // What is wrong at the end comes at the end.
  if (fault.place.startsWith('end')) proxy.fail(fault);
  const ending = performance.now();
  await store.close();
  if (performance.now() - ending > CLOSE_MS) mistakes.push(`closing took ${Math.round(performance.now() - ending)} ms`);
  if (store.connections().open > 0) mistakes.push('a connection is open after the end');
  await proxy.close();
  const counts = await countStudents(created);
  for (const name of created) {
    const number = counts.get(name) ?? 0;
    if (number > 1 || (number === 0 && acknowledged.includes(name))) mistakes.push(`${name} is there ${number} times`);
  }
  return mistakes.map((mistake) => `${JSON.stringify({ ...fault, connections, isBusy })}: ${mistake}`);
}

async function countStudents(names: readonly string[]): Promise<ReadonlyMap<string, number>> {
  const sql = 'select nome, count(*)::integer as n from private.alunos where nome = any ($1) group by nome';
  const rows = await database.query(sql, [names]);
  return new Map(rows.map(({ nome, n }) => [nome, n]));
}

test('the proxy sees every phase of a connection', () => {
  const phases = new Set(places.map((place) => place.split(' ')[0]));
  expect([...phases]).toEqual(['cancel', 'connect', 'end', 'login', 'serve', 'setup', 'tls']);
});

test(
  'whatever happens to a message, calls end in time with their own answer, and are served again',
  async () => {
    const cases = toCases().filter((_, index) => index % EVERY === 0);
    const mistakes: string[] = [];
    const playUntil = (rest: number) =>
      Promise.all(
        Array.from({ length: AT_ONCE }, async () => {
          while (cases.length > rest) mistakes.push(...(await play(cases.pop() as Case)));
        }),
      );
    const before = countSockets();
    await playUntil(cases.length / 2);
    const heap = measureHeap();
    await playUntil(0);
    expect(mistakes).toEqual([]);
    expect(countSockets()).toBeLessThanOrEqual(before);
    expect(measureHeap() - heap).toBeLessThan(10_000_000);
  },
  CAMPAIGN_MS,
);

function countSockets(): number {
  return process.getActiveResourcesInfo().filter((name) => name === 'TCPSocketWrap').length;
}

/** The bytes of the objects that are still in use. */
function measureHeap(): number {
  setFlagsFromString('--expose-gc');
  runInNewContext('gc')();
  return process.memoryUsage().heapUsed;
}
