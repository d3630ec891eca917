// Servers that all test files of a run share.

import { rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestProject } from 'vitest/node';
import { FILES } from '../../src/config.ts';
import { reachServer, toContent } from '../../src/store/open.ts';
import { makeCitusTemplate, startCitus } from './citus.ts';
import { isOnCitus, openDemoStore, type StoreKind, startGateway } from './gateway.ts';
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
  const dataDir = join(tmpdir(), 'template');
  const needsCitus = root.vitest.projects.some((project) => isOnCitus(project.getProvidedContext().kind));
  const [postgres, citus] = await Promise.all([
    startPostgres(),
    needsCitus ? startCitusWithTemplate() : undefined,
    createDataDir(dataDir),
  ]);
  const nodes = citus?.nodes ?? [];
  root.provide('nodes', nodes);
  root.provide('adminUrl', postgres.adminUrl);
  root.provide('dataDir', dataDir);
  const gateways = await Promise.all(
    root.vitest.projects.map(async (project) => {
      const kind = project.getProvidedContext().kind;
      const store = await openDemoStore(kind, { adminUrl: postgres.adminUrl, nodes });
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
    rmSync(tmpdir(), { recursive: true });
  };
}

async function startCitusWithTemplate(): Promise<{ nodes: readonly string[]; stop(): Promise<void> }> {
  const { nodes, stop } = await startCitus();
  return { nodes: await makeCitusTemplate(nodes.map(({ adminUrl }) => adminUrl)), stop };
}

async function createDataDir(dataDir: string): Promise<void> {
  const config = { kind: 'embedded', dataDir, programs: undefined, fsync: false, demoData: true } as const;
  const server = await reachServer(config, toContent(config, FILES), { info: () => {}, warn: console.warn });
  await server.close();
}

/** Whether the tests of the supabase store can run. Warns if not; throws in CI. */
export function canTestSupabase(): boolean {
  return isPresent(
    hasPostgrest,
    `There is no PostgREST for ${process.platform}-${process.arch}: the tests of the Supabase store cannot run`,
  );
}
