import { readFileSync } from 'node:fs';
import type { OpenAPIV3 } from 'openapi-types';
import { isMap, isNode, isScalar, isSeq, LineCounter, parse, parseDocument } from 'yaml';

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

/** The line of a place in a document, which is a path of names and indices; references in it are followed. */
export type Locate = (place: readonly (string | number)[]) => number;

/** Reads where things stand in a YAML file. A place that is not there has the line of what it would be in. */
export function createLocator(file: string): Locate {
  const lineCounter = new LineCounter();
  const root = parseDocument(readFileSync(file, 'utf8'), { lineCounter }).contents;
  const walk = (place: readonly (string | number)[]): Found => {
    let found: Found = { node: root, offset: 0 };
    for (const name of place) {
      const next = findChild(follow(found.node), name);
      if (!next) break;
      found = next;
    }
    return found;
  };
  const follow = (node: unknown): unknown => {
    const reference = isMap(node) ? node.get('$ref') : undefined;
    if (typeof reference !== 'string') return node;
    return walk(reference.replace(/^#\//, '').split('/').map(unescapePointer)).node;
  };
  return (place) => lineCounter.linePos(walk(place).offset).line;
}

type Found = { readonly node: unknown; readonly offset: number };

function findChild(node: unknown, name: string | number): Found | undefined {
  if (isSeq(node)) {
    const item = node.items[Number(name)];
    return isNode(item) ? { node: item, offset: item.range?.[0] ?? 0 } : undefined;
  }
  const pair = isMap(node) ? node.items.find(({ key }) => isScalar(key) && String(key.value) === name) : undefined;
  return pair && { node: pair.value, offset: (isNode(pair.key) && pair.key.range?.[0]) || 0 };
}

/** A name in a JSON pointer (RFC 6901, section 4). */
export function unescapePointer(name: string): string {
  return name.replaceAll('~1', '/').replaceAll('~0', '~');
}

/** The path of the document's first server, such as /v1: every operation's path comes behind it. */
export function readApiRoot(document: OpenAPIV3.Document): string {
  const url = document.servers?.[0]?.url ?? '/';
  return new URL(url, 'http://localhost').pathname.replace(/\/$/, '') || '/';
}
