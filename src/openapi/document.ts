import { readFileSync } from 'node:fs';
import type { OpenAPIV3 } from 'openapi-types';
import { isMap, isNode, isScalar, isSeq, LineCounter, parse, parseDocument } from 'yaml';
import { OperatorError } from '../errors.ts';

/** A place in a document, as a path of names and indices. */
export type Place = readonly (string | number)[];

/** A mistake in a document, with its place if known. */
export type Mistake = { readonly text: string; readonly place?: Place };

/** The gateway cannot serve the document; the message lists every mistake. */
export class DocumentError extends OperatorError {
  readonly mistakes: readonly Mistake[];

  constructor(mistakes: readonly Mistake[], options?: ErrorOptions) {
    super(mistakes.map(({ text }) => text).join('\n'), options);
    this.mistakes = mistakes;
  }

  /** The same error with the file and line in each message. */
  locatedIn(file: string, locate: Locate): DocumentError {
    const located = this.mistakes.map(({ text, place }) => ({
      text: place ? `${file}:${locate(place)}: ${text}` : text,
    }));
    return new DocumentError(located, { cause: this });
  }
}

/** Reads an OpenAPI document from a YAML file. Throws DocumentError; for invalid YAML it has line and column. */
export function readDocument(file: string): OpenAPIV3.Document {
  try {
    return parse(readFileSync(file, 'utf8'), { prettyErrors: true, uniqueKeys: true });
  } catch (error) {
    const { message, linePos } = error as Error & { linePos?: [{ line: number }] };
    const at = linePos ? `${file}:${linePos[0].line}` : file;
    throw new DocumentError([{ text: `${at}: ${message}` }], { cause: error });
  }
}

/** Returns the line of a place in a document; follows references. */
export type Locate = (place: Place) => number;

/** Creates a locator for a YAML file. For a missing place it returns the line of the node that would contain it. */
export function createLocator(file: string): Locate {
  const lineCounter = new LineCounter();
  const root = parseDocument(readFileSync(file, 'utf8'), { lineCounter }).contents;
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

/** Parses a JSON pointer such as `#/paths/~1alunos`. */
export function readPointer(pointer: string): Place {
  return pointer.replace(/^#?\//, '').split('/').map(unescapePointer);
}

/** Unescapes one name of a JSON pointer (RFC 6901, section 4). */
export function unescapePointer(name: string): string {
  return name.replaceAll('~1', '/').replaceAll('~0', '~');
}

/** The path of the document's first server, such as /v1: the prefix of every operation's path. */
export function readApiRoot(document: OpenAPIV3.Document): string {
  const url = document.servers?.[0]?.url ?? '/';
  return new URL(url, 'http://localhost').pathname.replace(/\/$/, '') || '/';
}
