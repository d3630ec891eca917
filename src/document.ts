import { readFileSync } from 'node:fs';
import type { OpenAPIV3 } from 'openapi-types';
import { parse } from 'yaml';

/** Reads an OpenAPI document from a YAML file; throws with file, line and column where it is no YAML. */
export function readDocument(file: string): OpenAPIV3.Document {
  try {
    return parse(readFileSync(file, 'utf8'), { prettyErrors: true, uniqueKeys: true });
  } catch (error) {
    throw new Error(`${file}: ${error instanceof Error ? error.message : error}`, { cause: error });
  }
}

/** The path of the document's first server, such as /v1: every operation's path comes behind it. */
export function readApiRoot(document: OpenAPIV3.Document): string {
  const url = document.servers?.[0]?.url ?? '/';
  return new URL(url, 'http://localhost').pathname.replace(/\/$/, '') || '/';
}
