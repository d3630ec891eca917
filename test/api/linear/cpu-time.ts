/**
 * The CPU time that this thread has used, in milliseconds. Linux updates it only at the next tick of its clock, up to 4 ms
 * late, but updates the calling thread at once when the time of the whole process is read.
 */
export function readCpuTime(): number {
  process.cpuUsage();
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1_000;
}
