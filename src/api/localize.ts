// The language of a 422: English, or Brazilian Portuguese for a client that prefers it.

import type { IncomingMessage } from 'node:http';
import Negotiator from 'negotiator';
import type { OpenAPIV3 } from 'openapi-types';
import type { InvalidInput } from '../errors.ts';
import { DocumentError, type Mistake } from '../openapi/document.ts';
import { messages } from './messages.ts';

/** Portuguese texts by the English ones. */
export type Translations = ReadonlyMap<string, string>;

const EXTENSION = 'x-translations';

/**
 * What the document translates, of its own texts and of those that SQL raises, and the gateway's own texts. Throws
 * DocumentError where it is no map of texts, or of a language that the gateway does not speak.
 */
export function readTranslations(document: OpenAPIV3.Document): Translations {
  const { [EXTENSION]: languages = {} } = document as { [EXTENSION]?: unknown };
  const mistakes = findMistakes(languages);
  if (mistakes.length > 0) throw new DocumentError(mistakes);
  const own = Object.values(messages).map((message) => [message.en, message['pt-BR']] as const);
  const { 'pt-BR': texts = {} } = languages as { 'pt-BR'?: Readonly<Record<string, string>> };
  return new Map([...Object.entries(texts), ...own]);
}

function findMistakes(languages: unknown): Mistake[] {
  if (!isMap(languages)) return [{ text: `${EXTENSION} must be a map of languages`, place: [EXTENSION] }];
  return Object.entries(languages).flatMap(([language, texts]) => findMistakesOf(language, texts));
}

function findMistakesOf(language: string, texts: unknown): Mistake[] {
  const place = [EXTENSION, language];
  if (language !== 'pt-BR') return [{ text: `${EXTENSION} has ${language}: the gateway speaks pt-BR`, place }];
  if (!isMap(texts)) return [{ text: `${EXTENSION} ${language} must be a map from English texts`, place }];
  const wrong = Object.entries(texts).filter(([, text]) => typeof text !== 'string' || text === '');
  return wrong.map(([english, text]) => ({
    text: `${EXTENSION} ${language}: the translation of "${english}" must be a text; it is ${JSON.stringify(text)}`,
    place: [...place, english],
  }));
}

function isMap(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** The messages in the language that the client of the request prefers; one without a translation stays English. */
export function speak(failure: InvalidInput, req: IncomingMessage, translations: Translations): InvalidInput {
  if (req.headers['accept-language'] === undefined || !prefersPortuguese(req)) return failure;
  const composed = failure.compose?.();
  const translate = (message: string) => composed?.get(message) ?? translations.get(message);
  const all = Object.values(failure.fields).flat();
  const translated = all.filter((message) => translate(message) !== undefined);
  return {
    kind: 'invalidInput',
    fields: Object.fromEntries(
      Object.entries(failure.fields).map(([name, texts]) => [name, texts.map((text) => translate(text) ?? text)]),
    ),
    languages: [...(translated.length > 0 ? ['pt-BR'] : []), ...(translated.length < all.length ? ['en'] : [])],
  };
}

/** By Accept-Language (RFC 9110, 12.5.4). A Portuguese of any country is nearer to ours than English is. */
function prefersPortuguese(req: IncomingMessage): boolean {
  const negotiator = new Negotiator(req);
  const first = negotiator.languages().find((language) => /^(en|pt|\*)(-|$)/i.test(language));
  // Whatever the client has not named: English, unless that is named and liked less.
  if (first === '*') return negotiator.language(['en', 'pt-BR']) === 'pt-BR';
  return /^pt/i.test(first ?? '');
}
