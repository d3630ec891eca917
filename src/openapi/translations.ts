import type { OpenAPIV3 } from 'openapi-types';
import { DocumentError, type Mistake } from './document.ts';

/** Portuguese texts by English text. */
export type Translations = ReadonlyMap<string, string>;

const EXTENSION = 'x-translations';

/**
 * Reads the document's `x-translations`, which translate its own texts and those that SQL raises. Throws DocumentError
 * if it is not a map of texts, or has a language other than pt-BR.
 */
export function readTranslations(document: OpenAPIV3.Document): Translations {
  const { [EXTENSION]: languages = {} } = document as { [EXTENSION]?: unknown };
  const mistakes = findMistakes(languages);
  if (mistakes.length > 0) throw new DocumentError(mistakes);
  const { 'pt-BR': texts = {} } = languages as { 'pt-BR'?: Readonly<Record<string, string>> };
  return new Map(Object.entries(texts));
}

function findMistakes(languages: unknown): Mistake[] {
  if (!isMap(languages)) return [{ text: `${EXTENSION} must be a map of languages`, place: [EXTENSION] }];
  return Object.entries(languages).flatMap(([language, texts]) => findMistakesOf(language, texts));
}

function findMistakesOf(language: string, texts: unknown): Mistake[] {
  const place = [EXTENSION, language];
  if (language !== 'pt-BR') return [{ text: `${EXTENSION} has ${language}: only pt-BR is supported`, place }];
  if (!isMap(texts)) return [{ text: `${EXTENSION} ${language} must be a map from English texts`, place }];
  const wrong = Object.entries(texts).filter(([, text]) => typeof text !== 'string' || text === '');
  return wrong.map(([english, text]) => ({
    text: `${EXTENSION} ${language}: the translation of "${english}" must be a non-empty string; it is ${JSON.stringify(text)}`,
    place: [...place, english],
  }));
}

function isMap(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
