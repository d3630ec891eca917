import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { buildClient } from '../../client/build.ts';
import type { Store } from '../../src/store/store.ts';
import { call as callGateway, KEYS, STUDENT } from '../helpers/api.ts';
import { openTestStore, startGateway, type TestGateway } from '../helpers/gateway.ts';
import { waitFor } from '../helpers/wait-for.ts';

const page = readFileSync('docs/partner-back-end.md', 'utf8');
const [example = '', copyExample = ''] = [...page.matchAll(/^```js\n(.*?)^```$/gms)].map(([, code]) => code ?? '');
const STAFF = `Basic ${Buffer.from('staff:segredo').toString('base64')}`;

/** It is within node_modules, so that the example finds Express. */
const folder = mkdtempSync(resolve('node_modules/.back-end-'));
let store: Store;
let gateway: TestGateway;
let backEnd: ChildProcessWithoutNullStreams;
let url: string;
let [output, errors] = ['', ''];

beforeAll(async () => {
  const client = join(folder, 'node_modules/wellness-gateway-client');
  mkdirSync(client, { recursive: true });
  await buildClient(join(client, 'dist'));
  writeFileSync(join(client, 'package.json'), readFileSync('client/package.json'));
  writeFileSync(join(folder, 'server.mjs'), example);
  // The copy asks for changes more often than every five seconds.
  writeFileSync(join(folder, 'copy.mjs'), copyExample.replace(/(?= \}\)\) \{\n)/, ', intervalMs: 50'));
  store = await openTestStore();
  gateway = await startGateway({ store });
  const env = { GATEWAY_URL: gateway.url, GATEWAY_KEY: KEYS.aurora, STAFF_PASSWORD: 'segredo', PORT: '0' };
  backEnd = spawn(process.execPath, ['server.mjs'], { cwd: folder, env });
  backEnd.stdout.on('data', (chunk) => {
    output += chunk;
  });
  backEnd.stderr.on('data', (chunk) => {
    errors += chunk;
  });
  url = await waitFor(() => {
    expect(output, errors).toMatch(/^Listening on http:/);
    return `${output.trim().replace('Listening on ', '')}/students`;
  });
});

afterAll(async () => {
  backEnd?.kill();
  await gateway?.close();
  await store?.close();
  rmSync(folder, { recursive: true });
});

async function call(target: string, init: RequestInit = {}): Promise<[status: number, body: unknown]> {
  const response = await fetch(target, { ...init, headers: { Authorization: STAFF, ...init.headers } });
  return [response.status, await response.json()];
}

const create = (body: object, key: string) => {
  const headers = { 'Content-Type': 'application/json', 'Idempotency-Key': key };
  return call(url, { method: 'POST', headers, body: JSON.stringify(body) });
};

test('the back end of the documentation requires a password', async () => {
  expect(await call(url, { headers: { Authorization: 'Basic c3RhZmY6' } })).toEqual([
    401,
    { error: 'Entre com a senha' },
  ]);
});

test('it finds and registers students, and a second click registers none', async () => {
  const [status, created] = await create({ nome: 'Quitéria Prado', email: 'quiteria@aurora.example' }, 'form-1');
  expect([status, created]).toEqual([201, { id: expect.any(String), nome: 'Quitéria Prado' }]);
  expect(await create({ nome: 'Quitéria Prado', email: 'quiteria@aurora.example' }, 'form-1')).toEqual([201, created]);
  expect(await call(`${url}?nome=quiteria`)).toEqual([200, [created]]);
});

test('it tells the user what is invalid, by the names of the form', async () => {
  const fields = { nome: ['Preencha este campo'], email: ['Preencha este campo'] };
  expect(await create({ nome: ' ' }, 'form-2')).toEqual([422, { error: fields }]);
});

test('the copy of the documentation has what the lists have, also what is created while it is stopped', async () => {
  const env = { GATEWAY_URL: gateway.url, GATEWAY_KEY: KEYS.bosque };
  const options = { url: gateway.url, key: KEYS.bosque };
  const isCopied = async () => {
    const copy = JSON.parse(readFileSync(join(folder, 'copy.json'), 'utf8')).records;
    for (const name of ['alunos', 'academias', 'personais', 'treinos']) {
      expect(copy[name]).toEqual((await callGateway(`/${name}?limit=1000`, options)).body);
    }
    return copy.alunos.length;
  };
  const createAnother = async () => {
    expect((await callGateway('/alunos', { ...options, json: STUDENT })).status).toBe(201);
  };
  const copied: number[] = [];
  for (let times = 0; times < 2; times += 1) {
    await createAnother();
    const program = spawn(process.execPath, ['copy.mjs'], { cwd: folder, env, stdio: 'inherit' });
    try {
      copied.push(await waitFor(isCopied));
      await createAnother();
      copied.push(await waitFor(isCopied));
    } finally {
      program.kill('SIGKILL');
    }
  }
  expect(copied).toEqual([6, 7, 8, 9]);
});

test('it logs what the user cannot correct, without the key', async () => {
  const { port } = new URL(gateway.url);
  await gateway.close();
  expect(await call(url)).toEqual([503, { error: 'Tente de novo mais tarde' }]);
  await waitFor(() => expect(errors).toBe(`The gateway gave no answer: connect ECONNREFUSED 127.0.0.1:${port}\n`));
});
