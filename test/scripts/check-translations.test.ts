import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { type Run, runCommand } from '../helpers/run.ts';

let cwd: string;

beforeEach(() => {
  cwd = mkdtempSync(join(tmpdir(), 'check-translations-'));
});

afterEach(() => rmSync(cwd, { recursive: true }));

/** Checks a document with one text and these translations. */
function check(translations: string): Promise<Run> {
  writeFileSync(
    join(cwd, 'openapi.yaml'),
    'openapi: 3.0.3\ninfo:\n  description: |\n    One\n    line.\n\n    Another.\n',
  );
  mkdirSync(join(cwd, 'docs'), { recursive: true });
  writeFileSync(join(cwd, 'docs/openapi.pt-BR.yaml'), translations);
  return runCommand(resolve('scripts/check-translations.ts'), [], { cwd });
}

test('a text without a translation is named', async () => {
  const output =
    'Note: the page shows these texts as they are. To translate them, add to docs/openapi.pt-BR.yaml:\n- en: Another.\n  pt-BR: ""\n';
  expect(await check('- { en: One line., pt-BR: Uma linha. }')).toEqual({ code: 0, output, errors: '' });
  const added = '[{ en: One line., pt-BR: Uma linha. }, { en: Another., pt-BR: "" }]';
  expect(await check(added)).toEqual({ code: 0, output, errors: '' });
});

test('a translation of a text that is gone is refused', async () => {
  const errors = 'docs/openapi.pt-BR.yaml translates what openapi.yaml does not say: Two lines.\n';
  const all = '[{ en: One line., pt-BR: Uma linha. }, { en: Another., pt-BR: Outra. }';
  expect(await check(`${all}, { en: Two lines., pt-BR: Duas linhas. }]`)).toEqual({ code: 1, output: '', errors });
});

test.each([
  ['One line.: Uma linha.', 'openapi.pt-BR.yaml must be a list of texts, each with en and pt-BR'],
  [
    '- { en: One line, then, pt-BR: "" }',
    'openapi.pt-BR.yaml: text 1 must have en and pt-BR alone, each a string; it is {"en":"One line","then":null,"pt-BR":""}',
  ],
])('%s is refused', async (translations, message) => {
  expect(await check(translations)).toEqual({ code: 1, output: '', errors: `${message}\n` });
});

test('invalid YAML is refused with its line', async () => {
  const { code, errors } = await check('- { en: One');
  expect({ code, errors }).toEqual({ code: 1, errors: expect.stringMatching(/^openapi\.pt-BR\.yaml:1: /) });
});
