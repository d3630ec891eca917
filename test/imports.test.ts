import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { expect, test } from 'vitest';

const SRC = 'src';
const files = readdirSync(SRC, { recursive: true, encoding: 'utf8' }).filter((file) => file.endsWith('.ts'));

/** The folders and top files of src from top to bottom: each imports only from itself and from those below it. */
const ORDER = [
  'main.ts',
  'admin',
  'cluster',
  'service.ts',
  'check.ts',
  'dev.ts',
  'http',
  'api',
  'limits',
  'telemetry',
  'openapi',
  'store',
  'config.ts',
  'database-url.ts',
  'near-miss.ts',
  'deadline.ts',
  'errors.ts',
];
const STORES = ['store/postgres', 'store/supabase', 'store/embedded'];

const read = (file: string) => readFileSync(join(SRC, file), 'utf8');
const placeOf = (file: string) => ORDER.indexOf(file.split('/')[0] ?? '');

/** The files of src that a file imports, types included. */
function importsOf(file: string): string[] {
  const specifiers = [...read(file).matchAll(/(?:from|import\(|new URL\()\s*'(\.[^']+)'/g)];
  return specifiers.map(([, specifier = '']) => relative(SRC, join(SRC, dirname(file), specifier)));
}

test('every file has a place in the order', () => {
  expect(files.filter((file) => placeOf(file) === -1)).toEqual([]);
});

test.each(files)('%s imports only from its own folder and from those below it', (file) => {
  expect(importsOf(file).filter((other) => placeOf(other) < placeOf(file))).toEqual([]);
});

test('a store imports nothing of another store', () => {
  for (const store of STORES) {
    const others = STORES.filter((other) => other !== store);
    const files_ = files.filter((file) => dirname(file).startsWith(store));
    expect(files_.flatMap(importsOf).filter((file) => others.some((other) => file.startsWith(other)))).toEqual([]);
  }
});

test('only store/open.ts chooses a store for the gateway, and only main.ts reads its environment', () => {
  const others = files.filter((file) => file !== 'main.ts' && !/^(admin|store)\//.test(file));
  for (const file of others) {
    expect(importsOf(file).filter((other) => STORES.some((store) => other.startsWith(store)))).toEqual([]);
    expect(read(file), file).not.toContain('process.env');
  }
});

test('only http knows sockets', () => {
  const others = files.filter((file) => /^(api|limits|telemetry|openapi|store)\//.test(file));
  for (const file of others) expect(read(file), file).not.toMatch(/IncomingMessage|ServerResponse|from 'express'/);
});

test('only http/respond.ts writes bodies', () => {
  for (const file of files.filter((file) => file !== 'http/respond.ts')) {
    expect(read(file), file).not.toMatch(/\bres\.(end|json|send|write|writeHead)\(/);
  }
});

test('no operation of the document is named in the code', () => {
  const document = readFileSync('openapi.yaml', 'utf8');
  const names = [...document.matchAll(/(?:operationId|x-rpc): (\w+)/g)].map(([, name = '']) => name);
  expect(names.length).toBeGreaterThan(0);
  for (const file of files) {
    // The help of the administration has examples with such names.
    const code = read(file).replaceAll(/--permission [\w ]+/g, '');
    expect(names.filter((name) => code.includes(name), file)).toEqual([]);
  }
});
