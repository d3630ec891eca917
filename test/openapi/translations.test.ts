import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { compile } from '../../src/openapi/compile.ts';
import type { Mistake } from '../../src/openapi/document.ts';
import { readTranslations, translateTexts } from '../../src/openapi/translations.ts';
import { document } from '../helpers/api.ts';

type Translated = typeof document & { 'x-translations'?: unknown };

const { 'x-translations': translations, ...rest } = document as Translated;

test('x-translations translates every text of the document and of SQL, and nothing else', () => {
  const errorCodes = readFileSync('supabase/error-codes.md', 'utf8');
  // The message of a PT422 for several fields is not sent: each field has a message of its own.
  const raised = [...errorCodes.matchAll(/^\| `(?:PT422|p_\w+)` \| `([^`]+)` \| /gm)]
    .map(([, text]) => text)
    .filter((text) => text !== 'invalid fields');
  const patterns = readFileSync('openapi.yaml', 'utf8').matchAll(/x-pattern-message: (.+)$/gm);
  const texts = new Set([...raised, ...[...patterns].map(([, text]) => text)]);
  expect(raised.length).toBeGreaterThanOrEqual(3);
  expect(texts.size).toBeGreaterThanOrEqual(raised.length + 2);
  expect(Object.keys((translations as { 'pt-BR': object })['pt-BR']).sort()).toEqual([...texts].sort());
});

test.each<[value: unknown, ...place: string[][]]>([
  [undefined],
  [{}],
  [{ 'pt-BR': {} }],
  [null, []],
  [['pt-BR'], []],
  [{ 'pt-BR': 'a' }, []],
  [{ es: {} }, ['es']],
  [{ 'pt-BR': { 'must be odd': '', 'must be even': 1 } }, ['pt-BR', 'must be odd'], ['pt-BR', 'must be even']],
])('x-translations may be %j, or its mistakes are reported with their places', (value, ...places) => {
  const mistakes: Mistake[] = [];
  const source = { ...rest, ...(value === undefined ? {} : { 'x-translations': value }) } as Translated;
  expect([...readTranslations(source, mistakes)]).toEqual([]);
  expect(mistakes.map(({ place }) => place)).toEqual(places.map((place) => ['x-translations', ...place]));
});

test('texts are translated under every name that a map may have', () => {
  const schema = { properties: { default: { description: 'a' } }, default: { description: 'a' } };
  const translated = { properties: { default: { description: 'b' } }, default: { description: 'a' } };
  const toDocument = (text: string, value: object) =>
    ({
      paths: { '/a': { get: { responses: { default: { description: text } } } } },
      components: { schemas: { value } },
    }) as never;
  expect(translateTexts(toDocument('a', schema), () => 'b')).toEqual(toDocument('b', translated));
});

test('all mistakes of x-translations are reported when the document is compiled', async () => {
  const broken = { ...document, 'x-translations': { es: {}, 'pt-BR': { a: 1 } } } as Translated;
  await expect(compile(broken)).rejects.toThrow(/^x-translations "es": .*\n.* "pt-BR" "a": only pt-BR, with a text/);
});
