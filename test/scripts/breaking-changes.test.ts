import { execFileSync, spawnSync } from 'node:child_process';
import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Document, parseDocument } from 'yaml';
import { findChanges } from '../../scripts/breaking-changes/changes.ts';

const SCRIPT = resolve('scripts/breaking-changes/main.ts');
const SOURCE = parseDocument(readFileSync('openapi.yaml', 'utf8'));

/** A place in the document, and what stands there then; undefined removes it. */
type Edit = readonly [place: string, value: unknown];

const NEW = 'components schemas NovoAluno';
const STUDENT = 'components schemas Aluno';
const SECTION = 'components schemas SecaoDeAnamnese';
const ERROR = 'components schemas Error';
const LIMIT = 'components schemas Limit';
const STATUS = 'components schemas AnamneseDeAluno properties status';
const CREATE = 'paths /alunos post';
const GYMS = 'paths /academias get';

const STRING = { type: 'string' };
const DAY = { name: 'dia', in: 'query', schema: STRING };
const DAYS = { name: 'dias', in: 'query', schema: { type: 'array', items: STRING } };
const CLASS = 'paths /turmas/{id}';
const classOf = (name: string, schema: object = STRING): Edit[] => [
  [
    `paths /turmas/{${name}}`,
    { get: { operationId: 'obterTurma', parameters: [{ name, in: 'path', required: true, schema }], responses: {} } },
  ],
];
const SHARED_DAY = { $ref: '#/components/parameters/Dia' };

function edited(source: Document, edits: readonly Edit[]): Document {
  const document = source.clone();
  for (const [place, value] of edits) {
    if (value === undefined) document.deleteIn(place.split(' '));
    else document.setIn(place.split(' '), document.createNode(value));
  }
  return document;
}

/** The lines of what breaks, and how many changes break nothing, from a document of ours that has been prepared. */
function diff(edits: readonly Edit[], preparation: readonly Edit[] = []) {
  const before = edited(SOURCE, preparation);
  const changes = findChanges(before.toJS(), edited(before, edits).toJS());
  return {
    breaking: changes.filter(({ isBreaking }) => isBreaking).map(({ line }) => line.replace('breaking: ', '')),
    others: changes.filter(({ isBreaking }) => !isBreaking).map(({ line }) => line),
  };
}

describe('it breaks clients that', () => {
  test.each<[string, Edit[], RegExp, Edit[]?]>([
    ['a path is removed', [['paths /treinos', undefined]], /^GET \/treinos: \{.* → none$/],
    [
      'a required parameter is new',
      [[`${GYMS} parameters 4`, { ...DAY, required: true }]],
      /^GET \/academias query dia: none → \{/,
    ],
    [
      'a required parameter is the first',
      [[`${GYMS} parameters`, [{ ...DAY, required: true }]]],
      /^GET \/academias query dia: none → \{/,
      [[`${GYMS} parameters`, undefined]],
    ],
    [
      'a required parameter is new and shared',
      [[`${GYMS} parameters 4`, SHARED_DAY]],
      /^GET \/academias query dia: none → \{/,
      [['components parameters', { Dia: { ...DAY, required: true } }]],
    ],
    [
      'a shared parameter becomes required',
      [['components parameters Dia required', true]],
      /^GET \/academias query dia: required: none → true$/,
      [
        ['components parameters', { Dia: DAY }],
        [`${GYMS} parameters 4`, SHARED_DAY],
      ],
    ],
    ['a maximum is lowered', [[`${LIMIT} maximum`, 500]], /^GET \/alunos query limit: schema.maximum: 1000 → 500$/],
    ['a default changes', [[`${LIMIT} default`, 50]], /limit: schema.default: 100 → 50$/],
    ['a parameter has another type', [[`${LIMIT} type`, 'string']], /limit: schema.type: "integer" → "string"$/],
    ['a parameter allows fewer values', [['components schemas Ativo enum', ['true']]], /ativo: schema.enum.1: "false"/],
    [
      'a required field is new',
      [
        [`${NEW} properties p_cpf`, STRING],
        [`${NEW} required 2`, 'p_cpf'],
      ],
      /^POST \/alunos body: properties.p_cpf: none → \{"type":"string"\}$/,
    ],
    ['a field is removed', [[`${NEW} properties p_sexo`, undefined]], /^POST \/alunos body: properties.p_sexo: \{/],
    ['a field has another type', [[`${NEW} properties p_sexo type`, 'integer']], /p_sexo.type: "string" → "integer"$/],
    ['a pattern is new', [[`${NEW} properties p_sexo pattern`, '^f']], /properties.p_sexo.pattern: none → "\^f"$/],
    ['a pattern changes', [[`${NEW} properties p_nome pattern`, '^f']], /p_nome.pattern: ".*" → "\^f"$/],
    [
      'a length is new',
      [[`${NEW} properties p_sexo maxLength`, 50]],
      /^POST \/alunos body: properties.p_sexo.maxLength: none → 50$/,
      [[`${NEW} properties p_sexo maxLength`, undefined]],
    ],
    ['a length is lowered', [[`${NEW} properties p_nome maxLength`, 200]], /p_nome.maxLength: 255 → 200$/],
    [
      'a length is less than its format has',
      [[`${NEW} properties p_academia_id maxLength`, 35]],
      /properties.p_academia_id.maxLength: none → 35$/,
      [[`${NEW} properties p_academia_id maxLength`, undefined]],
    ],
    ['a property becomes longer', [[`${STUDENT} properties nome maxLength`, 300]], /nome.maxLength: 255 → 300$/],
    ['a property loses its length', [[`${STUDENT} properties nome maxLength`, undefined]], /maxLength: 255 → none$/],
    [
      'an integer format allows less than its bounds',
      [[`${NEW} properties p_numero format`, 'int32']],
      /p_numero.maximum: 9007199254740991 → 2147483647$/,
      [[`${NEW} properties p_numero`, { type: 'integer' }]],
    ],
    ['a format is new', [[`${NEW} properties p_telefone format`, 'date']], /format: none → "date"$/],
    ['a field is bound to values', [[`${NEW} properties p_sexo enum`, ['f', 'm']]], /p_sexo.enum.0: none → "f"$/],
    [
      'a field may no longer be null',
      [[`${NEW} properties p_sexo nullable`, undefined]],
      /properties.p_sexo.nullable: true → none$/,
      [[`${NEW} properties p_sexo nullable`, true]],
    ],
    [
      'other fields are refused',
      [[`${NEW} additionalProperties`, false]],
      /^POST \/alunos body: additionalProperties: true → false$/,
      [[`${NEW} additionalProperties`, true]],
    ],
    [
      'a body becomes required',
      [[`${CREATE} requestBody required`, true]],
      /^POST \/alunos body: required: (none|false) → true$/,
      [[`${CREATE} requestBody required`, false]],
    ],
    ['a property is removed', [[`${STUDENT} properties email`, undefined]], /^POST \/alunos 201: properties.email: \{/],
    [
      'a property may be null',
      [[`${STUDENT} properties email nullable`, true]],
      /properties.email.nullable: none → true/,
    ],
    ['a property has another type', [[`${SECTION} properties ordem type`, 'string']], /type: "integer" → "string"$/],
    ['an integer becomes any number', [[`${SECTION} properties ordem type`, 'number']], /type: "integer" → "number"$/],
    [
      'a property loses its format',
      [[`${STUDENT} properties email format`, undefined]],
      /email.format: "email" → none$/,
    ],
    [
      'a property has more values',
      [[`${STATUS} enum 2`, 'c']],
      /^GET \/anamnese\/alunos 200: items.properties.status.enum.2: none → "c"$/,
      [[`${STATUS} enum`, ['a', 'b']]],
    ],
    [
      'a property of a shared response may be null',
      [[`${ERROR} properties error nullable`, true]],
      /^GET \/treinos 401: properties.error.nullable: none → true$/,
    ],
    [
      'a list becomes an object',
      [[`${GYMS} responses 200 content application/json schema`, { type: 'object' }]],
      /^GET \/academias 200: type: "array" → "object"$/,
    ],
    [
      'the key has another header',
      [['components securitySchemes apiKey name', 'X-Key']],
      /name: "X-Api-Key" → "X-Key"$/,
    ],
    ['an operation is removed', [['paths /treinos get', undefined]], /^GET \/treinos: \{.* → none$/],
    ['a parameter is removed', [[`${GYMS} parameters 3`, undefined]], /^GET \/academias query after: \{.* → none$/],
    [
      'a parameter moves to a header',
      [[`${GYMS} parameters 4 in`, 'header']],
      /^GET \/academias query dia: \{.* → none$/,
      [[`${GYMS} parameters 4`, DAY]],
    ],
    [
      'an array does not explode any more',
      [[`${GYMS} parameters 4 explode`, false]],
      /^GET \/academias query dias: style: "form, exploded" → "form"$/,
      [[`${GYMS} parameters 4`, DAYS]],
    ],
    [
      'an array has another separator',
      [[`${GYMS} parameters 4 style`, 'pipeDelimited']],
      /^GET \/academias query dias: style: "form" → "pipeDelimited"$/,
      [[`${GYMS} parameters 4`, { ...DAYS, explode: false }]],
    ],
    [
      'a shared array does not explode any more',
      [['components parameters Dias explode', false]],
      /^GET \/academias query dias: style: "form, exploded" → "form"$/,
      [
        ['components parameters', { Dias: DAYS }],
        [`${GYMS} parameters 4`, { $ref: '#/components/parameters/Dias' }],
      ],
    ],
    [
      'the parameter of a path has another type, whatever its name',
      [[CLASS, undefined], ...classOf('turma_id', { type: 'integer' })],
      /^GET \/turmas\/\{id\} path id: schema.type: "string" → "integer"$/,
      classOf('id'),
    ],
    ['a minimum is excluded', [[`${LIMIT} exclusiveMinimum`, true]], /limit: schema.exclusiveMinimum: none → 1$/],
    [
      'a maximum is excluded, in 3.1',
      [
        [`${LIMIT} maximum`, undefined],
        [`${LIMIT} exclusiveMaximum`, 1000],
      ],
      /limit: schema.exclusiveMaximum: none → 1000$/,
      [['openapi', '3.1.0']],
    ],
    ['a minimum is raised', [[`${LIMIT} minimum`, 2]], /limit: schema.minimum: 1 → 2$/],
    [
      'an integer is bound for the first time',
      [[`${NEW} properties p_numero minimum`, 0]],
      /p_numero.minimum: -9007199254740991 → 0$/,
      [[`${NEW} properties p_numero`, { type: 'integer' }]],
    ],
    [
      'a field becomes read-only',
      [[`${NEW} properties p_sexo readOnly`, true]],
      /^POST \/alunos body: properties.p_sexo/,
    ],
    [
      'a shared field becomes read-only',
      [['components schemas Sexo', { type: 'string', readOnly: true }]],
      /^POST \/alunos body: properties.p_sexo/,
      [
        ['components schemas Sexo', STRING],
        [`${NEW} properties p_sexo`, { $ref: '#/components/schemas/Sexo' }],
      ],
    ],
    [
      'a property becomes write-only',
      [[`${STUDENT} properties nome writeOnly`, true]],
      /^GET \/alunos 200: items.properties.nome.type: "string" → none$/,
    ],
    [
      'a number becomes an integer',
      [[`${NEW} properties p_numero type`, 'integer']],
      /p_numero.type: "number" → "integer"$/,
      [[`${NEW} properties p_numero`, { type: 'number' }]],
    ],
    [
      'a field has one type less',
      [[`${NEW} properties p_numero type`, 'string']],
      /p_numero.type: "integer\|string" → "string"$/,
      [
        ['openapi', '3.1.0'],
        [`${NEW} properties p_numero`, { type: ['string', 'integer'] }],
      ],
    ],
    [
      'a property has one type more',
      [[`${STUDENT} properties nome type`, ['string', 'integer']]],
      /nome.type: "string" → "integer\|string"$/,
      [['openapi', '3.1.0']],
    ],
    [
      'a property may be null, in 3.1',
      [[`${STUDENT} properties nome type`, ['string', 'null']]],
      /nome.nullable: none → true$/,
      [['openapi', '3.1.0']],
    ],
    [
      'a field is bound to a constant',
      [[`${NEW} properties p_sexo const`, 'f']],
      /p_sexo.enum.0: none → "f"$/,
      [['openapi', '3.1.0']],
    ],
    [
      'a property may be missing',
      [[`${STUDENT} required`, ['id']]],
      /^GET \/alunos 200: items.required.\d: "nome" → none$/,
    ],
    [
      'a success has another status',
      [
        [`${CREATE} responses 201`, undefined],
        [`${CREATE} responses 200`, { description: 'Created' }],
      ],
      /^POST \/alunos 201: \{.* → none$/,
    ],
    [
      'an operation needs a key of another header',
      [
        ['components securitySchemes other', { type: 'apiKey', in: 'header', name: 'X-Key' }],
        [`${GYMS} security`, [{ other: [] }]],
      ],
      /^GET \/academias: security/,
    ],
    ['the paths are elsewhere', [['servers 0 url', '/v2']], /^servers: 0.url: "\/v1" → "\/v2"$/],
  ])('%s', (_, edits, line, preparation) => {
    const { breaking } = diff(edits, preparation);
    expect(breaking.join('\n')).toMatch(new RegExp(line.source, 'm'));
  });
});

describe('it breaks nothing that', () => {
  test.each<[string, Edit[], Edit[]?]>([
    ['an operation is new', [['paths /turmas', { get: { operationId: 'x', responses: {} } }]]],
    ['an optional parameter is new', [[`${GYMS} parameters 4`, DAY]]],
    ['an optional field is new', [[`${NEW} properties p_cpf`, STRING]]],
    ['a maximum is raised', [[`${LIMIT} maximum`, 2000]]],
    [
      'a length is what its format has',
      [[`${NEW} properties p_academia_id maxLength`, 36]],
      [[`${NEW} properties p_academia_id maxLength`, undefined]],
    ],
    ['a maximum length is raised', [[`${NEW} properties p_nome maxLength`, 300]]],
    ['a property becomes shorter', [[`${STUDENT} properties nome maxLength`, 200]]],
    [
      'a property has a length for the first time',
      [[`${STUDENT} properties id maxLength`, 36]],
      [[`${STUDENT} properties id maxLength`, undefined]],
    ],
    ['an integer has the format of its bounds', [[`${LIMIT} format`, 'int32']], [[`${LIMIT} format`, undefined]]],
    ['a pattern is removed', [[`${NEW} properties p_nome pattern`, undefined]]],
    ['a field may be null', [[`${NEW} properties p_sexo nullable`, true]]],
    ['other fields are allowed', [[`${NEW} additionalProperties`, true]]],
    ['a parameter allows more values', [['components schemas Ativo enum 2', 'all']]],
    ['a status is new', [[`${GYMS} responses 409`, { description: 'Conflict' }]]],
    ['a property is new', [[`${STUDENT} properties cpf`, STRING]]],
    [
      'a property is new and always there',
      [
        [`${STUDENT} properties cpf`, STRING],
        [`${STUDENT} required 6`, 'cpf'],
      ],
    ],
    ['a property is never null again', [[`${STUDENT} properties academia_id nullable`, undefined]]],
    ['a property is bound to values', [[`${STATUS} enum`, ['a', 'b']]]],
    ['a property has fewer values', [[`${STATUS} enum 1`, undefined]], [[`${STATUS} enum`, ['a', 'b']]]],
    [
      'a minimum is not excluded any more',
      [[`${LIMIT} exclusiveMinimum`, undefined]],
      [[`${LIMIT} exclusiveMinimum`, true]],
    ],
    [
      'a field has one type more',
      [[`${NEW} properties p_numero type`, ['string', 'integer']]],
      [
        ['openapi', '3.1.0'],
        [`${NEW} properties p_numero`, { type: 'string' }],
      ],
    ],
    ['a body is no longer required', [[`${CREATE} requestBody required`, undefined]]],
    [
      'a field has the format of its number',
      [[`${NEW} properties p_numero format`, 'int64']],
      [[`${NEW} properties p_numero`, { type: 'integer' }]],
    ],
    ['a field is new and write-only', [[`${NEW} properties p_cpf`, { ...STRING, writeOnly: true }]]],
    ['a property is new and read-only', [[`${STUDENT} properties cpf`, { ...STRING, readOnly: true }]]],
    ['an operation has another name', [[`${GYMS} operationId`, 'outra']]],
    ['a function is another', [[`${GYMS} x-rpc`, 'other']]],
    ['no key is needed', [['security', []]]],
  ])('%s', (_, edits, preparation) => {
    const { breaking, others } = diff(edits, preparation);
    expect(breaking).toEqual([]);
    expect(others).not.toEqual([]);
  });
});

describe('it sees no change where', () => {
  const limits = SOURCE.toJS().paths['/academias'].get.parameters;
  const [limit, offset] = limits;
  const { apiKey } = SOURCE.toJS().components.securitySchemes;
  const { SecaoDeAnamnese } = SOURCE.toJS().components.schemas;
  const PHONE = `${NEW} properties p_telefone`;

  test.each<[string, Edit[], Edit[]?]>([
    [
      'parameters change places',
      [
        [`${GYMS} parameters 0`, offset],
        [`${GYMS} parameters 1`, limit],
      ],
    ],
    [
      'a shared schema has another name',
      [
        ['components schemas Secao', SecaoDeAnamnese],
        [SECTION, undefined],
        [
          'paths /anamnese/secoes get responses 200 content application/json schema items $ref',
          '#/components/schemas/Secao',
        ],
      ],
    ],
    ['the parameter of a path has another name', [[CLASS, undefined], ...classOf('turma_id')], classOf('id')],
    [
      'a header is written in another case',
      [[`${GYMS} parameters 4 name`, 'x-dia']],
      [[`${GYMS} parameters 4`, { ...DAY, in: 'header', name: 'X-Dia' }]],
    ],
    [
      'a parameter is that of its path',
      [
        [`${GYMS} parameters 4`, undefined],
        ['paths /academias parameters', [DAY]],
      ],
      [[`${GYMS} parameters 4`, DAY]],
    ],
    [
      'a parameter is shared',
      [
        [`${GYMS} parameters 4`, SHARED_DAY],
        ['components parameters', { Dia: DAY }],
      ],
      [[`${GYMS} parameters 4`, DAY]],
    ],
    [
      'a default of a parameter is written',
      [[`${GYMS} parameters 4`, { ...DAY, required: false, style: 'form', explode: true }]],
      [[`${GYMS} parameters 4`, DAY]],
    ],
    [
      'a default of an array is written',
      [[`${GYMS} parameters 4`, { ...DAYS, style: 'form', explode: true }]],
      [[`${GYMS} parameters 4`, DAYS]],
    ],
    ['a single value does not explode', [[`${GYMS} parameters 4 explode`, false]], [[`${GYMS} parameters 4`, DAY]]],
    [
      'an array that explodes has another style',
      [[`${GYMS} parameters 4 style`, 'spaceDelimited']],
      [[`${GYMS} parameters 4`, { ...DAYS, explode: true }]],
    ],
    ...['string', 'null'].map((_type, index): [string, Edit[], Edit[]] => [
      `null is a type of 3.1, at place ${index}`,
      [
        ['openapi', '3.1.0'],
        [PHONE, { type: index === 0 ? ['null', 'string'] : ['string', 'null'] }],
        [`${STUDENT} properties academia_id nullable`, undefined],
        [`${STUDENT} properties academia_id type`, ['string', 'null']],
      ],
      [[PHONE, { type: 'string', nullable: true }]],
    ]),
    ...['anyOf', 'oneOf'].map((choice): [string, Edit[], Edit[]] => [
      `a shared schema or null is a choice by ${choice}`,
      [
        ['openapi', '3.1.0'],
        [PHONE, { [choice]: [{ $ref: '#/components/schemas/Fone' }, { type: 'null' }] }],
        [`${STUDENT} properties academia_id nullable`, undefined],
        [`${STUDENT} properties academia_id type`, ['string', 'null']],
      ],
      [
        ['components schemas Fone', STRING],
        [PHONE, { allOf: [{ $ref: '#/components/schemas/Fone' }], nullable: true }],
      ],
    ]),
    [
      'an exclusive bound is a number, as 3.1 has it',
      [
        ['openapi', '3.1.0'],
        [PHONE, { type: 'number', exclusiveMinimum: 0 }],
        [`${STUDENT} properties academia_id nullable`, undefined],
        [`${STUDENT} properties academia_id type`, ['string', 'null']],
      ],
      [[PHONE, { type: 'number', minimum: 0, exclusiveMinimum: true }]],
    ],
    [
      'one value is a constant',
      [[PHONE, { type: 'string', const: 'a' }]],
      [
        ['openapi', '3.1.0'],
        [PHONE, { type: 'string', enum: ['a'] }],
      ],
    ],
    [
      'bounds are those that an integer has in any case',
      [[PHONE, { type: 'integer', minimum: Number.MIN_SAFE_INTEGER, maximum: Number.MAX_SAFE_INTEGER }]],
      [[PHONE, { type: 'integer' }]],
    ],
    [
      'every operation names the key, which has another name',
      [
        ['security', undefined],
        ['components securitySchemes', { chave: apiKey }],
        ...Object.entries<object>(SOURCE.toJS().paths).flatMap(([path, item]) =>
          Object.keys(item).map((method): Edit => [`paths ${path} ${method} security`, [{ chave: [] }]]),
        ),
      ],
    ],
    ['the server has another host', [['servers 0 url', 'https://api.example/v1']]],
    [
      'a path has what its server had',
      [
        ['servers', [{ url: '/' }]],
        ['paths', Object.fromEntries(Object.entries(SOURCE.toJS().paths).map(([path, item]) => [`/v1${path}`, item]))],
      ],
    ],
  ])('%s', (_, edits, preparation) => {
    expect(diff(edits, preparation)).toEqual({ breaking: [], others: [] });
  });
});

describe('the command', () => {
  const folder = mkdtempSync(join(tmpdir(), 'contract-'));
  const bare = mkdtempSync(join(tmpdir(), 'no-repository-'));
  const git = (...args: string[]) => execFileSync('git', args, { cwd: folder, stdio: 'pipe' });
  const write = (text: string) => writeFileSync(join(folder, 'openapi.yaml'), text);
  const run = (args: string[] = [], cwd = folder) => {
    const { status, stdout, stderr } = spawnSync(process.execPath, [SCRIPT, ...args], { cwd, encoding: 'utf8' });
    return { code: status, lines: stdout.trim().split('\n'), errors: stderr };
  };

  beforeAll(() => {
    git('init', '--quiet');
    git('config', 'user.email', 'test@example');
    git('config', 'user.name', 'Test');
    git('commit', '--quiet', '--allow-empty', '--message', 'Nothing yet');
    write(SOURCE.toString());
    git('add', '.');
    git('commit', '--quiet', '--message', 'The document');
    copyFileSync('openapi.yaml', join(bare, 'openapi.yaml'));
  });

  afterAll(() => {
    for (const path of [folder, bare]) rmSync(path, { recursive: true });
  });

  test('has nothing to compare with before the first release', () => {
    expect(run()).toEqual({
      code: 0,
      lines: ['No release to compare with: no tag v* is an ancestor of HEAD'],
      errors: '',
    });
  });

  test('tells what breaks first, and ends with 1', () => {
    write(
      edited(SOURCE, [
        ['info title', 'Wellness'],
        [`${SECTION} properties ordem type`, 'string'],
      ]).toString(),
    );
    expect(run(['HEAD'])).toEqual({
      code: 1,
      lines: [
        'breaking: GET /anamnese/secoes 200: items.properties.ordem.type: "integer" → "string"',
        'annotation: info: title: "Wellness Management Service" → "Wellness"',
        'openapi.yaml since HEAD: 1 breaking, 1 other',
      ],
      errors: '',
    });
  });

  test('ends with 0 where the changelog announces what breaks in the next release', () => {
    const line = 'GET /anamnese/secoes 200: items.properties.ordem.type: "integer" → "string"';
    const changelog = (text: string) => writeFileSync(join(folder, 'CHANGELOG.md'), text);
    changelog(`# Changelog\n\n## Unreleased\n\n- \`${line}\`\n\n## 0.1.0\n`);
    expect(run(['HEAD'])).toMatchObject({
      code: 0,
      lines: [
        `announced breaking: ${line}`,
        expect.stringMatching(/^annotation: /),
        'openapi.yaml since HEAD: 1 breaking (1 announced in CHANGELOG.md), 1 other',
      ],
    });
    changelog(`# Changelog\n\n## Unreleased\n\n## 0.1.0\n\n- \`${line}\`\n`);
    expect(run(['HEAD']).code).toBe(1);
  });

  test('ends with 0 where nothing breaks, compared with the last release', () => {
    git('tag', 'v1.0.0');
    git('tag', 'other');
    write(edited(SOURCE, [[`${GYMS} parameters 4`, DAY]]).toString());
    expect(run()).toEqual({
      code: 0,
      lines: [
        'non-breaking: GET /academias query dia: none → {"name":"dia","in":"query","schema":{"type":"string"}}',
        'openapi.yaml since v1.0.0: 0 breaking, 1 other',
      ],
      errors: '',
    });
  });

  test.each<[string, string[], RegExp]>([
    ['an unknown revision', ['v9'], /^v9 is not a revision of this repository: fatal: /],
    ['a revision without the document', ['HEAD~1'], /openapi\.yaml' exists on disk, but not in /],
    ['two revisions', ['HEAD', 'HEAD'], /^error: too many arguments/],
    ['an option', ['--all'], /^error: unknown option '--all'/],
    ['a revision like an option', ['--', '--all'], /^--all is not a revision of this repository: /],
  ])('ends with 2 for %s', (_, args, message) => {
    const { code, lines, errors } = run(args);
    expect([code, lines]).toEqual([2, ['']]);
    expect(errors).toMatch(message);
  });

  test('ends with 2 outside of a repository, and where the document is no YAML', () => {
    expect(run([], bare)).toMatchObject({ code: 2, errors: expect.stringMatching(/not a git repository/) });
    write('paths: [');
    expect(run(['HEAD'])).toMatchObject({ code: 2, errors: expect.stringMatching(/^openapi\.yaml: .*line 1/s) });
  });
});
