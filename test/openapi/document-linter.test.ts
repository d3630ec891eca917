import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { parseDocument } from 'yaml';
import { withExample } from '../helpers/readme.ts';

/** The findings of `npm run check:document` in a document: the place and the text of each. */
function lint(text: string): { code: number | null; found: string[] } {
  const folder = mkdtempSync(join(tmpdir(), 'linted-'));
  const file = join(folder, 'openapi.yaml');
  writeFileSync(file, text);
  const { status, stderr } = spawnSync('node', ['scripts/lint-document.ts', file], { encoding: 'utf8' });
  const found = [...stderr.matchAll(/^\[\d+\] \S+ at (\S+)\n\n(.*)/gm)].map(
    ([, place, message]) => `${place} ${message}`,
  );
  return { code: status, found };
}

test('the linter accepts the operation of docs/adding-an-operation.md', () => {
  const text = withExample(readFileSync('openapi.yaml', 'utf8'));
  expect(text).toContain('\n  /personais/contagem:\n    get:\n');
  // `npm run operation` writes this for a check such as preco > 0.
  const document = parseDocument(text);
  document.setIn(['components', 'schemas', 'Offset', 'exclusiveMinimum'], true);
  // Repeated parts with a mark between them.
  document.setIn(['components', 'schemas', 'Offset', 'pattern'], '^([a-z0-9]+-)*[a-z0-9]+$');
  expect(lint(document.toString())).toEqual({ code: 0, found: [] });
});

test('the linter refuses values without bounds, and answers without what every answer needs', () => {
  const document = parseDocument(readFileSync('openapi.yaml', 'utf8'));
  const gyms = ['paths', '/academias', 'get'];
  document.deleteIn(['components', 'schemas', 'NovoAluno', 'properties', 'p_sexo', 'maxLength']);
  document.deleteIn(['components', 'schemas', 'Limit', 'maximum']);
  document.deleteIn([...gyms, 'responses', '200', 'content', 'application/json', 'schema', 'maxItems']);
  document.deleteIn([...gyms, 'responses', '200', 'headers', 'RateLimit']);
  document.deleteIn([...gyms, 'responses', '502']);
  document.deleteIn([...gyms, 'summary']);
  document.setIn(['components', 'schemas', 'Limit', 'pattern'], '^([A-Za-zÀ-ú]{1,9}\\s?){20}$');
  document.setIn(['components', 'schemas', 'After', 'pattern'], '^([a-z]{1,10} ?){1,4}$');
  document.setIn(['components', 'schemas', 'Offset', 'pattern'], '^\\S+@\\S+\\.\\S+$');
  const { code, found } = lint(document.toString());
  expect(code).toBe(1);
  const list = '#/paths/~1academias/get/responses/200';
  expect(found).toEqual(
    expect.arrayContaining([
      '#/components/schemas/NovoAluno/properties/p_sexo a string needs maxLength, or enum, const or format',
      '#/components/schemas/Limit a number needs maximum or exclusiveMaximum',
      `${list}/content/application~1json/schema a list needs maxItems`,
      '#/components/schemas/Limit/pattern pattern ^([A-Za-zÀ-ú]{1,9}\\s?){20}$: the time doubles with each "A": let no part that repeats have a part that repeats',
      '#/components/schemas/Offset/pattern pattern ^\\S+@\\S+\\.\\S+$: many "@" take more than linear time: let no two parts that repeat match the same text',
      `${list}/headers Response object must contain a "RateLimit" header.`,
      '#/paths/~1academias/get/responses every operation can answer 401, 422, 429 and 502: 502 is required',
      '#/paths/~1academias/get/summary Operation object should contain `summary` field.',
    ]),
  );
  expect(found.filter((text: string) => text.includes('/After/'))).toEqual([]);
});
