import { chmodSync, mkdtempSync, statfsSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { defineConfig } from 'vitest/config';
import { BaseSequencer, type TestSpecification } from 'vitest/node';
import { canTestOnCitus } from './test/helpers/citus.ts';
import { canTestSupabase } from './test/helpers/global-setup.ts';

/** Tests of a store's calls, whatever they call. */
const CALLS = ['test/store/every-store.test.ts', 'test/store/any-operation.test.ts'];

/** Tests of behaviour that depends on the store and on its tables, which Citus distributes: its calls, the contract, and SQL. */
const EVERY_TABLE = [...CALLS, 'test/operations/*.test.ts', 'test/openapi/document.test.ts'];

/** Tests of behaviour that depends on the store: they run on every store. */
const EVERY_STORE = [...EVERY_TABLE, 'test/store/values.test.ts', 'test/store/functions.test.ts'];

/** Of what Postgres does with usage test/usage.test.ts tests more. */
const USAGE = 'test/limits/usage.test.ts';

/** Tests of a distributed database. */
const CITUS = 'test/citus/*.test.ts';

/**
 * Campaigns that only `npm run test:long` runs: crashes, restarts, memory, SQL mutations, query plans, gateways that break the
 * contract, the packed client, Supabase's own tool.
 */
const LONG_ONLY = [
  'test/add-operation.test.ts',
  'test/client/client-package.test.ts',
  'test/deploy/memory.test.ts',
  'test/isolation/mutations.test.ts',
  'test/restart.test.ts',
  'test/scripts/conformance-faults.test.ts',
  'test/store/supabase-cli.test.ts',
  'test/without-downtime.test.ts',
  'test/sql/plans.test.ts',
];

/** Nodes of Citus that fail: the tests start a cluster of their own. */
const CITUS_FAULTS = 'test/citus/faults.test.ts';

/** Campaigns: `npm test` runs a short form of each, `npm run test:long` all of it. The longest come first. */
const CAMPAIGNS = [
  'test/store/network-faults.test.ts',
  'test/store/failover.test.ts',
  'test/store/changes.test.ts',
  'test/store/values.test.ts',
  'test/deploy/backup.test.ts',
  'test/sql/pgtap.test.ts',
  ...LONG_ONLY,
];

/** Starts the campaigns in their order, so that the longest does not run alone at the end. */
class InOrder extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    const placeOf = ({ moduleId }: TestSpecification) => CAMPAIGNS.findIndex((file) => moduleId.endsWith(file));
    const isLong = sorted.every(({ project }) => project.name === 'long');
    return isLong ? sorted.toSorted((one, other) => placeOf(one) - placeOf(other)) : sorted;
  }
}

/** What the tests write goes to memory where there is room: a third of their time in the system is writing files. */
const MEMORY = '/dev/shm';
const MEMORY_BYTES = 8e9;
// What a run leaves goes with its folder, in which every user may write, as in /tmp: servers run as users of their own.
process.env.TMPDIR = mkdtempSync(join(process.env.TMPDIR ?? (hasRoom(MEMORY) ? MEMORY : tmpdir()), 'tests-'));
chmodSync(process.env.TMPDIR, 0o1777);
// Halves the processor time of each start: of the workers, and of the commands that tests run.
process.env.NODE_COMPILE_CACHE ??= resolve('node_modules/.cache/compiled');

function hasRoom(folder: string): boolean {
  try {
    const { bavail, bsize } = statfsSync(folder);
    return Math.min(bavail * bsize, process.availableMemory()) >= MEMORY_BYTES;
  } catch {
    return false;
  }
}

const hasSupabase = canTestSupabase();
const hasCitus = canTestOnCitus();

const projects = [
  { name: 'postgres', kind: 'postgres', include: ['test/**/*.test.ts'], exclude: [...LONG_ONLY, CITUS] },
  ...(hasSupabase ? [{ name: 'supabase', kind: 'supabase', include: [...EVERY_STORE, USAGE] } as const] : []),
  ...(hasCitus ? [{ name: 'citus', kind: 'citus', include: [...EVERY_TABLE, USAGE, CITUS] } as const] : []),
  ...(hasCitus && hasSupabase
    ? [{ name: 'citus-postgrest', kind: 'citus by PostgREST', include: CALLS } as const]
    : []),
  { name: 'long', kind: 'postgres', include: [...CAMPAIGNS, ...(hasCitus ? [CITUS_FAULTS] : [])] },
] as const;

export default defineConfig({
  test: {
    // What a test prints, such as the faults of its gateway, is shown if it fails.
    silent: 'passed-only',
    globalSetup: ['test/helpers/global-setup.ts'],
    // Most of the time a test waits for a process.
    maxWorkers: Math.max(3, availableParallelism() - 1),
    // Loading the modules anew for each file takes a fifth of the time. A test that changes a global puts it back.
    isolate: false,
    sequence: { sequencer: InOrder },
    projects: projects.map(({ name, kind, include, ...others }) => ({
      test: {
        name,
        include: [...include],
        ...others,
        setupFiles: ['test/helpers/setup.ts'],
        provide: { kind, isLong: name === 'long' },
        // Starting a process takes seconds on a busy machine, and a campaign several times as long as on a quiet one.
        testTimeout: name === 'long' ? 600_000 : 120_000,
        hookTimeout: 120_000,
      },
    })),
  },
});
