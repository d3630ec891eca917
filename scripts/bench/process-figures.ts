// Processor time and memory of a process, from Linux's /proc (proc_pid_stat(5), proc_pid_status(5)). Other systems give
// undefined.

import { readFileSync, writeFileSync } from 'node:fs';

/** Clock ticks per second, on every architecture that Node supports. */
const TICKS_PER_SECOND = 100;

/** The processor time that a process has used, in µs. */
export function readCpu(pid: number): number | undefined {
  const stat = read(pid, 'stat');
  return stat === undefined ? undefined : parseCpu(stat);
}

/** The processor time that a server has used with its processes, those that have ended too, in µs. */
export function readFamilyCpu(pid: number): number | undefined {
  const children = read(pid, `task/${pid}/children`)?.trim().split(' ').filter(Boolean).map(Number);
  const stat = read(pid, 'stat');
  if (!children || stat === undefined) return undefined;
  return children.reduce((sum, child) => sum + (readCpu(child) ?? 0), parseCpu(stat, [11, 12, 13, 14]));
}

/** The processor time in the text of /proc/PID/stat, in µs. */
export function parseCpu(stat: string, places: readonly number[] = [11, 12]): number {
  // The program's name is in parentheses and may contain blanks and parentheses. utime and stime are the 14th and 15th
  // field, the 12th and 13th after the name; those of children that have ended follow them.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return (places.reduce((sum, place) => sum + Number(fields[place]), 0) / TICKS_PER_SECOND) * 1e6;
}

/** The resident memory of a process now, in bytes. */
export function readMemory(pid: number): number | undefined {
  return parseMemory(read(pid, 'status') ?? '', 'VmRSS');
}

/** The peak resident memory of a process since resetPeakMemory, in bytes. */
export function readPeakMemory(pid: number): number | undefined {
  return parseMemory(read(pid, 'status') ?? '', 'VmHWM');
}

/** A field of the text of /proc/PID/status, in bytes. */
export function parseMemory(status: string, field: 'VmRSS' | 'VmHWM'): number | undefined {
  const match = new RegExp(`^${field}:\\s*(\\d+) kB$`, 'm').exec(status);
  return match ? Number(match[1]) * 1024 : undefined;
}

/** Resets the peak memory, where that is allowed. */
export function resetPeakMemory(pid: number): void {
  try {
    writeFileSync(`/proc/${pid}/clear_refs`, '5');
  } catch {
    // Not Linux, or not permitted.
  }
}

function read(pid: number, file: string): string | undefined {
  try {
    return readFileSync(`/proc/${pid}/${file}`, 'utf8');
  } catch {
    return undefined;
  }
}
