import type { OpenAPIV3 } from 'openapi-types';
import { describe, expect, test } from 'vitest';
import { call, lists } from '../helpers/api.ts';

const MAX_OFFSET = 2_147_483_647;

describe.each(lists)('$id', ({ path, operation }) => {
  const names = (operation.parameters ?? []).map((parameter) => (parameter as OpenAPIV3.ParameterObject).name);
  const statusOf = async (query: string) => (await call(`${path}?${query}`)).status;
  const errorOf = async (query: string) => {
    const answer = await call(`${path}?${query}`);
    expect(answer.status).toBe(422);
    return (answer.body as { error: unknown }).error;
  };

  test.each([1, 2, 999, 1000])('takes limit=%i', async (limit) => {
    const answer = await call(`${path}?limit=${limit}`);
    expect(answer.status).toBe(200);
    expect((answer.body as unknown[]).length).toBeLessThanOrEqual(limit);
  });

  test.each([
    ['0', 'must be >= 1'],
    ['-1', 'must be >= 1'],
    ['1001', 'must be <= 1000'],
    ['99999999999999999999', 'must be <= 1000'],
  ])('refuses limit=%s', async (limit, message) => {
    expect(await errorOf(`limit=${limit}`)).toEqual({ limit: [message] });
  });

  test.each([0, 1, MAX_OFFSET - 1, MAX_OFFSET])('takes offset=%i', async (offset) => {
    expect(await statusOf(`offset=${offset}`)).toBe(200);
  });

  test.each([
    ['-1', 'must be >= 0'],
    [String(MAX_OFFSET + 1), `must be <= ${MAX_OFFSET}`],
    ['9'.repeat(400), 'must be integer'],
  ])('refuses offset=%.12s', async (offset, message) => {
    expect(await errorOf(`offset=${offset}`)).toEqual({ offset: [message] });
  });

  test.each([
    '',
    '%20',
    '1e1',
    '0x10',
    '+5',
    '%2B5',
    '5.0',
    '05',
    '-0',
    '1_0',
    '٥',
    '5%20',
    '%205',
    'NaN',
    'null',
    '1,2',
  ])('takes %j for no integer', async (text) => {
    expect(await errorOf(`limit=${text}`)).toEqual({ limit: ['must be integer'] });
    expect(await errorOf(`offset=${text}`)).toEqual({ offset: ['must be integer'] });
  });

  test.each(names)('refuses %s twice, the same or not', async (name) => {
    expect(await errorOf(`${name}=1&${name}=1`)).toEqual({ [name]: ['must be given once'] });
    expect(await errorOf(`${name}=1&${name}=2&${name}=3`)).toEqual({ [name]: ['must be given once'] });
  });

  test.each([
    'p_limit',
    'Limit',
    'limit[]',
    'limit[gt]',
    'p_api_key',
    'sort',
    '__proto__',
    'constructor',
    'toString',
    'é',
  ])('refuses the unknown parameter %s', async (name) => {
    const answer = await call(`${path}?${encodeURIComponent(name)}=1`);
    expect(answer.status).toBe(422);
    expect(JSON.stringify(answer.body)).toBe(
      `{"error":{${JSON.stringify(name)}:["is not a parameter of this operation"]}}`,
    );
  });

  test('reports all errors at once', async () => {
    expect(await errorOf('limit=0&offset=x&foo=1&bar=2')).toEqual({
      foo: ['is not a parameter of this operation'],
      bar: ['is not a parameter of this operation'],
      limit: ['must be >= 1'],
      offset: ['must be integer'],
    });
  });

  test.each(['%', '%f', '%zz', '%ff', '%C3', '%ED%A0%80', '%C0%80'])(
    'refuses a query that is not percent-encoded UTF-8: %s',
    async (text) => {
      for (const query of [`limit=${text}`, `${text}=1`, `foo=${text}&limit=0`]) {
        const answer = await call(`${path}?${query}`);
        expect(answer).toMatchObject({ status: 400, body: { error: 'Malformed URL' } });
      }
    },
  );

  test('takes separators that separate nothing', async () => {
    expect(await statusOf('&limit=1&&offset=0&')).toBe(200);
  });

  const refused = {
    ativo: ['', 'TRUE', 'True', '1', '0', 'yes', 't', 'true%20', 'null', 'sim'],
    academia_id: [
      '',
      'x',
      'a1000000-0000-4000-8000-00000000000',
      'a1000000000040008000000000000001',
      '%7Ba1000000-0000-4000-8000-000000000001%7D',
      'urn:uuid:a1000000-0000-4000-8000-000000000001',
    ],
  };
  const messages = {
    ativo: 'must be equal to one of the allowed values: true, false',
    academia_id: 'must match format "uuid"',
  };
  for (const name of ['ativo', 'academia_id'] as const) {
    if (!names.includes(name)) continue;
    test.each(refused[name])(`refuses ${name}=%s`, async (text) => {
      expect(await errorOf(`${name}=${text}`)).toEqual({ [name]: [messages[name]] });
    });
  }

  test.each(names.filter((name) => ['nome', 'id_aluno', 'id_personal', 'status'].includes(name)))(
    'refuses U+0000 in %s',
    async (name) => {
      const error = (await errorOf(`${name}=a%00b`)) as Record<string, string[]>;
      expect(error).toEqual({ [name]: ['must not contain U+0000 or an unpaired surrogate'] });
    },
  );
});
