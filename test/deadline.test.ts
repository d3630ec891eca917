import { setTimeout as delay, setImmediate as turn } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { within } from '../src/deadline.ts';

test('work that ends in the turn of its deadline is in time, and its signal stays as it is', async () => {
  const controller = new AbortController();
  const work = () => {
    const done = delay(20, 'done');
    // Both timers are due in the next turn.
    const end = performance.now() + 40;
    while (performance.now() < end);
    return done;
  };
  await within(20, work, controller);
  await turn();
  expect(controller.signal.aborted).toBe(false);
});

test('work that throws at once leaves no timer', async () => {
  const controller = new AbortController();
  const work = () => {
    throw new Error('at once');
  };
  await expect(within(20, work, controller)).rejects.toThrow('at once');
  await delay(40);
  await turn();
  expect(controller.signal.aborted).toBe(false);
});
