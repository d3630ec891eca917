import { spawnSync } from 'node:child_process';
import { expect, test } from 'vitest';

test('a run that has failed says so by its exit code, whatever servers it can start', () => {
  const run = `
    const { importEmbeddedPostgres } = await import('./scripts/bench/servers.ts');
    await importEmbeddedPostgres();
    await import('./test/helpers/servers.ts');
    process.exitCode = 3;`;
  expect(spawnSync(process.execPath, ['--input-type=module', '--eval', run]).status).toBe(3);
});
