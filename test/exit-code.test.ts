import { spawnSync } from 'node:child_process';
import { expect, test } from 'vitest';

test('a failed test run has a failing exit code, whichever servers it can start', () => {
  const run = `
    const { importEmbeddedPostgres } = await import('./scripts/bench/servers.ts');
    await importEmbeddedPostgres();
    await import('./test/helpers/servers.ts');
    process.exitCode = 3;`;
  expect(spawnSync(process.execPath, ['--input-type=module', '--eval', run]).status).toBe(3);
});
