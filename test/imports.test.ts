import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { describe, expect, test } from 'vitest';

const SRC = 'src';
const files = readdirSync(SRC, { recursive: true, encoding: 'utf8' }).filter((file) => file.endsWith('.ts'));

/** What a file of ours imports, types included, by its path below src. */
function importsOf(file: string): string[] {
  const text = readFileSync(join(SRC, file), 'utf8');
  const specifiers = [...text.matchAll(/(?:from|import\(|new URL\()\s*'(\.[^']+)'/g)].map(
    ([, specifier]) => specifier ?? '',
  );
  return specifiers.map((specifier) => relative(SRC, join(SRC, dirname(file), specifier)));
}

/** Layers from the top to the ground: a file imports from below its own layer alone. */
const LAYERS = [
  ['main.ts'],
  ['primary.ts', 'worker.ts'],
  ['service.ts'],
  ['app.ts', 'server.ts', 'management.ts', 'welcome.ts', 'tracing.ts'],
  ['readiness.ts', 'dev.ts', 'docs.ts', 'observer.ts', 'group-metrics.ts'],
  ['contract-check.ts', 'log.ts', 'metrics.ts', 'docs-page.ts', 'routes.ts', 'kept-document.ts'],
  ['gateway.ts', 'rate-limits.ts', 'workers.ts'],
  [
    'respond.ts',
    'router.ts',
    'body.ts',
    'call.ts',
    'deadline.ts',
    'key-use.ts',
    'refusals.ts',
    'counters.ts',
    'links.ts',
    'contract.ts',
  ],
  ['request.ts', 'redis.ts', 'validation.ts', 'compression.ts', 'examples.ts', 'contract-types.ts'],
  [
    'operations.ts',
    'accepted-keys.ts',
    'unread.ts',
    'network.ts',
    'problems.ts',
    'language.ts',
    'portuguese.ts',
    'config.ts',
    'document-mistakes.ts',
    'channel.ts',
  ],
  ['document.ts', 'messages.ts', 'observation.ts'],
  ['store/store.ts'],
  ['errors.ts'],
];

/** A store knows the interface, the errors and what is the stores' own; it knows nothing of HTTP. */
const STORE_LAYERS = [
  ['store/embedded.ts', 'store/postgres.ts', 'store/supabase.ts', 'store/limited.ts'],
  [
    'store/embedded-worker.ts',
    'store/postgres-cancel.ts',
    'store/postgres-rows.ts',
    'store/supabase-request.ts',
    'store/describe.ts',
    'store/postgrest-description.ts',
  ],
  ['store/postgres-query.ts', 'store/postgres-client.ts', 'store/embedded-session.ts'],
  ['store/json-rows.ts'],
  ['store/json-times.ts'],
  [
    'store/statement.ts',
    'store/json-values.ts',
    'store/pg-error.ts',
    'store/migrations.ts',
    'store/lock.ts',
    'store/claims.ts',
  ],
  ['store/store.ts'],
  ['errors.ts'],
];

/** The client is a package of its own: it knows nothing of the gateway but the types of the document. */
const CLIENT_LAYERS = [['client.ts'], ['generated/openapi.ts']];

const layerOf = (layers: string[][], file: string) => layers.findIndex((layer) => layer.includes(file));

test('every file has its layer', () => {
  const known = new Set([...LAYERS, ...STORE_LAYERS, ...CLIENT_LAYERS].flat());
  expect(files.filter((file) => !file.startsWith('generated/') && !known.has(file))).toEqual([]);
  expect([...known].filter((file) => !files.includes(file))).toEqual([]);
});

describe.each(LAYERS.flat())('%s', (file) => {
  test('imports from below alone', () => {
    for (const other of importsOf(file)) {
      if (file === 'main.ts' && layerOf(STORE_LAYERS, other) === 0) continue;
      expect(LAYERS.flat(), `${file} imports ${other}`).toContain(other);
      expect(layerOf(LAYERS, other), `${file} imports ${other}`).toBeGreaterThan(layerOf(LAYERS, file));
    }
  });
});

describe.each(STORE_LAYERS.flat())('%s as a part of a store', (file) => {
  test('imports from below alone', () => {
    for (const other of importsOf(file)) {
      expect(layerOf(STORE_LAYERS, other), `${file} imports ${other}`).toBeGreaterThan(layerOf(STORE_LAYERS, file));
    }
  });
});

test('client.ts imports the generated types alone', () => {
  for (const other of importsOf('client.ts')) expect(layerOf(CLIENT_LAYERS, other), other).toBe(1);
});

test('errors.ts imports nothing', () => {
  expect(readFileSync(join(SRC, 'errors.ts'), 'utf8')).not.toMatch(/^import /m);
});

test('only main.ts chooses a store and reads the environment', () => {
  for (const file of files.filter((file) => file !== 'main.ts' && !file.startsWith('store/'))) {
    expect(importsOf(file).filter((other) => other.startsWith('store/') && other !== 'store/store.ts')).toEqual([]);
    expect(readFileSync(join(SRC, file), 'utf8'), file).not.toContain('process.env');
  }
});

test('only respond.ts writes bodies', () => {
  for (const file of files.filter((file) => file !== 'respond.ts')) {
    expect(readFileSync(join(SRC, file), 'utf8'), file).not.toMatch(/\bres\.(end|json|send|write|writeHead)\(/);
  }
});

test('no operation of the document is named in the code', () => {
  const names = [...readFileSync('openapi.yaml', 'utf8').matchAll(/(?:operationId|x-rpc): (\w+)/g)].map(
    ([, name]) => name,
  );
  expect(names.length).toBeGreaterThanOrEqual(14);
  for (const file of files.filter((file) => !file.startsWith('generated/'))) {
    const text = readFileSync(join(SRC, file), 'utf8');
    for (const name of names) expect(text, file).not.toContain(name);
  }
});
