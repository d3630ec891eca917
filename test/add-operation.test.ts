import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { appendFileSync, cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join, resolve } from 'node:path';
import { promisify } from 'node:util';
import type { OpenAPIV3 } from 'openapi-types';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { parse } from 'yaml';
import { openEmbedded } from '../src/store/embedded/store.ts';
import type { Store } from '../src/store/store.ts';
import { document } from './helpers/api.ts';
import { copyDataDir, MIGRATIONS, startGateway, type TestGateway } from './helpers/gateway.ts';
import { readTable } from './helpers/readme.ts';

// An operation with every kind of input, added by YAML and SQL alone.

const PATHS = `
/academias/{id}/vagas:
  put:
    operationId: definirVagas
    x-rpc: definir_vagas
    parameters:
      - { name: id, in: path, required: true, schema: { type: string, format: uuid } }
      - { name: simular, in: query, schema: { type: boolean, default: false } }
      - { name: fator, in: query, schema: { type: number, minimum: 0, maximum: 10 } }
      - { name: X-Motivo, in: header, schema: { type: string, maxLength: 20 } }
    requestBody:
      required: true
      content:
        application/json:
          schema:
            type: object
            additionalProperties: false
            required: [p_vagas]
            properties:
              p_vagas: { type: integer, minimum: 0, maximum: 1000 }
              p_turno: { type: string, default: manhã }
              p_detalhes: { type: object, additionalProperties: true }
    responses:
      '200':
        description: What was set
        content:
          application/json:
            schema: { type: object }
`;

const SQL = `
create function public.definir_vagas(
  p_api_key text, p_id uuid, p_vagas integer, p_simular boolean, p_turno text,
  p_fator numeric default 1, p_motivo text default 'nenhum', p_detalhes jsonb default '{}'
)
returns table (academia text, vagas numeric, simular boolean, turno text, motivo text, detalhes jsonb)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
as $$
declare
  v_tenant constant uuid := private.verify_key(p_api_key, 'definir_vagas');
begin
  return query
    select a.nome, p_vagas * p_fator, p_simular, p_turno, p_motivo, p_detalhes
      from private.academias a
     where a.tenant_id = v_tenant and a.id = p_id;
  if not found then
    raise exception using errcode = 'PT422', message = 'is no gym of the tenant', detail = 'id';
  end if;
end;
$$;
select private.publish('public.definir_vagas');
`;

const folder = mkdtempSync(join(tmpdir(), 'operation-'));
let store: Store;
let gateway: TestGateway;

beforeAll(async () => {
  cpSync(MIGRATIONS, folder, { recursive: true });
  writeFileSync(join(folder, '20991231000000_vagas.sql'), SQL);
  store = await openEmbedded({
    dataDir: copyDataDir(inject('dataDir')),
    migrationsDir: folder,
    statementLimitMs: 5_000,
  });
  const paths = { ...document.paths, ...(parse(PATHS) as OpenAPIV3.PathsObject) };
  gateway = await startGateway({ store, document: { ...document, paths } });
});

afterAll(async () => {
  await gateway.close();
  await store.close();
  rmSync(folder, { recursive: true });
});

async function put(id: string, query: string, body: unknown, headers = {}): Promise<[number, unknown]> {
  const answer = await fetch(`${gateway.url}/academias/${id}/vagas${query}`, {
    method: 'PUT',
    headers: { 'X-Api-Key': 'wms_demo_aurora', ...headers },
    body: JSON.stringify(body),
  });
  return [answer.status, await answer.json()];
}

const CENTRO = 'a1000000-0000-4000-8000-000000000001';

test('serves the operation, with the defaults of the document and of the function', async () => {
  expect(await put(CENTRO, '', { p_vagas: 20 })).toEqual([
    200,
    { academia: 'Aurora Centro', vagas: 20, simular: false, turno: 'manhã', motivo: 'nenhum', detalhes: {} },
  ]);
});

test('passes path, query, header and body on, each with its type', async () => {
  const body = { p_vagas: 20, p_turno: 'noite', p_detalhes: { sala: [1, null, 'ç'] } };
  expect(await put(CENTRO, '?simular=true&fator=0.5', body, { 'X-Motivo': 'obra' })).toEqual([
    200,
    { academia: 'Aurora Centro', vagas: 10, simular: true, turno: 'noite', motivo: 'obra', detalhes: body.p_detalhes },
  ]);
});

test('validates all of them at once', async () => {
  const body = { p_vagas: 1.5, p_detalhes: [], p_x: 1 };
  expect(await put('x', '?simular=1&fator=11&y=1', body, { 'X-Motivo': 'a'.repeat(21) })).toEqual([
    422,
    {
      error: {
        p_x: ['is not a field of this operation'],
        p_vagas: ['must be integer'],
        p_detalhes: ['must be object'],
        y: ['is not a parameter of this operation'],
        id: ['must match format "uuid"'],
        simular: ['must be boolean'],
        fator: ['must be <= 10'],
        'X-Motivo': ['must NOT have more than 20 characters'],
      },
    },
  ]);
});

test('answers what the function raises', async () => {
  const id = 'ffffffff-ffff-4fff-8fff-ffffffffffff';
  expect(await put(id, '', { p_vagas: 1 })).toEqual([422, { error: { id: ['is no gym of the tenant'] } }]);
});

test('allows the methods of the new path', async () => {
  const answer = await fetch(`${gateway.url}/academias/${CENTRO}/vagas`);
  expect([answer.status, answer.headers.get('allow')]).toEqual([405, 'PUT']);
});

const PATH = `${resolve('node_modules/.bin')}:${process.env.PATH}`;

const TABLE = readTable('cofre', 'd');

/** Tests that follow the document and the catalog. */
const SUITES = [
  ...[
    'test/isolation',
    'test/openapi',
    'test/client/client.test.ts',
    'test/client/msw.test.ts',
    'test/http/mcp.test.ts',
  ],
  ...[
    'test/sql',
    'test/scripts/conformance.test.ts',
    'test/scripts/operation.test.ts',
    'test/store/any-operation.test.ts',
  ],
];

describe.runIf(inject('isLong'))('a copy of the project with the table of the README', () => {
  const root = mkdtempSync(join(tmpdir(), 'readme-'));
  const env = { PATH, HOME: process.env.HOME };
  const at = (...path: string[]) => join(root, ...path);
  const tableFile = at(MIGRATIONS, '20991229000000_cofres.sql');
  const operationsFile = at(MIGRATIONS, '20991229000001_operations_of_cofres.sql');

  /** Runs a command in the copy; gives the exit code and the output. */
  async function run(command: string): Promise<{ code: number | undefined; output: string }> {
    const ran = await promisify(execFile)('sh', ['-c', command], { cwd: root, env, maxBuffer: 2 ** 26 }).then(
      (output) => ({ code: 0, ...output }),
      (error: { code?: number; stdout: string; stderr: string }) => error,
    );
    return { code: ran.code, output: ran.stdout + ran.stderr };
  }
  const runTests = (files: readonly string[]) => run(`vitest run --project embedded ${files.join(' ')}`);

  beforeAll(() => {
    const skipped = /^(node_modules|\.git|dist|\.data.*|.*\.tgz)$/;
    cpSync('.', root, { recursive: true, filter: (file) => !skipped.test(basename(file)) });
    symlinkSync(resolve('node_modules'), at('node_modules'));
    writeFileSync(tableFile, TABLE.sql);
    appendFileSync(at('supabase/seed.sql'), TABLE.rows);
  });

  afterAll(() => rmSync(root, { recursive: true }));

  test('gets its operations by the commands of the README, and every check accepts them', async () => {
    const checks = TABLE.commands.slice(0, -1);
    expect(TABLE.commands).toEqual([...checks, 'npm start']);
    expect(checks).toEqual(['npm run operation -- all cofres', 'npm run generate', 'npm run check']);
    for (const command of checks) {
      const { code, output } = await run(command);
      expect(code, output).toBe(0);
    }
  }, 300_000);

  test('serves them', async () => {
    const { scripts } = JSON.parse(readFileSync('package.json', 'utf8'));
    const ownEnv = { PATH, PORT: '0', DRAIN_MS: '0', LOG_FORMAT: 'pretty' };
    const child = spawn('sh', ['-c', scripts.start], { cwd: root, env: ownEnv });
    let output = '';
    for await (const chunk of child.stdout.iterator({ destroyOnReturn: false })) {
      output += chunk;
      if (output.includes('Store: ')) break;
    }
    const [, url = ''] = /Listening on (\S+)\n/.exec(output) ?? [];
    const curl = TABLE.curl.replace('http://127.0.0.1:3000/v1', url);
    expect(curl).not.toBe(TABLE.curl);
    const { stdout } = await promisify(execFile)('sh', ['-c', `${curl} --silent`]);
    expect(JSON.parse(stdout)).toMatchObject({
      academia_id: 'a1000000-0000-4000-8000-000000000002',
      numero: 7,
      apelido: null,
      ativo: true,
    });
    child.kill();
    await once(child, 'exit');
  });

  test('passes the tests, of which none was touched', async () => {
    const { code, output } = await runTests(SUITES);
    expect(code, output).toBe(0);
  }, 900_000);

  const FUNCTIONS = 'test/isolation/any-operation.test.ts';
  const CATALOG = 'test/isolation/checks.test.ts';
  test.each<[what: string, file: string, from: string | RegExp, to: string, tests: string, sentence: string]>([
    [
      'a function that verifies no key',
      operationsFile,
      "private.verify_key(p_api_key, 'listar_cofres')",
      "'a0000000-0000-4000-8000-000000000000'",
      FUNCTIONS,
      "public.listar_cofres has to begin with private.verify_key(p_api_key, 'listar_cofres')",
    ],
    [
      'a query without the tenant',
      operationsFile,
      /where t\.tenant_id = v_tenant(?=\s+and \(p_academia_id)/,
      'where v_tenant is not null',
      FUNCTIONS,
      'listar_cofres shows rows of another tenant in the example',
    ],
    [
      'an id of another tenant that is accepted',
      operationsFile,
      /r\.tenant_id = v_tenant and (?=r\.id)/,
      '',
      FUNCTIONS,
      'which belongs to another tenant: see docs/adding-an-operation.md, "The function"',
    ],
    [
      'a table without a wall',
      tableFile,
      "select private.isolate('private.cofres');",
      '',
      CATALOG,
      'it does not hold that row security holds on every table, for its owner too; see supabase/README.md, "Add a table"',
    ],
    [
      'a success without an example',
      at('openapi.yaml'),
      /(operationId: obterCofre\n[\s\S]*?)examples:\n +found:\n +value:\n( +\w+: .*\n){6}/,
      '$1example: null\n',
      FUNCTIONS,
      'obterCofre has no example of its success: add one to its response',
    ],
  ])(
    'tells of %s',
    async (_what, file, from, to, tests, sentence) => {
      const text = readFileSync(file, 'utf8');
      const changed = text.replace(from, to);
      expect(changed).not.toBe(text);
      writeFileSync(file, changed);
      const { code, output } = await runTests([tests]);
      writeFileSync(file, text);
      expect(code, output).not.toBe(0);
      expect(output).toContain(sentence);
    },
    300_000,
  );
});
