// Localizes the messages of a 422: English, or Brazilian Portuguese if the client prefers it.

import type { IncomingHttpHeaders } from 'node:http';
import Negotiator from 'negotiator';
import { type InvalidInput, mapMessages, toEnglish } from '../errors.ts';
import type { Translations } from '../openapi/translations.ts';

/** Writes the messages in the client's preferred language. One without a translation stays English. */
export function localizeErrors(
  failure: InvalidInput,
  headers: IncomingHttpHeaders,
  translations: Translations,
): InvalidInput {
  if (headers['accept-language'] === undefined || !prefersPortuguese(headers)) return failure;
  const languages = new Set<string>();
  const fields = mapMessages(failure.fields, (message) => {
    const portuguese = typeof message === 'string' ? translations.get(message) : message['pt-BR'];
    languages.add(portuguese === undefined ? 'en' : 'pt-BR');
    return portuguese ?? toEnglish(message);
  });
  return { kind: 'invalidInput', fields, languages: ['pt-BR', 'en'].filter((language) => languages.has(language)) };
}

/** Whether Accept-Language (RFC 9110, 12.5.4) ranks any kind of Portuguese above English. */
export function prefersPortuguese(headers: IncomingHttpHeaders): boolean {
  const negotiator = new Negotiator({ headers });
  const first = negotiator.languages().find((language) => /^(en|pt|\*)(-|$)/i.test(language));
  // `*` stands for English, unless the client also names English with a lower weight.
  if (first === '*') return negotiator.language(['en', 'pt-BR']) === 'pt-BR';
  return /^pt/i.test(first ?? '');
}
