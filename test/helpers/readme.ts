// The README's "Add an operation", as a person follows it.

import { readFileSync } from 'node:fs';

const [, section = ''] = /^## Add an operation\n(.*?)^## /ms.exec(readFileSync('README.md', 'utf8')) ?? [];

/** The text of each code block in a language. */
function readBlocks(language: string): string[] {
  return [...section.matchAll(new RegExp(`^\`\`\`${language}\n(.*?)^\`\`\`$`, 'gms'))].map(([, text = '']) => text);
}

const [yaml = ''] = readBlocks('yaml');
const [sql = ''] = readBlocks('sql');
const commands = readBlocks('sh').flatMap((block) => block.trimEnd().split('\n'));

/** The example: its YAML and SQL, the commands in their order, and the request and answer. */
export const EXAMPLE = {
  sql,
  commands: commands.filter((command) => !command.startsWith('curl ')),
  curl: commands.find((command) => command.startsWith('curl ')) ?? '',
  answer: [{ academia_id: 'a1000000-0000-4000-8000-000000000001', total: 2 }],
};

/** The document without the example, where somebody has followed the README already. */
export function withoutExample(document: string): string {
  return document.replace(yaml, '');
}

/** The document with the example at the place that the README names. */
export function withExample(document: string): string {
  return withoutExample(document).replace(/^paths:\n/m, (line) => line + yaml);
}

/** Whether a file is the example's migration. */
export function isExampleMigration(file: string): boolean {
  return file.endsWith('_contar_personais.sql');
}
