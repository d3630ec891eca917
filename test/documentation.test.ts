import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, test } from 'vitest';

const PAGES = [
  ...['README.md', 'CONTRIBUTING.md', 'SECURITY.md', 'client/README.md', 'supabase/README.md'],
  ...readdirSync('docs')
    .filter((name) => name.endsWith('.md'))
    .map((name) => `docs/${name}`),
];
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

  test('names npm scripts that exist', () => {
    for (const [, name = ''] of text.matchAll(/npm run (?:--silent )?([a-z][\w:]*)/g))
      expect(scripts).toHaveProperty([name]);
  });
});

test('every page of docs is linked from the README', () => {
  const readme = readFileSync('README.md', 'utf8');
  for (const name of readdirSync('docs').filter((name) => !name.endsWith('.yaml')))
    expect(readme).toContain(`(docs/${name})`);
});

test('the scripts need no Unix shell, except for exec, without which a signal to npm does not reach the gateway', () => {
  for (const [name, command] of Object.entries<string>(scripts)) {
    const isGateway = ['start', 'dev'].includes(name);
    expect(command.startsWith('exec '), name).toBe(isGateway);
    // Outside of double quotes: patterns, variables and single quotes.
    expect(command.replaceAll(/"[^"]*"/g, ''), name).not.toMatch(/['*?$`;<>]|\b(cp|mv|rm|mkdir|export|cat)\b/);
  }
});
