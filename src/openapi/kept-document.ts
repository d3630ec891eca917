// The document of the last start, as it was read: to parse and validate it anew would take a quarter of the next one.

import { hash } from 'node:crypto';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import type { OpenAPIV3 } from 'openapi-types';
import { compile, type Program } from '../api/handler.ts';
import { parseDocument, readText } from './document.ts';

/** A document, and what it was read from. */
type Kept = { readonly source: string; readonly document: OpenAPIV3.Document };

const require = createRequire(import.meta.url);
/** What decides what a text comes to, and whether that is valid. */
const READERS: readonly string[] = [
  ...['yaml', 'openapi-backend'].map((name) => require(`${name}/package.json`).version),
  readFileSync(join(import.meta.dirname, 'document.ts'), 'utf8'),
];

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

/** What is written by half, or by two at once, is no JSON, and is read as nothing. */
function keep(file: string, kept: Kept): void {
  try {
    const json = JSON.stringify(kept);
    // YAML can say what JSON cannot, such as .inf.
    if (!isDeepStrictEqual(JSON.parse(json), kept)) return;
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, json);
  } catch {
    // As in a container, whose files are not the gateway's to write; or a document that contains itself.
  }
}
