import { setTimeout as delay } from 'node:timers/promises';
import { runSql } from './servers.ts';

const TIMEOUT_MS = 60_000;

/** Waits until a condition no longer throws, and returns its result. */
export async function waitFor<T>(condition: () => T | Promise<T>): Promise<T> {
  for (const end = performance.now() + TIMEOUT_MS; ; await delay(20)) {
    try {
      return await condition();
    } catch (error) {
      if (performance.now() > end) throw error;
    }
  }
}

/** Waits until this many sessions of a database wait for a lock. */
export function waitForBlocked(adminUrl: string, sessions: number): Promise<void> {
  const sql = `select from pg_locks where not granted and pid in
    (select pid from pg_stat_activity where datname = current_database())`;
  return waitFor(async () => {
    const { length } = await runSql(adminUrl, sql);
    if (length !== sessions) throw new Error(`${length} sessions wait for a lock: expected ${sessions}`);
  });
}
