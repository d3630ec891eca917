import { execFile } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { KEYS } from '../helpers/api.ts';
import { openTestStore, startGateway } from '../helpers/gateway.ts';

const TSC = resolve('node_modules/typescript/bin/tsc');
/** With the packages' own types checked, and without those of Node. */
const STRICT = ['--strict', '--skipLibCheck', 'false', '--target', 'es2022', '--module', 'nodenext'];

const program = (baseUrl: string, apiKey: string) => `
import { ClientError, type components, createClient } from 'wellness-gateway-client';

const baseUrl = '${baseUrl}';
const client = createClient({ baseUrl, apiKey: '${apiKey}' });
const result = await client.GET('/alunos', { query: { limit: 1 } });
if (!result.ok) throw new ClientError(result);
const [student]: components['schemas']['Aluno'][] = result.data;
const workouts: string[] = [];
for await (const { nome } of client.all('/treinos')) workouts.push(nome);
const refused = await createClient({ baseUrl, apiKey: 'wrong' }).GET('/academias');
const message = !refused.ok && refused.kind === 'refusedKey' ? refused.message : '';
console.log(JSON.stringify([student?.nome, workouts.length, message]));
`;

const project = mkdtempSync(join(tmpdir(), 'client-'));

beforeAll(async () => {
  await run('npm', ['pack', './client', '--pack-destination', project], process.cwd());
  writeFileSync(join(project, 'package.json'), JSON.stringify({ private: true, type: 'module' }));
  const tarballs = readdirSync(project).filter((file) => file.endsWith('.tgz'));
  await run('npm', ['install', '--no-audit', '--no-fund', '--prefer-offline', ...tarballs.map((file) => `./${file}`)]);
  writeFileSync(join(project, 'program.ts'), program(inject('url'), KEYS.aurora));
  writeFileSync(join(project, 'example.ts'), example);
});

afterAll(() => rmSync(project, { recursive: true }));

async function run(command: string, args: string[], cwd = project): Promise<string> {
  const { stdout } = await promisify(execFile)(command, args, { cwd });
  return stdout;
}

/** The errors of the compiler, by line. */
async function check(...args: string[]): Promise<string[]> {
  const output = await run(process.execPath, [TSC, ...args]).catch(({ code, stdout }) => stdout || `code ${code}`);
  const errors = [...output.matchAll(/^(\w+\.ts\(\d+),\d+\): error (TS\d+)/gm)].map(
    ([, place, id]) => `${place}) ${id}`,
  );
  return errors.length > 0 || output === '' ? errors : [output];
}

test('the package has no dependencies, and contains what its README promises', () => {
  const installed = readdirSync(join(project, 'node_modules')).filter((name) => !name.startsWith('.'));
  expect(installed).toEqual(['wellness-gateway-client']);
  const files = readdirSync(join(project, 'node_modules/wellness-gateway-client'), { recursive: true });
  expect(files.sort()).toEqual([
    'LICENSE',
    'README.md',
    'dist',
    'dist/client.d.ts',
    'dist/client.js',
    'dist/client.licenses.txt',
    'dist/msw.d.ts',
    'dist/msw.js',
    'dist/msw.licenses.txt',
    'dist/openapi.d.ts',
    'package.json',
  ]);
});

test('packing leaves nothing behind', () => {
  expect(existsSync('client/dist')).toBe(false);
});

test('the package has the version of the gateway, and is for the msw that the tests run', () => {
  const read = (file: string) => JSON.parse(readFileSync(file, 'utf8'));
  const [gateway, client] = [read('package.json'), read('client/package.json')];
  expect(client.version).toBe(gateway.version);
  const versions = { ...gateway.dependencies, ...gateway.devDependencies };
  expect(client.peerDependencies).toEqual({ msw: versions.msw });
  expect(readFileSync('client/LICENSE', 'utf8')).toBe(readFileSync('LICENSE', 'utf8'));
});

test('a program with it, and the example of the README, are type-checked, compiled and run', async () => {
  expect(await check(...STRICT, 'program.ts', 'example.ts')).toEqual([]);
  const output = await run(process.execPath, ['program.js']);
  expect(JSON.parse(output)).toEqual(['Ana Alves', 400, 'API Key inválida']);
});

const [example = '', mswExample = ''] = [
  ...readFileSync('client/README.md', 'utf8').matchAll(/^```js\n(.*?)^```$/gms),
].map(([, text = '']) => text);

test('the example of the README runs as a plain JavaScript module', async () => {
  const gateway = await startGateway({ store: await openTestStore() });
  const local = example.replace('http://127.0.0.1:3000/v1', gateway.url);
  expect(local).not.toBe(example);
  writeFileSync(join(project, 'example.mjs'), local);
  const output = await run(process.execPath, ['example.mjs']);
  await gateway.close();
  await gateway.store.close();
  const [id, ...names] = output.trimEnd().split('\n');
  expect(id).toMatch(/^[0-9a-f-]{36}$/);
  expect(names).toContain('Lígia Prado');
});

describe('the handlers for msw', () => {
  beforeAll(async () => {
    const { version } = JSON.parse(readFileSync('node_modules/msw/package.json', 'utf8'));
    await run('npm', ['install', '--no-audit', '--no-fund', '--prefer-offline', '--ignore-scripts', `msw@${version}`]);
  });

  test('answer in the example of the README', async () => {
    writeFileSync(join(project, 'handlers.mjs'), mswExample);
    const output = await run(process.execPath, ['handlers.mjs']);
    expect(output).toContain("[ 'Ana Alves', 'Antônio Alves' ]");
    expect(output).toContain("p_nome: [ 'must not be blank' ]");
    expect(output).toContain("message: 'API Key expirada'");
  });

  // msw's own types need those of Node.
  test('have types, in the example too', async () => {
    writeFileSync(join(project, 'handlers.ts'), mswExample);
    writeFileSync(join(project, 'misuse.ts'), mswExample.replace("'listarAlunos', 401", "'listarAlunos', 418"));
    const types = ['--typeRoots', resolve('node_modules/@types'), '--types', 'node', '--skipLibCheck'];
    const errors = await check(...STRICT, ...types, '--noEmit', 'handlers.ts', 'misuse.ts');
    expect(errors).toEqual(['misuse.ts(17) TS2345']);
  });
});
