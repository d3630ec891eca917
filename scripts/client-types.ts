// Writes the part of the client that is generated from a document: its types, the key's header, and the separators of arrays in queries:
// node scripts/client-types.ts DOCUMENT FILE [--check]

import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import type { OpenAPIV3 } from 'openapi-types';
import openapiTypescript, { astToString, COMMENT_HEADER } from 'openapi-typescript';
import type { Separators } from '../client/src/client.ts';
import { type CompiledDocument, compileFile } from '../src/openapi/compile.ts';
import { createConverter, isMarked, readOwnTags, toSchemaReference } from '../src/openapi/schema.ts';
import { visit } from '../src/openapi/structure.ts';

const MARKERS = ['readOnly', 'writeOnly'] as const;

/** Generates the module of a document. */
export async function writeClientTypes(file: string): Promise<string> {
  // A request may leave out a property with a default.
  const options = { defaultNonNullable: false, readWriteMarkers: true, silent: true };
  const compiled = await compileFile(file);
  const types = await openapiTypescript(toTypable(compiled.source) as never, options);
  const separators = JSON.stringify(readSeparators(compiled), null, 4);
  // Without operations there is no key to send.
  const keyHeader = JSON.stringify([...compiled.operations.values()][0]?.key.name ?? '');
  const own = `/** The header of the API key. */
export const keyHeader: string = ${keyHeader};
/** What separates the items of an array in one parameter of a query, by operation and parameter. */
export const separators: Record<string, Record<string, "," | " " | "|">> = ${separators};
`;
  // For a reference into a response, openapi-typescript writes the content's "schema", which its types do not have.
  const text = astToString(types).replaceAll('["application/json"]["schema"]', '["application/json"]');
  return `${COMMENT_HEADER}${text}${own}`;
}

/**
 * Prepares the document for openapi-typescript. Mappings of discriminators become references. A discriminator is removed if each schema
 * has its values itself, which schema names would replace. Extensions beside responses are removed, because they would become responses.
 * `readOnly` and `writeOnly` are set at the properties themselves.
 */
function toTypable(source: OpenAPIV3.Document): OpenAPIV3.Document {
  const document = structuredClone(source);
  const convert = createConverter('request', document);
  visit(document, (kind, node) => {
    const { responses = {} } = (kind === 'operation' ? node : {}) as OpenAPIV3.OperationObject;
    for (const name of Object.keys(responses)) if (name.startsWith('x-')) delete responses[name];
    const { properties = {} } = (kind === 'schema' ? node : {}) as OpenAPIV3.SchemaObject;
    for (const [name, property] of Object.entries(properties)) {
      const markers = MARKERS.filter(
        (marker) => isMarked(source, property, marker) && (property as OpenAPIV3.SchemaObject)[marker] !== true,
      );
      const marked = Object.fromEntries(markers.map((marker) => [marker, true]));
      if (markers.length > 0) properties[name] = { allOf: [property], ...marked };
    }
    const { discriminator, anyOf = [], oneOf = anyOf } = node as OpenAPIV3.SchemaObject;
    if (kind !== 'schema' || !discriminator) return;
    const ownTags = readOwnTags(oneOf.map(convert), discriminator.propertyName);
    if (oneOf.length > 0 && ownTags.every((values) => values.length > 0))
      delete (node as OpenAPIV3.SchemaObject).discriminator;
    const mapped = Object.entries(discriminator.mapping ?? {}).map(([value, to]) => [value, toSchemaReference(to)]);
    if (discriminator.mapping) discriminator.mapping = Object.fromEntries(mapped);
  });
  return document;
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
