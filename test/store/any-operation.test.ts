import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { compileFile } from '../../src/openapi/compile.ts';
import { readDocument } from '../../src/openapi/document.ts';
import { describeDifference, findDrift } from '../../src/openapi/drift.ts';
import type { Store } from '../../src/store/store.ts';
import { openTestStore, startGateway, type TestGateway } from '../helpers/gateway.ts';

// Operations that YAML and SQL alone add, on every store: what reaches SQL of a request, by functions that return their arguments,
// and what HTTP and OpenAPI expect of answers.

const NOBODY = 'ffffffff-ffff-4fff-8fff-ffffffffffff';
const CENTRO = 'a1000000-0000-4000-8000-000000000001';
const OF_BOSQUE = 'b1000000-0000-4000-8000-000000000001';

let store: Store;
let gateway: TestGateway;

beforeAll(async () => {
  store = await openTestStore({ sql: readFileSync('test/documents/everything.sql', 'utf8') });
  gateway = await startGateway({ store, document: await readDocument('test/documents/everything.yaml') });
});

afterAll(async () => {
  await gateway.close();
  await store.close();
});

type Received = { readonly status: number; readonly text: string; readonly headers: Headers };

/** Sends a request; a body that is a text is sent as it is. */
async function send(method: string, path: string, body?: unknown, headers = {}): Promise<Received> {
  const answer = await fetch(gateway.url + path, {
    method,
    headers: { 'X-Api-Key': 'wms_demo_aurora', ...headers },
    ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
  });
  return { status: answer.status, text: await answer.text(), headers: answer.headers };
}

/** The status and body of an answer. */
async function ask(...request: Parameters<typeof send>): Promise<[number, unknown]> {
  const { status, text } = await send(...request);
  return [status, JSON.parse(text)];
}

/** What an answer with an error has. */
const refusal = (status: number, error: unknown) => ({ status, text: JSON.stringify({ error }) });

async function create(body: object): Promise<{ id: string }> {
  const { status, text } = await send('POST', '/cabides', body);
  expect(status, text).toBe(201);
  return JSON.parse(text);
}

describe('a status that SQL raises', () => {
  test('is the answer where the document declares it', async () => {
    expect(await send('POST', '/cabides', { p_numero: 13 })).toMatchObject(
      refusal(403, 'Nobody may have the number 13'),
    );
    expect(await send('DELETE', `/cabides/${NOBODY}`)).toMatchObject(refusal(404, 'There is no such peg'));
  });

  test('is a fault where it does not, and the log says so', async () => {
    const before = gateway.faults.length;
    expect(await send('POST', '/cabides', { p_numero: 14 })).toMatchObject(refusal(502, 'Data store error'));
    expect(gateway.faults.slice(before).map(({ cause }) => (cause as Error).message)).toEqual([
      'criarCabide declares no response 410, for which criar_cabide gives a reason: The number 14 is gone',
    ]);
  });

  test('is no 422 without a field', async () => {
    expect(await send('POST', '/cabides', { p_numero: 15 })).toMatchObject(refusal(502, 'Data store error'));
  });
});

test('a call that Postgres has ended to resolve a deadlock is made again', async () => {
  await create({ p_numero: 16 });
});

describe('a record that is not found', () => {
  test('is the declared 404', async () => {
    expect(await send('GET', `/cabides/${NOBODY}`)).toMatchObject(refusal(404, 'Not found'));
  });

  test('is a fault without a declaration', async () => {
    const before = gateway.faults.length;
    expect(await send('PUT', `/cabides/${NOBODY}`)).toMatchObject(refusal(502, 'Data store error'));
    expect(gateway.faults.slice(before).map(({ cause }) => (cause as Error).message)).toEqual([
      'trocarCabide declares no response 404, for which obter_cabide gives a reason: it returned no record',
    ]);
  });
});

describe('a violated constraint', () => {
  test('is the declared 409, with its own text', async () => {
    await create({ p_numero: 1 });
    expect(await send('POST', '/cabides', { p_numero: 1 })).toMatchObject(refusal(409, 'another peg has this number'));
  });

  test('is the declared 409 with a text that reveals nothing, the same for a record of another tenant and for none', async () => {
    for (const p_academia_id of [OF_BOSQUE, NOBODY]) {
      const answer = await send('POST', '/cabides', { p_numero: 2, p_academia_id });
      expect(answer).toMatchObject(refusal(409, 'Conflicts with another record'));
    }
    await create({ p_numero: 2, p_academia_id: CENTRO });
  });
});

describe('an answer', () => {
  test('without content has no body and no type', async () => {
    const { id } = await create({ p_numero: 3 });
    const describe = ({ status, text, headers }: Received) => [
      ...[status, text, headers.get('content-length'), headers.get('content-type')],
    ];
    expect(describe(await send('DELETE', `/cabides/${id}`))).toEqual([204, '', null, null]);
    expect(describe(await send('POST', '/cabides/numeros'))).toEqual([202, '', '0', null]);
  });

  test('may be one value', async () => {
    const { id } = await create({ p_numero: 900 });
    const { status, text } = await send('GET', '/cabides/numeros');
    expect([status, JSON.parse(text)]).toEqual([200, expect.arrayContaining([900])]);
    expect(text).not.toContain('{');
    await send('DELETE', `/cabides/${id}`);
  });

  test('to a method that may write has no ETag, even if it only reads', async () => {
    const { id } = await create({ p_numero: 4 });
    const { status, headers } = await send('PUT', `/cabides/${id}`);
    expect([status, headers.get('etag'), headers.get('cache-control')]).toEqual([200, null, 'no-store']);
    expect((await send('GET', `/cabides/${id}`)).headers.get('etag')).not.toBeNull();
  });
});

const invalid = (fields: object) => [422, { error: fields }];

test('document and database agree but for a status that the SQL of a store tells, if it can be read', async () => {
  const { operations } = await compileFile('test/documents/everything.yaml');
  const description = await store.describe(new AbortController().signal);
  if ('failure' in description) throw description.failure.cause;
  const differences = findDrift(operations, description.functions).map(describeDifference);
  expect(differences.filter((text) => !text.includes('there is no response 410'))).toEqual([]);
});

describe('a parameter', () => {
  const nothing = { pet: 1, ids: null, tags: null, dias: null, cor: 'nenhuma', fator: 0.5, simular: null };

  test('that is an array becomes an SQL array, as its style says', async () => {
    const query = '?ids=3&ids=1&tags=a,b%2Cc,%7B%22%7D%5C&dias=2024-01-01%7C2024-02-29';
    const arrays = { ids: [3, 1], tags: ['a', 'b,c', '{"}\\'], dias: ['2024-01-01', '2024-02-29'] };
    expect(await ask('GET', `/eco/1${query}`)).toEqual([200, { ...nothing, ...arrays }]);
    expect(await ask('GET', '/eco/1?ids=7&cor=azul')).toEqual([200, { ...nothing, ids: [7], cor: 'azul' }]);
    expect(await ask('GET', '/eco/1')).toEqual([200, nothing]);
  });

  test('that is an array has each item validated, and is bounded', async () => {
    const query = '?ids=1&ids=x&ids=3&ids=4&tags=a,,c&tags=b&dias=2024-01-01|ontem';
    expect(await ask('GET', `/eco/1${query}`)).toEqual(
      invalid({
        tags: ['must be given once'],
        ids: ['must NOT have more than 3 items'],
        'ids.1': ['must be integer'],
        'dias.1': ['must match format "date"'],
      }),
    );
    expect(await ask('GET', '/eco/1?tags=a,,c')).toEqual(
      invalid({ 'tags.1': ['must NOT have fewer than 1 characters'] }),
    );
  });

  test('has its type in a query and in a header, and the default of the document, or else of the function', async () => {
    expect(await ask('GET', '/eco/1?fator=1.5', undefined, { 'X-Simular': 'true' })).toEqual([
      200,
      { ...nothing, fator: 1.5, simular: true },
    ]);
    expect(await ask('GET', '/eco/1?fator=11', undefined, { 'X-Simular': '1' })).toEqual(
      invalid({ fator: ['must be <= 10'], 'X-Simular': ['must be boolean'] }),
    );
  });

  test('that is an integer is never rounded', async () => {
    expect(await ask('GET', '/eco/9007199254740991')).toEqual([200, { ...nothing, pet: 9007199254740991 }]);
    expect(await ask('GET', '/eco/9007199254740993')).toEqual(invalid({ petId: ['must be <= 9007199254740991'] }));
  });
});

describe('a whole body', () => {
  test('tells absent from null', async () => {
    expect(await ask('PATCH', '/eco/1', '{"nome":"Ana"}')).toMatchObject([
      200,
      { body: { nome: 'Ana' }, telefone: false },
    ]);
    expect(await ask('PATCH', '/eco/1', '{"nome":"Ana","telefone":null}')).toMatchObject([
      200,
      { body: { nome: 'Ana', telefone: null }, telefone: true },
    ]);
  });

  test('reaches SQL as it was sent, with what it has beyond its properties', async () => {
    const body =
      '{"nome":"Ana","body":{"nome":"Eva"},"extra":{"n":9007199254740993,"x":0.12345678901234567890},"texto":"{\\"admin\\":true}"}';
    const [status, answer] = await ask('PATCH', '/eco/1', body);
    expect(status).toBe(200);
    expect(JSON.parse((answer as { texto: string }).texto)).toEqual(JSON.parse(body));
    expect((answer as { texto: string }).texto).toMatch(/9007199254740993.*0\.12345678901234567890/);
  });

  test('is validated, with the place of each mistake', async () => {
    const body = { telefone: '123456', tipo: 'personal', codigo: 'ABCD', itens: [{ quantidade: 0 }, {}], id: '1' };
    expect(await ask('PATCH', '/eco/1', JSON.stringify(body))).toEqual(
      invalid({
        nome: ['is required'],
        id: ['is read-only'],
        telefone: ['must NOT have more than 5 characters'],
        tipo: ['must be equal to one of the allowed values: aluno'],
        codigo: ['must NOT have more than 3 characters', 'must match pattern "^[a-z]*$"'],
        'itens.0.quantidade': ['must be >= 1'],
        'itens.1.quantidade': ['is required'],
      }),
    );
    expect(await ask('PATCH', '/eco/1', '[]')).toEqual(invalid({ body: ['must be object'] }));
    expect(await ask('PATCH', '/eco/1', '{')).toEqual([400, { error: 'Invalid JSON body' }]);
  });

  test('has bounds of depth, text and names', async () => {
    const deep = `{"nome":"Ana","x":${'['.repeat(70)}${']'.repeat(70)}}`;
    expect(await ask('PATCH', '/eco/1', deep)).toEqual(invalid({ x: ['must not be nested deeper than 64 levels'] }));
    expect(await ask('PATCH', '/eco/1', '{"nome":"Ana","a\\u0000":1,"b":"\\u0000","c":1,"c":2}')).toEqual(
      invalid({
        c: ['must be given once'],
        'a\0': ['must not contain U+0000 or an unpaired surrogate'],
        b: ['must not contain U+0000 or an unpaired surrogate'],
      }),
    );
    const [status, answer] = await ask(
      'POST',
      '/lista',
      JSON.stringify(Array.from({ length: 400 }, () => ({ quantidade: 0 }))),
    );
    const { error } = answer as { error: Record<string, string[]> };
    expect([status, Object.keys(error).length]).toEqual([422, 300]);
    expect(error.body).toEqual([expect.stringMatching(/^has \d+ errors, of which/)]);
  });

  test('may be an array, or left out', async () => {
    expect(await ask('POST', '/lista', '["a", {"quantidade": 2, "sub": {"quantidade": 1}}]')).toEqual([
      200,
      { tipo: 'array', body: ['a', { quantidade: 2, sub: { quantidade: 1 } }] },
    ]);
    expect(await ask('POST', '/lista')).toEqual([200, { tipo: null, body: null }]);
    expect(await ask('POST', '/lista', '{}')).toEqual(invalid({ body: ['must be array'] }));
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
    const answer = await ask('POST', '/esp%C3%A9cies', JSON.stringify(body));
    expect(answer).toEqual([200, { ...written, duracao: '5400.000000' }]);
  });

  test('of type jsonb gets what was sent, a text too', async () => {
    const text = '{"admin":true}';
    const body = `{"p_situacao":"ativa","p_livre":${JSON.stringify(text)},"p_escolha":{"n":1}}`;
    expect(await ask('POST', '/esp%C3%A9cies', body)).toEqual([200, { ...nothing, livre: text, escolha: { n: 1 } }]);
    const exact = await send('POST', '/espécies', '{"p_situacao":"ativa","p_livre":{"n":9007199254740993}}');
    expect(exact.text).toContain('"livre":{"n": 9007199254740993}');
  });

  test('keeps the bounds of its format', async () => {
    const body = { p_situacao: 'encerrada', p_hora: '25:00:00', p_arquivo: '%', p_nota: 2 ** 31, p_cores: [1] };
    expect(await ask('POST', '/esp%C3%A9cies', JSON.stringify(body))).toEqual(
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
