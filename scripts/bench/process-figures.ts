// What Linux says of a process in /proc (proc_pid_stat(5), proc_pid_status(5)). Other systems have none of it.

import { readFileSync, writeFileSync } from 'node:fs';

/** In how many ticks Linux counts a second for processes, on every architecture that Node runs on. */
const TICKS_PER_SECOND = 100;

/** The processor time that a process and its children have used, in microseconds; undefined where not known. */
export function readCpu(pid: number): number | undefined {
  return sum(readFamily(pid), (one) => {
    const text = read(`/proc/${one}/stat`);
    return text === undefined ? undefined : parseCpu(text);
  });
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

/**
 * The most memory that a process and its children have had resident, each at its own time, in bytes, since
 * resetPeakMemory; undefined where not known.
 */
export function readPeakMemory(pid: number): number | undefined {
  return sum(readFamily(pid), (one) => readStatus(one, parsePeakMemory));
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
    for (const one of readFamily(pid)) writeFileSync(`/proc/${one}/clear_refs`, '5');
  } catch {
    // Not Linux, or not ours to reset.
  }
}

/** A process and all that it has started and that still run. */
export function readFamily(pid: number): readonly number[] {
  const children = read(`/proc/${pid}/task/${pid}/children`)?.match(/\d+/g) ?? [];
  return [pid, ...children.flatMap((child) => readFamily(Number(child)))];
}

function sum(pids: readonly number[], readOne: (pid: number) => number | undefined): number | undefined {
  const figures = pids.flatMap((pid) => readOne(pid) ?? []);
  return figures.length === 0 ? undefined : figures.reduce((total, figure) => total + figure);
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
