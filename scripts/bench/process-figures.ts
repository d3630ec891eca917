// What Linux says of a process in /proc (proc_pid_stat(5), proc_pid_status(5)). Other systems have none of it.

import { readFileSync, writeFileSync } from 'node:fs';

/** In how many ticks Linux counts a second for processes, on every architecture that Node runs on. */
const TICKS_PER_SECOND = 100;

/** The processor time that a process has used, with all of its threads, in microseconds; undefined where not known. */
export function readCpu(pid: number): number | undefined {
  const text = read(`/proc/${pid}/stat`);
  return text === undefined ? undefined : parseCpu(text);
}

/** Of the text of /proc/PID/stat the processor time in microseconds. */
export function parseCpu(stat: string): number {
  // The name of the program, in parentheses, may hold blanks and parentheses of its own. utime and stime are the 14th
  // and 15th field, the 12th and 13th behind the name.
  const [user, system] = stat
    .slice(stat.lastIndexOf(')') + 2)
    .split(' ')
    .slice(11, 13)
    .map(Number);
  return (((user ?? 0) + (system ?? 0)) / TICKS_PER_SECOND) * 1e6;
}

/** The most memory that a process has had resident, in bytes, since resetPeakMemory; undefined where not known. */
export function readPeakMemory(pid: number): number | undefined {
  return readStatus(pid, parsePeakMemory);
}

/** Of the text of /proc/PID/status the highest resident memory in bytes. */
export function parsePeakMemory(status: string): number | undefined {
  return parseKilobytes(/^VmHWM:\s*(\d+) kB$/m.exec(status));
}

/** The memory that a process has resident now, in bytes; undefined where not known. */
export function readMemory(pid: number): number | undefined {
  return readStatus(pid, parseMemory);
}

/** Of the text of /proc/PID/status the resident memory in bytes. */
export function parseMemory(status: string): number | undefined {
  return parseKilobytes(/^VmRSS:\s*(\d+) kB$/m.exec(status));
}

/** Has the highest memory counted anew, where that is allowed; otherwise it stays that of the whole life. */
export function resetPeakMemory(pid: number): void {
  try {
    writeFileSync(`/proc/${pid}/clear_refs`, '5');
  } catch {
    // Not Linux, or not ours to reset.
  }
}

function readStatus(pid: number, parse: (status: string) => number | undefined): number | undefined {
  const text = read(`/proc/${pid}/status`);
  return text === undefined ? undefined : parse(text);
}

function parseKilobytes(match: RegExpExecArray | null): number | undefined {
  return match ? Number(match[1]) * 1024 : undefined;
}

function read(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return undefined;
  }
}
