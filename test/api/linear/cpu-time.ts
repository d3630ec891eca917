/**
 * The CPU time that this thread has used, in milliseconds. Linux counts that of a running thread at the next tick of its
 * clock, up to 4 ms late, but brings the calling one up to date for a reading of the whole process.
 */
export function readCpuTime(): number {
  process.cpuUsage();
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1_000;
}
