// A memory limit of the kernel (cgroup v1 or v2), as containers have one.

import { accessSync, constants, existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const ROOT = '/sys/fs/cgroup';
const VERSIONS = [
  { folder: join(ROOT, 'memory'), limit: 'memory.limit_in_bytes', events: 'memory.oom_control' },
  { folder: ROOT, limit: 'memory.max', events: 'memory.events' },
];

/** A group of processes whose memory is limited. */
type MemoryLimit = {
  /** Runs the command behind it in the group. Node sizes its heap by the limit when it starts, so a move later is too late. */
  readonly launcher: readonly string[];
  /** The number of processes that were killed for want of memory. */
  kills(): number;
  /** Removes the group, whose processes have to have ended. */
  remove(): void;
};

/** Whether this process may limit memory. */
export function canLimitMemory(): boolean {
  if (findVersion()) return true;
  // No error in CI: no package brings one.
  console.warn('\nNo memory cgroup is writable: the tests of small machines cannot run, and are SKIPPED\n');
  return false;
}

/** Creates a group with a limit in bytes. */
export function limitMemory(bytes: number): MemoryLimit {
  const version = findVersion();
  if (!version) throw new Error('No memory cgroup is writable');
  const group = join(version.folder, `wellness-test-${process.pid}`);
  mkdirSync(group);
  writeFileSync(join(group, version.limit), String(bytes));
  return {
    launcher: ['sh', '-c', `echo $$ > ${group}/cgroup.procs && exec "$@"`, 'sh'],
    kills: () => Number(/^oom_kill (\d+)$/m.exec(readFileSync(join(group, version.events), 'utf8'))?.[1]),
    remove: () => rmdirSync(group),
  };
}

function findVersion() {
  return VERSIONS.find(({ folder, limit }) => existsSync(folder) && isWritable(folder) && hasLimit(folder, limit));
}

function isWritable(folder: string): boolean {
  try {
    accessSync(folder, constants.W_OK);
    return true;
  } catch {
    return false;
  }
}

/** The root of version 2 has no limit itself; its groups have one if the root hands the controller on. */
function hasLimit(folder: string, limit: string): boolean {
  const handedOn = join(folder, 'cgroup.subtree_control');
  return existsSync(handedOn) ? /\bmemory\b/.test(readFileSync(handedOn, 'utf8')) : existsSync(join(folder, limit));
}
