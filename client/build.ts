// Builds the package's modules, each with its libraries in one file: the client, and the handlers for msw with the gateway's
// code that they use and the document.

import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type BuildOptions, build, type Plugin } from 'rolldown';
import ts from 'typescript';
import { readDocument } from '../src/openapi/document.ts';
import { writeMockDocument } from './mock-document.ts';

const CLIENT = fileURLToPath(new URL('src/client.ts', import.meta.url));
const MSW = fileURLToPath(new URL('src/msw.ts', import.meta.url));
const DOCUMENT = fileURLToPath(new URL('../openapi.yaml', import.meta.url));

/** Builds the client into a folder: one file that a page without a bundler can import. */
export async function buildClient(folder: string): Promise<void> {
  await bundle(CLIENT, folder, 'client', { external: [] });
}

/** Builds the handlers into a folder, from a document file. Throws DocumentError for an invalid document. */
export async function buildMsw(folder: string, document = DOCUMENT): Promise<void> {
  const plugins = [provideDocument(document)];
  await bundle(MSW, folder, 'msw', { external: ['msw', /^node:/], plugins, output: { minify: true } });
}

/** Bundles a module with its libraries, and writes their licenses beside it. */
async function bundle(input: string, folder: string, name: string, { output, ...options }: BuildOptions) {
  const {
    output: [{ moduleIds }],
  } = await build({
    input,
    platform: 'browser',
    // Files of the gateway also contain code for Node, which imports modules that browsers lack.
    treeshake: { moduleSideEffects: false },
    transform: { target: 'es2022' },
    ...options,
    output: { file: join(folder, `${name}.js`), format: 'esm', ...output },
  });
  writeFileSync(join(folder, `${name}.licenses.txt`), readLicenses(moduleIds));
}

/** The licenses of the libraries in the module. They require that copies contain them. */
function readLicenses(files: readonly string[]): string {
  const folders = files.flatMap((file) => /^(\/.*\/node_modules\/(?:@[^/]+\/)?[^/]+)\//.exec(file)?.[1] ?? []);
  const texts = [...new Set(folders)].sort().map((folder) => {
    const [license] = readdirSync(folder).filter((name) => /^licen[cs]e/i.test(name));
    if (license === undefined) throw new Error(`${folder} has no license`);
    return `${basename(folder)}\n\n${readFileSync(join(folder, license), 'utf8')}`;
  });
  return texts.join(`\n${'-'.repeat(80)}\n\n`);
}

const MODULE = './mock-document.js';

function provideDocument(file: string): Plugin {
  return {
    name: 'document',
    resolveId: (id) => (id === MODULE ? `\0${MODULE}` : null),
    load: async (id) => (id === `\0${MODULE}` ? writeMockDocument(readDocument(file)) : null),
  };
}

/** Writes the types of the handlers into a folder. They need only those of the document and of msw. */
function writeTypes(folder: string): void {
  const text = ts.sys.readFile(MSW) ?? '';
  const { outputText } = ts.transpileDeclaration(text, { compilerOptions: { rewriteRelativeImportExtensions: true } });
  writeFileSync(join(folder, 'msw.d.ts'), outputText);
}

if (import.meta.main) {
  const [folder = ''] = process.argv.slice(2);
  await buildClient(folder);
  await buildMsw(folder);
  writeTypes(folder);
}
