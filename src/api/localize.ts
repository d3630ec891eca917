// Localizes the messages of a 422: English, or Brazilian Portuguese if the client prefers it.

import type { IncomingHttpHeaders } from 'node:http';
import Negotiator from 'negotiator';
import type { InvalidInput } from '../errors.ts';
import type { Translations } from '../openapi/translations.ts';
import { messages } from './messages.ts';

const OWN: Translations = new Map(Object.values(messages).map((message) => [message.en, message['pt-BR']]));

/** Translates the messages to the client's preferred language. A message without a translation stays English. */
export function localizeErrors(
  failure: InvalidInput,
  headers: IncomingHttpHeaders,
  translations: Translations,
): InvalidInput {
  if (headers['accept-language'] === undefined || !prefersPortuguese(headers)) return failure;
  const composed = failure.compose?.();
  const translate = (message: string) => composed?.get(message) ?? OWN.get(message) ?? translations.get(message);
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

/** Whether Accept-Language (RFC 9110, 12.5.4) ranks any kind of Portuguese above English. */
export function prefersPortuguese(headers: IncomingHttpHeaders): boolean {
  const negotiator = new Negotiator({ headers });
  const first = negotiator.languages().find((language) => /^(en|pt|\*)(-|$)/i.test(language));
  // `*` stands for English, unless the client also names English with a lower weight.
  if (first === '*') return negotiator.language(['en', 'pt-BR']) === 'pt-BR';
  return /^pt/i.test(first ?? '');
}
