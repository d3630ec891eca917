import { once } from 'node:events';
import { type AddressInfo, createServer as createTcpServer } from 'node:net';
import { createClient } from '@redis/client';
import { describe, expect, onTestFinished, test } from 'vitest';
import type { Config } from '../../src/config.ts';
import { createBuckets, type TakeToken } from '../../src/limits/buckets.ts';
import type { EndedRequest } from '../../src/telemetry/record.ts';
import { type FaultProxy, startFaultProxy } from '../helpers/fault-proxy.ts';
import { startOwnGateway, type TestGatewayOptions } from '../helpers/gateway.ts';
import { canTestRedis, type RedisServer, startRedis } from '../helpers/redis.ts';
import { findPort } from '../helpers/servers.ts';
import { createStudents } from '../helpers/stub-store.ts';
import { waitFor } from '../helpers/wait-for.ts';

const from = (address: string) => ({ 'X-Api-Key': 'wms_demo_aurora', 'X-Forwarded-For': address });
const ONE = from('203.0.113.1');
const OTHER = from('203.0.113.2');
const TOO_MANY = { error: 'Too many requests' };

let addresses = 0;
/** The headers of an address that has made no request yet. */
function newAddress(): Record<string, string> {
  addresses += 1;
  return from(`198.18.${addresses >> 8}.${addresses & 255}`);
}

type Answer = { readonly status: number; readonly body: unknown; readonly headers: Headers; readonly ms: number };

type LimitedGateway = Awaited<ReturnType<typeof startLimited>>;

type Options = Partial<Config['rateLimits'] & Omit<TestGatewayOptions, 'store'>> & {
  /** The buckets that the workers of a gateway share. */
  readonly takeToken?: TakeToken;
};

const BACK = 'Requests are counted in Redis again';

/** A gateway with a limit, behind a proxy. It is closed when its test ends. */
async function startLimited(options: Options) {
  const { perAddress = 0, redisUrl, takeToken, ...others } = options;
  const store = createStudents(0);
  const rateLimits = { perAddress, redisUrl };
  const group = takeToken && { worker: 1, readMetrics: async () => '', takeToken };
  const gateway = await startOwnGateway({ store, rateLimits, proxyHops: 1, group, ...others });
  const url = `${gateway.url}/academias`;
  const send = async (headers: Record<string, string> = {}): Promise<Answer> => {
    const begun = performance.now();
    const answer = await fetch(url, { headers });
    const text = await answer.text();
    const body = text === '' ? '' : JSON.parse(text);
    return { status: answer.status, body, headers: answer.headers, ms: performance.now() - begun };
  };
  /** Whether requests are counted in Redis, according to the metrics. */
  const isShared = async () => {
    const metrics = await (await fetch(new URL('/metrics', url))).text();
    return /^gateway_rate_limits_shared 1$/m.test(metrics);
  };
  const told = () => gateway.told.filter((text) => text.includes('Redis'));
  return { url, calls: () => store.calls.length, told, isShared, send };
}

async function startTestRedis(...args: Parameters<typeof startRedis>): Promise<RedisServer> {
  const redis = await startRedis(...args);
  onTestFinished(redis.stop);
  return redis;
}

async function startTestProxy({ port }: RedisServer): Promise<FaultProxy & { url: string }> {
  const proxy = await startFaultProxy({ host: '127.0.0.1', port });
  onTestFinished(proxy.close);
  return { ...proxy, url: `redis://127.0.0.1:${proxy.port}` };
}

/** The number of requests that a limit still allows, from the header field. */
function remaining({ headers }: Answer): number {
  return Number(/^"address";r=(\d+);/.exec(headers.get('RateLimit') ?? '')?.[1]);
}

const statuses = (count: number, send: () => Promise<Answer>) =>
  Array.fromAsync({ length: count }, async () => (await send()).status);

test('counts a refused request for its operation', async () => {
  const ended: EndedRequest[] = [];
  const { url, send } = await startLimited({ perAddress: 1, onEnd: (request) => ended.push(request) });
  expect(await statuses(2, () => send(ONE))).toEqual([200, 429]);
  await fetch(new URL('/v1/nada', url), { headers: ONE });
  await waitFor(() =>
    expect(ended.map(({ endpoint, status }) => [endpoint, status])).toEqual([
      ['listarAcademias', 200],
      ['listarAcademias', 429],
      ['none', 429],
    ]),
  );
});

test('counts requests of an address with any key, or without one, and none if no limit is configured', async () => {
  const { send } = await startLimited({ perAddress: 3 });
  expect((await (await startLimited({})).send(ONE)).headers.get('RateLimit')).toBeNull();
  await send(ONE);
  await send({ ...ONE, 'X-Api-Key': 'wms_demo_bosque' });
  await send({ ...ONE, 'X-Api-Key': '' });
  expect(await send(ONE)).toMatchObject({ status: 429, body: TOO_MANY });
  expect((await send(OTHER)).status).toBe(200);
});

test('answers a request beyond the limit with an id and no store call, and lets a page of another origin read it', async () => {
  const { send, calls } = await startLimited({ perAddress: 1, corsOrigins: ['https://painel.example'] });
  const headers = { ...ONE, Origin: 'https://painel.example', 'X-Request-Id': 'mine' };
  await send(headers);
  const refused = await send(headers);
  expect(refused).toMatchObject({ status: 429, body: TOO_MANY });
  expect(refused.headers.get('X-Request-Id')).toBe('mine');
  expect(refused.headers.get('Access-Control-Allow-Origin')).toBe('https://painel.example');
  expect(refused.headers.get('Access-Control-Expose-Headers')).toContain('Retry-After');
  expect(refused.headers.get('X-Content-Type-Options')).toBe('nosniff');
  expect(refused.headers.get('RateLimit-Policy')).toBe('"address";q=1;w=60');
  expect(Number(refused.headers.get('Retry-After'))).toBeGreaterThan(30);
  expect(calls()).toBe(1);
});

test('limits only the API', async () => {
  const { send, url } = await startLimited({ perAddress: 1, corsOrigins: ['*'] });
  await send(ONE);
  expect((await send(ONE)).status).toBe(429);
  for (const path of ['/healthz', '/docs', '/openapi.json', '/docs/start.js']) {
    const answer = await fetch(new URL(path, url), { headers: ONE });
    expect([path, answer.status, answer.headers.get('RateLimit')]).toEqual([path, 200, null]);
  }
  const preflight = await fetch(url, {
    method: 'OPTIONS',
    headers: { Origin: 'https://painel.example', 'Access-Control-Request-Method': 'GET' },
  });
  expect([preflight.status, preflight.headers.get('RateLimit')]).toEqual([204, null]);
  // Requests for unknown paths are limited too.
  expect((await fetch(new URL('/nada', url), { headers: ONE })).status).toBe(429);
});

describe.runIf(canTestRedis())('gateways that share a Redis', () => {
  const PER_MINUTE = 1_000;

  /** Starts two gateways that have counted one request each. */
  async function startTwo(redisUrl: string): Promise<[LimitedGateway, LimitedGateway]> {
    const one = await startLimited({ perAddress: PER_MINUTE, redisUrl });
    const other = await startLimited({ perAddress: PER_MINUTE, redisUrl });
    await expectShared(one, other);
    return [one, other];
  }

  /** On a busy machine a gateway may lose Redis once more. */
  const expectShared = (one: LimitedGateway, other: LimitedGateway) =>
    waitFor(async () => {
      const left = remaining(await one.send(ONE));
      expect(remaining(await other.send(ONE))).toBe(left - 1);
    });

  const isBack = (gateway: LimitedGateway) =>
    waitFor(async () => {
      expect((await gateway.send(OTHER)).status).toBe(200);
      expect(gateway.told().at(-1)).toBe(BACK);
    });

  test('count together, and refuse together', async () => {
    const { url: redisUrl } = await startTestRedis();
    // On a busy machine a gateway may lose Redis, and logs that: then two new ones try.
    await waitFor(async () => {
      const address = newAddress();
      const one = await startLimited({ perAddress: 2, redisUrl });
      const other = await startLimited({ perAddress: 2, redisUrl });
      expect((await one.send(address)).headers.get('RateLimit')).toBe('"address";r=1;t=30');
      expect((await other.send(address)).headers.get('RateLimit')).toMatch(/^"address";r=0;t=\d+$/);
      for (const gateway of [one, other]) {
        const refused = await gateway.send(address);
        expect(refused).toMatchObject({ status: 429, body: TOO_MANY });
        expect(Number(refused.headers.get('Retry-After'))).toBeGreaterThan(20);
        expect(gateway.told()).toEqual([]);
      }
    });
  });

  test('store an address in Redis for no longer than a minute', async () => {
    const { url: redisUrl } = await startTestRedis();
    const { send } = await startLimited({ perAddress: 5, redisUrl });
    const client = await createClient({ url: redisUrl }).connect();
    onTestFinished(() => client.destroy());
    const name = 'gateway:{bucket}:address:203.0.113.1';
    // On a busy machine the gateway may lose Redis for a moment.
    await waitFor(async () => {
      await client.flushAll();
      await send(ONE);
      expect(await client.keys('*')).toEqual([name]);
      const ttl = await client.ttl(name);
      expect(ttl).toBeGreaterThan(0);
      expect(ttl).toBeLessThanOrEqual(60);
    });
  });

  test('count each by itself while Redis is gone, and together when it is back', async () => {
    const redis = await startTestRedis();
    const [one, other] = await startTwo(redis.url);
    // On a busy machine a gateway may have lost it for a moment.
    await waitFor(async () => expect([await one.isShared(), await other.isShared()]).toEqual([true, true]));
    const before = new Map([one, other].map((gateway) => [gateway, gateway.told().length]));
    await redis.stop();
    for (const gateway of [one, other]) {
      const first = await gateway.send(ONE);
      const answers = [first, await gateway.send(ONE), await gateway.send(ONE)];
      expect(answers.map(({ status }) => status)).toEqual([200, 200, 200]);
      expect(remaining(first)).toBe(PER_MINUTE - 1);
      expect(Math.max(...answers.map(({ ms }) => ms))).toBeLessThan(5_000);
      expect(gateway.told().slice(before.get(gateway))).toEqual([
        expect.stringMatching(/^Redis is lost, and each gateway counts requests by itself/),
      ]);
      expect(await gateway.isShared()).toBe(false);
    }
    await startTestRedis([], redis.port);
    for (const gateway of [one, other]) {
      await isBack(gateway);
      expect(gateway.told().slice(before.get(gateway))).toEqual([expect.stringContaining('Redis is lost'), BACK]);
      expect(await gateway.isShared()).toBe(true);
    }
    await expectShared(one, other);
  });

  test.each([
    ['is no longer heard', 'stall'],
    ['is slow', 'trickle'],
  ] as const)('wait once for a Redis that %s, and not again', async (_what, does) => {
    const proxy = await startTestProxy(await startTestRedis());
    const [one, other] = await startTwo(proxy.url);
    proxy.fail({ on: 'response', does });
    const warnings: Error[] = [];
    const keep = (warning: Error) => void warnings.push(warning);
    process.on('warning', keep);
    onTestFinished(() => void process.off('warning', keep));
    const atOnce = await Promise.all(Array.from({ length: 20 }, (_, n) => one.send(n % 2 ? ONE : OTHER)));
    expect(atOnce.map(({ status }) => status)).toEqual(Array(20).fill(200));
    expect(Math.max(...atOnce.map(({ ms }) => ms))).toBeLessThan(10_000);
    const begun = performance.now();
    for (let n = 0; n < 60; n += 1) expect((await one.send(ONE)).status).toBe(200);
    // Otherwise each of them would have waited for 120 ms.
    expect(performance.now() - begun).toBeLessThan(6_000);
    await other.send(ONE);
    // A slow Redis may be found again in between, and lost again.
    for (const { told } of [one, other]) expect(told()[0]).toContain('no answer within 120 ms');
    expect(warnings).toEqual([]);
    await proxy.pass();
    for (const gateway of [one, other]) await isBack(gateway);
    await expectShared(one, other);
  });

  test.each([
    ['READONLY', ['--replicaof', '127.0.0.1', '1'], '', 'gateway:{bucket}:check'],
    ['NOPERM', ['--user', 'default', 'on', 'nopass', '~*', '+@all', '-eval'], '', 'gateway:{bucket}:check'],
    ['DB index is out of range', [], '/99', 'SELECT'],
  ])(
    'log once that Redis refuses to count with %s, after any number of connections',
    async (code, settings, path, sent) => {
      const proxy = await startTestProxy(await startTestRedis(settings));
      const gateway = await startLimited({ perAddress: PER_MINUTE, redisUrl: proxy.url + path });
      await waitFor(async () => {
        expect((await gateway.send(ONE)).status).toBe(200);
        expect(proxy.sent(sent)).toBeGreaterThan(2);
      });
      expect(gateway.told()).toEqual([expect.stringContaining(code)]);
      expect(await gateway.isShared()).toBe(false);
    },
  );

  test('use the password of the URL, and serve with a wrong one, which is logged without the password', async () => {
    const { port } = await startTestRedis(['--requirepass', 'only-for-tests']);
    const { send, told } = await startLimited({ perAddress: 2, redisUrl: `redis://:mistaken@127.0.0.1:${port}` });
    expect(await statuses(3, () => send(ONE))).toEqual([200, 200, 429]);
    expect(told()).toEqual([expect.stringContaining('WRONGPASS')]);
    expect(told()[0]).not.toContain('mistaken');
    const { isShared } = await startLimited({ perAddress: 2, redisUrl: `redis://:only-for-tests@127.0.0.1:${port}` });
    await waitFor(async () => expect(await isShared()).toBe(true));
  });
});

test('workers of a gateway count together while Redis is away', async () => {
  const options = { perAddress: 2, redisUrl: `redis://127.0.0.1:${await findPort()}`, takeToken: createBuckets() };
  const one = await startLimited(options);
  const other = await startLimited(options);
  expect((await one.send(ONE)).status).toBe(200);
  expect(remaining(await other.send(ONE))).toBe(0);
  for (const { send } of [one, other]) expect((await send(ONE)).status).toBe(429);
});

test('starts and serves in spite of a Redis that accepts connections and never answers', async () => {
  const silent = createTcpServer(() => {}).listen(0, '127.0.0.1');
  await once(silent, 'listening');
  onTestFinished(() => void silent.close());
  const redisUrl = `redis://127.0.0.1:${(silent.address() as AddressInfo).port}`;
  const { send, told } = await startLimited({ perAddress: 2, redisUrl });
  expect(await statuses(3, () => send(ONE))).toEqual([200, 200, 429]);
  expect(told()).toEqual([expect.stringContaining('no answer within 120 ms')]);
});
