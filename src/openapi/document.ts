import { readFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { $RefParser } from '@apidevtools/json-schema-ref-parser';
import type { OpenAPIV3 } from 'openapi-types';
import { isMap, isNode, isScalar, isSeq, LineCounter, parse, parseDocument } from 'yaml';
import { OperatorError } from '../errors.ts';
import { type Place, readPointer } from './pointer.ts';

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
  located(locate: Locate): DocumentError {
    const located = this.mistakes.map(({ text, place }) => {
      if (!place) return { text };
      const { file, line } = locate(place);
      return { text: `${file}:${line}: ${text}` };
    });
    return new DocumentError(located, { cause: this });
  }
}

/**
 * Reads an OpenAPI document from a YAML file, with what it refers to in other files, relative to itself. Throws DocumentError;
 * for invalid YAML it has line and column.
 */
export async function readDocument(file: string): Promise<OpenAPIV3.Document> {
  const document = parseFile(file, (text) => parse(text, { prettyErrors: true, uniqueKeys: true }));
  try {
    // Without the network: a document must not change while nobody looks.
    const options = { resolve: { http: false } } as never;
    return (await $RefParser.bundle(resolve(file), document as never, options)) as unknown as OpenAPIV3.Document;
  } catch (error) {
    throw new DocumentError([{ text: `${file}: ${(error as Error).message}` }], { cause: error });
  }
}

function parseFile<T>(file: string, read: (text: string) => T): T {
  try {
    return read(readFileSync(file, 'utf8'));
  } catch (error) {
    const { message, linePos } = error as Error & { linePos?: [{ line: number }] };
    const at = linePos ? `${file}:${linePos[0].line}` : file;
    throw new DocumentError([{ text: `${at}: ${message}` }], { cause: error });
  }
}

/** Returns the file and line of a place in a document; follows references. */
export type Locate = (place: Place) => { readonly file: string; readonly line: number };

/** Creates a locator for a YAML file. For a missing place it returns the line of the node that would contain it. */
export function createLocator(main: string): Locate {
  const files = new Map<string, YamlFile>();
  const open = (path: string): YamlFile => {
    const known = files.get(path);
    if (known) return known;
    const lines = new LineCounter();
    const { contents } = parseDocument(readFileSync(path, 'utf8'), { lineCounter: lines });
    const file = { path, lines, root: contents };
    files.set(path, file);
    return file;
  };
  const walk = (file: YamlFile, place: Place): Found => {
    let found: Found = { file, node: file.root, offset: 0 };
    for (const name of place) {
      const holder = follow(found);
      const next = findChild(holder.node, name);
      if (!next) break;
      found = { file: holder.file, ...next };
    }
    return found;
  };
  const follow = (found: Found): Found => {
    const reference = isMap(found.node) ? found.node.get('$ref') : undefined;
    if (typeof reference !== 'string') return found;
    const [path = '', pointer = ''] = reference.split('#');
    const file = path === '' ? found.file : open(join(dirname(found.file.path), path));
    return walk(file, pointer === '' ? [] : readPointer(pointer));
  };
  const path = resolve(main);
  return (place) => {
    const { file, offset } = walk(open(path), place);
    return { file: relative(dirname(path), file.path), line: file.lines.linePos(offset).line };
  };
}

type YamlFile = { readonly path: string; readonly lines: LineCounter; readonly root: unknown };
type Child = { readonly node: unknown; readonly offset: number };
type Found = Child & { readonly file: YamlFile };

function findChild(node: unknown, name: string | number): Child | undefined {
  if (isSeq(node)) {
    const item = node.items[Number(name)];
    return isNode(item) ? { node: item, offset: item.range?.[0] ?? 0 } : undefined;
  }
  const pair = isMap(node) ? node.items.find(({ key }) => isScalar(key) && String(key.value) === name) : undefined;
  return pair && { node: pair.value, offset: (isNode(pair.key) && pair.key.range?.[0]) || 0 };
}

/** The path of the document's first server, such as /v1: the prefix of every operation's path. */
export function readApiRoot({ servers }: OpenAPIV3.Document): string {
  return readServerPath(servers?.[0] ?? { url: '/' });
}

/** The path of a server, whose variables have their defaults. */
export function readServerPath({ url, variables = {} }: OpenAPIV3.ServerObject): string {
  const filled = url.replace(/\{([^}]+)\}/g, (_whole, name) => variables[name]?.default ?? '-');
  return new URL(filled, 'http://localhost').pathname.replace(/\/$/, '') || '/';
}
