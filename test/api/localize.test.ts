import { readFileSync } from 'node:fs';
import type { OpenAPIV3 } from 'openapi-types';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { messages } from '../../src/api/messages.ts';
import type { DocumentError } from '../../src/openapi/document.ts';
import { readTranslations } from '../../src/openapi/translations.ts';
import type { Result } from '../../src/store/store.ts';
import { call, document, documentOf, jsonBody, STUDENT } from '../helpers/api.ts';
import { openTestStore, startGateway, type TestGateway } from '../helpers/gateway.ts';
import { createStubStore } from '../helpers/stub-store.ts';

type Extended = OpenAPIV3.Document & { 'x-translations'?: unknown };

let gateway: TestGateway;

beforeAll(async () => {
  gateway = await startGateway({ store: await openTestStore() });
});

afterAll(async () => {
  await gateway.close();
  await gateway.store.close();
});

/** The language of an answer that is a 422, and what it says. */
async function ask(target: string, language: string | undefined, options: Parameters<typeof call>[1] = {}) {
  const headers = { ...options.headers, ...(language === undefined ? {} : { 'Accept-Language': language }) };
  const answer = await call(target, { url: gateway.url, ...options, headers });
  expect(answer.status).toBe(422);
  expect(answer.headers.get('vary')?.split(', ')).toContain('Accept-Language');
  return [answer.headers.get('content-language'), (answer.body as { error: unknown }).error];
}

const ENGLISH = ['en', { limit: ['must be <= 1000'] }];
const PORTUGUESE = ['pt-BR', { limit: ['Informe um número menor ou igual a 1000'] }];

describe('the language', () => {
  test.each([
    ...[undefined, '', '*', 'EN-us', 'en-US,en;q=0.9,pt-BR;q=0.8', 'pt;q=0.5, en;q=0.7', 'pt-PT;q=0.1, *;q=0.2'],
    ...['pt-BR;q=0', 'en;q=0', 'de, fr;q=0.5', 'pto', 'pt_BR', '@,=', '"pt'],
  ])('is English for Accept-Language: %s', async (language) => {
    expect(await ask('/alunos?limit=1001', language)).toEqual(ENGLISH);
  });

  test.each([
    ...['PT-br', 'pt', 'pt-PT', 'pt-Latn-BR', '*, pt-BR', 'pt-BR, en', 'pt-BR,pt;q=0.9,en-US;q=0.8,en;q=0.7'],
    ...['en;q=0.5, pt;q=0.6', 'de, pt;q=0.2, en;q=0.1', 'en;q=0.1, *', 'en;q=0, *;q=0.1'],
  ])('is Portuguese for Accept-Language: %s', async (language) => {
    expect(await ask('/alunos?limit=1001', language)).toEqual(PORTUGUESE);
  });

  test.each([
    ['/alunos?limit=1', {}, 200, undefined],
    ['/alunos?limit=%ff', {}, 400, 'Malformed URL'],
    ['/alunos', { key: null }, 400, 'Missing X-Api-Key header'],
    ['/alunos', { key: 'x' }, 401, 'API Key inválida'],
    ['/nada', {}, 404, 'Not found'],
    ['/alunos', { method: 'DELETE' }, 405, 'Method not allowed'],
  ])('is not told of %s with %j, whose text is fixed', async (target, options, status, error) => {
    const answer = await call(target, { url: gateway.url, ...options, headers: { 'Accept-Language': 'pt-BR' } });
    expect(answer.status).toBe(status);
    if (error !== undefined) expect(answer.body).toEqual({ error });
    expect(answer.headers.has('content-language')).toBe(false);
    expect(answer.headers.get('vary') ?? '').not.toContain('Accept-Language');
  });
});

const given = '"p_nome":"Ana","p_email":"ana@aurora.example"';
const gym = 'b1000000-0000-4000-8000-000000000001';

describe('what is said of a body', () => {
  test.each([
    ['{}', 'p_nome', messages.isRequired],
    [`{${given},"p_x":1}`, 'p_x', messages.isNoField],
    [`{${given},"p_sexo":"a","p_sexo":"b"}`, 'p_sexo', messages.isRepeated],
    ['[]', 'body', messages.isNoObject],
    [`{${given},"p_sexo":${'['.repeat(65)}${']'.repeat(65)}}`, 'p_sexo', messages.isTooDeep],
    [`{${given},"p_sexo":"\\u0000"}`, 'p_sexo', messages.isNoText],
    [`{${given},"p_sexo":1e400}`, 'p_sexo', messages.isOutOfRange],
    [
      `{${given},"p_data_nascimento":"2024-02-30"}`,
      'p_data_nascimento',
      {
        en: 'must be a date that exists, as YYYY-MM-DD or DD/MM/YYYY',
        'pt-BR': 'Informe uma data que exista, como AAAA-MM-DD ou DD/MM/AAAA',
      },
    ],
    [
      `{${given},"p_academia_id":"${gym}"}`,
      'p_academia_id',
      { en: 'must be the id of a gym of the tenant', 'pt-BR': 'Informe o id de uma academia do tenant' },
    ],
  ])('%.60s is in either language', async (body, field, message) => {
    for (const language of ['en', 'pt-BR'] as const) {
      const [told, error] = await ask('/alunos', language, { body });
      expect([told, (error as Record<string, unknown>)[field]]).toEqual([language, [message[language]]]);
    }
  });

  test('is all in one language', async () => {
    const body = '{"p_nome":" ","p_email":"ana","p_telefone":1,"p_sexo":"\\u0000","p_x":1}';
    expect(await ask('/alunos', 'pt-BR', { body, headers: { 'Idempotency-Key': 'a b' } })).toEqual([
      'pt-BR',
      {
        p_nome: ['Preencha este campo'],
        p_email: ['Informe um e-mail válido'],
        p_telefone: ['Informe um texto'],
        p_sexo: ['Remova os caracteres inválidos (U+0000 ou surrogate sem par)'],
        p_x: ['Este campo não existe nesta operação'],
        'Idempotency-Key': ['Use somente caracteres ASCII visíveis'],
      },
    ]);
  });

  test('holds for a key that was used before', async () => {
    const headers = { 'Idempotency-Key': 'language' };
    expect(await call('/alunos', { url: gateway.url, json: STUDENT, headers })).toMatchObject({ status: 201 });
    const other = { headers, json: { ...STUDENT, p_nome: 'Outra' } };
    expect(await ask('/alunos', 'en', other)).toEqual([
      'en',
      { 'Idempotency-Key': ['was used for another request in the last 24 hours'] },
    ]);
    expect(await ask('/alunos', 'pt', other)).toEqual([
      'pt-BR',
      { 'Idempotency-Key': ['Esta chave já foi usada em outra requisição nas últimas 24 horas'] },
    ]);
  });
});

test('answers invalid parameters in either language', async () => {
  const query = '/alunos?limit=1&limit=2&nome=%00&ativo=sim&academia_id=x&id_personal=%2D&offset=-1&sort=1';
  expect(await ask(query, undefined)).toEqual([
    'en',
    {
      limit: [messages.isRepeated.en],
      nome: [messages.isNoText.en],
      sort: [messages.isNoParameter.en],
      ativo: ['must be equal to one of the allowed values: true, false'],
      academia_id: ['must match format "uuid"'],
      id_personal: ["must be the trainer's id without hyphens (1 to 64 letters, digits or underscores)"],
      offset: ['must be >= 0'],
    },
  ]);
  expect(await ask(query, 'pt-BR')).toEqual([
    'pt-BR',
    {
      limit: [messages.isRepeated['pt-BR']],
      nome: [messages.isNoText['pt-BR']],
      sort: [messages.isNoParameter['pt-BR']],
      ativo: ['Escolha um destes valores: true, false'],
      academia_id: ['Informe um identificador (UUID) válido'],
      id_personal: ['Informe o id do personal sem hífens (de 1 a 64 letras, dígitos ou sublinhados)'],
      offset: ['Informe um número maior ou igual a 0'],
    },
  ]);
});

/** A gateway whose POST takes fields by these schemas, and whose store gives this result. */
async function post(properties: object, result: Result, body: unknown, language: string): Promise<unknown[]> {
  const document = documentOf(jsonBody({ type: 'object', additionalProperties: false, properties }));
  const own = await startGateway({ store: createStubStore(() => result), document });
  const answer = await fetch(`${own.url}/um`, {
    method: 'POST',
    headers: { 'X-Api-Key': 'x', 'Accept-Language': language },
    body: JSON.stringify(body),
  });
  await own.close();
  const { error } = (await answer.json()) as { error: unknown };
  return [answer.status, answer.headers.get('content-language'), error];
}

const NOT_CALLED: Result = { json: 'null' };

describe('a rule of a new operation', () => {
  /** A schema, a value that breaks it, the message in either language, and where in the field. */
  const RULES: readonly [schema: object, value: unknown, english: string, portuguese: string, place?: string][] = [
    [{ type: 'string' }, 1, 'must be string', 'Informe um texto'],
    [{ type: 'integer' }, 1.5, 'must be integer', 'Informe um número inteiro'],
    [{ type: 'number', nullable: true }, '1', 'must be number', 'Informe um número'],
    [{ type: 'boolean' }, 'sim', 'must be boolean', 'Informe true ou false'],
    [{ type: 'object' }, [], 'must be object', 'Informe um objeto'],
    [{ type: 'array', items: {} }, {}, 'must be array', 'Informe uma lista'],
    [{ type: 'string', minLength: 1 }, '', 'must NOT have fewer than 1 characters', 'Informe pelo menos 1 caractere'],
    [{ type: 'string', minLength: 2 }, 'a', 'must NOT have fewer than 2 characters', 'Informe pelo menos 2 caracteres'],
    [{ type: 'string', maxLength: 1 }, 'ab', 'must NOT have more than 1 characters', 'Informe no máximo 1 caractere'],
    [{ type: 'string', maxLength: 2 }, 'abc', 'must NOT have more than 2 characters', 'Informe no máximo 2 caracteres'],
    [
      { type: 'string', pattern: '^a$' },
      'b',
      'must match pattern "^a$"',
      'Informe um valor que corresponda ao padrão "^a$"',
    ],
    [{ type: 'string', format: 'date' }, 'b', 'must match format "date"', 'Informe uma data válida, como 2026-12-31'],
    [{ type: 'integer', minimum: 2 }, 1, 'must be >= 2', 'Informe um número maior ou igual a 2'],
    [{ type: 'integer', maximum: 2 }, 3, 'must be <= 2', 'Informe um número menor ou igual a 2'],
    [{ type: 'integer', multipleOf: 2 }, 3, 'must be multiple of 2', 'Informe um múltiplo de 2'],
    [{ enum: ['a', 'b'] }, 'c', 'must be equal to one of the allowed values: a, b', 'Escolha um destes valores: a, b'],
    [{ type: 'array', items: {}, maxItems: 1 }, [1, 2], 'must NOT have more than 1 items', 'Informe no máximo 1 item'],
    [{ not: { type: 'integer' } }, 1, 'must NOT be valid', 'Informe um valor válido'],
    [{ type: 'array', items: { type: 'integer' } }, ['a'], 'must be integer', 'Informe um número inteiro', '.0'],
    [{ type: 'object', required: ['a'] }, {}, 'is required', 'Preencha este campo', '.a'],
    [
      { type: 'object', additionalProperties: false },
      { a: 1 },
      'is not a field of this operation',
      'Este campo não existe nesta operação',
      '.a',
    ],
    [
      { type: 'array', items: { type: 'string', pattern: 'a', 'x-pattern-message': 'must not be blank' } },
      ['b'],
      'must not be blank',
      'Preencha este campo',
      '.0',
    ],
  ];

  test('is told in either language', async () => {
    const toFields = <T>(toEntry: (rule: (typeof RULES)[number]) => T, toPlace = (_: (typeof RULES)[number]) => '') =>
      Object.fromEntries(RULES.map((rule, n) => [`p_${n}${toPlace(rule)}`, toEntry(rule)]));
    const [schemas, body] = [toFields(([schema]) => schema), toFields(([, value]) => value)];
    const toErrors = (column: 2 | 3) =>
      toFields(
        (rule) => [rule[column]],
        ([, , , , place = '']) => place,
      );
    expect(await post(schemas, NOT_CALLED, body, 'en')).toEqual([422, 'en', toErrors(2)]);
    expect(await post(schemas, NOT_CALLED, body, 'pt-BR')).toEqual([422, 'pt-BR', toErrors(3)]);
  });

  test('is told in Portuguese where it is of several schemas', async () => {
    const types = [{ type: 'integer' }, { type: 'boolean' }];
    const told = ['Informe um número inteiro', 'Informe true ou false', 'Informe um valor em uma das formas previstas'];
    const schemas = { p_um: { oneOf: types }, p_algum: { anyOf: types } };
    const answer = await post(schemas, NOT_CALLED, { p_um: 'a', p_algum: 'a' }, 'pt-BR');
    expect(answer).toEqual([422, 'pt-BR', { p_um: told, p_algum: told }]);
  });
});

describe('a text that nobody has translated', () => {
  const refused: Result = { failure: { kind: 'invalidInput', fields: { p_valor: ['must be in the future'] } } };
  const schema = { type: 'string', minLength: 3, pattern: '^b', 'x-pattern-message': 'must begin with b' };

  test('stays in English, and that is told', async () => {
    const english = [422, 'en', { p_valor: ['must be in the future'] }];
    expect(await post({}, refused, {}, 'pt-BR')).toEqual(english);
    expect(await post({}, refused, {}, 'en')).toEqual(english);
    const begin = await post({ p_valor: schema }, NOT_CALLED, { p_valor: 'abc' }, 'pt-BR');
    expect(begin).toEqual([422, 'en', { p_valor: ['must begin with b'] }]);
  });

  test('stays in English beside others in Portuguese, and both languages are told', async () => {
    expect(await post({ p_valor: schema }, NOT_CALLED, { p_valor: 'a' }, 'pt-BR')).toEqual([
      422,
      'pt-BR, en',
      { p_valor: ['Informe pelo menos 3 caracteres', 'must begin with b'] },
    ]);
  });
});

describe('x-translations', () => {
  const { 'x-translations': translations } = document as { 'x-translations'?: { 'pt-BR': Record<string, string> } };
  const errorCodes = readFileSync('supabase/error-codes.md', 'utf8');
  // The message of a PT422 on several fields is not sent: its fields have messages of their own.
  const raised = [...errorCodes.matchAll(/^\| `(?:PT422|p_\w+)` \| `([^`]+)` \| /gm)]
    .map(([, text]) => text)
    .filter((text) => text !== 'invalid fields');
  const patterns = [...readFileSync('openapi.yaml', 'utf8').matchAll(/x-pattern-message: (.+)$/gm)].map(
    ([, text]) => text,
  );

  test('has the Portuguese of every text of the document and of SQL, and nothing else', () => {
    expect(raised.length).toBeGreaterThanOrEqual(3);
    expect(patterns.length).toBeGreaterThanOrEqual(2);
    expect(Object.keys(translations?.['pt-BR'] ?? {}).sort()).toEqual([...new Set([...raised, ...patterns])].sort());
  });

  const mistakesOf = (value: unknown) => {
    try {
      readTranslations({ ...document, 'x-translations': value } as Extended);
      return [];
    } catch (error) {
      return (error as DocumentError).mistakes;
    }
  };

  test('may be left out, or have no text', () => {
    const { 'x-translations': _, ...rest } = document as Extended;
    expect([...readTranslations(rest)]).toEqual([]);
    expect(mistakesOf({})).toEqual([]);
    expect(mistakesOf({ 'pt-BR': {} })).toEqual([]);
  });

  test.each([
    [null, 'x-translations must be a map of languages', ['x-translations']],
    [['pt-BR'], 'x-translations must be a map of languages', ['x-translations']],
    [{ es: {} }, 'x-translations has es: only pt-BR is supported', ['x-translations', 'es']],
    [{ 'pt-BR': 'a' }, 'x-translations pt-BR must be a map from English texts', ['x-translations', 'pt-BR']],
    [
      { 'pt-BR': { 'must be odd': '' } },
      'x-translations pt-BR: the translation of "must be odd" must be a non-empty string; it is ""',
      ['x-translations', 'pt-BR', 'must be odd'],
    ],
    [
      { 'pt-BR': { 'must be odd': 1 } },
      'x-translations pt-BR: the translation of "must be odd" must be a non-empty string; it is 1',
      ['x-translations', 'pt-BR', 'must be odd'],
    ],
  ])('that is %j is refused, with its place', (value, text, place) => {
    expect(mistakesOf(value)).toEqual([{ text, place }]);
  });

  test('is read when the gateway starts, and all its mistakes are told', async () => {
    const broken = { ...document, 'x-translations': { es: {}, 'pt-BR': { a: 1 } } } as Extended;
    await expect(startGateway({ store: gateway.store, document: broken })).rejects.toThrow(/has es:.*\n.*of "a"/);
  });
});
