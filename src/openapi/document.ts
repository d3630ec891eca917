import { readFileSync } from 'node:fs';
import type { OpenAPIV3 } from 'openapi-types';
import { isMap, isNode, isScalar, isSeq, LineCounter, parse, parseDocument as parseNodes } from 'yaml';
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

  /** The same error with the place of each mistake in its message. */
  located(locate: Locate): DocumentError {
    const located = this.mistakes.map(({ text, place }) => ({ text: place ? `${locate(place)}: ${text}` : text }));
    return new DocumentError(located, { cause: this });
  }
}

/** Reads an OpenAPI document from a YAML file. Throws DocumentError; for invalid YAML it has line and column. */
export function readDocument(file: string): OpenAPIV3.Document {
  return parseDocument(readFileSync(file, 'utf8'), file);
}

/** Parses an OpenAPI document, the text of a YAML file. Throws DocumentError as readDocument does. */
export function parseDocument(text: string, file: string): OpenAPIV3.Document {
  try {
    return parse(text, { prettyErrors: true, uniqueKeys: true });
  } catch (error) {
    const { message, linePos } = error as Error & { linePos?: [{ line: number }] };
    const at = linePos ? `${file}:${linePos[0].line}` : file;
    throw new DocumentError([{ text: `${at}: ${message}` }], { cause: error });
  }
}

/** Names a place in a document for people, such as `openapi.yaml:12`; follows references. */
export type Locate = (place: Place) => string;

/**
 * Creates a locator for the text of a YAML file, with the file's name and a line. For a missing place it returns the line of
 * the node that would contain it. It parses the text at its first call: few documents have mistakes.
 */
export function createLocator(text: string, name: string): Locate {
  const lineCounter = new LineCounter();
  let root: unknown;
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
  return (place) => {
    root ??= parseNodes(text, { lineCounter }).contents;
    return `${name}:${lineCounter.linePos(walk(place).offset).line}`;
  };
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

/** Names a place by its JSON pointer, such as `#/paths/~1alunos` (RFC 6901). */
export function toPointer(place: Place): string {
  return ['#', ...place.map((name) => String(name).replaceAll('~', '~0').replaceAll('/', '~1'))].join('/');
}

/** Parses a JSON pointer. */
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
