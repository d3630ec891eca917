import { resolve } from 'node:path';

/** A path as the caller means it: npm runs in the package's folder, and names the caller's in INIT_CWD. */
export function toPath(name: string): string {
  return resolve(process.env.INIT_CWD ?? '.', name);
}
