// The Portuguese of the document: x-translations has the messages of a 422, and a file in docs has the texts of the
// documentation page.

import { existsSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import type { OpenAPIV3 } from 'openapi-types';
import { isJsonObject } from '../store/store.ts';
import { DocumentError, type Mistake, parseText, readText } from './document.ts';
import { MAPS } from './structure.ts';

/** Portuguese texts by English text. */
export type Translations = ReadonlyMap<string, string>;

const EXTENSION = 'x-translations';

/**
 * Reads the document's `x-translations` of its own messages and of those that SQL raises. Adds a mistake for each text that is no
 * string, and for each language other than pt-BR.
 */
export function readTranslations(document: OpenAPIV3.Document, mistakes: Mistake[]): Translations {
  const { [EXTENSION]: languages = {} } = document as { [EXTENSION]?: unknown };
  const { 'pt-BR': texts = {}, ...others } = Object(languages) as Readonly<Record<string, unknown>>;
  const isMap = isJsonObject(languages) && isJsonObject(texts);
  const wrong = Object.entries(isMap ? texts : {}).filter(([, text]) => typeof text !== 'string' || text === '');
  const places = [
    ...Object.keys(others).map((language) => [language]),
    ...wrong.map(([english]) => ['pt-BR', english]),
  ];
  for (const place of isMap ? places : [[]]) {
    const text = `${EXTENSION}${place.map((name) => ` "${name}"`).join('')}: only pt-BR, with a text by English text, is supported`;
    mistakes.push({ text, place: [EXTENSION, ...place] });
  }
  return new Map(isMap && places.length === 0 ? Object.entries(texts as Readonly<Record<string, string>>) : []);
}

/** The file with the Portuguese of a document's summaries and descriptions, such as docs/openapi.pt-BR.yaml. */
export function toTextsFile(documentFile: string): string {
  return join(dirname(documentFile), 'docs', basename(documentFile).replace(/\.[^.]+$/, '.pt-BR$&'));
}

/**
 * Reads the Portuguese of a document's summaries and descriptions, by English paragraph on one line; empty without the file.
 * Throws DocumentError if the file is not a list of pairs.
 */
export function readTexts(documentFile: string): Translations {
  const file = toTextsFile(documentFile);
  if (!existsSync(file)) return new Map();
  const name = basename(file);
  const pairs = parseText(readText(file, name), name) ?? [];
  if (!Array.isArray(pairs)) {
    throw new DocumentError([{ text: `${name} must be a list of texts, each with en and pt-BR` }]);
  }
  const texts = new Map<string, string>();
  const mistakes: Mistake[] = [];
  for (const [index, pair] of pairs.entries()) {
    const { en, 'pt-BR': portuguese, ...others } = Object(pair) as Readonly<Record<string, unknown>>;
    if (typeof en !== 'string' || typeof portuguese !== 'string' || Object.keys(others).length > 0) {
      const found = JSON.stringify(pair);
      mistakes.push({ text: `${name}: text ${index + 1} must have en and pt-BR alone, each a string; it is ${found}` });
    } else if (portuguese.trim() !== '') texts.set(toLine(en), portuguese.trim());
  }
  if (mistakes.length > 0) throw new DocumentError(mistakes);
  return texts;
}

function toLine(text: string): string {
  return text.trim().replace(/\s+/g, ' ');
}

const TEXTS = ['summary', 'description'];
/** Keywords that contain values, and no texts. */
const VALUES = ['value', 'example', 'default', 'enum', 'const'];

/** A copy of the document whose summaries and descriptions are translated; `translate` gets one paragraph on one line. */
export function translateTexts(
  document: OpenAPIV3.Document,
  translate: (paragraph: string) => string | undefined,
): OpenAPIV3.Document {
  const toTranslated = (text: string) =>
    text
      .trim()
      .split(/\n\s*\n/)
      .map((paragraph) => translate(toLine(paragraph)) ?? paragraph)
      .join('\n\n');
  const copy = (node: unknown, hasNames: boolean): unknown => {
    if (Array.isArray(node)) return node.map((item) => copy(item, false));
    if (!isJsonObject(node)) return node;
    return Object.fromEntries(
      Object.entries(node).map(([name, part]) => {
        // The parts of a map, such as the properties of a schema, may have any name.
        if (hasNames) return [name, copy(part, false)];
        if (VALUES.includes(name) || name.startsWith('x-')) return [name, part];
        if (TEXTS.includes(name) && typeof part === 'string') return [name, toTranslated(part)];
        return [name, copy(part, MAPS.includes(name))];
      }),
    );
  };
  return copy(document, false) as OpenAPIV3.Document;
}
