import { EventEmitter } from 'node:events';
import type { ServerResponse } from 'node:http';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createRefusals } from '../src/refusals.ts';
import type { Store } from '../src/store/store.ts';
import { openTestStore, startGateway, type TestGateway } from './helpers/gateway.ts';
import { sendRaw } from './helpers/raw.ts';

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

test('nothing comes late where that is switched off', async () => {
  const gateway = await startGateway({ store, refusalsPerMinute: 0 });
  for (let n = 0; n < 50; n += 1) expect(await isLate(gateway)).toBe(false);
  await gateway.close();
});

describe('the address', () => {
  test('is that of the connection, whatever a header says', () =>
    withGateway(0, async (gateway) => {
      expect(await isLate(gateway, '203.0.113.1')).toBe(false);
      expect(await isLate(gateway, '203.0.113.2')).toBe(true);
    }));

  test('is what the configured proxy says, and not what a client wrote before it', () =>
    withGateway(1, async (gateway) => {
      expect(await isLate(gateway, '203.0.113.1')).toBe(false);
      expect(await isLate(gateway, '203.0.113.2')).toBe(false);
      expect(await isLate(gateway, '198.51.100.7, 203.0.113.1')).toBe(true);
    }));

  test('is that before the second proxy where there are two', () =>
    withGateway(2, async (gateway) => {
      expect(await isLate(gateway, '203.0.113.1, 10.0.0.1')).toBe(false);
      expect(await isLate(gateway, '203.0.113.2, 10.0.0.1')).toBe(false);
      expect(await isLate(gateway, '203.0.113.1, 10.0.0.2')).toBe(true);
    }));

  test.each([
    ['a port', '203.0.113.1:4711', '203.0.113.1:4712'],
    ['64 bits of IPv6', '2001:db8:1:2::1', '2001:db8:1:2:ffff::2'],
    ['a port of IPv6', '[2001:db8::1]:1', '[2001:db8::1]:2'],
    ['IPv4 in IPv6', '::ffff:203.0.113.1', '203.0.113.1'],
  ])('is the same with and without %s', (_what, one, other) =>
    withGateway(1, async (gateway) => {
      expect(await isLate(gateway, one)).toBe(false);
      expect(await isLate(gateway, other)).toBe(true);
    }),
  );
});

describe('the memory', () => {
  const response = () => Object.assign(new EventEmitter(), { closed: false }) as unknown as ServerResponse;

  test('holds 2,000 refusals at once, and as many again when their clients are gone', async () => {
    const holdBack = createRefusals(1);
    expect(await holdBack('203.0.113.1', response())).toBe(true);
    for (let round = 0; round < 2; round += 1) {
      const held = Array.from({ length: 2_000 }, response);
      const waits = held.map((res) => holdBack('203.0.113.1', res));
      expect(await holdBack('203.0.113.1', response())).toBe(false);
      for (const res of held) res.emit('close');
      expect(new Set(await Promise.all(waits))).toEqual(new Set([true]));
    }
  });

  test('forgets the address that was quiet for the longest after 10,000 others', async () => {
    const holdBack = createRefusals(1);
    const address = (n: number) => `10.${n >> 16}.${(n >> 8) & 255}.${n & 255}`;
    for (let n = 0; n < 10_001; n += 1) await holdBack(address(n), response());
    const gone = response();
    const wait = holdBack(address(10_000), gone);
    gone.emit('close');
    await wait;
    // Held back, this one would have to be gone first.
    expect(await holdBack(address(0), response())).toBe(true);
    expect(gone.listenerCount('close')).toBe(0);
  });

  test('is not filled by what is held back: what is too much is told so, and its connection ends', async () => {
    await withGateway(0, async (gateway) => {
      const { host } = new URL(gateway.url);
      const request = `GET /v1/academias HTTP/1.1\r\nHost: ${host}\r\nX-Api-Key: wms_demo_ninguem\r\n`;
      // As many as a connection may have under way.
      const requests = `${`${request}\r\n`.repeat(31)}${request}Connection: close\r\n\r\n`;
      const answers = await Promise.all(Array.from({ length: 63 }, () => sendRaw(gateway.url, requests)));
      expect(answers.flatMap((text) => text.match(/HTTP\/1\.1 401/g) ?? [])).toHaveLength(2_001);
      const told = answers.filter((text) => text.includes('HTTP/1.1 429'));
      expect(told).not.toEqual([]);
      for (const text of told) expect(text).toMatch(/\{"error":"Too many refused requests"\}$/);
    });
  });
});
