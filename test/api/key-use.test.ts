import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import type { Call, Result, Store } from '../../src/store/store.ts';
import { call } from '../helpers/api.ts';
import { startGateway, type TestGateway } from '../helpers/gateway.ts';

// Which calls the store is told of: what it does with them is the contract's and SQL's.

const calls: Call[] = [];
let answerToUse: Result;
let gateway: TestGateway;

const store: Store = {
  description: 'of a test',
  call: async (call) => {
    calls.push(call);
    if (call.function === 'record_key_use') return answerToUse;
    if (call.args.p_api_key === 'refused') return { failure: { kind: 'refusedKey', text: 'API Key inválida' } };
    return { json: '[]' };
  },
  check: async () => undefined,
  describe: async () => ({ functions: [] }),
  close: async () => {},
};
const functions = () => calls.map((call) => call.function);

beforeAll(async () => {
  gateway = await startGateway({ store });
});

beforeEach(() => {
  answerToUse = { json: '[{"recorded":true}]' };
  calls.length = 0;
});

afterAll(() => gateway.close());

test('records the use of an accepted key once for many requests', async () => {
  for (const path of ['/academias', '/academias', '/alunos']) await call(path, { url: gateway.url, key: 'uma' });
  await call('/academias', { url: gateway.url, key: 'outra' });
  expect(calls.filter((call) => call.function === 'record_key_use')).toEqual([
    { function: 'record_key_use', args: { p_api_key: 'uma' }, returns: 'rows', readOnly: false },
    { function: 'record_key_use', args: { p_api_key: 'outra' }, returns: 'rows', readOnly: false },
  ]);
});

test('does not record the use of a refused key', async () => {
  await call('/academias', { url: gateway.url, key: 'refused' });
  expect(functions()).toEqual(['listar_academias']);
});

test('answers whether the use can be recorded or not, and logs why not', async () => {
  answerToUse = { failure: { kind: 'storeError', cause: 'no such function' } };
  expect((await call('/academias', { url: gateway.url, key: 'terceira' })).status).toBe(200);
  expect(gateway.faults).toEqual([{ kind: 'storeError', cause: 'no such function' }]);
});
