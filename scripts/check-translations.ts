// npm run check:translations compares docs/openapi.pt-BR.yaml with openapi.yaml: it names the texts that have no translation, which
// the page shows as they are, and fails for translations of texts that are no longer there.

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
