import { setTimeout as delay } from 'node:timers/promises';

const TIMEOUT_MS = 60_000;

/** Waits until a condition throws no more, and gives what it returns. */
export async function waitFor<T>(condition: () => T | Promise<T>): Promise<T> {
  for (const end = performance.now() + TIMEOUT_MS; ; await delay(20)) {
    try {
      return await condition();
    } catch (error) {
      if (performance.now() > end) throw error;
    }
  }
}
