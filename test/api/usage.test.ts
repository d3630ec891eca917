import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import type { Usage } from '../../src/api/usage.ts';
import type { AppParts } from '../../src/http/app.ts';
import type { Call, JsonText, Result, Store } from '../../src/store/store.ts';
import { limited } from '../../src/store/turns.ts';
import { call, KEYS } from '../helpers/api.ts';
import {
  openTestRateLimits,
  openTestStore,
  openTestUsage,
  startGateway,
  type TestGateway,
} from '../helpers/gateway.ts';

// What is counted, when it is recorded, and that nothing counts twice: with a clock that is moved, on every store.

/** What an administrator does. */
const SET_LIMITS = `
  create function public.set_limits(p_key text, p_limits jsonb) returns void language sql security definer
    set search_path = pg_catalog, pg_temp
    as $$ update private.api_keys set limits = p_limits where key_hash = sha256(convert_to(p_key, 'UTF8')) $$;
  grant execute on function public.set_limits(text, jsonb) to gateway;`;

let real: Store;
/** What befalls the calls of record_usage. */
let onRecord: (make: () => Promise<Result>) => Promise<Result>;
let recorded: Call[];
let calls: number;
/** Of the test alone. */
let year = 2030;
/** At first just before the month ends in America/Sao_Paulo, and past it in UTC. */
let clock: number;
let told: string[];

beforeAll(async () => {
  real = await openTestStore({ sql: SET_LIMITS });
});

beforeEach(async () => {
  await setLimits({});
  onRecord = (make) => make();
  recorded = [];
  calls = 0;
  year += 1;
  clock = Date.UTC(year, 11, 1, 2, 59, 59);
  told = [];
});

afterAll(() => real.close());

/** A process: a gateway and its usage. */
async function start(parts: Partial<AppParts> = {}): Promise<TestGateway & { readonly usage: Usage }> {
  const asked: Store = {
    ...real,
    call: (made, signal, origin) => {
      const make = () => real.call(made, signal, origin);
      calls += 1;
      if (made.function !== 'record_usage') return make();
      recorded.push(made);
      return onRecord(make);
    },
  };
  const store = limited(asked, { slots: 4, waiting: 100 });
  const log = { info: (text: string) => told.push(text), warn: (text: string) => told.push(text) };
  const usage = openTestUsage({ store, now: () => clock, log });
  const gateway = await startGateway({ store, usage, parts });
  onTestFinished(gateway.close);
  return { ...gateway, usage };
}

async function get(gateway: TestGateway, path: string, key = KEYS.aurora): Promise<number> {
  const { status } = await call(path, { url: gateway.url, key });
  return status;
}

/** The usage of a key, as its partner sees it, on the days of the test. */
async function read(key = KEYS.aurora): Promise<string[]> {
  const args = { p_api_key: key, p_dia_gte: `${year}-01-01` };
  const result = await real.call({ function: 'consultar_uso', args, returns: 'rows', readOnly: true }, never);
  if ('failure' in result) throw new Error(JSON.stringify(result.failure));
  const rows: Record<string, unknown>[] = JSON.parse(result.json);
  return rows
    .filter(({ dia }) => String(dia).startsWith(`${year}-`))
    .map(
      ({ dia, operacao, classe, chamadas }) => `${String(dia).slice('YYYY-'.length)} ${operacao} ${classe} ${chamadas}`,
    )
    .sort();
}

async function setLimits(limits: object, key = KEYS.aurora): Promise<void> {
  const args = { p_key: key, p_limits: { json: JSON.stringify(limits) } };
  const result = await real.call({ function: 'set_limits', args, returns: 'nothing', readOnly: false }, never);
  if ('failure' in result) throw new Error(JSON.stringify(result.failure));
}

/** An answer, with the header fields that limit its client. */
async function answerOf(gateway: TestGateway, path = '/academias', key = KEYS.aurora) {
  const { status, body, headers } = await call(path, { url: gateway.url, key });
  const [limit, policy, wait] = ['RateLimit', 'RateLimit-Policy', 'Retry-After'].map((name) => headers.get(name));
  return { status, limit, policy, wait, ...(status === 200 ? {} : { body }) };
}

const UNLIMITED = { status: 200, limit: null, policy: null, wait: null };
const TOO_MANY = { error: 'Too many requests' };
const never = new AbortController().signal;
const away: Result = { failure: { kind: 'storeUnavailable', cause: new Error('it is away'), connectionLost: true } };

test('counts calls by day, operation and class of status, for the key alone that was sent', async () => {
  const gateway = await start();
  expect(await get(gateway, '/academias')).toBe(200);
  expect(await get(gateway, '/academias?limit=0')).toBe(422);
  expect(await get(gateway, '/treinos')).toBe(200);
  expect(await get(gateway, '/nada')).toBe(404);
  clock += 1_000;
  expect(await get(gateway, '/treinos')).toBe(200);
  // Clocks are corrected.
  clock -= 1_000;
  expect(await get(gateway, '/treinos')).toBe(200);
  await gateway.usage.flush();
  expect(await read()).toEqual([
    '11-30 listarAcademias 2xx 1',
    '11-30 listarAcademias 4xx 1',
    '11-30 listarTreinos 2xx 2',
    '12-01 listarTreinos 2xx 1',
  ]);
  expect(await read(KEYS.bosque)).toEqual([]);
});

test('asks the store once for a new key, and for all keys of a batch together', async () => {
  const gateway = await start();
  await Promise.all([get(gateway, '/academias'), get(gateway, '/treinos'), get(gateway, '/alunos')]);
  await get(gateway, '/academias', KEYS.bosque);
  expect(recorded.map(({ args }) => args.p_sequence)).toEqual([null, null]);
  await gateway.usage.flush();
  const rows = (batch: number) => JSON.parse((recorded[batch]?.args.p_rows as JsonText | undefined)?.json ?? '');
  expect(recorded.map(({ args }) => args.p_sequence)).toEqual([null, null, 1, null]);
  expect(rows(2)).toHaveLength(4);
  // Deletes what is too old, once a minute.
  expect(rows(3)).toEqual([]);
  await get(gateway, '/academias');
  await gateway.usage.flush();
  await gateway.usage.flush();
  expect(recorded.map(({ args }) => args.p_sequence)).toEqual([null, null, 1, null, 2]);
});

test('does not count an unknown key, and asks the store nothing more for it', async () => {
  const gateway = await start();
  for (let n = 0; n < 10; n += 1) expect(await get(gateway, '/academias', `wms_demo_aurora${n}`)).toBe(401);
  expect(await get(gateway, '/academias?limit=0', randomUUID())).toBe(422);
  await gateway.usage.flush();
  expect(recorded).toEqual([]);
});

test('answers although usage cannot be recorded, and records it once the store is back', async () => {
  const gateway = await start();
  onRecord = async () => away;
  for (let n = 0; n < 120; n += 1) {
    clock += 5_000;
    if (n % 40 === 0) expect(await get(gateway, '/academias')).toBe(200);
    await gateway.usage.flush();
  }
  onRecord = (make) => make();
  await gateway.usage.flush();
  await gateway.usage.flush();
  expect(await read()).toEqual(['12-01 listarAcademias 2xx 3']);
  expect(told).toEqual(['Usage cannot be recorded, and is kept until it can: it is away', 'Usage is recorded again']);
});

test('counts once what is sent again because the answer was lost', async () => {
  const gateway = await start();
  await get(gateway, '/academias');
  onRecord = async (make) => {
    await make();
    return away;
  };
  await gateway.usage.flush();
  await gateway.usage.flush();
  await get(gateway, '/academias');
  onRecord = (make) => make();
  await gateway.usage.close();
  expect(await read()).toEqual(['11-30 listarAcademias 2xx 2']);
});

test('adds what two processes count, and loses what one that is killed has not recorded', async () => {
  const [one, other] = [await start(), await start()];
  await get(one, '/academias');
  await get(other, '/academias');
  await Promise.all([one.usage.flush(), other.usage.flush()]);
  await get(other, '/academias');
  await get(one, '/academias');
  await one.usage.close();
  expect(await read()).toEqual(['11-30 listarAcademias 2xx 3']);
});

describe('a key with limits', () => {
  test('gets so many calls at once and so many a minute, and a refused one costs no call of the store', async () => {
    await setLimits({ per_minute: 1, burst: 3 });
    const gateway = await start();
    const policy = '"minute";q=1;w=60';
    const limit = (remaining: number) => expect.stringMatching(`^"minute";r=${remaining};t=\\d+$`);
    expect(await answerOf(gateway)).toEqual({ status: 200, limit: limit(2), policy, wait: null });
    const invalid = { limit: ['must be >= 1'] };
    expect(await answerOf(gateway, '/academias?limit=0')).toMatchObject({
      status: 422,
      limit: limit(1),
      body: { error: invalid },
    });
    expect(await answerOf(gateway)).toEqual({ status: 200, limit: limit(0), policy, wait: null });
    const before = calls;
    const refused = { status: 429, limit: limit(0), policy, wait: expect.stringMatching(/^(59|60)$/), body: TOO_MANY };
    expect(await answerOf(gateway)).toEqual(refused);
    // Not even its body is read.
    expect(await call('/alunos', { url: gateway.url, body: '{' })).toMatchObject({ status: 429, body: TOO_MANY });
    expect(calls).toBe(before);
    expect(await answerOf(gateway, '/academias', KEYS.bosque)).toEqual(UNLIMITED);
    await gateway.usage.flush();
    expect(await read()).toEqual([
      '11-30 criarAluno 429 1',
      '11-30 listarAcademias 2xx 2',
      '11-30 listarAcademias 429 1',
      '11-30 listarAcademias 4xx 1',
    ]);
  });

  test('has them beside the limit of its address', async () => {
    await setLimits({ per_minute: 6 });
    const { middleware } = await openTestRateLimits({ perAddress: 9 });
    const { limit, policy } = await answerOf(await start({ rateLimiter: middleware }));
    expect(policy).toBe('"address";q=9;w=60, "minute";q=6;w=60');
    expect(limit).toBe('"address";r=8;t=7, "minute";r=5;t=10');
  });

  test('gets so many calls a day and a month, until midnight and the end of the month in the time zone', async () => {
    await setLimits({ per_day: 2, per_month: 3 });
    const gateway = await start();
    clock -= 86_400_000;
    const policy = '"day";q=2;w=86400, "month";q=3;w=2592000';
    expect(await answerOf(gateway)).toEqual({
      status: 200,
      limit: '"day";r=1;t=60, "month";r=2;t=86460',
      policy,
      wait: null,
    });
    await gateway.usage.flush();
    expect((await answerOf(gateway)).limit).toBe('"day";r=0;t=60, "month";r=1;t=86460');
    const refused = { status: 429, policy, body: TOO_MANY };
    const none = '"day";r=0;t=60, "month";r=0;t=86460';
    expect(await answerOf(gateway)).toEqual({ ...refused, limit: none, wait: '60' });
    await gateway.usage.flush();
    expect((await answerOf(gateway)).status).toBe(429);
    clock += 86_400_000;
    expect((await answerOf(gateway)).status).toBe(200);
    expect(await answerOf(gateway)).toEqual({ ...refused, limit: '"day";r=0;t=60, "month";r=0;t=60', wait: '60' });
    clock += 1_000;
    expect((await answerOf(gateway)).status).toBe(200);
    // Clocks are corrected: what the earlier day has is known with the next batch.
    clock -= 1_000;
    expect((await answerOf(gateway)).status).toBe(200);
    await gateway.usage.flush();
    expect((await answerOf(gateway)).status).toBe(429);
  });

  test('has one quota in all processes, also in one that has started anew', async () => {
    await setLimits({ per_day: 4 });
    const [one, other] = [await start(), await start()];
    for (const gateway of [one, other, one]) expect((await answerOf(gateway)).status).toBe(200);
    await Promise.all([one.usage.flush(), other.usage.flush()]);
    expect((await answerOf(other)).status).toBe(200);
    await other.usage.flush();
    expect((await answerOf(other)).status).toBe(429);
    // It knows of the other's last call with its own next batch.
    expect((await answerOf(one)).status).toBe(200);
    await one.usage.flush();
    expect((await answerOf(one)).status).toBe(429);
    const another = await start();
    expect([(await answerOf(another)).status, (await answerOf(another)).status]).toEqual([200, 429]);
  });

  test('gets other limits without a restart', async () => {
    const gateway = await start();
    expect((await answerOf(gateway)).policy).toBeNull();
    await setLimits({ per_day: 2 });
    await gateway.usage.flush();
    expect((await answerOf(gateway)).status).toBe(200);
    expect((await answerOf(gateway)).status).toBe(429);
    await setLimits({ per_day: 3 });
    await gateway.usage.flush();
    expect((await answerOf(gateway)).limit).toBe('"day";r=0;t=60');
    await setLimits({});
    await gateway.usage.flush();
    expect(await answerOf(gateway)).toEqual(UNLIMITED);
  });

  test('is answered although its limits cannot be asked for, and has them with the next batch', async () => {
    await setLimits({ per_day: 2 });
    const gateway = await start();
    onRecord = async () => away;
    expect(await answerOf(gateway)).toEqual(UNLIMITED);
    onRecord = (make) => make();
    await gateway.usage.flush();
    expect((await answerOf(gateway)).limit).toBe('"day";r=0;t=60');
  });
});
