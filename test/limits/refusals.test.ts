import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { createDelays } from '../../src/limits/refusals.ts';
import { KEYS } from '../helpers/api.ts';
import { startOwnGateway, type TestGateway, type TestGatewayOptions } from '../helpers/gateway.ts';
import { createStubStore, limitsOf } from '../helpers/stub-store.ts';
import { waitFor } from '../helpers/wait-for.ts';

const { signal: never } = new AbortController();
const gone = AbortSignal.abort();
const ADDRESS = '203.0.113.1';

describe('the permits', () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  /** Delays refusals, except for one a minute and address. */
  const create = () => {
    const refusals = createDelays(1);
    const isTaken = (address: string) => {
      const free = refusals.takePermit(address);
      free?.();
      return free === undefined;
    };
    return { ...refusals, isTaken };
  };

  test('do not matter if delays are off', async () => {
    const { takePermit, holdBack } = createDelays(0);
    for (let n = 0; n < 50; n += 1) {
      expect(takePermit(ADDRESS)).toBeDefined();
      expect(await holdBack(ADDRESS, never)).toBe(true);
    }
  });

  test('of an address are 10, and stay taken when its clients give up, until the delay is over', async () => {
    const { holdBack, isTaken } = create();
    expect(await holdBack(ADDRESS, never)).toBe(true);
    for (let n = 0; n < 10; n += 1) {
      expect(isTaken(ADDRESS)).toBe(false);
      expect(await holdBack(ADDRESS, gone)).toBe(true);
    }
    expect([isTaken(ADDRESS), isTaken('203.0.113.2')]).toEqual([true, false]);
    vi.advanceTimersByTime(5_000);
    expect(isTaken(ADDRESS)).toBe(false);
  });

  test('are taken while keys are verified, so that guesses at the same moment do not evade them', async () => {
    const { holdBack, takePermit } = create();
    await holdBack(ADDRESS, never);
    const permits = Array.from({ length: 11 }, () => takePermit(ADDRESS));
    expect(permits.map((permit) => permit !== undefined)).toEqual([...Array(10).fill(true), false]);
    permits[0]?.();
    expect(takePermit(ADDRESS)).toBeDefined();
  });

  test('of all addresses are 2,000', async () => {
    const { holdBack } = create();
    for (let n = 0; n < 2_000; n += 1) {
      for (const signal of [never, gone]) expect(await holdBack(`10.0.${n >> 8}.${n & 255}`, signal)).toBe(true);
    }
    expect([await holdBack(ADDRESS, never), await holdBack(ADDRESS, never)]).toEqual([true, false]);
  });

  test('of the address that was quiet for the longest are forgotten after 10,000 others', async () => {
    const { holdBack } = create();
    const address = (n: number) => `10.${n >> 16}.${(n >> 8) & 255}.${n & 255}`;
    for (let n = 0; n < 10_001; n += 1) await holdBack(address(n), never);
    await holdBack(address(10_000), gone);
    // If it were held back, this would never end: the clock stands still, and the client waits.
    expect(await holdBack(address(0), never)).toBe(true);
  });
});

describe('a gateway that gives an address one refusal a minute at once', () => {
  const store = createStubStore(({ function: name, args }) => {
    if (name === 'record_usage') return limitsOf(KEYS.bosque, { per_day: 1 });
    if (args.p_api_key === 'reader') {
      return { failure: { kind: 'refusedKey', text: 'API Key sem permissão', lacksPermission: true } };
    }
    const isKnown = [KEYS.aurora, KEYS.bosque].includes(String(args.p_api_key));
    return isKnown ? { json: '[]', count: 0 } : { failure: { kind: 'refusedKey', text: 'API Key inválida' } };
  });

  const start = (options: Partial<TestGatewayOptions> = {}) =>
    startOwnGateway({ store, refusalsPerMinute: 1, ...options });

  async function send({ url }: TestGateway, key: string, signal = never): Promise<[number, unknown]> {
    const answer = await fetch(`${url}/academias?limit=1`, { headers: { 'X-Api-Key': key }, signal });
    return [answer.status, await answer.json()];
  }

  /** Whether a refusal is still unanswered when a correct key that came later has its answer. */
  async function isLate(gateway: TestGateway): Promise<boolean> {
    const controller = new AbortController();
    let isAnswered = false;
    const refusal = send(gateway, 'wrong', controller.signal).then(
      () => {
        isAnswered = true;
      },
      () => {},
    );
    for (let n = 0; n < 20; n += 1) expect((await send(gateway, KEYS.aurora))[0]).toBe(200);
    const isLate = !isAnswered;
    controller.abort();
    await refusal;
    return isLate;
  }

  test('answers later ones late and unchanged, and those of a key over its limits too', async () => {
    const gateway = await start({ hasWholeStore: true });
    const wrong = [401, { error: 'API Key inválida' }];
    const tooMany = [429, { error: 'Too many requests' }];
    expect(await send(gateway, 'wrong')).toEqual(wrong);
    expect((await send(gateway, KEYS.bosque))[0]).toBe(200);
    expect(await send(gateway, KEYS.bosque)).toEqual(tooMany);
    const sendLate = async (key: string) => {
      const begun = performance.now();
      const answer = await send(gateway, key);
      expect(performance.now() - begun).toBeGreaterThan(4_000);
      return answer;
    };
    const late = [sendLate('wrong'), sendLate(KEYS.bosque)];
    expect(await isLate(gateway)).toBe(true);
    expect(await Promise.all(late)).toEqual([wrong, tooMany]);
  });

  test('does not count a key without the permission, and remembers it as a right one', async () => {
    const gateway = await start();
    const refused = [401, { error: 'API Key sem permissão' }];
    for (let n = 0; n < 3; n += 1) expect(await send(gateway, 'reader')).toEqual(refused);
    expect(await isLate(gateway)).toBe(false);
    expect(await isLate(gateway)).toBe(true);
    expect(await send(gateway, 'reader')).toEqual(refused);
  });

  test('refuses guesses beyond the places without a store call, and serves a key that was accepted before', async () => {
    const gateway = await start();
    expect((await send(gateway, KEYS.aurora))[0]).toBe(200);
    store.calls.length = 0;
    const client = new AbortController();
    const guess = () => send(gateway, 'wrong', client.signal).catch(() => undefined);
    await guess();
    const guesses = Array.from({ length: 10 }, guess);
    await waitFor(() => expect(store.calls).toHaveLength(11));
    // The client gives up in order to guess again at once.
    client.abort();
    await Promise.all(guesses);
    const told = [429, { error: 'Too many refused requests' }];
    // Until a key was accepted once, the answer does not reveal that it is correct either.
    for (const key of ['wrong', KEYS.bosque]) expect(await send(gateway, key)).toEqual(told);
    expect(store.calls).toHaveLength(11);
    expect((await send(gateway, KEYS.aurora))[0]).toBe(200);
  });
});
