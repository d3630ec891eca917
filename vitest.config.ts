import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    globalSetup: ['test/helpers/shared-gateway.ts'],
    // A new embedded Postgres takes seconds to make, more on a busy machine.
    testTimeout: 30_000,
    hookTimeout: 60_000,
  },
});
