import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { createDelayedRefusals } from '../../src/api/delayed-refusals.ts';
import type { Usage } from '../../src/api/usage.ts';
import type { Store } from '../../src/store/store.ts';
import { openTestStore, openTestUsage, startGateway, type TestGateway } from '../helpers/gateway.ts';
import { waitFor } from '../helpers/wait-for.ts';

let store: Store;

beforeAll(async () => {
  store = await openTestStore();
});

afterAll(() => store.close());

/** A gateway that gives an address one refusal a minute at once. */
async function withGateway(proxyHops: number, work: (gateway: TestGateway) => Promise<void>): Promise<void> {
  const gateway = await startGateway({ store, refusalsPerMinute: 1, proxyHops });
  try {
    await work(gateway);
  } finally {
    await gateway.close();
  }
}

async function send({ url }: TestGateway, key: string, from = '', signal?: AbortSignal): Promise<[number, unknown]> {
  const headers = { 'X-Api-Key': key, ...(from ? { 'X-Forwarded-For': from } : {}) };
  const answer = await fetch(`${url}/academias?limit=1`, { headers, ...(signal ? { signal } : {}) });
  return [answer.status, await answer.json()];
}

/** Whether a refusal is still not answered when a correct key that came after it is. */
async function isLate(gateway: TestGateway, from = ''): Promise<boolean> {
  const controller = new AbortController();
  let answered = false;
  const refusal = send(gateway, 'wms_demo_ninguem', from, controller.signal).then(
    () => {
      answered = true;
    },
    () => {},
  );
  for (let n = 0; n < 20; n += 1) expect((await send(gateway, 'wms_demo_aurora', from))[0]).toBe(200);
  const late = !answered;
  controller.abort();
  await refusal;
  return late;
}

test('a refusal beyond the rate comes late, unchanged, and a correct key from the same address at once', async () => {
  await withGateway(0, async (gateway) => {
    expect(await isLate(gateway)).toBe(false);
    const begun = performance.now();
    const late = send(gateway, 'wms_demo_inativa');
    expect(await isLate(gateway)).toBe(true);
    expect(await late).toEqual([401, { error: 'API Key inativa' }]);
    expect(performance.now() - begun).toBeGreaterThan(4_000);
  });
});

test('delays nothing if delays are off', async () => {
  const gateway = await startGateway({ store, refusalsPerMinute: 0 });
  for (let n = 0; n < 50; n += 1) expect(await isLate(gateway)).toBe(false);
  await gateway.close();
});

test('a call beyond the limits of its key comes late too after the first ones, and no other key waits', async () => {
  const usage: Usage = {
    ...openTestUsage({ store }),
    admit: (key) =>
      key === 'wms_demo_bosque' ? Promise.resolve({ kind: 'tooManyRequests', retryAfter: 1 }) : undefined,
  };
  const gateway = await startGateway({ store, usage, refusalsPerMinute: 1 });
  expect((await send(gateway, 'wms_demo_bosque'))[0]).toBe(429);
  const begun = performance.now();
  const late = send(gateway, 'wms_demo_bosque');
  expect(await isLate(gateway)).toBe(false);
  expect((await late)[0]).toBe(429);
  expect(performance.now() - begun).toBeGreaterThan(4_000);
  await gateway.close();
  await usage.close();
});

test('the address is the network of the client as the configured proxy says it', () =>
  withGateway(1, async (gateway) => {
    expect(await isLate(gateway, '203.0.113.1')).toBe(false);
    expect(await isLate(gateway, '203.0.113.2:4711')).toBe(false);
    expect(await isLate(gateway, '198.51.100.7, 203.0.113.1:4712')).toBe(true);
  }));

describe('the permits', () => {
  const { signal: never } = new AbortController();

  test('of an address are 10, and stay taken when its clients give up, until the delay is over', async () => {
    vi.useFakeTimers();
    const refusals = createDelayedRefusals(1);
    const isTaken = (address: string) => {
      const permit = refusals.takePermit(address);
      permit?.free();
      return permit === undefined;
    };
    expect(await refusals.holdBack('203.0.113.1', never)).toBe(true);
    const held = Array.from({ length: 10 }, () => new AbortController());
    const waits = held.map(({ signal }) => {
      expect(isTaken('203.0.113.1')).toBe(false);
      return refusals.holdBack('203.0.113.1', signal);
    });
    expect(isTaken('203.0.113.1')).toBe(true);
    for (const client of held) client.abort();
    expect(new Set(await Promise.all(waits))).toEqual(new Set([true]));
    expect(isTaken('203.0.113.1')).toBe(true);
    expect(isTaken('203.0.113.2')).toBe(false);
    vi.advanceTimersByTime(5_000);
    expect(isTaken('203.0.113.1')).toBe(false);
    vi.useRealTimers();
  });

  test('are taken while keys are verified, so that guesses at the same moment are no way around them', async () => {
    const refusals = createDelayedRefusals(1);
    await refusals.holdBack('203.0.113.1', never);
    const permits = Array.from({ length: 11 }, () => refusals.takePermit('203.0.113.1'));
    expect(permits.map((permit) => permit !== undefined)).toEqual([...Array(10).fill(true), false]);
    permits[0]?.free();
    expect(refusals.takePermit('203.0.113.1')).toBeDefined();
  });

  test('of all addresses are 2,000', async () => {
    const refusals = createDelayedRefusals(1);
    for (let n = 0; n < 2_000; n += 1) {
      const address = `10.0.${n >> 8}.${n & 255}`;
      await refusals.holdBack(address, never);
      const gone = new AbortController();
      const wait = refusals.holdBack(address, gone.signal);
      gone.abort();
      expect(await wait).toBe(true);
    }
    await refusals.holdBack('203.0.113.1', never);
    expect(await refusals.holdBack('203.0.113.1', never)).toBe(false);
  });

  test('are forgotten of the address that was quiet for the longest after 10,000 others', async () => {
    const refusals = createDelayedRefusals(1);
    const address = (n: number) => `10.${n >> 16}.${(n >> 8) & 255}.${n & 255}`;
    for (let n = 0; n < 10_001; n += 1) await refusals.holdBack(address(n), never);
    const gone = new AbortController();
    const wait = refusals.holdBack(address(10_000), gone.signal);
    gone.abort();
    await wait;
    // Held back, this one would have to be gone first.
    expect(await refusals.holdBack(address(0), never)).toBe(true);
  });
});

test('refuses guesses beyond the places without a store call, and serves a key that was accepted before', async () => {
  let calls = 0;
  const counting: Store = {
    ...store,
    call: async (call, signal, origin) => {
      const result = await store.call(call, signal, origin);
      if (call.args.p_api_key === 'wms_demo_ninguem') calls += 1;
      return result;
    },
  };
  const gateway = await startGateway({ store: counting, refusalsPerMinute: 1 });
  expect((await send(gateway, 'wms_demo_aurora'))[0]).toBe(200);
  const client = new AbortController();
  const guess = () => send(gateway, 'wms_demo_ninguem', '', client.signal).catch(() => undefined);
  await guess();
  const guesses = Array.from({ length: 10 }, guess);
  await waitFor(() => expect(calls).toBe(11));
  // The client gives up, to guess again at once.
  client.abort();
  await Promise.all(guesses);
  const told = [429, { error: 'Too many refused requests' }];
  expect(await send(gateway, 'wms_demo_ninguem')).toEqual(told);
  // Whether a key is right is not told either, until it was accepted once.
  expect(await send(gateway, 'wms_demo_bosque')).toEqual(told);
  expect(calls).toBe(11);
  expect((await send(gateway, 'wms_demo_aurora'))[0]).toBe(200);
  await gateway.close();
});
