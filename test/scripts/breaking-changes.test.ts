import { execFileSync } from 'node:child_process';
import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import type { OpenAPIV3 } from 'openapi-types';
import { beforeAll, describe, expect, test } from 'vitest';
import { parse, stringify } from 'yaml';
import { findChanges } from '../../scripts/breaking-changes/changes.ts';
import { compareContract } from '../../scripts/breaking-changes/main.ts';
import { runCommand, runInProcess } from '../helpers/run.ts';

/** The document without what takes most of the time to compare and no test changes. */
const LEFT_OUT =
  /^(x-(?!rpc).*|description|examples?|headers|304|5\d\d|4(?!01)\d\d|\/(treinos|anamnese\/alunos|personais|uso|alteracoes))$/;
const SOURCE = parse(readFileSync('openapi.yaml', 'utf8'), (name, value) =>
  LEFT_OUT.test(String(name)) ? undefined : value,
);
for (const path of ['/alunos', '/anamnese/secoes']) delete SOURCE.paths[path].get.parameters;
for (const unused of ['Treino', 'AnamneseDeAluno', 'Personal', 'Uso', 'Alteracao', 'ValidationError']) {
  delete SOURCE.components.schemas[unused];
}

/**
 * What stands at places of the document then; undefined removes it. A schema has its name, a property a dot
 * before its own, and an operation its method and path: `Limit maximum`, `Aluno.nome maxLength`, `GET /academias parameters 4`.
 */
type Edits = Readonly<Record<string, unknown>>;

const STRING = { type: 'string' };
const DAY = { name: 'dia', in: 'query', schema: STRING };
const DAYS = { name: 'dias', in: 'query', schema: { type: 'array', items: STRING } };
const LAST = 'GET /academias parameters 4';
const WITH_DAY = { [LAST]: DAY };
const WITH_DAYS = { [LAST]: DAYS };
const WITH_NUMBER = { 'NovoAluno.p_numero': { type: 'integer' } };
const IN_3_1 = { openapi: '3.1.0' };
const HEADERS = 'GET /academias responses 200 headers';
const WITH_HEADER = { [HEADERS]: { 'X-Total': { required: true, schema: { type: 'integer' } } } };
const WITH_OPTIONAL_HEADER = { [HEADERS]: { 'X-Total': { required: false, schema: { type: 'integer' } } } };
const INT32 = { type: 'integer', format: 'int32' };
const CHOICE = { oneOf: [STRING, { type: 'integer' }] };
const MAP = { type: 'object', additionalProperties: STRING };
const CLASS = 'paths /turmas/{id}';
const classOf = (name: string, schema: object = STRING): Edits => ({
  [`paths /turmas/{${name}}`]: {
    get: { operationId: 'obterTurma', parameters: [{ name, in: 'path', required: true, schema }], responses: {} },
  },
});
const SHARED_DAY = { $ref: '#/components/parameters/Dia' };

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
    if (value !== undefined) parent[last] = structuredClone(value);
    else if (Array.isArray(parent)) parent.splice(Number(last), 1);
    else delete parent[last];
  }
  return document;
}

/** The lines of what breaks, and how many changes break nothing, from a document of ours that has been prepared. */
function diff(edits: Edits, preparation: Edits = {}) {
  const before = edited(SOURCE, preparation);
  const changes = findChanges(before, edited(before, edits));
  return {
    breaking: changes.filter(({ isBreaking }) => isBreaking).map(({ line }) => line.replace('breaking: ', '')),
    others: changes.filter(({ isBreaking }) => !isBreaking).map(({ line }) => line),
  };
}

describe('it breaks clients that', () => {
  test.each<[string, Edits, RegExp, Edits?]>([
    ['a path is removed', { 'paths /academias': undefined }, /^GET \/academias: \{.* → none$/],
    ['a required parameter is new', { [LAST]: { ...DAY, required: true } }, /^GET \/academias query dia: none → \{/],
    [
      'a required parameter is the first',
      { 'GET /academias parameters': [{ ...DAY, required: true }] },
      /^GET \/academias query dia: none → \{/,
      { 'GET /academias parameters': undefined },
    ],
    ['a maximum is lowered', { 'Limit maximum': 500 }, /^GET \/academias query limit: schema.maximum: 1000 → 500$/],
    ['a default changes', { 'Limit default': 50 }, /limit: schema.default: 100 → 50$/],
    ['a parameter has another type', { 'Limit type': 'string' }, /limit: schema.type: "integer" → "string"$/],
    ['a parameter allows fewer values', { 'Ativo enum': ['true'] }, /ativo: schema.enum.1: "false"/],
    [
      'a required field is new',
      { 'NovoAluno.p_cpf': STRING, 'NovoAluno required 2': 'p_cpf' },
      /^POST \/alunos body: properties.p_cpf: none → \{"type":"string"\}$/,
    ],
    ['a field is removed', { 'NovoAluno.p_sexo': undefined }, /^POST \/alunos body: properties.p_sexo: \{/],
    ['a field has another type', { 'NovoAluno.p_sexo type': 'integer' }, /p_sexo.type: "string" → "integer"$/],
    ['a pattern is new', { 'NovoAluno.p_sexo pattern': '^f' }, /properties.p_sexo.pattern: none → "\^f"$/],
    ['a pattern changes', { 'NovoAluno.p_nome pattern': '^f' }, /p_nome.pattern: ".*" → "\^f"$/],
    [
      'a length is new',
      { 'NovoAluno.p_sexo maxLength': 50 },
      /^POST \/alunos body: properties.p_sexo.maxLength: none → 50$/,
      { 'NovoAluno.p_sexo maxLength': undefined },
    ],
    ['a length is lowered', { 'NovoAluno.p_nome maxLength': 200 }, /p_nome.maxLength: 255 → 200$/],
    [
      'a length is less than its format has',
      { 'NovoAluno.p_academia_id maxLength': 35 },
      /properties.p_academia_id.maxLength: none → 35$/,
      { 'NovoAluno.p_academia_id maxLength': undefined },
    ],
    ['a property becomes longer', { 'Aluno.nome maxLength': 300 }, /nome.maxLength: 255 → 300$/],
    ['a property loses its length', { 'Aluno.nome maxLength': undefined }, /maxLength: 255 → none$/],
    [
      'an integer format allows less than its bounds',
      { 'NovoAluno.p_numero format': 'int32' },
      /p_numero.maximum: 9007199254740991 → 2147483647$/,
      WITH_NUMBER,
    ],
    ['a format is new', { 'NovoAluno.p_telefone format': 'date' }, /format: none → "date"$/],
    ['a field is bound to values', { 'NovoAluno.p_sexo enum': ['f', 'm'] }, /p_sexo.enum.0: none → "f"$/],
    [
      'a field may no longer be null',
      { 'NovoAluno.p_sexo nullable': undefined },
      /properties.p_sexo.nullable: true → none$/,
      { 'NovoAluno.p_sexo nullable': true },
    ],
    [
      'other fields are refused',
      { 'NovoAluno additionalProperties': false },
      /^POST \/alunos body: additionalProperties: true → false$/,
      { 'NovoAluno additionalProperties': true },
    ],
    [
      'a body becomes required',
      { 'POST /alunos requestBody required': true },
      /^POST \/alunos body: required: (none|false) → true$/,
      { 'POST /alunos requestBody required': false },
    ],
    ['a property is removed', { 'Aluno.email': undefined }, /^POST \/alunos 201: properties.email: \{/],
    ['a property may be null', { 'Aluno.email nullable': true }, /properties.email.nullable: none → true/],
    ['a property has another type', { 'SecaoDeAnamnese.ordem type': 'string' }, /type: "integer" → "string"$/],
    ['an integer becomes any number', { 'SecaoDeAnamnese.ordem type': 'number' }, /type: "integer" → "number"$/],
    ['a property loses its format', { 'Aluno.email format': undefined }, /email.format: "email" → none$/],
    [
      'a property has more values',
      { 'Aluno.nome enum 2': 'c' },
      /^GET \/alunos 200: items.properties.nome.enum.2: none → "c"$/,
      { 'Aluno.nome enum': ['a', 'b'] },
    ],
    [
      'a property of a shared response may be null',
      { 'Error.error nullable': true },
      /^GET \/academias 401: properties.error.nullable: none → true$/,
    ],
    [
      'a list becomes an object',
      { 'GET /academias responses 200 content application/json schema': { type: 'object' } },
      /^GET \/academias 200: type: "array" → "object"$/,
    ],
    [
      'the key has another header',
      { 'components securitySchemes apiKey name': 'X-Key' },
      /^GET \/alunos: security: "x-api-key" → "x-key"$/,
    ],
    ['an operation is removed', { 'paths /academias get': undefined }, /^GET \/academias: \{.* → none$/],
    [
      'a parameter is removed',
      { 'GET /academias parameters 3': undefined },
      /^GET \/academias query after: \{.* → none$/,
    ],
    [
      'a parameter moves to a header',
      { 'GET /academias parameters 4 in': 'header' },
      /^GET \/academias query dia: \{.* → none$/,
      WITH_DAY,
    ],
    [
      'an array does not explode any more',
      { 'GET /academias parameters 4 explode': false },
      /^GET \/academias query dias: style: "form, exploded" → "form"$/,
      WITH_DAYS,
    ],
    [
      'an array has another separator',
      { 'GET /academias parameters 4 style': 'pipeDelimited' },
      /^GET \/academias query dias: style: "form" → "pipeDelimited"$/,
      { [LAST]: { ...DAYS, explode: false } },
    ],
    [
      'the parameter of a path has another type, whatever its name',
      { [CLASS]: undefined, ...classOf('turma_id', { type: 'integer' }) },
      /^GET \/turmas\/\{id\} path id: schema.type: "string" → "integer"$/,
      classOf('id'),
    ],
    ['a minimum is excluded', { 'Limit exclusiveMinimum': true }, /limit: schema.exclusiveMinimum: none → 1$/],
    [
      'a maximum is excluded, in 3.1',
      { 'Limit maximum': undefined, 'Limit exclusiveMaximum': 1000 },
      /limit: schema.exclusiveMaximum: none → 1000$/,
      IN_3_1,
    ],
    [
      'a keyword of 3.1 is new',
      { 'NovoAluno dependentRequired': { p_sexo: ['p_telefone'] } },
      /^POST \/alunos body: dependentRequired: none → \{/,
      IN_3_1,
    ],
    [
      'a keyword of 3.1 changes',
      { 'NovoAluno dependentRequired p_sexo 0': 'p_email' },
      /^POST \/alunos body: dependentRequired: \{"p_sexo":\["p_telefone"\]\} → \{"p_sexo":\["p_email"\]\}$/,
      { ...IN_3_1, 'NovoAluno dependentRequired': { p_sexo: ['p_telefone'] } },
    ],
    [
      'a schema is no longer shared and loses a property',
      { 'GET /academias responses 200 content application/json schema items': { type: 'object', properties: {} } },
      /^GET \/academias 200: items.properties.nome: \{.* → none$/,
    ],
    ['a minimum is raised', { 'Limit minimum': 2 }, /limit: schema.minimum: 1 → 2$/],
    [
      'an integer is bound for the first time',
      { 'NovoAluno.p_numero minimum': 0 },
      /p_numero.minimum: -9007199254740991 → 0$/,
      WITH_NUMBER,
    ],
    ['a field becomes read-only', { 'NovoAluno.p_sexo readOnly': true }, /^POST \/alunos body: properties.p_sexo/],
    [
      'a shared field becomes read-only',
      { Sexo: { type: 'string', readOnly: true } },
      /^POST \/alunos body: properties.p_sexo/,
      { Sexo: STRING, 'NovoAluno.p_sexo': { $ref: '#/components/schemas/Sexo' } },
    ],
    [
      'a property becomes write-only',
      { 'Aluno.nome writeOnly': true },
      /^GET \/alunos 200: items.properties.nome: \{.* → none$/,
    ],
    [
      'a number becomes an integer',
      { 'NovoAluno.p_numero type': 'integer' },
      /p_numero.type: "number" → "integer"$/,
      { 'NovoAluno.p_numero': { type: 'number' } },
    ],
    [
      'a field has one type less',
      { 'NovoAluno.p_numero type': 'string' },
      /p_numero.type: "integer\|string" → "string"$/,
      { ...IN_3_1, 'NovoAluno.p_numero': { type: ['string', 'integer'] } },
    ],
    [
      'a property has one type more',
      { 'Aluno.nome type': ['string', 'integer'] },
      /nome.type: "string" → "integer\|string"$/,
      IN_3_1,
    ],
    [
      'a property may be null, in 3.1',
      { 'Aluno.nome type': ['string', 'null'] },
      /nome.nullable: none → true$/,
      IN_3_1,
    ],
    ['a field is bound to a constant', { 'NovoAluno.p_sexo const': 'f' }, /p_sexo.enum.0: none → "f"$/, IN_3_1],
    ['a property may be missing', { 'Aluno required': ['id'] }, /^GET \/alunos 200: items.required.\d: "nome" → none$/],
    [
      'a success has another status',
      { 'POST /alunos responses 201': undefined, 'POST /alunos responses 200': { description: 'Created' } },
      /^POST \/alunos 201: \{.* → none$/,
    ],
    [
      'an operation needs a key of another header',
      {
        'components securitySchemes other': { type: 'apiKey', in: 'header', name: 'X-Key' },
        'GET /academias security': [{ other: [] }],
      },
      /^GET \/academias: security/,
    ],
    [
      'a property that may be missing is removed',
      { 'Aluno.cpf': undefined },
      /^GET \/alunos 200: items.properties.cpf: \{.* → none$/,
      { 'Aluno.cpf': STRING },
    ],
    [
      'a map may have any values',
      { 'Aluno.cpf additionalProperties': true },
      /items.properties.cpf.additionalProperties: \{"type":"string"\} → true$/,
      { 'Aluno.cpf': MAP },
    ],
    [
      'a map may have any values, which is not written',
      { 'Aluno.cpf additionalProperties': undefined },
      /items.properties.cpf.additionalProperties: \{"type":"string"\} → none$/,
      { 'Aluno.cpf': MAP },
    ],
    [
      'a header of an answer has another type',
      { [`${HEADERS} X-Total schema type`]: 'string' },
      /^GET \/academias 200 header x-total: schema.type: "integer" → "string"$/,
      WITH_HEADER,
    ],
    [
      'a header of an answer may be missing',
      { [`${HEADERS} X-Total required`]: false },
      /^GET \/academias 200 header x-total: required: true → false$/,
      WITH_HEADER,
    ],
    [
      'a property may be anything',
      { 'Aluno.cpf': {} },
      /^GET \/alunos 200: items.properties.cpf.oneOf.0: \{"type":"string"\} → none$/,
      { 'Aluno.cpf': CHOICE },
    ],
    [
      'a field is bound to a choice',
      { 'NovoAluno.p_cpf': CHOICE },
      /^POST \/alunos body: properties.p_cpf.oneOf.0: none → \{"type":"string"\}$/,
      { 'NovoAluno.p_cpf': {} },
    ],
    [
      'one more value is excluded',
      { 'NovoAluno.p_sexo not enum 1': 'y' },
      /^POST \/alunos body: properties.p_sexo.not.enum.1: none → "y"$/,
      { 'NovoAluno.p_sexo not': { enum: ['x'] } },
    ],
    ['the paths are elsewhere', { 'servers 0 url': '/v2' }, /^servers: 0.url: "\/v1" → "\/v2"$/],
  ])('%s', (_, edits, line, preparation) => {
    const { breaking } = diff(edits, preparation);
    expect(breaking.join('\n')).toMatch(new RegExp(line.source, 'm'));
  });
});

describe('it breaks nothing that', () => {
  test.each<[string, Edits, Edits?]>([
    ['an operation is new', { 'paths /turmas': { get: { operationId: 'x', responses: {} } } }],
    ['an optional parameter is new', WITH_DAY],
    ['an optional field is new', { 'NovoAluno.p_cpf': STRING }],
    ['a maximum is raised', { 'Limit maximum': 2000 }],
    [
      'a length is what its format has',
      { 'NovoAluno.p_academia_id maxLength': 36 },
      { 'NovoAluno.p_academia_id maxLength': undefined },
    ],
    ['a maximum length is raised', { 'NovoAluno.p_nome maxLength': 300 }],
    ['a property becomes shorter', { 'Aluno.nome maxLength': 200 }],
    ['a property has a length for the first time', { 'Aluno.id maxLength': 36 }, { 'Aluno.id maxLength': undefined }],
    ['an integer has the format of its bounds', { 'Limit format': 'int32' }, { 'Limit format': undefined }],
    ['a field has at least no characters', { 'NovoAluno.p_sexo minLength': 0 }],
    [
      'an integer is at least one, which was more than zero',
      { 'NovoAluno.p_numero': { type: 'integer', minimum: 1 } },
      { 'NovoAluno.p_numero': { type: 'integer', minimum: 0, exclusiveMinimum: true } },
    ],
    ['a pattern is removed', { 'NovoAluno.p_nome pattern': undefined }],
    ['a field may be null', { 'NovoAluno.p_sexo nullable': true }],
    ['other fields are allowed', { 'NovoAluno additionalProperties': true }],
    ['a parameter allows more values', { 'Ativo enum 2': 'all' }],
    ['a status is new', { 'GET /academias responses 409': { description: 'Conflict' } }],
    ['a property is new', { 'Aluno.cpf': STRING }],
    ['a property is new and always there', { 'Aluno.cpf': STRING, 'Aluno required 6': 'cpf' }],
    ['a property is never null again', { 'Aluno.academia_id nullable': undefined }],
    ['a property is bound to values', { 'Aluno.nome enum': ['a', 'b'] }],
    ['a property has fewer values', { 'Aluno.nome enum 1': undefined }, { 'Aluno.nome enum': ['a', 'b'] }],
    ['a minimum is not excluded any more', { 'Limit exclusiveMinimum': undefined }, { 'Limit exclusiveMinimum': true }],
    [
      'a field has one type more',
      { 'NovoAluno.p_numero type': ['string', 'integer'] },
      { ...IN_3_1, 'NovoAluno.p_numero': { type: 'string' } },
    ],
    ['a body is no longer required', { 'POST /alunos requestBody required': undefined }],
    ['a field has the format of its number', { 'NovoAluno.p_numero format': 'int64' }, WITH_NUMBER],
    ['a field is new and write-only', { 'NovoAluno.p_cpf': { ...STRING, writeOnly: true } }],
    ['a property is new and read-only', { 'Aluno.cpf': { ...STRING, readOnly: true } }],
    ['an integer has a wider format', { 'NovoAluno.p_numero format': 'int64' }, { 'NovoAluno.p_numero': INT32 }],
    ['a header of an answer is always there', { [`${HEADERS} X-Total required`]: true }, WITH_OPTIONAL_HEADER],
    [
      'no value is excluded any more',
      { 'NovoAluno.p_sexo not': undefined },
      { 'NovoAluno.p_sexo not': { enum: ['x'] } },
    ],
    [
      'a field is no longer read-only',
      { 'NovoAluno.p_cpf': STRING },
      { 'NovoAluno.p_cpf': { ...STRING, readOnly: true } },
    ],
    ['a property is no longer write-only', { 'Aluno.cpf': STRING }, { 'Aluno.cpf': { ...STRING, writeOnly: true } }],
    ['an operation has another name', { 'GET /academias operationId': 'outra' }],
    ['a function is another', { 'GET /academias x-rpc': 'other' }],
    ['no key is needed', { security: [] }],
  ])('%s', (_, edits, preparation) => {
    const { breaking, others } = diff(edits, preparation);
    expect(breaking).toEqual([]);
    expect(others).not.toEqual([]);
  });
});

describe('it sees no change where', () => {
  const limits = SOURCE.paths['/academias'].get.parameters;
  const [limit, offset] = limits;
  const { apiKey } = SOURCE.components.securitySchemes;
  const { SecaoDeAnamnese } = SOURCE.components.schemas;
  const PHONE = 'NovoAluno.p_telefone';

  test.each<[string, Edits, Edits?]>([
    [
      'a list of types is written as anyOf',
      { 'NovoAluno.p_cpf': { anyOf: [{ type: 'string' }, { type: 'integer' }] } },
      { 'NovoAluno.p_cpf': { type: ['integer', 'string'] } },
    ],
    ['parameters change places', { 'GET /academias parameters 0': offset, 'GET /academias parameters 1': limit }],
    [
      'a shared schema has another name',
      {
        Secao: SecaoDeAnamnese,
        SecaoDeAnamnese: undefined,
        'paths /anamnese/secoes get responses 200 content application/json schema items $ref':
          '#/components/schemas/Secao',
      },
    ],
    [
      'a schema is no longer shared',
      { 'paths /anamnese/secoes get responses 200 content application/json schema items': SecaoDeAnamnese },
    ],
    ['the parameter of a path has another name', { [CLASS]: undefined, ...classOf('turma_id') }, classOf('id')],
    [
      'a header is written in another case',
      { 'GET /academias parameters 4 name': 'x-dia' },
      { [LAST]: { ...DAY, in: 'header', name: 'X-Dia' } },
    ],
    ['a parameter is that of its path', { [LAST]: undefined, 'paths /academias parameters': [DAY] }, WITH_DAY],
    ['a parameter is shared', { [LAST]: SHARED_DAY, 'components parameters': { Dia: DAY } }, WITH_DAY],
    [
      'a default of a parameter is written',
      { [LAST]: { ...DAY, required: false, style: 'form', explode: true } },
      WITH_DAY,
    ],
    ['a default of an array is written', { [LAST]: { ...DAYS, style: 'form', explode: true } }, WITH_DAYS],
    ['a single value does not explode', { 'GET /academias parameters 4 explode': false }, WITH_DAY],
    [
      'an array that explodes has another style',
      { 'GET /academias parameters 4 style': 'spaceDelimited' },
      { [LAST]: { ...DAYS, explode: true } },
    ],
    ...['string', 'null'].map((_type, index): [string, Edits, Edits] => [
      `null is a type of 3.1, at place ${index}`,
      {
        ...IN_3_1,
        [PHONE]: { type: index === 0 ? ['null', 'string'] : ['string', 'null'] },
        'Aluno.academia_id nullable': undefined,
        'Aluno.academia_id type': ['string', 'null'],
      },
      { [PHONE]: { type: 'string', nullable: true } },
    ]),
    ...['anyOf', 'oneOf'].map((choice): [string, Edits, Edits] => [
      `a shared schema or null is a choice by ${choice}`,
      {
        ...IN_3_1,
        [PHONE]: { [choice]: [{ $ref: '#/components/schemas/Fone' }, { type: 'null' }] },
        'Aluno.academia_id nullable': undefined,
        'Aluno.academia_id type': ['string', 'null'],
      },
      { Fone: STRING, [PHONE]: { allOf: [{ $ref: '#/components/schemas/Fone' }], nullable: true } },
    ]),
    [
      'an exclusive bound is a number, as 3.1 has it',
      {
        ...IN_3_1,
        [PHONE]: { type: 'number', exclusiveMinimum: 0 },
        'Aluno.academia_id nullable': undefined,
        'Aluno.academia_id type': ['string', 'null'],
      },
      { [PHONE]: { type: 'number', minimum: 0, exclusiveMinimum: true } },
    ],
    [
      'one value is a constant',
      { [PHONE]: { type: 'string', const: 'a' } },
      { ...IN_3_1, [PHONE]: { type: 'string', enum: ['a'] } },
    ],
    [
      'bounds are those that an integer has in any case',
      { [PHONE]: { type: 'integer', minimum: Number.MIN_SAFE_INTEGER, maximum: Number.MAX_SAFE_INTEGER } },
      { [PHONE]: { type: 'integer' } },
    ],
    [
      'every operation names the key, which has another name',
      {
        security: undefined,
        'components securitySchemes': { chave: apiKey },
        ...Object.fromEntries(
          Object.entries<object>(SOURCE.paths).flatMap(([path, item]) =>
            Object.keys(item).map((method) => [`paths ${path} ${method} security`, [{ chave: [] }]]),
          ),
        ),
      },
    ],
    ['the header of the key is written in another case', { 'components securitySchemes apiKey name': 'x-api-key' }],
    [
      'a header of an answer is written in another case',
      { [HEADERS]: { 'x-total': WITH_HEADER[HEADERS]?.['X-Total'] } },
      WITH_HEADER,
    ],
    ['the server has another host', { 'servers 0 url': 'https://api.example/v1' }],
    [
      'a path has what its server had',
      {
        servers: [{ url: '/' }],
        paths: Object.fromEntries(Object.entries(SOURCE.paths).map(([path, item]) => [`/v1${path}`, item])),
      },
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

  test('has nothing to compare with before the first release', async () => {
    expect(await run()).toEqual({
      code: 0,
      lines: ['No release to compare with: no tag v* is an ancestor of HEAD'],
      errors: '',
    });
  });

  test('tells what breaks first, and ends with 1', async () => {
    const edits = { 'GET /academias summary': 'Gyms', 'SecaoDeAnamnese.ordem type': 'string' };
    write(stringify(edited(SOURCE, edits)));
    const lines = [
      'breaking: GET /anamnese/secoes 200: items.properties.ordem.type: "integer" → "string"',
      'annotation: GET /academias: summary: "List gyms" → "Gyms"',
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
        expect.stringMatching(/^annotation: /),
        'openapi.yaml since HEAD: 1 breaking (1 announced in CHANGELOG.md), 1 other',
      ],
    });
    changelog(`# Changelog\n\n## Unreleased\n\n## 0.1.0\n\n- \`${line}\`\n`);
    expect((await run(['HEAD'])).code).toBe(1);
  });

  test('ends with 0 where nothing breaks, compared with the last release', async () => {
    git('tag', 'v1.0.0');
    git('tag', 'other');
    write(stringify(edited(SOURCE, WITH_DAY)));
    expect(await run()).toEqual({
      code: 0,
      lines: [
        'non-breaking: GET /academias query dia: none → {"schema":{"type":"string"}}',
        'openapi.yaml since v1.0.0: 0 breaking, 1 other',
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
    expect(await run(['v1.0.0'])).toMatchObject({ code: 0, lines: ['openapi.yaml since v1.0.0: 0 breaking, 0 other'] });
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
    ['an unknown revision', ['v9'], /^v9 is not a revision of this repository: fatal: /],
    ['a revision without the document', ['HEAD~1'], /openapi\.yaml' exists on disk, but not in /],
    ['two revisions', ['HEAD', 'HEAD'], /^error: too many arguments/],
    ['an option', ['--all'], /^error: unknown option '--all'/],
    ['a revision like an option', ['--', '--all'], /^--all is not a revision of this repository: /],
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
