import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { limited } from '../../src/store/limits.ts';
import type { Call, Result, Store } from '../../src/store/store.ts';
import { createStubStore } from '../helpers/stub-store.ts';

const never = new AbortController().signal;
const CALL: Call = { function: 'f', args: {}, returns: 'rows', readOnly: true };

/** A store whose calls end one by one when the test says so, and the names of those that have begun. */
function createSlowStore(): { store: Store; begun: string[]; endNext: () => Promise<void> } {
  const begun: string[] = [];
  const ends: ((result: Result) => void)[] = [];
  const store = createStubStore(() => ({ json: '[]' }));
  const call: Store['call'] = (_call, _signal, origin) => {
    begun.push(origin?.requestId ?? '');
    return new Promise((resolve) => ends.push(resolve));
  };
  const endNext = async () => {
    ends.shift()?.({ json: '[]', count: 0 });
    await new Promise(setImmediate);
  };
  return { store: { ...store, call }, begun, endNext };
}

test('waiting calls run round-robin by share, in order within a share', async () => {
  const { store, begun, endNext } = createSlowStore();
  const { call, load } = limited(store, { running: 1, waiting: 10 });
  const sent = ['a1', 'a2', 'a3', 'a4', 'b1', 'b2', 'c1'].map((requestId) =>
    call(CALL, never, { requestId, share: requestId.slice(0, 1) }),
  );
  expect(load()).toEqual({ running: 1, waiting: 6 });
  for (const _ of sent) await endNext();
  await Promise.all(sent);
  expect(begun).toEqual(['a1', 'a2', 'b1', 'c1', 'a3', 'b2', 'a4']);
  expect(load()).toEqual({ running: 0, waiting: 0 });
});

test('over the limit, the newest call of the largest share is refused', async () => {
  const { store, begun, endNext } = createSlowStore();
  const { call, load } = limited(store, { running: 1, waiting: 3 });
  const ends: string[] = [];
  const sent = ['a1', 'a2', 'a3', 'a4', 'b1', 'a5', 'c1', 'd1'].map(async (requestId) => {
    const result = await call(CALL, never, { requestId, share: requestId.slice(0, 1) });
    if ('failure' in result) ends.push(`${requestId} ${result.failure.kind}`);
  });
  await new Promise(setImmediate);
  // a5 finds a2 and a3 in front of it; c1 takes the place of a3, and d1 finds nobody with more than one.
  expect(ends).toEqual(['a4', 'a5', 'a3', 'd1'].map((name) => `${name} storeOverloaded`));
  expect(load()).toEqual({ running: 1, waiting: 3 });
  for (const _ of sent) await endNext();
  await Promise.all(sent);
  expect(begun).toEqual(['a1', 'a2', 'b1', 'c1']);
});

test('one share cannot take all places, even if no other has a call', async () => {
  const { store, begun, endNext } = createSlowStore();
  const { call, load } = limited(store, { running: 3, runningOfShare: 2, waiting: 10 });
  const send = (requestId: string) => call(CALL, never, { requestId, share: requestId.slice(0, 1) });
  const sent = ['a1', 'a2', 'a3', 'a4', 'b1', 'b2'].map(send);
  expect(begun).toEqual(['a1', 'a2', 'b1']);
  expect(load()).toEqual({ running: 3, waiting: 3 });
  for (const _ of sent) await endNext();
  await Promise.all(sent);
  // When b1 ends, a has both of its places.
  expect(begun).toEqual(['a1', 'a2', 'b1', 'a3', 'b2', 'a4']);
  expect(load()).toEqual({ running: 0, waiting: 0 });
});

test('an aborted waiting call is never started, and others take its turn', async () => {
  const { store, begun, endNext } = createSlowStore();
  const { call, load } = limited(store, { running: 1, waiting: 10 });
  const controller = new AbortController();
  const first = call(CALL, never, { requestId: 'a1', share: 'a' });
  const given = call(CALL, controller.signal, { requestId: 'a2', share: 'a' });
  const last = call(CALL, never, { requestId: 'b1', share: 'b' });
  controller.abort();
  expect(await given).toMatchObject({ failure: { kind: 'storeTimeout' } });
  expect(load()).toEqual({ running: 1, waiting: 1 });
  await endNext();
  await endNext();
  await Promise.all([first, last]);
  expect(begun).toEqual(['a1', 'b1']);
});

test('without a queue, calls that cannot start at once are refused', async () => {
  const { store, endNext } = createSlowStore();
  const { call } = limited(store, { running: 1, waiting: 0 });
  const first = call(CALL, never);
  expect(await call(CALL, never)).toEqual({
    failure: { kind: 'storeOverloaded', cause: 'STORE_WAITING: 0 calls are waiting' },
  });
  await endNext();
  expect(await first).toEqual({ json: '[]', count: 0 });
});

describe('a store whose connections are shared by quick reads', () => {
  const WRITE: Call = { ...CALL, readOnly: false };

  /** The calls that have begun, of three shares; `proveQuick` lets a share's first reads be quick. */
  function open() {
    const { store, ...slow } = createSlowStore();
    const limits = { running: 2, runningOfShare: 1, waiting: 20 };
    const { call, load } = limited({ ...store, readsPerConnection: 4 }, limits);
    const send = (requestId: string, what = CALL) => call(what, never, { requestId, share: requestId.slice(0, 1) });
    const proveQuick = async (share: string) => {
      // One of them may take long on a busy machine.
      for (let count = 0; count < 20; count += 1) {
        const sent = send(share);
        await slow.endNext();
        await sent;
      }
      slow.begun.length = 0;
    };
    return { ...slow, send, load, proveQuick };
  }

  test('lets reads share it once a share has proved quick', async () => {
    const { begun, send, proveQuick, endNext } = open();
    await proveQuick('a');
    const sent = ['a1', 'a2', 'a3', 'a4', 'a5', 'b1', 'b2'].map((name) => send(name));
    expect(begun).toEqual(['a1', 'a2', 'a3', 'a4', 'b1']);
    for (const _ of sent) await endNext();
    await Promise.all(sent);
    expect(begun).toEqual(['a1', 'a2', 'a3', 'a4', 'b1', 'a5', 'b2']);
  });

  test('gives a share whose reads take long one place for each, those that wait already too', async () => {
    const { begun, send, proveQuick, endNext, load } = open();
    await proveQuick('a');
    const sent = ['a1', 'a2', 'a3', 'a4', 'a5', 'a6'].map((name) => send(name));
    await delay(200);
    for (const _ of ['a1', 'a2', 'a3', 'a4']) await endNext();
    expect(begun).toEqual(['a1', 'a2', 'a3', 'a4', 'a5']);
    expect(load()).toEqual({ running: 1, waiting: 1 });
    for (const _ of sent) await endNext();
    await Promise.all(sent);
  });

  test('lets a write begin, however many reads come', async () => {
    const { begun, send, proveQuick, endNext } = open();
    for (const share of ['a', 'b', 'c']) await proveQuick(share);
    const reads = ['a1', 'a2', 'a3', 'b1', 'b2', 'b3'].map((name) => send(name));
    const sent = [...reads, send('c1', WRITE), send('a4'), send('b4')];
    expect(begun).toEqual(['a1', 'a2', 'a3', 'b1', 'b2', 'b3']);
    // The turns of a and b come before that of c, and then no more of theirs.
    await endNext();
    expect(begun.splice(0)).toEqual(['a1', 'a2', 'a3', 'b1', 'b2', 'b3', 'a4', 'b4']);
    sent.push(send('a5'));
    for (const _ of ['a2', 'a3']) await endNext();
    expect(begun).toEqual([]);
    await endNext();
    expect(begun).toEqual(['c1']);
    await endNext();
    expect(begun).toEqual(['c1', 'a5']);
    for (const _ of sent) await endNext();
    await Promise.all(sent);
  });
});
