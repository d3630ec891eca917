// Servers that all test files of a run share.

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setFlagsFromString } from 'node:v8';
import type { TestProject } from 'vitest/node';
import { openEmbedded } from '../../src/store/embedded/store.ts';
import { makeCitusTemplate, startCitus } from './citus.ts';
import { isOnCitus, MIGRATIONS, openDemoStore, SEED, type StoreKind, startGateway } from './gateway.ts';
import { UNOPTIMIZED } from './process.ts';
import { isPresent } from './requirement.ts';
import { hasPostgrest, startPostgres } from './servers.ts';

declare module 'vitest' {
  export interface ProvidedContext {
    /** The kind of store that the project tests. */
    readonly kind: StoreKind;
    /** Whether the project runs the long form of the campaigns. */
    readonly isLong: boolean;
    /** Administrator's URL of the Postgres database that createDatabase copies. */
    readonly adminUrl: string;
    /** The data directory with the demo data that copyDataDir copies. */
    readonly dataDir: string;
    /** Superuser's URLs of the database that copyCitusDatabase copies, the coordinator's first; only with Citus. */
    readonly nodes: readonly string[];
    /** A gateway with the demo data, for tests that write nothing. */
    readonly url: string;
  }
}

/** Starts one Postgres, makes one data directory, and starts one read-only gateway per project. */
export default async function setup(root: TestProject): Promise<() => Promise<void>> {
  if (!root.vitest.projects.some(({ name }) => name === 'long')) setFlagsFromString(UNOPTIMIZED);
  const folder = mkdtempSync(join(tmpdir(), 'embedded-'));
  const dataDir = join(folder, 'template');
  const needsCitus = root.vitest.projects.some((project) => isOnCitus(project.getProvidedContext().kind));
  const [postgres, citus] = await Promise.all([
    startPostgres(),
    needsCitus ? startCitus() : undefined,
    createDataDir(dataDir),
  ]);
  const nodes = citus ? await makeCitusTemplate(citus.nodes.map(({ adminUrl }) => adminUrl)) : [];
  root.provide('nodes', nodes);
  root.provide('adminUrl', postgres.adminUrl);
  root.provide('dataDir', dataDir);
  const gateways = await Promise.all(
    root.vitest.projects.map(async (project) => {
      const kind = project.getProvidedContext().kind;
      const store = await openDemoStore(kind, { adminUrl: postgres.adminUrl, dataDir, nodes });
      const gateway = await startGateway({ store });
      project.provide('url', gateway.url);
      return gateway;
    }),
  );
  return async () => {
    for (const gateway of gateways) {
      await gateway.close();
      await gateway.store.close();
    }
    await postgres.stop();
    await citus?.stop();
    rmSync(folder, { recursive: true });
  };
}

async function createDataDir(dataDir: string): Promise<void> {
  const store = await openEmbedded({ dataDir, migrationsDir: MIGRATIONS, seed: SEED, statementLimitMs: 5_000 });
  await store.close();
}

/** Whether the tests of the supabase store can run. Warns if not; throws in CI. */
export function canTestSupabase(): boolean {
  return isPresent(
    hasPostgrest,
    `There is no PostgREST for ${process.platform}-${process.arch}: the tests of the Supabase store cannot run`,
  );
}
