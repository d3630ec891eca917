import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { compile } from '../../src/openapi/compile.ts';
import type { Mistake } from '../../src/openapi/document.ts';
import { readTranslations } from '../../src/openapi/translations.ts';
import { document } from '../helpers/api.ts';

type Translated = typeof document & { 'x-translations'?: unknown };

const { 'x-translations': translations, ...rest } = document as Translated;

test('x-translations has the Portuguese of every text of the document and of SQL, and nothing else', () => {
  const errorCodes = readFileSync('supabase/error-codes.md', 'utf8');
  // The message of a PT422 on several fields is not sent: its fields have messages of their own.
  const raised = [...errorCodes.matchAll(/^\| `(?:PT422|p_\w+)` \| `([^`]+)` \| /gm)]
    .map(([, text]) => text)
    .filter((text) => text !== 'invalid fields');
  const patterns = readFileSync('openapi.yaml', 'utf8').matchAll(/x-pattern-message: (.+)$/gm);
  const texts = new Set([...raised, ...[...patterns].map(([, text]) => text)]);
  expect(raised.length).toBeGreaterThanOrEqual(3);
  expect(texts.size).toBeGreaterThanOrEqual(raised.length + 2);
  expect(Object.keys((translations as { 'pt-BR': object })['pt-BR']).sort()).toEqual([...texts].sort());
});

test.each<[value: unknown, text?: string, place?: readonly string[]]>([
  [undefined],
  [{}],
  [{ 'pt-BR': {} }],
  [null, 'x-translations must be a map of languages', ['x-translations']],
  [['pt-BR'], 'x-translations must be a map of languages', ['x-translations']],
  [{ es: {} }, 'x-translations has es: only pt-BR is supported', ['x-translations', 'es']],
  [{ 'pt-BR': 'a' }, 'x-translations pt-BR must be a map from English texts', ['x-translations', 'pt-BR']],
  ...['', 1].map((value): [unknown, string, string[]] => [
    { 'pt-BR': { 'must be odd': value } },
    `x-translations pt-BR: the translation of "must be odd" must be a non-empty string; it is ${JSON.stringify(value)}`,
    ['x-translations', 'pt-BR', 'must be odd'],
  ]),
])('x-translations may be %j, or its mistake is told with its place', (value, text?, place?) => {
  const mistakes: Mistake[] = [];
  const source = { ...rest, ...(value === undefined ? {} : { 'x-translations': value }) } as Translated;
  expect([...readTranslations(source, mistakes)]).toEqual([]);
  expect(mistakes).toEqual(text ? [{ text, place }] : []);
});

test('all mistakes of x-translations are told when the document is compiled', async () => {
  const broken = { ...document, 'x-translations': { es: {}, 'pt-BR': { a: 1 } } } as Translated;
  await expect(compile(broken)).rejects.toThrow(/has es:.*\n.*of "a"/);
});
