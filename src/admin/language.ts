// The language of the administration's texts: English or Portuguese, by --lang or the locale. `t` translates templates where they are
// written; `translate` translates whole texts where they are printed.

import { AsyncLocalStorage } from 'node:async_hooks';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'yaml';
import { type Message, toEnglish } from '../errors.ts';

export type Language = 'en' | 'pt-BR';

/** The language of the running command. As an argument, it would have to pass through every function with a message. */
const current = new AsyncLocalStorage<Language>();

/**
 * Finds the language of a command: --lang, or else the locale (POSIX, "Internationalization Variables"). With --json the default is
 * English, so that scripts can compare texts on any machine.
 */
export function findLanguage(args: readonly string[], env: Readonly<Record<string, string | undefined>>): Language {
  // Commander refuses another value of --lang, in the language of the locale.
  const [, named] = / --lang[ =](pt|en)(?!\S)/.exec(` ${args.join(' ')}`) ?? [];
  const locale = args.includes('--json') ? '' : env.LC_ALL || env.LC_MESSAGES || env.LANG;
  return (named ?? locale ?? '').startsWith('pt') ? 'pt-BR' : 'en';
}

/** Runs `work` with its texts in a language. */
export function inLanguage<T>(language: Language, work: () => T): T {
  return current.run(language, work);
}

/** Translates a template. */
export function t(parts: TemplateStringsArray, ...values: readonly unknown[]): string {
  const english = toKey(parts);
  return fill((language() === 'pt-BR' && readPortuguese().own.get(english)) || english, values);
}

/** Translates a whole text: the administration's own, another component's, or a message of the API. */
export function translate(text: Message): string {
  if (language() === 'en') return toEnglish(text);
  if (typeof text !== 'string') return text['pt-BR'];
  return readPortuguese().own.get(text) ?? translateForeign(text);
}

/** The key of a template: its English text, with {0} and {1} for the values. */
export function toKey(parts: readonly string[]): string {
  return parts.reduce((text, part, index) => `${text}{${index - 1}}${part}`);
}

/** A text in every language. */
export function inAll(text: string): string[] {
  return [text, readPortuguese().own.get(text) ?? text];
}

/** The language of the running command. */
export function language(): Language {
  return current.getStore() ?? 'en';
}

/** The Portuguese texts by their English ones: the administration's own, and those of other components. */
type Portuguese = Readonly<Record<'own' | 'others', ReadonlyMap<string, string>>>;

let portuguese: Portuguese | undefined;

/** Reads the Portuguese texts, once. Most commands need none. */
export function readPortuguese(): Portuguese {
  if (portuguese) return portuguese;
  const file = readFileSync(join(import.meta.dirname, 'portuguese.yaml'), 'utf8');
  portuguese = Object.fromEntries(parse(file, { mapAsMap: true })) as Portuguese;
  return portuguese;
}

function translateForeign(text: string): string {
  for (const [english, translated] of readPortuguese().others) {
    const parts = english.split(/\{\d\}/).map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'));
    const match = new RegExp(`^${parts.join('(.*)')}$`, 's').exec(text);
    if (match) return fill(translated, match.slice(1));
  }
  return text;
}

function fill(text: string, values: readonly unknown[]): string {
  return text.replace(/\{(\d)\}/g, (_, index) => `${values[Number(index)]}`);
}
