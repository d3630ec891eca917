// The examples of the documentation, as a person follows them.

import { readFileSync } from 'node:fs';

/** The text of each code block of a section, in a language. */
export function readBlocks(page: string, heading: string, language: string): string[] {
  const text = readFileSync(page, 'utf8');
  const [, section = ''] = new RegExp(`^## ${heading}\n(.*?)(?=^## |(?![^]))`, 'ms').exec(text) ?? [];
  return [...section.matchAll(new RegExp(`^( *)\`\`\`${language}\n(.*?)^\\1\`\`\`$`, 'gms'))].map(
    ([, indent = '', text = '']) => text.replaceAll(new RegExp(`^${indent}`, 'gm'), ''),
  );
}

const PAGE = 'docs/adding-an-operation.md';
const [yaml = ''] = readBlocks(PAGE, 'A report', 'yaml');
const [sql = ''] = readBlocks(PAGE, 'A report', 'sql');
const [change = ''] = readBlocks(PAGE, 'A change of state', 'sql');
const [command = ''] = readBlocks(PAGE, 'A change of state', 'sh');
const [examples = ''] = readBlocks(PAGE, 'A change of state', 'yaml');

/** The operation whose YAML a command writes: its SQL, the command, and the edited examples of the 409. */
export const CHANGE = { sql: change, command: command.trim(), examples: examples.trim() };

/** The operation that is written by hand: its SQL, a request, and the answer. */
export const EXAMPLE = {
  sql,
  target: '/personais/contagem?minimo=2',
  answer: [{ academia_id: 'a1000000-0000-4000-8000-000000000001', total: 2 }],
};

/** The document with this operation, which it has already if somebody has followed the page. */
export function withExample(document: string): string {
  return document.replace(yaml, '').replace(/^paths:\n/m, (line) => line + yaml);
}

/** Whether a file is the migration of this operation. */
export function isExampleMigration(file: string): boolean {
  return file.endsWith('_contar_personais.sql');
}

const [table = '', rows = ''] = readBlocks('README.md', 'Add an operation', 'sql');
const commands = readBlocks('README.md', 'Add an operation', 'sh').flatMap((block) => block.trimEnd().split('\n'));

/** The README's table under another name and with other ids: somebody may have followed the README already. */
export function readTable(name: string, digit: string) {
  const rename = (text: string) => text.replaceAll('armario', name).replace(/([ab])7(?=000000-)/g, `$1${digit}`);
  return {
    sql: rename(table),
    /** The demo data. */
    rows: rename(rows),
    /** The commands in their order, and the request. */
    commands: commands.filter((command) => !command.startsWith('curl ')).map(rename),
    curl: rename(commands.find((command) => command.startsWith('curl ')) ?? ''),
  };
}
