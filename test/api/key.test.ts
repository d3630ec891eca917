import { describe, expect, inject, test } from 'vitest';
import { readExamples } from '../../src/openapi/examples.ts';
import { call, document, KEYS, operations } from '../helpers/api.ts';
import { SEED } from '../helpers/gateway.ts';
import { sendRaw } from '../helpers/raw.ts';

const examples = readExamples(document);
/** That every function verifies the key is seen in test/isolation. */
const [read, write] = ['GET', 'POST'].map((method) => operations.find((one) => one.method === method));

describe.each([read, write].filter((one) => one !== undefined))('$id', ({ id, method, path, operation }) => {
  // A request that a key with every permission is given success for.
  const success = examples.find(({ operationId, status }) => operationId === id && status < 300);
  const target = success?.request.target ?? path;
  const { body } = success?.request ?? {};
  const send = (key: string | null, options = {}) =>
    call(target, { key, method, ...(body ? { body } : {}), ...options });

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
    const { host, pathname, search } = new URL(inject('url') + target);
    const answer = await sendRaw(
      inject('url'),
      `${method} ${pathname}${search} HTTP/1.1\r\nHost: ${host}\r\nX-Api-Key: ${KEYS.aurora}\r\nX-Api-Key: ${KEYS.aurora}\r\nContent-Length: ${Buffer.byteLength(body ?? '')}\r\nConnection: close\r\n\r\n${Buffer.from(body ?? '').toString('latin1')}`,
    );
    expect(answer).toMatch(/^HTTP\/1\.1 401 /);
    expect(answer).toMatch(/\{"error":"API Key inválida"\}$/);
  });

  test('takes the header whatever its case', async () => {
    const headers = { 'x-aPI-kEY': KEYS.readOnly };
    expect((await send(null, { headers })).body).toEqual((await send(KEYS.readOnly)).body);
  });

  test('takes no key from the query', async () => {
    const separator = target.includes('?') ? '&' : '?';
    const inQuery = await call(`${target}${separator}p_api_key=${KEYS.aurora}&api_key=${KEYS.aurora}`, {
      key: null,
      method,
      ...(body ? { body } : {}),
    });
    expect(inQuery.body).toEqual({ error: 'Missing X-Api-Key header' });
  });

  test('says which permission a key lacks', async () => {
    const name = (operation as { 'x-rpc'?: string })['x-rpc'];
    const answer = await send(KEYS.readOnly);
    // The seed lists what the key may call.
    if (SEED.sql.includes(`'${name}'`)) expect(answer.status).toBe(success?.status);
    else expect(answer).toMatchObject({ status: 401, body: { error: `API Key sem permissão para ${name}` } });
  });
});
