// Updates the script of the documentation page, Scalar, in the repository: part of npm run generate. It comes from Scalar's plugin for
// Fastify, the only package that has the script without its 250 dependencies. The gateway serves the compressed file.

import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { brotliCompressSync, brotliDecompressSync, constants } from 'node:zlib';
import scalar from '@scalar/fastify-api-reference';
import { fastify } from 'fastify';

const FILE = join(import.meta.dirname, '../src/http/scalar.js.br');

/** Reads the script from the installed package. */
export async function readInstalled(): Promise<Buffer> {
  const server = fastify();
  await server.register(scalar, { routePrefix: '/docs', configuration: { url: 'openapi.json' } });
  const { rawPayload } = await server.inject('/docs/js/scalar.js');
  await server.close();
  return rawPayload;
}

if (import.meta.main) {
  const script = await readInstalled();
  // Only if it changed: the best compression, which is Node's default, takes 20 seconds.
  if (!existsSync(FILE) || !brotliDecompressSync(readFileSync(FILE)).equals(script)) {
    writeFileSync(FILE, brotliCompressSync(script, { params: { [constants.BROTLI_PARAM_SIZE_HINT]: script.length } }));
  }
}
