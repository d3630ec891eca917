import { mkdtempSync, rmSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { buildMsw } from '../../client/build.ts';

/**
 * Builds `wellness-gateway-client/msw` as it is packed, from a document file, and imports it. It is built within
 * node_modules, where it finds msw.
 */
export async function importMsw(document = 'openapi.yaml'): Promise<typeof import('../../client/src/msw.ts')> {
  const folder = mkdtempSync(resolve('node_modules/.msw-'));
  try {
    await buildMsw(folder, document);
    return await import(join(folder, 'msw.js'));
  } finally {
    rmSync(folder, { recursive: true });
  }
}
