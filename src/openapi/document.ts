// Reads the document from its files, and names the line of a place in it.

import { statSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import type { OpenAPIV3 } from 'openapi-types';
import { isCollection, isMap, isNode, isScalar, isSeq, LineCounter, parseDocument as parseNodes, visit } from 'yaml';
import { OperatorError } from '../errors.ts';
import { readUtf8 } from '../store/migrations.ts';
import { type Bundle, bundle } from './bundle.ts';
import type { Refused } from './mistakes.ts';
import { MAX_REFERENCES, type Place, readReference, splitReference } from './pointer.ts';
import { normalizePath } from './url.ts';

/** A mistake in a document: its text, its place if known, and its kind in mistakes.ts. */
export type Mistake = { readonly text: string; readonly place?: Place; readonly what?: Refused };

/** Compares texts, and the line numbers in them as numbers. */
export const compareLines = new Intl.Collator('en', { numeric: true }).compare;

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
    located.sort((a, b) => compareLines(a.text, b.text));
    return new DocumentError(located, { cause: this });
  }
}

/**
 * Reads an OpenAPI document from a YAML file, or from `text` in its place, and the other files that it refers to. Throws
 * DocumentError; for invalid YAML with line and column.
 */
export function readDocument(file: string, text?: string): OpenAPIV3.Document {
  return openDocument(file, text).document;
}

/** Reads a document like readDocument, with a locator for the texts that were read: the files may change later. */
export function openDocument(file: string, text?: string): { document: OpenAPIV3.Document; locate: Locate } {
  const main = resolve(file);
  const texts = new Map<string, string>();
  const contents = new Map<string, unknown>();
  const mistakes: Mistake[] = [];
  const open = (path: string): unknown => {
    if (contents.has(path)) return contents.get(path);
    try {
      if (path !== main && !statSync(path, { throwIfNoEntry: false })?.isFile()) return undefined;
      const name = path === main ? file : relative(dirname(main), path);
      texts.set(path, path === main && text !== undefined ? text : readText(path, name));
      contents.set(path, parseText(texts.get(path) ?? '', name));
    } catch (error) {
      mistakes.push(...(error as DocumentError).mistakes);
      contents.set(path, undefined);
    }
    return contents.get(path);
  };
  checkVersion(open(main), file, mistakes);
  const { document, moved } = bundle(main, open);
  if (mistakes.length > 0) throw new DocumentError(mistakes);
  return { document: document as unknown as OpenAPIV3.Document, locate: createLocator(main, texts, moved) };
}

/** Checks the version first: a document of another version would have many mistakes that only follow from it. */
function checkVersion(document: unknown, file: string, unreadable: readonly Mistake[]): void {
  if (unreadable.length > 0) throw new DocumentError(unreadable);
  const { openapi, swagger } = (document ?? {}) as { openapi?: unknown; swagger?: unknown };
  if (/^3\.[01](\.|$)/.test(String(openapi))) return;
  const other = swagger === undefined ? 'no version of OpenAPI' : `Swagger ${swagger}`;
  const found = openapi === undefined ? other : `OpenAPI ${openapi}`;
  throw new DocumentError([{ text: `${file}: it has ${found}, and the gateway serves OpenAPI 3.0 and 3.1` }]);
}

/** Reads a file, called `name` in messages. Throws DocumentError. */
export function readText(path: string, name: string): string {
  try {
    return readUtf8(path);
  } catch (error) {
    throw new DocumentError([{ text: `${name}: ${(error as Error).message}` }], { cause: error });
  }
}

/** Parses YAML. Throws DocumentError with the line. */
export function parseText(text: string, name: string): unknown {
  const lineCounter = new LineCounter();
  // Other tools read merge keys (<<), although YAML 1.2 has none.
  const document = parseNodes(text, { lineCounter, merge: true, uniqueKeys: isSameKey });
  const refuse = (offset: number, why: string): never => {
    throw new DocumentError([{ text: `${name}:${lineCounter.linePos(offset).line}: ${why}` }]);
  };
  const [error] = document.errors;
  if (error) refuse(error.pos[0], error.message);
  const anchors = new Set<string>();
  visit(document, {
    Value: (_key, { anchor = '' }) => void anchors.add(anchor),
    Alias: (_key, { source, range }, around) => {
      const at = range?.[0] ?? 0;
      if (!anchors.has(source)) refuse(at, `no anchor &${source} is above *${source}: correct one of the two`);
      // Such a node would have no end in JSON.
      if (around.some((node) => isCollection(node) && node.anchor === source)) {
        refuse(at, `*${source} is within &${source}: write a $ref instead`);
      }
    },
  });
  try {
    // The file is the operator's own: its aliases need no limit.
    return document.toJS({ maxAliasCount: -1 });
  } catch (cause) {
    throw new DocumentError([{ text: `${name}: ${(cause as Error).message}` }], { cause });
  }
}

/** Whether two keys of a map are one in JSON, as 404 and '404' are: the first value would be lost. */
function isSameKey(one: unknown, other: unknown): boolean {
  return one === other || (isScalar(one) && isScalar(other) && String(one.value) === String(other.value));
}

/** Names a place in a document for people, such as `openapi.yaml:12`; follows references. */
export type Locate = (place: Place) => string;

/**
 * Creates a locator for the texts of YAML files, by their paths. For a missing place it returns the line of the node that would
 * contain it. It parses texts on demand: few documents have mistakes.
 */
function createLocator(main: string, texts: ReadonlyMap<string, string>, moved: Bundle['moved']): Locate {
  const files = new Map<string, YamlFile>();
  const open = (path: string): YamlFile => {
    const known = files.get(path);
    if (known) return known;
    const lines = new LineCounter();
    const { contents } = parseNodes(texts.get(path) ?? '', { lineCounter: lines });
    const file = { path, lines, root: contents };
    files.set(path, file);
    return file;
  };
  const walk = (file: YamlFile, place: Place, passed = 0): Found => {
    let found: Found = { file, node: file.root, offset: 0 };
    for (const name of place) {
      const holder = findChild(found.node, name) ? found : follow(found, passed);
      const next = findChild(holder.node, name);
      if (!next) break;
      found = { file: holder.file, ...next };
    }
    return found;
  };
  const follow = (found: Found, passed: number): Found => {
    const reference = isMap(found.node) ? found.node.get('$ref') : undefined;
    if (typeof reference !== 'string' || passed > MAX_REFERENCES) return found;
    const { path, pointer } = splitReference(reference);
    const file = path === '' ? found.file : open(join(dirname(found.file.path), path));
    return walk(file, readReference(pointer), passed + 1);
  };
  return (place) => {
    const origin = moved.get(`${place[1]}/${place[2]}`);
    const [path, at] =
      origin && place[0] === 'components' ? [origin.path, [...origin.place, ...place.slice(3)]] : [main, place];
    const { file, offset } = walk(open(path), at);
    return `${relative(dirname(main), file.path)}:${file.lines.linePos(offset).line}`;
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

/** The path of the document's first server, such as /v1, which precedes every operation's path; empty for the root. */
export function readApiRoot({ servers }: OpenAPIV3.Document): string {
  return readServerPath(servers?.[0] ?? { url: '/' }) ?? '';
}

/** The path of a server, with the defaults of its variables; empty for the root, and undefined if its URL has none. */
export function readServerPath({ url, variables = {} }: OpenAPIV3.ServerObject): string | undefined {
  const filled = url.replace(/\{([^}]+)\}/g, (whole, name) => variables?.[name]?.default ?? whole);
  try {
    const { pathname } = new URL(filled, 'http://localhost');
    // Requests are matched by their normalized paths.
    return /[{}]/.test(filled) ? undefined : normalizePath(pathname.replace(/\/+$/, ''));
  } catch {
    return undefined;
  }
}
