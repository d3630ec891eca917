// Compares docs/openapi.pt-BR.yaml with openapi.yaml: npm run check:translations. It lists texts without a translation, which the page
// shows in English, and fails for translations of texts that are no longer in the document.

import { stringify } from 'yaml';
import { readDocument } from '../src/openapi/document.ts';
import { readTexts, toTextsFile, translateTexts } from '../src/openapi/translations.ts';

const DOCUMENT = 'openapi.yaml';

async function main(): Promise<void> {
  const paragraphs = new Set<string>();
  translateTexts(await readDocument(DOCUMENT), (paragraph) => void paragraphs.add(paragraph));
  const translated = new Set(readTexts(DOCUMENT).keys());
  const file = toTextsFile(DOCUMENT);
  const missing = [...paragraphs.difference(translated)];
  if (missing.length > 0)
    console.log(`Note: the page shows these texts as they are. To translate them, add to ${file}:`);
  for (const text of missing) console.log(stringify([{ en: text, 'pt-BR': '' }]).trimEnd());
  const leftovers = [...translated.difference(paragraphs)];
  if (leftovers.length === 0) return;
  throw new Error(leftovers.map((text) => `${file} translates what ${DOCUMENT} does not say: ${text}`).join('\n'));
}

main().catch((error) => {
  console.error(error.message);
  process.exit(1);
});
