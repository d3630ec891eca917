import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { checkTranslations } from '../../scripts/check-translations.ts';

const folder = mkdtempSync(join(tmpdir(), 'check-translations-'));
mkdirSync(join(folder, 'docs'));
writeFileSync(
  join(folder, 'openapi.yaml'),
  'openapi: 3.0.3\ninfo:\n  description: |\n    One\n    line.\n\n    Another.\n',
);

/** The output for the document with two texts and these translations. */
async function check(translations: string): Promise<string[]> {
  writeFileSync(join(folder, 'docs/openapi.pt-BR.yaml'), translations);
  const lines: string[] = [];
  await checkTranslations(folder, (line) => void lines.push(line));
  return lines;
}

test('a text without a translation is named', async () => {
  const named = [
    'Note: the page shows these texts as they are. To translate them, add to docs/openapi.pt-BR.yaml:',
    '- en: Another.\n  pt-BR: ""',
  ];
  expect(await check('- { en: One line., pt-BR: Uma linha. }')).toEqual(named);
  expect(await check('[{ en: One line., pt-BR: Uma linha. }, { en: Another., pt-BR: "" }]')).toEqual(named);
  expect(await check('[{ en: One line., pt-BR: Uma linha. }, { en: Another., pt-BR: Outra. }]')).toEqual([]);
});

test.each([
  [
    '- { en: Two lines., pt-BR: Duas linhas. }',
    'docs/openapi.pt-BR.yaml translates what openapi.yaml does not say: Two lines.',
  ],
  ['One line.: Uma linha.', 'openapi.pt-BR.yaml must be a list of texts, each with en and pt-BR'],
  [
    '- { en: One line, then, pt-BR: "" }',
    'openapi.pt-BR.yaml: text 1 must have en and pt-BR alone, each a string; it is {"en":"One line","then":null,"pt-BR":""}',
  ],
  ['- { en: One', /^openapi\.pt-BR\.yaml:1: /],
])('%s is refused', async (translations, message) => {
  await expect(check(translations)).rejects.toThrow(message);
});
