import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import type { Call, Result, Store } from '../../src/store/store.ts';
import { limited, type StoreLimits } from '../../src/store/turns.ts';
import { createStubStore } from '../helpers/stub-store.ts';

const never = new AbortController().signal;
const CALL: Call = { function: 'f', args: {}, returns: 'rows', readOnly: true };

const turn = () => new Promise(setImmediate);

/** A limited store whose calls end one by one when the test says so, and the names of those that have begun. */
function open(limits: StoreLimits, batch = 1) {
  const begun: string[] = [];
  const ends: ((result: Result) => void)[] = [];
  const slow: Store['call'] = (_call, _signal, origin) => {
    begun.push(origin?.requestId ?? '');
    return new Promise((resolve) => ends.push(resolve));
  };
  const store = createStubStore();
  const { call, load } = limited({ ...store, call: slow, batch }, limits);
  /** Sends a call of the share that its name begins with. */
  const send = (requestId: string, { readOnly = true, signal = never } = {}) =>
    call({ ...CALL, readOnly }, signal, { requestId, share: requestId.slice(0, 1) });
  /** Sends each call in a turn of its own. */
  const sendEach = async (names: readonly string[]) => {
    const sent: Promise<Result>[] = [];
    for (const name of names) {
      sent.push(send(name));
      await turn();
    }
    return sent;
  };
  const endNext = async () => {
    ends.shift()?.({ json: '[]', count: 0 });
    // One turn is for the end of the call, and one for the calls that take its slot.
    await turn();
    await turn();
  };
  const endAll = async (sent: readonly Promise<unknown>[]) => {
    for (const _ of sent) await endNext();
    await Promise.all(sent);
  };
  return { begun, send, sendEach, load, endNext, endAll };
}

test('waiting calls run round-robin by share, in order within a share', async () => {
  const { begun, sendEach, load, endAll } = open({ slots: 1, waiting: 10 });
  const sent = await sendEach(['a1', 'a2', 'a3', 'a4', 'b1', 'b2', 'c1']);
  expect(load()).toEqual({ running: 1, waiting: 6 });
  await endAll(sent);
  expect(begun).toEqual(['a1', 'a2', 'b1', 'c1', 'a3', 'b2', 'a4']);
  expect(load()).toEqual({ running: 0, waiting: 0 });
});

test('over the limit, the newest call of the largest share is refused', async () => {
  const { begun, send, load, endAll } = open({ slots: 1, waiting: 3 });
  const ends: unknown[] = [];
  const sent = ['a1', 'a2', 'a3', 'a4', 'b1', 'a5', 'c1', 'd1'].map(async (name) => {
    const result = await send(name);
    if ('failure' in result) ends.push([name, result.failure]);
  });
  await turn();
  // Share a has had its turn, so it also loses its last waiting call when the others have one each.
  const failure = { kind: 'storeOverloaded', cause: '3 calls are waiting' };
  expect(ends).toEqual(['a5', 'a4', 'a3', 'a2'].map((name) => [name, failure]));
  expect(load()).toEqual({ running: 1, waiting: 3 });
  await endAll(sent);
  expect(begun).toEqual(['a1', 'b1', 'c1', 'd1']);
});

test('one share cannot take all slots, even if no other has a call', async () => {
  const { begun, sendEach, load, endAll } = open({ slots: 3, slotsOfShare: 2, waiting: 10 });
  const sent = await sendEach(['a1', 'a2', 'a3', 'a4', 'b1', 'b2']);
  expect(begun).toEqual(['a1', 'a2', 'b1']);
  expect(load()).toEqual({ running: 3, waiting: 3 });
  await endAll(sent);
  // When b1 ends, share a already has both of its slots.
  expect(begun).toEqual(['a1', 'a2', 'b1', 'a3', 'b2', 'a4']);
  expect(load()).toEqual({ running: 0, waiting: 0 });
});

test.each(['40001', '40P01', '25006', '25P02', '26000', '42P05', '23505'])(
  'a write that fails with %s is made once more only if Postgres says that another try may succeed',
  async (code) => {
    const failed: Result = { failure: { kind: 'storeError', cause: { code } } };
    const once = vi.fn<Store['call']>().mockResolvedValueOnce(failed).mockResolvedValueOnce({ json: '{}', count: 1 });
    const { call } = limited({ ...createStubStore(), call: once }, { slots: 1, waiting: 1 });
    const result = await call({ ...CALL, readOnly: false }, never);
    expect(result).toEqual(code === '23505' ? failed : { json: '{}', count: 1 });
  },
);

test('an aborted waiting call is never started, and others take its turn', async () => {
  const { begun, send, sendEach, load, endAll } = open({ slots: 1, waiting: 10 });
  const controller = new AbortController();
  const first = await sendEach(['a1']);
  const given = send('a2', { signal: controller.signal });
  const last = send('b1');
  controller.abort();
  expect(await given).toMatchObject({ failure: { kind: 'storeTimeout' } });
  expect(load()).toEqual({ running: 1, waiting: 1 });
  await endAll([...first, last]);
  expect(begun).toEqual(['a1', 'b1']);
});

describe('a store that takes batches of reads', () => {
  // The timers are fake: reads count as slow after 5 ms, which are soon over on a busy machine.
  beforeAll(() => void vi.useFakeTimers({ toFake: ['setTimeout', 'performance'] }));
  afterAll(() => void vi.useRealTimers());

  test('gets a read for each of two slots, and the others when those are slow', async () => {
    const { begun, sendEach, load, endAll } = open({ slots: 4, waiting: 20 }, 4);
    const sent = await sendEach(['a1', 'b1', 'c1', 'd1', 'e1']);
    expect(load()).toEqual({ running: 2, waiting: 3 });
    await vi.waitFor(() => expect(load()).toEqual({ running: 5, waiting: 0 }), 60_000);
    expect(begun).toEqual(['a1', 'b1', 'c1', 'd1', 'e1']);
    await endAll(sent);
  });

  test('gets the reads that arrive in one turn of the event loop in two batches', async () => {
    const { begun, send, load, endAll } = open({ slots: 4, waiting: 20 }, 4);
    const sent = ['a1', 'b1', 'c1', 'd1', 'e1', 'f1'].map((name) => send(name));
    expect(load()).toEqual({ running: 0, waiting: 6 });
    await turn();
    expect(begun).toEqual(['a1', 'b1', 'c1', 'd1', 'e1', 'f1']);
    await endAll(sent);
  });

  test('gets all waiting reads for one slot where it has one for fast reads', async () => {
    const { begun, sendEach, endNext, endAll } = open({ slots: 4, fastSlots: 1, waiting: 20 }, 4);
    const sent = await sendEach(['a1', 'b1', 'c1', 'd1']);
    expect(begun).toEqual(['a1']);
    await endNext();
    expect(begun).toEqual(['a1', 'b1', 'c1', 'd1']);
    await endAll(sent);
  });

  test('gets a write in each free slot while reads wait for a fast one', async () => {
    const { begun, send, sendEach, endAll } = open({ slots: 4, waiting: 20 }, 4);
    const sent = [...(await sendEach(['a1', 'b1', 'c1'])), send('d1', { readOnly: false })];
    await turn();
    expect(begun).toEqual(['a1', 'b1', 'd1']);
    await endAll(sent);
  });

  test('gets an equal part of the waiting reads for each slot that becomes free', async () => {
    const { begun, sendEach, load, endNext, endAll } = open({ slots: 1, waiting: 20 }, 4);
    const sent = await sendEach(['a1', 'a2', 'a3', 'a4', 'b1', 'b2', 'c1']);
    expect(begun).toEqual(['a1']);
    await endNext();
    expect(begun.splice(0)).toEqual(['a1', 'a2', 'b1', 'c1', 'a3']);
    expect(load()).toEqual({ running: 4, waiting: 2 });
    // The slot becomes free once all four have ended.
    for (let count = 0; count < 3; count += 1) await endNext();
    expect(begun).toEqual([]);
    await endNext();
    expect(begun).toEqual(['b2', 'a4']);
    await endAll(sent);
  });

  test('gives one slot of a share to a batch of any size', async () => {
    const { sendEach, load, endNext, endAll } = open({ slots: 2, slotsOfShare: 1, waiting: 20 }, 7);
    const sent = await sendEach(['x', 'y', ...Array(14).fill('a')]);
    await endNext();
    expect(load()).toEqual({ running: 8, waiting: 7 });
    await endNext();
    expect(load()).toEqual({ running: 7, waiting: 7 });
    await endAll(sent);
  });

  test('gets a write alone', async () => {
    const { begun, send, endNext, endAll } = open({ slots: 1, waiting: 20 }, 4);
    const sent = [send('a1'), send('b1'), send('c1', { readOnly: false }), send('d1'), send('e1')];
    await turn();
    await endNext();
    expect(begun.splice(0)).toEqual(['a1', 'b1', 'd1', 'e1']);
    for (let count = 0; count < 3; count += 1) await endNext();
    expect(begun).toEqual(['c1']);
    await endAll(sent);
  });
});
