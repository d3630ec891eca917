// Compares docs/openapi.pt-BR.yaml with openapi.yaml: npm run check:translations. It lists texts without a translation, which the page
// shows in English, and fails for translations of texts that are no longer in the document.

import { join } from 'node:path';
import { stringify } from 'yaml';
import { readDocument } from '../src/openapi/document.ts';
import { readTexts, toTextsFile, translateTexts } from '../src/openapi/translations.ts';

const DOCUMENT = 'openapi.yaml';

/** Compares the texts in a folder, and prints those without a translation. Throws for translations of other texts. */
export async function checkTranslations(folder: string, print: (line: string) => void): Promise<void> {
  const document = join(folder, DOCUMENT);
  const paragraphs = new Set<string>();
  translateTexts(readDocument(document), (paragraph) => void paragraphs.add(paragraph));
  const translated = new Set(readTexts(document).keys());
  const file = toTextsFile(DOCUMENT);
  const missing = [...paragraphs.difference(translated)];
  if (missing.length > 0) print(`Note: the page shows these texts as they are. To translate them, add to ${file}:`);
  for (const text of missing) print(stringify([{ en: text, 'pt-BR': '' }]).trimEnd());
  const leftovers = [...translated.difference(paragraphs)];
  if (leftovers.length === 0) return;
  throw new Error(leftovers.map((text) => `${file} translates what ${DOCUMENT} does not say: ${text}`).join('\n'));
}

if (import.meta.main) {
  await checkTranslations('.', console.log).catch((error) => {
    console.error(error.message);
    process.exit(1);
  });
}
