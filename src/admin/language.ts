// The language of the administration's texts: English, or Portuguese where --lang or the environment says so. Texts with values go
// through `t` where they are written; whole ones through `translate` where they are printed.

import { AsyncLocalStorage } from 'node:async_hooks';
import { type Message, toEnglish } from '../errors.ts';
import { FOREIGN, PORTUGUESE } from './portuguese.ts';

export type Language = 'en' | 'pt-BR';

/** The language of the command that runs. As an argument it would go through every function down to the last message. */
const spoken = new AsyncLocalStorage<Language>();

/**
 * The language of a command: that of --lang, or else of the locale as POSIX finds it. Scripts that compare the texts of --json get
 * English wherever they run, unless they name another.
 */
export function findLanguage(args: readonly string[], env: Readonly<Record<string, string | undefined>>): Language {
  // Another is refused, in the language of the locale.
  const [, named] = / --lang[ =](pt|en)(?!\S)/.exec(` ${args.join(' ')}`) ?? [];
  const locale = args.includes('--json') ? '' : env.LC_ALL || env.LC_MESSAGES || env.LANG;
  return (named ?? locale ?? '').startsWith('pt') ? 'pt-BR' : 'en';
}

/** Runs a command whose texts are in a language. */
export function inLanguage<T>(language: Language, work: () => T): T {
  return spoken.run(language, work);
}

/** The text of a template in the language of the command. */
export function t(parts: TemplateStringsArray, ...values: readonly unknown[]): string {
  const english = toKey(parts);
  return fill((isPortuguese() && PORTUGUESE[english]) || english, values);
}

/** A whole text in the language of the command: the administration's own, one of others, or a message of the API. */
export function translate(text: Message): string {
  if (!isPortuguese()) return toEnglish(text);
  if (typeof text !== 'string') return text['pt-BR'];
  return PORTUGUESE[text] ?? translateForeign(text);
}

/** The English of a template, with {0} and {1} for its values. */
export function toKey(parts: readonly string[]): string {
  return parts.reduce((text, part, index) => `${text}{${index - 1}}${part}`);
}

/** A text in every language. */
export function inAll(text: string): string[] {
  return [text, PORTUGUESE[text] ?? text];
}

/** The language of the command that runs. */
export function language(): Language {
  return spoken.getStore() ?? 'en';
}

function isPortuguese(): boolean {
  return language() === 'pt-BR';
}

const PATTERNS = Object.entries(FOREIGN).map(([english, portuguese]) => {
  const parts = english.split(/\{\d\}/).map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'));
  return [new RegExp(`^${parts.join('(.*)')}$`, 's'), portuguese] as const;
});

function translateForeign(text: string): string {
  for (const [pattern, portuguese] of PATTERNS) {
    const match = pattern.exec(text);
    if (match) return fill(portuguese, match.slice(1));
  }
  return text;
}

function fill(text: string, values: readonly unknown[]): string {
  return text.replace(/\{(\d)\}/g, (_, index) => `${values[Number(index)]}`);
}
