import { vi } from 'vitest';

/** Waits until a condition throws no more, and gives what it returns. */
export function waitFor<T>(condition: () => T | Promise<T>): Promise<T> {
  return vi.waitFor(condition, { timeout: 60_000, interval: 20 });
}
