import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type CallOptions, call, KEYS, STUDENT } from '../helpers/api.ts';
import { openTestStore, startGateway, type TestGateway } from '../helpers/gateway.ts';
import { sendRaw } from '../helpers/raw.ts';

type Aluno = { id: string; criado_em: string };

const CENTRO = 'a1000000-0000-4000-8000-000000000001';
const NOT_A_GYM = 'must be the id of a gym of the tenant';
let gateway: TestGateway;

beforeAll(async () => {
  gateway = await startGateway({ store: await openTestStore() });
});

afterAll(async () => {
  await gateway.close();
  await gateway.store.close();
});

const create = (json: unknown, options: CallOptions = {}) => call('/alunos', { url: gateway.url, json, ...options });
const send = (body: string | Uint8Array<ArrayBuffer>, options: CallOptions = {}) =>
  call('/alunos', { url: gateway.url, method: 'POST', body, ...options });

test('creates a student that the list then has', async () => {
  const before = Date.now();
  const answer = await create({ ...STUDENT, p_academia_id: CENTRO, p_telefone: '1', p_sexo: 'x', p_modalidade: 'y' });
  const { id, criado_em } = answer.body as Aluno;
  expect(answer.status).toBe(201);
  expect(answer.body).toEqual({
    id,
    nome: 'Ana Prado',
    email: 'ana@aurora.example',
    ativo: true,
    academia_id: CENTRO,
    criado_em,
  });
  expect(Date.parse(criado_em)).toBeGreaterThanOrEqual(before - 1000);

  const list = await call('/alunos?nome=Ana%20Prado', { url: gateway.url });
  expect(list.body).toEqual([answer.body]);
});

test('creates in the tenant of the key alone', async () => {
  await create({ ...STUDENT, p_nome: 'Só Do Bosque' }, { key: KEYS.bosque });
  const query = `/alunos?nome=${encodeURIComponent('Só Do Bosque')}`;
  expect((await call(query, { url: gateway.url, key: KEYS.bosque })).body).toHaveLength(1);
  expect((await call(query, { url: gateway.url })).body).toEqual([]);
});

test('takes the same e-mail twice', async () => {
  const answers = await Promise.all([create(STUDENT), create(STUDENT)]);
  expect(answers.map(({ status }) => status)).toEqual([201, 201]);
  expect(new Set(answers.map(({ body }) => (body as Aluno).id)).size).toBe(2);
});

test('keeps names as they are', async () => {
  for (const nome of ['  Zé  ', '👩‍🏫 Conceição', "O'Neil; drop table alunos --", '\u202Eabc', '\\x00', 'a\nb']) {
    expect(await create({ ...STUDENT, p_nome: nome })).toMatchObject({ status: 201, body: { nome } });
  }
});

describe('p_nome', () => {
  test.each(['a', 'a'.repeat(255), '🏋'.repeat(255)])('may be of 1 to 255 characters: %s', async (p_nome) => {
    expect((await create({ ...STUDENT, p_nome })).status).toBe(201);
  });

  test.each([
    [undefined, ['is required']],
    [null, ['must be string']],
    [7, ['must be string']],
    [['Ana'], ['must be string']],
    ['', ['must NOT have fewer than 1 characters', 'must not be blank']],
    [' \t\n', ['must not be blank']],
    ['\u00A0\u3000\u0085', ['must not be blank']],
    ['a'.repeat(256), ['must NOT have more than 255 characters']],
    ['a\0b', ['must not contain U+0000 or an unpaired surrogate']],
  ])('refuses %j', async (p_nome, messages) => {
    const answer = await create({ ...STUDENT, p_nome });
    expect(answer).toMatchObject({ status: 422, body: { error: { p_nome: messages } } });
  });
});

describe('p_email', () => {
  test.each(['a@b.co', 'josé@exemplo.br'.replace('é', 'e'), "o'neil+x@sub.exemplo.com.br"])(
    'takes %s',
    async (p_email) => {
      expect(await create({ ...STUDENT, p_email })).toMatchObject({ status: 201, body: { email: p_email } });
    },
  );

  test.each(['', 'ana', 'ana@', '@b.co', 'a b@c.de', 'a@b@c.de', 'ana@aurora.example\n'])(
    'refuses %j',
    async (p_email) => {
      const answer = await create({ ...STUDENT, p_email });
      expect(answer).toMatchObject({ status: 422, body: { error: { p_email: ['must match format "email"'] } } });
    },
  );
});

describe('p_academia_id', () => {
  test.each([
    ['of another tenant', 'b1000000-0000-4000-8000-000000000001'],
    ['that does not exist', 'ffffffff-ffff-4fff-8fff-ffffffffffff'],
  ])('refuses a gym %s', async (_which, p_academia_id) => {
    const answer = await create({ ...STUDENT, p_academia_id });
    expect(answer).toMatchObject({ status: 422, body: { error: { p_academia_id: [NOT_A_GYM] } } });
  });

  test.each([
    '',
    'centro',
    'a100000000004000800000000000000001',
    `{${CENTRO}}`,
    `urn:uuid:${CENTRO}`,
    `${CENTRO} `,
    CENTRO.replaceAll('-', ''),
  ])('refuses %j', async (p_academia_id) => {
    const answer = await create({ ...STUDENT, p_academia_id });
    expect(answer).toMatchObject({ status: 422, body: { error: { p_academia_id: ['must match format "uuid"'] } } });
  });
});

describe('p_data_nascimento', () => {
  test.each(['1990-05-17', '17/05/1990', '2024-02-29', '29/02/2024'])('takes %s', async (p_data_nascimento) => {
    expect((await create({ ...STUDENT, p_data_nascimento })).status).toBe(201);
  });

  test.each([
    '',
    '2024-02-30',
    '30/02/2024',
    '2023-02-29',
    '0000-01-01',
    '00/01/2024',
    '05/17/1990',
    'today',
    'infinity',
    '1990-5-17',
    '19900517',
    '١٩٩٠-٠٥-١٧',
  ])('refuses %j', async (p_data_nascimento) => {
    const answer = await create({ ...STUDENT, p_data_nascimento });
    expect(answer.status).toBe(422);
    expect(answer.body).toEqual({
      error: { p_data_nascimento: ['must be a date that exists, as YYYY-MM-DD or DD/MM/YYYY'] },
    });
  });
});

test('reports every invalid field that needs no database at once, and then those that only the database can check', async () => {
  const foreign = 'b1000000-0000-4000-8000-000000000001';
  const date = 'must be a date that exists, as YYYY-MM-DD or DD/MM/YYYY';
  const first = await create({ ...STUDENT, p_nome: '', p_data_nascimento: '2024-02-30', p_academia_id: foreign });
  expect(first).toMatchObject({ status: 422, body: { error: { p_data_nascimento: [date] } } });
  expect(Object.keys((first.body as { error: object }).error)).toEqual(['p_nome', 'p_data_nascimento']);
  const second = await create({ ...STUDENT, p_academia_id: foreign });
  expect([second.status, second.body]).toEqual([
    422,
    { error: { p_academia_id: ['must be the id of a gym of the tenant'] } },
  ]);
});

describe('fields', () => {
  test.each([
    ['p_telefone', 40],
    ['p_sexo', 50],
    ['p_modalidade', 100],
  ])('%s takes any text of up to %i characters', async (field, length) => {
    expect((await create({ ...STUDENT, [field]: '' })).status).toBe(201);
    expect((await create({ ...STUDENT, [field]: '🏋'.repeat(length) })).status).toBe(201);
  });

  const email = (length: number) => '@aurora.example'.padStart(length, 'a');

  test('p_email takes up to 254 characters', async () => {
    const answer = await create({ ...STUDENT, p_email: email(254) });
    expect(answer).toMatchObject({ status: 201, body: { email: email(254) } });
  });

  test.each([
    ['p_email', 254, email(255)],
    ['p_telefone', 40, '🏋'.repeat(41)],
    ['p_sexo', 50, '🏋'.repeat(51)],
    ['p_modalidade', 100, '🏋'.repeat(101)],
  ])('%s refuses more than %i characters: %j', async (field, length, value) => {
    const { status, body } = await create({ ...STUDENT, [field]: value });
    expect([status, body]).toEqual([422, { error: { [field]: [`must NOT have more than ${length} characters`] } }]);
  });

  test.each(['p_api_key', 'nome', 'p_apelido', '__proto__', 'constructor', 'toString', ''])(
    'refuses one that is not declared: %s',
    async (field) => {
      const answer = await send(`{"p_nome":"Ana","p_email":"ana@aurora.example",${JSON.stringify(field)}:"x"}`);
      expect(answer.status).toBe(422);
      expect(JSON.stringify(answer.body)).toBe(
        `{"error":{${JSON.stringify(field)}:["is not a field of this operation"]}}`,
      );
    },
  );

  test('refuses parameters in the query, the key too', async () => {
    const answer = await call('/alunos?p_api_key=wms_demo_aurora&p_nome=x', { url: gateway.url, json: STUDENT });
    const message = ['is not a parameter of this operation'];
    expect(answer).toMatchObject({ status: 422, body: { error: { p_api_key: message, p_nome: message } } });
  });

  test('reports all errors at once', async () => {
    const answer = await create({ p_nome: '', p_email: 'x', p_academia_id: 'y', p_sexo: 1, z: 1 });
    expect(Object.keys((answer.body as { error: object }).error).sort()).toEqual([
      'p_academia_id',
      'p_email',
      'p_nome',
      'p_sexo',
      'z',
    ]);
  });

  test.each([
    ['"\\ud800"', 'an unpaired high surrogate'],
    ['"a\\udc00b"', 'an unpaired low surrogate'],
    ['"\\u0000"', 'U+0000'],
  ])('refuse %s, %s', async (text) => {
    const answer = await send(`{"p_nome":"Ana","p_email":"ana@aurora.example","p_sexo":${text}}`);
    const messages = ['must not contain U+0000 or an unpaired surrogate'];
    expect(answer).toMatchObject({ status: 422, body: { error: { p_sexo: messages } } });
  });

  test('refuse a name that stands twice, whatever the value that it hides', async () => {
    const deep = `${'['.repeat(40_000)}${']'.repeat(40_000)}`;
    const hidden = await send(`{"p_sexo":${deep},"p_sexo":"x","p_nome":"\\u0000","p_nome":"Ana","p_email":"a@b.co"}`);
    expect(hidden.status).toBe(422);
    expect(hidden.body).toEqual({
      error: { p_sexo: ['must not be nested deeper than 64 levels'], p_nome: ['must be given once'] },
    });
  });

  test('refuse a name that stands twice', async () => {
    const answer = await send('{"p_nome":"Ana","p_email":"ana@aurora.example","p_nome":"Bia"}');
    expect(answer).toMatchObject({ status: 422, body: { error: { p_nome: ['must be given once'] } } });
    const escaped = await send('{"p_nome":"Ana","p_email":"ana@aurora.example","p_\\u006eome":"Bia"}');
    expect(escaped).toMatchObject({ status: 422, body: { error: { p_nome: ['must be given once'] } } });
  });

  test.each([65, 1_000, 20_000])('refuse a value that is nested %i deep', async (depth) => {
    const nested = '['.repeat(depth) + ']'.repeat(depth);
    const answer = await send(`{"p_nome":"Ana","p_email":"ana@aurora.example","p_sexo":${nested}}`);
    const messages = ['must not be nested deeper than 64 levels'];
    expect(answer).toMatchObject({ status: 422, body: { error: { p_sexo: messages } } });
  });
});

describe('a body', () => {
  test.each(['', ' ', '{', '{"p_nome":}', "{'p_nome':'Ana'}", '{"a":1,}', 'p_nome=Ana', '// x\n{}', '{}{}', 'NaN'])(
    'that is not JSON is refused: %j',
    async (body) => {
      expect(await send(body)).toMatchObject({ status: 400, body: { error: 'Invalid JSON body' } });
    },
  );

  test.each([
    ['UTF-16', Buffer.from(JSON.stringify(STUDENT), 'utf16le')],
    ['Latin-1', Buffer.from('{"p_nome":"Jos\xe9","p_email":"a@b.co"}', 'latin1')],
    ['a surrogate as UTF-8', Buffer.from([0x22, 0xed, 0xa0, 0x80, 0x22])],
  ])('in %s is not JSON', async (_encoding, body) => {
    expect(await send(new Uint8Array(body))).toMatchObject({ status: 400, body: { error: 'Invalid JSON body' } });
  });

  test.each([
    '[]',
    'null',
    '1',
    '"x"',
    'true',
    `[${JSON.stringify(STUDENT)}]`,
    '['.repeat(40_000) + ']'.repeat(40_000),
  ])('that is no object is refused: %.20s', async (body) => {
    expect(await send(body)).toMatchObject({ status: 422, body: { error: { body: ['must be object'] } } });
  });

  test.each([
    undefined,
    'application/json',
    'text/plain',
    'application/x-www-form-urlencoded',
    'image/png',
    'nonsense',
  ])('is read as JSON with Content-Type %s', async (type) => {
    const headers = type ? { 'Content-Type': type } : {};
    const body = new Uint8Array(Buffer.from(JSON.stringify(STUDENT)));
    expect((await send(body, { headers })).status).toBe(201);
  });

  test('may begin with a byte order mark', async () => {
    expect((await send(`\uFEFF${JSON.stringify(STUDENT)}`)).status).toBe(201);
  });

  test('of exactly the limit is read, and a byte more is refused', async () => {
    const text = JSON.stringify(STUDENT);
    expect((await send(text.padEnd(100_000))).status).toBe(201);
    expect(await send(text.padEnd(100_001))).toMatchObject({ status: 413, body: { error: 'Request body too large' } });
  });

  test('of 20 MB is refused while it is sent', async () => {
    const answer = await send(' '.repeat(20_000_000));
    expect(answer).toMatchObject({ status: 413, body: { error: 'Request body too large' } });
  });

  test('that says to be too large is refused before any of it comes', async () => {
    const { host } = new URL(gateway.url);
    const head = `POST /v1/alunos HTTP/1.1\r\nHost: ${host}\r\nX-Api-Key: ${KEYS.aurora}\r\nConnection: close\r\n`;
    for (const expectation of ['', 'Expect: 100-continue\r\n']) {
      const answer = await sendRaw(gateway.url, `${head}Content-Length: 10000000000\r\n${expectation}\r\n`);
      expect(answer).toMatch(/^HTTP\/1\.1 413 /);
    }
  });

  test('is asked for when the client waits to be', async () => {
    const { host } = new URL(gateway.url);
    const body = JSON.stringify(STUDENT);
    const head = `POST /v1/alunos HTTP/1.1\r\nHost: ${host}\r\nX-Api-Key: ${KEYS.aurora}\r\nConnection: close\r\n`;
    const answer = await sendRaw(
      gateway.url,
      `${head}Expect: 100-continue\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
    );
    expect(answer).toMatch(/^HTTP\/1\.1 100 Continue\r\n\r\nHTTP\/1\.1 201 Created\r\n/);
  });

  test('that is compressed is not JSON', async () => {
    const zipped = new Uint8Array(gzipSync(JSON.stringify(STUDENT)));
    const answer = await send(zipped, { headers: { 'Content-Encoding': 'gzip' } });
    expect(answer).toMatchObject({ status: 400, body: { error: 'Invalid JSON body' } });
  });

  test('is not looked at without a key', async () => {
    expect(await send('{', { key: null })).toMatchObject({ status: 400, body: { error: 'Missing X-Api-Key header' } });
    expect(await send(' '.repeat(200_000), { key: null })).toMatchObject({ status: 400 });
  });

  test('is looked at before the key is verified', async () => {
    expect(await send('{', { key: 'nobody' })).toMatchObject({ status: 400, body: { error: 'Invalid JSON body' } });
    expect((await send('{}', { key: 'nobody' })).status).toBe(422);
  });
});

describe('Idempotency-Key', () => {
  const once = (key: string, json: unknown = STUDENT, options: CallOptions = {}) =>
    create(json, { headers: { 'Idempotency-Key': key }, ...options });
  const countOf = async (nome: string, key = KEYS.aurora) =>
    ((await call(`/alunos?limit=1000&nome=${encodeURIComponent(nome)}`, { url: gateway.url, key })).body as unknown[])
      .length;

  test('gives the first answer again, and makes one student', async () => {
    const student = { ...STUDENT, p_nome: 'Duas Vezes', p_academia_id: CENTRO, p_data_nascimento: '17/05/1990' };
    const first = await once('duas-vezes', student);
    const second = await once('duas-vezes', student);
    expect(second).toMatchObject({ status: 201, body: first.body });
    expect(await countOf('Duas Vezes')).toBe(1);
  });

  test('takes a body with the same fields for the same, however it is written', async () => {
    const first = await once('outra-grafia', { p_nome: 'Outra Grafia', p_email: 'a@b.co' });
    const second = await send('{ "p_email": "a@b.co",\n"p_nome": "Outra Gr\\u0061fia" }', {
      headers: { 'idempotency-key': 'outra-grafia' },
    });
    expect(second).toMatchObject({ status: 201, body: first.body });
  });

  test('makes one student of 50 requests at once', async () => {
    const student = { ...STUDENT, p_nome: 'Cinquenta' };
    const answers = await Promise.all(Array.from({ length: 50 }, () => once('cinquenta', student)));
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([201]));
    expect(new Set(answers.map(({ body }) => JSON.stringify(body))).size).toBe(1);
    expect(await countOf('Cinquenta')).toBe(1);
  });

  test.each([
    ['p_nome', 'Outro'],
    ['p_email', 'outro@aurora.example'],
    ['p_telefone', '1'],
    ['p_sexo', 'x'],
    ['p_data_nascimento', '1990-05-17'],
    ['p_academia_id', CENTRO],
    ['p_modalidade', 'y'],
  ])('that was used is refused for a body with another %s', async (field, value) => {
    await once('reusada', { ...STUDENT, p_nome: 'Reusada' });
    const answer = await once('reusada', { ...STUDENT, p_nome: 'Reusada', [field]: value });
    const error = { 'Idempotency-Key': ['was used for another request in the last 24 hours'] };
    expect(answer).toMatchObject({ status: 422, body: { error } });
    expect(await countOf('Reusada')).toBe(1);
  });

  test('of one tenant says nothing to another', async () => {
    const student = { ...STUDENT, p_nome: 'Mesma Chave' };
    const aurora = await once('mesma-chave', student);
    const bosque = await once('mesma-chave', { ...student, p_email: 'b@bosque.example' }, { key: KEYS.bosque });
    expect(bosque.status).toBe(201);
    expect((bosque.body as Aluno).id).not.toBe((aurora.body as Aluno).id);
    expect(await countOf('Mesma Chave', KEYS.bosque)).toBe(1);
  });

  test('holds for what was created alone: after a refusal the body may be another', async () => {
    const gym = 'b1000000-0000-4000-8000-000000000001';
    expect((await once('corrigida', { ...STUDENT, p_academia_id: gym })).status).toBe(422);
    expect((await once('corrigida', { ...STUDENT, p_academia_id: CENTRO })).status).toBe(201);
  });

  test('gives nothing to an API key that is refused', async () => {
    await once('sem-permissao');
    const answer = await once('sem-permissao', STUDENT, { key: KEYS.readOnly });
    expect(answer).toMatchObject({ status: 401, body: { error: 'API Key sem permissão para criar_aluno' } });
  });

  test.each(['a', '~'.repeat(255), '"quoted"'])('may be %j', async (key) => {
    expect((await once(key)).status).toBe(201);
  });

  test.each([
    ['', ['must NOT have fewer than 1 characters']],
    ['a'.repeat(256), ['must NOT have more than 255 characters']],
    ['a b', ['must be of visible ASCII characters']],
    ['\xe9', ['must be of visible ASCII characters']],
  ])('may not be %j', async (key, messages) => {
    expect(await once(key)).toMatchObject({ status: 422, body: { error: { 'Idempotency-Key': messages } } });
  });

  test('means nothing to a list', async () => {
    const headers = { 'Idempotency-Key': '' };
    expect((await call('/academias', { url: gateway.url, headers })).status).toBe(200);
  });
});

test('refuses a key without the permission', async () => {
  const answer = await create(STUDENT, { key: KEYS.readOnly });
  expect(answer).toMatchObject({ status: 401, body: { error: 'API Key sem permissão para criar_aluno' } });
});

test('leaves nothing behind when it refuses', async () => {
  const count = async () => ((await call('/alunos?limit=1000', { url: gateway.url })).body as unknown[]).length;
  const before = await count();
  await create({ ...STUDENT, p_academia_id: 'ffffffff-ffff-4fff-8fff-ffffffffffff' });
  await create({ ...STUDENT, p_data_nascimento: '2024-02-30' });
  await create(STUDENT, { key: KEYS.readOnly });
  expect(await count()).toBe(before);
  expect(gateway.faults).toEqual([]);
});
