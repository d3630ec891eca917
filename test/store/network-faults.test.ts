import { setTimeout as delay } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import fc from 'fast-check';
import { beforeAll, expect, inject, test } from 'vitest';
import { openPostgres } from '../../src/store/postgres/store.ts';
import type { Call, Result } from '../../src/store/store.ts';
import { type LimitedStore, limited } from '../../src/store/turns.ts';
import { createCall, listCall } from '../helpers/calls.ts';
import { useOpened } from '../helpers/database.ts';
import { type FaultProxy, type ProxyFault, startFaultProxy, toAddress } from '../helpers/fault-proxy.ts';
import { asAdmin, enableTls, fillDatabase, loginUrl, runSql, startEmbeddedPostgres } from '../helpers/servers.ts';
import { waitFor } from '../helpers/wait-for.ts';

// After any byte between the gateway and Postgres the next ones are late, cut off, split or garbled, on one connection or on all of
// them. Whatever happens, no call gets another one's answer, none is done twice, all end in time, and the store serves again when
// the fault is over.

const DEADLINE_MS = 1_000;
/** How long closing may take. */
const CLOSE_MS = 2_000;
/** Cases run side by side, since they mostly wait; fewer of them beside the other tests. */
const [CASES, AT_ONCE] = inject('isLong') ? [1_500, 12] : [24, 3];
/**
 * HEADROOM_MS: how much longer than its deadline a call may take, and how soon after a fault calls succeed and all is at rest: a second,
 * and more for a busy machine. LONG_MS: the deadline of calls when all is well again, on a busy machine too. It is far longer, so that
 * it reveals a call that nothing ends.
 */
const [HEADROOM_MS, LONG_MS] = inject('isLong') ? [2_000, 5_000] : [5_000, 10_000];
/** NETWORK_SEED repeats the cases of an earlier run. */
const SEED = Number(process.env.NETWORK_SEED ?? Date.now() % 2 ** 31);
/** More bytes than a connection sends and receives for its first few calls. */
const MOST_BYTES = 6_000;
const CAMPAIGN_MS = 900_000;

const KEYS = ['wms_demo_aurora', 'wms_demo_bosque'] as const;
const SQL = `
create function public.dormir(p_api_key text, p_segundos float8) returns table (acordado boolean)
language sql stable security definer set search_path = pg_catalog, pg_temp
as $$ select true from pg_sleep(p_segundos) $$;
select private.publish('public.dormir');
`;

const server = useOpened(startEmbeddedPostgres, ({ stop }) => stop());
/** The answer to each read. */
const answers = new Map<string, string>();
let count = 0;

console.info(`The faults of the network come from NETWORK_SEED=${SEED}`);

beforeAll(async () => {
  await asAdmin(server.adminUrl, async (admin) => {
    await fillDatabase(admin);
    await admin.query(SQL);
    await enableTls(admin);
  });
  const proxy = await openProxy();
  const store = openStore(proxy, { connections: 1, isSecure: true });
  for (const read of READS) answers.set(JSON.stringify(read), (await send(store, read)).json);
  await store.close();
  await proxy.close();
});

const openProxy = () => startFaultProxy(toAddress(server.adminUrl));

function openStore({ port }: FaultProxy, { connections, isSecure }: Pick<Case, 'connections' | 'isSecure'>) {
  const url = new URL(loginUrl(server.adminUrl, 'gateway_test'));
  url.port = `${port}`;
  if (isSecure) url.searchParams.set('sslmode', 'no-verify');
  const store = openPostgres({ url: url.href, connections, deadlineMs: LONG_MS });
  return limited(store, { slots: connections, slotsOfShare: Math.ceil(connections / 2), waiting: 200 });
}

const READS: readonly Call[] = KEYS.flatMap((p_api_key) =>
  ['listar_academias', 'listar_personais', 'listar_secoes'].map((name) => {
    return { ...listCall({ p_api_key, p_limit: 3 }), function: name };
  }),
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

/** The mistake in the result of a call; undefined if there is none. */
function findMistake(call: Call, result: Result, { fault, isSecure }: Case): string | undefined {
  if (!('json' in result)) {
    // Without TLS nothing detects a garbled byte, which can make a value that Postgres cannot read.
    const isGarbled = fault.on === 'request' && fault.does === 'garble' && !isSecure;
    if ('cause' in result.failure || (isGarbled && result.failure.kind === 'invalidInput')) return undefined;
    return `refused: ${JSON.stringify(result.failure)}`;
  }
  const expected = call.readOnly ? answers.get(JSON.stringify(call)) : `"${call.args.p_nome}"`;
  const isRight = call.readOnly ? result.json === expected : result.json.includes(expected ?? '');
  return isRight ? undefined : `another answer: ${result.json}`;
}

type Case = {
  readonly fault: ProxyFault;
  readonly connections: number;
  readonly isSecure: boolean;
  readonly isBusy: boolean;
  /** Whether connections are open when the fault begins. */
  readonly isWarm: boolean;
};

const AFTER = fc.oneof(fc.nat(40), fc.nat(MOST_BYTES));
const toFault = (on: string, kinds: readonly string[]) =>
  fc.record({ on: fc.constant(on), does: fc.constantFrom(...kinds), after: AFTER, once: fc.boolean() });
const FAULT = fc.oneof(
  { weight: 1, arbitrary: toFault('connect', ['reset']) },
  { weight: 4, arbitrary: toFault('request', ['reset', 'stall', 'split', 'garble']) },
  { weight: 4, arbitrary: toFault('response', ['reset', 'stall', 'split', 'garble']) },
) as fc.Arbitrary<ProxyFault>;
const CASE: fc.Arbitrary<Case> = fc.record({
  fault: FAULT,
  connections: fc.constantFrom(1, 4, 10),
  isSecure: fc.boolean(),
  isBusy: fc.boolean(),
  isWarm: fc.boolean(),
});

/** The number of faults that have happened. Some would come after everything that is sent. */
let happened = 0;

/** Plays a case, and gives what went wrong. */
async function play(case_: Case): Promise<string[]> {
  const { fault, isBusy, isWarm } = case_;
  const mistakes: string[] = [];
  const proxy = await openProxy();
  const store = openStore(proxy, case_);
  const acknowledged: string[] = [];
  const created: string[] = [];
  const ask = async (call: Call, timeoutMs: number) => {
    if (!call.readOnly) created.push(String(call.args.p_nome));
    const begin = performance.now();
    const origin = { requestId: `r${count}`, share: String(call.args.p_api_key) };
    const result = await store.call(call, AbortSignal.timeout(timeoutMs), origin);
    const ms = performance.now() - begin;
    if (ms > timeoutMs + HEADROOM_MS) mistakes.push(`a call took ${Math.round(ms)} ms`);
    const mistake = findMistake(call, result, case_);
    if (mistake) mistakes.push(mistake);
    if ('json' in result && !call.readOnly) acknowledged.push(String(call.args.p_nome));
    return 'json' in result ? [] : [result.failure.kind];
  };
  const batch = async (timeoutMs = DEADLINE_MS) =>
    (await Promise.all([...READS, toCreate()].map((call) => ask(call, timeoutMs)))).flat();

  if (isWarm) await batch(LONG_MS);
  proxy.fail(fault);
  const begin = performance.now();
  for (let round = 0; round < 3 && (round === 0 || !proxy.hasHappened()); round += 1) {
    await Promise.all(Array.from({ length: isBusy ? 4 : 1 }, () => Promise.all([abandon(store), batch()])));
  }
  if (fault.does === 'stall') await delay(Math.max(0, DEADLINE_MS + 100 - (performance.now() - begin)));
  if (proxy.hasHappened()) happened += 1;
  await proxy.pass();

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
  // The goodbyes of connections meet the fault too.
  proxy.fail({ ...fault, after: 0 });
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
  return mistakes.map((mistake) => `${JSON.stringify(case_)}: ${mistake}`);
}

async function countStudents(names: readonly string[]): Promise<ReadonlyMap<string, number>> {
  const sql = 'select nome, count(*)::integer as n from private.alunos where nome = any ($1) group by nome';
  const rows = await runSql(server.adminUrl, sql, [names]);
  return new Map(rows.map(({ nome, n }) => [nome, n]));
}

test('whatever happens to the bytes, calls end in time with their own answer', { timeout: CAMPAIGN_MS }, async () => {
  const cases = fc.sample(CASE, { seed: SEED, numRuns: CASES });
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
  expect(happened).toBeGreaterThan(CASES / 2);
  await waitFor(() => expect(countSockets()).toBeLessThanOrEqual(before));
  expect(measureHeap() - heap).toBeLessThan(10_000_000);
});

function countSockets(): number {
  return process.getActiveResourcesInfo().filter((name) => name === 'TCPSocketWrap').length;
}

/** The bytes of the objects that are still in use. */
function measureHeap(): number {
  setFlagsFromString('--expose-gc');
  runInNewContext('gc')();
  return process.memoryUsage().heapUsed;
}
