import { execFile } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { beforeAll, describe, expect, inject, test } from 'vitest';
import { readCommands } from './helpers/commands.ts';

const PAGES = [
  ...['README.md', 'CONTRIBUTING.md', 'SECURITY.md', 'client/README.md', 'supabase/README.md'],
  ...readdirSync('docs')
    .filter((name) => name.endsWith('.md'))
    .map((name) => `docs/${name}`),
];
const ADMINISTRATION = 'docs/administration.md';
let commands: readonly string[];
const { scripts } = JSON.parse(readFileSync('package.json', 'utf8'));

/** The anchors that GitHub makes of a page's headings. */
function readAnchors(page: string): string[] {
  const headings = [...readFileSync(page, 'utf8').matchAll(/^#+ (.+)$/gm)].map(([, heading = '']) => heading);
  return headings.map((heading) =>
    heading
      .toLowerCase()
      .replace(/[^\w -]/g, '')
      .replaceAll(' ', '-'),
  );
}

/** The commands of a page that have options: npm's script and its arguments. */
function readCalls(page: string): [script: string, args: string][] {
  const text = readFileSync(page, 'utf8').replaceAll(/\\\n */g, '');
  const calls = text.matchAll(
    /npm run (?:--silent )?(admin|contract(?::diff)?|migrate|operation) -- (?!…)([^\n`&|#]+)/g,
  );
  const [, table = ''] = page === ADMINISTRATION ? (/^## Commands\n(.*?)^## /ms.exec(text) ?? []) : [];
  const cells = [...table.matchAll(/^\| (`.*?`) \|/gm)].flatMap(([, cell = '']) => [...cell.matchAll(/`(.*?)`/g)]);
  return [
    ...[...calls].map(([, script = '', args = '']): [string, string] => [script, args]),
    ...cells.map(([, args = '']): [string, string] => ['admin', args]),
  ];
}

/** The command without its arguments, such as `command admin key issue`. */
function toCommand(script: string, args: string): string {
  let command = `command ${script}`;
  for (const word of args.trim().split(/\s+/)) {
    if (!commands.includes(`${command} ${word}`) || word.startsWith('-')) break;
    command += ` ${word}`;
  }
  return command;
}

/** Whether a command does something itself. One such as `admin key` only has subcommands. */
function isWhole(command: string): boolean {
  return !commands.some((other) => other.startsWith(`${command} `) && !other.includes(' --'));
}

beforeAll(async () => {
  commands = await readCommands();
});

describe.each(PAGES)('%s', (page) => {
  const text = readFileSync(page, 'utf8');
  const links = [...text.matchAll(/\]\((?!https?:)([^)#]*)(?:#([^)]*))?\)/g)];

  test('links to files and headings that exist', () => {
    for (const [link, file = '', anchor] of links) {
      const target = file ? join(dirname(page), file) : page;
      expect(existsSync(target), link).toBe(true);
      if (anchor) expect(readAnchors(target), link).toContain(anchor);
    }
  });

  test('has at most 200 lines', () => {
    expect(text.trimEnd().split('\n').length).toBeLessThanOrEqual(200);
  });

  test('names commands and options that exist', () => {
    for (const [script, args] of readCalls(page)) {
      if (args.includes('--help')) continue;
      const command = toCommand(script, args);
      expect(isWhole(command), args).toBe(true);
      for (const [option] of args.matchAll(/--[a-z][\w-]*/g)) expect(commands, args).toContain(`${command} ${option}`);
    }
  });

  test('names npm scripts that exist', () => {
    for (const [, name = ''] of text.matchAll(/npm run (?:--silent )?([a-z][\w:]*)/g))
      expect(scripts).toHaveProperty([name]);
  });
});

test('the page of the administrator names every command', () => {
  const named = readCalls(ADMINISTRATION).map(([, args]) => toCommand('admin', args));
  const all = commands.filter((name) => name.startsWith('command admin ') && !name.includes(' --') && isWhole(name));
  expect(all.filter((command) => !named.includes(command))).toEqual([]);
});

test('every page of docs is linked from the README', () => {
  const readme = readFileSync('README.md', 'utf8');
  for (const name of readdirSync('docs').filter((name) => !name.endsWith('.yaml')))
    expect(readme).toContain(`(docs/${name})`);
});

test.each(['README.md', 'docs/using-the-api.md'])('curl requests of %s are answered as it shows', async (page) => {
  const lines = readFileSync(page, 'utf8').matchAll(
    /^(curl .*wms_demo.*127\.0\.0\.1:3000\/v1.*)\n(?:# (.*?)(?:, ….*)?\n)?/gm,
  );
  // Other tests run those that create.
  const reads = [...lines].filter(([, curl = '']) => !curl.includes(' -d '));
  expect(reads.length).toBeGreaterThan(0);
  for (const [, curl = '', shown = '[{'] of reads) {
    const command = `${curl.replace('http://127.0.0.1:3000/v1', inject('url'))} --silent`;
    const { stdout } = await promisify(execFile)('sh', ['-c', command]);
    expect(stdout.startsWith(shown), `${curl}\n${stdout}`).toBe(true);
  }
});

test('the scripts need a Unix shell only for exec, without which no signal to npm reaches the gateway, and for xargs', () => {
  for (const [name, command] of Object.entries<string>(scripts)) {
    const isGateway = ['start', 'dev'].includes(name);
    expect(command.startsWith('exec '), name).toBe(isGateway);
    // Only xargs runs all checks at once, and goes on after one that fails.
    expect(command.includes('xargs'), name).toBe(name === 'check');
    // Outside of double quotes: patterns, variables and single quotes.
    expect(command.replaceAll(/"[^"]*"/g, ''), name).not.toMatch(/['*?$`;<>]|\b(cp|mv|rm|mkdir|export|cat)\b/);
  }
});
