// Builds `wellness-gateway-client/msw`: the handlers, the gateway's code that they use, and the document, in one file.

import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type Plugin, rolldown } from 'rolldown';
import ts from 'typescript';
import { readDocument } from '../src/openapi/document.ts';
import { writeMockDocument } from './mock-document.ts';

const INPUT = fileURLToPath(new URL('src/msw.ts', import.meta.url));
const DOCUMENT = fileURLToPath(new URL('../openapi.yaml', import.meta.url));

/** Builds the module into a folder, from a document file. Throws DocumentError for an invalid document. */
export async function buildMsw(folder: string, document = DOCUMENT): Promise<void> {
  const bundle = await rolldown({
    input: INPUT,
    platform: 'browser',
    external: ['msw', /^node:/],
    plugins: [provideDocument(document)],
    // Files of the gateway also contain code for Node, which imports modules that browsers lack.
    treeshake: { moduleSideEffects: false },
    transform: { target: 'es2022' },
  });
  const { output } = await bundle.write({ file: join(folder, 'msw.js'), format: 'esm', minify: true });
  await bundle.close();
  writeFileSync(join(folder, 'msw.licenses.txt'), readLicenses(output[0].moduleIds));
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
    load: async (id) => (id === `\0${MODULE}` ? writeMockDocument(await readDocument(file)) : null),
  };
}

/** Writes the types of the module into a folder. They need only those of the document and of msw. */
function writeTypes(folder: string): void {
  const text = ts.sys.readFile(INPUT) ?? '';
  const { outputText } = ts.transpileDeclaration(text, { compilerOptions: { rewriteRelativeImportExtensions: true } });
  writeFileSync(join(folder, 'msw.d.ts'), outputText);
}

if (import.meta.main) {
  const [folder = ''] = process.argv.slice(2);
  await buildMsw(folder);
  writeTypes(folder);
}
