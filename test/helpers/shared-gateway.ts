import type { TestProject } from 'vitest/node';
import { openDemoStore, type StoreKind, startGateway } from './gateway.ts';
import { hasPostgrest, type PostgresServer, startPostgres } from './servers.ts';

declare module 'vitest' {
  export interface ProvidedContext {
    /** The kind of store that this run of the tests is for. */
    readonly kind: StoreKind;
    /** Its Postgres, for its administrator; undefined where the store is embedded. */
    readonly adminUrl: string | undefined;
    /** A gateway with the demo data, for tests that write nothing. */
    readonly url: string;
  }
}

/** One gateway for all tests of a project that only read, on the kind of store that is the project's name. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const kind = project.name as StoreKind;
  const postgres: PostgresServer | undefined = kind === 'embedded' ? undefined : await startPostgres();
  const store = await openDemoStore(kind, postgres?.adminUrl);
  const gateway = await startGateway({ store });
  project.provide('kind', kind);
  project.provide('adminUrl', postgres?.adminUrl);
  project.provide('url', gateway.url);
  return async () => {
    await gateway.close();
    await store.close();
    await postgres?.stop();
  };
}

/** Whether the tests of the store of a Supabase project can run; where they cannot, that is said, and is an error in CI. */
export function canTestSupabase(): boolean {
  if (hasPostgrest) return true;
  const message = `There is no PostgREST for ${process.platform}-${process.arch}: the tests of the Supabase store cannot run`;
  if (process.env.CI) throw new Error(message);
  console.warn(`\n${message}, and are SKIPPED\n`);
  return false;
}
