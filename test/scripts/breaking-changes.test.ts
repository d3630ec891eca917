import { execFileSync } from 'node:child_process';
import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import type { OpenAPIV3 } from 'openapi-types';
import { beforeAll, describe, expect, test } from 'vitest';
import { parse as parseYaml, stringify } from 'yaml';
import { findChanges } from '../../scripts/breaking-changes/changes.ts';
import { compareContract } from '../../scripts/breaking-changes/main.ts';
import { createComparison, type Use } from '../../scripts/breaking-changes/schemas.ts';
import { createConverter, type Schema } from '../../src/openapi/schema.ts';
import { runCommand, runInProcess } from '../helpers/run.ts';

const parse = (text: string) => parseYaml(text, { merge: true });
const SOURCE = parse(readFileSync('openapi.yaml', 'utf8'));

/** A schema, a narrower one, and the place of the break: of requests by the change to it, of answers by the change back. */
const NARROWER = parse(`
- [{ maximum: 1000 }, { maximum: 500 }, maximum]
- [{ minimum: 1 }, { minimum: 2 }, minimum]
- [{}, { minimum: 0 }, minimum]
- [{ type: integer, minimum: 1 }, { type: integer, exclusiveMinimum: 1 }, exclusiveMinimum]
- [{ type: number, maximum: 5 }, { type: number, exclusiveMaximum: 5 }, exclusiveMaximum]
- [{ maxLength: 255 }, { maxLength: 200 }, maxLength]
- [{}, { maxLength: 50 }, maxLength]
- [{ format: uuid }, { format: uuid, maxLength: 35 }, maxLength]
- [{ minLength: 1 }, { minLength: 2 }, minLength]
- [{}, { maxItems: 9 }, maxItems]
- [{}, { uniqueItems: true }, uniqueItems]
- [{}, { pattern: ^f }, pattern]
- [{ type: string }, { type: string, format: date }, format]
- [{}, { type: string }, type]
- [{ type: [string, integer] }, { type: string }, type]
- [{ type: number }, { type: integer }, type]
- [{ type: [string, 'null'] }, { type: string }, nullable]
- [{}, { type: [string, 'null'] }, type]
- [{}, { enum: [f, m] }, enum.0]
- [{ enum: [a, b, c] }, { enum: [a, b] }, enum.2]
- [{}, { const: f }, enum.0]
- [{ properties: { a: {} } }, { properties: { a: {} }, required: [a] }, required.0]
- [{ additionalProperties: true }, { additionalProperties: { type: string } }, additionalProperties]
- [{}, { additionalProperties: { type: string } }, additionalProperties]
- [{}, { oneOf: [{ type: string }, { type: integer }] }, oneOf.0]
- [{ oneOf: [{ const: a }, { const: b }, { const: c }] }, { oneOf: [{ const: a }, { const: c }] }, oneOf.1]
- [{ anyOf: [{ const: a }, { maxLength: 1 }] }, { oneOf: [{ const: a }, { maxLength: 1 }] }, oneOf]
- [{ multipleOf: 0.01 }, { multipleOf: 0.1 }, multipleOf]
- [{}, { not: { enum: [x] } }, not]
- [{ not: { enum: [x] } }, { not: { enum: [x, y] } }, not.enum.1]
- [{}, { dependentRequired: { a: [b] } }, dependentRequired]
- [{ type: array, items: { maxLength: 2 } }, { type: array, items: { maxLength: 1 } }, items.maxLength]
- [{ items: { maximum: 9 } }, { items: { maximum: 9 }, prefixItems: [{ maximum: 9 }, { maximum: 8 }] }, prefixItems.1.maximum]
- [{ contains: {}, minContains: 0 }, { contains: {} }, minContains]
- [{ contains: {}, maxContains: 3 }, { contains: {}, maxContains: 2 }, maxContains]
`);

/** Two schemas, and the places where the change from the first to the second breaks requests, and answers. */
const CHANGED = parse(`
- [{ pattern: ^f }, { pattern: ^g }, [pattern], [pattern]]
- [{ type: string }, { type: integer }, [type, minimum, maximum], [type]]
- [{ dependentRequired: { a: [b] } }, { dependentRequired: { a: [c] } }, [dependentRequired], [dependentRequired]]
- [{ default: 100 }, { default: 50 }, [default], []]
- [{ additionalProperties: true }, { additionalProperties: false }, [additionalProperties], []]
- [{ type: integer }, { type: integer, format: int32 }, [minimum, maximum], []]
- [{ type: integer, maximum: 9 }, { type: integer, maximum: 9, format: int64 }, [], []]
- [{ format: uuid }, { format: uuid, maxLength: 36 }, [], []]
- [{}, { minLength: 0 }, [], []]
- [{ type: integer, exclusiveMinimum: 0 }, { type: integer, minimum: 1 }, [], []]
- [{ properties: {} }, { properties: { a: { type: string } } }, [], []]
- [{ properties: {} }, { properties: { a: {} }, required: [a] }, [properties.a, required.0], []]
- [{ properties: { a: {} } }, { properties: {} }, [], [properties.a]]
- [{ properties: { a: {} }, additionalProperties: false }, { additionalProperties: false }, [properties.a], [properties.a]]
- [{ properties: {} }, { properties: { a: { writeOnly: true } } }, [], []]
- [{ properties: { a: {} } }, { properties: { a: { writeOnly: true } } }, [], [properties.a]]
- [{ properties: { a: {} }, additionalProperties: false },
   { properties: { a: { readOnly: true } }, additionalProperties: false }, [properties.a], []]
- [{ properties: { a: {} } }, { properties: { a: { readOnly: true } } }, [properties.a], []]
- [{ properties: { a: { readOnly: true } } }, { properties: { a: {} } }, [], []]
- [{ properties: { a: {} }, unevaluatedProperties: false }, { unevaluatedProperties: false }, [properties.a], [properties.a]]
- [{ properties: { a: { type: string } }, additionalProperties: { type: number } }, { additionalProperties: { type: number } },
   [properties.a.type], [properties.a]]
- [{ additionalProperties: { type: number } }, { properties: { a: { type: string } }, additionalProperties: { type: number } },
   [properties.a.type], [properties.a.type]]
- [{ patternProperties: { ^a: {} }, additionalProperties: false }, { additionalProperties: false },
   [patternProperties.^a], [patternProperties.^a]]
- [{ additionalProperties: false }, { patternProperties: { ^a: {} }, additionalProperties: false }, [], []]
- [{ dependentSchemas: { a: {} } }, { dependentSchemas: { a: { properties: { b: {} } } } },
   [dependentSchemas.a.properties.b], [dependentSchemas.a.properties.b]]
- [{ prefixItems: [{ maximum: 90 }, { maximum: 180 }] }, { prefixItems: [{ maximum: 180 }, { maximum: 90 }] },
   [prefixItems.1.maximum], [prefixItems.0.maximum]]
- [{ prefixItems: [{ type: string }] }, { prefixItems: [{ type: boolean }, { type: string }] },
   [prefixItems.0.type, prefixItems.1.type], [prefixItems.0.type]]
- [{ contains: { maximum: 9 }, maxContains: 1 }, { contains: { maximum: 8 }, maxContains: 1 }, [contains.maximum], [contains.maximum]]
- [{ type: integer, format: int32 }, { type: integer, format: int64 }, [], [format, maximum, minimum]]
- [{ type: integer, format: int32 }, { type: integer }, [], [format, maximum, minimum]]
- [{ type: integer, format: int64 }, { type: integer, format: int32 }, [minimum, maximum], []]
- [{ type: number, format: float }, { type: number, format: double }, [], [format]]
- [{ type: string }, { type: string, format: byte }, [format], [format]]
- [{ multipleOf: 10 }, { multipleOf: 15 }, [multipleOf], [multipleOf]]
- [{ description: A }, { description: B }, [], []]
- [{ type: string }, { type: string, contentMediaType: image/png, contentEncoding: base64 }, [], []]
- [{ oneOf: [{ required: [a] }, { required: [b] }] }, { oneOf: [{ required: [a] }, {}] }, [oneOf.1.required.0], [oneOf.1.required.0]]
- [{ oneOf: [{ const: a }, { type: integer, maximum: 8 }] }, { oneOf: [{ const: a }, { type: integer, maximum: 9 }] },
   [], [oneOf.1.maximum]]
`);

/** Pairs of schemas that are served in the same way. */
const SAME = parse(`
- [{ type: [integer, string] }, { anyOf: [{ type: string }, { type: integer }] }]
- [{ type: [string, 'null'] }, { oneOf: [{ type: string }, { type: 'null' }] }]
- [{ enum: [a] }, { type: string, const: a, enum: [a] }]
- [{}, { additionalProperties: true }]
- [{}, { additionalProperties: {} }]
- [{ anyOf: [{ oneOf: [{ type: string }, { maximum: 1, type: number }] }, { type: 'null' }] },
   { oneOf: [{ type: string }, { maximum: 1, type: number }, { type: 'null' }] }]
- [{ properties: { a: {} }, required: [a] }, { allOf: [{ properties: { a: {} } }, { required: [a] }] }]
- [{ required: [a, b] }, { required: [b, a] }]
- [{ title: A, properties: { a: {} } }, { title: A, allOf: [{ title: B, properties: { a: {} } }, { title: C }] }]
`);

/** The places of breaking differences, and the number of all differences. */
function compareSchemas(use: Use, before: object, after: object) {
  const [one, other] = [before, after].map(createConverter(use, { openapi: '3.1.0' })) as [Schema, Schema];
  const differences = createComparison()(use, one, other);
  const breaking = differences.filter(({ isBreaking }) => isBreaking).map(({ path }) => path.join('.'));
  return { breaking: breaking.sort(), count: differences.length };
}

test.each<[object, object, string]>(NARROWER)('%j allows more than %j, by %s', (wide, narrow, place) => {
  expect(compareSchemas('request', wide, narrow).breaking).toContain(place);
  expect(compareSchemas('answer', narrow, wide).breaking).toContain(place);
  for (const [use, before, after] of [['request', narrow, wide] as const, ['answer', wide, narrow] as const]) {
    expect(compareSchemas(use, before, after)).toEqual({ breaking: [], count: expect.toSatisfy((count) => count > 0) });
  }
});

test.each<[object, object, string[], string[]]>(CHANGED)('%j in place of %j breaks %j of a request', (...row) => {
  const [before, after, ofRequest, ofAnswer] = row;
  expect(compareSchemas('request', before, after).breaking).toEqual(ofRequest.sort());
  expect(compareSchemas('answer', before, after).breaking).toEqual(ofAnswer.sort());
});

test.each<[object, object]>(SAME)('%j is the same as %j', (before, after) => {
  for (const use of ['request', 'answer'] as const) {
    expect(compareSchemas(use, before, after)).toEqual({ breaking: [], count: 0 });
  }
});

/**
 * Edits of the document: values by their places. null removes what is there. A place begins with the name of a schema, or with the
 * method and path of an operation. A property follows a dot: `Limit maximum`, `Aluno.nome maxLength`, `GET /academias parameters 4`.
 */
type Edits = Readonly<Record<string, unknown>>;

const LAST = 'GET /academias parameters 4';
const WITH_DAY = { [LAST]: { name: 'dia', in: 'query', schema: { type: 'string' } } };

const toPath = (place: string) =>
  place
    .replace(/^(GET|POST) (\S+)/, (_, method, path) => `paths ${path} ${method.toLowerCase()}`)
    .replace(/^(?=[A-Z])/, 'components schemas ')
    .replace('.', ' properties ')
    .split(' ');

/** An object or a list of the document. */
type Node = Record<string, unknown>;

function edited(source: OpenAPIV3.Document, edits: Edits): OpenAPIV3.Document {
  const document = structuredClone(source);
  for (const [place, value] of Object.entries(edits)) {
    const path = toPath(place);
    const last = path.pop() ?? '';
    const parent = path.reduce((node, key) => node[key] as Node, document as unknown as Node);
    if (value !== null) parent[last] = structuredClone(value);
    else if (Array.isArray(parent)) parent.splice(Number(last), 1);
    else delete parent[last];
  }
  return document;
}

/** The lines of breaking and of other changes by edits, from our document after a preparation. */
function diff(edits: Edits, preparation: Edits = {}) {
  const before = edited(SOURCE, preparation);
  const changes = findChanges(before, edited(before, edits));
  return {
    breaking: changes.filter(({ isBreaking }) => isBreaking).map(({ line }) => line.replace('breaking: ', '')),
    others: changes.filter(({ isBreaking }) => !isBreaking).map(({ line }) => line),
  };
}

/** Parameters and headers that edits refer to. */
const PARTS = `
- &day { name: dia, in: query, schema: { type: string } }
- &days { name: dias, in: query, schema: { type: array, items: { type: string } } }
- &comma { name: dias, in: query, explode: false, schema: { type: array, items: { type: string } } }
- &total { X-Total: { required: true, schema: { type: integer } } }
- &map { get: { operationId: a, parameters: [{ name: id, in: path, required: true, schema: { type: string } }], responses: {} } }
- &turma { get: { operationId: a, parameters: [{ name: t, in: path, required: true, schema: { type: string } }], responses: {} } }
`;
const readRows = (yaml: string) => parse(PARTS + yaml).filter(Array.isArray);

test.each<[string, Edits, string, Edits?]>(
  readRows(`
- [a path is removed, { paths /academias: null }, 'GET /academias: {… → none']
- [an operation is removed, { paths /academias get: null }, 'GET /academias: {… → none']
- [the paths are elsewhere, { servers 0 url: /v2 }, 'servers: 0.url: "/v1" → "/v2"']
- [a required parameter is new, { ${LAST}: { <<: *day, required: true } }, 'GET /academias query dia: none → {']
- [a parameter is removed, { GET /academias parameters 3: null }, 'GET /academias query after: {… → none']
- [a parameter moves, { ${LAST} in: header }, 'GET /academias query dia: {… → none', { ${LAST}: *day }]
- [a parameter is narrower, { Limit maximum: 500 }, 'GET /academias query limit: schema.maximum: 1000 → 500']
- [an array does not explode any more, { ${LAST} explode: false },
   'GET /academias query dias: style: "form, exploded" → "form"', { ${LAST}: *days }]
- [an array has another separator, { ${LAST} style: pipeDelimited },
   'GET /academias query dias: style: "form" → "pipeDelimited"', { ${LAST}: *comma }]
- [a body becomes required, { POST /alunos requestBody required: true }, 'POST /alunos body: required: false → true',
   { POST /alunos requestBody required: false }]
- [a body needs a field more, { NovoAluno.p_cpf: { type: string }, NovoAluno required 2: p_cpf },
   'POST /alunos body: properties.p_cpf: none → {"type":"string"}']
- [a success has another status, { POST /alunos responses 201: null, POST /alunos responses 200: { description: Created } },
   'POST /alunos 201: {… → none']
- [an answer lacks a property, { Aluno.email: null }, 'GET /alunos 200: items.properties.email: {… → none']
- [an error lacks its text, { Error.error: null }, 'GET /academias 401: properties.error: {… → none']
- [an answer has no content any more, { GET /academias responses 200 content: null }, 'GET /academias 200: schema: {… → none']
- [a header has another type, { GET /academias responses 200 headers X-Total schema type: string },
   'GET /academias 200 header x-total: schema.type: "integer" → "string"', { GET /academias responses 200 headers: *total }]
- [a header may be missing, { GET /academias responses 200 headers X-Total required: false },
   'GET /academias 200 header x-total: required: true → false', { GET /academias responses 200 headers: *total }]
- [the key has another header, { components securitySchemes apiKey name: X-Key },
   'GET /alunos: security: "x-api-key" → "x-key"']
`),
)('it breaks clients that %s', (_, edits, line, preparation) => {
  const [begin = '', end = ''] = line.split('…');
  const { breaking } = diff(edits, preparation);
  expect(breaking).toContainEqual(expect.toSatisfy((found) => found.startsWith(begin) && found.endsWith(end)));
});

test.each<[string, Edits, Edits?]>(
  readRows(`
- [an operation is new, { paths /turmas: { get: { operationId: x, responses: {} } } }]
- [an optional parameter is new, { ${LAST}: *day }]
- [a status is new, { GET /academias responses 409: { description: Conflict } }]
- [a body is no longer required, { POST /alunos requestBody required: null }]
- [a header is always there, { GET /academias responses 200 headers X-Total required: true },
   { GET /academias responses 200 headers: { X-Total: { required: false, schema: { type: integer } } } }]
- [no key is needed, { security: [] }]
`),
)('it breaks nothing that %s', (_, edits, preparation) => {
  expect(diff(edits, preparation)).toEqual({ breaking: [], others: expect.toSatisfy(({ length }) => length > 0) });
});

const ITEMS = 'paths /anamnese/secoes get responses 200 content application/json schema items';
const { SecaoDeAnamnese } = SOURCE.components.schemas;
const [limit, offset] = SOURCE.paths['/academias'].get.parameters;
const bySchemes = Object.entries<object>(SOURCE.paths).flatMap(([path, item]) =>
  Object.keys(item).map((method) => [`paths ${path} ${method} security`, [{ chave: [] }]]),
);
const below = Object.fromEntries(Object.entries(SOURCE.paths).map(([path, item]) => [`/v1${path}`, item]));

test.each<[string, Edits, Edits?]>([
  ['parameters change places', { 'GET /academias parameters 0': offset, 'GET /academias parameters 1': limit }],
  ['a schema is no longer shared', { [ITEMS]: SecaoDeAnamnese }],
  [
    'a shared schema has another name',
    { Secao: SecaoDeAnamnese, SecaoDeAnamnese: null, [`${ITEMS} $ref`]: '#/components/schemas/Secao' },
  ],
  [
    'every operation names the key, which has another name',
    {
      ...{ security: null, 'components securitySchemes': { chave: SOURCE.components.securitySchemes.apiKey } },
      ...Object.fromEntries(bySchemes),
    },
  ],
  ['a path has what its server had', { servers: [{ url: '/' }], paths: below }],
  ...readRows(`
- [the server has another host, { servers 0 url: 'https://api.example/v1' }]
- [an extension is beside the paths, {}, { paths x-owner: a team }]
- [the parameter of a path has another name, { 'paths /t/{id}': null, 'paths /t/{t}': *turma }, { 'paths /t/{id}': *map }]
- [a header is written in another case, { ${LAST} name: x-dia }, { ${LAST}: { <<: *day, in: header, name: X-Dia } }]
- [a parameter is that of its path, { ${LAST}: null, paths /academias parameters: [*day] }, { ${LAST}: *day }]
- [a parameter is shared, { ${LAST}: { $ref: '#/components/parameters/Dia' }, components parameters: { Dia: *day } },
   { ${LAST}: *day }]
- [a default is written, { ${LAST}: { <<: *day, required: false, style: form, explode: true } }, { ${LAST}: *day }]
- [a default of an array is written, { ${LAST}: { <<: *days, style: form, explode: true } }, { ${LAST}: *days }]
- [a single value does not explode, { ${LAST} explode: false }, { ${LAST}: *day }]
- [an array that explodes has another style, { ${LAST} style: spaceDelimited }, { ${LAST}: { <<: *days, explode: true } }]
- [an operation has another name, { GET /academias operationId: outra }]
- [a function is another, { GET /academias x-rpc: other }]
- [the header of the key is written in another case, { components securitySchemes apiKey name: x-api-key }]
- [a header of an answer is written in another case,
   { GET /academias responses 200 headers: { x-total: { required: true, schema: { type: integer } } } },
   { GET /academias responses 200 headers: *total }]
`),
])('it sees no change where %s', (_, edits, preparation) => {
  expect(diff(edits, preparation)).toEqual({ breaking: [], others: [] });
});

test('it compares schemas that contain themselves', () => {
  const ref = { $ref: '#/components/schemas/Tree' };
  const Tree = { type: 'object', properties: { parent: ref, name: { type: 'string' } } };
  const preparation = { Tree, 'NovoAluno.p_tree': ref };
  const [line] = diff({ 'Tree.name maxLength': 9 }, preparation).breaking;
  expect(line).toBe('POST /alunos body: properties.p_tree.properties.name.maxLength: none → 9');
  const [removed] = diff({ 'NovoAluno.p_tree': null }, preparation).breaking;
  expect(removed).toMatch(
    /^POST \/alunos body: properties.p_tree: \{"type":"object","properties":\{"parent":\{"type":/,
  );
});

describe('the command', () => {
  const folder = mkdtempSync(join(tmpdir(), 'contract-'));
  const bare = mkdtempSync(join(tmpdir(), 'no-repository-'));
  const git = (...args: string[]) => execFileSync('git', args, { cwd: folder, stdio: 'pipe' });
  const write = (text: string) => writeFileSync(join(folder, 'openapi.yaml'), text);
  const run = async (args: string[] = [], cwd = folder) => {
    const { output, ...ended } = await runInProcess(async (printing) =>
      compareContract(args, { folder: cwd, ...printing }),
    );
    return { ...ended, lines: output.trim().split('\n') };
  };

  beforeAll(() => {
    git('init', '--quiet');
    git('config', 'user.email', 'test@example');
    git('config', 'user.name', 'Test');
    git('commit', '--quiet', '--allow-empty', '--message', 'Nothing yet');
    write(stringify(SOURCE));
    git('add', '.');
    git('commit', '--quiet', '--message', 'The document');
    copyFileSync('openapi.yaml', join(bare, 'openapi.yaml'));
  });

  test('has nothing to compare with before the first release, and in a shallow clone', async () => {
    const none = 'No commit has set the version in package.json: name a revision\n';
    expect(await run()).toEqual({ code: 2, lines: [''], errors: none });
    const clone = join(bare, 'shallow');
    execFileSync('git', ['clone', '--quiet', '--depth', '1', `file://${folder}`, clone]);
    const errors = 'A shallow clone may lack the last release: run git fetch --unshallow\n';
    expect(await run([], clone)).toEqual({ code: 2, lines: [''], errors });
  });

  test('reports what breaks first, and ends with 1', async () => {
    const edits = { 'GET /academias summary': 'Gyms', ...WITH_DAY, 'SecaoDeAnamnese.ordem type': 'string' };
    write(stringify(edited(SOURCE, edits)));
    const lines = [
      'breaking: GET /anamnese/secoes 200: items.properties.ordem.type: "integer" → "string"',
      'non-breaking: GET /academias query dia: none → {"schema":{"type":"string"}}',
      'openapi.yaml since HEAD: 1 breaking, 1 other',
    ];
    const script = resolve('scripts/breaking-changes/main.ts');
    expect(await runCommand(script, ['HEAD'], { cwd: folder })).toEqual({
      ...{ code: 1, output: lines.map((line) => `${line}\n`).join('') },
      errors: '',
    });
  });

  test('ends with 0 where the changelog announces what breaks in the next release', async () => {
    const line = 'GET /anamnese/secoes 200: items.properties.ordem.type: "integer" → "string"';
    const changelog = (text: string) => writeFileSync(join(folder, 'CHANGELOG.md'), text);
    changelog(`# Changelog\n\n## Unreleased\n\n- \`${line}\`\n\n## 0.1.0\n`);
    expect(await run(['HEAD'])).toMatchObject({
      code: 0,
      lines: [
        `announced breaking: ${line}`,
        expect.stringMatching(/^non-breaking: /),
        'openapi.yaml since HEAD: 1 breaking (1 announced in CHANGELOG.md), 1 other',
      ],
    });
    changelog(`# Changelog\n\n## Unreleased\n\n## 0.1.0\n\n- \`${line}\`\n`);
    expect((await run(['HEAD'])).code).toBe(1);
  });

  test('ends with 0 where nothing breaks, compared with the last release', async () => {
    writeFileSync(join(folder, 'package.json'), '{\n  "version": "1.0.0"\n}\n');
    git('add', 'package.json');
    git('commit', '--quiet', '--message', 'Version 1.0.0');
    write(stringify(edited(SOURCE, WITH_DAY)));
    expect(await run()).toEqual({
      code: 0,
      lines: [
        'non-breaking: GET /academias query dia: none → {"schema":{"type":"string"}}',
        expect.stringMatching(/^openapi\.yaml since [0-9a-f]{7,}: 0 breaking, 1 other$/),
      ],
      errors: '',
    });
  });

  test('compares all files of a document', async () => {
    const share = (schema: object) => writeFileSync(join(folder, 'secao.yaml'), stringify(schema));
    const { SecaoDeAnamnese } = SOURCE.components.schemas;
    write(stringify(edited(SOURCE, { SecaoDeAnamnese: { $ref: './secao.yaml' } })));
    share(SecaoDeAnamnese);
    git('add', '.');
    git('commit', '--quiet', '--message', 'Two files');
    expect(await run(['HEAD~1'])).toMatchObject({ code: 0, lines: ['openapi.yaml since HEAD~1: 0 breaking, 0 other'] });
    share({ ...SecaoDeAnamnese, properties: {} });
    expect(await run(['HEAD'])).toMatchObject({
      code: 1,
      lines: expect.arrayContaining([expect.stringMatching(/properties\.ordem/)]),
    });
    rmSync(join(folder, 'secao.yaml'));
    expect(await run(['HEAD'])).toMatchObject({ code: 2, errors: expect.stringMatching(/secao\.yaml/) });
    git('reset', '--quiet', '--hard', 'HEAD~1');
  });

  test.each<[string, string[], RegExp]>([
    ['an unknown revision', ['v9'], /^fatal: invalid object name 'v9'/],
    ['a revision without the document', ['HEAD~2'], /openapi\.yaml' exists on disk, but not in /],
    ['two revisions', ['HEAD', 'HEAD'], /^error: too many arguments/],
    ['an option', ['--all'], /^error: unknown option '--all'/],
    ['a revision like an option', ['--', '--all'], /^fatal: .*--all/],
  ])('ends with 2 for %s', async (_, args, message) => {
    const { code, lines, errors } = await run(args);
    expect([code, lines]).toEqual([2, ['']]);
    expect(errors).toMatch(message);
  });

  test('ends with 2 outside of a repository, and where the document is no YAML', async () => {
    expect(await run([], bare)).toMatchObject({ code: 2, errors: expect.stringMatching(/not a git repository/) });
    write('paths: [');
    expect(await run(['HEAD'])).toMatchObject({ code: 2, errors: expect.stringMatching(/^openapi\.yaml:1: /) });
  });
});
