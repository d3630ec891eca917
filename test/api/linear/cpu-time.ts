import { setTimeout as delay } from 'node:timers/promises';

/**
 * The CPU time that this thread has used, in milliseconds. Linux counts that of a running thread at the next tick of
 * its clock, up to 4 ms late, and that of one that has slept at once.
 */
export async function readCpuTime(): Promise<number> {
  await delay(1);
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1_000;
}
