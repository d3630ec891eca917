import { describe, expect, test } from 'vitest';
import { type Limits, limited } from '../../src/store/limits.ts';
import type { Call, Result, Store } from '../../src/store/store.ts';
import { createStubStore } from '../helpers/stub-store.ts';

const never = new AbortController().signal;
const CALL: Call = { function: 'f', args: {}, returns: 'rows', readOnly: true };

const turn = () => new Promise(setImmediate);

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
    await turn();
  };
  return { store: { ...store, call }, begun, endNext };
}

test('waiting calls run round-robin by share, in order within a share', async () => {
  const { store, begun, endNext } = createSlowStore();
  const { call, load } = limited(store, { slots: 1, waiting: 10 });
  const sent = ['a1', 'a2', 'a3', 'a4', 'b1', 'b2', 'c1'].map((requestId) =>
    call(CALL, never, { requestId, share: requestId.slice(0, 1) }),
  );
  await turn();
  expect(load()).toEqual({ running: 1, waiting: 6 });
  for (const _ of sent) await endNext();
  await Promise.all(sent);
  expect(begun).toEqual(['a1', 'a2', 'b1', 'c1', 'a3', 'b2', 'a4']);
  expect(load()).toEqual({ running: 0, waiting: 0 });
});

test('over the limit, the newest call of the largest share is refused', async () => {
  const { store, begun, endNext } = createSlowStore();
  const { call, load } = limited(store, { slots: 1, waiting: 3 });
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

test('one share cannot take all slots, even if no other has a call', async () => {
  const { store, begun, endNext } = createSlowStore();
  const { call, load } = limited(store, { slots: 3, slotsOfShare: 2, waiting: 10 });
  const send = (requestId: string) => call(CALL, never, { requestId, share: requestId.slice(0, 1) });
  const sent = ['a1', 'a2', 'a3', 'a4', 'b1', 'b2'].map(send);
  await turn();
  expect(begun).toEqual(['a1', 'a2', 'b1']);
  expect(load()).toEqual({ running: 3, waiting: 3 });
  for (const _ of sent) await endNext();
  await Promise.all(sent);
  // When b1 ends, a has both of its slots.
  expect(begun).toEqual(['a1', 'a2', 'b1', 'a3', 'b2', 'a4']);
  expect(load()).toEqual({ running: 0, waiting: 0 });
});

test('a batch of any size is one slot of its share', async () => {
  const { store, endNext } = createSlowStore();
  const { call, load } = limited({ ...store, batch: 7 }, { slots: 2, slotsOfShare: 1, waiting: 20 });
  const send = (share: string) => call(CALL, never, { requestId: share, share });
  const sent = ['x', 'y', ...Array(14).fill('a')].map(send);
  await turn();
  await endNext();
  expect(load()).toEqual({ running: 8, waiting: 7 });
  await endNext();
  expect(load()).toEqual({ running: 7, waiting: 7 });
  for (const _ of sent) await endNext();
  await Promise.all(sent);
});

test('an aborted waiting call is never started, and others take its turn', async () => {
  const { store, begun, endNext } = createSlowStore();
  const { call, load } = limited(store, { slots: 1, waiting: 10 });
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
  const { call } = limited(store, { slots: 1, waiting: 0 });
  const first = call(CALL, never);
  expect(await call(CALL, never)).toEqual({
    failure: { kind: 'storeOverloaded', cause: 'STORE_WAITING: 0 calls are waiting' },
  });
  await endNext();
  expect(await first).toEqual({ json: '[]', count: 0 });
});

describe('a store that takes batches of reads', () => {
  const WRITE: Call = { ...CALL, readOnly: false };

  function open(limits: Limits) {
    const { store, ...slow } = createSlowStore();
    const { call, load } = limited({ ...store, batch: 4 }, limits);
    const send = (requestId: string, what = CALL) => call(what, never, { requestId, share: requestId.slice(0, 1) });
    return { ...slow, send, load };
  }

  test('gets one read for each slot while slots are free', async () => {
    const { begun, send, endNext, load } = open({ slots: 3, waiting: 20 });
    const sent = ['a1', 'b1', 'a2'].map((name) => send(name));
    await turn();
    expect(begun).toEqual(['a1', 'b1', 'a2']);
    expect(load()).toEqual({ running: 3, waiting: 0 });
    for (const _ of sent) await endNext();
    await Promise.all(sent);
  });

  test('gets an equal part of the waiting reads for each slot that becomes free', async () => {
    const { begun, send, endNext, load } = open({ slots: 1, waiting: 20 });
    const sent = ['a1', 'a2', 'a3', 'a4', 'b1', 'b2', 'c1'].map((name) => send(name));
    await turn();
    expect(begun).toEqual(['a1']);
    await endNext();
    expect(begun.splice(0)).toEqual(['a1', 'a2', 'b1', 'c1', 'a3']);
    expect(load()).toEqual({ running: 4, waiting: 2 });
    // The slot is free once all four have ended.
    for (let count = 0; count < 3; count += 1) await endNext();
    expect(begun).toEqual([]);
    await endNext();
    expect(begun).toEqual(['b2', 'a4']);
    for (const _ of sent) await endNext();
    await Promise.all(sent);
  });

  test('gets a write alone', async () => {
    const { begun, send, endNext } = open({ slots: 1, waiting: 20 });
    const sent = [send('a1'), send('b1'), send('c1', WRITE), send('d1'), send('e1')];
    await turn();
    await endNext();
    expect(begun.splice(0)).toEqual(['a1', 'b1', 'd1', 'e1']);
    for (let count = 0; count < 3; count += 1) await endNext();
    expect(begun).toEqual(['c1']);
    for (const _ of sent) await endNext();
    await Promise.all(sent);
  });
});

test('reads that go to other servers have slots of their own', async () => {
  const { store, begun, endNext } = createSlowStore();
  const { call, load } = limited(store, { slots: 1, slotsOfWrites: 1, waiting: 10 });
  const sent = ['write 1', 'write 2', 'read 1', 'read 2'].map((requestId) =>
    call({ ...CALL, readOnly: requestId.startsWith('read') }, never, { requestId, share: 'a' }),
  );
  await turn();
  expect(begun).toEqual(['write 1', 'read 1']);
  expect(load()).toEqual({ running: 2, waiting: 2 });
  for (const _ of sent) await endNext();
  await Promise.all(sent);
  expect(begun).toEqual(['write 1', 'read 1', 'write 2', 'read 2']);
});
