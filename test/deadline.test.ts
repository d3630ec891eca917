import { setTimeout as delay, setImmediate as turn } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { within } from '../src/deadline.ts';

test('work that ends in the turn of its deadline is in time, and its signal stays as it is', async () => {
  const controller = new AbortController();
  await within(20, () => delay(20, 'done'), controller);
  await turn();
  expect(controller.signal.aborted).toBe(false);
});
