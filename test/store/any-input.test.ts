import type { OpenAPIV3 } from 'openapi-types';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { compile } from '../../src/openapi/compile.ts';
import { describeDifference, findDrift } from '../../src/openapi/drift.ts';
import type { Store } from '../../src/store/store.ts';
import { openTestStore, startGateway, type TestGateway } from '../helpers/gateway.ts';

// What reaches SQL of a request, on every store, and what comes back: a document of OpenAPI 3.1 whose functions return their
// arguments.

const DOCUMENT: OpenAPIV3.Document = parse(`
openapi: 3.1.0
info: { title: Echo, version: '1', summary: Returns what it gets, license: { name: MIT, identifier: MIT } }
jsonSchemaDialect: https://spec.openapis.org/oas/3.1/dialect/base
servers: [{ url: '/{version}', variables: { version: { default: v1 } } }]
security: [{ apiKey: [] }]
webhooks:
  changed: { post: { responses: { '200': { description: Received } } } }
paths:
  /eco/{petId}:
    parameters:
      - { name: petId, in: path, required: true, schema: { type: integer, format: int64 } }
    get:
      operationId: eco
      x-rpc: eco
      parameters:
        - { name: ids, in: query, schema: { type: array, maxItems: 3, items: { type: integer } } }
        - { name: tags, in: query, explode: false, schema: { type: array, items: { type: string, minLength: 1 } } }
        - { name: dias, in: query, style: pipeDelimited, schema: { type: array, items: { type: string, format: date } } }
        - { name: cor, in: query, schema: { anyOf: [{ type: string, maxLength: 5 }, { type: 'null' }] } }
        - { name: fator, in: query, schema: { type: number, maximum: 10, default: 0.5 } }
        - { name: X-Simular, in: header, schema: { type: boolean } }
      responses: { '200': { $ref: '#/components/responses/Eco' } }
    patch:
      operationId: alterar
      x-rpc: alterar
      requestBody:
        required: true
        content: { application/json: { schema: { $ref: '#/components/schemas/Alteracao' } } }
      responses: { '200': { $ref: '#/components/responses/Eco' } }
  /lista:
    post:
      operationId: receber
      x-rpc: receber
      requestBody:
        content:
          application/json:
            schema:
              type: array
              maxItems: 400
              items: { oneOf: [{ type: string, maxLength: 30 }, { $ref: '#/components/schemas/Item' }] }
      responses: { '200': { $ref: '#/components/responses/Eco' } }
  /tipos:
    post:
      operationId: tipos
      x-rpc: tipos
      requestBody:
        required: true
        content: { application/json: { schema: { $ref: '#/components/schemas/Tipos' } } }
      responses:
        '200':
          description: The same
          content: { application/json: { schema: { $ref: '#/components/schemas/Escritos' } } }
components:
  securitySchemes: { apiKey: { type: apiKey, in: header, name: X-Api-Key } }
  responses:
    Eco: { description: The arguments, content: { application/json: { schema: true } } }
  schemas:
    Item:
      type: object
      required: [quantidade]
      properties: { quantidade: { type: integer, minimum: 1 }, sub: { $ref: '#/components/schemas/Item' } }
    Base:
      type: object
      required: [id, nome]
      properties:
        id: { type: string, readOnly: true }
        nome: { type: string, maxLength: 20 }
    Alteracao:
      allOf:
        - { $ref: '#/components/schemas/Base' }
        - type: object
          properties:
            telefone: { type: [string, 'null'], maxLength: 5 }
            tipo: { const: aluno }
            codigo: { $ref: '#/components/schemas/Codigo', maxLength: 3 }
            itens: { type: array, items: { $ref: '#/components/schemas/Item' } }
    Codigo: { type: string, pattern: '^[a-z]*$' }
    Tipos:
      type: object
      additionalProperties: false
      required: [p_situacao]
      properties:
        p_situacao: { type: string, enum: [ativa, suspensa] }
        p_hora: { type: string, format: time-local }
        p_quando: { type: string, format: date-time-local }
        p_duracao: { type: string, format: duration }
        p_ip: { type: string, format: ipv4 }
        p_arquivo: { type: string, format: byte }
        p_cores: { type: array, items: { type: string } }
        p_livre: {}
        p_escolha: { oneOf: [{ type: string }, { type: object }] }
        p_nota: { type: integer, format: int32, exclusiveMinimum: -1, default: 7 }
    Escritos:
      type: object
      required: [situacao, hora, quando, duracao, ip, arquivo, cores, livre, escolha, nota]
      properties:
        situacao: { type: [string, 'null'], enum: [ativa, suspensa, encerrada, null] }
        hora: { type: [string, 'null'], format: time-local }
        quando: { type: [string, 'null'], format: date-time-local }
        duracao: { type: [string, 'null'] }
        ip: { type: [string, 'null'], format: ipv4 }
        arquivo: { type: [string, 'null'], format: byte }
        cores: { type: [array, 'null'], items: { type: string } }
        livre: {}
        escolha: {}
        nota: { type: [integer, 'null'] }
`);

const CLAUSES = 'security definer set search_path = pg_catalog, pg_temp';
const SQL = `
create function public.eco(
  p_api_key text, p_pet_id bigint, p_ids bigint[] default null, p_tags text[] default null, p_dias date[] default null,
  p_cor text default 'nenhuma', p_fator numeric default null, p_simular boolean default null
) returns jsonb language plpgsql stable ${CLAUSES} as $$
begin
  perform private.verify_key(p_api_key, 'eco');
  return jsonb_build_object('pet', p_pet_id, 'ids', p_ids, 'tags', p_tags, 'dias', p_dias, 'cor', p_cor,
    'fator', p_fator, 'simular', p_simular);
end $$;
select private.publish('public.eco');

-- The PATCH of the documentation: absent leaves, null clears.
create function public.alterar(p_api_key text, p_pet_id bigint, p_body jsonb) returns jsonb language plpgsql ${CLAUSES} as $$
begin
  perform private.verify_key(p_api_key, 'alterar');
  return jsonb_build_object('body', p_body, 'telefone', p_body ? 'telefone', 'texto', p_body::text);
end $$;
select private.publish('public.alterar');

create function public.receber(p_api_key text, p_body jsonb default null) returns jsonb language plpgsql ${CLAUSES} as $$
begin
  perform private.verify_key(p_api_key, 'receber');
  return jsonb_build_object('tipo', jsonb_typeof(p_body), 'body', p_body);
end $$;
select private.publish('public.receber');

-- PostgREST names the types of arguments, and has no rights in private.
create type public.situacao as enum ('ativa', 'suspensa');
create domain public.nota as integer check (value >= 0);
create function public.tipos(
  p_api_key text, p_situacao public.situacao, p_hora time default null, p_quando timestamp default null,
  p_duracao interval default null, p_ip inet default null, p_arquivo bytea default null, p_cores text[] default null,
  p_livre jsonb default null, p_escolha jsonb default null, p_nota public.nota default null
) returns table (
  situacao public.situacao, hora time, quando timestamp, duracao text, ip inet, arquivo text, cores text[], livre jsonb,
  escolha jsonb, nota public.nota
) language plpgsql rows 1 ${CLAUSES} as $$
begin
  perform private.verify_key(p_api_key, 'tipos');
  return query select p_situacao, p_hora, p_quando, extract(epoch from p_duracao)::text, p_ip, encode(p_arquivo, 'base64'), p_cores,
    p_livre, p_escolha, p_nota;
end $$;
select private.publish('public.tipos');
`;

let store: Store;
let gateway: TestGateway;

beforeAll(async () => {
  store = await openTestStore({ sql: SQL });
  gateway = await startGateway({ store, document: DOCUMENT });
});

afterAll(async () => {
  await gateway.close();
  await store.close();
});

/** The status and body of an answer. */
async function send(method: string, path: string, body?: string, headers = {}): Promise<[number, unknown]> {
  const init = {
    method,
    headers: { 'X-Api-Key': 'wms_demo_aurora', ...headers },
    ...(body === undefined ? {} : { body }),
  };
  const answer = await fetch(gateway.url + path, init);
  return [answer.status, await answer.json()];
}

const invalid = (fields: object) => [422, { error: fields }];

test('document and database agree', async () => {
  const { operations } = await compile(DOCUMENT);
  const description = await store.describe(new AbortController().signal);
  if ('failure' in description) throw description.failure.cause;
  expect(findDrift(operations, description.functions).map(describeDifference)).toEqual([]);
});

describe('a parameter', () => {
  const nothing = { pet: 1, ids: null, tags: null, dias: null, cor: 'nenhuma', fator: 0.5, simular: null };

  test('that is an array becomes an SQL array, as its style says', async () => {
    const query = '?ids=3&ids=1&tags=a,b%2Cc,%7B%22%7D%5C&dias=2024-01-01%7C2024-02-29';
    const arrays = { ids: [3, 1], tags: ['a', 'b,c', '{"}\\'], dias: ['2024-01-01', '2024-02-29'] };
    expect(await send('GET', `/eco/1${query}`)).toEqual([200, { ...nothing, ...arrays }]);
    expect(await send('GET', '/eco/1?ids=7&cor=azul')).toEqual([200, { ...nothing, ids: [7], cor: 'azul' }]);
    expect(await send('GET', '/eco/1')).toEqual([200, nothing]);
  });

  test('that is an array has each item validated, and is bounded', async () => {
    const query = '?ids=1&ids=x&ids=3&ids=4&tags=a,,c&tags=b&dias=2024-01-01|ontem';
    expect(await send('GET', `/eco/1${query}`)).toEqual(
      invalid({
        tags: ['must be given once'],
        ids: ['must NOT have more than 3 items'],
        'ids.1': ['must be integer'],
        'dias.1': ['must match format "date"'],
      }),
    );
    expect(await send('GET', '/eco/1?tags=a,,c')).toEqual(
      invalid({ 'tags.1': ['must NOT have fewer than 1 characters'] }),
    );
  });

  test('has its type in a query and in a header, and the default of the document, or else of the function', async () => {
    expect(await send('GET', '/eco/1?fator=1.5', undefined, { 'X-Simular': 'true' })).toEqual([
      200,
      { ...nothing, fator: 1.5, simular: true },
    ]);
    expect(await send('GET', '/eco/1?fator=11', undefined, { 'X-Simular': '1' })).toEqual(
      invalid({ fator: ['must be <= 10'], 'X-Simular': ['must be boolean'] }),
    );
  });

  test('that is an integer is never rounded', async () => {
    expect(await send('GET', '/eco/9007199254740991')).toEqual([200, { ...nothing, pet: 9007199254740991 }]);
    expect(await send('GET', '/eco/9007199254740993')).toEqual(invalid({ petId: ['must be <= 9007199254740991'] }));
  });
});

describe('a whole body', () => {
  test('tells absent from null', async () => {
    expect(await send('PATCH', '/eco/1', '{"nome":"Ana"}')).toMatchObject([
      200,
      { body: { nome: 'Ana' }, telefone: false },
    ]);
    expect(await send('PATCH', '/eco/1', '{"nome":"Ana","telefone":null}')).toMatchObject([
      200,
      { body: { nome: 'Ana', telefone: null }, telefone: true },
    ]);
  });

  test('reaches SQL as it was sent, with what it has beyond its properties', async () => {
    const body =
      '{"nome":"Ana","extra":{"n":9007199254740993,"x":0.12345678901234567890},"texto":"{\\"admin\\":true}"}';
    const [status, answer] = await send('PATCH', '/eco/1', body);
    expect(status).toBe(200);
    expect(JSON.parse((answer as { texto: string }).texto)).toEqual(JSON.parse(body));
    expect((answer as { texto: string }).texto).toMatch(/9007199254740993.*0\.12345678901234567890/);
  });

  test('is validated, with the place of each mistake', async () => {
    const body = { telefone: '123456', tipo: 'personal', codigo: 'ABCD', itens: [{ quantidade: 0 }, {}], id: '1' };
    expect(await send('PATCH', '/eco/1', JSON.stringify(body))).toEqual(
      invalid({
        nome: ['is required'],
        id: ['is read-only'],
        telefone: ['must NOT have more than 5 characters'],
        tipo: ['must be equal to one of the allowed values: aluno'],
        codigo: ['must match pattern "^[a-z]*$"', 'must NOT have more than 3 characters'],
        'itens.0.quantidade': ['must be >= 1'],
        'itens.1.quantidade': ['is required'],
      }),
    );
    expect(await send('PATCH', '/eco/1', '[]')).toEqual(invalid({ body: ['must be object', 'must be object'] }));
    expect(await send('PATCH', '/eco/1', '{')).toEqual([400, { error: 'Invalid JSON body' }]);
  });

  test('has bounds of depth, text and names', async () => {
    const deep = `{"nome":"Ana","x":${'['.repeat(70)}${']'.repeat(70)}}`;
    expect(await send('PATCH', '/eco/1', deep)).toEqual(invalid({ x: ['must not be nested deeper than 64 levels'] }));
    expect(await send('PATCH', '/eco/1', '{"nome":"Ana","a\\u0000":1,"b":"\\u0000","c":1,"c":2}')).toEqual(
      invalid({
        c: ['must be given once'],
        'a\0': ['must not contain U+0000 or an unpaired surrogate'],
        b: ['must not contain U+0000 or an unpaired surrogate'],
      }),
    );
    const [status, answer] = await send(
      'POST',
      '/lista',
      JSON.stringify(Array.from({ length: 400 }, () => ({ quantidade: 0 }))),
    );
    const { error } = answer as { error: Record<string, string[]> };
    expect([status, Object.keys(error).length]).toEqual([422, 300]);
    expect(error.body).toEqual([expect.stringMatching(/^has \d+ errors, of which/)]);
  });

  test('may be an array, or left out', async () => {
    expect(await send('POST', '/lista', '["a", {"quantidade": 2, "sub": {"quantidade": 1}}]')).toEqual([
      200,
      { tipo: 'array', body: ['a', { quantidade: 2, sub: { quantidade: 1 } }] },
    ]);
    expect(await send('POST', '/lista')).toEqual([200, { tipo: null, body: null }]);
    expect(await send('POST', '/lista', '{}')).toEqual(invalid({ body: ['must be array'] }));
  });
});

describe('a field', () => {
  const nothing = {
    situacao: 'ativa',
    hora: null,
    quando: null,
    duracao: null,
    ip: null,
    arquivo: null,
    cores: null,
    livre: null,
    escolha: null,
    nota: 7,
  };

  test('has the type of its argument', async () => {
    const body = {
      p_situacao: 'suspensa',
      p_hora: '18:30:00',
      p_quando: '2024-05-02T12:30:45',
      p_duracao: 'PT1H30M',
      p_ip: '10.0.0.1',
      p_arquivo: btoa('olá\0'.normalize().replace('á', '\xe1')),
      p_cores: ['azul', 'a"b\\c', ''],
      p_livre: { a: [1, null] },
      p_escolha: 'texto',
      p_nota: 0,
    };
    const written = Object.fromEntries(Object.entries(body).map(([name, value]) => [name.slice(2), value]));
    const answer = await send('POST', '/tipos', JSON.stringify(body));
    expect(answer).toEqual([200, { ...written, duracao: '5400.000000' }]);
  });

  test('of type jsonb gets what was sent, a text too', async () => {
    const text = '{"admin":true}';
    const body = `{"p_situacao":"ativa","p_livre":${JSON.stringify(text)},"p_escolha":{"n":1}}`;
    expect(await send('POST', '/tipos', body)).toEqual([200, { ...nothing, livre: text, escolha: { n: 1 } }]);
    const exact = await fetch(`${gateway.url}/tipos`, {
      method: 'POST',
      headers: { 'X-Api-Key': 'wms_demo_aurora' },
      body: '{"p_situacao":"ativa","p_livre":{"n":9007199254740993}}',
    });
    expect(await exact.text()).toContain('"livre":{"n": 9007199254740993}');
  });

  test('keeps the bounds of its format', async () => {
    const body = { p_situacao: 'encerrada', p_hora: '25:00:00', p_arquivo: '%', p_nota: 2 ** 31, p_cores: [1] };
    expect(await send('POST', '/tipos', JSON.stringify(body))).toEqual(
      invalid({
        p_situacao: ['must be equal to one of the allowed values: ativa, suspensa'],
        p_hora: ['must match format "time-local"'],
        p_arquivo: ['must match format "byte"'],
        'p_cores.0': ['must be string'],
        p_nota: ['must be <= 2147483647'],
      }),
    );
  });
});
