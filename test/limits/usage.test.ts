// Checks what is counted, when it is recorded, and that nothing counts twice, on every store, with a clock that the tests move.

import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { createRecord } from '../../src/http/context.ts';
import { createBuckets } from '../../src/limits/buckets.ts';
import { openUsage, type Usage } from '../../src/limits/usage.ts';
import type { Call, JsonText, Result, Store } from '../../src/store/store.ts';
import { KEYS } from '../helpers/api.ts';
import { openTestStore } from '../helpers/gateway.ts';
import { waitFor } from '../helpers/wait-for.ts';

/** Sets the limits of a key, as an administrator does. */
const SET_LIMITS = `
  create function public.set_limits(p_key text, p_limits jsonb) returns void language sql security definer
    set search_path = pg_catalog, pg_temp
    as $$ update private.api_keys set limits = p_limits where key_hash = sha256(convert_to(p_key, 'UTF8')) $$;
  grant execute on function public.set_limits(text, jsonb) to gateway;`;

const never = new AbortController().signal;
const away: Result = { failure: { kind: 'storeUnavailable', cause: new Error('it is away'), connectionLost: true } };

let store: Store;
/** What happens to the calls of record_usage. */
let onRecord: (make: () => Promise<Result>) => Promise<Result>;
let recorded: Call[];
/** The year of the test, which no other test has. */
let year = 2030;
/** At first just before the end of the month in America/Sao_Paulo, and after it in UTC. */
let clock: number;
let told: string[];

beforeAll(async () => {
  store = await openTestStore({ sql: SET_LIMITS });
});

beforeEach(async () => {
  await setLimits({});
  onRecord = (make) => make();
  recorded = [];
  year += 1;
  clock = Date.UTC(year, 11, 1, 2, 59, 59);
  told = [];
});

afterAll(() => store.close());

async function setLimits(limits: object): Promise<void> {
  const args = { p_key: KEYS.aurora, p_limits: { json: JSON.stringify(limits) } };
  await ask({ function: 'set_limits', args, returns: 'nothing', readOnly: false });
}

async function ask(call: Call): Promise<string> {
  const result = await store.call(call, never);
  if ('failure' in result) throw new Error(JSON.stringify(result.failure));
  return result.json;
}

/** How a call ended, with its header fields. */
type Ended = { readonly status: number; readonly limit?: string; readonly policy?: string; readonly wait?: number };
type Process = { readonly usage: Usage; call(operation?: string, key?: string, status?: number): Promise<Ended> };

/** Opens the usage of a process, and makes calls as the handler does. */
function start(recordEveryMs = 2 ** 31 - 1): Process {
  const tell = (text: string) => void told.push(text);
  const usage = openUsage({
    callStore: async (made, ms) => {
      recorded.push(made);
      return onRecord(() => store.call(made, AbortSignal.timeout(ms)));
    },
    function: 'record_usage',
    timeZone: 'America/Sao_Paulo',
    deadlineMs: 5_000,
    takeToken: createBuckets(),
    log: { info: tell, warn: tell },
    now: () => clock,
    recordEveryMs,
  });
  onTestFinished(() => usage.close());
  return {
    usage,
    call: async (operation = 'listarAcademias', key = KEYS.aurora, answered = 200) => {
      const admitted = await usage.admit(key);
      const wait = admitted?.retryAfter;
      if (wait === undefined && answered === 401) usage.forget(key);
      const learned = wait === undefined && answered !== 401 ? await usage.learn(key, answered === 200) : undefined;
      const admission = learned ?? admitted;
      const status = wait === undefined ? answered : 429;
      const isAdmitted = admission !== undefined && admission.retryAfter === undefined;
      const request = { ...createRecord('GET', '/', {}), operation: { id: operation }, key, isAdmitted };
      usage.request({ ...request, endpoint: operation, status, durationMs: 1, responseBytes: 1 });
      const { RateLimit: limit, 'RateLimit-Policy': policy } = admission?.headers ?? {};
      return { status, ...(limit && { limit }), ...(policy && { policy }), ...(wait && { wait }) };
    },
  };
}

/** The usage of a key on the days of the test, as its partner sees it. */
async function read(key = KEYS.aurora): Promise<string[]> {
  const args = { p_api_key: key, p_dia_gte: `${year}-01-01` };
  const rows = JSON.parse(await ask({ function: 'consultar_uso', args, returns: 'rows', readOnly: true }));
  return (rows as Record<string, string>[])
    .filter(({ dia = '' }) => dia.startsWith(`${year}-`))
    .map(({ dia = '', operacao, classe, chamadas }) => `${dia.slice('YYYY-'.length)} ${operacao} ${classe} ${chamadas}`)
    .sort();
}

const sequences = () => recorded.map(({ args }) => args.p_sequence);
const rows = (batch: number) => JSON.parse((recorded[batch]?.args.p_rows as JsonText | undefined)?.json ?? '');

test('counts calls by day, operation and class of status, for the key that was sent alone', async () => {
  const { call, usage } = start();
  await call();
  await call('listarAcademias', KEYS.aurora, 422);
  await call('listarTreinos');
  clock += 1_000;
  await call('listarTreinos');
  // Clocks may be set back.
  clock -= 1_000;
  await call('listarTreinos', KEYS.aurora, 304);
  await call('listarTreinos', KEYS.aurora, 502);
  await usage.flush();
  expect(await read()).toEqual([
    '11-30 listarAcademias 2xx 1',
    '11-30 listarAcademias 4xx 1',
    '11-30 listarTreinos 2xx 2',
    '11-30 listarTreinos 5xx 1',
    '12-01 listarTreinos 2xx 1',
  ]);
  expect(await read(KEYS.bosque)).toEqual([]);
});

test('asks the store once for a new key, and for all keys of a batch together', async () => {
  const { call, usage } = start();
  await Promise.all([call(), call('listarTreinos'), call('listarAlunos')]);
  await call('listarAcademias', KEYS.bosque);
  expect(sequences()).toEqual([null, null]);
  await usage.flush();
  expect(sequences()).toEqual([null, null, 1, null]);
  expect(rows(2)).toHaveLength(4);
  // This call deletes what is too old, once a minute.
  expect(rows(3)).toEqual([]);
  await call();
  await usage.flush();
  await usage.flush();
  expect(sequences()).toEqual([null, null, 1, null, 2]);
});

test('does not count an unknown key or path, and asks the store nothing more for them', async () => {
  const { call, usage } = start();
  await call('listarAcademias', 'wms_demo_ninguem', 401);
  const request = createRecord('GET', '/nada', {});
  usage.request({ ...request, endpoint: 'none', status: 404, durationMs: 1, responseBytes: 1 });
  await usage.flush();
  // What is too old is deleted even without calls.
  expect([sequences(), rows(0)]).toEqual([[null], []]);
  clock += 60_000;
  await usage.flush();
  expect(sequences()).toEqual([null, null]);
});

test('counts a key whose calls all fail, but none that the store does not know', async () => {
  await setLimits({ per_day: 2 });
  const { call, usage } = start();
  const statuses: number[] = [];
  for (let n = 0; n < 3; n += 1) statuses.push((await call('listarAcademias', KEYS.aurora, 422)).status);
  expect(statuses).toEqual([422, 422, 429]);
  for (let n = 0; n < 2; n += 1) await call('listarAcademias', 'wms_demo_ninguem', 422);
  await usage.flush();
  expect(await read()).toEqual(['11-30 listarAcademias 429 1', '11-30 listarAcademias 4xx 2']);
  expect(rows(recorded.length - 2)).toHaveLength(2);
});

test('sends all keys that were counted, and in each batch only as many as a call has time for', async () => {
  const { call, usage } = start();
  onRecord = async () => ({ json: '[]', count: 0 });
  for (let n = 0; n < 300; n += 1) await call('listarAcademias', `wms_demo_${n}`);
  recorded = [];
  await usage.flush();
  expect([sequences(), rows(0).length, rows(1).length]).toEqual([[1, 2, null], 200, 100]);
});

test('records by itself what was counted', async () => {
  const { call } = start(10);
  await call();
  await waitFor(async () => expect(await read()).toEqual(['11-30 listarAcademias 2xx 1']));
});

test('keeps what cannot be recorded until the store is back, and logs each once', async () => {
  const { call, usage } = start();
  onRecord = async () => away;
  for (let n = 0; n < 3; n += 1) {
    clock += 200_000;
    expect(await call()).toEqual({ status: 200 });
    for (let m = 0; m < 3; m += 1) await usage.flush();
  }
  onRecord = (make) => make();
  await usage.flush();
  await usage.flush();
  expect(await read()).toEqual(['12-01 listarAcademias 2xx 3']);
  expect(told).toEqual(['Usage cannot be recorded, and is kept until it can: it is away', 'Usage is recorded again']);
});

test('counts once what is sent again because the answer was lost', async () => {
  const { call, usage } = start();
  await call();
  onRecord = async (make) => {
    await make();
    return away;
  };
  await usage.flush();
  await usage.flush();
  await call();
  onRecord = (make) => make();
  await usage.close();
  expect(await read()).toEqual(['11-30 listarAcademias 2xx 2']);
});

describe('a key with limits', () => {
  const statuses = (count: number, { call }: Process) =>
    Array.fromAsync({ length: count }, async () => (await call()).status);

  test('gets so many calls at once and so many a minute', async () => {
    await setLimits({ per_minute: 1, burst: 3 });
    const { call, usage } = start();
    const policy = '"minute";q=1;w=60';
    const limit = (remaining: number) => expect.stringMatching(`^"minute";r=${remaining};t=\\d+$`);
    expect(await call()).toEqual({ status: 200, limit: limit(2), policy });
    expect(await call('listarAcademias', KEYS.aurora, 422)).toEqual({ status: 422, limit: limit(1), policy });
    expect(await call()).toEqual({ status: 200, limit: limit(0), policy });
    const { wait, ...refused } = await call('criarAluno');
    expect(refused).toEqual({ status: 429, limit: limit(0), policy });
    expect(String(wait)).toMatch(/^(5\d|60)$/);
    expect(await call('listarAcademias', KEYS.bosque)).toEqual({ status: 200 });
    await usage.flush();
    expect(await read()).toEqual([
      '11-30 criarAluno 429 1',
      '11-30 listarAcademias 2xx 2',
      '11-30 listarAcademias 4xx 1',
    ]);
  });

  test('spends no calls of its successor once it is refused', async () => {
    await setLimits({ per_minute: 1, burst: 3 });
    const { call } = start();
    await call();
    for (let n = 0; n < 5; n += 1) expect((await call('listarAcademias', KEYS.aurora, 401)).status).toBe(401);
    expect((await call()).limit).toMatch(/^"minute";r=0;/);
  });

  test('gets so many calls a day and a month, until midnight and the end of the month in the time zone', async () => {
    await setLimits({ per_day: 2, per_month: 3 });
    const { call, usage } = start();
    const policy = '"day";q=2;w=86400, "month";q=3;w=2592000';
    const limit = (day: number, month: number, end: number) => `"day";r=${day};t=60, "month";r=${month};t=${end}`;
    clock -= 86_400_000;
    expect(await call()).toEqual({ status: 200, policy, limit: limit(1, 2, 86_460) });
    await usage.flush();
    expect(await call()).toEqual({ status: 200, policy, limit: limit(0, 1, 86_460) });
    expect(await call()).toEqual({ status: 429, policy, limit: limit(0, 1, 86_460), wait: 60 });
    await usage.flush();
    expect((await call()).status).toBe(429);
    clock += 86_400_000;
    expect((await call()).status).toBe(200);
    expect(await call()).toEqual({ status: 429, policy, limit: limit(1, 0, 60), wait: 60 });
    clock += 1_000;
    expect((await call()).status).toBe(200);
    // Clocks may be set back: the calls of the earlier day are known with the next batch.
    clock -= 1_000;
    expect((await call()).status).toBe(200);
    await usage.flush();
    expect((await call()).status).toBe(429);
  });

  test('sees all limits of a call that one of them refuses, which counts in none', async () => {
    await setLimits({ per_day: 1, per_month: 9, per_minute: 2 });
    const { call, usage } = start();
    const limit = (day: number, minute: number) =>
      expect.stringMatching(`^"day";r=${day};t=60, "month";r=8;t=60, "minute";r=${minute};t=\\d+$`);
    const policy = '"day";q=1;w=86400, "month";q=9;w=2592000, "minute";q=2;w=60';
    expect(await call()).toEqual({ status: 200, policy, limit: limit(0, 1) });
    expect(await call()).toEqual({ status: 429, policy, limit: limit(0, 1), wait: 60 });
    expect(await call()).toEqual({ status: 429, policy, limit: limit(0, 1), wait: 60 });
    await setLimits({ per_day: 2, per_month: 9, per_minute: 1 });
    await usage.flush();
    expect(await call()).toMatchObject({ status: 429, limit: limit(1, 0) });
    expect(await call()).toMatchObject({ status: 429, limit: limit(1, 0) });
  });

  test('has one quota in all processes, also in one that has restarted', async () => {
    await setLimits({ per_day: 4 });
    const [one, other] = [start(), start()];
    for (const each of [one, other, one]) expect((await each.call()).status).toBe(200);
    await Promise.all([one.usage.flush(), other.usage.flush()]);
    expect(await statuses(1, other)).toEqual([200]);
    await other.usage.flush();
    // The first process learns of the other's last call with its own next batch.
    expect([await statuses(1, other), await statuses(1, one)]).toEqual([[429], [200]]);
    await one.usage.flush();
    expect(await statuses(1, one)).toEqual([429]);
    expect(await statuses(2, start())).toEqual([200, 429]);
  });

  test('keeps its count when 10,000 other keys come while its calls are recorded', async () => {
    await setLimits({ per_day: 3 });
    const one = start();
    expect(await statuses(2, one)).toEqual([200, 200]);
    const { promise: released, resolve: release } = Promise.withResolvers<void>();
    onRecord = (make) => released.then(make);
    const recording = one.usage.flush();
    onRecord = async () => ({ json: '[]', count: 0 });
    for (let n = 0; n <= 10_000; n += 1) await one.call('listarAcademias', `wms_demo_${n}`);
    onRecord = (make) => make();
    expect(await statuses(1, one)).toEqual([200]);
    onRecord = async () => ({ json: '[]', count: 0 });
    release();
    await recording;
    expect(await statuses(1, one)).toEqual([429]);
  });

  test('gets other limits without a restart', async () => {
    const one = start();
    expect(await one.call()).toEqual({ status: 200 });
    for (const [limits, expected] of [
      [{ per_day: 2 }, [200, 429]],
      [{ per_day: 3 }, [200, 429]],
      [{}, [200, 200]],
    ] as const) {
      await setLimits(limits);
      await one.usage.flush();
      expect(await statuses(2, one)).toEqual(expected);
    }
  });

  test('is not refused after a pause by limits that were raised meanwhile, and the store is asked for them once', async () => {
    clock -= 3_600_000;
    await setLimits({ per_day: 1 });
    const one = start(60_000);
    expect(await statuses(2, one)).toEqual([200, 429]);
    await setLimits({});
    clock += 120_001;
    expect(await statuses(2, one)).toEqual([200, 200]);
    expect(sequences()).toEqual([null, null]);
  });

  test('is answered although its limits cannot be read, and has them with the next batch', async () => {
    await setLimits({ per_day: 2 });
    const { call, usage } = start();
    onRecord = async () => away;
    expect(await call()).toEqual({ status: 200 });
    onRecord = (make) => make();
    await usage.flush();
    expect((await call()).limit).toBe('"day";r=0;t=60');
  });
});
