import { createClient } from '@redis/client';
import fc from 'fast-check';
import { expect, onTestFinished, test } from 'vitest';
import { createBuckets, NETWORK } from '../../src/limits/buckets.ts';
import { createRedisBuckets } from '../../src/limits/redis.ts';
import { canTestRedis, startRedis } from '../helpers/redis.ts';

const SIZE = { perMinute: 60, burst: 3 };

test('a bucket gives a burst at once and then a token for each interval, and names have their own', async () => {
  let now = 1_000_000;
  const take = createBuckets(() => now);
  const taken = async (name = 'a') => {
    const { retryAfter, remaining, seconds } = await take(name, SIZE);
    return `${retryAfter ? `over for ${retryAfter}, all in` : remaining} ${seconds}`;
  };
  expect([await taken(), await taken(), await taken(), await taken(), await taken()]).toEqual([
    '2 1',
    '1 2',
    '0 3',
    'over for 1, all in 3',
    'over for 1, all in 3',
  ]);
  now += 999;
  expect(await taken('b')).toBe('2 1');
  now += 1;
  expect([await taken(), await taken()]).toEqual(['0 3', 'over for 1, all in 3']);
  now += 60_000;
  expect(await taken()).toBe('2 1');
  expect(await take('full', SIZE, 0)).toEqual({ remaining: 3, seconds: 0 });
});

test('a raised limit holds at once for a bucket in Redis that was empty', async () => {
  const answers = [['999.000'], ['0', '1.000']];
  const redis = { isReady: true, close: () => {}, eval: async () => answers.shift() };
  const take = createRedisBuckets(redis, () => Promise.reject(new Error('Redis failed')));
  const refused = { retryAfter: 1, remaining: 0, seconds: 3 };
  expect([await take('a', SIZE), await take('a', SIZE)]).toEqual([refused, refused]);
  expect(await take('a', { perMinute: 600, burst: 3 })).toEqual({ remaining: 3, seconds: 1 });
});

test('a smaller bucket holds at once what it can', async () => {
  const take = createBuckets(() => 1_000_000);
  for (let n = 0; n < 100; n += 1) await take('a', { perMinute: 1, burst: 100 });
  expect(await take('a', { perMinute: 1, burst: 1 })).toEqual({ retryAfter: 60, remaining: 0, seconds: 60 });
});

test('memory holds 50,000 names: the one that was quiet for the longest is forgotten, a busy one never', async () => {
  const take = createBuckets(() => 1_000_000);
  const remaining = async (name: string) => (await take(name, { perMinute: 100, burst: 100 })).remaining;
  const NAMES = 120_000;
  for (let n = 0; n < NAMES; n += 1) {
    await remaining(`name ${n}`);
    if (n % 10_000 === 0) await remaining('busy');
  }
  expect(await remaining('busy')).toBe(100 - NAMES / 10_000 - 1);
  expect(await remaining(`name ${NAMES - 49_000}`)).toBe(98);
  for (const n of [0, 1, 50_000, NAMES - 51_000]) expect(await remaining(`name ${n}`)).toBe(99);
});

test('no number of networks makes memory forget a key that was accepted', async () => {
  const take = createBuckets(() => 1_000_000);
  const size = { perMinute: 2, burst: 2 };
  await take('key', size);
  await take('key', size);
  for (let n = 0; n < 50_001; n += 1) await take(`${NETWORK}${n}`, size);
  expect(await take('key', size)).toMatchObject({ retryAfter: 30 });
});

test.runIf(canTestRedis())('buckets in Redis are those in memory, to the millisecond', async () => {
  const server = await startRedis();
  onTestFinished(server.stop);
  const client = await createClient({ url: server.url }).connect();
  onTestFinished(() => client.destroy());
  let now = 0;
  let key = '';
  /** Redis with the clock of the test, and one bucket for every name. It must not expire meanwhile on a busy machine. */
  const redis = {
    isReady: true,
    close: () => {},
    eval: (script: string, _key: string, args: readonly number[]) => {
      const time = `{ ${Math.floor(now / 1_000)}, ${Math.round((now % 1_000) * 1_000)} }`;
      const own = script.replace("redis.call('TIME')", time).replace("'PX', ", "'PX', 60000 + ");
      return client.eval(own, { keys: [key], arguments: args.map(String) });
    },
  };
  const otherwise = () => Promise.reject(new Error('Redis failed'));
  const take = createRedisBuckets(redis, otherwise);
  let count = 0;
  const step = fc.oneof(fc.nat(2_000), fc.constantFrom(0, 0.5, 1, 1.5, 199, 199.5, 200, 599, 599.5, 999, 1_000));
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom(60, 100, 300),
      fc.integer({ min: 1, max: 4 }),
      fc.array(fc.tuple(step, fc.constantFrom(0, 1, 1, 1))),
      async (...given) => {
        const [perMinute, burst, steps] = given;
        const size = { perMinute, burst };
        key = `from ${count} on`;
        now = 1_700_000_000_000;
        const takeHere = createBuckets(() => now);
        for (const [ms, tokens] of steps) {
          now += ms;
          count += 1;
          // Each call has a new name, because `take` remembers empty buckets by another clock.
          expect(await take(`${count}`, size, tokens)).toEqual(await takeHere('a', size, tokens));
        }
      },
    ),
    { numRuns: 50 },
  );
  // The interval of a token is below the resolution of the clock.
  const live = {
    ...redis,
    eval: (script: string, name: string, args: readonly number[]) =>
      client.eval(script, { keys: [name], arguments: args.map(String) }),
  };
  expect(await createRedisBuckets(live, otherwise)('a', { perMinute: 999_999_999_999, burst: 1 })).toBeDefined();
});
