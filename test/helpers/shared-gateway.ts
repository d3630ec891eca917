import type { TestProject } from 'vitest/node';
import { startGateway } from './gateway.ts';

declare module 'vitest' {
  export interface ProvidedContext {
    /** A gateway with the demo data, for tests that write nothing. */
    readonly url: string;
  }
}

/** One gateway for all tests that only read: an embedded Postgres takes seconds to make. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const gateway = await startGateway();
  project.provide('url', gateway.url);
  return gateway.close;
}
