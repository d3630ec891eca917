// Reads the processor time and memory of a process from Linux's /proc (proc_pid_stat(5), proc_pid_smaps(5));
// undefined on other systems.

import { readFileSync } from 'node:fs';

/** Clock ticks per second, on every architecture that Node supports. */
const TICKS_PER_SECOND = 100;

/** Processor time in µs. */
export type Cpu = { readonly user: number; readonly system: number };

/** Reads the processor time of a process. */
export function readCpu(pid: number): Cpu | undefined {
  const stat = read(pid, 'stat');
  return stat === undefined ? undefined : parseCpu(stat);
}

/** Parses the text of /proc/PID/stat. */
export function parseCpu(stat: string): Cpu {
  // The program's name is in parentheses and may contain spaces and parentheses. utime and stime are the 12th and 13th field after it.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  const [user = 0, system = 0] = fields.slice(11, 13).map((ticks) => (Number(ticks) / TICKS_PER_SECOND) * 1e6);
  return { user, system };
}

/** Reads the memory of a process and its descendants in bytes: all memory (shared memory counts once), or only the private part. */
export function readFamilyMemory(pid: number, part: 'Pss' | 'Pss_Anon' = 'Pss'): number | undefined {
  const own = parseMemory(read(pid, 'smaps_rollup') ?? '', part);
  return own && readChildren(pid).reduce((sum, child) => sum + (readFamilyMemory(child, part) ?? 0), own);
}

/** Parses a line of /proc/PID/smaps_rollup, in bytes. */
export function parseMemory(text: string, name: string): number | undefined {
  const match = new RegExp(`^${name}:\\s*(\\d+) kB$`, 'm').exec(text);
  return match ? Number(match[1]) * 1024 : undefined;
}

/** The child processes of the main thread. */
function readChildren(pid: number): number[] {
  return read(pid, `task/${pid}/children`)?.split(' ').filter(Boolean).map(Number) ?? [];
}

function read(pid: number, file: string): string | undefined {
  try {
    return readFileSync(`/proc/${pid}/${file}`, 'utf8');
  } catch {
    return undefined;
  }
}
