import { readFileSync } from 'node:fs';
import type { OpenAPIV3 } from 'openapi-types';
import { isMap, isNode, isScalar, isSeq, LineCounter, parse, parseDocument as parseNodes } from 'yaml';

/** A path of names and indices to a place within a document. */
export type Place = readonly (string | number)[];

/** One thing that is wrong with a document, and where, if that is known. */
export type Mistake = { readonly text: string; readonly place?: Place };

/** The document says something that the gateway cannot serve; the message lists all of it. */
export class DocumentError extends Error {
  override readonly name = 'DocumentError';
  readonly mistakes: readonly Mistake[];

  constructor(mistakes: readonly Mistake[], options?: ErrorOptions) {
    super(mistakes.map(({ text }) => text).join('\n'), options);
    this.mistakes = mistakes;
  }

  /** The mistakes with the lines where they stand in a file. */
  describe(file: string, locate: Locate): string {
    const lines = this.mistakes.map(({ text, place }) => (place ? `${file}:${locate(place)}: ${text}` : text));
    return lines.join('\n');
  }
}

/** Reads an OpenAPI document from a YAML file. Throws DocumentError with line and column where it is no YAML. */
export function readDocument(file: string): OpenAPIV3.Document {
  return parseDocument(readText(file), file);
}

/** Reads the text of a document. Throws DocumentError where it cannot. */
export function readText(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    throw new DocumentError([{ text: `${file}: ${(error as Error).message}` }], { cause: error });
  }
}

/** Parses the text of a file as `readDocument` does. */
export function parseDocument(text: string, file: string): OpenAPIV3.Document {
  try {
    return parse(text, { prettyErrors: true, uniqueKeys: true });
  } catch (error) {
    const { message, linePos } = error as Error & { linePos?: [{ line: number }] };
    const at = linePos ? `${file}:${linePos[0].line}` : file;
    throw new DocumentError([{ text: `${at}: ${message}` }], { cause: error });
  }
}

/** The line of a place in a document; references on the way to it are followed. */
export type Locate = (place: Place) => number;

/** Reads where things stand in a YAML file. A place that is not there has the line of what it would be in. */
export function createLocator(file: string): Locate {
  const lineCounter = new LineCounter();
  const root = parseNodes(readFileSync(file, 'utf8'), { lineCounter }).contents;
  const walk = (place: Place): Found => {
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
    return walk(readPointer(reference)).node;
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

/** The place that a JSON pointer names, as in `#/paths/~1alunos`. */
export function readPointer(pointer: string): Place {
  return pointer.replace(/^#?\//, '').split('/').map(unescapePointer);
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
