import { readFileSync } from 'node:fs';
import type { OpenAPIV3 } from 'openapi-types';
import { parse } from 'yaml';

/** The document says something that the gateway cannot serve; the message lists all of it. */
export class DocumentError extends Error {
  override readonly name = 'DocumentError';
}

/** Reads an OpenAPI document from a YAML file. Throws DocumentError with line and column where it is no YAML. */
export function readDocument(file: string): OpenAPIV3.Document {
  try {
    return parse(readFileSync(file, 'utf8'), { prettyErrors: true, uniqueKeys: true });
  } catch (error) {
    throw new DocumentError(`${file}: ${error instanceof Error ? error.message : error}`, { cause: error });
  }
}

/** The path of the document's first server, such as /v1: every operation's path comes behind it. */
export function readApiRoot(document: OpenAPIV3.Document): string {
  const url = document.servers?.[0]?.url ?? '/';
  return new URL(url, 'http://localhost').pathname.replace(/\/$/, '') || '/';
}
