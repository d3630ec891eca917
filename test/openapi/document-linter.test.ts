import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { parseDocument } from 'yaml';
import { withExample } from '../helpers/readme.ts';

const SOURCE = readFileSync('openapi.yaml', 'utf8');
const { scripts } = JSON.parse(readFileSync('package.json', 'utf8'));

/** What `npm run check:document` says of a document in the place of openapi.yaml. */
function lint(text: string): { code: number | null; found: string[] } {
  const [name, ...args] = scripts['check:document'].replace('openapi.yaml', '--stdin-filepath openapi.yaml').split(' ');
  const command = `node_modules/.bin/${name}`;
  const { status, stdout } = spawnSync(command, [...args, '--format', 'json'], { input: text, encoding: 'utf8' });
  // Where nothing is found, there is a text behind the JSON.
  const found: { code: string; path: string[] }[] = status === 0 ? [] : JSON.parse(stdout);
  return { code: status, found: found.map(({ code, path }) => `${code} at ${path.join('.')}`).sort() };
}

test('npm run check runs the linter', () => {
  expect(scripts.check).toContain('check:document');
});

test('the linter accepts the operation of docs/adding-an-operation.md, and refuses what breaks rules of OWASP and of OpenAPI', () => {
  const text = withExample(SOURCE);
  expect(text).toContain('\n  /personais/contagem:\n    get:\n');
  const document = parseDocument(text);
  const gyms = ['paths', '/academias', 'get'];
  document.deleteIn(['components', 'schemas', 'NovoAluno', 'properties', 'p_sexo', 'maxLength']);
  document.deleteIn(['components', 'schemas', 'Limit', 'maximum']);
  document.deleteIn([...gyms, 'responses', '200', 'content', 'application/json', 'schema', 'maxItems']);
  document.deleteIn([...gyms, 'responses', '200', 'headers', 'RateLimit']);
  document.deleteIn([...gyms, 'responses', '502']);
  document.setIn([...gyms, 'security'], []);
  document.setIn(['components', 'schemas', 'NovoAluno', 'additionalProperties'], true);
  document.setIn(['components', 'schemas', 'Academia', 'properties', 'ativo', 'type'], 'string');
  const { code, found } = lint(document.toString());
  expect(code).toBe(1);
  expect(found.filter((finding) => finding.includes('contagem'))).toEqual([]);
  expect(found).toEqual(
    expect.arrayContaining([
      'owasp:api4:2023-string-limit at components.schemas.NovoAluno.properties.p_sexo',
      'owasp:api4:2023-integer-limit-legacy at components.schemas.Limit',
      'owasp:api4:2023-array-limit at paths./academias.get.responses.200.content.application/json.schema',
      'owasp:api4:2023-rate-limit at paths./academias.get.responses.200.headers',
      'owasp:api8:2023-define-error-responses-500 at paths./academias.get.responses',
      'owasp:api2:2023-read-restricted at paths./academias.get.security',
      'owasp:api3:2023-no-additionalProperties at components.schemas.NovoAluno.additionalProperties',
      'oas3-valid-media-example at paths./academias.get.responses.200.content.application/json.examples.all.value.0.ativo',
    ]),
  );
});
