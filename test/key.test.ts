import { describe, expect, inject, test } from 'vitest';
import { call, KEYS, operations, STUDENT } from './helpers/api.ts';
import { sendRaw } from './helpers/raw.ts';

describe.each(operations)('$id', ({ method, path }) => {
  const send = (key: string | null, options = {}) =>
    call(path, { key, method, ...(method === 'POST' ? { json: STUDENT } : {}), ...options });

  test.each([
    ['missing', null],
    ['empty', ''],
    ['blank', '  '],
  ])('refuses a request whose key is %s', async (_which, key) => {
    expect(await send(key)).toMatchObject({ status: 400, body: { error: 'Missing X-Api-Key header' } });
  });

  test.each([
    ['unknown', 'wms_demo_ninguem', 'API Key inválida'],
    ['in other case', KEYS.aurora.toUpperCase(), 'API Key inválida'],
    ['a part of one', KEYS.aurora.slice(0, -1), 'API Key inválida'],
    ['of Latin-1', 'wms_demo_\xe9', 'API Key inválida'],
    ['of UTF-8', Buffer.from('chave-é').toString('latin1'), 'API Key inválida'],
    ['of SQL', "' or true --", 'API Key inválida'],
    ['very long', 'x'.repeat(8_000), 'API Key inválida'],
    ['inactive', KEYS.inactive, 'API Key inativa'],
    ['expired', KEYS.expired, 'API Key expirada'],
  ])('refuses a key that is %s', async (_which, key, error) => {
    expect(await send(key)).toMatchObject({ status: 401, body: { error } });
  });

  test('refuses a key that is sent twice', async () => {
    const { host, pathname } = new URL(inject('url') + path);
    const body = method === 'POST' ? JSON.stringify(STUDENT) : '';
    const answer = await sendRaw(
      inject('url'),
      `${method} ${pathname} HTTP/1.1\r\nHost: ${host}\r\nX-Api-Key: ${KEYS.aurora}\r\nX-Api-Key: ${KEYS.aurora}\r\nContent-Length: ${body.length}\r\nConnection: close\r\n\r\n${body}`,
    );
    expect(answer).toMatch(/^HTTP\/1\.1 401 /);
    expect(answer).toMatch(/\{"error":"API Key inválida"\}$/);
  });

  test('takes the header whatever its case', async () => {
    const headers = { 'x-aPI-kEY': KEYS.readOnly };
    expect((await send(null, { headers })).body).toEqual((await send(KEYS.readOnly)).body);
  });

  test('takes no key from the query', async () => {
    const answer = await send(null, {});
    const inQuery = await call(`${path}?p_api_key=${KEYS.aurora}&api_key=${KEYS.aurora}`, {
      key: null,
      method,
      ...(method === 'POST' ? { json: STUDENT } : {}),
    });
    expect(inQuery.body).toEqual(answer.body);
  });

  test('says which permission a key lacks', async () => {
    const answer = await send(KEYS.readOnly);
    if (method === 'GET') expect(answer.status).toBe(200);
    else expect(answer).toMatchObject({ status: 401, body: { error: 'API Key sem permissão para criar_aluno' } });
  });
});
