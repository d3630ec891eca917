// The document of the last start, as it was read: to parse and validate it anew would take a quarter of the next one.

import { hash } from 'node:crypto';
import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import type { OpenAPIV3 } from 'openapi-types';
import { parseDocument, readText } from './document.ts';
import { compile, type Program } from './gateway.ts';

/** A document, and what it was read from. */
type Kept = { readonly source: string; readonly document: OpenAPIV3.Document };

const require = createRequire(import.meta.url);
/** What says how a document is read and what makes it valid. */
const READERS = ['yaml', 'openapi-backend'].map((name) => require(`${name}/package.json`).version);

/**
 * Reads and compiles a document, and keeps it in a file for the next start, which trusts what the very same text came
 * to. Throws DocumentError as `parseDocument` and `compile` do. A file that cannot be written is no mistake.
 */
export async function compileKept(file: string, keptIn: string): Promise<Program> {
  const text = readText(file);
  const source = hash('sha256', [text, ...READERS].join('\0'));
  const kept = readKept(keptIn);
  if (kept?.source === source) return compile(kept.document, { isValid: true });
  const program = await compile(parseDocument(text, file));
  keep(keptIn, { source, document: program.document });
  return program;
}

function readKept(file: string): Kept | undefined {
  try {
    return JSON.parse(readFileSync(file, 'utf8'));
  } catch {
    return undefined;
  }
}

function keep(file: string, kept: Kept): void {
  const json = JSON.stringify(kept);
  // YAML can say what JSON cannot, such as .inf.
  if (!isDeepStrictEqual(JSON.parse(json), kept)) return;
  try {
    mkdirSync(dirname(file), { recursive: true });
    // Aside, or one that starts meanwhile would read half of it.
    const aside = `${file}.${process.pid}`;
    writeFileSync(aside, json);
    renameSync(aside, file);
  } catch {
    // As in a container, whose files are not the gateway's to write.
  }
}
