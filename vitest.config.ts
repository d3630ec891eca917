import { availableParallelism } from 'node:os';
import { defineConfig } from 'vitest/config';
import { canTestSupabase } from './test/helpers/shared-gateway.ts';

/** The tests of the interface, which every store has to pass. */
const INTERFACE = [
  'test/http/conditional.test.ts',
  'test/openapi/document.test.ts',
  'test/http/protocol.test.ts',
  'test/api/key.test.ts',
  'test/api/links.test.ts',
  'test/api/parameters.test.ts',
  'test/operations/*.test.ts',
  'test/store/every-store.test.ts',
];

const stores = ['embedded', 'postgres', ...(canTestSupabase() ? ['supabase'] : [])];

export default defineConfig({
  test: {
    // A new embedded Postgres takes seconds to make, more on a busy machine.
    testTimeout: 30_000,
    hookTimeout: 60_000,
    // Of two processors one would be left idle: most of the time a test waits for a server.
    maxWorkers: Math.max(2, availableParallelism() - 1),
    projects: stores.map((name) => ({
      extends: true as const,
      test: {
        name,
        include: name === 'embedded' ? ['test/**/*.test.ts'] : INTERFACE,
        globalSetup: ['test/helpers/shared-gateway.ts'],
      },
    })),
  },
});
