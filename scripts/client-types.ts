// Writes the part of the client that is generated from a document, its types and the separators of arrays in queries:
// node scripts/client-types.ts DOCUMENT FILE [--check]

import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import openapiTypescript, { astToString, COMMENT_HEADER } from 'openapi-typescript';
import type { Separators } from '../client/src/client.ts';
import { type CompiledDocument, compileFile } from '../src/openapi/compile.ts';

/** Generates the module with the types and the separators of a document. */
export async function writeClientTypes(file: string): Promise<string> {
  // A request may leave out a property with a default.
  const options = { defaultNonNullable: false, readWriteMarkers: true, silent: true };
  const types = await openapiTypescript(pathToFileURL(resolve(file)), options);
  const separators = JSON.stringify(readSeparators(await compileFile(file)), null, 4);
  const own = `/** What separates the items of an array in one parameter of a query, by operation and parameter. */
export const separators: Record<string, Record<string, "," | " " | "|">> = ${separators};
`;
  return `${COMMENT_HEADER}${astToString(types)}${own}`;
}

/** Finds the separators of arrays that do not explode, which the types do not show. */
export function readSeparators({ operations }: Pick<CompiledDocument, 'operations'>): Separators {
  const all = [...operations.values()].flatMap(({ source, inputs }) => {
    const own = inputs.flatMap((input) =>
      input.in === 'query' && input.separator ? [[input.name, input.separator] as const] : [],
    );
    return own.length === 0
      ? []
      : [[`${source.method.toUpperCase()} ${source.path}`, Object.fromEntries(own)] as const];
  });
  return Object.fromEntries(all);
}

if (import.meta.main) {
  const [document = '', file = '', option] = process.argv.slice(2);
  const text = await writeClientTypes(document);
  if (option !== '--check') {
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, text);
  } else if (readFileSync(file, 'utf8') !== text) {
    console.error(`${file} differs from ${document}`);
    process.exitCode = 1;
  }
}
